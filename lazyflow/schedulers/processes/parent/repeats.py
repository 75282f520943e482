"""Advice on large values that are sent to the workers again and again, once for every compute."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any
from weakref import ref

from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.task import Task, task_name
from lazyflow.schedulers.core.errors.failures import summary
from lazyflow.store.sizes import format_bytes

LARGE = 1 << 20  # bytes
_TIMES = 3  # computes that have sent it, before advice is given
_REMEMBERED = 64  # values
_SAMPLE = 64  # bytes


class _Sent:
    """One large value: the array whose memory it is in, a sample, and what has sent it."""

    __slots__ = ("owner", "run", "sample", "times")

    def __init__(self, owner: ref[Any], sample: bytes) -> None:
        self.owner = owner
        self.sample = sample
        self.run = -1
        self.times = 0


class RepeatedCopies:
    """Notices large values that are copied often, by owner, place, size, and a sample of bytes.

    The memory of a value that is gone is soon another's, often with the same bytes (a loop that
    makes its array anew), and a value may be changed in place: each of those is sent for a reason.
    """

    def __init__(self) -> None:
        #: For the caller's thread to show: a warning needs the user's line.
        self.advice: deque[str] = deque()
        self._seen: OrderedDict[tuple[int, int], _Sent] = OrderedDict()
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
        owner = _owner(array)
        sample = flat[:: flat.nbytes // _SAMPLE].tobytes()
        seen = self._seen.pop(key, None)
        if seen is None or seen.sample != sample or seen.owner() is not owner:
            seen = _Sent(ref(owner), sample)
        if seen.run != run:
            seen.run = run
            seen.times += 1
        self._seen[key] = seen
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if seen.times == _TIMES and what not in self._said:
            self._said.add(what)
            self.advice.append(
                f"{what}, {summary(array)}, was copied for the workers by {_TIMES} computes, "
                f"{format_bytes(flat.nbytes)} each time. Put it there once, x = lazyflow.put(x), "
                "and pass that: workers then read it where it is"
            )


def _owner(array: Any) -> Any:
    """Return the array whose memory a plain one shows: its blocks are new views at each compute."""
    while kinds[type(array.base)] == ARRAY:
        array = array.base
        if type(array) is not sys.modules["numpy"].ndarray:  # whose own `base` may be anything
            break
    return array


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
