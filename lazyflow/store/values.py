"""Read-only views and copies of a value that several tasks read; `protected` has the rule."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from mmap import mmap
from typing import Any

from lazyflow.graph.arguments import shallow_copy
from lazyflow.graph.guards import base_of, guarded
from lazyflow.graph.kinds import ARRAY, FRAME, LISTLIKE, TypeTable, frame_copy, kinds


class IteratorItems:
    """The items of an iterator that several tasks read: each gets an iterator of its own."""

    _lazyflow_kind = LISTLIKE
    __slots__ = ("items",)

    def __init__(self, iterator: Iterable[Any]) -> None:
        self.items = list(iterator)


def consumer_copy(value: Any) -> Any:
    """Return one consumer's copy of a stored value whose kind is in COPIED."""
    if kinds[type(value)] == FRAME:
        return frame_copy(value)
    if type(value) is IteratorItems:
        return iter(value.items)
    try:
        return shallow_copy(value)
    except Exception:  # a user's dict that can't be filled again: there is only the one
        return value


def made_writable(view: Any) -> Any:
    """Return a writable array for a read-only view: one of the same memory where nothing else
    holds that, else a copy.
    """
    owner = view.base
    if owner is None or not _is_shown_once(view, owner):
        return view.copy()
    owner.flags.writeable = True  # it was locked when it was stored
    mine = view.view()
    mine.flags.writeable = True
    return mine


def locked(array: Any, is_own: bool) -> Any:
    """Return a view of an array that can't be written through, nor made writable again.

    ``is_own`` tells that nothing outside of the library holds this array object.
    """
    if is_own and _is_plain[type(array)]:
        owner = array.base
        if owner is None or _is_shown_once(array, owner):
            if owner is not None:
                owner.flags.writeable = False
            array.flags.writeable = False
            return array.view()
    return guarded(array)


#: Tells of types of arrays whether they are numpy's own.
_is_plain = TypeTable(lambda t: t is sys.modules["numpy"].ndarray)


def _is_shown_once(view: Any, owner: Any) -> bool:
    """Tell whether only one view holds the array whose memory it shows."""
    if kinds[type(owner)] != ARRAY or owner.base is not None:
        return False
    return _references(view, owner) <= _SHOWN_ONCE


def _references(view: Any, owner: Any) -> int:
    return sys.getrefcount(owner)


def references(frames: int) -> int:
    """Return the reference count of a value in the locals of so many functions, each called by the
    one before with the value.
    """

    def count(value: Any, left: int) -> int:
        return count(value, left - 1) if left else sys.getrefcount(value)

    value = object()
    return count(value, frames - 2) if frames > 1 else sys.getrefcount(value)


class _Shown:
    def __init__(self) -> None:
        self.base = object()


def _count_shown() -> int:
    shown = _Shown()
    owner = shown.base
    return _passed_on(shown, owner)


def _passed_on(view: Any, owner: Any) -> int:
    return _references(view, owner)


_SHOWN_ONCE = _count_shown()


def memory_of(array: Any) -> int:
    """Return the id of the object that owns the memory of an array."""
    owner = array
    while (below := base_of(owner)) is not None:
        if type(below) is mmap:  # many arrays may each have a part of it
            break
        owner = below
    return id(owner)
