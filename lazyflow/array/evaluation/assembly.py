"""A whole array, assembled of its blocks.

For `compute`, the tasks that make the blocks of a large array copy them into a buffer: in
parallel, and each block is forgotten at once. Where a task runs in another process its block comes
back as its result, and is copied here.
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

_LARGE = 1 << 20  # bytes of an array whose blocks tasks copy into a buffer


def assembled(chunks: Chunks, dtype: np.dtype[Any] | None, values: list[Any]) -> Any:
    """Return the whole array of some blocks, or a scalar where there are no axes.

    If no dtype is given it is that of the blocks.
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
    """Return the chunks, with lengths that were not known taken from the blocks."""
    shape = tuple(map(len, chunks))
    found = []
    for axis, sizes in enumerate(chunks):
        if None in sizes:
            step = prod(shape[axis + 1:])
            sizes = tuple([values[i * step].shape[axis] for i in range(len(sizes))])
        found.append(sizes)
    return tuple(found)


class Assembly:
    """Assembles a whole array in a task; holds nothing of the graph."""

    def __init__(self, node: Expr) -> None:
        self.chunks = node.chunks
        self.dtype = node.known_dtype

    def finalize(self, values: list[Any]) -> Any:
        """Return the whole array of its blocks."""
        return assembled(self.chunks, self.dtype, values)


class ResultBuffer:
    """The memory of a result that tasks fill; in another process there is none."""

    _lazyflow_kind = ATOM

    def __init__(self, chunks: Chunks, dtype: np.dtype[Any]) -> None:
        self.chunks = chunks
        self.array: Any = np.empty(tuple(map(sum, chunks)), dtype)

    def finish(self, values: list[Any]) -> Any:
        """Return the result; blocks that are not in their places yet are among the values."""
        for place, value in zip(_places(self.chunks), values, strict=True):
            if value is not None:
                self.array[place] = value
        return self.array

    def __reduce__(self) -> Any:
        return NoBuffer, ()


class NoBuffer:
    """Stands for a `ResultBuffer` in another process."""

    _lazyflow_kind = ATOM
    array = None


class BlockSlices:
    """The slices of the whole array that a block is."""

    __slots__ = ("slices",)
    _lazyflow_kind = ATOM

    def __init__(self, slices: tuple[slice, ...]) -> None:
        self.slices = slices

    def __reduce__(self) -> Any:
        return BlockSlices, (self.slices,)


def put(block: Any, buffer: Any, place: BlockSlices) -> Any:
    """Copy a block to its place in a buffer; return the block where there is no buffer."""
    if buffer.array is None:
        return block
    buffer.array[place.slices] = block
    return None


class BufferedTasks(Tasks):
    """Tasks that copy their blocks into a buffer; to be run once."""

    __slots__ = ("buffer",)

    def __init__(
        self, tasks: Any, dtype: np.dtype[Any], chunks: Chunks, buffer: ResultBuffer
    ) -> None:
        super().__init__(tasks, dtype, chunks)
        self.buffer = buffer


def buffered(node: Expr) -> Expr:
    """Return what to run for the value of a node of tasks: with a buffer, where it is large."""
    assert isinstance(node, Tasks)
    dtype = node.known_dtype
    if dtype is None or dtype.hasobject or None in node.shape or len(node.tasks) < 2:
        return node
    if node.size * dtype.itemsize < _LARGE:
        return node
    buffer = ResultBuffer(node.chunks, dtype)
    low = Lowering()
    tasks = [
        low.task(put, (task, buffer, BlockSlices(place)), node)
        for task, place in zip(node.tasks, _places(node.chunks), strict=True)
    ]
    made = BufferedTasks(tasks, dtype, node.chunks, buffer)
    same_line(made, node)
    return made


def finished(node: Expr, values: list[Any]) -> Any:
    """Return the value of a node of tasks, given what these returned."""
    if isinstance(node, BufferedTasks):
        return node.buffer.finish(values)
    return assembled(node.chunks, node.known_dtype, values)
