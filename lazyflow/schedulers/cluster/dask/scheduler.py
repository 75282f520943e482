"""`scheduler="distributed"`: plans on a dask.distributed cluster.

A `DistributedScheduler` finds its client for each compute: the one or the address that it was made
for, else the client that is active, else its own, on a cluster that it starts and `shutdown`
closes. The user's client and cluster are never closed. State::

    _engines :: weak {client: DaskEngine}                  one for each client, under `_lock`
    _of_clients :: weak {client: DistributedScheduler}     for ``scheduler=client``
    _made :: weak {DistributedScheduler: None}             all, for the end of Python and forks
    DistributedScheduler._own, _cluster                    client and cluster that it started,
                                                           under its `_starting`

At the end of Python submitted tasks are waited for while executors still run, which a scheduler in
this process needs; then keys are released, or its cluster would log them as lost.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Any

import distributed

from lazyflow import config
from lazyflow.errors import SchedulerLost
from lazyflow.finalizers import WeakTable
from lazyflow.schedulers.cluster.dask.client import forked, lost
from lazyflow.schedulers.cluster.dask.engine import DaskEngine
from lazyflow.schedulers.cluster.dask.workers import started
from lazyflow.schedulers.cluster.scheduler import EngineScheduler
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.base import HasFiles, ReportsInfo
from lazyflow.schedulers.core.unfinished import finish
from lazyflow.system import at_fork

_engines: WeakTable[Any, DaskEngine] = WeakTable()
_lock = threading.Lock()


def _engine_of(client: Any) -> DaskEngine:
    with _lock:
        engine = _engines.get(client)
        if engine is None:
            engine = _engines[client] = DaskEngine(client)
        return engine


class DistributedScheduler(EngineScheduler, HasFiles, ReportsInfo):
    """A scheduler that runs plans by a client: one that is given, active, or started here.

    Parameters
    ----------
    where
        A client, an address, or None: the client that is active where a compute is asked for,
        else a LocalCluster that is closed by `shutdown`.
    """

    name = "distributed"
    options = EngineScheduler.options | {"workers"}

    def __init__(self, where: Any = None) -> None:
        self._where = where if where is None or isinstance(where, str) else weakref.ref(where)
        super().__init__()
        self._own: Any = None  # a client that was opened here
        self._cluster: Any = None
        self._starting = threading.Lock()
        _made[self] = None

    def engine(self) -> DaskEngine:
        """Return the engine of the client."""
        return _engine_of(self._client())

    def _client(self) -> Any:
        if isinstance(self._where, weakref.ref):
            client = self._where()
            if client is None:
                raise lost()
            return client
        if self._where is None:
            try:
                client = distributed.Client.current()
            except ValueError:
                client = None
            if client is not None and client is not self._own:
                return client
        with self._starting:
            if self._own is None or self._own.status != "running":
                self._own = self._connected()
            return self._own

    def _connected(self) -> Any:
        if self._where is not None:
            try:
                return distributed.Client(self._where, set_as_default=False)
            except OSError as error:
                raise SchedulerLost(
                    f"no scheduler of a cluster answers at {self._where}: "
                    f"{error}. Start one by: dask scheduler"
                ) from error
            except TypeError as error:  # of the connection: there are no certificates
                raise TypeError(
                    f"{self._where}: {error}. Pass scheduler=distributed.Client({self._where!r}, "
                    "security=distributed.Security(...)) with the files of certificates and keys, "
                    "or name them in dask's configuration, below distributed.comm.tls"
                ) from error
        try:
            self._cluster = started(config.get("num_workers") or config.default_workers())
        except RuntimeError as error:
            raise RuntimeError(
                "the workers of a cluster on this machine did not start. In a script, the code "
                "that starts them must be below `if __name__ == \"__main__\":`, since each of them "
                "imports the script; else see the error above"
            ) from error
        return distributed.Client(self._cluster, set_as_default=False)

    def exchange(self, size: int, at_once: int) -> Any:
        """Return files in the workers for parts that their memory can't hold; None: it can."""
        return None if self._here() is not None else self.engine().exchange(size, at_once)

    def info(self) -> dict[str, Any]:
        """Return the addresses of the pages of clusters that are connected."""
        clients = [client for client in _engines.living() if client.status == "running"]
        return {"dashboards": [client.dashboard_link for client in clients]}

    def shutdown(self) -> None:
        """Close the client and the cluster that were opened here, and never the user's."""
        self.end_actors()
        with self._starting:
            client, self._own = self._own, None
            cluster, self._cluster = self._cluster, None
        if client is not None:
            with _lock:
                engine = _engines.pop(client)
            client.close()
            if engine is not None:
                engine.end_thread()
        if cluster is not None:
            cluster.close()

    def _in_fork(self) -> None:
        """In the child of a fork, forget connections and threads: they are the parent's."""
        self._own = self._cluster = None
        self._starting = threading.Lock()
        self.leave()


_of_clients: WeakTable[Any, DistributedScheduler] = WeakTable()
_made: WeakTable[DistributedScheduler, None] = WeakTable()


def scheduler_of(client: Any) -> DistributedScheduler:
    """Return the scheduler of a client."""
    return _of_clients.get(client) or _of_clients.setdefault(client, DistributedScheduler(client))


def _living() -> list[DaskEngine]:
    return [engine for engine in map(_engines.get, _engines.living()) if engine is not None]


def _drop(name: str) -> None:
    for engine in _living():
        engine.drop_named(name)


def _before_executors_end() -> None:
    finish()  # this module is the later one, and its hook comes first
    for scheduler in tuple(_made.living()):
        scheduler.shutdown()
    for engine in _living():
        engine.before_executors_end()


def _before_clusters_end() -> None:
    for engine in _living():
        engine.reference.release_all()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for engine in _living():
        engine.leave_runs(forked())
    _engines.clear()
    for scheduler in tuple(_made.living()):
        scheduler._in_fork()


task_resources.tellers.append(_drop)
# Executors end before atexit, and a scheduler in this process needs one. After that Python waits
# for the user's threads, which still get the results of submitted tasks.
getattr(threading, "_register_atexit", atexit.register)(_before_executors_end)
atexit.register(_before_clusters_end)
at_fork(after_in_child=_after_fork)
