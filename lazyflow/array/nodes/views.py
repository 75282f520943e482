"""Views: slices, new and dropped axes, transposition and broadcasting, all as one node.

Any chain of them is one `View` of what is below, and moves down through most operations
(pipeline.py), so that only what is needed is read.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, Index
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.nodes.lowering import Lowering


class Pick(NamedTuple):
    """What is taken of an axis: `length` places from `start`, `step` apart."""

    start: int
    step: int
    length: int

    def of(self, inner: Pick) -> Pick:
        """Return this pick of what another one took."""
        return Pick(inner.start + self.start * inner.step, self.step * inner.step, self.length)

    def is_all(self, n: int | None) -> bool:
        """Tell whether it takes the whole axis as it is."""
        return self.start == 0 and self.step == 1 and self.length == n


class Spec(NamedTuple):
    """What a view takes.

    picks
        For each axis of the base a Pick, an int (the axis is gone), or None: all of it, whose
        length may not be known.
    axes
        For each axis of the view: the axis of the base, or ~n for a new one of length n.
    """

    picks: tuple[Pick | int | None, ...]
    axes: tuple[int, ...]

    def then(self, outer: Spec) -> Spec:
        """Return the view that takes `outer` of this one."""
        picks = list(self.picks)
        made: dict[int, int] = {}
        for k, pick in enumerate(outer.picks):
            axis = self.axes[k]
            if axis < 0:
                continue
            inner = picks[axis]
            if pick is None:
                continue
            if inner is None:
                picks[axis] = pick
            else:
                assert isinstance(inner, Pick)
                if isinstance(pick, Pick):
                    picks[axis] = pick.of(inner)
                else:
                    picks[axis] = inner.start + pick * inner.step
        axes = []
        for axis in outer.axes:
            if axis < 0:
                axes.append(axis)
                continue
            inner_axis = self.axes[axis]
            if inner_axis < 0:
                pick = outer.picks[axis]
                if pick is None:
                    made[axis] = inner_axis
                else:
                    assert isinstance(pick, Pick)
                    made[axis] = ~pick.length
                axes.append(made[axis])
            else:
                axes.append(inner_axis)
        return Spec(tuple(picks), tuple(axes))

    def is_identity(self, shape: tuple[int | None, ...]) -> bool:
        """Tell whether it changes nothing."""
        return self.axes == tuple(range(len(shape))) and all(
            pick is None or (isinstance(pick, Pick) and pick.is_all(n))
            for pick, n in zip(self.picks, shape, strict=True)
        )

    def slices(self) -> Spec:
        """Return the part that only takes slices: all axes stay, in their order."""
        picks = tuple([Pick(p, 1, 1) if isinstance(p, int) else p for p in self.picks])
        return Spec(picks, tuple(range(len(picks))))

    def rest(self) -> Spec:
        """Return what is left to do after `slices`."""
        return Spec(tuple([0 if isinstance(p, int) else None for p in self.picks]), self.axes)


class View(Expr):
    """A view of another node, in chunks that follow from the base's or, of a free one, any."""

    __slots__ = ("spec",)

    def __init__(self, base: Expr, spec: Spec, chunks: Chunks | None = None) -> None:
        super().__init__(base.dtype_or_lazy, chunks or _chunks(base, spec), (base,))
        self.spec = spec

    @property
    def free(self) -> bool:  # type: ignore[override]
        return _is_source(self.inputs[0])

    @property
    def name(self) -> str:
        (base,) = self.inputs
        kept = [axis for axis in self.spec.axes if axis >= 0]
        if any(
            pick is not None and (isinstance(pick, Pick) or base.shape[axis] != 1)
            for axis, pick in enumerate(self.spec.picks)
        ):
            return "getitem"
        if kept != sorted(kept):
            return "transpose"
        if len(kept) < len(self.spec.axes):
            return "broadcast_to"
        return base.name  # only axes of length 1 are gone, as after a reduction

    def params(self) -> tuple[Any, ...]:
        return (self.spec, self.chunks)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return View(inputs[0], self.spec, self.chunks if _is_source(inputs[0]) else None)

    def with_chunks(self, chunks: Chunks) -> Expr:
        return View(self.inputs[0], self.spec, chunks)

    def make_block(self, low: Lowering, index: Index) -> Task:
        return low.fused_block(self, index)


def _is_source(node: Expr) -> bool:
    """Tell whether any part of a node can be read: what has inputs is free in other ways."""
    return node.free and not node.inputs


def view(base: Expr, spec: Spec) -> Expr:
    """Return a view: of what a view is of, or the base itself where nothing changes."""
    if isinstance(base, View):
        spec = base.spec.then(spec)
        base = base.inputs[0]
    return base if spec.is_identity(base.shape) else View(base, spec)


def _chunks(base: Expr, spec: Spec) -> Chunks:
    found: list[tuple[Any, ...]] = []
    for axis in spec.axes:
        if axis < 0:
            found.append((~axis,))
            continue
        pick = spec.picks[axis]
        if pick is None:
            found.append(base.chunks[axis])
        else:
            assert isinstance(pick, Pick)
            found.append(tuple([n for _, _, n in cut(base.chunks[axis], pick)]))
    return tuple(found)


def cut(chunks: tuple[Any, ...], pick: Pick) -> list[tuple[int, slice, int]]:
    """Return what a pick takes of each chunk: number of the chunk, a slice of it, how many.

    >>> cut((3, 3, 4), Pick(1, 2, 4))
    [(0, slice(1, 2, 2), 1), (1, slice(0, 3, 2), 2), (2, slice(1, 2, 2), 1)]
    >>> cut((3, 3), Pick(4, -2, 3))
    [(1, slice(1, 0, -2), 1), (0, slice(2, None, -2), 2)]
    """
    start, step, count = pick
    if count == 0:
        return [(0, slice(0, 0, 1), 0)]
    ends = list(accumulate(chunks))
    found = []
    left = count
    at = start
    while left:
        number = bisect_right(ends, at)
        first = ends[number] - chunks[number]
        here = (ends[number] - 1 - at) // step if step > 0 else (at - first) // -step
        here = min(here + 1, left)
        last = at + (here - 1) * step - first
        stop = last + (1 if step > 0 else -1)
        found.append((number, slice(at - first, None if stop < 0 else stop, step), here))
        left -= here
        at += here * step
    return found


def as_slice(pick: Pick | int | None) -> slice | int:
    """Return what takes of an array's axis what a pick takes.

    >>> as_slice(Pick(3, -1, 4)), as_slice(Pick(2, 3, 2))
    (slice(3, None, -1), slice(2, 6, 3))
    """
    if pick is None:
        return slice(None)
    if isinstance(pick, int):
        return pick
    if not pick.length:
        return slice(0, 0)
    stop = pick.start + (pick.length - 1) * pick.step + (1 if pick.step > 0 else -1)
    return slice(pick.start, None if stop < 0 else stop, pick.step)


def of_base(
    spec: Spec, chunks: Chunks, index: Index, bounds: list[list[int]]
) -> tuple[slice | int, ...]:
    """Return what a block of a view is of its base, where that can be read anywhere.

    bounds
        Where the chunks of each axis of the view begin.
    """
    found: list[slice | int] = []
    at = {axis: k for k, axis in enumerate(spec.axes) if axis >= 0}
    for axis, pick in enumerate(spec.picks):
        if isinstance(pick, int):
            found.append(pick)
            continue
        k = at[axis]
        first = bounds[k][index[k]]
        n = chunks[k][index[k]]
        assert n is not None
        if pick is None:
            found.append(slice(first, first + n, 1))
            continue
        start = pick.start + first * pick.step
        if n == 0:
            found.append(slice(0, 0, 1))
            continue
        stop = start + (n - 1) * pick.step + (1 if pick.step > 0 else -1)
        found.append(slice(start, None if stop < 0 else stop, pick.step))
    return tuple(found)


def transposed(node: Expr, axes: Iterable[Any] | None) -> Expr:
    """Return a view with the axes in another order; None: all turned around.

    Raises
    ------
    ValueError
        There are more or fewer axes, or one twice; `AxisError`: one that is not there.
    """
    order = tuple(reversed(range(node.ndim)) if axes is None else map(operator.index, axes))
    if len(order) != node.ndim:
        raise ValueError("axes don't match array")
    order = tuple([np.lib.array_utils.normalize_axis_index(axis, node.ndim) for axis in order])
    if len(set(order)) != node.ndim:
        raise ValueError("repeated axis in transpose")
    return view(node, Spec((None,) * node.ndim, order))
