"""Containers in each other, deeper than pickle can follow.

`pickle` calls itself for what is inside, twice or more a level, until Python's limit of calls. But
it does not go down into what it has pickled before. So inner containers go first, each only a few
levels above those before it, and the value itself comes last. Unpickling has no recursion.
"""

from __future__ import annotations

import operator
from typing import Any

from lazyflow.graph.arguments import Binder

__all__ = ["InsideOut"]

_LEVELS = 50  # between two that go first
_PLAIN = frozenset({list, tuple, set, frozenset, dict})


class InsideOut:
    """Pickles as a value, its inner containers before it.

    >>> import pickle
    >>> deep = []
    >>> for _ in range(10_000):
    ...     deep = [deep]
    >>> copy = pickle.loads(pickle.dumps(InsideOut(deep)))
    >>> type(copy), len(copy)
    (<class 'list'>, 1)
    """

    def __init__(self, value: Any) -> None:
        self.inner = _inner(value)
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, ([*self.inner, self.value], -1)


def _inner(value: Any) -> list[Any]:
    """Return containers of which each leads down to ones before it in a few levels."""
    found = []
    levels: dict[int, int] = {}  # down to those found, or to the bottom
    todo: list[tuple[Any, list[Any] | None]] = [(value, None)]
    while todo:
        each, parts = todo.pop()
        if parts is not None:
            below = 1 + max((levels[id(part)] for part in parts), default=0)
            if below == _LEVELS:
                found.append(each)
                below = 0
            levels[id(each)] = below
        elif id(each) not in levels:
            levels[id(each)] = 0  # what contains itself has no bottom there
            parts = [x for x in _parts(each) if type(x) in _PLAIN]
            todo.append((each, parts))
            todo += [(part, None) for part in parts]
    return found


def _parts(value: Any) -> list[Any]:
    if type(value) is dict:
        return [*value, *value.values()]
    if type(value) is Binder:  # of a task's arguments, as pickle sees it
        return [value.template, value.makers]
    return list(value) if type(value) in _PLAIN else []
