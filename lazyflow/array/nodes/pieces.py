"""Parts of arrays whose blocks are another library's: that one cuts and joins them.

Slices, integers, transposes and rechunks of such arrays are one node here: a task cuts the pieces
out of the blocks, joins them, and reorders the axes, all by functions of the library. (Views of
NumPy's arrays, nodes/views.py, are cut by their readers.) Whether the library can do so is tried at
the call with a block of ones; if not, or if elements would be repeated, `OtherKind` is raised.
"""

from __future__ import annotations

from itertools import accumulate, product
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.block_kinds import (
    FAILS,
    OtherKind,
    in_nested_lists,
    is_other_kind,
    joined,
    made_up,
)
from lazyflow.array.nodes.expr import Expr, Index, LazyDtype, MakesTasks
from lazyflow.array.nodes.selection import Pick, Selection, cut, cut_lengths
from lazyflow.array.nodes.task_parts import TaskDetails
from lazyflow.graph.task import Task


class AxisPart(NamedTuple):
    """A part of an axis: the number of a block, and its slice; None: all of it."""

    number: int
    start: int | None = None
    stop: int | None = None
    step: int | None = None


class Pieces(Expr):
    """Blocks that are joined of pieces of the input's blocks; then axes go, or change places.

    cuts
        For each axis of the input the pieces of each block.
    rest
        The rest of the selection, for a joined block: numbers, new axes, the order of axes.
    """

    __slots__ = ("cuts", "rest")
    of_any_kind = True
    called = "getitem"

    def __init__(
        self, inputs: tuple[Expr, ...], cuts: tuple[tuple[tuple[AxisPart, ...], ...], ...],
        rest: Selection, dtype: np.dtype[Any] | LazyDtype, chunks: Chunks,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.cuts = cuts
        self.rest = rest

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        at = dict(zip(self.rest.axes, index, strict=True))
        pieces = [each[at.get(axis, 0)] for axis, each in enumerate(self.cuts)]
        blocks = [
            low.block(self.inputs[0], tuple([piece.number for piece in place]))
            for place in product(*pieces)
        ]
        return low.task(_cut_and_joined, (TaskDetails(pieces, self.rest), *blocks), self)


def _cut_and_joined(how: TaskDetails, *blocks: Any) -> Any:
    pieces, rest = how.values
    cut = [
        block[tuple([slice(*piece[1:]) for piece in place])]
        if any(piece[1:] != (None, None, None) for piece in place) else block
        for place, block in zip(product(*pieces), blocks, strict=True)
    ]
    found = joined(in_nested_lists(cut, tuple(map(len, pieces))), range(len(pieces)))
    return _rest(found, rest)


_cut_and_joined.__name__ = "getitem"


def _rest(block: Any, rest: Selection) -> Any:
    """Take numbers of axes, put axes into another order, and add new ones."""
    if any(isinstance(pick, int) for pick in rest.picks):
        block = block[tuple([slice(None) if pick is None else pick for pick in rest.picks])]
    kept = sorted([axis for axis in rest.axes if axis >= 0])
    order = tuple([kept.index(axis) for axis in rest.axes if axis >= 0])
    if order != tuple(range(len(order))):
        block = block.transpose(order)
    if len(kept) < len(rest.axes):
        block = block[tuple([None if axis < 0 else slice(None) for axis in rest.axes])]
    return block


def part_of(node: Expr, selection: Selection) -> Expr:
    """Return what a selection takes of a node with blocks of another library.

    Raises
    ------
    OtherKind
        The selection adds axes, or the library can't take such a part.
    """
    if any(axis < ~1 for axis in selection.axes):
        raise OtherKind(node.kind, "broadcast_to()")
    picks, rest = selection.slices().picks, selection.rest()
    is_cut = any(isinstance(pick, Pick) for pick in picks)
    sample = _tried(node, "an index or transpose", is_cut, rest)
    if sample.ndim != len(selection.axes):
        raise OtherKind(node.kind, "an integer as index", "they have two axes, write x[i:i + 1]")
    cuts = tuple([
        tuple([(AxisPart(i),) for i in range(len(sizes))]) if not isinstance(pick, Pick)
        else tuple([(AxisPart(i, s.start, s.stop, s.step),) for i, s, _ in cut(sizes, pick)])
        for sizes, pick in zip(node.chunks, picks, strict=True)
    ])
    chunks = tuple([
        (1,) if axis < 0
        else cut_lengths(node.chunks[axis], pick) if isinstance(pick := picks[axis], Pick)
        else node.chunks[axis]
        for axis in selection.axes
    ])
    dtype = LazyDtype.like(sample) if is_other_kind(sample) else node.dtype
    return Pieces((node,), cuts, rest, dtype, chunks)


def _tried(node: Expr, name: str, is_cut: bool, rest: Selection) -> Any:
    """Return what is taken of a block of ones, or refuse."""
    ones = made_up(node.kind, np.ones((1,) * node.ndim, node.dtype))
    try:
        return _rest(ones[(slice(0, 1),) * node.ndim] if is_cut else ones, rest)
    except (*FAILS, IndexError) as error:
        raise OtherKind(node.kind, name, str(error)) from error


def in_other_chunks(node: Expr, chunks: Chunks) -> Expr:
    """Return a node with blocks of another library in other chunks."""
    rest = Selection.of_all(node.ndim)
    _tried(node, "rechunk", True, rest)
    cuts = tuple([
        tuple([(AxisPart(i),) for i in range(len(old))]) if old == new
        else tuple([
            tuple([AxisPart(i, s.start, s.stop) for i, s, _ in cut(old, Pick(end - n, 1, n))])
            for n, end in zip(new, accumulate(new), strict=True)
        ])
        for old, new in zip(node.chunks, chunks, strict=True)
    ])
    return Pieces((node,), cuts, rest, node.dtype_or_lazy, chunks)
