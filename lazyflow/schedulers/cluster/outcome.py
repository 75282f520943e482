"""Results as an engine holds and moves them, and pieces of tasks on their way.

An engine pickles the values that it moves; an exception of the user's pickling code would be the
engine's error, not the task's. So the engine sees only a `GroupOutcome`, whose parts lazyflow
pickles one by one, with large memory apart, and opens where they are used.

::

    results --> GroupOutcome --(the engine moves it: `packed`)--> `_received` --> value, copy, owned

State: `GroupOutcome.values` changes where the outcome is, as `value` keeps what it has opened.
`receivers`, a list of this process, is only added to (by dask/worker_memory.py).
"""

from __future__ import annotations

import ctypes
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lazyflow.errors import StoreFull
from lazyflow.graph.kinds import ARRAY, FRAME, kinds
from lazyflow.interrupts import is_users_interrupt
from lazyflow.schedulers.core.errors.records import rebuilt, record
from lazyflow.schedulers.remote.calls import unreadable_result
from lazyflow.store.memory.copying import copy_of
from lazyflow.store.ownership import copied
from lazyflow.store.pickling.pickler import Pickler, loads_owned
from lazyflow.store.pickling.serialize import pickled
from lazyflow.store.pickling.unpicklable import Unpicklable, dump
from lazyflow.store.sizes import size_of
from lazyflow.store.spilling import KeptArray, make_room, opened, stand_in


class InFile:
    """A value that tells of a worker's file, its `source`, with which it is lost."""

    __slots__ = ("source",)

    source: Any


class FileGone(Exception):
    """The file of an `InFile` has gone with its worker; ``args`` are its source."""


ROWS = (tuple, list)  # containers whose arrays are kept as those that are results themselves
KEEPER = "runs"  # of kept values, in `lazyflow.info`
LARGE = 1 << 20  # bytes from which a literal travels by itself, once; a guess


@dataclass(slots=True, eq=False, repr=False)
class PackedValue:
    """A pickled value, or the reason why it can't be pickled.

    stream, buffers
        The pickle, and its out-of-band buffers.
    why
        Path of the object that can't be pickled, record of the error, type of the object.
    held
        Actors whose handles are in it: they have to live for as long as it may be read.
    """

    stream: bytes = b""
    buffers: Sequence[Any] = ()
    why: tuple[str, Any, str] | None = None
    held: Sequence[Any] = ()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        form: Any = pickle.PickleBuffer if protocol >= 5 else bytes
        buffers = [_ROOM, *self.open_buffers()] if self.buffers else ()
        return _arrived, (self.stream, [form(b) for b in buffers], self.why)

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self.stream) + sum(
            _kept_bytes(b) or memoryview(b).nbytes for b in self.buffers)

    def keep_buffers(self, limit: int) -> None:
        """Have large buffers kept below a limit: they may be in the file of spilled values."""
        self.buffers = [_kept_buffer(buffer, limit) for buffer in self.buffers]

    def kept_bytes(self) -> int:
        """Return how many bytes are kept so."""
        return sum(map(_kept_bytes, self.buffers))

    def open_buffers(self) -> list[Any]:
        """Return the buffers for reading."""
        return [opened(buffer) for buffer in self.buffers]

    def copied(self) -> PackedValue:
        """Return a copy with memory of its own."""
        buffers = [copy_of(b) for b in self.open_buffers()]
        return PackedValue(self.stream, buffers, self.why, self.held)

    def leaving(self) -> PackedValue:
        """Return this, which will be read when this process may have forgotten it."""
        for actor in self.held:
            actor.keep_for_good()
        return self

    def owned(self) -> Any:
        """Return the value for a sole owner, which may edit it; raise as `opened` does."""
        given = self.open_buffers()
        buffers = [copy_of(b) if memoryview(b).readonly else b for b in given]
        return loads_owned(PackedValue(self.stream, buffers, self.why).opened)

    def checked(self) -> PackedValue:
        """Return this; raise Unpicklable if it is the reason why there is no pickle."""
        if self.why is not None:
            path, error, culprit = self.why
            raise Unpicklable(path, rebuilt(error), culprit)
        return self

    def opened(self) -> Any:
        """Return the value; raise Unpicklable or SerializationError."""
        self.checked()
        try:
            return pickle.loads(self.stream, buffers=self.open_buffers())
        except MemoryError:
            raise
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            raise unreadable_result(error) from error


#: Goes before the memory of a value. distributed reads the first memory of a message together with
#: the message's head, and what is bytes between them, so that arrays in it are not aligned: a
#: product of vectors takes a hundred times as long. Then it is moved by some bytes.
_ROOM = bytes(16)


def _arrived(stream: bytes, buffers: Sequence[Any], why: Any) -> PackedValue:
    """Return a packed value that has travelled, with its memory aligned."""
    aligned = [_aligned(room, buffer) for room, buffer in pairwise(buffers)]
    return PackedValue(stream, aligned, why)


def _aligned(room: Any, buffer: Any) -> Any:
    """Return memory, moved into `room` if need be and if that lies before it."""
    import numpy as np

    before, view = memoryview(room), memoryview(buffer)
    address = np.frombuffer(view, np.uint8).ctypes.data
    shift = address % len(_ROOM)
    if not shift:
        return buffer
    end = np.frombuffer(before, np.uint8).ctypes.data + len(_ROOM)
    if view.readonly or len(before) != len(_ROOM) or before.obj is not view.obj or end != address:
        return copy_of(view)
    ctypes.memmove(address - shift, address, view.nbytes)
    whole = np.frombuffer(memoryview(view.obj), np.uint8)
    start = address - shift - whole.ctypes.data
    return whole[start : start + view.nbytes].data


def _kept_buffer(buffer: Any, limit: int) -> Any:
    """Return the stored form of memory from a message, whose array nothing else holds."""
    import numpy as np

    view = memoryview(buffer)
    whole: Any = view
    while type(whole) is memoryview or (type(whole) is np.ndarray and whole.base is not None):
        whole = whole.obj if type(whole) is memoryview else whole.base
    if type(whole) is not np.ndarray or whole.dtype != np.uint8 or not view.contiguous:
        return buffer
    start = np.frombuffer(view, np.uint8).ctypes.data - whole.ctypes.data
    whole.flags.writeable = False
    return kept(whole.reshape(-1)[start : start + view.nbytes], limit)


def _kept_bytes(value: Any) -> int:
    """Return how many bytes of a value, or in a row of them, are kept below a limit."""
    if type(value) is KeptArray:
        return value.size
    if type(value) is PackedValue:
        return value.kept_bytes()
    is_row = type(value) in ROWS
    return sum(each.size for each in value if type(each) is KeptArray) if is_row else 0


def _opened(value: Any) -> Any:
    """Return a value, or row of values, with arrays for those that are kept."""
    if type(value) in ROWS and any(type(each) is KeptArray for each in value):
        return type(value)(map(opened, value))
    return opened(value)


def kept(array: Any, limit: int) -> Any:
    """Return the stored form of an array, which is itself if there is no room in the file."""
    held = stand_in(array, KEEPER, is_own=True)
    try:
        make_room(limit)
    except StoreFull:
        return array
    return held


def packed(value: Any) -> PackedValue:
    """Pickle a value with large memory out of band; a failure is packed as well."""
    if type(value) is PackedValue:
        return value
    try:
        stream, buffers, held = pickled(value)
    except Unpicklable as failed:
        return PackedValue(b"", (), (failed.path, record(failed.error), failed.culprit))
    return PackedValue(stream, buffers, held=held)


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class GroupOutcome:
    """The results of a group of tasks, as an engine keeps them.

    values
        Results by number of their task; a `PackedValue` has travelled and is not opened yet.
    failed
        For each missing result the task that has failed, as (run, number of the task).
    travelled
        Whether it was pickled; else it is the engine's own object, in a cluster of this process.
    end
        A function that is called when it is gone.
    key
        The engine's name of it, where that is known.
    """

    values: dict[int, Any]
    failed: dict[int, tuple[str, int]] = field(default_factory=dict)
    travelled: bool = False
    end: Any = None
    key: Any = None

    def owned(self, i: int) -> Any:
        """Return a result as the caller's own; if it has travelled, the caller alone has this."""
        value = self.values[i]
        return value.owned() if self.travelled and type(value) is PackedValue else self.copy(i)

    def copy(self, i: int) -> Any:
        """Return a result in memory of its own."""
        value = self.values[i]
        return value.copied().owned() if type(value) is PackedValue else copied(_opened(value))

    def value(self, i: int) -> Any:
        """Return a result, opened once; or each time, if the file of spilled values may have it."""
        value = self.values[i]
        if type(value) is PackedValue:
            found = value.opened()
            if not value.kept_bytes():
                self.values[i] = found
            return found
        return _opened(value)

    def kept_bytes(self) -> int:
        """Return how many bytes are kept below a limit: in memory, or in a file."""
        return sum(map(_kept_bytes, self.values.values()))

    def is_of(self, source: Any) -> bool:
        """Tell whether a result is in a file."""
        return any(isinstance(v, InFile) and v.source == source for v in self.values.values())

    def part(self, numbers: Sequence[int]) -> GroupOutcome:
        """Return the outcome of some of the tasks."""
        values = {i: self.values[i] for i in numbers if i in self.values}
        failed = {i: self.failed[i] for i in numbers if i in self.failed}
        return GroupOutcome(values, failed, self.travelled)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        values = {
            i: v if type(v) is PackedValue else packed(_opened(v)).leaving()
            for i, v in self.values.items()
        }
        return _received, (values, self.failed, self.key)

    def __sizeof__(self) -> int:
        return 64 + sum(
            v.size() if type(v) is PackedValue else _kept_bytes(v) or size_of(v)
            for v in self.values.values()
        )


#: Functions that are called with each outcome that this process gets.
receivers: list[Callable[[GroupOutcome], object]] = []


def _received(values: dict[int, Any], failed: dict[int, Any], key: Any) -> GroupOutcome:
    outcome = GroupOutcome(values, failed, True, key=key)
    for receive in receivers:
        receive(outcome)
    return outcome


def adopted(value: Any) -> GroupOutcome:
    """Return a value of the engine's own as the outcome of a group."""
    return GroupOutcome({0: value})


# -- pieces of tasks ------------------------------------------------------------------------


class _Cutter(Pickler):
    """A pickler that leaves objects out for which `apart` returns an index."""

    def __init__(self, apart: Callable[[Any], int | None]) -> None:
        super().__init__(sys.maxsize)
        self._apart = apart

    def persistent_id(self, obj: Any) -> Any:
        """Called by `pickle` for each object."""
        return self._apart(obj)


def is_large(obj: Any) -> bool:
    """Return whether a literal is worth sending by itself.

    >>> is_large(b"x" * LARGE), is_large([0] * LARGE), is_large("x")
    (True, False, False)
    """
    kind = type(obj)
    if kind is bytes or kind is bytearray:
        return len(obj) >= LARGE
    sort = kinds[kind] if kind is not type else None
    if sort == ARRAY:
        return bool(obj.nbytes >= LARGE)
    return sort == FRAME and size_of(obj) >= LARGE


def piece(value: Any, apart: Callable[[Any], int | None]) -> bytes:
    """Pickle a part of a task; raise Unpicklable."""
    cutter = _Cutter(apart)
    dump(value, cutter)
    return b"".join(cutter.pieces)


class _Opener(pickle.Unpickler):
    def __init__(self, data: bytes, large: Callable[[int], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._large = large

    def persistent_load(self, pid: Any) -> Any:
        return self._large(pid)


def open_piece(data: bytes, large: Callable[[int], Any]) -> Any:
    """Unpickle a part of a task; `large` returns the literals that were left out."""
    return _Opener(data, large).load()
