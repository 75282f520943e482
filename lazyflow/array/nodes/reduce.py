"""Reductions: each block gives a partial result, and these are merged in a fixed order.

The order depends on shape and chunks only, never on where tasks run: sixteen neighbours are merged
at a time, first the results of blocks, then the results of these merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.kernels.program import Reduction
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.tree import TreeReduction, merged
from lazyflow.array.nodes.views import seen
from lazyflow.graph.task import Task

_LITTLE = 1 << 18  # bytes of partial results that cost less to send to the caller than a message


class Reduce(Expr):
    """A reduction before it is fused; reduced axes stay, with length 1.

    inputs
        The value, and for moments perhaps what counts of it, of the same shape.
    finish
        What makes the result of the merged partial results, or None. Hashable.
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
        return str(getattr(self.finish, "__name__", self.reduction.kind))

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
        return str(getattr(self.finish, "__name__", self.reduction.kind))

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
        return merged(low, self, parts, op, self.which)

    def _merging(self, count: int) -> MergePartials:
        """Return how so many partial results are merged."""
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
        self.merge_name = f"{reduction.kind}-merge"
        name = getattr(finish, "__name__", reduction.kind)
        self.__name__ = self.merge_name if finish is None else name

    def merge(self, parts: Sequence[Any], out: Any = None) -> Any:
        from lazyflow.array.kernels.run import merge  # 25 ms: with the first kernel

        return merge(self.reduction, parts, out)

    def last(self, part: Any) -> Any:
        found = part if self.finish is None else self.finish(part)
        if self.dropped:
            found = found.squeeze(self.dropped)
        return found[self.new] if None in self.new else found
