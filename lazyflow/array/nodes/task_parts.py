"""Parts of tasks besides blocks: functions with bound details, and details of one task.

What all tasks of a node share is bound to their function (`named`). What one task alone needs goes
in an argument that is not searched for lazy values. If a block has 4 MiB or more, a part of at most
a thirty-second of it is copied out by a task of its own (`is_thin`), so that on a cluster the part
moves and the block need not be kept.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, TypeVar

from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.selection import Index
from lazyflow.graph.kinds import ATOM

F = TypeVar("F")

# Both are guessed.
_LARGE = 4 << 20  # bytes of a block that a cluster moves in about the time of one more task
_THIN = 32  # a part of it with at most 1 / _THIN of its bytes is copied


def named(name: str, func: Any, *details: Any) -> Any:
    """Return a function that gets some details before the blocks, under a name of its own.

    >>> scaled = named("scaled", lambda factor, block: factor * block, 3)
    >>> scaled.__name__, scaled(2)
    ('scaled', 6)
    """
    made: Any = partial(func, *details)
    made.__name__ = name
    made.takes_out = takes_out(func)
    return made


def writes_out(func: F) -> F:
    """Mark a function of blocks that `takes_out`."""
    func.takes_out = True  # type: ignore[attr-defined]
    return func


def takes_out(func: Any) -> bool:
    """Tell whether a function of blocks can write its block into a given array.

    Such a function has an attribute ``takes_out = True`` and a keyword ``out``: None, or an array
    of the block's shape and of the dtype that the node declares, of any strides. If it writes the
    block there it returns ``out`` or a view of it; any other array that it returns is copied then.
    """
    return getattr(func, "takes_out", False) is True


def is_large(node: Expr) -> bool:
    """Tell whether a thin part of some block of a node is better cut out by a task of its own."""
    dtype = node.known_dtype
    if dtype is None or None in node.shape:
        return False
    return prod(map(max, node.chunks)) * dtype.itemsize >= _LARGE


def is_thin(part: int, whole: int, node: Expr) -> bool:
    """Tell whether a part of a block is cut out by a task of its own, given their elements.

    Such a task runs where the block is, so that on a cluster the part moves and not the block:
    for `x[1:] - x[:-1]` whole blocks would move for one row of each.
    """
    dtype = node.known_dtype
    return part * _THIN <= whole and dtype is not None and whole * dtype.itemsize >= _LARGE


def taken(where: BlockPosition, block: Any) -> Any:
    """Return a copy of a part of a block, so that the block need not be kept."""
    return block[(*where.regions[0], ...)].copy()


class TaskDetails:
    """The details of one task of a node, as an argument not searched for lazy values."""

    __slots__ = ("values",)
    _lazyflow_kind = ATOM

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __reduce__(self) -> Any:
        return TaskDetails, self.values


class BlockPosition:
    """The number of the block that a task makes, and the regions of inputs that it needs.

    An argument that is not searched for lazy values, and is `is_quick` to pickle.
    """

    __slots__ = ("index", "regions")
    _lazyflow_kind = ATOM
    _lazyflow_quick = True

    def __init__(self, index: Index, regions: tuple[Any, ...]) -> None:
        self.index = index
        self.regions = regions

    def __reduce__(self) -> Any:
        return BlockPosition, (self.index, self.regions)

    def _lazyflow_summary(self) -> str:
        return f"block {self.index}"
