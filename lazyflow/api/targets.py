"""The lazy values inside the arguments of one compute, and how their values replace them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyflow.graph.binding import bind
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.task import Task


class Targets:
    """The tasks inside the arguments of one call, and the places of their values.

    ``tasks`` are to be planned; ``fill`` takes their values (or rebuilt tasks) in the same order.
    With ``keep=False`` a collection may be computed from other tasks than its own; with
    ``once=True`` its tasks may write their parts of the value in place, and can run once only.
    ``light`` is true when all tasks are so short that one thread is faster than several.
    """

    def __init__(
        self, args: tuple[Any, ...], traverse: bool, keep: bool = True, once: bool = False
    ) -> None:
        if all(kinds[type(x)] == LAZY for x in args):
            self.tasks: list[Task] = list(args)
            self._items: Sequence[Any] | None = None
            self.light = False
            return
        self._items, self._binder = args, None
        if not all(kinds[type(x)] in (LAZY, COLLECTION) for x in args):
            self._items, self._binder = bind(args, {}, traverse=traverse, as_is=True)
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
        """Return the arguments with values in the places of lazy values.

        `joined` makes the value of a collection from the values of its tasks.
        """
        if self._items is None:
            return tuple(map(_plain, values))
        found = [
            _plain(values[first]) if kinds[type(item)] == LAZY else joined(item, values[first:last])
            for item, first, last in self._parts
        ]
        return tuple(self._binder.fill(found)[0] if self._binder is not None else found)


def _optimized(items: Sequence[Any], keep: bool) -> Sequence[Any]:
    """Return the items, after each class of collections has optimized all of its own at once."""
    groups: dict[Any, list[int]] = {}  # positions of the items of each class
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
    """Return the value of a collection, given those of its tasks; or the error of a failed one."""
    for value in values:
        if isinstance(value, CollectedError):
            return value.error
    return item.__lazyflow_finalize__(values)


class CollectedError:
    """Stands for the value of a task that failed, under ``on_error="collect"``."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _plain(value: Any) -> Any:
    return value.error if type(value) is CollectedError else value


