"""A whole array, assembled of its blocks.

For `compute`, the tasks that make the blocks of a large array write them into their places in it,
where their functions can and no other task reads them; other blocks are copied there by tasks, in
parallel, and each is forgotten at once. Where a task runs in another process its block comes back
as its result, and is copied here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, block_slices, chunks_of
from lazyflow.array.nodes.expr import Expr, same_line
from lazyflow.array.nodes.lazy_dtype import common_dtype
from lazyflow.array.nodes.lowering import Lowering, alike
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.nodes.task_parts import TaskDetails, takes_out
from lazyflow.graph.task import call_arguments

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


class ResultPart(TaskDetails):
    """The part of a result that a task fills, an array; in another process there is none."""

    def __reduce__(self) -> Any:
        return TaskDetails, (None,)


def put(part: TaskDetails, block: Any) -> Any:
    """Copy a block into its part of a result; return the block where there is no part."""
    (out,) = part.values
    if out is None:
        return block
    out[...] = block
    return None


class PutBlock:
    """A function of blocks that `takes_out`, to be given the part of the result that it writes."""

    def __init__(self, func: Any) -> None:
        self.func = func
        self.__name__ = func.__name__

    def __call__(self, part: TaskDetails, *args: Any) -> Any:
        (out,) = part.values
        found = self.func(*args, out=out)
        return None if out is not None and found is out else put(part, found)


class BufferedTasks(Tasks):
    """Tasks that write their blocks into an array; to be run once."""

    __slots__ = ("array", "parts")

    def __init__(self, node: Tasks, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        seen = array.reshape(tuple(map(sum, node.chunks)))
        self.parts = [seen[place] for place in block_slices(node.chunks)]
        low = Lowering()
        tasks = []
        for task, part in zip(node.tasks, map(ResultPart, self.parts), strict=True):
            func = task._func
            if node.readers.get(id(task)) == 1 and takes_out(func):
                args, _ = call_arguments(task, list(task._inputs))
                func = low.shared(node, id(func), PutBlock, func)
                tasks.append(alike(task, func, (part, *args)))
            else:
                tasks.append(low.task(put, (part, task), node))
        super().__init__(tasks, array.dtype, node.chunks)

    def finish(self, values: list[Any]) -> Any:
        """Return the result; blocks that are not in their places yet are among the values."""
        for part, value in zip(self.parts, values, strict=True):
            if value is not None:
                part[...] = value
        return self.array


def buffered(node: Expr) -> Expr:
    """Return what to run for the value of a node of tasks: with a buffer, where it is large."""
    assert isinstance(node, Tasks)
    dtype = node.known_dtype
    if dtype is None or dtype.hasobject or None in node.shape or len(node.tasks) < 2:
        return node
    if node.size * dtype.itemsize < _LARGE:
        return node
    made = BufferedTasks(node, np.empty(node.whole or node.shape, dtype))
    same_line(made, node)
    return made


def finished(node: Expr, values: list[Any]) -> Any:
    """Return the value of a node of tasks, given what these returned."""
    if isinstance(node, BufferedTasks):
        return node.finish(values)
    assert isinstance(node, Tasks)
    found = assembled(node.chunks, node.known_dtype, values)
    return found if node.whole is None else found.reshape(node.whole)[()]
