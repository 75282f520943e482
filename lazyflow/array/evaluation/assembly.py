"""A whole array, assembled of its blocks.

For `compute`, the tasks that make the blocks of a large array write them into their places in it,
where their functions can and no other task reads them; other blocks are copied there by tasks, in
parallel, and each is forgotten at once. Tasks of other processes write into memory that this one
lends; where they can't have it their blocks come back as their results, and are copied here.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, block_slices, chunks_of, refuse_sparse
from lazyflow.array.nodes.expr import Expr, same_line
from lazyflow.array.nodes.lazy_dtype import common_dtype
from lazyflow.array.nodes.lowering import Lowering, alike
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.nodes.task_parts import takes_out
from lazyflow.graph.kinds import ATOM
from lazyflow.graph.task import call_arguments
from lazyflow.store.memory import lent

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
        refuse_sparse(value)
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


class Result:
    """A whole array, in memory of this process, and, once a part was pickled, in lent memory."""

    def __init__(self, shape: tuple[Any, ...], dtype: np.dtype[Any]) -> None:
        try:
            self.array = np.empty(shape, dtype)  # takes no memory before it is written
        except MemoryError as error:
            error.add_note(
                "compute() gives the whole array in memory. Reduce it or take a part of it before, "
                "or have its blocks written elsewhere: la.store(x, target), x.to_zarr(path)."
            )
            raise
        self._lent: lent.LentMemory | None = None
        self._is_refused = False
        self._lock = Lock()

    def address(self) -> Any:
        """Return where others find the lent memory, or None where the system gives none."""
        with self._lock:
            if self._lent is None and not self._is_refused:
                try:
                    self._lent = lent.LentMemory(self.array.nbytes)
                except OSError:
                    self._is_refused = True
            return None if self._lent is None else self._lent.address

    def written_by_others(self, again: bool) -> np.ndarray[Any, Any]:
        """Return the array in lent memory; `again`: see `LentMemory.edited`."""
        assert self._lent is not None
        return np.ndarray(self.array.shape, self.array.dtype, self._lent.edited(again))


class ResultPart:
    """The part of a result that a task writes; an argument not searched for lazy values.

    To pickle it is quick, and makes the lent memory.

    written
        What the task returns that has written it: None, or, of lent memory, whether it was a
        worker of the process that lent it.
    """

    __slots__ = ("_array", "_result")
    _lazyflow_kind = ATOM
    _lazyflow_quick = True

    @property
    def written(self) -> bool | None:
        return None

    def __init__(self, result: Result, array: np.ndarray[Any, Any]) -> None:
        self._result = result
        self._array = array

    def open(self) -> Any:
        """Return the array to write into, or None."""
        return self._array

    def __reduce__(self) -> Any:
        array = self._array
        start = array.__array_interface__["data"][0] - self._result.array.ctypes.data
        layout = array.shape, array.dtype, None, start, array.strides
        return BorrowedPart, (self._result.address(), layout)


class BorrowedPart(ResultPart):
    """A part of a result of another process."""

    __slots__ = ("_address", "_layout")

    @property
    def written(self) -> bool:
        return lent.is_worker

    def __init__(self, address: Any, layout: Any) -> None:
        self._address = address
        self._layout = layout

    def open(self) -> Any:
        memory = None if self._address is None else lent.borrowed(self._address)
        if memory is None:
            return None
        shape, dtype, _, start, strides = self._layout
        return np.ndarray(shape, dtype, memory, start, strides)

    def __reduce__(self) -> Any:
        return BorrowedPart, (self._address, self._layout)


def put(part: ResultPart, block: Any) -> Any:
    """Copy a block into its part of a result; return the block where there is no part."""
    out = part.open()
    if out is None:
        return block
    refuse_sparse(block)
    out[...] = block
    return part.written


class PutBlock:
    """A function of blocks that `takes_out`, to be given the part of the result that it writes."""

    def __init__(self, func: Any) -> None:
        self.func = func
        self.__name__ = func.__name__

    def __call__(self, part: ResultPart, *args: Any) -> Any:
        out = part.open()
        found = self.func(*args, out=out)
        if out is None:
            return found
        if not np.may_share_memory(found, out):
            out[...] = found
        return part.written


class BufferedTasks(Tasks):
    """Tasks that write their blocks into an array; to be run once."""

    __slots__ = ("result",)

    def __init__(self, node: Tasks, result: Result) -> None:
        self.result = result
        seen = _seen_as(result.array, node.chunks)
        low = Lowering()
        tasks = []
        for task, place in zip(node.tasks, block_slices(node.chunks), strict=True):
            func, part = task._func, ResultPart(result, seen[place])
            if node.readers.get(id(task)) == 1 and takes_out(func):
                args, _ = call_arguments(task, list(task._inputs))
                func = low.shared(node, id(func), PutBlock, func)
                tasks.append(alike(task, func, (part, *args)))
            else:
                tasks.append(low.task(put, (part, task), node))
        super().__init__(tasks, result.array.dtype, node.chunks, axes=node.axes)

    def finish(self, values: list[Any]) -> Any:
        """Return the result; blocks that are not in their places yet are among the values."""
        array, others = self.result.array, None
        by_others = [value for value in values if isinstance(value, bool)]
        if by_others:
            others = self.result.written_by_others(all(by_others))
            if len(by_others) == len(values):
                return others
        seen = _seen_as(array, self.chunks)
        for place, value in zip(block_slices(self.chunks), values, strict=True):
            if isinstance(value, bool):
                seen[place] = _seen_as(others, self.chunks)[place]
            elif value is not None:
                seen[place] = value
        return array


def _seen_as(array: Any, chunks: Chunks) -> Any:
    return array.reshape(tuple(map(sum, chunks)))


def buffered(node: Expr) -> Expr:
    """Return what to run for the value of a node of tasks: with a buffer, where it is large."""
    assert isinstance(node, Tasks)
    dtype = node.known_dtype
    if dtype is None or dtype.hasobject or None in node.shape or len(node.tasks) < 2:
        return node
    if node.size * dtype.itemsize < _LARGE:
        return node
    made = BufferedTasks(node, Result(node.whole or node.shape, dtype))
    same_line(made, node)
    return made


def finished(node: Expr, values: list[Any]) -> Any:
    """Return the value of a node of tasks, given what these returned."""
    assert isinstance(node, Tasks)
    found = node.finish(values) if isinstance(node, BufferedTasks) else _put_together(node, values)
    return found if node.axes is None else found.transpose(node.axes)


def _put_together(node: Tasks, values: list[Any]) -> Any:
    found, dtype = assembled(node.chunks, node.known_dtype, values), node.known_dtype
    if node.whole is None:
        return found
    if not node.chunks and dtype is not None:
        one = np.empty(1, dtype)  # an element may have no shape, and has not the width of a text
        one[0] = found
        found = one
    return found.reshape(node.whole)[()]
