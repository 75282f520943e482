"""Arrays that pass between an actor and others in the same process: each side its own.

Between processes a value is pickled when it is handed over, so what either side does to it later
stays with that side. Here the same is done by copying arrays, alone or inside plain containers,
unless nobody else holds them.
"""

from __future__ import annotations

import sys
from typing import Any

from lazyflow.graph.kinds import ARRAY, DICT, FRAME, IMMUTABLE, LIST, TUPLE, kinds

_DEEPEST = 50  # containers inside containers: deeper ones are handed over as they are


def snapshot(value: Any, depth: int = 0) -> Any:
    """Return a value whose arrays others can't change any more: copies of those that they hold.

    >>> import numpy as np
    >>> state = np.zeros(2)
    >>> taken = snapshot({"w": [state]})
    >>> state += 1
    >>> taken
    {'w': [array([0., 0.])]}
    """
    kind = kinds[type(value)]
    if type(value) in IMMUTABLE:
        return value
    if kind == ARRAY:
        return value.copy()
    if kind == FRAME:
        return value.copy(deep=True)
    if depth < _DEEPEST:
        if kind == LIST:
            return [snapshot(each, depth + 1) for each in value]
        if kind == TUPLE and type(value) is tuple:
            return tuple([snapshot(each, depth + 1) for each in value])
        if kind == DICT:
            return {key: snapshot(each, depth + 1) for key, each in value.items()}
    return value


def settled(box: list[Any]) -> Any:
    """Return the result of a call as others may keep it; taken out of the list `box`.

    An array that nobody else holds is not copied.
    """
    if kinds[type(box[0])] == ARRAY and box[0].base is None and _is_alone(box):
        return box.pop()
    return snapshot(box.pop())


def _is_alone(box: list[Any]) -> bool:
    return sys.getrefcount(box[0]) <= _IN_A_BOX


def _refs_in_a_box() -> int:
    box = [object()]
    return sys.getrefcount(box[0])


_IN_A_BOX = _refs_in_a_box()

__all__ = ["settled", "snapshot"]
