"""How values pass between tasks of one process, so that no task can change another's input.

A value is prepared once, when it is stored. Each array in it, alone or at any depth in tuples,
lists, dicts, dataclasses and their subclasses, becomes a view that can't be written through. Each
consumer then gets the containers at the top (lists, dicts, sets and their subclasses) as a
shallow copy of its own, and pandas objects as a shallow copy-on-write copy.

Not covered are edits of containers inside containers and of objects of other classes, sparse
matrices among them (SciPy itself sorts them in place when they are read), and of what arrays and
columns of type object hold; ``config.check_mutation`` finds those. A task of ``mutates=True``
gets values of its own, whatever they are.

Results of the caller are its own: see `lazyflow.store.ownership`.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

from lazyflow.graph.guards import is_open
from lazyflow.graph.kinds import ARRAY, FRAME, IMMUTABLE, kinds
from lazyflow.store.ownership import ARRAY_FORM, EditableParts, forms, writable_within
from lazyflow.store.values import IteratorItems, locked, made_writable, references

#: References to a value that only a local name holds, as getrefcount counts them.
_ALONE = references(1)


def protected(value: Any, is_own: bool) -> Any:
    """Return the stored form of a value: no array in it can be written through.

    ``is_own`` tells that nothing outside of the library holds this object.

    >>> import numpy
    >>> (x, (y,)) = protected((numpy.zeros(2), [numpy.zeros(2)]), False)
    >>> x.flags.writeable, y.flags.writeable
    (False, False)
    """
    kind = type(value)
    if kinds[kind] == ARRAY:
        return locked(value, is_own) if is_open(value) else value
    if kind is IteratorItems:
        value.items = protected(value.items, True)
        return value
    if kind in QUICK:
        if has_no_array(value):
            return value
        if kind is tuple and _FLAT.issuperset([forms[type(item)] for item in value]):
            return _locked_row(value, is_own)
    return EditableParts(value).locked(is_own)


def has_no_array(value: Any) -> bool:
    """Tell at a look whether only plain values are in a container and in small ones in it."""
    todo = [value]
    for part in todo:
        for item in part.values() if type(part) is dict else part:
            if forms[type(item)]:
                if type(item) not in QUICK or len(todo) > _A_LOOK:
                    return False
                todo.append(item)
    return True


def _locked_row(row: tuple[Any, ...], is_own: bool) -> Any:
    """Return a tuple of plain values and arrays made again with locked arrays."""
    made: dict[int, Any] = {}
    for k in range(len(row)):  # by index: a name would be one more reference
        if forms[type(row[k])] and id(row[k]) not in made and is_open(row[k]):
            is_alone = is_own and sys.getrefcount(row[k]) <= _IN_A_TUPLE
            made[id(row[k])] = locked(row[k], is_alone)
    return tuple([made.get(id(item), item) for item in row]) if made else row


#: Types of containers that are looked into at once.
QUICK = frozenset({tuple, list, dict})
_A_LOOK = 20  # containers; a guess

#: Tuples of values of these forms are made again at once.
_FLAT = frozenset({forms[int], ARRAY_FORM})

_row = (object(),)
_IN_A_TUPLE = sys.getrefcount(_row[0])


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
        return made_writable(value) if is_mine else value.copy()
    if kind == FRAME:
        return value.copy(deep=True)
    if type(value) is IteratorItems:
        return iter(copy.deepcopy(value.items))
    if type(value) in IMMUTABLE:
        return value
    if is_last and sys.getrefcount(value) <= _ALONE:
        return writable_within(value)
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a module: it can't be copied, and is not edited by accident
        return value


