"""Points of an array, by index arrays: ``x[[3, 1, 2]]``, ``x[rows, columns]``."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyflow.array.chunks import Chunks, in_c_order
from lazyflow.array.nodes.expr import Expr, Index
from lazyflow.array.nodes.indexing.exchange import Direct, Exchange
from lazyflow.array.nodes.sources import Memory
from lazyflow.array.nodes.views import Spec, View, as_slice, view
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.nodes.lowering import Lowering

Places = tuple[np.ndarray[Any, Any], ...]


class Gather(Expr):
    """What index arrays of one shape take of some axes, all of the others.

    axes
        The axes that are indexed, ascending.
    places
        For each of them an array of places, none of them negative or too large.

    Notes
    -----
    The axes of the index arrays stand where the indexed axis stood; in front, if several were.
    """

    __slots__ = ("axes", "places")

    def __init__(self, base: Expr, axes: Index, places: Places, chunks: Chunks) -> None:
        super().__init__(base.dtype, chunks, (base,))
        self.axes = axes
        self.places = places

    @property
    def free(self) -> bool:  # type: ignore[override]
        return _is_memory(self.inputs[0])

    @property
    def name(self) -> str:
        return "take"

    @property
    def points(self) -> slice:
        """Which axes are those of the index arrays."""
        first = self.axes[0] if len(self.axes) == 1 else 0
        return slice(first, first + self.places[0].ndim)

    def params(self) -> tuple[Any, ...]:
        return (self.axes, *map(id, self.places), self.chunks)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        (base,) = inputs
        if _is_memory(base):
            return Gather(base, self.axes, self.places, self.chunks)
        return gather(base, self.axes, self.places, self.chunks[self.points])

    def with_chunks(self, chunks: Chunks) -> Expr:
        return Gather(self.inputs[0], self.axes, self.places, chunks)

    def through(self, spec: Spec) -> Any:
        slices = spec.slices()
        if slices.is_identity(self.shape):
            return None
        base = self.inputs[0]
        points = self.points
        inner = iter([*slices.picks[:points.start], *slices.picks[points.stop:]])
        picks = [None if axis in self.axes else next(inner) for axis in range(base.ndim)]
        taken = tuple([as_slice(pick) for pick in slices.picks[points]])
        places = tuple([each[taken] for each in self.places])
        chunks = View(self, slices).chunks

        def make(found: list[Expr]) -> Expr:
            return view(Gather(found[0], self.axes, places, chunks), spec.rest())

        return [(base, Spec(tuple(picks), tuple(range(base.ndim))))], make

    def make_block(self, low: Lowering, index: Index) -> Task:
        kind = Direct if self.free else Exchange
        found: Task = low.shared(self, "gather", kind, low, self).block(low, index)
        return found


def _is_memory(node: Expr) -> bool:
    return isinstance(node.inputs[0] if isinstance(node, View) else node, Memory)


def gather(base: Expr, axes: Index, places: Places, points: Chunks | None = None) -> Expr:
    """Return the points of a node; `points` are the chunks of the axes of the index arrays."""
    if points is None:
        points = _point_chunks(tuple([base.chunks[axis] for axis in axes]), places)
    rest = [sizes for axis, sizes in enumerate(base.chunks) if axis not in axes]
    first = axes[0] if len(axes) == 1 else 0
    return Gather(base, axes, places, (*rest[:first], *points, *rest[first:]))


def _point_chunks(chunks: Chunks, places: Places) -> Chunks:
    """Return chunks no larger than the source's, which are cut where it is if places ascend."""
    shape = places[0].shape
    most = max(prod([max(sizes) for sizes in chunks]), 1)
    if len(shape) != 1 or len(places) != 1:
        return in_c_order(shape, most)
    (sizes,), (at,) = chunks, places
    if len(at) == sum(sizes):
        return (sizes,)
    if not np.all(at[1:] >= at[:-1]):
        return in_c_order(shape, most)
    ends = np.searchsorted(at, list(accumulate(sizes)))
    made = [0]
    for n in np.diff(ends, prepend=0).tolist():
        if made[-1] + n <= most:
            made[-1] += n
        else:
            made.extend(size for size in in_c_order((n,), most)[0])
    return (tuple(made),)
