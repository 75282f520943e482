"""A whole array, assembled of its blocks.

For `compute`, the tasks that make the blocks of a large array copy them into a buffer: in
parallel, and each block is forgotten at once. Where a task runs in another process its block comes
back as its result, and is copied here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, block_slices, chunks_of
from lazyflow.array.nodes.expr import Expr, same_line
from lazyflow.array.nodes.lazy_dtype import common_dtype
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.nodes.task_parts import TaskDetails

_LARGE = 1 << 20  # bytes of an array whose blocks tasks copy into a buffer


def assembled(chunks: Chunks, dtype: np.dtype[Any] | None, values: list[Any]) -> Any:
    """Return the whole array of some blocks, or a scalar where there are no axes.

    If no dtype is given it is that of the blocks.
    """
    if len(values) == 1:
        (found,) = values
        return found[()] if not chunks and isinstance(found, np.ndarray) else found
    if any(None in sizes for sizes in chunks):
        chunks = chunks_of(tuple(map(len, chunks)), [value.shape for value in values])
    out = np.empty(tuple(map(sum, chunks)), common_dtype(values) if dtype is None else dtype)
    for place, value in zip(block_slices(chunks), values, strict=True):
        out[place] = value
    return out


class Assembly:
    """Assembles a whole array in a task; holds nothing of the graph."""

    def __init__(self, node: Expr) -> None:
        self.chunks = node.chunks
        self.dtype = node.known_dtype

    def finalize(self, values: list[Any]) -> Any:
        """Return the whole array of its blocks."""
        return assembled(self.chunks, self.dtype, values)


class ResultBuffer(TaskDetails):
    """The memory of a result, an array that tasks fill; in another process there is none."""

    def __reduce__(self) -> Any:
        return TaskDetails, (None,)


def put(block: Any, buffer: TaskDetails, place: TaskDetails) -> Any:
    """Copy a block to its place in a buffer; return the block where there is no buffer."""
    (array,), (slices,) = buffer.values, place.values
    if array is None:
        return block
    array[slices] = block
    return None


class BufferedTasks(Tasks):
    """Tasks that copy their blocks into an array; to be run once."""

    __slots__ = ("array",)

    def __init__(self, tasks: Any, array: np.ndarray[Any, Any], chunks: Chunks) -> None:
        super().__init__(tasks, array.dtype, chunks)
        self.array = array

    def finish(self, values: list[Any]) -> Any:
        """Return the result; blocks that are not in their places yet are among the values."""
        for place, value in zip(block_slices(self.chunks), values, strict=True):
            if value is not None:
                self.array[place] = value
        return self.array


def buffered(node: Expr) -> Expr:
    """Return what to run for the value of a node of tasks: with a buffer, where it is large."""
    assert isinstance(node, Tasks)
    dtype = node.known_dtype
    if dtype is None or dtype.hasobject or None in node.shape or len(node.tasks) < 2:
        return node
    if node.size * dtype.itemsize < _LARGE:
        return node
    array = np.empty(tuple(map(sum, node.chunks)), dtype)
    buffer = ResultBuffer(array)
    low = Lowering()
    tasks = [
        low.task(put, (task, buffer, TaskDetails(place)), node)
        for task, place in zip(node.tasks, block_slices(node.chunks), strict=True)
    ]
    made = BufferedTasks(tasks, array, node.chunks)
    same_line(made, node)
    return made


def finished(node: Expr, values: list[Any]) -> Any:
    """Return the value of a node of tasks, given what these returned."""
    if isinstance(node, BufferedTasks):
        return node.finish(values)
    return assembled(node.chunks, node.known_dtype, values)
