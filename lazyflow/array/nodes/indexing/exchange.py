"""The tasks that gather points: directly from memory, or by an exchange between blocks.

Where the points of a block come from few blocks, one task takes them from these. If these blocks
are large, that task would read most of the data: then each of them is cut into copies of the points
for each block, as for a rechunk. Where every block needs points of every other, that would be as
many edges as blocks squared. Then neighbouring sources are put together in groups and their points
sorted by where they go, and neighbouring blocks are made together of one slice of each group: for n
blocks about 2·√n tasks and n edges more than blocks. With a memory limit, and on the workers of
distributed, many points go through files, in which those of each reader lie in a row.

Sources a to d, in two groups, and blocks 0 to 3, of which two are made together::

    a, b --> [points for 0 and 1 | for 2 and 3] ---> 0, 1
                                               \\ /
                                               / \\
    c, d --> [points for 0 and 1 | for 2 and 3] ---> 2, 3
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from math import ceil, isqrt, prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import TASKS, Chunks, block_slices, coalesced, refuse_sparse
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.reading import LoadRegion
from lazyflow.array.nodes.rechunking import MANY, in_a_row
from lazyflow.array.nodes.selection import base_region
from lazyflow.array.nodes.task_parts import TaskDetails, is_large, named, writes_out
from lazyflow.array.nodes.views import View
from lazyflow.graph.task import Task
from lazyflow.store.exchange_file import Exchange as Way

# All are guessed.
_GROUP = 1 << 26  # bytes of blocks that one task of an exchange holds, about
_WORTH = 1 << 22  # bytes of a group from which a task more is worth it
_PIECE = 1 << 17  # bytes of a piece on average at least: smaller ones are not spilled
_FEW_PIECES = 1_000  # of any size
_FEW = 8  # blocks that a block is made of without an exchange, on average
_SHARE = 32  # of the memory limit: what a group has at most that goes through a file


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
    of the node is one of `grid`, the chunks of the indexed axes, and one of the others. `next`
    neighbouring blocks are made by one reader, of points of groups of `together` blocks.

    file
        What the points go through; None: tasks hand them over.

    What is kept for each point is where it stands among those of its reader when they are sorted
    by their groups (`order`); where it is in its block is found out by the tasks.
    """

    def __init__(self, low: MakesTasks, node: Expr, indices: IndexArrays) -> None:
        self.node = node
        self.axes = indices.axes
        self.points = indices.points
        chunks = node.chunks[self.points]
        self.base = _larger(node.inputs[0], self.axes)
        self.sizes = tuple([self.base.chunks[axis] for axis in self.axes])
        self.grid = tuple(map(len, self.sizes))
        self.counts = tuple(map(len, chunks))
        self.shapes = list(product(*chunks))
        self.ends = list(accumulate(map(prod, self.shapes), initial=0))
        self.arrays = _in_order(indices.arrays, chunks)
        self.collect = named("take", collect, self.axes, node.dtype)
        self.file = self._file(low.exchange)
        self._group()

    def _file(self, way: Way | None) -> Any:
        size = self.ends[-1] * _bytes(self.node) // max([1, *map(prod, self.shapes)])
        if way is None or self.node.dtype.hasobject:
            return None
        return way(self.node.size * self.node.dtype.itemsize, size)

    def _group(self) -> None:
        """Decide whether to exchange, and between how many neighbours; if so, sort the points."""
        sources, blocks = prod(self.grid), len(self.shapes)
        kind = np.min_scalar_type(sources)  # what is small is sorted by counting
        source = np.empty(self.ends[-1], kind)
        for a, b in pairwise(self.ends):  # block by block: the arrays are as large as the data
            indices = [at[a:b] for at in self.arrays]
            source[a:b] = found_in_chunks(self.sizes, indices)[0]
        self.needed = [np.unique(source[a:b]) for a, b in pairwise(self.ends)]
        needed = [len(each) for each in self.needed]
        edges = sum(needed)
        self.apart = max(needed, default=0) > 1 and (
            self.file is not None or is_large(self.base)
        )
        if self.apart:
            size = self.ends[-1] * _bytes(self.node) // max([prod(each) for each in self.shapes])
            pieces = max(min(MANY, size // _PIECE), _FEW_PIECES)
            held = _GROUP if self.file is None else min(_GROUP, self.file.limit // _SHARE)
            most = max(held // max(_bytes(self.base), _bytes(self.node), 1), 1)
            self.together = self.next = min(ceil(sqrt(edges / pieces)), most)
        else:
            self.together = _together(sources, _bytes(self.base))
            self.next = _together(blocks, _bytes(self.node))
        self.far = edges > _FEW * (sources + blocks) and self.together * self.next > 1
        if not (self.far or self.apart):
            return
        self.has_points = np.zeros(sources, bool)
        for numbers in self.needed:
            self.has_points[numbers] = True
        self._sort(source // kind.type(self.together) if self.together > 1 else source)

    def _sort(self, group: Any) -> None:
        """Sort the points of each reader by their groups; `cuts` are where those of each begin."""
        self.edge = self.ends[:-1:self.next] + self.ends[-1:]
        longest = max([b - a for a, b in pairwise(self.edge)], default=0)
        self.order = np.empty(self.ends[-1], np.min_scalar_type(longest))
        groups = np.arange(-(-prod(self.grid) // self.together) + 1)
        self.cuts = np.empty((len(self.edge) - 1, len(groups)), np.intp)
        for reader, (a, b) in enumerate(pairwise(self.edge)):
            own = group[a:b]
            order = np.argsort(own, kind="stable")
            self.order[a:b] = order
            self.cuts[reader] = np.searchsorted(own[order], groups)
        self.starts = np.cumsum(np.diff(self.cuts), axis=0)  # in what a group gives to all readers
        self.starts -= np.diff(self.cuts)
        self.spread = named("take-spread", spread, self.points.start, self.node.dtype)
        self.cut = named("take-cut", take_slice, self.points.start)
        self.pieces = named("take-cut", taken_apart, self.axes, self.node.dtype)

    def block(self, low: MakesTasks, index: Index) -> Task:
        """Return the task of one block."""
        points = self.points
        number = 0
        for i, count in zip(index[points], self.counts, strict=True):
            number = number * count + i
        rest = (*index[:points.start], *index[points.stop:])
        shape = self.shapes[number] if len(self.counts) != 1 else None
        a, b = self.ends[number:number + 2]
        if not self.far and not (self.apart and (self.next > 1 or len(self.needed[number]) > 1)):
            numbers = self.needed[number].tolist() or [0]
            return self._collected(low, [(a, b, None)], numbers, rest, shape)
        make: Any = self._spread if self.file is None else self._read
        if self.next == 1:
            return make(low, number, rest, shape)
        start = self.ends[number - number % self.next]
        several = number // self.next
        whole = low.shared(self.node, (several, rest), make, low, several, rest, None)
        piece = TaskDetails(slice(a - start, b - start), shape)
        return low.task(self.cut, (piece, whole), self.node)

    def _chosen(self, reader: int, group: int) -> _Span:
        """Return the points of a reader that are in a group, as `ChosenPoints` has them."""
        a, b = self.edge[reader:reader + 2]
        first, last = self.cuts[reader, group:group + 2].tolist()
        return a, b, self.order[a + first:a + last]

    def _collected(
        self, low: MakesTasks, spans: Sequence[_Span], numbers: Sequence[int], rest: Index,
        shape: Any,
    ) -> Task:
        """Return a task that takes chosen points of the blocks of these numbers."""
        where = ChosenPoints(self.arrays, self.sizes, spans, numbers, shape)
        return low.task(self.collect, (where, *self._blocks(low, numbers, rest)), self.node)

    def _blocks(self, low: MakesTasks, numbers: Sequence[int], rest: Index) -> list[Task]:
        return [low.block(self.base, self._index(number, rest)) for number in numbers]

    def _index(self, number: int, rest: Index) -> Index:
        at = iter(np.unravel_index(number, self.grid))
        others = iter(rest)
        return tuple([
            int(next(at)) if axis in self.axes else next(others) for axis in range(self.base.ndim)
        ])

    def _spread(self, low: MakesTasks, number: int, rest: Index, shape: Any) -> Task:
        """Return the task that makes neighbouring blocks as one, of a part of each group."""
        start, stop = self.edge[number:number + 2]
        groups: list[Task] = []
        spans = []
        make: Any = self._pieces if self.apart else self._for_all
        for group, count in enumerate(np.diff(self.cuts[number]).tolist()):
            if count or not (groups or self.apart):
                made = low.shared(self.node, ("sorted", group, rest), make, low, group, rest)
                groups.append(made[number] if self.apart else made)
                first = 0 if self.apart else int(self.starts[number, group])
                spans.append((first, first + count))
        where = TaskDetails(self.order[start:stop], spans, shape)
        return low.task(self.spread, (where, *groups), self.node)

    def _readers(self, group: int) -> list[int]:
        """Return the numbers of the readers that need points of a group."""
        found = np.flatnonzero(np.diff(self.cuts[:, group:group + 2])[:, 0])
        return [int(k) for k in found if self.next > 1 or len(self.needed[k]) > 1]

    def _members(self, group: int) -> list[int]:
        """Return the numbers of the blocks of a group of which points are needed."""
        first = group * self.together
        found = np.flatnonzero(self.has_points[first:first + self.together]) + first
        return found.tolist() or [first]

    def _for_all(self, low: MakesTasks, group: int, rest: Index) -> Task:
        """Return the points of a group, by the readers that need them."""
        spans = [self._chosen(reader, group) for reader in self._readers(group)]
        return self._collected(low, spans or [(0, 0, None)], self._members(group), rest, None)

    def _pieces(self, low: MakesTasks, group: int, rest: Index) -> dict[int, Task]:
        """Return the points of a group that each reader needs, by the reader."""
        readers, numbers = self._readers(group), self._members(group)
        spans = [self._chosen(reader, group) for reader in readers]
        if len(readers) == 1:  # one task instead of one for a tuple, and one that takes of it
            return {readers[0]: self._collected(low, spans, numbers, rest, None)}
        where = TaskDetails(*[
            ChosenPoints(self.arrays, self.sizes, [span], numbers, None) for span in spans
        ])
        blocks = self._blocks(low, numbers, rest)
        made = low.parts(self.pieces, (where, *blocks), self.node, len(readers))
        return dict(zip(readers, made, strict=True))


    # -- through a file ---------------------------------------------------------------------

    def _place(self, low: MakesTasks, reader: int, rest: Index) -> tuple[int, tuple[int, ...]]:
        """Return where the points of a reader begin in the file, and the lengths of other axes."""
        bounds, chunks, shape = low.bounds(self.node), self.node.chunks, self.node.shape
        others = [k for k in range(self.node.ndim) if k not in range(*self.points.indices(99))]
        lengths = tuple([chunks[k][i] for k, i in zip(others, rest, strict=True)])
        starts = [bounds[k][i] for k, i in zip(others, rest, strict=True)]
        a, b = self.edge[reader:reader + 2]
        whole = self.ends[-1], *[shape[k] for k in others]
        return in_a_row((a, *starts), (b - a, *lengths), whole), lengths

    def _read(self, low: MakesTasks, reader: int, rest: Index, shape: Any) -> Task:
        """Return the task that makes neighbouring blocks as one, whose points are in the file."""
        counts = np.diff(self.cuts[reader])
        groups = np.flatnonzero(counts)
        written = [
            low.shared(self.node, ("written", group, rest), self._write, low, group, rest)
            for group in groups.tolist()
        ]
        start, lengths = self._place(low, reader, rest)
        first = self.points.start
        around = lengths[:first], lengths[first:]
        a, b = self.edge[reader:reader + 2]
        where = TaskDetails(self.order[a:b], counts[groups].tolist(), shape, start, around)
        func = named("take-spread", read_spread, first, self.node.dtype)
        return low.task(func, (where, self.file, *written), self.node)

    def _write(self, low: MakesTasks, group: int, rest: Index) -> Task:
        """Return the task that writes the points of a group for all readers."""
        readers, numbers = self._readers(group), self._members(group)
        spans = [self._chosen(reader, group) for reader in readers]
        starts = []
        for reader in readers:
            start, lengths = self._place(low, reader, rest)
            starts.append(start + int(self.cuts[reader, group]) * prod(lengths))
        counts = np.diff(self.cuts[readers, group:group + 2])[:, 0].tolist()
        chosen = ChosenPoints(self.arrays, self.sizes, spans, numbers, None)
        func = named("take-cut", write_apart, self.axes, self.node.dtype)
        where = TaskDetails(chosen, starts, counts)
        return low.task(func, (where, self.file, *self._blocks(low, numbers, rest)), self.node)


#: Where the points of a reader begin and end in the index arrays, and which of them are chosen.
_Span = tuple[int, int, Any]


class ChosenPoints(TaskDetails):
    """What `collect` gets, found out when a task asks for it or is sent.

    Together these would be larger than the index arrays, which may be as large as the data.

    sizes
        The chunks of the indexed axes.
    spans
        Which points; None: all of a reader.
    numbers
        Of the blocks that the task gets, ascending.
    """

    __slots__ = ("arrays", "numbers", "shape", "sizes", "spans")

    def __init__(
        self, arrays: tuple[Any, ...], sizes: Chunks, spans: Sequence[_Span],
        numbers: Sequence[int], shape: Any,
    ) -> None:
        self.arrays, self.sizes, self.spans = arrays, sizes, spans
        self.numbers, self.shape = numbers, shape

    @property
    def values(self) -> tuple[Any, ...]:  # type: ignore[override]
        chosen = []
        for each in self.arrays:
            parts = [each[a:b] if at is None else each[a:b][at] for a, b, at in self.spans]
            chosen.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        number, local = found_in_chunks(self.sizes, chosen)
        if len(self.numbers) == 1:
            return None, tuple(local), (), self.shape
        number = number.astype(np.min_scalar_type(self.numbers[-1]))
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], self.numbers, side="right").tolist()
        return order, tuple([each[order] for each in local]), cuts, self.shape

    def __reduce__(self) -> Any:
        return TaskDetails, self.values


def found_in(node: Expr, axes: Index, places: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Return the number of the block that each point is in, and where it is in the block."""
    return found_in_chunks([node.chunks[axis] for axis in axes], places)


def found_in_chunks(chunks: Sequence[Any], places: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the number of the block that each point is in, given the chunks of the axes."""
    local = []
    number: Any = 0
    for sizes, at in zip(chunks, places, strict=True):
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


def taken_apart(
    axes: Index, dtype: np.dtype[Any], points: TaskDetails, *blocks: Any
) -> tuple[Any, ...]:
    """Return the points of blocks that different readers need: for each what `collect` gets."""
    return tuple([collect(axes, dtype, each, *blocks) for each in points.values])


def spread(first: int, dtype: np.dtype[Any], where: TaskDetails, *groups: Any) -> Any:
    """Return slices of sorted groups with their points where they go.

    where
        Where the points of all slices go, one after the other; the slices; and the shape of the
        axes of points in the result.
    """
    order, spans, shape = where.values
    before, after = groups[0].shape[:first], groups[0].shape[first + 1:]
    out = np.empty((*before, len(order), *after), dtype)
    lead = (slice(None),) * first
    start = 0
    for group, (a, b) in zip(groups, spans, strict=True):
        out[(*lead, order[start:start + b - a])] = group[(*lead, slice(a, b))]
        start += b - a
    return shaped(out, first, shape)


def write_apart(
    axes: Index, dtype: np.dtype[Any], points: TaskDetails, file: Any, *blocks: Any
) -> Any:
    """Write the points of blocks that different readers need; return what tells where they are.

    points
        What `collect` gets, for one reader after the other; where those of each begin in the file,
        in elements; and how many they are.
    """
    chosen, starts, counts = points.values
    first = axes[0] if len(axes) == 1 else 0
    found = collect(axes, dtype, chosen, *blocks).astype(dtype, copy=False)
    parts = np.split(found, np.cumsum(counts[:-1]), first)
    return file.write(
        (start * dtype.itemsize, part) for start, part in zip(starts, parts, strict=True))


def read_spread(
    first: int, dtype: np.dtype[Any], where: TaskDetails, file: Any, *written: Any
) -> Any:
    """Return points in a file, which lie there in the order of groups, where they go.

    where
        Where they go; how many there are of each group; the shape of the axes of points in the
        result; where they begin in the file, in elements; and the lengths of the axes before and
        after those of points.
    """
    order, counts, shape, start, (before, after) = where.values
    each = prod(before) * prod(after)
    size = len(order) * each * dtype.itemsize
    found = file.read(start * dtype.itemsize, size, written).view(dtype)
    ends = [n * each for n in accumulate(counts)]
    groups = [
        part.reshape(*before, n, *after)
        for part, n in zip(np.split(found, ends[:-1]), counts, strict=True)
    ]
    return spread(first, dtype, TaskDetails(order, [(0, n) for n in counts], shape), *groups)


def take_slice(first: int, piece: TaskDetails, whole: Any) -> Any:
    """Return a block, cut out of neighbours that were made together."""
    points, shape = piece.values
    return shaped(whole[(*(slice(None),) * first, points)], first, shape)


def shaped(found: Any, first: int, shape: Any) -> Any:
    """Return an array whose axis of points is reshaped into several."""
    if shape is None:
        return found
    return found.reshape((*found.shape[:first], *shape, *found.shape[first + 1:]))
