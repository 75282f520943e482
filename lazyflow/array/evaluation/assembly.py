"""The whole of an array, made of its blocks.

For `compute`, blocks of a large array are copied to their places by the tasks that make them: in
parallel, and each is forgotten at once. Where a task runs in another process its block comes back
as its result, and is put in place here.
"""

from __future__ import annotations

from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, same_line
from lazyflow.array.nodes.lazy_dtype import common_dtype
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Tasks
from lazyflow.graph.kinds import ATOM

_LARGE = 1 << 20  # bytes from which blocks are put in place by tasks


def joined(chunks: Chunks, dtype: np.dtype[Any] | None, values: list[Any]) -> Any:
    """Return the whole of some blocks: an array, or a scalar where there are no axes.

    Without a dtype it has that of the blocks.
    """
    if len(values) == 1:
        (found,) = values
        return found[()] if not chunks and isinstance(found, np.ndarray) else found
    chunks = _known(chunks, values)
    out = np.empty(tuple(map(sum, chunks)), common_dtype(values) if dtype is None else dtype)
    for place, value in zip(_places(chunks), values, strict=True):
        out[place] = value
    return out


def _places(chunks: Chunks) -> Any:
    spans = [
        [slice(a, b) for a, b in pairwise([0, *accumulate(sizes)])] for sizes in chunks
    ]
    return product(*spans)


def _known(chunks: Chunks, values: list[Any]) -> Chunks:
    """Return chunks with lengths that were not known taken from the blocks."""
    shape = tuple(map(len, chunks))
    found = []
    for axis, sizes in enumerate(chunks):
        if None in sizes:
            step = prod(shape[axis + 1:])
            sizes = tuple([values[i * step].shape[axis] for i in range(len(sizes))])
        found.append(sizes)
    return tuple(found)


class Joined:
    """Puts a whole together in a task; holds nothing of the graph."""

    def __init__(self, node: Expr) -> None:
        self.chunks = node.chunks
        self.dtype = node.known_dtype

    def finalize(self, values: list[Any]) -> Any:
        """Return the whole."""
        return joined(self.chunks, self.dtype, values)


class Whole:
    """The memory of a result that tasks fill; in another process it has none."""

    _lazyflow_kind = ATOM

    def __init__(self, chunks: Chunks, dtype: np.dtype[Any]) -> None:
        self.chunks = chunks
        self.array: Any = np.empty(tuple(map(sum, chunks)), dtype)

    def finish(self, values: list[Any]) -> Any:
        """Return the result; what is not in its place yet is among the values."""
        for place, value in zip(_places(self.chunks), values, strict=True):
            if value is not None:
                self.array[place] = value
        return self.array

    def __reduce__(self) -> Any:
        return Elsewhere, ()


class Elsewhere:
    """Stands for a `Whole` in another process."""

    _lazyflow_kind = ATOM
    array = None


class Place:
    """Where a block belongs."""

    __slots__ = ("slices",)
    _lazyflow_kind = ATOM

    def __init__(self, slices: tuple[slice, ...]) -> None:
        self.slices = slices

    def __reduce__(self) -> Any:
        return Place, (self.slices,)


def put(block: Any, whole: Any, place: Place) -> Any:
    """Copy a block to its place; return it where that is elsewhere."""
    if whole.array is None:
        return block
    whole.array[place.slices] = block
    return None


class Placed(Tasks):
    """Tasks that put their blocks in place; to be run once."""

    __slots__ = ("whole",)

    def __init__(self, tasks: Any, dtype: np.dtype[Any], chunks: Chunks, whole: Whole) -> None:
        super().__init__(tasks, dtype, chunks)
        self.whole = whole


def placed(node: Expr) -> Expr:
    """Return what to run for the value of a node of tasks: `Placed` where it is large."""
    assert isinstance(node, Tasks)
    dtype = node.known_dtype
    if dtype is None or dtype.hasobject or None in node.shape or len(node.tasks) < 2:
        return node
    if node.size * dtype.itemsize < _LARGE:
        return node
    whole = Whole(node.chunks, dtype)
    low = Lowering()
    tasks = [
        low.task(put, (task, whole, Place(place)), node)
        for task, place in zip(node.tasks, _places(node.chunks), strict=True)
    ]
    made = Placed(tasks, dtype, node.chunks, whole)
    same_line(made, node)
    return made
