"""`put`: values that are given to the workers once, and shared by all calls after it."""

from __future__ import annotations

import copy as copying
from typing import Any

from lazyflow.api.futures import Future
from lazyflow.api.lazy import Delayed
from lazyflow.api.run_options import SchedulerLike, scheduler_or_default
from lazyflow.graph.arguments import read_only
from lazyflow.graph.building import new_leaf
from lazyflow.graph.kinds import ARRAY, IMMUTABLE, kinds
from lazyflow.graph.task import HELD
from lazyflow.schedulers.core.abilities import provides
from lazyflow.schedulers.core.base import Puts
from lazyflow.schedulers.core.errors.failures import summary
from lazyflow.schedulers.core.future import TaskFuture

__all__ = ["put"]


def put(value: Any, copy: bool = True, scheduler: SchedulerLike | None = None) -> Future:
    """Give a value to the workers once, and return a future that stands for it in any call.

    Without this, a large argument travels once for every compute that it is given to; values put
    on processes lie in shared memory, where every worker reads them without a copy.

    Parameters
    ----------
    value
        Any object; on schedulers with processes, one that can be pickled.
    copy
        True: a snapshot is taken now, and later edits of `value` are not seen. False: schedulers
        that share the caller's memory keep `value` itself, which must not change any more.
    scheduler
        Where it will be used; left out: `config`'s, else threads.

    Examples
    --------
    >>> import lazyflow
    >>> data = [1, 2, 3]
    >>> x = lazyflow.put(data)
    >>> data.append(4)
    >>> lazyflow.submit(sum, x).result()
    6
    """
    if isinstance(value, Future):
        return value
    inner = TaskFuture(f"put({summary(value)})", scheduler_or_default(scheduler))
    leaf = new_leaf(Delayed, HELD, inner, depth=2)
    keeper = inner.scheduler
    kept = keeper.put(value, leaf) if provides(keeper, Puts) else _snapshot(value, copy)
    inner.set_value(kept)
    return Future(inner, leaf)


def _snapshot(value: Any, copy: bool) -> Any:
    """Return what stands for a value where tasks share the memory of this process."""
    if kinds[type(value)] == ARRAY:
        return read_only(value.copy() if copy else value)
    if not copy or type(value) in IMMUTABLE:
        return value
    try:
        return copying.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"put() takes a snapshot, and {summary(value)} can't be copied: "
            f"{type(error).__name__}: {error}. If it will not be changed: put(x, copy=False)"
        ) from error
