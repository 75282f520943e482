"""Writing arrays, block by block, into something that is there: a zarr array, a file, memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.api import evaluate
from lazyflow.api.decorator import delayed
from lazyflow.array.chunks import block_slices
from lazyflow.array.core import Array
from lazyflow.array.evaluation import exchange_of_run
from lazyflow.array.functions.storage.checks import refuse_overlaps, telling_what_is_there
from lazyflow.array.functions.storage.loading import held, lock_of
from lazyflow.array.functions.storage.store_targets import StoreTarget
from lazyflow.array.nodes.block_kinds import check_is_numpy
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, below
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.selection import Index
from lazyflow.array.nodes.sources import TaskBlocks
from lazyflow.array.nodes.task_parts import TaskDetails
from lazyflow.array.passes.rewrites import optimize
from lazyflow.graph.task import Task


def store(
    sources: Any,
    targets: Any,
    lock: Any = True,
    regions: Any = None,
    compute: bool = True,
    return_stored: bool = False,
    **options: Any,
) -> Any:
    """Write arrays into targets, chunk by chunk, in one compute.

    Parameters
    ----------
    sources, targets
        An array and what it is written to by ``target[slices] = block``, or lists of these.
    lock
        True: one write at a time in each process; False: writes at once, for targets that can; or
        a lock. Writes of one call that touch the same shard (or chunk) of a target wait for each
        other on every scheduler, whatever the lock.
    regions
        What of the targets is written to: a tuple of slices, numbers, and a list of places along
        one axis at most; or a list of such tuples, one for each target, None for all of it.
    compute
        False: return a lazy value without writing; computing it writes, and gives None. With
        `return_stored` it is lazy arrays.
    return_stored
        Return arrays that read what was written.
    **options
        Of `lazyflow.compute`.

    Raises
    ------
    ValueError
        Numbers of sources and targets differ, or shapes do; or two sources would be written to the
        same elements of a target.
    SerializationError
        A target can't be written to by other processes: memory of this one, or an HDF5 file.

    Notes
    -----
    An array that is made of what it is written to is made as a whole before the first write, unless
    each of its blocks is made of the very place where it goes.

    The error of a write that fails half-way has a note: how many chunks are there, and where. They
    can be read, and written again.

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> out = np.zeros(4)
    >>> la.store(la.arange(4.0, chunks=2) * 2, out)
    >>> out
    array([0., 2., 4., 6.])
    """
    single = isinstance(sources, Array)
    if single:
        sources, targets = [sources], [targets]
    for source in sources:
        if not isinstance(source, Array):
            raise ValueError(
                f"store() writes chunked arrays; got a {type(source).__name__}. Use la.asarray."
            )
    if len(sources) != len(targets):
        raise ValueError(
            f"Different number of sources [{len(sources)}] and targets [{len(targets)}]"
        )
    writers = _writers(sources, targets, lock, regions)
    run = evaluate.RunOptions.of("store", options) if compute else None
    with nullcontext() if run is None else evaluate.planning(run):
        made = _tasks(sources, writers, return_stored)
    if not return_stored:
        written = [task for _, tasks in made for task in tasks]
        if not compute:
            return delayed(_all_written)(written)
        places = [
            (number, writer.place(slices))
            for number, (writer, (node, _)) in enumerate(zip(writers, made, strict=True))
            for slices in block_slices(node.chunks)
        ]
        with telling_what_is_there(places):
            evaluate.compute(written, **options)
        return None
    stored: Any = [Array(TaskBlocks(tasks, node.dtype, node.chunks)) for node, tasks in made]
    if compute:
        stored = evaluate.persist(*stored, **options)
    return stored[0] if single else stored


def _writers(
    sources: Sequence[Array], targets: Sequence[Any], lock: Any, regions: Any
) -> list[StoreTarget]:
    """Return what each source is written to; raise where it does not fit, or two overlap."""
    several = isinstance(regions, tuple | list) and all(
        isinstance(r, tuple) or (r is None and type(regions) is list) for r in regions
    )
    if not several:
        regions = [tuple(regions) if isinstance(regions, list) else regions] * len(sources)
    if len(regions) != len(sources):
        raise ValueError(
            f"Different number of sources [{len(sources)}] and regions [{len(regions)}]"
        )
    for x in sources:
        check_is_numpy(x.expr, "store()")
    guard = lock_of(lock)
    writers = [
        StoreTarget.of(target, region, guard)
        for target, region in zip(targets, regions, strict=True)
    ]
    for source, writer in zip(sources, writers, strict=True):
        writer.check(source)
    refuse_overlaps(writers)
    return writers


def _tasks(
    sources: Sequence[Array], writers: Sequence[StoreTarget], back: bool
) -> list[tuple[Expr, list[Task]]]:
    for x in sources:
        x.with_known_sizes()
    nodes = optimize([x.expr for x in sources], True, config.get("array_fusion"))
    low = Lowering(partial(exchange_of_run, nodes))
    turns: dict[Any, _Turns] = {}
    readers: dict[Any, list[Expr]] = {}
    for node, writer in zip(nodes, writers, strict=True):
        turns.setdefault(writer.same, _Turns(writer)).add(writer, low.bounds(node))
    found = []
    for node, writer in zip(nodes, writers, strict=True):
        mine = turns[writer.same]
        if writer.same not in readers:
            readers[writer.same] = [
                each for each in nodes if any(map(writer.is_read_by, below([each])))
            ]
        first = _read_before(low, nodes, writers, writer, readers[writer.same])
        written = []
        for index in product(*map(range, node.numblocks)):
            edges = zip(low.bounds(node), index, strict=True)
            place = TaskDetails(tuple([slice(ends[i], ends[i + 1]) for ends, i in edges]))
            touched = mine.touched(writer, index)
            before = [*first, *mine.last(touched)]
            task = low.task(write, (low.block(node, index), writer, place, before), node)
            mine.written(touched, task)
            written.append((task, place, touched))
        found.append((node, writer, mine, written))
    if not back:
        return [(node, [task for task, _, _ in written]) for node, _, _, written in found]
    return [
        (node, [
            low.task(read, (mine.last(touched) or [task], writer, place), node)
            for task, place, touched in written
        ])
        for node, writer, mine, written in found
    ]


class _Turns:
    """Which writes into one target wait for which others.

    A zarr array is written by whole shards, or chunks where it has none: who writes a part of one
    reads it and writes all of it, so that of two at once one is lost. Writes that touch the same
    one wait for each other as tasks do, which holds on every scheduler; a lock holds in a process.

    What is touched along an axis is counted in stretches between the ends of what is written, not
    in chunks of the target, of which a block may cover millions.
    """

    def __init__(self, writer: StoreTarget) -> None:
        self._unit = writer.unit
        self._spans: dict[int, list[list[tuple[int, int]]]] = {}  # chunks at the ends of blocks
        self._ends: list[set[int]] = [set() for _ in self._unit or ()]
        self._last: dict[Index, Task] = {}

    def add(self, writer: StoreTarget, bounds: Sequence[Sequence[int]]) -> None:
        """Take in what the blocks of one source will write."""
        if self._unit is None:
            return
        spans = self._spans[id(writer)] = []
        for places, unit, ends in zip(writer.ends(bounds), self._unit, self._ends, strict=True):
            spans.append([(low // unit, high // unit + 1) for low, high in places])
            ends.update(*spans[-1])

    def touched(self, writer: StoreTarget, index: Index) -> list[Index]:
        """Return the stretches that a block touches, as numbers along the axes of the target."""
        if self._unit is None:
            return []
        numbers = []
        for spans, ends, i in zip(
            self._spans[id(writer)], self._ordered, writer.own(index), strict=True
        ):
            low, high = spans[i]
            numbers.append(range(bisect_left(ends, low), bisect_left(ends, high)))
        return list(product(*numbers))

    @cached_property
    def _ordered(self) -> list[list[int]]:
        return [sorted(ends) for ends in self._ends]

    def last(self, touched: Sequence[Index]) -> list[Task]:
        """Return the writes so far that touch the same, the last along each chain."""
        tasks = [self._last[at] for at in touched if at in self._last]
        return list({id(task): task for task in tasks}.values())

    def written(self, touched: Sequence[Index], task: Task) -> None:
        """Take in that a write comes after those so far."""
        self._last.update(dict.fromkeys(touched, task))


def _read_before(
    low: Lowering, nodes: Sequence[Expr], writers: Sequence[StoreTarget], writer: StoreTarget,
    readers: Sequence[Expr],
) -> list[Task]:
    """Return what must have been read before a target is written to: all blocks made of it.

    Nothing where each block is made of the very place that it is written to.
    """
    if not readers:
        return []
    own = [node for node, each in zip(nodes, writers, strict=True) if each is writer]
    if len(readers) == 1 and readers == own and _in_place(own[0], writer):
        return []
    blocks = [
        low.block(node, index) for node in readers for index in product(*map(range, node.numblocks))
    ]
    return [low.task(_all_made, (blocks,), readers[0])]


def _in_place(node: Expr, writer: StoreTarget) -> bool:
    inputs = node.inputs if isinstance(node, Fused) else (node,)
    if writer.parts is not None or writer.chunks_for(node.chunks) != node.chunks:
        return False
    return all(
        x.chunks == node.chunks and any(x is each for each in inputs)
        for x in below([node]) if writer.is_read_by(x)
    ) and not any(
        writer.is_read_by(below_it) for x in inputs if x is not node for below_it in below(x.inputs)
    )


def write(block: Any, target: StoreTarget, place: TaskDetails, before: list[None]) -> None:
    """Write a block where it belongs, after others."""
    at = target.place(*place.values)
    with held(target.guard):
        target.store[at] = block


write.__name__ = "store"


def _all_written(written: list[None]) -> None:
    """Stand for all writes of one call."""


_all_written.__name__ = "store"


def _all_made(blocks: list[Any]) -> None:
    """Stand for all blocks that are made of what is then written to."""


_all_made.__name__ = "store"


def read(written: list[None], target: StoreTarget, place: TaskDetails) -> Any:
    """Return what was written."""
    return np.asarray(target.store[target.place(*place.values)])
