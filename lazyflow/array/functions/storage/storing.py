"""Writing arrays, block by block, into something that is there: a zarr array, a file, memory.

A region takes a part of a target. What can't be written is refused before, and a write that fails
half-way says what was written.

::

    a block  --->  what reads the target has read it  --->  its turn (`_Turns`)  --->  `write`

    >>> import lazyflow.array as la
    >>> target = np.zeros(4)
    >>> la.store(la.ones(4, chunks=2), target)
    >>> target
    array([1., 1., 1., 1.])
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from itertools import accumulate, pairwise, product
from threading import Lock
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.api import evaluate
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import observers
from lazyflow.array.chunks import Chunks, block_slices
from lazyflow.array.core import Array
from lazyflow.array.evaluation import exchange_of_run
from lazyflow.array.functions.storage.loading import guards_one_process, held, lock_of
from lazyflow.array.nodes.block_kinds import check_is_numpy
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, below
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.selection import Index
from lazyflow.array.nodes.sources import InMemory, Stored, TaskBlocks
from lazyflow.array.nodes.task_parts import TaskDetails
from lazyflow.array.passes.rewrites import optimize
from lazyflow.graph.kinds import ATOM
from lazyflow.graph.task import Task
from lazyflow.schedulers.core.base import AnyRun, Observer

# -- targets -----------------------------------------------------------------------------------


#: What writes HDF5: h5py, and xarray's handles of NetCDF files; those of zarr are zarr's own.
_ONE_WRITER = ("h5py", "netCDF4", "xarray")


class StoreTarget:
    """A store and the part of it to write; as an argument it is not searched for lazy values.

    parts
        The places to write along each axis of the store: one place, a range, or an array of places;
        None: the whole store.
    """

    _lazyflow_kind = ATOM

    def __init__(self, store: Any, parts: Any, guard: Any) -> None:
        self.store = store
        self.parts = parts
        self.guard = guard

    @classmethod
    def of(cls, store: Any, region: Any, guard: Any) -> StoreTarget:
        """Return the part of a store that a region takes.

        Raises
        ------
        TypeError
            The store can't be written to, or has a region and no shape.
        IndexError, ValueError
            The region does not fit the store.
        """
        if not hasattr(store, "__setitem__"):
            raise TypeError(
                f"a {type(store).__name__} can't be stored to: it takes no target[slices] = block"
            )
        if region is None:
            return cls(store, None, guard)
        shape = getattr(store, "shape", None)
        if shape is None:
            raise TypeError(
                f"regions= needs a target with a shape; a {type(store).__name__} has none"
            )
        return cls(store, parts_of(region, tuple(shape)), guard)

    def check(self, source: Array) -> None:
        """Raise where the source does not fit."""
        shape = getattr(self.store, "shape", None)
        if shape is None:
            return
        source_shape = source.with_known_sizes().shape
        if self.parts is not None:
            shape = [len(each) for each in self.parts if not isinstance(each, int)]
        if tuple(shape) != source_shape:
            raise ValueError(
                f"the array has shape {source_shape}, but what it is stored to has {tuple(shape)}"
                + ("" if self.parts is not None else "; pass regions= to write to a part of it")
            )

    @property
    def same(self) -> Any:
        """A key: equal for targets that are the same store."""
        return identity(self.store)

    @property
    def unit(self) -> tuple[int, ...] | None:
        """Lengths of the shards, or else chunks, that are written whole; None if there are none."""
        found = getattr(self.store, "shards", None) or getattr(self.store, "chunks", None)
        shape = getattr(self.store, "shape", None)
        if not isinstance(found, tuple) or shape is None or len(found) != len(shape):
            return None
        if not all(isinstance(n, int | np.integer) for n in found):
            return None
        return tuple([max(int(n), 1) for n in found])

    def along_axes(self) -> Sequence[Any]:
        """Return the places to write along each axis: one place, a range, or an array."""
        return [range(n) for n in self.store.shape] if self.parts is None else self.parts

    def ends(self, bounds: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
        """Return the first and the last place of each block along each axis of the store."""
        left = iter(bounds)
        found: list[list[tuple[int, int]]] = []
        for each in self.along_axes():
            if isinstance(each, int):
                found.append([(each, each)])
                continue
            blocks = [each[low:high] for low, high in pairwise(next(left))]
            found.append([(int(min(at)), int(max(at))) if len(at) else (0, -1) for at in blocks])
        return found

    def own(self, index: Index) -> Index:
        """Return which of `ends` are those of a block, along each axis of the store."""
        left = iter(index)
        return tuple([0 if isinstance(each, int) else next(left) for each in self.along_axes()])

    def chunks_for(self, chunks: Chunks) -> Chunks:
        """Return chunks close to the source's such that no two write into one `unit`."""
        unit, left = self.unit, iter(chunks)
        if unit is None:
            return chunks
        found = []
        for each, whole in zip(self.along_axes(), unit, strict=True):
            if isinstance(each, int):
                continue
            sizes = next(left)
            if isinstance(each, range) and each.step == 1 and sizes:
                places = accumulate(sizes, initial=each.start)
                near = {(place + whole // 2) // whole * whole for place in places}
                kept = [at for at in near if each.start < at < each.stop]
                sizes = tuple([b - a for a, b in pairwise([each.start, *sorted(kept), each.stop])])
            found.append(sizes)
        return tuple(found)

    def is_read_by(self, node: Expr) -> bool:
        """Tell whether a node reads the target."""
        if isinstance(node, InMemory):
            mine = isinstance(self.store, np.ndarray)
            return mine and np.may_share_memory(self.store, node.array)
        return isinstance(node, Stored) and identity(node.store) == self.same

    def place(self, slices: tuple[slice, ...]) -> Any:
        """Return where in the store a part of the source is."""
        if self.parts is None:
            return slices
        left = iter(slices)
        return tuple([
            each if isinstance(each, int) else _index(each[next(left)]) for each in self.parts
        ])

    def __reduce__(self) -> Any:
        if isinstance(self.store, np.memmap) and self.store.filename is not None:
            if self.store.mode == "c":
                raise TypeError("a memmap of mode 'c' is private to its process; open it by 'r+'")
            store = self.store
            details = (str(store.filename), store.dtype, store.offset, store.shape)
            return _memmap_target, (*details, self.parts)
        if isinstance(self.store, np.ndarray):
            raise TypeError(
                "other processes can't write into an array in this one's memory: store with "
                'scheduler="threads", or to a file, such as np.memmap or zarr'
            )
        if type(self.store).__module__.partition(".")[0] in _ONE_WRITER:
            raise TypeError(
                "an HDF5 or NetCDF file has one writer, the process that has it open: store with "
                'scheduler="threads", or to zarr, into which many processes write'
            )
        if guards_one_process(self.guard):
            return _target, (self.store, self.parts)
        return StoreTarget, (self.store, self.parts, self.guard)


def identity(store: Any) -> Any:
    """Return a key that handles of one store share: for zarr arrays, their place."""
    place = getattr(store, "store_path", None)
    return id(store) if place is None else str(place)


def parts_of(region: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the places that a region takes along each axis: a number, a range, or an array.

    >>> parts_of((slice(1, None), -1), (4, 3))
    (range(1, 4), 2)
    """
    each = list(region) if isinstance(region, tuple) else [region]
    if (dots := [k for k, one in enumerate(each) if one is Ellipsis]):
        each[dots[0]:dots[0] + 1] = [slice(None)] * (len(shape) - len(each) + 1)
    each += [slice(None)] * (len(shape) - len(each))
    if len(each) != len(shape):
        raise IndexError(f"a region of {len(each)} indices for a target of shape {shape}")
    parts = tuple([_part(one, n) for one, n in zip(each, shape, strict=True)])
    if sum(isinstance(part, np.ndarray) for part in parts) > 1:
        raise ValueError(
            f"the region {region!r} has lists for more than one axis; write with a list for one "
            "axis, and slices or numbers for the others"
        )
    return parts


def _part(one: Any, n: int) -> Any:
    if isinstance(one, slice):
        return range(n)[one]
    found = np.asarray(one)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    if found.ndim > 1 or (found.size and found.dtype.kind not in "iu"):
        raise IndexError(f"regions= takes slices, numbers and lists of numbers; got {one!r}")
    places = found.astype(np.intp)
    if places.size and not (-n <= places.min() and places.max() < n):
        raise IndexError(f"the region has {one!r} along an axis of length {n}")
    places = np.where(places < 0, places + n, places)
    return places if found.ndim else int(places)


def _index(part: Any) -> Any:
    if not isinstance(part, range):
        return part
    if not part:  # of some the ends, read as a slice, take elements
        return slice(0, 0)
    return slice(part.start, None if part.stop < 0 else part.stop, part.step)


def _target(store: Any, parts: Any) -> StoreTarget:
    return StoreTarget(store, parts, Lock())


def _memmap_target(name: str, dtype: Any, offset: int, shape: Any, parts: Any) -> StoreTarget:
    return StoreTarget(np.memmap(name, dtype, "r+", offset, shape), parts, None)


# -- checks ------------------------------------------------------------------------------------


_SHOWN = 8  # places of chunks in a message


def refuse_overlaps(writers: Sequence[StoreTarget]) -> None:
    """Raise ValueError where two sources are written to the same elements of one target.

    Sources are sorted by their first places along the first axis, so that many consecutive parts of
    one target are compared with their neighbours only.
    """
    by_target: dict[Any, list[tuple[int, int, int, Any]]] = {}
    for number, writer in enumerate(writers):
        if not hasattr(writer.store, "shape"):
            continue
        places = [range(p, p + 1) if isinstance(p, int) else p for p in writer.along_axes()]
        if all(map(len, places)):
            low, high = (min(places[0]), max(places[0])) if places else (0, 0)
            by_target.setdefault(writer.same, []).append((int(low), int(high), number, places))
    for writes in by_target.values():
        before: list[tuple[int, int, int, Any]] = []
        for write in sorted(writes, key=lambda write: write[:3]):
            before = [earlier for earlier in before if earlier[1] >= write[0]]
            for earlier in before:
                if all(map(_meet, earlier[3], write[3])):
                    first, second = sorted([earlier[2], write[2]])
                    raise ValueError(
                        f"sources {first} and {second} would be written to the same elements of "
                        "one target, and the order of writes is not defined. Give them regions "
                        "that do not overlap, or store one after the other"
                    )
            before.append(write)


def _meet(a: Any, b: Any) -> bool:
    """Tell whether places along an axis have one in common.

    >>> _meet(range(0, 6, 2), range(1, 6, 2)), _meet(range(3), np.array([9, 2]))
    (False, True)
    """
    if max(min(a), min(b)) > min(max(a), max(b)):
        return False
    if isinstance(a, range) and isinstance(b, range) and abs(a.step) == abs(b.step) == 1:
        return True
    return bool(np.intersect1d(a, b).size)


class _Writes(Observer):
    """Knows which tasks of a run have ended."""

    def __init__(self) -> None:
        self.run: AnyRun | None = None
        self.ended: set[int] = set()

    def run_started(self, run: AnyRun) -> None:
        self.run = self.run or run  # not those that its tasks start

    def task_ended(self, run: AnyRun, i: int) -> None:
        if run is self.run:
            self.ended.add(i)


@contextmanager
def telling_what_is_there(places: Sequence[tuple[int, Any]]) -> Iterator[None]:
    """Add a note to an error: which blocks had been written.

    places
        For each write, in the order of the run's results: the number of the target, and the place
        in it.
    """
    writes = _Writes()
    token = observers.set((*observers.get(), writes))
    try:
        yield
    except BaseException as error:
        if writes.run is not None:
            pairs = zip(writes.run.plan.outputs, places, strict=True)
            BaseException.add_note(error, _said([at for i, at in pairs if i in writes.ended],
                                                len(places)))
        raise
    finally:
        observers.reset(token)


def _said(done: Sequence[tuple[int, Any]], count: int) -> str:
    """Return the note.

    >>> _said([(0, (slice(0, 2), 1))], 3)  # doctest: +ELLIPSIS
    'lazyflow: 1 of 3 chunks were written before that: target 0 at [0:2, 1]. They can be read...'
    """
    shown = ", ".join(f"target {target} at {_place(at)}" for target, at in done[:_SHOWN])
    more = f", and {len(done) - _SHOWN} more" if len(done) > _SHOWN else ""
    return (
        f"lazyflow: {len(done)} of {count} chunks were written before that{': ' if done else ''}"
        f"{shown}{more}. They can be read. Others that were being written then may be there, too"
    )


def _place(at: Any) -> str:
    each = [
        f"{one.start}:{one.stop}" + (f":{one.step}" if one.step not in (None, 1) else "")
        if isinstance(one, slice) else str(one)
        for one in at
    ]
    return f"[{', '.join(each)}]"


# -- `store` -----------------------------------------------------------------------------------


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
        An array and its target, written by ``target[slices] = block``; or lists of both.
    lock
        True: one write at a time in each process; False: parallel writes, for targets that allow
        them; or a lock. Writes of one call that touch the same shard (or chunk) of a target wait
        for each other on every scheduler, whatever the lock.
    regions
        The part of the target to write: a tuple of slices, numbers, and at most one list of places;
        None for all of it; or a list of these, one for each target.
    compute
        False: return a lazy value, or with `return_stored` lazy arrays; nothing is written before
        they are computed.
    return_stored
        Return arrays that read the targets.
    **options
        Of `lazyflow.compute`.

    Raises
    ------
    ValueError
        The numbers of sources and targets or their shapes differ, or two sources would be written
        to the same elements of a target.
    SerializationError
        A target can't be written to by other processes: memory of this one, or an HDF5 file.

    Notes
    -----
    A source that reads its own target is computed as a whole before the first write, unless each
    block reads only the place that it is written to.

    If a write fails half-way, the error has a note with the number and places of the chunks that
    were written. They can be read, and written again.

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
    planned = []
    for node, writer in zip(nodes, writers, strict=True):
        mine = turns[writer.same]
        if writer.same not in readers:
            readers[writer.same] = [
                other for other in nodes if any(map(writer.is_read_by, below([other])))
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
        planned.append((node, writer, mine, written))
    if not back:
        return [(node, [task for task, _, _ in written]) for node, _, _, written in planned]
    return [
        (node, [
            low.task(read, (mine.last(touched) or [task], writer, place), node)
            for task, place, touched in written
        ])
        for node, writer, mine, written in planned
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
