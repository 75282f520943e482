"""A task as it travels to a worker, and how it is called there.

A record is ``(id, function, arguments, inputs, drops, flags, extra)``. Arguments that are plain
numbers and strings go as they are; everything else as an encoded blob of its own, which is
opened when the task's turn comes: what can't be read, or ends the process when it is read,
is charged to this task and to no other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lazyflow.errors import InputMutated
from lazyflow.graph.arguments import Binder
from lazyflow.graph.items import check_length
from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core import slow_path
from lazyflow.schedulers.core.errors.failures import call_words
from lazyflow.schedulers.core.slots import here
from lazyflow.schedulers.core.task_resources import task_over
from lazyflow.store.values import editable, private

Record = tuple[
    int, int, Any, tuple[int, ...] | None, tuple[int, ...], int, tuple[Any, ...] | None
]

KEEP = 1  # other tasks use the result
SMALL = 2  # send it to the parent if it is small
WANT = 4  # send it in any case
BOUND = 8  # `arguments` is a template with holes: extra[0] is (positions, number, names)
BLOB = 16  # `arguments` is the encoded arguments, or their Binder
SPECIAL = 32  # extra[1] is the options that only few tasks have

#: In the place of a flight's number: versions of modules, settings, what a worker has noticed,
#: the name of something that it keeps and the program has dropped.
FOLLOW, CONFIGURE, NOTICES, DROP = -1, -2, -3, -4

_LONGEST = 1 << 16  # characters of a text, or bytes, that may go as they are


def _is_plain(items: Any) -> bool:
    for item in items:
        kind = type(item)
        if kind not in IMMUTABLE or (kind in (str, bytes) and len(item) > _LONGEST):
            return False
        if kind is int and item.bit_length() > 10_000:
            return False
    return True


def is_short(value: Any) -> bool:
    """Tell whether a number or a text may go in an answer as it is."""
    return _is_plain((value,))


_CONTAINERS = (tuple, list, set, frozenset)
_FEW = 100  # items
_DEPTH = 3  # of containers that are looked into


def is_quick(values: Any, least: int, depth: int = _DEPTH) -> bool:
    """Tell whether pickling values takes no time, can't fail, and runs nobody's code.

    `least` is the size in bytes from which they would go to shared memory.
    """
    for value in values:
        kind = type(value)
        if kind in IMMUTABLE:
            if kind in (str, bytes) and len(value) > _LONGEST:
                return False
        elif kind is slice:
            if not is_quick((value.start, value.stop, value.step), least, 0):
                return False
        elif kind in _CONTAINERS:
            if not depth or len(value) > _FEW or not is_quick(value, least, depth - 1):
                return False
        elif kind is dict:
            if not depth or len(value) > _FEW or not is_quick(value.keys(), least, depth - 1):
                return False
            if not is_quick(value.values(), least, depth - 1):
                return False
        elif not _is_small_of_numpy(kind, value, least):
            return False
    return True


def _is_small_of_numpy(kind: type, value: Any, least: int) -> bool:
    numpy: Any = sys.modules.get("numpy")
    if not hasattr(numpy, "number"):  # the last of what is needed, while it is imported
        return False
    if kind is numpy.ndarray:
        return not value.dtype.hasobject and value.nbytes < least
    return issubclass(kind, (numpy.number, numpy.bool_))


def is_quickly_packed(task: Task, least: int) -> bool:
    """Tell whether a task's arguments can be packed when it is sent: `is_quick` of all."""
    bind = task._bind
    if bind is None:
        return bool(task._inputs) or is_quick(task._args, least)
    return not bind.makers and is_quick(bind.template, least)


def travels_well(value: Any) -> bool:
    """Tell whether pickling a small value can't fail or run anybody's code."""
    kind = type(value)
    if kind in _CONTAINERS:
        return _is_plain(value)
    if kind is dict:
        return _is_plain(value) and _is_plain(value.values())
    return kind.__module__ == "numpy" and not value.dtype.hasobject


def packed_call(
    task: Task, encode: Callable[[Any], Any]
) -> tuple[Any, int, tuple[Any, ...] | None]:
    """Return arguments, flags and binding of a task's record."""
    bind = task._bind
    if bind is None:
        if task._inputs:
            return None, 0, None
        if _is_plain(task._args):
            return task._args, 0, None
        return encode(task._args), BLOB, None
    if not bind.makers and _is_plain(bind.template):
        positions = tuple([at for at, _ in bind.holes])  # type: ignore[misc]
        sources = tuple([source for _, source in bind.holes])  # type: ignore[misc]
        if sources == tuple(range(len(sources))):
            return tuple(bind.template), BOUND, (positions, bind.n_positional, bind.names)
    return encode(bind), BLOB, None


def special_of(task: Task, check: bool) -> tuple[Any, ...] | None:
    """Return what the worker has to know of a task's options; None for most."""
    options = task._options
    if not (options.retries or options.mutates or options.nout is not None or check):
        return None
    return (
        options.retries, options.mutates, options.nout, check, task_name(task), place_text(task)
    )


def call_bound(
    function: Callable[..., Any], template: tuple[Any, ...], given: list[Any], binding: Any
) -> Any:
    """Call with inputs in the holes of a template."""
    positions, count, names = binding
    items = list(template)
    for at, value in zip(positions, given, strict=True):
        items[at] = value
    if names:
        return function(*items[:count], **dict(zip(names, items[count:], strict=True)))
    return function(*items)


class Call:
    """One call with everything looked at.

    Parameters
    ----------
    function
        What to call.
    arguments, flags, extra
        Of the record; a blob is decoded already.
    raw
        The stored values of the inputs.
    copied
        For each input whether this task gets a copy of its own.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Any,
        flags: int,
        extra: Any,
        raw: list[Any],
        copied: list[bool],
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.flags = flags
        self.binding: Any = extra[0] if extra else None
        self.special: Any = extra[1] if extra else None
        self.raw = raw
        self.copied = copied
        self.given: list[Any] = raw

    def __call__(self, last: list[bool]) -> Any:
        """Return the result, after as many tries as the task may have.

        ``last[k]`` tells that nobody but this task holds input k.
        """
        if self.special is None:
            self.given = self._private()
            return self._call_once()
        retries, mutates, nout, check, name, where = self.special
        while True:
            retries -= 1
            try:
                self.given = self._editable(last if retries < 0 else None) if mutates else (
                    self._private())
                before = self._contents() if check and not mutates else None
                value = self._call_once()
                if before is not None:
                    self._compare(before, name, where)
                if nout is not None:
                    check_length(value, nout, name)
                return value
            except Exception:
                if retries < 0:
                    raise
                if here.uses:
                    task_over(None)

    def _private(self) -> list[Any]:
        if not any(self.copied):
            return self.raw
        return [private(v) if c else v for v, c in zip(self.raw, self.copied, strict=True)]

    def _editable(self, last: list[bool] | None) -> list[Any]:
        given = []
        for at in range(len(self.raw)):
            box = [self.raw[at]]
            if last is not None:
                self.raw[at] = None
            given.append(editable(box, last is not None and last[at]))
        return given

    def _call_once(self) -> Any:
        if self.flags & BOUND:
            return call_bound(self.function, self.arguments, self.given, self.binding)
        if type(self.arguments) is Binder:
            args, kwargs = self.arguments.fill(self.given)
            return self.function(*args, **kwargs)
        return self.function(*(self.given if self.arguments is None else self.arguments))

    def _contents(self) -> list[tuple[str, str]]:
        bind = self.arguments if type(self.arguments) is Binder else None
        args = () if bind is not None or self.flags & BOUND else self.arguments or ()
        task: Any = SimpleNamespace(_args=args, _bind=bind)
        return list(slow_path.contents(task, self.raw))

    def _compare(self, before: list[tuple[str, str]], name: str, where: str) -> None:
        for (what, token), (_, now) in zip(before, self._contents(), strict=True):
            if token != now:
                raise InputMutated(slow_path.mutated(name, what, where))

    def words(self) -> tuple[str, ...]:
        """Describe the arguments, for the note of a failure."""
        if self.flags & BOUND:
            positions, count, names = self.binding
            items = list(self.arguments)
            for at, value in zip(positions, self.given, strict=True):
                items[at] = value
            return call_words(items[:count], dict(zip(names, items[count:], strict=True)))
        if type(self.arguments) is Binder:
            return call_words(*self.arguments.fill(self.given))
        return call_words(self.given if self.arguments is None else list(self.arguments), {})
