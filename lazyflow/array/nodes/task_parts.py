"""What tasks are made of besides blocks: functions of some details, and details of one task."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from lazyflow.array.nodes.selection import Index
from lazyflow.graph.kinds import ATOM

F = TypeVar("F")


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


class TaskDetails:
    """What differs between the tasks of a node, as an argument not searched for lazy values."""

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
