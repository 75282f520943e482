"""The scheduler that a name or an object stands for; the state of all, and their end.

A name is, in this order: another library's name for a scheduler, one of lazyflow's own, the address
of a cluster, an entry point. An object is a scheduler, a `concurrent.futures.Executor`, or a client
of a cluster. Where none is given, api/evaluate.py chooses.

>>> scheduler_of("threading") is scheduler_named("threads")
True

State::

    installed :: {name: Scheduler}                  made on first use (core/base.py)
    _executors :: weak {Executor: Scheduler}        one for each executor, as long as that lives
    _clients :: weak {Scheduler: None}              those of clients, for `shutdown`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lazyflow import config
from lazyflow.finalizers import WeakTable, wait_for_last_calls
from lazyflow.schedulers.core.base import (
    REQUIRED,
    ReportsInfo,
    Scheduler,
    ShutsDown,
    at_shutdown,
    checked,
    installed,
    provides,
)
from lazyflow.schedulers.core.task_resources import close_kept
from lazyflow.store import spilling
from lazyflow.store.sizes import format_bytes
from lazyflow.system import lacks_processes

#: Names that other libraries use for the same schedulers, so that ported programs run.
_ALIASES = {
    "synchronous": "sync",
    "single-threaded": "sync",
    "threading": "threads",
    "multiprocessing": "processes",
    "dask.distributed": "distributed",
}

_clients: WeakTable[Any, None] = WeakTable()  # schedulers of clients
_executors: WeakTable[Any, Scheduler] = WeakTable()


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group="lazyflow.schedulers")}


def _make(name: str) -> Scheduler:
    if name == "sync":
        from lazyflow.schedulers.sync import SyncScheduler

        return SyncScheduler()
    if name == "threads":
        from lazyflow.schedulers.threads import threads

        return threads
    if name == "processes":
        _need_processes()
        from lazyflow.schedulers.processes.scheduler import processes

        return processes
    if name == "distributed" or _is_address(name):
        _need("distributed")
        from lazyflow.schedulers.cluster.dask.scheduler import DistributedScheduler

        return DistributedScheduler(None if name == "distributed" else name)
    if name == "ray":
        _need("ray")
        from lazyflow.schedulers.cluster.ray import scheduler as ray_cluster

        return ray_cluster.scheduler
    entry_points = _entry_points()
    if name in entry_points:
        return checked(entry_points[name].load()())
    known = sorted({"sync", "threads", "processes", "distributed", "ray", *entry_points})
    raise ValueError(
        f"unknown scheduler {name!r}{config.nearest(name, known)} Known: {', '.join(known)}; or "
        "pass a scheduler object or a concurrent.futures.Executor"
    )


def _is_address(name: str) -> bool:
    return name.partition("://")[0] in ("tcp", "tls", "ucx", "ws", "wss", "inproc")


def _need(package: str) -> None:
    """Raise ImportError, with the command that installs it, if an engine's package is missing."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ImportError(
            f"scheduler={package!r} needs the package {package}, which is not installed here. "
            f"Type: pip install lazyflow[{package}]"
        )


def _need_processes() -> None:
    """Raise NotImplementedError, with an alternative, where workers can't be started."""
    lacking = lacks_processes()
    if lacking:
        raise NotImplementedError(
            f"scheduler='processes' needs {lacking}, which this system ({sys.platform}) does not "
            "have. Type scheduler='threads'; or, for functions that hold the GIL, "
            "scheduler=concurrent.futures.ProcessPoolExecutor() or scheduler='distributed'"
        )


def scheduler_named(name: str) -> Scheduler:
    """Return the scheduler of this name, made on first use."""
    name = _ALIASES.get(name, name)
    if name not in installed:
        installed[name] = _make(name)
    return installed[name]


def scheduler_of(given: Any) -> Scheduler:
    """Return the scheduler that a name, an Executor or a scheduler object stands for.

    Raises
    ------
    ValueError
        No scheduler has this name; the message lists the known ones.
    TypeError
        It is neither a name, nor an Executor, nor a scheduler; or a scheduler that lacks a method
        of a protocol in lazyflow/schedulers/core/base.py.
    """
    if isinstance(given, str):
        return scheduler_named(given)
    if isinstance(given, type):
        raise TypeError(f"scheduler is the class {given.__name__}; make one: {given.__name__}()")
    if all(hasattr(given, name) for name in REQUIRED):
        return checked(given)
    from concurrent.futures import Executor, ThreadPoolExecutor

    if type(given).__module__.startswith("distributed.") and hasattr(given, "subscribe_topic"):
        from lazyflow.schedulers.cluster.dask import scheduler as dask_cluster

        of_client = dask_cluster.scheduler_of(given)
        _clients[of_client] = None
        return of_client
    if isinstance(given, Executor):
        known = _executors.get(given)
        if known is None:
            from lazyflow.schedulers import executor

            kind = (
                executor.ThreadExecutorScheduler
                if isinstance(given, ThreadPoolExecutor)
                else executor.ExecutorScheduler
            )
            known = _executors[given] = kind(given)
        return known
    if hasattr(given, "offer"):
        return checked(given)  # its error says which method is missing
    raise TypeError(
        f"scheduler must be a name such as 'threads', a concurrent.futures.Executor or a "
        f"scheduler object; got {type(given).__name__}"
    )


def info() -> dict[str, Any]:
    """Return the current state of each scheduler that was used, by name.

    For ``"processes"``: ``workers``, each with ``pid``, the task that is ``running``, the number of
    ``values`` it keeps and their ``bytes``, the ``shared_bytes`` it has written for others and the
    ``mapped_bytes`` that it reads; and for the pool ``shared_bytes`` (counted once),
    ``mapped_bytes`` of the caller, ``through_parent_bytes``, ``messages``, ``deaths``, ``jobs``,
    and how many ``tasks`` have ended.
    For engines: ``dashboards``, the addresses of their own pages.
    For ``"memory"``, the values that are kept below ``memory_limit``: the ``held_bytes`` in the
    memory of this process, the ``spilled_bytes`` in a file and the ``folder`` of that file; the
    same for the values that ``runs`` pass on, for ``persisted`` values, and for all ``workers``
    together, as of their last answers.

    It prints as lines, and as a table in a notebook.

    >>> import lazyflow
    >>> print(info()["memory"]["persisted"])
    {'held_bytes': 0, 'spilled_bytes': 0}
    """
    states = {
        name: scheduler.info()
        for name, scheduler in tuple(installed.items())
        if provides(scheduler, ReportsInfo)
    }
    workers = states.get("processes", {}).get("workers", ())
    names = ("held_bytes", "spilled_bytes")
    theirs = {name: sum(worker[name] for worker in workers) for name in names}
    return Info({**states, "memory": {**spilling.facts(), "workers": theirs}})


class Info(dict[str, Any]):
    """The result of `info`: facts by name, some of which have parts."""

    def rows(self) -> Iterator[tuple[int, str, str]]:
        """Yield the depth, the name and the text of each fact; the text of a group is empty."""
        stack: list[tuple[int, str, Any]] = [(0, *item) for item in reversed(self.items())]
        while stack:
            depth, name, value = stack.pop()
            if isinstance(value, list) and any(isinstance(each, dict) for each in value):
                value = {f"{name} {each.get('pid', k)}": each for k, each in enumerate(value)}
            if isinstance(value, dict):
                yield depth, name, ""
                stack += [(depth + 1, *item) for item in reversed(value.items())]
            elif name.endswith("_bytes") or name == "bytes":
                yield depth, name.removesuffix("_bytes"), format_bytes(value)
            else:
                yield depth, name, str(value)

    def __str__(self) -> str:
        return "\n".join([f"{'  ' * depth}{name}: {text}".rstrip()
                          for depth, name, text in self.rows()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return "<table>" + "".join([
            f"<tr><td style='text-align:left;padding-left:{depth + 0.5}em'>{escape(name)}</td>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for depth, name, text in self.rows()
        ]) + "</table>"


def shutdown() -> None:
    """End the threads and processes that lazyflow keeps; queued work is cancelled.

    Running tasks get two seconds to end. The next compute starts threads and processes again.

    Examples
    --------
    >>> import lazyflow
    >>> lazyflow.shutdown()
    >>> lazyflow.delayed(abs)(-1).compute()
    1
    """
    for scheduler in (*installed.values(), *_clients.living()):
        if provides(scheduler, ShutsDown):
            scheduler.shutdown()
    for close in at_shutdown:
        close()
    close_kept()
    wait_for_last_calls()  # of states that threads had
