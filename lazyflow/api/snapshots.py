"""What `put` keeps: a snapshot in memory, or a value that a scheduler has taken."""

from __future__ import annotations

import copy as copying
from typing import Any

from lazyflow.api.run_options import scheduler_or_default
from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, IMMUTABLE, kinds
from lazyflow.graph.task import Task
from lazyflow.schedulers.core.errors.failures import summary
from lazyflow.schedulers.core.future import TaskFuture


def new_future(value: Any, scheduler: Any) -> TaskFuture:
    """Return the future of a value that will be put."""
    return TaskFuture(f"put({summary(value)})", scheduler_or_default(scheduler))


def keep(value: Any, copy: bool, leaf: Task) -> None:
    """Put the value of a leaf that stands for a future."""
    future = leaf._args[0]
    take = getattr(future.scheduler, "put", None)
    future.set_value(take(value, leaf) if take is not None else _kept(value, copy))


def _kept(value: Any, copy: bool) -> Any:
    """Return what stands for a value where tasks share this process's memory."""
    if kinds[type(value)] == ARRAY:
        return read_only(value.copy() if copy else value)
    if not copy or type(value) in IMMUTABLE:
        return value
    try:
        return copying.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"put() takes a snapshot, and {summary(value)} can't be copied: "
            f"{type(error).__name__}: {error}. If nobody will change it: put(x, copy=False)"
        ) from error
