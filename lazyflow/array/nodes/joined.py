"""Arrays joined along an axis: the blocks of the result are theirs.

No task joins anything: along the axis the chunks are those of all inputs, along others the inputs
are rechunked to common chunks. A view of the result becomes views of the inputs that it reaches, so
the others are not computed. The blocks must be of one kind, NumPy's or another library's. The
memory order is that of the largest input.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from lazyflow.array.nodes.align import fitting
from lazyflow.array.nodes.block_kinds import OtherKind
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.rechunking import in_chunks
from lazyflow.array.nodes.selection import Pick, Selection
from lazyflow.graph.task import Task

_MIXED = "all arrays must have blocks of one kind"


class Concatenate(Expr):
    """Inputs of one dtype, whose chunks are equal along all other axes."""

    __slots__ = ("_firsts", "axis", "memory_order")
    memory_order: tuple[int, ...]
    of_any_kind = True

    def __init__(self, inputs: tuple[Expr, ...], axis: int) -> None:
        chunks = list(inputs[0].chunks)
        chunks[axis] = sum([x.chunks[axis] for x in inputs], ())
        kinds = {type(x.kind): x.kind for x in inputs}
        if len(kinds) > 1:
            meta = next(kind for kind in kinds.values() if kind is not None)
            raise OtherKind(meta, "concatenate()", _MIXED)
        super().__init__(inputs, inputs[0].dtype_or_lazy, tuple(chunks))
        self.axis = axis
        self._firsts = [0, *accumulate(len(x.chunks[axis]) for x in inputs)]
        self.memory_order = (
            tuple(range(self.ndim)) if None in self.shape
            else max(inputs, key=lambda x: x.size).memory_order
        )

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return concatenated(inputs, self.axis, True)

    def through(self, selection: Selection) -> Recipe | None:
        pick = selection.picks[self.axis]
        if pick is None:
            parts = [(x, selection) for x in self.inputs]
        else:
            parts = [(x, _replaced(selection, self.axis, own)) for x, own in self._cut(pick)]
        if isinstance(pick, int):
            return parts, lambda found: found[0]
        axis = selection.axes.index(self.axis)
        return parts, lambda found: concatenated(found, axis, True)

    def _cut(self, pick: Pick | int) -> list[tuple[Expr, Pick | int]]:
        """Return the inputs that a pick reaches, in its order, with the part that it takes."""
        found: list[tuple[Expr, Pick | int]] = []
        first = 0
        for x in self.inputs:
            n = x.shape[self.axis]
            assert n is not None  # else nothing could be picked
            if isinstance(pick, int):
                if first <= pick < first + n:
                    return [(x, pick - first)]
            elif (own := _overlap(pick, first, n)) is not None:
                found.append((x, own))
            first += n
        if isinstance(pick, Pick) and pick.step < 0:
            found.reverse()
        return found or [(self.inputs[0], Pick(0, 1, 0))]

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        number = bisect_right(self._firsts, index[self.axis]) - 1
        own = list(index)
        own[self.axis] -= self._firsts[number]
        return low.block(self.inputs[number], tuple(own))


def _overlap(pick: Pick, first: int, n: int) -> Pick | None:
    """Return the part of a pick that lies in the `n` places from `first` on.

    >>> _overlap(Pick(1, 2, 5), 4, 3), _overlap(Pick(9, -3, 4), 0, 5), _overlap(Pick(0, 5, 2), 1, 3)
    (Pick(start=1, step=2, length=1), Pick(start=3, step=-3, length=2), None)
    """
    start, step, count = pick
    if step > 0:
        i = max(-(-(first - start) // step), 0)
        last = (first + n - 1 - start) // step
    else:
        i = max(-(-(start - first - n + 1) // -step), 0)
        last = (start - first) // -step
    length = min(last, count - 1) - i + 1
    return Pick(start + i * step - first, step, length) if length > 0 else None


def _replaced(selection: Selection, axis: int, pick: Any) -> Selection:
    return Selection((*selection.picks[:axis], pick, *selection.picks[axis + 1:]), selection.axes)


def concatenated(nodes: Sequence[Expr], axis: int, fit: bool = False) -> Expr:
    """Return nodes of one dtype and fitting shapes, one after another.

    `fit`: blocks of unknown lengths are known to fit.

    Raises
    ------
    SizesNeeded
        Lengths of other axes are unknown, so that they may differ.
    """
    if len(nodes) == 1:
        return nodes[0]
    made = []
    chunks = [fitting({x.chunks[k] for x in nodes}, fit) for k in range(nodes[0].ndim) if k != axis]
    for x in nodes:
        wanted = (*chunks[:axis], x.chunks[axis], *chunks[axis:])
        made.append(in_chunks(x, wanted))
    return Concatenate(tuple(made), axis)
