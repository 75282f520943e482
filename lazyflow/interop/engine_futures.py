"""Futures of engines among arguments: those of distributed.Client, scattered data, Ray's ObjectRef.

Each becomes an input, whose value stays in its engine. Where nothing else is asked for, the call
goes there, too; another scheduler gets the value as it would get one that was persisted there.
"""

from __future__ import annotations

from typing import Any

from lazyflow.api.lazy import Delayed
from lazyflow.departures import WeakValues
from lazyflow.graph.building import new_leaf
from lazyflow.graph.task import HELD, users_depth
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.registry import scheduler_of


class _Adopted(TaskFuture):
    """Holds the engine's future, so that its id stays its own."""

    __slots__ = ("theirs",)
    theirs: Any


#: By the id of the engine's future, which the task holds.
_tasks: WeakValues[Delayed] = WeakValues()


def engine_task(theirs: Any) -> Delayed:
    """Return a task whose value is that of a future of an engine."""
    task = _tasks.get(id(theirs))
    if task is None:
        scheduler: Any = scheduler_of(getattr(theirs, "client", "ray"))
        inner = _Adopted(f"{type(theirs).__name__} of {scheduler.name}", scheduler)
        task = _tasks[id(theirs)] = new_leaf(Delayed, HELD, inner, depth=users_depth())
        inner.theirs = theirs
        scheduler.adopt(theirs, inner, task)
    return task
