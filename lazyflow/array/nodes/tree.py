"""Reductions as trees: blocks give parts, neighbouring parts are merged, the last is finished.

The order of merging is a function of the blocks' number only. With axes in one chunk, the same
node applies a function along these axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import TASKS, Chunks, normalize_chunks
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.task_parts import BlockPosition, named, takes_out
from lazyflow.array.nodes.views import seen
from lazyflow.graph.task import Task

#: How axes of a result come about: the number of an axis of the input, or the one chunk's length.
Layout = tuple[int | tuple[int | None], ...]

_WORTH = 1 << 20  # bytes of a piece from which a task more is worth it
TOGETHER = 16  # parts that one task merges


class TreeReduction:
    """The steps of a tree. Subclasses are hashable, and equal when they do the same.

    Attributes
    ----------
    placed
        `first` is also told where the block begins.
    together
        How many neighbours are merged at a time.
    merge_name
        What tasks are called that merge some of the parts, if not as the tree with ``-merge``.
    takes_out
        `merge` has a keyword ``out``, as functions of blocks that take it.
    by_caller
        `merge` and `last` call no code of the user's, and get little: see `merged`.
    """

    __name__ = "tree"
    placed = False
    together = TOGETHER
    merge_name = ""
    takes_out = False
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
    """

    __slots__ = ("count", "layout", "op")

    def __init__(
        self, inputs: tuple[Expr, ...], count: int, op: TreeReduction, layout: Layout,
        dtype: np.dtype[Any],
    ) -> None:
        chunks: Chunks = tuple([
            inputs[0].chunks[each] if isinstance(each, int) else each for each in layout
        ])
        super().__init__(inputs, dtype, chunks)
        self.count = count
        self.op = op
        self.layout = layout

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
        parts = []
        for number in product(*ranges):
            place = [self._place(low, number)] if op.placed else []
            blocks = [low.block(x, number) for x in self.inputs[: self.count]]
            parts.append(low.task(first, (*place, *blocks, *everywhere), self))
        if alone:
            return parts[0]
        return merged(low, self, parts, op)

    def _place(self, low: MakesTasks, number: Index) -> BlockPosition:
        bounds = low.bounds(self.inputs[0])
        starts = tuple([edge[i] for edge, i in zip(bounds, number, strict=True)])
        return BlockPosition(number, starts)


def first_part(op: TreeReduction, alone: bool, *blocks: Any) -> Any:
    """Return the part of one block; the result, if there is no other."""
    found = op.first(*blocks)
    return op.last(found) if alone else found


def merged_parts(
    op: TreeReduction, is_last: bool, which: int | None, *parts: Any, **out: Any
) -> Any:
    """Return one part for some neighbouring parts; the result, if they are the last.

    which
        The number of what is merged, where blocks gave tuples; None: they did not.
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
    which: int | None = None,
) -> Task:
    """Return the task of some parts merged, neighbours first: a tree whose order is fixed."""
    while len(parts) > op.together:
        name = op.merge_name or f"{op.__name__}-merge"
        step = low.shared(node, ("merge", which), _step, name, op, False, which)
        parts = [
            low.task(step, parts[i:i + op.together], node)
            for i in range(0, len(parts), op.together)
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
    return Tree((*_alike(inputs), *others), len(inputs), op, layout, np.dtype(dtype))


def _alike(nodes: Sequence[Expr]) -> list[Expr]:
    return [rechunk(x, nodes[0].chunks) for x in nodes]


def kept_axes(ndim: int, axes: Sequence[int], keepdims: Any) -> Layout:
    """Return the layout of a reduction over axes."""
    found: list[int | tuple[int | None]] = []
    for k in range(ndim):
        if k not in axes:
            found.append(k)
        elif keepdims:
            found.append((1,))
    return tuple(found)


def whole_along(node: Expr, axes: Sequence[int]) -> Expr:
    """Return a node with one chunk along some axes, and shorter ones along others if need be.

    Blocks stay below eight times ``config.chunk_bytes`` where the other axes can do that. What has
    to be put together anyway becomes pieces enough for many workers: of 400,000 x 100 in two
    columns the medians took three quarters of the time that they took in twenty.
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
