"""Values that hold arrays, kept below `memory_limit`: frames, sparse matrices, containers.

Such a value is pickled when it is stored, with two exceptions. Its memory is not copied: a
`KeptArray` takes the place of each array, and of each large buffer of another library, so that
memory counts once and goes to the file as that of arrays does. Objects of classes that are not
taken apart here (a model in a dict, a lock, a function, Python objects in a column) are kept, and
are in each value that is opened again. So only the containers are made anew for each use.

A value whose stream is longer than the memory that could be spilled stays as it is.
"""

from __future__ import annotations

import pickle
import sys
from io import BytesIO
from typing import Any

from lazyflow.graph.kinds import (
    ARRAY,
    DATACLASS,
    DICT,
    DICTLIKE,
    FRAME,
    FROZENSET,
    IMMUTABLE,
    KEPT,
    LIST,
    LISTLIKE,
    NAMEDTUPLE,
    SET,
    TUPLE,
    TypeTable,
    kinds,
    tables,
)
from lazyflow.store.protected import QUICK, has_no_array
from lazyflow.store.spilling import (
    LEAST,
    KeptArray,
    TellsSpilled,
    make_room,
    opened,
    stand_in,
    stand_in_of_bytes,
)
from lazyflow.store.values import IteratorItems

_MOST_PARTS = 50_000  # objects that are looked at in one value; a guess

_CONTAINERS = frozenset({
    DATACLASS, DICT, DICTLIKE, FROZENSET, LIST, LISTLIKE, NAMEDTUPLE, SET, TUPLE,
})


def _in_pieces(t: type) -> bool:
    library = str(t.__module__).partition(".")[0]
    return kinds[t] in _CONTAINERS or kinds[t] == FRAME or tables[t] or library == "pandas"


#: Types of objects that are pickled, besides plain ones; others are kept as they are.
_is_pickled = TypeTable(_in_pieces)

#: Types of values that may be worth it.
_is_candidate = TypeTable(
    lambda t: t is not IteratorItems and (
        kinds[t] in _CONTAINERS or kinds[t] in (ARRAY, FRAME) or tables[t])
)


class _StaysAsItIs(Exception):
    """A value has too many parts."""


class _KeptPickler(pickle.Pickler):
    """Pickles one value but for its `parts`.

    parts
        A `KeptArray` for each array that can be spilled, and objects that are kept.
    known
        The numbers of parts, by the ids of these objects in the value.
    alive
        These objects, so that the ids stay valid.
    """

    def __init__(self, stream: BytesIO, keeper: str) -> None:
        super().__init__(stream, 5)
        self.keeper = keeper
        self.parts: list[Any] = []
        self.known: dict[int, int] = {}
        self.alive: list[Any] = []
        self.seen = 0

    def persistent_id(self, obj: Any) -> int | None:
        """Return the number of a part, which is not pickled; None for other objects."""
        kind = type(obj)
        is_long = kind in (bytes, str) and len(obj) >= LEAST
        if kind in IMMUTABLE and not is_long:
            return None
        self.seen += 1
        if self.seen > _MOST_PARTS:
            raise _StaysAsItIs
        if kinds[kind] == ARRAY and _is_subclass(obj):
            return None
        if _is_pickled[kind]:
            return None
        number = self.known.get(id(obj))
        if number is None:
            number = self.known[id(obj)] = len(self.parts)
            self.alive.append(obj)
            self.parts.append(_part(obj, kind, self.keeper))
        return number

    def reducer_override(self, obj: Any) -> Any:
        """Reduce a subclass of arrays, of which NumPy would copy the memory."""
        if kinds[type(obj)] == ARRAY:
            plain = obj.view(sys.modules["numpy"].ndarray)
            return _as_class, (plain, type(obj), getattr(obj, "__dict__", {}))
        return NotImplemented


def _is_subclass(array: Any) -> bool:
    numpy = sys.modules["numpy"]
    return type(array) not in (numpy.ndarray, numpy.memmap) and not array.dtype.hasobject


def _as_class(array: Any, cls: type, state: dict[str, Any]) -> Any:
    made = array.view(cls)
    if state:
        vars(made).update(state)
    return made


def _part(obj: Any, kind: type, keeper: str) -> Any:
    if kinds[kind] == ARRAY:
        return stand_in(obj, keeper)
    if kind is pickle.PickleBuffer:
        memory = obj.raw()
        return stand_in_of_bytes(memory, keeper) if memory.nbytes >= LEAST else memory
    return _KeptBytes(obj, keeper) if kind is bytes else obj


class _KeptBytes:
    """Stands for bytes."""

    _lazyflow_kind = KEPT
    __slots__ = ("as_array",)

    def __init__(self, data: bytes, keeper: str) -> None:
        self.as_array = stand_in_of_bytes(data, keeper)

    def opened(self) -> bytes:
        """Return the bytes."""
        return bytes(self.as_array.opened())


class _KeptUnpickler(pickle.Unpickler):
    def __init__(self, stream: bytes, parts: list[Any]) -> None:
        super().__init__(BytesIO(stream))
        self._parts = parts
        self._made: dict[int, Any] = {}

    def persistent_load(self, number: Any) -> Any:
        """Return the part of a number: the same object each time."""
        if number not in self._made:
            part = self._parts[number]
            is_open = kinds[type(part)] == ARRAY and part.flags.writeable
            self._made[number] = part.copy() if is_open else opened(part)
        return self._made[number]


class KeptValue:
    """Stands for a value that a run or a future keeps, and some of whose memory may be in the file.
    """

    _lazyflow_kind = KEPT
    __slots__ = ("_parts", "_stream")

    def __init__(self, stream: bytes, parts: list[Any]) -> None:
        self._stream, self._parts = stream, parts

    def opened(self) -> Any:
        """Return the value, made anew."""
        return _KeptUnpickler(self._stream, self._parts).load()

    def in_file(self) -> int:
        """Return the bytes of its arrays that are in the file."""
        arrays = map(_array_of, self._parts)
        return sum(each.in_file() for each in arrays if each is not None)

    def in_memory(self) -> Any:
        """Return the objects that all opened values share."""
        return [part for part in self._parts if kinds[type(part)] != KEPT]


def keep(
    value: Any, limit: int, keeper: str = "runs", tell: TellsSpilled | None = None
) -> Any:
    """Return the stored form of a value: a stand-in, or itself if it can't be spilled.

    `keeper` is "runs" or "persisted"; `tell` is called when values are written to the file. Sleeps
    while more is held than `limit` allows, and some of it can be written to the file.

    Raises
    ------
    StoreFull
        It can't be written.
    """
    if kinds[type(value)] == ARRAY and not _is_subclass(value):
        kept = stand_in(value, keeper, is_own=True)
    else:
        kept = _stand_in(value, keeper) if _is_candidate[type(value)] else value
    del value
    make_room(limit, tell)
    return kept


def _stand_in(value: Any, keeper: str) -> Any:
    if type(value) in QUICK and has_no_array(value):
        return value
    stream = BytesIO()
    pickler = _KeptPickler(stream, keeper)
    try:
        pickler.dump(value)
    except Exception:  # a class that can't be pickled, or containers deeper than pickle can follow
        return value
    size = sum(each.size for part in pickler.parts if (each := _array_of(part)) is not None)
    return KeptValue(stream.getvalue(), pickler.parts) if size > stream.tell() else value


def _array_of(part: Any) -> KeptArray | None:
    if type(part) is _KeptBytes:
        return part.as_array
    return part if type(part) is KeptArray else None
