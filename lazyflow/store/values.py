"""How values pass between tasks of one process, so that no task can change another's input.

An array is stored as a read-only view, once, and that view is what every consumer gets. Lists,
dicts and sets go as a shallow copy per consumer, pandas objects as a shallow copy-on-write
copy. Arrays inside other objects, and sparse matrices, are not covered here:
``config.check_mutation`` finds edits of those.

What a caller gets back is its own: see `lazyflow.store.owned`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from mmap import mmap
from typing import Any

from lazyflow.graph.kinds import ARRAY, FRAME, IMMUTABLE, LISTLIKE, kinds


class IteratorItems:
    """The items of an iterator that several tasks read: each gets an iterator of its own."""

    _lazyflow_kind = LISTLIKE
    __slots__ = ("items",)

    def __init__(self, iterator: Iterable[Any]) -> None:
        self.items = list(iterator)


def consumer_copy(value: Any) -> Any:
    """Return what one consumer gets of a stored value whose kind is in COPIED."""
    if kinds[type(value)] == FRAME:
        return value.copy(deep=False)
    if type(value) is IteratorItems:
        return iter(value.items)
    try:
        return copy.copy(value)
    except Exception:  # a user's dict that can't be filled again: there is only the one
        return value


def _refs_of_a_local() -> int:
    value = object()
    return sys.getrefcount(value)


#: References to a value that only a local name holds, as getrefcount counts them.
_ALONE = _refs_of_a_local()


def editable(box: list[Any], is_last: bool) -> Any:
    """Return a value that a ``mutates=True`` task may edit: the value itself if nothing else holds
    it, else a copy.

    The value is taken out of the list `box`, so that the caller does not hold it. ``is_last``
    tells that no other task of the run will ask for it; one that did may still be running.
    """
    value = box.pop()
    kind = kinds[type(value)]
    if kind == ARRAY:
        is_mine = is_last and sys.getrefcount(value) <= _ALONE
        return _editable_array(value) if is_mine else value.copy()
    if kind == FRAME:
        return value.copy(deep=True)
    if type(value) is IteratorItems:
        return iter(copy.deepcopy(value.items))
    if type(value) in IMMUTABLE or (is_last and sys.getrefcount(value) <= _ALONE):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a module: what can't be copied is not edited by accident either
        return value


def _editable_array(view: Any) -> Any:
    owner = view
    while owner.base is not None and kinds[type(owner.base)] == ARRAY:
        owner = owner.base
    if owner is view or owner.base is not None or not owner.flags.writeable:
        return view.copy()
    if sys.getrefcount(owner) > _ALONE + 1:  # one is the view's; another holder could see the edit
        return view.copy()
    mine = view.view()
    mine.flags.writeable = True
    return mine


def memory_of(array: Any) -> int:
    """Return the id of the object that owns the memory of an array."""
    owner = array
    while getattr(owner, "base", None) is not None:
        if type(owner.base) is mmap:  # many arrays may each have a part of it
            break
        owner = owner.base
    return id(owner)
