"""The tasks that gather points: directly from memory, or by an exchange between blocks.

Where points of a block come from few blocks, one task takes them from these. Of large blocks a
task would read most of the data so: there each is cut into copies of the points for each block,
as for a rechunk. Where every block needs points of every other, that would be as many edges as
blocks squared. Then neighbouring sources are put together in groups and their points sorted by
where they go, and neighbouring blocks are made together of one slice of each group: for n blocks
about 2·√n tasks and n edges more than blocks.
"""

from __future__ import annotations

from itertools import accumulate, pairwise, product
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import TASKS, block_slices, coalesced, refuse_sparse
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.reading import LoadRegion
from lazyflow.array.nodes.rechunking import MANY
from lazyflow.array.nodes.selection import base_region
from lazyflow.array.nodes.task_parts import TaskDetails, is_large, named, writes_out
from lazyflow.array.nodes.views import View
from lazyflow.graph.task import Task

_GROUP = 1 << 26  # bytes of blocks that one task of an exchange holds, about
_WORTH = 1 << 22  # bytes of a group from which a task more is worth it
_FEW = 8  # blocks that a block is made of without an exchange, on average


class IndexArrays(NamedTuple):
    """Index arrays of one shape.

    axes
        The axes that they are for, ascending.
    arrays
        For each of them an array of places, none of them negative or too large.
    """

    axes: Index
    arrays: tuple[np.ndarray[Any, Any], ...]

    @property
    def points(self) -> slice:
        """Which axes of the result are those of the index arrays."""
        first = self.axes[0] if len(self.axes) == 1 else 0
        return slice(first, first + self.arrays[0].ndim)


class Direct:
    """Blocks of points of an array in memory."""

    def __init__(self, low: MakesTasks, node: Expr, indices: IndexArrays) -> None:
        self.node = node
        self.array = _seen(node.inputs[0])
        self.bounds = low.bounds(node)
        self.indices = indices
        self.func = named("take", take, indices.axes)

    def block(self, low: MakesTasks, index: Index) -> Task:
        """Return the task of one block."""
        spans = [slice(edges[i], edges[i + 1]) for edges, i in zip(self.bounds, index, strict=True)]
        points = self.indices.points
        places = tuple([each[tuple(spans[points])] for each in self.indices.arrays])
        rest = (*spans[:points.start], *spans[points.stop:])
        return low.task(self.func, (TaskDetails(places, rest), self.array), self.node)


def _seen(node: Expr) -> np.ndarray[Any, Any]:
    """Return the NumPy array of a node in memory, or of a view of one."""
    if not isinstance(node, View):
        found: np.ndarray[Any, Any] = node.array  # type: ignore[attr-defined]
        return found
    (base,) = node.inputs
    whole: Any = tuple([(n,) for n in node.shape])
    load = LoadRegion(base, node.selection, whole)
    region: Any = base_region(node.selection, whole, (0,) * node.ndim, [[0]] * node.ndim)
    where = (region, node.shape) if load.stretched else region
    return load(where, iter([_seen(base)]))


@writes_out
def take(axes: Index, points: TaskDetails, array: Any, out: Any = None) -> Any:
    """Return points of a whole array.

    points
        Index arrays for the axes, and which part of the other axes.
    """
    places, spans = points.values
    rest = iter(spans)
    part = array[tuple([slice(None) if k in axes else next(rest) for k in range(array.ndim)])]
    return taken(part, axes, places, out)


def taken(block: Any, axes: Index, places: tuple[Any, ...], out: Any = None) -> Any:
    """Return points of an array: index arrays for some axes, all of the others."""
    refuse_sparse(block)
    if len(axes) > 1:
        return np.moveaxis(block, axes, range(len(axes)))[places]
    (axis,), (at,) = axes, places
    if block.flags.c_contiguous and block.shape[axis]:
        # "clip": places were checked when the array was built
        if out is None or out.flags.c_contiguous:
            return block.take(at, axis, out, "clip")
        np.copyto(out, block.take(at, axis, mode="clip"))  # take would copy `out` there and back
        return out
    return block[(*(slice(None),) * axis, at)]


class Exchange:
    """Blocks of points of a node that has blocks.

    Points are numbered: those of the first block, in C order, then those of the next one. A block
    of the node is one of `grid`, the chunks of the indexed axes, and one of the others.
    """

    def __init__(self, low: MakesTasks, node: Expr, indices: IndexArrays) -> None:
        self.node = node
        self.axes = indices.axes
        self.points = indices.points
        chunks = node.chunks[self.points]
        self.base = _larger(node.inputs[0], self.axes)
        self.grid = tuple([self.base.numblocks[axis] for axis in self.axes])
        self.counts = tuple(map(len, chunks))
        self.shapes = list(product(*chunks))
        self.ends = list(accumulate(map(prod, self.shapes), initial=0))
        number, self.local = found_in(self.base, self.axes, _in_order(indices.arrays, chunks))
        kind = np.min_scalar_type(prod(self.grid))  # what is small is sorted by counting
        self.source = number.astype(kind)
        self.collect = named("take", collect, self.axes, node.dtype)
        self._group(low)

    def _group(self, low: MakesTasks) -> None:
        """Decide whether to exchange by groups; if so, sort the points by their group."""
        sources, blocks = prod(self.grid), len(self.shapes)
        needed = [len(np.unique(self.source[a:b])) for a, b in pairwise(self.ends)]
        self.needed, edges = needed, sum(needed)
        self.apart = is_large(self.base) and max(needed, default=0) > 1 and edges <= MANY
        self.together = 1 if self.apart else _together(sources, _bytes(self.base))
        self.next = 1 if self.apart else _together(blocks, _bytes(self.node))
        self.far = edges > _FEW * (sources + blocks) and self.together * self.next > 1
        if not (self.far or self.apart):
            return
        group = self.source // self.together
        order = np.argsort(group, kind="stable")
        count = -(-sources // self.together)
        cuts = np.searchsorted(group[order], np.arange(1, count, dtype=group.dtype))
        self.of_group = [each for each in np.split(order, cuts) if len(each)]
        edge = self.ends[:-1:self.next] + self.ends[-1:]
        self.slices = [np.searchsorted(each, edge).tolist() for each in self.of_group]
        self.spread = named("take-spread", spread, self.points.start, self.node.dtype)
        self.cut = named("take-cut", take_slice, self.points.start)
        self.pieces = named("take-cut", taken_apart, self.axes)

    def block(self, low: MakesTasks, index: Index) -> Task:
        """Return the task of one block."""
        points = self.points
        number = 0
        for i, count in zip(index[points], self.counts, strict=True):
            number = number * count + i
        rest = (*index[:points.start], *index[points.stop:])
        shape = self.shapes[number] if len(self.counts) != 1 else None
        a, b = self.ends[number:number + 2]
        if not self.far and not (self.apart and self.needed[number] > 1):
            return self._collected(low, slice(a, b), rest, shape)
        if self.next == 1:
            return self._spread(low, number, rest, shape)
        start = self.ends[number - number % self.next]
        several = number // self.next
        whole = low.shared(self.node, (several, rest), self._spread, low, several, rest, None)
        piece = TaskDetails(slice(a - start, b - start), shape)
        return low.task(self.cut, (piece, whole), self.node)

    def _collected(self, low: MakesTasks, chosen: Any, rest: Index, shape: Any) -> Task:
        """Return a task that takes chosen points of all blocks that they are in."""
        source = self.source[chosen]
        order = np.argsort(source, kind="stable")
        numbers, starts = np.unique(source[order], return_index=True)
        local = tuple([each[chosen][order] for each in self.local])
        if not len(numbers):
            numbers = np.zeros(1, dtype=int)
        blocks = [low.block(self.base, self._index(int(number), rest)) for number in numbers]
        cuts = [*starts.tolist()[1:], len(source)]
        where = TaskDetails(None if len(blocks) == 1 else order, local, cuts, shape)
        return low.task(self.collect, (where, *blocks), self.node)

    def _index(self, number: int, rest: Index) -> Index:
        at = iter(np.unravel_index(number, self.grid))
        others = iter(rest)
        return tuple([
            int(next(at)) if axis in self.axes else next(others) for axis in range(self.base.ndim)
        ])

    def _spread(self, low: MakesTasks, number: int, rest: Index, shape: Any) -> Task:
        """Return the task that makes neighbouring blocks as one, of a slice of each group."""
        start = self.ends[number * self.next]
        groups: list[Task] = []
        spans, to = [], []
        for group, (chosen, edges) in enumerate(zip(self.of_group, self.slices, strict=True)):
            a, b = edges[number:number + 2]
            if a < b or not (groups or self.apart):
                make: Any = self._pieces if self.apart else self._collected
                made = low.shared(self.node, ("sorted", group, rest), make, low, chosen, rest, None)
                groups.append(made[number] if self.apart else made)
                spans.append((0, b - a) if self.apart else (a, b))
                to.append(chosen[a:b] - start)
        stop = self.ends[min((number + 1) * self.next, len(self.ends) - 1)]
        where = TaskDetails(to, spans, stop - start, shape)
        return low.task(self.spread, (where, *groups), self.node)

    def _pieces(self, low: MakesTasks, chosen: Any, rest: Index, _: None) -> dict[int, Task]:
        """Return the chosen points of the block that they are in, by the block that needs them."""
        edges = pairwise(np.searchsorted(chosen, self.ends).tolist())
        cuts = {k: cut for k, cut in enumerate(edges) if cut[0] < cut[1] and self.needed[k] > 1}
        if len(cuts) == 1:  # one task instead of one that makes a tuple, and one that takes of it
            ((reader, (a, b)),) = cuts.items()
            return {reader: self._collected(low, chosen[a:b], rest, None)}
        block = low.block(self.base, self._index(int(self.source[chosen[0]]), rest))
        where = TaskDetails(tuple([each[chosen] for each in self.local]), list(cuts.values()))
        made = low.parts(self.pieces, (where, block), self.node, len(cuts))
        return dict(zip(cuts, made, strict=True))


def found_in(node: Expr, axes: Index, places: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Return the number of the block that each point is in, and where it is in the block."""
    local = []
    number: Any = 0
    for axis, at in zip(axes, places, strict=True):
        sizes = node.chunks[axis]
        if len(set(sizes[:-1])) <= 1 and sizes[0] >= sizes[-1]:
            block = at // max(sizes[0], 1)
            local.append(at - block * sizes[0])
        else:
            starts = np.array([0, *accumulate(sizes)])
            block = np.searchsorted(starts[1:], at, side="right")
            local.append(at - starts[block])
        number = number * len(sizes) + block
    return number, local


def _larger(node: Expr, axes: Index) -> Expr:
    """Return a node that can be made in any chunks in larger ones along the indexed axes."""
    if not node.free:
        return node
    single = tuple([
        sizes if axis in axes else (max(sizes),) for axis, sizes in enumerate(node.chunks)
    ])
    larger = coalesced(single)
    return node.with_chunks(tuple([
        larger[axis] if axis in axes else sizes for axis, sizes in enumerate(node.chunks)
    ]))


def _in_order(places: tuple[Any, ...], chunks: Any) -> tuple[Any, ...]:
    """Return flat index arrays, ordered block after block."""
    if len(chunks) == 1:
        return places
    spans = list(block_slices(chunks))
    return tuple([np.concatenate([each[span].ravel() for span in spans]) for each in places])


def _bytes(node: Expr) -> int:
    largest = [max([n or 1 for n in sizes]) for sizes in node.chunks]
    return prod(largest) * max(node.dtype.itemsize, 1)


def _together(count: int, size: int) -> int:
    """Return how many neighbours make a group: about as many as there are groups then.

    Fewer, where less than three large groups for each of sixteen workers would be left.
    """
    size = max(size, 1)
    return max(min(isqrt(count), _GROUP // size, max(count // TASKS, _WORTH // size)), 1)


def collect(axes: Index, dtype: np.dtype[Any], points: TaskDetails, *blocks: Any) -> Any:
    """Return points of blocks, each where it goes.

    points
        Where they go, those of the first block first (None: as they come, of one block); index
        arrays of the blocks, in the same order; how many points end with each block; and the
        shape of the axes of points in the result (None: one axis).
    """
    order, local, cuts, shape = points.values
    first = axes[0] if len(axes) == 1 else 0
    if order is None:
        return shaped(taken(blocks[0], axes, local), first, shape)
    rest = [n for axis, n in enumerate(blocks[0].shape) if axis not in axes]
    out = np.empty((*rest[:first], len(order), *rest[first:]), dtype)
    lead = (slice(None),) * first
    start = 0
    for block, stop in zip(blocks, cuts, strict=True):
        out[(*lead, order[start:stop])] = taken(
            block, axes, tuple([each[start:stop] for each in local])
        )
        start = stop
    return shaped(out, first, shape)


def taken_apart(axes: Index, points: TaskDetails, block: Any) -> tuple[Any, ...]:
    """Return the points of a block that different blocks need.

    points
        Index arrays; and where in them the points of each begin and end.
    """
    local, cuts = points.values
    return tuple([taken(block, axes, tuple([each[a:b] for each in local])) for a, b in cuts])


def spread(first: int, dtype: np.dtype[Any], where: TaskDetails, *groups: Any) -> Any:
    """Return slices of sorted groups with their points where they go.

    where
        Where the points of each slice go; the slices; how many points there are in all; and the
        shape of the axes of points in the result.
    """
    to, spans, count, shape = where.values
    before, after = groups[0].shape[:first], groups[0].shape[first + 1:]
    out = np.empty((*before, count, *after), dtype)
    lead = (slice(None),) * first
    for group, places, (a, b) in zip(groups, to, spans, strict=True):
        out[(*lead, places)] = group[(*lead, slice(a, b))]
    return shaped(out, first, shape)


def take_slice(first: int, piece: TaskDetails, whole: Any) -> Any:
    """Return a block, cut out of neighbours that were made together."""
    points, shape = piece.values
    return shaped(whole[(*(slice(None),) * first, points)], first, shape)


def shaped(found: Any, first: int, shape: Any) -> Any:
    """Return an array whose axis of points is reshaped into several."""
    if shape is None:
        return found
    return found.reshape((*found.shape[:first], *shape, *found.shape[first + 1:]))
