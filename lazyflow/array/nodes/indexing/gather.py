"""Points of an array, by index arrays: ``x[[3, 1, 2]]``, ``x[rows, columns]``.

Chunks of points hold no more elements than the largest chunk of the indexed axes; where indices
ascend along one axis, they are cut where the array is, so that a block needs few others. Of arrays
in memory each task takes its points directly, in any chunks; others need an exchange between blocks
(exchange.py). A view of the result takes a part of the index arrays, or goes to the other axes of
the array below.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, in_c_order
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.indexing.exchange import Direct, Exchange, IndexArrays
from lazyflow.array.nodes.selection import Selection, as_slice
from lazyflow.array.nodes.sources import InMemory
from lazyflow.array.nodes.views import View, view
from lazyflow.graph.task import Task

Places = tuple[np.ndarray[Any, Any], ...]


class Gather(Expr):
    """The elements at index arrays along some axes, and all along the others.

    The axes of the index arrays stand where the indexed axis stood; in front, if several were.
    """

    __slots__ = ("indices",)
    called = "take"

    def __init__(self, inputs: tuple[Expr, ...], indices: IndexArrays, chunks: Chunks) -> None:
        super().__init__(inputs, inputs[0].dtype, chunks)
        self.indices = indices

    @property
    def free(self) -> bool:  # type: ignore[override]
        return _is_in_memory(self.inputs[0])

    def key(self) -> Any:
        return self.indices.axes, *map(id, self.indices.arrays), self.chunks

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        (base,) = inputs
        if _is_in_memory(base):
            return Gather(inputs, self.indices, self.chunks)
        return gather(base, *self.indices, self.chunks[self.indices.points])

    def with_chunks(self, chunks: Chunks) -> Expr:
        return Gather(self.inputs, self.indices, chunks)

    def through(self, selection: Selection) -> Recipe | None:
        slices = selection.slices()
        if slices.is_identity(self.shape):
            return None
        base = self.inputs[0]
        axes, arrays = self.indices
        points = self.indices.points
        inner = iter([*slices.picks[:points.start], *slices.picks[points.stop:]])
        picks = [None if axis in axes else next(inner) for axis in range(base.ndim)]
        taken = tuple([as_slice(pick) for pick in slices.picks[points]])
        indices = IndexArrays(axes, tuple([each[taken] for each in arrays]))
        chunks = View((self,), slices).chunks

        def make(found: tuple[Expr, ...]) -> Expr:
            return view(Gather((found[0],), indices, chunks), selection.rest())

        return [(base, Selection(tuple(picks), tuple(range(base.ndim))))], make

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        kind = Direct if self.free else Exchange
        found: Task = low.shared(self, "gather", kind, low, self, self.indices).block(low, index)
        return found


def _is_in_memory(node: Expr) -> bool:
    return isinstance(node.inputs[0] if isinstance(node, View) else node, InMemory)


def gather(
    base: Expr, axes: Index, arrays: tuple[np.ndarray[Any, Any], ...], points: Chunks | None = None
) -> Expr:
    """Return the elements of a node at index arrays for these axes, ascending.

    points
        The chunks of the axes of the index arrays.
    """
    indices = IndexArrays(axes, arrays)
    if points is None:
        points = _point_chunks(tuple([base.chunks[axis] for axis in axes]), arrays)
    rest = [sizes for axis, sizes in enumerate(base.chunks) if axis not in axes]
    first = indices.points.start
    return Gather((base,), indices, (*rest[:first], *points, *rest[first:]))


def _point_chunks(chunks: Chunks, arrays: tuple[np.ndarray[Any, Any], ...]) -> Chunks:
    """Return chunks no larger than the source's, which are cut where it is if places ascend."""
    shape = arrays[0].shape
    most = max(prod([max(sizes) for sizes in chunks]), 1)
    if len(shape) != 1 or len(arrays) != 1:
        return in_c_order(shape, most)
    (sizes,), (at,) = chunks, arrays
    if len(at) == sum(sizes):
        return (sizes,)
    if not np.all(at[1:] >= at[:-1]):
        return in_c_order(shape, most)
    ends = np.searchsorted(at, list(accumulate(sizes)))
    made = [0]
    for n in np.diff(ends, prepend=0).tolist():
        if made[-1] + n <= most:
            made[-1] += n
            continue
        if not made[-1]:
            made.pop()
        made.extend(size for size in in_c_order((n,), most)[0])
    return (tuple(made),)
