"""Reductions: blocks give parts, neighbouring parts are merged in order, the last is finished.

The order of merging is a function of the blocks' number only, never of where tasks run: sixteen
neighbours at a time, first the parts of blocks, then what these merges give. With axes in one
chunk, the same node applies a function along these axes.

    >>> import lazyflow.array as la
    >>> from lazyflow.array.evaluation import as_tasks
    >>> blocks = la.arange(40, chunks=1).map_blocks(np.copy, dtype=int)
    >>> (made,) = as_tasks([blocks.sum().expr])
    >>> (last,) = made.tasks
    >>> last, [len(part._inputs) for part in last._inputs]  # it merges three, these 40
    (<Delayed sum-merge(<sum-merge>, <sum-merge>, <sum-merge>)>, [16, 16, 8])
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lazyflow import config
from lazyflow.array.chunks import TASKS, Chunks, normalize_chunks
from lazyflow.array.kernels.order import GROUP, Kind, Reduction
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.task_parts import BlockPosition, named, takes_out
from lazyflow.array.nodes.views import seen, view
from lazyflow.graph.task import Task

# -- trees of reductions ------------------------------------------------------------------

#: How axes of a result come about: the number of an axis of the input, or the one chunk's length.
Layout = tuple[int | tuple[int | None], ...]

_WORTH = 1 << 20  # bytes of a piece from which a task more is worth it; guessed

#: How many parts the trees that are made now merge at a time, or None: see `takes_split_every`.
_split_every: ContextVar[int | None] = ContextVar("split_every", default=None)


def takes_split_every(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction that also takes ``split_every=``: how many parts one task merges.

    It holds for all reductions that the function is made of. A dict gives numbers by axis, which
    are multiplied; other axes count as 1.
    """
    own = signature(function)

    @wraps(function)
    def reduce(*args: Any, split_every: Any = None, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        if split_every is None or split_every is False:  # dask's way to leave it to the library
            return function(*args, **kwargs)
        if isinstance(split_every, Mapping):
            split_every = prod([parts_at_once(n) for n in split_every.values()])
        token = _split_every.set(parts_at_once(split_every))
        try:
            return function(*args, **kwargs)
        finally:
            _split_every.reset(token)

    added = Parameter("split_every", Parameter.KEYWORD_ONLY, default=None)
    reduce.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), added]
    )
    return reduce


class TreeReduction:
    """The steps of a tree: hashable. Those that are equal do the same, and share their tasks.

    Attributes
    ----------
    placed
        `first` is also told where the block begins.
    together
        How many neighbours are merged at a time.
    merge_name
        Name of the tasks that merge some of the parts; "": that of the tree with ``-merge``.
    takes_out
        `merge` has a keyword ``out``: see `task_parts.takes_out`.
    first_takes_out
        `first` has it, too, for trees of one block.
    by_caller
        `merge` and `last` get little data and never call the user's code, so the waiting process
        may run them itself: see schedulers/processes/parent/pool_run.py.
    """

    __name__ = "tree"
    placed = False
    together = GROUP
    merge_name = ""
    takes_out = False
    first_takes_out = False
    by_caller = False

    def first(self, *blocks: Any) -> Any:
        """Return the part of one block, given its position if `placed`, and all inputs' blocks."""
        raise TypeError(f"{type(self).__name__} has no first step")

    def merge(self, parts: Sequence[Any]) -> Any:
        """Return one part for some neighbouring parts."""
        raise TypeError(f"{type(self).__name__} works on axes in one chunk")

    def last(self, part: Any) -> Any:
        """Return a block of the result, given the last part."""
        return part


class Tree(Expr):
    """The result of a `TreeReduction` over the blocks along some axes.

    inputs
        First `count` nodes of equal chunks, then nodes of one block that every task gets.
    layout
        For each axis of the result an axis that is kept, or ``(n,)`` for a new one.
    together
        How many parts are merged at a time; None: as the operation says.
    """

    __slots__ = ("count", "layout", "op", "together")

    def __init__(
        self, inputs: tuple[Expr, ...], count: int, op: TreeReduction, layout: Layout,
        dtype: np.dtype[Any], together: int | None = None,
    ) -> None:
        chunks: Chunks = tuple([
            inputs[0].chunks[each] if isinstance(each, int) else each for each in layout
        ])
        super().__init__(inputs, dtype, chunks)
        self.count = count
        self.op = op
        self.layout = layout
        self.together = together

    @property
    def name(self) -> str:
        return self.op.__name__

    def through(self, selection: Selection) -> Recipe | None:
        taken: dict[int, Any] = {}
        left: list[Any] = []
        slices = selection.slices().picks
        for each, pick, whole in zip(self.layout, selection.picks, slices, strict=True):
            if isinstance(each, int):
                taken[each] = whole
                left.append(0 if isinstance(pick, int) else None)
            else:
                left.append(pick)
        node = self.inputs[0]
        inner = Selection(tuple([taken.get(k) for k in range(node.ndim)]), tuple(range(node.ndim)))
        return seen(
            [(x, inner) for x in self.inputs[: self.count]],
            lambda found: self.with_inputs((*_alike(found), *self.inputs[self.count:])),
            Selection(tuple(left), selection.axes),
        )

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        op = self.op
        at = {each: i for each, i in zip(self.layout, index, strict=True) if isinstance(each, int)}
        ranges = [
            (at[k],) if k in at else range(n) for k, n in enumerate(self.inputs[0].numblocks)
        ]
        everywhere = [low.block(x, (0,) * x.ndim) for x in self.inputs[self.count:]]
        alone = prod(map(len, ranges)) == 1
        first = low.shared(self, "first", named, op.__name__, first_part, op, alone)
        first.takes_out = alone and op.first_takes_out
        parts = []
        for number in product(*ranges):
            place = [place_of(low, self.inputs[0], number)] if op.placed else []
            blocks = [low.block(x, number) for x in self.inputs[: self.count]]
            parts.append(low.task(first, (*place, *blocks, *everywhere), self))
        if alone:
            return parts[0]
        return merged(low, self, parts, op, together=self.together)


def place_of(low: MakesTasks, node: Expr, number: Index) -> BlockPosition:
    """Return the number of a block of a node, and where it begins."""
    starts = tuple([edge[i] for edge, i in zip(low.bounds(node), number, strict=True)])
    return BlockPosition(number, starts)


def first_part(op: TreeReduction, alone: bool, *blocks: Any, **out: Any) -> Any:
    """Return the part of one block; for trees of one block, the result."""
    found = op.first(*blocks, **out)
    return op.last(found) if alone else found


def merged_parts(
    op: TreeReduction, is_last: bool, which: int | None, *parts: Any, **out: Any
) -> Any:
    """Return one part for some neighbouring parts; the result, if they are the last.

    which
        The place of the merged part, if blocks gave tuples; else None.
    """
    if which is not None:
        parts = tuple([part[which] for part in parts])
    found = op.merge(parts, **out) if len(parts) > 1 else parts[0]
    return op.last(found) if is_last else found


def _step(name: str, op: TreeReduction, is_last: bool, which: int | None) -> Any:
    made = named(name, merged_parts, op, is_last, which)
    made.takes_out = is_last and takes_out(op)
    made._lazyflow_by_caller = op.by_caller  # who waits for the result may run this itself
    return made


def merged(
    low: MakesTasks, node: Expr, parts: Sequence[Task], op: TreeReduction,
    which: int | None = None, together: int | None = None,
) -> Task:
    """Return the task of some parts merged, neighbours first: a tree whose order is fixed."""
    together = together or op.together
    while len(parts) > together:
        name = op.merge_name or f"{op.__name__}-merge"
        step = low.shared(node, ("merge", which), _step, name, op, False, which)
        parts = [
            low.task(step, parts[i:i + together], node)
            for i in range(0, len(parts), together)
        ]
        which = None
    last = low.shared(node, ("last", which), _step, op.__name__, op, True, which)
    return low.task(last, parts, node)


def tree(
    op: TreeReduction, inputs: Sequence[Expr], layout: Layout, dtype: Any,
    everywhere: Sequence[Expr] = (),
) -> Expr:
    """Return a tree over nodes of one shape; every task gets the nodes of `everywhere` whole."""
    others = [rechunk(x, tuple([(n,) for n in x.shape])) for x in everywhere]
    merged = _split_every.get()
    return Tree((*_alike(inputs), *others), len(inputs), op, layout, np.dtype(dtype), merged)


def _alike(nodes: Sequence[Expr]) -> list[Expr]:
    return [rechunk(x, nodes[0].chunks) for x in nodes]


def parts_at_once(split_every: Any) -> int:
    """Return how many parts one task merges, given a ``split_every=``."""
    found = GROUP if split_every is None else operator.index(split_every)
    if found < 2:
        raise ValueError(f"split_every must be 2 or more; got {split_every!r}")
    return found


def kept_axes(ndim: int, axes: Sequence[int], keepdims: Any) -> Layout:
    """Return the layout of a reduction over axes."""
    found: list[int | tuple[int | None]] = []
    for k in range(ndim):
        if k not in axes:
            found.append(k)
        elif keepdims:
            found.append((1,))
    return tuple(found)


def reduced_shape(node: Expr, axes: Sequence[int], keepdims: Any) -> tuple[int | None, ...]:
    """Return the shape of a reduction over axes."""
    layout = kept_axes(node.ndim, axes, keeps(keepdims))
    return tuple([node.shape[each] if isinstance(each, int) else 1 for each in layout])


def whole_along(node: Expr, axes: Sequence[int]) -> Expr:
    """Return a node with one chunk along some axes, and shorter ones along others if need be.

    Blocks stay below eight times ``config.chunk_bytes`` where the other axes can do that. Where
    axes have to be joined anyway, the other axes are cut into pieces for many workers: medians of
    400,000 x 100 took three quarters of the time in pieces of two columns as in pieces of twenty.
    """
    chunks: list[Any] = [
        (node.shape[k],) if k in axes else sizes for k, sizes in enumerate(node.chunks)
    ]
    if any(None in sizes for sizes in chunks):
        return rechunk(node, tuple(chunks))
    itemsize = node.dtype.itemsize

    def bytes_of(sizes: Sequence[Any]) -> int:
        return prod(map(max, sizes)) * itemsize

    limit = max(8 * config.get("chunk_bytes"), bytes_of(node.chunks))
    shape: Any = node.shape
    if any(len(node.chunks[k]) > 1 for k in axes):
        limit = min(limit, max(prod(shape) * itemsize // TASKS, _WORTH))
    if bytes_of(chunks) > limit:
        wanted = {k: -1 if k in axes else "auto" for k in range(node.ndim)}
        chunks = list(normalize_chunks(wanted, shape, limit, node.dtype))
    return rechunk(node, tuple(chunks))


# -- reducing nodes -----------------------------------------------------------------------

#: Bytes of partial results that cost less to send to the caller than a message; guessed.
_LITTLE = 1 << 18


class Reduce(Expr):
    """A reduction before it is fused; reduced axes stay, with length 1.

    inputs
        The value, and for moments perhaps a mask of the same shape.
    finish
        Function from the merged partial results to the result, or None. Hashable.
    """

    __slots__ = ("finish", "reduction")

    def __init__(
        self, inputs: tuple[Expr, ...], reduction: Reduction, finish: Any, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(inputs, dtype, _reduced(inputs[0].chunks, reduction.axes))
        self.reduction = reduction
        self.finish = finish

    @property
    def name(self) -> str:
        return str((self.finish or self.reduction.kind).__name__)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        raise TypeError(f"{self.name} has no blocks of its own: it is fused first")

    def through(self, selection: Selection) -> Recipe | None:
        slices = selection.slices()
        inner = Selection(
            tuple([
                None if axis in self.reduction.axes else pick
                for axis, pick in enumerate(slices.picks)
            ]),
            slices.axes,
        )
        if inner.is_identity(self.inputs[0].shape):  # before more is looked at: this is the rule
            return None
        rest = selection.rest()
        picks = [  # what is taken of a reduced axis of length 1 may be nothing
            selection.picks[axis] if axis in self.reduction.axes else pick
            for axis, pick in enumerate(rest.picks)
        ]
        pairs = [(x, inner) for x in self.inputs]
        return seen(pairs, self.with_inputs, Selection(tuple(picks), rest.axes))


def _reduced(chunks: Chunks, axes: tuple[int, ...]) -> Chunks:
    return tuple([(1,) if axis in axes else sizes for axis, sizes in enumerate(chunks)])


class Reduced(Expr):
    """The merged result of one of the reductions that a fused node did on each block.

    inputs
        The fused node, or one whose blocks have length 1 along the reduced axes.
    which
        The number of the reduction, where the node did several on each block.
    axes
        For each axis of the result that of the input, or ~1 for a new one.
    """

    __slots__ = ("axes", "finish", "reduction", "which")

    def __init__(
        self,
        inputs: tuple[Expr, ...],
        reduction: Reduction,
        which: int | None,
        finish: Any,
        dtype: np.dtype[Any],
        axes: tuple[int, ...],
    ) -> None:
        chunks = _reduced(inputs[0].chunks, reduction.axes)
        super().__init__(inputs, dtype, tuple([(1,) if k < 0 else chunks[k] for k in axes]))
        self.reduction = reduction
        self.which = which
        self.finish = finish
        self.axes = axes

    @property
    def name(self) -> str:
        return str((self.finish or self.reduction.kind).__name__)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (partials,) = self.inputs
        at = dict(zip(self.axes, index, strict=True))
        ranges = [
            range(len(sizes)) if axis in self.reduction.axes else (at[axis],)
            for axis, sizes in enumerate(partials.chunks)
        ]
        parts = [low.block(partials, i) for i in product(*ranges)]
        if isinstance(partials, Fused) and partials.last is not None:
            return parts[0]
        op = low.shared(self, "op", self._merging, len(parts))
        return merged(low, self, parts, op, self.which, self.reduction.together)

    def _merging(self, count: int) -> MergePartials:
        """Return how `count` partial results are merged."""
        op = MergePartials(self.reduction, self.finish, self.axes)
        dtype, size = self.reduction.dtype, prod(map(max, self.chunks))
        op.by_caller = not dtype.hasobject and count * size * dtype.itemsize <= _LITTLE
        return op


class MergePartials(TreeReduction):
    """Merges partial results, and computes the final result of the last one.

    axes
        Of the final result: see `Reduced`.
    """

    def __init__(self, reduction: Reduction, finish: Any, axes: tuple[int, ...]) -> None:
        self.reduction = reduction
        self.finish = finish
        self.dropped = tuple([axis for axis in reduction.axes if axis not in axes])
        self.new = tuple([None if axis < 0 else slice(None) for axis in axes])
        self.takes_out = finish is None
        self.merge_name = f"{reduction.kind.__name__}-merge"
        self.__name__ = self.merge_name if finish is None else finish.__name__

    def merge(self, parts: Sequence[Any], out: Any = None) -> Any:
        from lazyflow.array.kernels.run import merge  # 25 ms: with the first kernel

        return merge(self.reduction, parts, out)

    def last(self, part: Any) -> Any:
        found = part if self.finish is None else self.finish(part)
        if self.dropped:
            found = found.squeeze(self.dropped)
        return found[self.new] if None in self.new else found


# -- what makes results of merged partial results -----------------------------------------------


def _dividing(quiet: bool) -> Any:
    return np.errstate(divide="ignore", invalid="ignore") if quiet else np.errstate()


@dataclass(frozen=True)
class MeanOf:
    """Divides sums by how many elements they are of.

    held
        The dtype of the array that holds the sum, if it differs: that of `out`.
    count
        The number of elements; None: it comes with the sums, for each of them.
    quiet
        Division by 0 warns once, as the versions that leave NaN out do.
    """

    dtype: np.dtype[Any]
    held: np.dtype[Any] | None = None
    count: int | None = None
    quiet: bool = False

    @property
    def __name__(self) -> str:
        return "divide" if self.count is None else "mean"  # as NumPy's warnings say

    def __call__(self, total: Any, count: Any = None) -> Any:
        if self.count is not None:
            count = np.intp(self.count)  # of the type that NumPy divides by
        if (count == 0).any():
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
        total = np.asarray(total).astype(self.held or total.dtype, copy=False)
        with _dividing(self.quiet):
            found = np.true_divide(total, count)
        return np.asarray(found).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class MeanOfMoments:
    """Takes the mean of moments."""

    dtype: np.dtype[Any]
    __name__ = "mean"

    def __call__(self, moments: Any) -> Any:
        count, mean, _ = moments
        if (count == 0).any():
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
            mean = np.where(count == 0, np.nan, mean)
        return np.asarray(mean).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class VarOf:
    """Computes a variance, or its root, from moments, or from squares and their number.

    quiet
        As of `MeanOf`.
    """

    ddof: float
    root: bool
    quiet: bool
    dtype: np.dtype[Any]

    @property
    def __name__(self) -> str:
        return "std" if self.root else "var"

    def __call__(self, squares: Any, count: Any = None) -> Any:
        if count is None:
            count, _, squares = squares
        count = np.real(count)
        freedom = count - self.ddof
        if (freedom <= 0).any():
            words = "Degrees of freedom <= 0 for slice" + "." * self.quiet  # NumPy's
            warnings.warn(words, RuntimeWarning, stacklevel=2)
        squares = np.real(squares)
        if self.dtype.kind == "c":
            squares = squares.astype(self.dtype)
        with _dividing(self.quiet):
            found = squares / np.maximum(freedom, 0)
        if self.quiet:
            found = np.where(freedom <= 0, np.nan, found)
        # before the root: what overflows is infinite, as in NumPy
        found = np.asarray(found).astype(self.dtype, copy=False)
        return np.asarray(np.sqrt(found)).astype(self.dtype, copy=False) if self.root else found


# -- the common part ----------------------------------------------------------------------------


def reduced(
    node: Expr,
    kind: Kind,
    axis: Any,
    keepdims: Any,
    dtype: Any,
    result: Any = None,
    finish: Any = None,
    mask: Expr | None = None,
) -> Expr:
    """Return a reduction of a node over axes.

    dtype, result
        The dtype of the computation, and that of the result if `finish` changes it.
    """
    axes = axes_of(axis, node.ndim)
    dtype = np.dtype(dtype)
    whole = without_empty(node, axes)
    inputs = (whole,) if mask is None else (whole, rechunk(mask, whole.chunks))
    if axes or kind.parts:
        reduction = Reduction(kind, axes, dtype, None, _split_every.get())
        made: Expr = Reduce(inputs, reduction, finish, np.dtype(result or dtype))
    else:
        made = elementwise.cast(node, dtype)
        if kind.adds_to_zero and dtype.kind in "fc":
            (made,) = elementwise.ufunc(np.add, (made, elementwise.constant(0, dtype)))
        if finish is not None:
            made = elementwise.function(finish, (made,), result or dtype)
    if keeps(keepdims):
        return made
    kept = tuple([k for k in range(node.ndim) if k not in axes])
    picks = tuple([0 if k in axes else None for k in range(node.ndim)])
    return view(made, Selection(picks, kept))


def keeps(keepdims: Any) -> bool:
    """Tell whether a value of ``keepdims=`` means yes; as of NumPy, only integers do."""
    if isinstance(keepdims, bool | np.bool) or keepdims is np._NoValue:
        return keepdims is not np._NoValue and bool(keepdims)
    return bool(operator.index(keepdims))


def axis_of(axis: Any, ndim: int) -> int:
    """Return the number of an axis."""
    return normalize_axis_index(operator.index(axis), ndim)


def axes_of(axis: Any, ndim: int, as_1d: bool = True) -> tuple[int, ...]:
    """Return the numbers of axes to reduce, sorted; 0-d arrays take a number as 1-d ones do.

    as_1d
        False in means, variances and quantiles, which check their axes by other rules in NumPy.
    """
    if axis is None:
        return tuple(range(ndim))
    if ndim == 0 and as_1d and not isinstance(axis, tuple):
        axis_of(axis, 1)
        return ()
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def without_empty(node: Expr, axes: tuple[int, ...]) -> Expr:
    """Return a node without chunks of length 0 along axes that have others."""
    if not any(0 in node.chunks[axis] for axis in axes):
        return node
    return rechunk(node, tuple([
        tuple([n for n in sizes if n != 0]) or (0,) if axis in axes else sizes
        for axis, sizes in enumerate(node.chunks)
    ]))


def count_over(node: Expr, axes: tuple[int, ...]) -> int | None:
    """Return the number of elements along axes; None if unknown."""
    lengths: list[Any] = [node.shape[axis] for axis in axes]
    return None if None in lengths else prod(lengths)
