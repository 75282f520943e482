"""Sorting along an axis that is too long for one task: each reads and makes a few chunks.

Blocks are sorted (`runs`), and every s-th element of each run is a sample of what is where. Of all
samples, in order, bounds are chosen that are near the places where the chunks of the result begin.
What lies between two bounds is a bucket: a piece of each run, put together and sorted. Of `count`
runs a bound is off by less than ``s * count`` places, less than a quarter of a chunk, so that a
chunk of the result is a part of three neighbouring buckets at most; which part is known by how many
elements of each run are below the bounds::

    run  -->  sample  -->  bounds  -->  cuts of each run  -->  pieces  -->  bucket  -->  chunk

Equal elements are ordered by their run and place, so bounds divide them, too: an array of equal
elements has buckets as long as any other. The order is the stable one (for `places`, always).

With a memory limit, runs are in a file, from which buckets are read. The way is that of sorting by
regular sampling (Shi and Schaeffer 1992), but for the lengths of the result's chunks, which are
known before anything is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isqrt, prod
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import in_steps
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.task_parts import TaskDetails, named
from lazyflow.graph.task import Task

# All are guessed.
_WHOLE = 8  # one task sorts up to so many times `chunk_bytes`, and a memory limit over this
_PIECES = 32  # of a chunk of `chunk_bytes`: a piece of a run is about as large
_RUNS = 32  # sorted runs, at most; a task takes about five
_FINE = 4  # a bound is off by less than a chunk's length over this


class SampleSorted(Expr):
    """The elements of a node in order along an axis, or their places.

    inputs
        A node with chunks of one length along the axis, but the last one, and of 1 along others.
    algorithm
        What is `kind` of ``np.sort``.
    """

    __slots__ = ("algorithm", "axis", "places")

    def __init__(
        self, inputs: tuple[Expr, ...], axis: int, algorithm: Any, places: bool,
        dtype: np.dtype[Any],
    ) -> None:
        super().__init__(inputs, dtype, inputs[0].chunks)
        self.axis = axis
        self.algorithm = algorithm
        self.places = places

    @property
    def name(self) -> str:
        return "argsort" if self.places else "sort"

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        lane = (*index[:self.axis], *index[self.axis + 1:])
        made: SortedLane = low.shared(self, lane, SortedLane, low, self, lane)
        return made.block(low, index[self.axis])


class SortedLane:
    """The tasks that sort the elements along one line.

    Attributes
    ----------
    cuts
        For each run a task of how many of its elements are below each bound.
    """

    def __init__(self, low: MakesTasks, node: SampleSorted, lane: Index) -> None:
        self.node, name = node, node.name
        source, axis = node.inputs[0], node.axis
        self.sizes = node.chunks[axis]
        self.count, n = len(self.sizes), sum(self.sizes)
        self.dtype = dtype = run_dtype(source.dtype, node.places)
        size = n * dtype.itemsize
        self.file: Any = low.exchange(size, size) if low.exchange is not None else None
        self.starts = [number * self.sizes[0] for number in range(self.count)]
        step = max(self.sizes[0] // (_FINE * self.count), 1)
        places = node.places
        sort = named(f"{name}-run", sorted_run, node.algorithm, places, dtype, step)
        given = [
            (TaskDetails(start), self.file, low.block(source, (*lane[:axis], i, *lane[axis:])))
            for i, start in enumerate(self.starts)
        ]
        if self.file is None:
            self.runs = [low.task(sort, parts, node) for parts in given]
            sample = named(f"{name}-sample", sampled, places, step)
            samples = [low.task(sample, (run,), node) for run in self.runs]
        else:  # the run is read by the tasks that have the bounds: before, all would be read
            both = [low.parts(sort, parts, node, 2) for parts in given]
            self.runs, samples = map(list, zip(*both, strict=True))
        bounds = low.task(named(f"{name}-bounds", bounds_of, step, self.sizes), samples, node)
        cuts = named(f"{name}-count", cuts_of, places, dtype)
        self.cuts = [
            low.task(cuts, (TaskDetails(i, start, size), self.file, run, bounds), node)
            for i, (start, size, run) in enumerate(
                zip(self.starts, self.sizes, self.runs, strict=True)
            )
        ]
        self.totals = low.task(named(f"{name}-count", totals_of), self.cuts, node)

    def block(self, low: MakesTasks, number: int) -> Task:
        """Return the task of one chunk of the result."""
        near = range(max(number - 1, 0), min(number + 2, self.count))
        start = self.starts[number]
        where = TaskDetails(near.start, start, start + self.sizes[number], self.node.axis,
                            self.node.ndim)
        buckets = [low.shared(self.node, (id(self), i), self._bucket, low, i) for i in near]
        func = named(self.node.name, chunk_of, self.node.places)
        return low.task(func, (where, self.totals, *buckets), self.node)

    def _bucket(self, low: MakesTasks, number: int) -> Task:
        """Return the task of what lies between two bounds, in order."""
        name, places = f"{self.node.name}-bucket", self.node.places
        if self.file is None:
            pieces = [
                low.shared(self.node, (id(self), "cut", i), self._cut, low, i)[number]
                for i in range(self.count)
            ]
            return low.task(named(name, merged_pieces, places), pieces, self.node)
        func = named(name, merged_of_file, places, self.dtype)
        where = TaskDetails(number, self.starts)
        return low.task(func, (where, self.file, *self.cuts, *self.runs), self.node)

    def _cut(self, low: MakesTasks, number: int) -> list[Task]:
        func = named(f"{self.node.name}-cut", run_pieces)
        return low.parts(func, (self.cuts[number], self.runs[number]), self.node, self.count)


def run_dtype(dtype: np.dtype[Any], places: bool) -> np.dtype[Any]:
    """Return the dtype of runs: that of the elements, or of records of them and their places."""
    return np.dtype([("value", dtype), ("place", np.intp)]) if places else dtype


def _values(places: bool, run: Any) -> Any:
    return run["value"] if places else run


def sorted_run(
    kind: Any, places: bool, dtype: np.dtype[Any], step: int, where: TaskDetails, file: Any,
    block: Any,
) -> Any:
    """Return the elements of a block in order; if there is a file, where they are, and a sample.

    where
        The place of its first element.
    """
    (start,) = where.values
    flat = block.ravel()
    if places:
        order = np.argsort(flat, kind="stable")
        run: Any = np.empty(len(flat), dtype)
        run["value"], run["place"] = flat[order], order + start
    else:
        run = np.array(flat)
        run.sort(kind=kind)
    if file is None:
        return run
    return file.write([(start * dtype.itemsize, run)]), sampled(places, step, run)


def sampled(places: bool, step: int, run: Any) -> Any:
    """Return every so many elements of a run."""
    return np.array(_values(places, run)[step - 1::step])


def bounds_of(step: int, sizes: Sequence[int], *samples: Any) -> tuple[Any, Any, Any]:
    """Return elements near which chunks begin, with the numbers of their runs and their places."""
    every = np.concatenate(samples)
    lengths = [len(each) for each in samples]
    run = np.repeat(np.arange(len(samples)), lengths)
    place = np.concatenate([np.arange(n) for n in lengths]) * step + step - 1
    order = np.argsort(every, kind="stable")
    starts = np.cumsum(sizes)[:-1]
    # The k-th sample has from k * step to k * step + len(samples) * step elements up to it.
    k = (starts - len(samples) * (step - 1) // 2) // step - 1
    chosen = order[k.clip(0, max(len(order) - 1, 0))]
    return every[chosen], run[chosen], place[chosen]


def cuts_of(
    places: bool, dtype: np.dtype[Any], where: TaskDetails, file: Any, run: Any,
    bounds: tuple[Any, Any, Any],
) -> Any:
    """Return how many elements of a run are up to each bound; 0 and its length are around them.

    where
        The number of the run, and where it lies in the file, if there is one.
    """
    number, start, size = where.values
    if file is not None:  # a search looks at few pages of it
        run = file.mapped(start * dtype.itemsize, size * dtype.itemsize, [run]).view(dtype)
    bound, of_run, place = bounds
    values = _values(places, run)
    up_to = np.searchsorted(values, bound, side="right")
    below = np.searchsorted(values, bound, side="left")
    found = np.where(of_run > number, up_to, below)
    found = np.where(of_run == number, place + 1, found)
    return np.concatenate([[0], found, [len(run)]])


def totals_of(*cuts: Any) -> Any:
    """Return how many elements of all runs are up to each bound."""
    return np.sum(cuts, axis=0)


def run_pieces(cuts: Any, run: Any) -> tuple[Any, ...]:
    """Return copies of the pieces of a run, so that it can be forgotten."""
    return tuple([np.array(run[a:b]) for a, b in pairwise(cuts.tolist())])


def merged_pieces(places: bool, *pieces: Any) -> Any:
    """Return the elements of pieces of runs in order."""
    return _in_order(np.concatenate(pieces, dtype=pieces[0].dtype), places)


def merged_of_file(
    places: bool, dtype: np.dtype[Any], where: TaskDetails, file: Any, *inputs: Any
) -> Any:
    """Return the elements of a bucket in order.

    where
        The number of the bucket, and where runs begin in the file.
    inputs
        The cuts of each run, then what tells where the run is.
    """
    number, starts = where.values
    cuts, runs = inputs[:len(starts)], inputs[len(starts):]
    spans = [(start + each[number], each[number + 1] - each[number])
             for start, each in zip(starts, cuts, strict=True)]
    found = np.empty(sum([n for _, n in spans]), dtype)
    at = 0
    for (start, n), run in zip(spans, runs, strict=True):
        piece = file.read(int(start) * dtype.itemsize, int(n) * dtype.itemsize, [run])
        found[at:at + n] = piece.view(dtype)
        at += n
    return _in_order(found, places)


def _in_order(found: Any, places: bool) -> Any:
    if places:
        return found[np.argsort(found["value"], kind="stable")]
    found.sort(kind="stable")  # it merges runs, in a half to a tenth of the time of quicksort
    return found


def chunk_of(places: bool, where: TaskDetails, totals: Any, *buckets: Any) -> Any:
    """Return a chunk of the result: a stretch of neighbouring buckets.

    where
        The number of the first bucket; where the chunk begins and ends; the axis and how many
        there are.
    """
    first, start, stop, axis, ndim = where.values
    parts = []
    for number, bucket in enumerate(buckets, first):
        begin = int(totals[number])
        part = bucket[max(start - begin, 0):max(stop - begin, 0)]
        parts.append(part["place"] if places else part)
    found = np.concatenate(parts, dtype=parts[0].dtype)
    return found.reshape((1,) * axis + (-1,) + (1,) * (ndim - 1 - axis))


def is_long(node: Expr, *axes: int) -> bool:
    """Tell whether the elements along axes are better sorted by many tasks.

    Objects are not: what is compared is not what moves, and its size is not known.
    """
    dtype, limit = node.dtype, config.memory_limit()
    if None in node.shape or not node.size or dtype.hasobject:
        return False
    if prod([len(node.chunks[k]) for k in axes]) < 2 or (dtype.kind == "V" and not dtype.names):
        return False
    most = _WHOLE * config.get("chunk_bytes")
    if limit is not None:
        most = min(most, limit // _WHOLE)
    return bool(prod([node.shape[k] or 0 for k in axes]) * dtype.itemsize > most)


def run_bytes(size: int, runs: int) -> int:
    """Return how many bytes a run has at least, given those of all.

    runs
        That a memory limit has room for at least.
    """
    least = isqrt(size * max(config.get("chunk_bytes") // _PIECES, 1))
    limit = config.memory_limit()
    return max(least if limit is None else min(least, limit // runs), 1)


def sample_sorted(node: Expr, axis: int, kind: Any, places: bool) -> Expr:
    """Return the elements of a node in order along an axis, or their places, in many chunks."""
    n: Any = node.shape[axis]
    size = run_dtype(node.dtype, places).itemsize
    least = max(run_bytes(n * size, _RUNS) // size, 1)
    longest = max(node.chunks[axis])
    length = longest * max(-(-least // longest), 1)  # joins blocks, and cuts none
    chunks = [
        in_steps(n, min(length, n)) if k == axis else (1,) * (m or 0)
        for k, m in enumerate(node.shape)
    ]
    dtype = np.dtype(np.intp) if places else node.dtype
    return SampleSorted((rechunk(node, tuple(chunks)),), axis, kind, places, dtype)
