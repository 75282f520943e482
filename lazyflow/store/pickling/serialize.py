"""Values as they travel to other processes.

A value becomes a short stream and its large buffers, which go through shared memory: the receiver
uses them where they are. Large bytes and strings, which pickle puts into the stream, are not
copied there: they are cut out of it and written to shared memory as well.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections import deque
from collections.abc import Callable
from io import RawIOBase
from typing import Any

from lazyflow.store.memory.shared import Segment
from lazyflow.store.pickling.pickler import PROTOCOL, Pickler
from lazyflow.store.pickling.unpicklable import dump

_MIN_BUFFER = 65_536  # bytes from which a buffer leaves the stream, as config.share_from
_CUT = 262_144  # pickle writes larger pieces singly; its own frames stay below this
_STREAM = 0x80  # the first byte of a pickle; a stream with pieces cut out starts with 0
_HEAD = struct.Struct("<BI")
_NUMBERS = 1  # the first byte of a small array of numbers, which is sent without pickle
_NUMBERS_HEAD = struct.Struct("<BcB5x")  # that byte, the type's letter, and how long the shape is
_LETTERS = frozenset("?bBhHiIlLqQefdFD")
_ATOMS = frozenset({int, float, complex, bool, type(None)})
_SIZED = frozenset({str, bytes})


def pickled(value: Any) -> tuple[bytes, list[memoryview], list[Any]]:
    """Pickle a value for a socket or an engine; raise Unpicklable.

    Returns the stream, the large memory that is kept out of it, and the actors whose handles are in
    it: they have to live for as long as the stream may be read.
    """
    pickler = Pickler(_MIN_BUFFER)
    dump(value, pickler)
    return b"".join(pickler.pieces), [b.raw() for b in pickler.buffers], pickler.handles


class Encoded:
    """A value as it travels: a stream, and the buffers that it refers to.

    Attributes
    ----------
    payload : bytes or Segment
        The stream.
    buffers : tuple of bytes or Segment
        Memory that the stream refers to.
    size : int
        Bytes of both.
    held : list
        Actors whose handles are in it: they have to live for as long as it may be read.
    """

    __slots__ = ("buffers", "held", "payload", "size")

    def __init__(
        self,
        payload: bytes | Segment,
        buffers: tuple[bytes | Segment, ...] = (),
        size: int | None = None,
    ) -> None:
        self.payload = payload
        self.buffers = buffers
        self.held: list[Any] | None = None
        if size is None:
            size = sum(each[2] if type(each) is tuple else len(each) for each in self.parts())
        self.size = size

    def parts(self) -> tuple[bytes | Segment, ...]:
        """Return the payload and the buffers."""
        return (self.payload, *self.buffers)

    def segments(self) -> list[Segment]:
        """Return the parts that are in shared memory."""
        return [each for each in self.parts() if type(each) is tuple]


def encode(
    value: Any,
    write: Callable[[Any], Segment],
    least: int = _MIN_BUFFER,
    free: Callable[[Segment], None] | None = None,
    by_path: bool = False,
    explain: bool = True,
) -> Encoded:
    """Return a value in the form in which it travels.

    Parameters
    ----------
    write : callable
        Puts a buffer into shared memory.
    least : int
        Bytes from which a buffer goes there; smaller ones are part of the stream.
    free : callable, optional
        Takes back the segments that were written before `write` raised.
    by_path : bool
        Parts of mapped files are not written, but mapped again by the receiver.
    explain : bool
        Whether to look for the object that can't be pickled, which takes long; else `Unpicklable`
        does not name it.

    Raises
    ------
    Unpicklable
        The value can't be pickled; nothing was written.

    Examples
    --------
    >>> encoded = encode([1, "two"], write=None)
    >>> encoded.size, decode(encoded, view=None)
    (24, [1, 'two'])
    """
    kind = type(value)
    if kind in _ATOMS or (kind in _SIZED and len(value) < least >> 2):
        payload = pickle.dumps(value, PROTOCOL)
        if len(payload) < least:
            return Encoded(payload, (), len(payload))
    if kind.__name__ == "ndarray" and _is_of_numbers(value, least):
        return _of_numbers(value)
    pickler = Pickler(least, by_path)
    dump(value, pickler, explain)
    pieces = pickler.pieces
    if len(pieces) == 1 and not pickler.buffers and len(pieces[0]) < least:
        encoded = Encoded(pieces[0], (), len(pieces[0]))
    else:
        encoded = _written(pieces, pickler.buffers, write, least, free)
    encoded.held = pickler.handles or None
    return encoded


def _is_of_numbers(array: Any, least: int) -> bool:
    """Tell whether a value is a small array that can go without pickle, which takes far longer."""
    if type(array) is not getattr(sys.modules.get("numpy"), "ndarray", None):
        return False
    flags, dtype = array.flags, array.dtype
    return bool(
        array.nbytes + 8 * array.ndim + _NUMBERS_HEAD.size < least
        and flags.c_contiguous and flags.writeable and dtype.isbuiltin == 1
        and dtype.char in _LETTERS and dtype.metadata is None
    )


def _of_numbers(array: Any) -> Encoded:
    shape = array.shape
    head = _NUMBERS_HEAD.pack(_NUMBERS, array.dtype.char.encode(), len(shape))
    payload = b"".join((head, struct.pack(f"<{len(shape)}Q", *shape), array))
    return Encoded(payload, (), len(payload))


def _numbers_from(payload: bytes) -> Any:
    _, letter, dimensions = _NUMBERS_HEAD.unpack_from(payload)
    shape = struct.unpack_from(f"<{dimensions}Q", payload, _NUMBERS_HEAD.size)
    at = _NUMBERS_HEAD.size + 8 * dimensions
    import numpy as np

    return np.ndarray(shape, letter.decode(), bytearray(payload), at)


def _written(
    pieces: list[Any],
    buffers: list[pickle.PickleBuffer],
    write: Callable[[Any], Segment],
    least: int,
    free: Callable[[Segment], None] | None,
) -> Encoded:
    stream, cut = _without_large(pieces, max(least, _CUT))
    segments: list[Segment] = []
    try:
        for buffer in [*buffers, *cut]:
            segments.append(write(buffer))  # noqa: PERF401 - on failure, written segments are needed
        payload = write(stream) if len(stream) >= least else stream
    except BaseException:
        if free is not None:
            for segment in segments:
                free(segment)
        raise
    return Encoded(payload, tuple(segments))


def _without_large(pieces: list[Any], least: int) -> tuple[bytes, list[Any]]:
    """Return the stream without its large pieces, after their positions, and the pieces."""
    rest: list[Any] = []
    cut: list[Any] = []
    positions: list[int] = []
    at = 0
    for piece in pieces:
        if len(piece) < least:
            rest.append(piece)
            at += len(piece)
        else:
            cut.append(piece)
            positions.append(at)
    if not cut:
        return b"".join(rest), cut
    table = struct.pack(f"<{len(positions)}Q", *positions)
    return b"".join([_HEAD.pack(0, len(positions)), table, *rest]), cut


def decode(encoded: Encoded, view: Callable[[Segment], Any]) -> Any:
    """Return the value that was encoded.

    Parameters
    ----------
    view : callable
        Returns the memory of a segment as a buffer that keeps it alive: see `Mappings.view`.
    """
    payload: Any = encoded.payload
    if type(payload) is not bytes:
        payload = view(payload)
    buffers: list[Any] = [view(b) if type(b) is tuple else b for b in encoded.buffers]
    if payload[0] == _STREAM:
        return pickle.loads(payload, buffers=buffers)
    if payload[0] == _NUMBERS:
        return _numbers_from(payload)
    _, count = _HEAD.unpack_from(payload)
    start = _HEAD.size + 8 * count
    positions = struct.unpack_from(f"<{count}Q", payload, _HEAD.size)
    data = memoryview(payload)[start:]
    first = len(buffers) - count
    parts: list[memoryview] = []
    done = 0
    for position, piece in zip(positions, buffers[first:], strict=True):
        parts += (data[done:position], memoryview(piece))
        done = position
    return pickle.Unpickler(_PieceReader([*parts, data[done:]]), buffers=buffers[:first]).load()


class _PieceReader(RawIOBase):
    """A file of pieces of memory, for the unpickler."""

    def __init__(self, parts: list[memoryview]) -> None:
        self._parts = deque(parts)

    def readinto(self, target: Any) -> int:
        """Fill a buffer with the next bytes, as far as there are some left."""
        goal = memoryview(target)
        done = 0
        while done < len(goal) and self._parts:
            part = self._parts.popleft()
            step = min(len(part), len(goal) - done)
            goal[done : done + step] = part[:step]
            done += step
            if step < len(part):
                self._parts.appendleft(part[step:])
        return done
