"""Generators among the arguments of a call: their items are taken when the task asks for them.

A short one is taken at the call, so that lazy values in it are found and any scheduler can send
it. Of a longer one that begins with plain values the rest is left, since it may have no end, or
more than fits the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from lazyflow.graph.kinds import ARRAY, COLLECTION, FOREIGN, IMMUTABLE, LAZY, kinds

#: Iterators that make their items one by one; others show what lies in memory already.
MAKES_ITEMS = frozenset({GeneratorType, map, zip, filter, enumerate})

_FIRST = 1000  # items that are taken at the call
_FIRST_BYTES = 1 << 20  # or as many as have this size
_KEPT_BYTES = 1 << 24  # of items that are kept for another run of the task

_LAZY = frozenset({LAZY, COLLECTION, FOREIGN})


def begun(iterator: Iterator[Any]) -> tuple[list[Any], bool]:
    """Return the first items of an iterator, and whether it may have more that were not taken.

    >>> import itertools
    >>> begun(iter("ab")), len(begun(itertools.count())[0])
    ((['a', 'b'], False), 1000)
    """
    items: list[Any] = []
    size = 0
    for item in iterator:
        items.append(item)
        size += _size(item)
        if size > _FIRST_BYTES or len(items) >= _FIRST:
            if not _holds_lazy(items):
                return items, True
            items.extend(iterator)
    return items, False


def _size(item: Any) -> int:
    """Return a guess of the bytes of an item."""
    kind = type(item)
    if kind in (str, bytes, bytearray):
        return len(item) + 64
    if kinds[kind] == ARRAY:
        return int(item.nbytes) + 128
    return 64 if kind in IMMUTABLE else 1 << 12


def _holds_lazy(items: list[Any]) -> bool:
    """Tell whether a lazy value is among some items, or in lists, tuples and dicts among them."""
    known: set[int] = set()
    stack: list[Any] = [items]
    while stack:
        part = stack.pop()
        for item in part.values() if type(part) is dict else part:
            if kinds[type(item)] in _LAZY:
                return True
            if type(item) in (list, tuple, dict) and id(item) not in known:
                known.add(id(item))
                stack.append(item)
    return False


class ItemStream:
    """An iterable over the items of a long iterator, which are taken when they are asked for.

    What was taken is kept for another run of the task, until it is too much. After that it can
    only be read to its end by the one that reads it then.
    """

    def __init__(self, kept: list[Any], rest: Iterator[Any]) -> None:
        self._kept = kept
        self._size = sum(map(_size, kept))
        self._rest = rest
        self._lock = threading.Lock()
        self._last: object = None  # who reads it alone

    def __iter__(self) -> Iterator[Any]:
        return _Reader(self, self._kept)

    def take(self, reader: object, kept: list[Any], at: int) -> Any:
        """Return item `at` for a reader that has come to the end of `kept`."""
        with self._lock:
            if at < len(kept):  # another reader was here
                return kept[at]
            if self._last is not None and self._last is not reader:
                raise _used_up()
            item = next(self._rest)
            if kinds[type(item)] in _LAZY:
                raise TypeError(
                    f"item {at} of an iterator among the arguments is a lazy value, after plain "
                    "ones: it is found only among the first. Pass list(...) of it"
                )
            self._size += _size(item)
            if self._size <= _KEPT_BYTES:
                kept.append(item)
            else:
                self._last, self._kept = reader, []
            return item

    def all(self) -> list[Any]:
        """Return all items, if they are not too many to be sent to another process."""
        if self._last is None:
            kept = self._kept
            reader = iter(self)
            while self._last is None and next(reader, self) is not self:
                pass
            if self._last is None:
                return kept
        raise TypeError(
            f"an iterator among the arguments has more than {_KEPT_BYTES >> 20} MB of items, or no "
            "end, and can't be sent to another process. Pass list(...) of it if that fits the "
            "memory, make the items in the task, or compute on threads, which take them one by one"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemStream, (self.all(), iter(()))


class _Reader:
    """An iterator over the items of a `ItemStream`."""

    __slots__ = ("_at", "_kept", "_me", "_stream")

    def __init__(self, stream: ItemStream, kept: list[Any]) -> None:
        self._stream = stream
        self._kept = kept
        self._at = 0
        self._me = object()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        at, kept = self._at, self._kept
        item = kept[at] if at < len(kept) else self._stream.take(self._me, kept, at)
        self._at = at + 1
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        return iter, (self._stream.all(),)


def _used_up() -> TypeError:
    return TypeError(
        "an iterator among the arguments was used up by an earlier run of this task, and had more "
        f"than the {_KEPT_BYTES >> 20} MB of items that are kept for another one. Make the call "
        "again with a new iterator, or pass list(...) of it"
    )


def streamed(items: list[Any], extra: Any) -> Any:
    """Return an iterator over the only item, a `ItemStream`."""
    return iter(items[0])
