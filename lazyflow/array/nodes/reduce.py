"""Reductions: partial results of blocks, merged in a fixed order.

The order is a function of shape and chunks, never of who runs what: neighbours are merged by
sixteens, first blocks, then what they gave.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.kernels.program import Reduction
from lazyflow.array.nodes.expr import Expr, Index
from lazyflow.array.nodes.views import Spec, view
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.nodes.lowering import Lowering

_TOGETHER = 16  # partial results that are merged by one task


class Reduce(Expr):
    """A reduction, before it was fused; reduced axes stay with length 1.

    inputs
        The value, and for moments perhaps what counts of it, of the same shape.
    finish
        What makes the result of the merged partial results, or None. Hashable.
    """

    __slots__ = ("finish", "reduction")

    def __init__(
        self, inputs: tuple[Expr, ...], reduction: Reduction, finish: Any, dtype: np.dtype[Any]
    ) -> None:
        axes = reduction.axes
        chunks = tuple([
            (1,) if axis in axes else sizes for axis, sizes in enumerate(inputs[0].chunks)
        ])
        super().__init__(dtype, chunks, inputs)
        self.reduction = reduction
        self.finish = finish

    @property
    def name(self) -> str:
        return str(getattr(self.finish, "__name__", self.reduction.kind))

    def params(self) -> tuple[Any, ...]:
        return (self.reduction, self.finish, self.dtype)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return Reduce(inputs, self.reduction, self.finish, self.dtype)

    def through(self, spec: Spec) -> Any:
        slices = spec.slices()
        inner = Spec(
            tuple([
                None if axis in self.reduction.axes else pick
                for axis, pick in enumerate(slices.picks)
            ]),
            slices.axes,
        )
        if inner.is_identity(self.inputs[0].shape):
            return None

        rest = spec.rest()
        picks = [  # what is taken of a reduced axis of length 1 may be nothing
            spec.picks[axis] if axis in self.reduction.axes else pick
            for axis, pick in enumerate(rest.picks)
        ]

        def make(found: list[Expr]) -> Expr:
            return view(self.with_inputs(tuple(found)), Spec(tuple(picks), rest.axes))

        return [(x, inner) for x in self.inputs], make


class Partials(Expr):
    """What blocks gave: a fused node, seen by the reductions that merge it."""

    __slots__ = ("axes",)

    def __init__(self, fused: Expr, axes: tuple[int, ...]) -> None:
        super().__init__(fused.dtype, fused.chunks, (fused,))
        self.axes = axes

    def params(self) -> tuple[Any, ...]:
        return (self.axes,)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return Partials(inputs[0], self.axes)

    def make_block(self, low: Lowering, index: Index) -> Task:
        return low.block(self.inputs[0], index)


class Reduced(Expr):
    """The merged result of one of the reductions that a fused node did on each block."""

    __slots__ = ("finish", "reduction", "which")

    def __init__(
        self,
        partials: Partials,
        reduction: Reduction,
        which: int | None,
        finish: Any,
        dtype: np.dtype[Any],
    ) -> None:
        chunks: Chunks = tuple([
            (1,) if axis in partials.axes else sizes
            for axis, sizes in enumerate(partials.chunks)
        ])
        super().__init__(dtype, chunks, (partials,))
        self.reduction = reduction._replace(mask=None)
        self.which = which
        self.finish = finish

    @property
    def name(self) -> str:
        return str(getattr(self.finish, "__name__", self.reduction.kind))

    def params(self) -> tuple[Any, ...]:
        return (self.reduction, self.which, self.finish)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        (partials,) = inputs
        assert isinstance(partials, Partials)
        return Reduced(partials, self.reduction, self.which, self.finish, self.dtype)

    def make_block(self, low: Lowering, index: Index) -> Task:
        (partials,) = self.inputs
        assert isinstance(partials, Partials)
        ranges = [
            range(len(sizes)) if axis in partials.axes else (index[axis],)
            for axis, sizes in enumerate(partials.chunks)
        ]
        parts = [low.block(partials, i) for i in product(*ranges)]
        which = self.which
        while len(parts) > _TOGETHER:
            step = low.shared(self, ("merge", which), Merge, self.reduction, which, None)
            parts = [
                low.task(step, parts[i:i + _TOGETHER], self)
                for i in range(0, len(parts), _TOGETHER)
            ]
            which = None
        if len(parts) == 1 and which is None and self.finish is None:
            return parts[0]
        last = low.shared(self, ("finish", which), Merge, self.reduction, which, self.finish)
        return low.task(last, parts, self)


class Merge:
    """Merges partial results, and makes the result of them at the end."""

    def __init__(self, reduction: Reduction, which: int | None, finish: Any) -> None:
        self.reduction = reduction
        self.which = which
        self.finish = finish
        name = getattr(finish, "__name__", reduction.kind)
        self.__name__ = name if finish is not None else f"{reduction.kind}-merge"

    def __call__(self, *parts: Any) -> Any:
        from lazyflow.array.kernels.run import merge  # 25 ms: with the first kernel

        if self.which is not None:
            parts = tuple([part[self.which] for part in parts])
        found = merge(self.reduction, parts) if len(parts) > 1 else parts[0]
        return found if self.finish is None else self.finish(found)
