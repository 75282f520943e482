"""Blocks extended by their surroundings: parts of neighbours, and values beyond the edge.

One task copies the pieces of an extended block from as many blocks as it needs, with no rechunk
before. A piece beyond the edge is a slice of the array itself, repeated if the margin is longer
than the array, or a value; in corners the value of the last axis stands. Where blocks are large and
the needed part is thin, a task of its own cuts the part out, so that on a cluster the part moves
and not the block. A block that needs no extension is handed on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.selection import Pick, cut
from lazyflow.array.nodes.task_parts import BlockPosition, is_large, is_thin, named, taken
from lazyflow.graph.arguments import read_only
from lazyflow.graph.task import Task

#: What stands beyond the edge, by name; anything else is a value that does.
BOUNDARIES = ("none", "periodic", "reflect", "nearest")


class Margin(NamedTuple):
    """How blocks of one axis are extended.

    before, after
        The number of elements on each side.
    boundary
        One of BOUNDARIES, or a value. "none": blocks at the edge are not extended there.
    grid
        The chunks that are extended; they begin where the axis does, and may end earlier.
    """

    before: int
    after: int
    boundary: Any
    grid: tuple[int, ...]

    def ends(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return by how much each block is extended before and after, in an axis of length n."""
        found = []
        for size, end in zip(self.grid, accumulate(self.grid), strict=True):
            before, after = self.before, self.after
            if self._is("none"):
                before, after = min(before, end - size), min(after, n - end)
            found.append((before, after))
        return tuple(found)

    def pieces(self, start: int, stop: int, edges: list[int]) -> list[Piece]:
        """Return the pieces that make up the extended block of a range.

        edges
            Where the chunks of the axis begin, and where it ends.
        """
        n = edges[-1]
        low, high = start - self.before, stop + self.after
        found = _pieces(edges, Pick(max(low, 0), 1, min(high, n) - max(low, 0)))
        if self._is("none"):
            return found
        return [
            *self._beyond(max(-low, 0), -1, edges),
            *found,
            *self._beyond(max(high - n, 0), 1, edges),
        ]

    def _is(self, boundary: str) -> bool:
        return isinstance(self.boundary, str) and self.boundary == boundary

    def _beyond(self, count: int, side: int, edges: list[int]) -> list[Piece]:
        """Return the pieces beyond the axis: before it (side -1) or after it."""
        n = edges[-1]
        if not count:
            return []
        if self._is("periodic") or self._is("reflect"):
            copies = []
            for copy, at in enumerate(range(0, count, n)):  # from the edge outwards
                length = min(n, count - at)
                if self._is("reflect") and copy % 2 == 0:
                    pick = Pick(length - 1 if side < 0 else n - 1, -1, length)
                else:
                    pick = Pick(n - length if side < 0 else 0, 1, length)
                copies.append(_pieces(edges, pick))
            return [piece for copy in copies[::side] for piece in copy]
        if self._is("nearest"):
            (last,) = _pieces(edges, Pick(0 if side < 0 else n - 1, 1, 1))
            return [last._replace(length=count)]
        return [Piece(None, slice(None), count)]


class Piece(NamedTuple):
    """A part of an extended block along one axis.

    number, place
        The block, and the slice of it; None: the boundary's value.
    length
        Its length; a slice of length 1 is repeated.
    """

    number: int | None
    place: slice
    length: int


def _pieces(edges: list[int], pick: Pick) -> list[Piece]:
    """Return which part of each chunk a pick takes; looks only at the chunks around it.

    >>> _pieces([0, 3, 6, 9], Pick(4, 1, 2))
    [Piece(number=1, place=slice(1, 3, 1), length=2)]
    """
    if not pick.length:
        return [Piece(0, slice(0, 0, 1), 0)]
    ends = pick.start, pick.start + (pick.length - 1) * pick.step
    first = bisect_right(edges, min(ends)) - 1
    last = bisect_right(edges, max(ends))
    sizes = tuple([b - a for a, b in pairwise(edges[first:last + 1])])
    inner = pick._replace(start=pick.start - edges[first])
    return [Piece(first + number, place, n) for number, place, n in cut(sizes, inner)]


class Extended(Expr):
    """Extended blocks of another node; one task makes each of them of the blocks around it."""

    __slots__ = ("margins",)
    called = "overlap"

    def __init__(self, inputs: tuple[Expr, ...], margins: tuple[Margin, ...]) -> None:
        (node,) = inputs
        chunks = tuple([
            tuple([
                before + size + after
                for size, (before, after) in zip(margin.grid, margin.ends(n), strict=True)
            ])
            for margin, n in zip(margins, known_shape(node), strict=True)
        ])
        super().__init__(inputs, node.dtype_or_lazy, chunks)
        self.margins = margins

    def key(self) -> Any:
        return repr(self.margins)  # a value may be NaN, which equals nothing

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (node,) = self.inputs
        grids = low.shared(self, "grid", _grid, self.margins)
        axes = [
            margin.pieces(grid[i], grid[i + 1], edges)
            for margin, grid, i, edges in zip(
                self.margins, grids, index, low.bounds(node), strict=True
            )
        ]
        numbers = [
            list(dict.fromkeys([piece.number for piece in axis if piece.number is not None]))
            for axis in axes
        ]
        if self._is_block(axes):
            return low.block(node, tuple([axis[0].number for axis in axes]))  # type: ignore[misc]
        values = tuple([margin.boundary for margin in self.margins])
        cut, blocks = self._cut(low, index, axes, list(product(*numbers)))
        func = named("overlap", extended_block, axes, numbers, values, cut)
        return low.task(func, blocks, self)

    def _cut(
        self, low: MakesTasks, index: Index, axes: Sequence[list[Piece]], numbers: list[Index]
    ) -> tuple[list[Index], list[Task]]:
        """Return blocks, after thin parts of some were cut out, and the numbers of these."""
        (node,) = self.inputs
        if len(numbers) == 1 or not is_large(node):
            return [], [low.block(node, number) for number in numbers]
        cut, blocks = [], []
        for number in numbers:
            pieces = [
                [piece for piece in axis if piece.number == i]
                for i, axis in zip(number, axes, strict=True)
            ]
            block = low.block(node, number)
            part = prod([sum([piece.length for piece in own]) for own in pieces])
            whole = prod([sizes[i] for sizes, i in zip(node.chunks, number, strict=True)])
            if all(len(own) == 1 for own in pieces) and is_thin(part, whole, node):
                where = BlockPosition(index, (tuple([own[0].place for own in pieces]),))
                cut.append(number)
                block = low.task(taken, (where, block), self)
            blocks.append(block)
        return cut, blocks

    def _is_block(self, axes: Sequence[list[Piece]]) -> bool:
        """Tell whether a block of the input is taken as it is."""
        return all(
            len(axis) == 1
            and axis[0].number is not None
            and axis[0].place == slice(0, sizes[axis[0].number], 1)
            for sizes, axis in zip(self.inputs[0].chunks, axes, strict=True)
        )


def known_shape(node: Expr) -> tuple[int, ...]:
    """Return the shape of a node whose lengths are all known."""
    return node.shape  # type: ignore[return-value]


def _grid(margins: tuple[Margin, ...]) -> list[list[int]]:
    return [[0, *accumulate(margin.grid)] for margin in margins]


def extended_block(
    pieces: list[list[Piece]], numbers: list[list[int]], values: tuple[Any, ...],
    cut: list[Index], *blocks: Any,
) -> Any:
    """Return an extended block, assembled of pieces of blocks.

    pieces
        For each axis.
    numbers
        Of the blocks, along each axis.
    values
        The boundary's value for each axis.
    cut
        The numbers of the blocks that come cut to their needed part.
    """
    if len(blocks) == 1 and all(len(axis) == 1 and axis[0].number is not None for axis in pieces):
        taken = blocks[0][tuple([axis[0].place for axis in pieces])]
        if taken.shape == tuple([axis[0].length for axis in pieces]):
            return taken
    shape = tuple([sum([piece.length for piece in axis]) for axis in pieces])
    out = np.empty_like(blocks[0], shape=shape, subok=True)
    by_number: dict[tuple[int | None, ...], Any] = dict(zip(product(*numbers), blocks, strict=True))
    spans = [_spans(axis) for axis in pieces]
    for places in product(*spans):
        number = tuple([piece.number for _, piece in places])
        block = by_number.get(number)
        if block is not None:
            region = ... if number in cut else tuple([piece.place for _, piece in places])
            out[tuple([to for to, _ in places])] = block[region]
    for axis, own in enumerate(spans):  # the last axis' value is what stands in corners
        for to, piece in own:
            if piece.number is None:
                out[(*[slice(None)] * axis, to)] = values[axis]
    return read_only(out)


def _spans(axis: list[Piece]) -> list[tuple[slice, Piece]]:
    at = 0
    found = []
    for piece in axis:
        found.append((slice(at, at + piece.length), piece))
        at += piece.length
    return found


class Trimmed(Expr):
    """Blocks of another node without their outer elements.

    cuts
        For each axis and block how many are taken off before and after.
    """

    __slots__ = ("cuts",)
    called = "trim"

    def __init__(
        self, inputs: tuple[Expr, ...], cuts: tuple[tuple[tuple[int, int], ...], ...]
    ) -> None:
        (node,) = inputs
        chunks = tuple([
            tuple([
                None if size is None else max(size - before - after, 0)
                for size, (before, after) in zip(sizes, own, strict=True)
            ])
            for sizes, own in zip(node.chunks, cuts, strict=True)
        ])
        super().__init__(inputs, node.dtype_or_lazy, chunks)
        self.cuts = cuts

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        block = low.block(self.inputs[0], index)
        ends = tuple([own[i] for own, i in zip(self.cuts, index, strict=True)])
        if not any(map(any, ends)):
            return block
        return low.task(low.shared(self, ends, named, "trim", trim_ends, ends), [block], self)


def trim_ends(ends: tuple[tuple[int, int], ...], block: Any) -> Any:
    """Return a block without some elements before and after along each axis."""
    return block[tuple([
        slice(before, max(n - after, before))
        for (before, after), n in zip(ends, block.shape, strict=True)
    ])]
