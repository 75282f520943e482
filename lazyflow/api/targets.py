"""The lazy values inside the arguments of one compute, and how results go back in their places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyflow.api.collection import Collection
from lazyflow.graph.arguments import bind
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.task import Task


class Wanted:
    """The tasks inside some arguments, and how their values go back in.

    ``tasks`` is what has to be planned; ``fill`` takes values (or rebuilt tasks) in that order.
    With ``keep=False`` collections may be made of other parts than they say; with ``once=True``
    their tasks may put parts of the value in place, so that they can be run once only.
    ``light``: all tasks are so short that one thread does them sooner than several.
    """

    def __init__(
        self, args: tuple[Any, ...], traverse: bool, keep: bool = True, once: bool = False
    ) -> None:
        if all(kinds[type(x)] == LAZY for x in args):
            self.tasks: list[Task] = list(args)
            self._items: Sequence[Any] | None = None
            self.light = False
            return
        self._items, binder = bind(args, {}, traverse=traverse, as_is=True)
        self._binder = binder
        self._parts: list[tuple[Any, int, int]] = []  # (item, first, last) of self.tasks
        self.tasks = []
        self.light = True
        for item in _optimized(self._items, keep):
            is_task = kinds[type(item)] == LAZY
            self.light = self.light and not is_task and item.__lazyflow_light__
            if once and not is_task:
                item = item.__lazyflow_once__()
            tasks = [item] if is_task else list(item.__lazyflow_tasks__())
            self._parts.append((item, len(self.tasks), len(self.tasks) + len(tasks)))
            self.tasks.extend(tasks)

    def fill(self, values: list[Any], joined: Callable[[Any, list[Any]], Any]) -> tuple[Any, ...]:
        """Return the arguments with values put in; `joined` makes one of a collection's."""
        if self._items is None:
            return tuple(map(_plain, values))
        found = [
            _plain(values[first]) if kinds[type(item)] == LAZY else joined(item, values[first:last])
            for item, first, last in self._parts
        ]
        return tuple(self._binder.fill(found)[0])


def _optimized(items: Sequence[Any], keep: bool) -> Sequence[Any]:
    """Let each class of collections see all of its kind that this call wants."""
    groups: dict[type[Collection], list[int]] = {}
    for at, item in enumerate(items):
        if kinds[type(item)] == COLLECTION:
            groups.setdefault(type(item), []).append(at)
    if not groups:
        return items
    found = list(items)
    for cls, places in groups.items():
        better = cls.__lazyflow_optimize__([items[at] for at in places], keep=keep)
        for at, item in zip(places, better, strict=True):
            found[at] = item
    return found


def finalized(item: Any, values: list[Any]) -> Any:
    """Return the value of a collection whose parts have these, or the error of one."""
    for value in values:  # on_error="collect": a failed part fails the whole
        if isinstance(value, Failed):
            return value.error
    return item.__lazyflow_finalize__(values)


class Failed:
    """Stands for a missing value under ``on_error="collect"``."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _plain(value: Any) -> Any:
    return value.error if type(value) is Failed else value


