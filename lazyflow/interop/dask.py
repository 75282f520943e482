"""Lazy objects of dask, and futures of engines, among arguments.

A collection of dask becomes one task, in which dask computes it once.

dask runs the tasks of the collection, with its own scheduler and configuration; in other
processes than the one where the collection was made they run one after the other.

The other way round, ``dask.config.set(scheduler=lazyflow.interop.dask.get)`` runs dask's own
collections on lazyflow's threads; `get_processes`, `get_sync` and `get_distributed` elsewhere. They
are in `dask_graphs`, since this module is imported where dask need not be installed. `to_dask` and
`from_dask`, in `dask_collections`, turn lazy values and arrays of one into those of the other.
"""

from __future__ import annotations

import os
from typing import Any

from lazyflow.api.lazy import Delayed
from lazyflow.finalizers import WeakValues
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.task import HELD, users_depth
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.registry import scheduler_of

__all__ = ["dask_task"]

_SCHEDULERS = ("get", "get_distributed", "get_processes", "get_sync")


def __getattr__(name: str) -> Any:
    if name in _SCHEDULERS:
        from lazyflow.interop import dask_graphs

        return getattr(dask_graphs, name)
    if name in ("from_dask", "to_dask"):
        from lazyflow.interop import dask_collections

        return getattr(dask_collections, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- futures of engines -------------------------------------------------------------------
#
# Futures of engines among arguments: those of distributed.Client, scattered data, Ray's ObjectRef.
#
# Each becomes an input, whose value stays in its engine. Where nothing else is asked for, the call
# goes there, too; another scheduler gets the value as it would get one that was persisted there.


class _Adopted(TaskFuture):
    """Holds the engine's future, so that its id stays its own."""

    __slots__ = ("theirs",)
    theirs: Any


#: By the id of the engine's future, which the task holds.
_tasks_of_futures: WeakValues[Delayed] = WeakValues()


def engine_task(theirs: Any) -> Delayed:
    """Return a task whose value is that of a future of an engine."""
    task = _tasks_of_futures.get(id(theirs))
    if task is None:
        scheduler: Any = scheduler_of(getattr(theirs, "client", "ray"))
        inner = _Adopted(f"{type(theirs).__name__} of {scheduler.name}", scheduler)
        task = _tasks_of_futures[id(theirs)] = new_leaf(Delayed, HELD, inner, depth=users_depth())
        inner.theirs = theirs
        scheduler.adopt(theirs, inner, task)
    return task


# -- collections of dask ------------------------------------------------------------------

#: By the id of the collection, which its task holds: a collection that is passed again is
#: computed once.
_tasks: WeakValues[Delayed] = WeakValues()


class _HiddenCollection:
    """Hides a collection of dask from the search for lazy values among arguments."""

    __slots__ = ("pid", "value")

    def __init__(self, value: Any, pid: int) -> None:
        self.value = value
        self.pid = pid

    def __reduce__(self) -> Any:
        return _HiddenCollection, (self.value, self.pid)


def dask_task(value: Any) -> Delayed | None:
    """Return a task that computes a collection of dask; None if nothing in it is lazy.

    Futures of engines are not computed: the task stands for their value.

    Objects of xarray, for example, follow dask's protocol whether or not they hold dask's arrays.
    """
    if not hasattr(value, "__dask_graph__"):
        return engine_task(value)
    if value.__dask_graph__() is None:
        return None
    task = _tasks.get(id(value))
    if task is None:
        options = DEFAULT.replace(label=f"dask {type(value).__name__}")
        hidden = _HiddenCollection(value, os.getpid())
        task = _tasks[id(value)] = new_task(
            Delayed, _computed, (hidden,), options=options, depth=users_depth()
        )
    return task


def _computed(hidden: _HiddenCollection) -> Any:
    import dask

    scheduler = {} if hidden.pid == os.getpid() else {"scheduler": "sync"}
    return dask.compute(hidden.value, **scheduler)[0]
