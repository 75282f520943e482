"""dask's collections among our arguments: each is one task, in which dask computes it, once.

Its own tasks stay dask's, so its scheduler and configuration hold for them; in other processes
than the one where it was met they run one after the other.
"""

from __future__ import annotations

import os
from typing import Any

from lazyflow.api.lazy import Delayed
from lazyflow.departures import WeakValues
from lazyflow.graph.building import new_task
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.task import users_depth

__all__ = ["dask_task"]

#: By the id of what they compute, which they hold: an object that is met again is computed once.
_tasks: WeakValues[Delayed] = WeakValues()


class _Box:
    """Keeps an object out of the search for inputs."""

    __slots__ = ("pid", "value")

    def __init__(self, value: Any, pid: int) -> None:
        self.value = value
        self.pid = pid

    def __reduce__(self) -> Any:
        return _Box, (self.value, self.pid)


def dask_task(value: Any) -> Delayed | None:
    """Return a task that gives the value of a collection of dask's; None if nothing is lazy in it.

    xarray's objects, for example, follow the protocol with and without arrays of dask's.
    """
    if value.__dask_graph__() is None:
        return None
    task = _tasks.get(id(value))
    if task is None:
        options = DEFAULT.replace(label=f"dask {type(value).__name__}")
        box = _Box(value, os.getpid())
        task = _tasks[id(value)] = new_task(
            Delayed, _computed, (box,), options=options, depth=users_depth()
        )
    return task


def _computed(box: _Box) -> Any:
    import dask

    scheduler = {} if box.pid == os.getpid() else {"scheduler": "sync"}
    return dask.compute(box.value, **scheduler)[0]
