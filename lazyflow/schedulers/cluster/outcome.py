"""Results as an engine holds and moves them, and pieces of tasks on their way.

An engine pickles what it moves, and what pickling the user's objects raises would be its error
and not the task's. So it gets to see a `GroupOutcome` only, whose parts lazyflow pickles one by
one, large memory apart, and opens where they are used.
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

LARGE = 1 << 20  # bytes from which a literal travels by itself, once


@dataclass(slots=True, eq=False, repr=False)
class PackedValue:
    """A pickled value, or the reason why it can't be pickled.

    stream, buffers
        The pickle, and its out-of-band buffers.
    why
        Path of the object that can't be pickled, record of the error, type of the object.
    held
        What has to live for as long as it may be read: actors whose handles are in it.
    """

    stream: bytes = b""
    buffers: Sequence[Any] = ()
    why: tuple[str, Any, str] | None = None
    held: Sequence[Any] = ()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        form: Any = pickle.PickleBuffer if protocol >= 5 else bytes
        buffers = [_ROOM, *self.buffers] if self.buffers else ()
        return _arrived, (self.stream, [form(b) for b in buffers], self.why)

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self.stream) + sum(memoryview(b).nbytes for b in self.buffers)

    def copied(self) -> PackedValue:
        """Return a copy with memory of its own."""
        return PackedValue(self.stream, [copy_of(b) for b in self.buffers], self.why, self.held)

    def leaving(self) -> PackedValue:
        """Return this, which will be read when this process may have forgotten it."""
        for actor in self.held:
            actor.keep_for_good()
        return self

    def owned(self) -> Any:
        """Return the value for a sole owner, which may edit it; raise as `opened` does."""
        buffers = [copy_of(b) if memoryview(b).readonly else b for b in self.buffers]
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
            return pickle.loads(self.stream, buffers=self.buffers)
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
    """

    values: dict[int, Any]
    failed: dict[int, tuple[str, int]] = field(default_factory=dict)
    travelled: bool = False

    def owned(self, i: int) -> Any:
        """Return a result as the caller's own; if it has travelled, the caller alone has this."""
        value = self.values[i]
        return value.owned() if self.travelled and type(value) is PackedValue else self.copy(i)

    def copy(self, i: int) -> Any:
        """Return a result in memory of its own."""
        value = self.values[i]
        return value.copied().owned() if type(value) is PackedValue else copied(value)

    def value(self, i: int) -> Any:
        """Return a result, opened once."""
        value = self.values[i]
        if type(value) is PackedValue:
            value = self.values[i] = value.opened()
        return value

    def part(self, numbers: Sequence[int]) -> GroupOutcome:
        """Return the outcome of some of the tasks."""
        values = {i: self.values[i] for i in numbers if i in self.values}
        failed = {i: self.failed[i] for i in numbers if i in self.failed}
        return GroupOutcome(values, failed, self.travelled)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        values = {
            i: v if type(v) is PackedValue else packed(v).leaving() for i, v in self.values.items()
        }
        return GroupOutcome, (values, self.failed, True)

    def __sizeof__(self) -> int:
        return 64 + sum(
            v.size() if type(v) is PackedValue else size_of(v) for v in self.values.values()
        )


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
