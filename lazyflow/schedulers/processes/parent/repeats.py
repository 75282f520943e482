"""Advice on large values that are sent to the workers again and again, once for every compute."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.task import Task, task_name
from lazyflow.schedulers.core.errors.failures import summary
from lazyflow.store.sizes import format_bytes

LARGE = 1 << 20  # bytes
_TIMES = 3  # computes that have sent it, before advice is given
_REMEMBERED = 64  # values
_SAMPLE = 64  # bytes


class RepeatedCopies:
    """Notices large values that are copied often, by place, size, and a sample of their bytes.

    Memory is soon another value's: place and size alone would take the arrays of a loop for one.
    """

    def __init__(self) -> None:
        #: For the caller's thread to show: a warning needs the user's line.
        self.advice: deque[str] = deque()
        self._seen: OrderedDict[tuple[int, int], tuple[bytes, int, int]] = OrderedDict()
        self._said: set[str] = set()

    def look(self, run: int, task: Task) -> None:
        """Look at the arguments of a task, which are sent in encoded form."""
        for name, value in _arguments(task):
            self.note(run, value, f"{name} of {task_name(task)}")

    def note(self, run: int, value: Any, what: str) -> None:
        """Note that the run of a number sends a value; `what` describes it."""
        memory = _memory_of(value)
        if memory is None:
            return
        array, flat = memory
        key = flat.__array_interface__["data"][0], flat.nbytes
        sample = flat[:: flat.nbytes // _SAMPLE].tobytes()
        known, last, times = self._seen.pop(key, (sample, run, 0))
        if known != sample or last != run or not times:
            times = times + 1 if known == sample else 1
        self._seen[key] = sample, run, times
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if times == _TIMES and what not in self._said:
            self._said.add(what)
            self.advice.append(
                f"{what}, {summary(array)}, was copied for the workers by {times} computes, "
                f"{format_bytes(flat.nbytes)} each time. Put it there once, x = lazyflow.put(x), "
                "and pass that: workers then read it where it is"
            )


def _memory_of(value: Any) -> tuple[Any, Any] | None:
    """Return a large array and its bytes, by methods of NumPy alone; None for all else.

    Subclasses, as masked arrays and quantities, may do anything when they are looked at.
    """
    if kinds[type(value)] != ARRAY:
        return None
    ndarray: Any = sys.modules["numpy"].ndarray
    array = ndarray.view(value, ndarray)
    if array.nbytes < LARGE or array.dtype.hasobject or not array.flags.c_contiguous:
        return None
    return array, array.reshape(-1).view("u1")


def _arguments(task: Task) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the arguments of a call."""
    import inspect  # which takes 2 ms, and few programs send large arguments

    args: list[Any] = list(task._args)
    kwargs: dict[str, Any] = {}
    if task._bind is not None:
        args, kwargs = task._bind.fill([None] * len(task._inputs))
    try:
        names = list(inspect.signature(task._func).parameters)
    except Exception:  # a builtin without a signature, or an error of the user's class
        names = []
    for i, value in enumerate(args):
        yield (f"argument {names[i]!r}" if i < len(names) else f"argument {i + 1}"), value
    for name, value in kwargs.items():
        yield f"argument {name!r}", value
