"""How arrays are computed: tasks, whole arrays of blocks, and lengths that depend on values.

`as_tasks` runs the passes over all wanted expressions at once, lowers them to tasks of blocks, and
checks them against `memory_limit`. `compute` assembles the blocks to arrays, where possible by
tasks that write into the result. `resolve_lengths` computes lengths such as that of `x[mask]`.

    >>> import lazyflow.array as la
    >>> x = la.arange(6.0, chunks=3).persist(scheduler="sync")
    >>> y = x * 2 + 1
    >>> blocks, total = as_tasks([y.expr, y.sum().expr])
    >>> blocks.tasks
    (<Delayed add(block (0,), <arange>)>, <Delayed add(block (1,), <arange>)>)
    >>> total.tasks  # of sums of the same blocks
    (<Delayed sum-merge(<sum>, <sum>)>,)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import inf, prod
from operator import attrgetter
from threading import Lock
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.api import evaluate
from lazyflow.api.progress_events import watching
from lazyflow.array.chunks import Chunks, block_slices, chunks_of, refuse_sparse
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.block_kinds import in_nested_lists, is_other_kind, joined
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import (
    Expr,
    Index,
    LazyDtype,
    MakesTasks,
    below,
    common_dtype,
    rebuilt,
    same,
    same_line,
    turned_back,
)
from lazyflow.array.nodes.indexing.masks import Masked, note_counts
from lazyflow.array.nodes.lowering import Lowering, alike
from lazyflow.array.nodes.rechunking import Rechunk
from lazyflow.array.nodes.reductions import Reduced
from lazyflow.array.nodes.reshaped import Reshape
from lazyflow.array.nodes.sources import Const, Generated, InMemory, TaskBlocks
from lazyflow.array.nodes.task_parts import named, takes_out
from lazyflow.array.nodes.views import View, with_axes
from lazyflow.array.passes.fusion import is_quick
from lazyflow.array.passes.memory import check_fits
from lazyflow.array.passes.rewrites import check_if_on, optimize
from lazyflow.graph.kinds import ATOM
from lazyflow.graph.task import HELD, Task, call_arguments
from lazyflow.schedulers.core.base import HasFiles, Observer, Scheduler, provides
from lazyflow.store.exchange_file import IS_POSSIBLE, Exchange, file_within
from lazyflow.store.memory import result_memory

# -- expressions as tasks -----------------------------------------------------------------

_LIGHT = 50e-6  # seconds of a task; two threads were slower than one below about that
_CALL = 12e-6  # seconds of a task without its elements
_ELEMENT = 0.4e-9  # seconds of one operation on an element that is in a cache
_BYTE = 0.25e-9  # seconds of writing a byte of a result, which is new memory


def as_tasks(wanted: Sequence[Expr], keep: bool = True) -> list[TaskBlocks]:
    """Return the tasks of some expressions that are computed together.

    keep
        Their chunks must stay as they are.

    >>> import lazyflow.array as la
    >>> (made,) = as_tasks([(la.ones(4, chunks=2) + 1).expr])
    >>> len(made.tasks)
    2
    """
    nodes = optimize(wanted, keep, config.get("array_fusion"))
    light = _are_light(nodes)
    computed = []
    low = Lowering(partial(exchange_of_run, nodes))
    turned = [(node, None) if keep else _in_memory_order(node) for node in nodes]
    bare = [seen if keep else _in_any_shape(seen) for seen, _ in turned]
    lowered = low.lower(bare)
    who = watching()
    if who is not None:
        who.tell(Observer.arrays_planned, list(_seen(low)))
    limit = config.memory_limit()
    if limit is not None:
        need = check_fits(low, limit, () if keep else chain.from_iterable(lowered))
        options = evaluate.planned.get()
        if options is not None and _is_here(evaluate.scheduler_or_default(options.scheduler)):
            options.largest_task = max(options.largest_task, need)
    for node, (seen, axes), made, tasks in zip(
        wanted, turned, bare, lowered, strict=True
    ):
        whole = None if seen is made else seen.shape
        computed.append(TaskBlocks(
            tasks, made.dtype_or_lazy, made.chunks, light, low.readers, whole, axes,
            made.memory_order,
        ))
        same_line(computed[-1], node)
    check_if_on(computed, computed, keep)
    return computed


def _seen(low: Lowering) -> Iterator[tuple[Any, ...]]:
    """Yield what observers hear of the nodes whose blocks are made: see `Observer`."""
    for node, blocks in low.counts().items():
        if node.line is not None and None not in node.shape:
            known = [x.known_dtype for x in (node, *node.inputs)]
            itemsize = next((dtype.itemsize for dtype in known if dtype is not None), 8)
            yield node.line, node.name, blocks, prod(map(max, node.chunks)) * itemsize


def _is_here(scheduler: Scheduler) -> bool:
    """Tell whether a scheduler's tasks can open files of this process."""
    return "files" in scheduler.options


def exchange_of_run(nodes: Sequence[Expr]) -> Exchange | None:
    """Return the source of files for the run that computes some nodes together.

    None: memory has no limit, or the scheduler is not decided yet.
    """
    options = evaluate.planned.get()
    if options is None or not IS_POSSIBLE:
        return None
    held = {
        id(where): where
        for node in below(nodes) if isinstance(node, TaskBlocks) for task in node.tasks
        if task._func is HELD and (where := task._args[0].scheduler) is not None
    }.values()
    if held and options.scheduler is None and config.get("scheduler") is None:
        scheduler, *others = held
        if others:
            return None
    else:
        scheduler = evaluate.scheduler_or_default(options.scheduler)
    if provides(scheduler, HasFiles):
        return scheduler.exchange
    limit = config.memory_limit()
    if limit is None or not all(map(_is_here, (scheduler, *held))):
        return None
    return partial(file_within, limit)


def order_of(node: Expr) -> tuple[int, ...]:
    """Return the `memory_order` in which a node is computed."""
    (made,) = optimize([node], False, config.get("array_fusion"))
    return _in_memory_order(made)[1] or tuple(range(node.ndim))


def _in_memory_order(node: Expr) -> tuple[Expr, tuple[int, ...] | None]:
    """Return what a node is with its axes in another order, and that order: it is read in a row.

    As of NumPy, the transpose of an array in C order is one in Fortran order.
    """
    while isinstance(node, Rechunk):
        node = node.inputs[0]
    axes = node.memory_order
    if axes == tuple(range(node.ndim)):
        return node, None
    return with_axes(node, turned_back(axes)), axes


def _in_any_shape(node: Expr) -> Expr:
    """Return what has the elements of a node in the same order, in any chunks and any shape."""
    while isinstance(node, Rechunk | Reshape):
        node = node.inputs[0]
    return node


def _are_light(wanted: Sequence[Expr]) -> bool:
    """Tell whether all tasks of some wanted nodes take under about 50 µs, as far as is known.

    A task of a few microseconds holds the GIL for most of its time, so that threads
    only wait for each other.
    """
    return all(_writing(node) < _LIGHT for node in wanted) and all(
        _seconds(node) < _LIGHT for node in below(wanted)
    )


def _writing(node: Expr) -> float:
    """Return an estimate of the seconds that it takes to write a block of a node."""
    dtype = node.known_dtype
    if dtype is None or None in node.shape:
        return inf
    return prod(map(max, node.chunks)) * dtype.itemsize * _BYTE


def _seconds(node: Expr) -> float:
    """Return an estimate of the seconds of one task of a node; infinity if there is none."""
    if isinstance(node, Const | InMemory | View):
        return 0.0
    if isinstance(node, Generated):
        return _writing(node) if getattr(node.formula, "is_quick", False) else inf
    if isinstance(node, TaskBlocks):
        return 0.0 if node.held else inf
    if isinstance(node, Fused):
        program, steps = node.program, node.program.steps
        quick = all(is_quick(step.op) for step in steps)
        quick = quick and not any(dtype.hasobject for dtype in program.inputs)
        if quick and not any(None in x.shape for x in node.inputs):
            elements = max([prod(map(max, x.chunks)) for x in (node, *node.inputs)])
            written = sum([program.dtype_of(n).itemsize for n, r in program.outputs if r is None])
            operations = len(steps) + len(program.outputs) + 1
            return _CALL + elements * (operations * _ELEMENT + written * _BYTE)
    elif isinstance(node, Reduced | Rechunk) and None not in node.shape:
        return _CALL + 16 * prod(map(max, node.chunks)) * _ELEMENT
    return inf


# -- A whole array, assembled of its blocks -----------------------------------------------
#
# For `compute`, the tasks that make the blocks of a large array write them into their places in it,
# where their functions can and no other task reads them; other blocks are copied there by tasks, in
# parallel, and each is forgotten at once. Tasks of other processes write into memory that this one
# lends. Where that is not possible, they return their blocks, which are copied here.

_LARGE = 1 << 20  # bytes of an array whose blocks tasks copy into a buffer; a guess


def assembled(chunks: Chunks, dtype: np.dtype[Any] | None, values: list[Any]) -> Any:
    """Return the whole array of some blocks; a scalar for an array without axes.

    `dtype` None: that of the blocks.
    """
    if len(values) == 1:
        (found,) = values
        return found[()] if not chunks and isinstance(found, np.ndarray) else found
    if is_other_kind(values[0]):
        return joined(in_nested_lists(values, tuple(map(len, chunks))), range(len(chunks)))
    if any(None in sizes for sizes in chunks):
        chunks = chunks_of(tuple(map(len, chunks)), [value.shape for value in values])
    out = np.empty(tuple(map(sum, chunks)), common_dtype(values) if dtype is None else dtype)
    for place, value in zip(block_slices(chunks), values, strict=True):
        refuse_sparse(value)
        out[place] = value
    return out


class Assembly:
    """Assembles a whole array in a task; holds nothing of the graph."""

    def __init__(self, node: TaskBlocks) -> None:
        self.chunks, self.known_dtype = node.chunks, node.known_dtype
        self.whole, self.axes = node.whole, node.axes

    def finalize(self, values: list[Any]) -> Any:
        """Return the whole array of its blocks."""
        return _turned(self, _put_together(self, values))


class Result:
    """A whole array, in memory of this process, and, once a part was pickled, in lent memory."""

    def __init__(self, shape: tuple[Any, ...], dtype: np.dtype[Any]) -> None:
        try:
            self.array = np.empty(shape, dtype)  # takes no memory before it is written
        except MemoryError as error:
            error.add_note(
                "compute() returns the whole array in memory. Reduce or slice it first, or write "
                "its blocks elsewhere: la.store(x, target), x.to_zarr(path)."
            )
            raise
        self._lent: result_memory.LentMemory | None = None
        self._is_refused = False
        self._lock = Lock()

    def address(self) -> Any:
        """Return where others find the lent memory, or None where the system gives none."""
        with self._lock:
            if self._lent is None and not self._is_refused:
                try:
                    self._lent = result_memory.LentMemory(self.array.nbytes)
                except OSError:
                    self._is_refused = True
            return None if self._lent is None else self._lent.address

    def written_by_others(self, again: bool) -> np.ndarray[Any, Any]:
        """Return the array in lent memory; `again`: see `LentMemory.edited`."""
        assert self._lent is not None
        return np.ndarray(self.array.shape, self.array.dtype, self._lent.edited(again))


class ResultPart:
    """The part of a result that a task writes; an argument not searched for lazy values.

    Pickling it is quick: the first time, it makes the memory that is lent.

    written
        The result of the task that has written it: None. Of lent memory, whether a worker of the
        process that lent it has written it.
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
        return result_memory.is_worker

    def __init__(self, address: Any, layout: Any) -> None:
        self._address = address
        self._layout = layout

    def open(self) -> Any:
        memory = None if self._address is None else result_memory.borrowed(self._address)
        if memory is None:
            return None
        shape, dtype, _, start, strides = self._layout
        return np.ndarray(shape, dtype, memory, start, strides)

    def __reduce__(self) -> Any:
        return BorrowedPart, (self._address, self._layout)


def put(part: ResultPart, block: Any) -> Any:
    """Copy a block into its part of a result; without a part, return the block."""
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


class BufferedBlocks(TaskBlocks):
    """Tasks that write their blocks into an array; to be run once."""

    __slots__ = ("result",)

    def __init__(self, node: TaskBlocks, result: Result) -> None:
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
    assert isinstance(node, TaskBlocks)
    dtype = node.known_dtype
    if dtype is None or dtype.hasobject or None in node.shape or len(node.tasks) < 2:
        return node
    if node.kind is not None:
        return node
    if node.size * dtype.itemsize < _LARGE:
        return node
    made = BufferedBlocks(node, Result(node.whole or node.shape, dtype))
    same_line(made, node)
    return made


def finished(node: Expr, values: list[Any]) -> Any:
    """Return the value of a node of tasks, given what these returned."""
    assert isinstance(node, TaskBlocks)
    found = node.finish(values) if isinstance(node, BufferedBlocks) else _put_together(node, values)
    return _turned(node, found)


def _turned(node: TaskBlocks | Assembly, found: Any) -> Any:
    return found if node.axes is None else found.transpose(node.axes)


def _put_together(node: TaskBlocks | Assembly, values: list[Any]) -> Any:
    found, dtype = assembled(node.chunks, node.known_dtype, values), node.known_dtype
    if node.whole is None:
        return found
    if not node.chunks and dtype is not None:
        one = np.empty(1, dtype)  # an element may have no shape, and has not the width of a text
        one[0] = found
        found = one
    return found.reshape(node.whole)[()]


# -- lengths ------------------------------------------------------------------------------
#
# `x[mask]` has None for its length until a function needs it: `resolve_lengths` then computes the
# mask alone and keeps its counts, for all arrays with this mask. For other unknown lengths the
# blocks are computed, and their shapes are kept. A cast to texts or dates may need the values, for
# the length of the texts or the unit.


class Sized(Expr):
    """A node whose lengths were found out."""

    __slots__ = ()
    of_any_kind = True

    def __init__(self, inputs: tuple[Expr, ...], chunks: Chunks) -> None:
        super().__init__(inputs, inputs[0].dtype_or_lazy, chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        return low.block(self.inputs[0], index)


def resolve_lengths(*values: Any) -> None:
    """Compute the unknown lengths of arrays together, in place; other values are left alone."""
    unknown = [x for x in values if None in getattr(getattr(x, "_expr", None), "shape", ())]
    nodes = _by_blocks(_by_masks([x._expr for x in unknown]))
    for x, node in zip(unknown, nodes, strict=True):
        x._node = node  # the base of a view stays the same


def _by_masks(nodes: list[Expr]) -> list[Expr]:
    """Return equals in which the lengths that depend on masks are known; computes the masks."""
    origins = [node for node in below(nodes) if isinstance(node, Masked) and not node.counts]
    if not origins:
        return nodes
    masks = list(dict.fromkeys([x.inputs[1] for x in origins if x.mask_counts() is None]))
    for mask, counts in zip(masks, _computed(masks, np.count_nonzero), strict=True):
        note_counts(mask, tuple(map(int, counts)))  # so that all nodes with this mask know it

    def change(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        try:
            made = same(node, inputs)
        except SizesNeeded:  # of an input beside these only the blocks tell the lengths
            return node
        if isinstance(node, Masked) and not node.counts:
            found = node.mask_counts()
            note_counts(made.inputs[1], found)
            return type(node)(made.inputs, node.first, found)
        return made

    return rebuilt(nodes, change)


def _by_blocks(nodes: list[Expr]) -> list[Expr]:
    """Return equals whose lengths are known; computes the shapes of their blocks."""
    unknown = [node for node in nodes if None in node.shape]
    found = iter(_computed(unknown, attrgetter("shape")))
    return [_sized(node, next(found)) if None in node.shape else node for node in nodes]


def dtype_of_cast(node: Expr, dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a cast to `dtype`, which may leave a length or a unit open.

    Numbers have a longest text for each dtype. For objects as texts and for texts as dates the
    values decide: the node is computed for them, beside its use in the expression.

    >>> import lazyflow.array as la
    >>> [str(dtype_of_cast(la.ones(1, dtype=kind).expr, str)) for kind in (int, object)]
    ['<U21', '<U1']
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "mM":
        is_open = np.datetime_data(dtype)[0] == "generic"
    else:
        is_open = not dtype.itemsize and dtype.names is None
    if not is_open:
        return dtype
    if node.dtype.kind == "O" or (node.dtype.kind in "SU" and dtype.kind == "M"):
        found = {*_computed([node], named("astype", _own_dtype, dtype))[0]} - {None}
        if found:
            return np.result_type(*found)
    return np.empty(0, node.dtype).astype(dtype).dtype


def kept(node: Expr, tasks: Sequence[Task]) -> TaskBlocks:
    """Return the node of an array whose blocks are held by tasks.

    If the dtype is still unknown, it is that of the blocks.
    """
    dtype: Any = node.dtype_or_lazy
    if node.kind is None:
        dtype = node.known_dtype or LazyDtype(partial(_dtype_of_blocks, tasks, node.chunks))
    return TaskBlocks(tasks, dtype, node.chunks, order=node.memory_order)


def _dtype_of_blocks(tasks: Sequence[Task], chunks: Chunks) -> np.dtype[Any]:
    found = {*_computed([TaskBlocks(tasks, np.dtype(object), chunks)], attrgetter("dtype"))[0]}
    if len(found) == 1:
        return found.pop()
    if {dtype.kind for dtype in found} not in ({"S"}, {"U"}):
        raise TypeError(
            f"the blocks have several dtypes: {', '.join(sorted(map(str, found)))}. "
            "Pass dtype= to the function that made them, such as map_blocks()."
        )
    return np.result_type(*found)


def _own_dtype(dtype: Any, block: Any) -> Any:
    return block.astype(dtype).dtype if block.size else None


def _computed(nodes: list[Expr], function: Any) -> list[Any]:
    """Return what a function gives for each block of some nodes."""
    if not nodes:
        return []
    low = Lowering()
    wanted = [
        [low.task(function, (block,), node) for block in low.blocks(made)]
        for node, made in zip(nodes, optimize(nodes), strict=True)
    ]
    found: list[Any] = evaluate.compute(wanted)[0]
    return found


def _sized(node: Expr, shapes: list[tuple[int, ...]]) -> Expr:
    made = Sized((node,), chunks_of(node.numblocks, shapes))
    same_line(made, node)
    return made
