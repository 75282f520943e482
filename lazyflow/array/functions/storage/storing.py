"""Writing arrays, block by block, into something that is there: a zarr array, a file, memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from threading import Lock
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.api import evaluate
from lazyflow.api.decorator import delayed
from lazyflow.array.core import Array
from lazyflow.array.functions.storage.loading import guards_one_process, lock_of
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.nodes.task_parts import TaskDetails
from lazyflow.array.passes.pipeline import optimize
from lazyflow.graph.kinds import ATOM
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
        True: one write at a time in this process; False: writes at once, for targets that can; or
        a lock. Workers of other processes don't wait for each other: there, have the chunks of
        the array end where those of the target do, or pass a lock that all of them see.
    regions
        Slices of the targets that are written to, one tuple for each.
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
        Numbers of sources and targets differ, or shapes do.

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
        regions = None if regions is None else [regions]
    for source in sources:
        if not isinstance(source, Array):
            raise ValueError(
                f"store() writes chunked arrays; got a {type(source).__name__}. Use la.asarray."
            )
    if len(sources) != len(targets):
        raise ValueError(
            f"Different number of sources [{len(sources)}] and targets [{len(targets)}]"
        )
    if regions is None or (regions and not isinstance(regions[0], tuple | list)):
        regions = [tuple(regions) if regions else None] * len(sources)
    if len(regions) != len(sources):
        raise ValueError(
            f"Different number of sources [{len(sources)}] and regions [{len(regions)}]"
        )
    guard = lock_of(lock)
    writers = [
        StoreTarget(target, region, guard) for target, region in zip(targets, regions, strict=True)
    ]
    for source, writer in zip(sources, writers, strict=True):
        writer.check(source)
    made = _tasks(sources, writers, return_stored)
    if not return_stored:
        written = [task for _, tasks in made for task in tasks]
        if not compute:
            return delayed(_all_written)(written)
        evaluate.compute(written, **options)
        return None
    stored: Any = [Array(Tasks(tasks, node.dtype, node.chunks)) for node, tasks in made]
    if compute:
        stored = evaluate.persist(*stored, **options)
    return stored[0] if single else stored


def _tasks(
    sources: Sequence[Array], writers: Sequence[StoreTarget], back: bool
) -> list[tuple[Expr, list[Task]]]:
    for x in sources:
        x.with_known_sizes()
    nodes = optimize([x.expr for x in sources], True, config.get("array_fusion"))
    low = Lowering()
    found = []
    for node, writer in zip(nodes, writers, strict=True):
        bounds = low.bounds(node)
        tasks = []
        for index in product(*map(range, node.numblocks)):
            block = low.block(node, index)
            place = TaskDetails(tuple([
                slice(edges[i], edges[i + 1]) for edges, i in zip(bounds, index, strict=True)
            ]))
            task = low.task(write, (block, writer, place), node)
            tasks.append(low.task(read, (task, writer, place), node) if back else task)
        found.append((node, tasks))
    return found


class StoreTarget:
    """What is written to, and where in it; an argument of tasks that is not searched."""

    _lazyflow_kind = ATOM

    def __init__(self, store: Any, region: Any, guard: Any) -> None:
        self.store = store
        self.region = region
        self.guard = guard

    def check(self, source: Array) -> None:
        """Raise where the source does not fit."""
        if not hasattr(self.store, "__setitem__"):
            raise TypeError(
                f"a {type(self.store).__name__} can't be stored to: it takes no target[slices] = "
                "block"
            )
        shape = getattr(self.store, "shape", None)
        if shape is None:
            return
        source_shape = source.with_known_sizes().shape
        if self.region is not None:
            shape = np.broadcast_to(0, tuple(shape))[self.region].shape
        if tuple(shape) != source_shape:
            raise ValueError(
                f"the array has shape {source_shape}, but what it is stored to has {tuple(shape)}"
                + ("" if self.region is not None else "; pass regions= to write to a part of it")
            )

    def place(self, slices: tuple[slice, ...]) -> Any:
        """Return where in the store a part of the source is."""
        if self.region is None:
            return slices
        found = []
        left = list(slices)
        for each, n in zip(self.region, self.store.shape, strict=False):
            if not isinstance(each, slice):
                found.append(each)
                continue
            inner = range(n)[each]
            part = inner[left.pop(0)]
            stop: int | None = part.stop
            found.append(slice(part.start, None if part.stop < 0 else stop, part.step))
        return (*found, *left)

    def __reduce__(self) -> Any:
        if isinstance(self.store, np.memmap) and self.store.filename is not None:
            if self.store.mode == "c":
                raise TypeError("a memmap of mode 'c' is private to its process; open it by 'r+'")
            store = self.store
            details = (str(store.filename), store.dtype, store.offset, store.shape)
            return _memmap_target, (*details, self.region)
        if isinstance(self.store, np.ndarray):
            raise TypeError(
                "an array in the memory of this process can't be written to by others: store with "
                'scheduler="threads", or to a file, such as np.memmap or zarr'
            )
        if guards_one_process(self.guard):
            return _target, (self.store, self.region)
        return StoreTarget, (self.store, self.region, self.guard)


def _target(store: Any, region: Any) -> StoreTarget:
    return StoreTarget(store, region, Lock())


def _memmap_target(name: str, dtype: Any, offset: int, shape: Any, region: Any) -> StoreTarget:
    return StoreTarget(np.memmap(name, dtype, "r+", offset, shape), region, None)


def write(block: Any, target: StoreTarget, place: TaskDetails) -> None:
    """Write a block where it belongs."""
    at = target.place(*place.values)
    with target.guard or nullcontext():
        target.store[at] = block


write.__name__ = "store"


def _all_written(written: list[None]) -> None:
    """Stand for all writes of one call."""


_all_written.__name__ = "store"


def read(written: None, target: StoreTarget, place: TaskDetails) -> Any:
    """Return what was written."""
    return np.asarray(target.store[target.place(*place.values)])
