"""An array in which some elements are replaced: ``x[key] = value``.

A task copies the block of the array and writes into the copy. Blocks without written elements are
handed on, and blocks that slices write as a whole are not read. The values are rechunked so that
each written block needs one block of them. Points are sorted by the block that they are in and keep
their order there, so of equal points the last one stays, as in NumPy.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.indexing.exchange import found_in
from lazyflow.array.nodes.indexing.gather import gather
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Pick, cut
from lazyflow.array.nodes.task_parts import TaskDetails, named
from lazyflow.graph.task import Task


class WrittenPoints:
    """The points that are written, sorted by the blocks of the array that they are in.

    axes
        The axes that index arrays are for, ascending.
    order
        Numbers of the points, those of the first block first; of one block in their order.
    counts
        How many points each block has that has any.
    local
        For each such block its number, and index arrays of it.
    """

    def __init__(self, node: Expr, axes: Index, places: tuple[Any, ...]) -> None:
        self.axes = axes
        self.grid = tuple([node.numblocks[axis] for axis in axes])
        block, local = found_in(node, axes, tuple([at.ravel() for at in places]))
        self.order = np.argsort(block, kind="stable")
        numbers, counts = np.unique(block, return_counts=True)
        self.counts = tuple(counts.tolist())
        ends = list(accumulate(self.counts, initial=0))
        self.local = {
            int(number): (k, tuple([x[self.order[ends[k]:ends[k + 1]]] for x in local]))
            for k, number in enumerate(numbers)
        }

    def find(self, index: Index) -> tuple[int, Any] | None:
        """Return the place of a block's points among all of them, and their index arrays."""
        number = 0
        for axis, count in zip(self.axes, self.grid, strict=True):
            number = number * count + index[axis]
        return self.local.get(number)


class Assigned(Expr):
    """A node, some of whose elements are replaced by those of another.

    inputs
        The node, and the values: first, where there are `targets`, an axis of points, then the
        axes of the node that these are not for. An axis of length 1 is broadcast.
    picks
        For each axis the written places, with positive steps; None for axes of the targets.
    """

    __slots__ = ("picks", "targets")
    called = "setitem"

    def __init__(
        self, inputs: tuple[Expr, ...], picks: tuple[Pick | None, ...],
        targets: WrittenPoints | None,
    ) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)
        self.picks = picks
        self.targets = targets

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        node, value = self.inputs
        cuts = low.shared(self, "cuts", _cuts, self)
        at: list[int] = []
        local: Any = None
        if self.targets is not None:
            spot = self.targets.find(index)
            if spot is None:
                return low.block(node, index)
            at.append(spot[0])
            local = spot[1]
        region = []
        whole = local is None
        for axis, pieces in enumerate(cuts):
            if pieces is None:
                region.append(slice(None))
                continue
            piece = pieces.get(index[axis])
            if piece is None:
                return low.block(node, index)
            at.append(piece[0])
            region.append(piece[1])
            whole = whole and piece[2] == node.chunks[axis][index[axis]]
        values = low.block(value, tuple([
            0 if len(sizes) == 1 else i for sizes, i in zip(value.chunks, at, strict=True)
        ]))
        if whole:
            shape = tuple([sizes[i] for sizes, i in zip(node.chunks, index, strict=True)])
            return low.task(fill, (TaskDetails(shape), values), self)
        axes = self.targets.axes if self.targets else ()
        func = low.shared(self, "write", named, "setitem", write, axes)
        target = TaskDetails(tuple(region), local)
        return low.task(func, (target, low.block(node, index), values), self)


def assigned(
    node: Expr, value: Expr, picks: tuple[Pick | None, ...], targets: WrittenPoints | None
) -> Expr:
    """Return a node with some elements from `value`, laid out as `Assigned` says."""
    chunks: list[tuple[int, ...]] = []
    axes = iter(value.shape)
    if targets is not None:
        chunks.append((1,) if next(axes) == 1 else targets.counts)
    for sizes, pick in zip(node.chunks, picks, strict=True):
        if pick is not None:
            pieces = tuple([n for _, _, n in cut(sizes, pick)])
            chunks.append((1,) if next(axes) == 1 else pieces)
    return Assigned((node, rechunk(value, tuple(chunks))), picks, targets)


def by_blocks(value: Expr, ndim: int, targets: WrittenPoints, shape: tuple[int, ...]) -> Expr:
    """Return values with their first axes, those of index arrays, as one in the targets' order."""
    places = np.unravel_index(targets.order, shape)
    return gather(value, tuple(range(ndim)), places, (targets.counts,))


def _cuts(node: Assigned) -> list[dict[int, tuple[int, slice, int]] | None]:
    """Return for each axis what is written of each chunk, and its number among those."""
    return [
        None if pick is None else {
            number: (k, piece, n) for k, (number, piece, n) in enumerate(cut(sizes, pick))
        }
        for sizes, pick in zip(node.chunks, node.picks, strict=True)
    ]


def write(axes: Index, where: TaskDetails, block: Any, values: Any) -> Any:
    """Return a copy of a block into which values are written.

    axes
        Those of the index arrays.
    where
        A region of the block, and index arrays for it or None.
    """
    region, local = where.values
    out = np.array(block)
    part = out[region]
    if local is None:
        part[...] = values
    else:
        np.moveaxis(part, axes, range(len(axes)))[local] = values
    return out


def fill(where: TaskDetails, values: Any) -> Any:
    """Return a block of a shape that is written as a whole."""
    (shape,) = where.values
    return np.broadcast_to(values, shape)
