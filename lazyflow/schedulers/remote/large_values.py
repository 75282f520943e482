"""Large arrays among the arguments of tasks, recognised when they are met again."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any
from weakref import ref

from lazyflow.graph.guards import base_of
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.task import Task

LARGE = 1 << 20  # bytes; a guess
_REMEMBERED = 64  # values; a guess
_SAMPLE = 64  # bytes; a guess


class KnownValue:
    """One large value: the array whose memory it is in, a sample, and where it was met.

    Attributes
    ----------
    nbytes
        Its size.
    run
        The number of the last run that it was met in.
    times
        The number of runs that it was met in.
    origin
        The line of the task that made it, if a compute returned it; else empty.
    """

    __slots__ = ("nbytes", "origin", "owner", "run", "sample", "times")

    def __init__(self, owner: ref[Any], sample: bytes, nbytes: int) -> None:
        self.owner = owner
        self.sample = sample
        self.nbytes = nbytes
        self.run = -1
        self.times = 0
        self.origin = ""

    def meet(self, run: int) -> None:
        """Note that the run of a number has it."""
        if self.run != run:
            self.run = run
            self.times += 1


class KnownValues:
    """Recognises large arrays by owner, place, size, and a sample of bytes.

    The memory of a value that is gone is soon another's, often with the same bytes (a loop that
    makes its array anew), and a value may be changed in place: each of those is another value.

    Examples
    --------
    >>> import numpy
    >>> known, x = KnownValues(), numpy.zeros(1_000_000)
    >>> known.find(x) is known.find(x[:]), known.find(x[:10])
    (True, None)
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[int, int], KnownValue] = OrderedDict()

    def find(self, value: Any) -> KnownValue | None:
        """Return the record of a large array; None for other values."""
        memory = _memory_of(value)
        if memory is None:
            return None
        array, flat = memory
        key = flat.__array_interface__["data"][0], flat.nbytes
        owner = _owner(array)
        sample = flat[:: flat.nbytes // _SAMPLE].tobytes()
        seen = self._seen.pop(key, None)
        if seen is None or seen.sample != sample or seen.owner() is not owner:
            seen = KnownValue(ref(owner), sample, flat.nbytes)
        self._seen[key] = seen
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return seen


def _owner(array: Any) -> Any:
    """Return the array whose memory a plain one shows: its blocks are new views at each compute."""
    plain: Any = sys.modules["numpy"].ndarray
    while type(array) is plain:  # the `base` of others may be anything
        below = base_of(array)
        if type(below) is memoryview:
            below = below.obj
        if kinds[type(below)] != ARRAY:
            break
        array = below
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


def named_arguments(task: Task) -> Iterator[tuple[str, Any]]:
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
