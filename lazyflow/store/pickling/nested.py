"""Containers nested deeper than pickle can follow.

`pickle` calls itself for the items of a container, twice or more a level, up to Python's recursion
limit. But it does not descend into what it has pickled before. So inner containers go first, each
only a few levels above those before it, and the value itself comes last. Unpickling has no
recursion.
"""

from __future__ import annotations

import operator
from typing import Any

from lazyflow.graph.arguments import Binder

__all__ = ["InsideOut"]

_LEVELS = 50  # between two containers that go first; a guess, far below the recursion limit
_PLAIN = frozenset({list, tuple, set, frozenset, dict})


class InsideOut:
    """A value that pickles after its inner containers, and unpickles as itself.

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
    """Return containers each of which is few levels above earlier ones, or above the bottom."""
    found = []
    levels: dict[int, int] = {}  # down to a container found, or to the bottom
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
            levels[id(each)] = 0  # a container that holds itself counts as a bottom
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
