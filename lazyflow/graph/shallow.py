"""Shallow copies of containers, those of users' classes with the items that they have.

`copy.copy` fills a copy by the methods of its class. A class that changes keys or items when they
are set would change them once more, so what differs afterwards is set by the builtin class below.
"""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from operator import is_not
from typing import Any

#: Types of which it is known how an item is replaced.
BUILTIN = frozenset({list, dict, deque, OrderedDict, defaultdict, Counter})

_BELOW = (OrderedDict, dict, deque, list, set)


def shallow_copy(x: Any) -> Any:
    """Return a shallow copy of any object.

    >>> class Quoted(dict):
    ...     def __setitem__(self, key, value):
    ...         super().__setitem__(f"<{key}>", value)
    >>> x = Quoted()
    >>> x["a"] = 1
    >>> copy.copy(x), shallow_copy(x)
    ({'<<a>>': 1}, {'<a>': 1})
    """
    new = copy.copy(x)
    below = None if type(x) in BUILTIN else _builtin_below(type(x))
    if below is not None and new is not x:
        set_right(new, _items(below, x))
    return new


def items_of(x: Any) -> list[Any]:
    """Return the items of a container, or its keys and then its values, as they are stored."""
    below = _builtin_below(type(x))
    return list(x) if below is None else _items(below, x)


def set_right(new: Any, items: Sequence[Any]) -> None:
    """Give a container, which was filled by its own methods, just these items where it differs."""
    below = _builtin_below(type(new))
    if below is None or below is type(new):
        return
    has = _items(below, new)
    if below is set:
        if set(map(id, has)) != set(map(id, items)):
            set.clear(new)
            set.update(new, items)
    elif len(has) != len(items) or any(map(is_not, has, items)):
        below.clear(new)
        if issubclass(below, dict):
            half = len(items) // 2
            for key, value in zip(items[:half], items[half:], strict=True):
                below.__setitem__(new, key, value)
        else:
            below.extend(new, items)


def _builtin_below(t: type) -> Any:
    return next((each for each in t.__mro__ if each in _BELOW), None)


def _items(below: Any, x: Any) -> list[Any]:
    if issubclass(below, dict):
        return [*below.keys(x), *below.values(x)]
    return list(below.__iter__(x))
