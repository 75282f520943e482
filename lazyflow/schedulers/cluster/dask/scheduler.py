"""`scheduler="distributed"`: plans on a dask.distributed cluster.

Only this folder imports distributed.

A group of tasks is one task there, a coroutine: it has a thread of ours run the group, so that
one that was given up while it runs ends at once for the cluster, and others get its place. What a
worker has to say to the caller goes with the events of the cluster.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
import uuid
import warnings
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic
from types import SimpleNamespace
from typing import Any

import distributed
from dask._task_spec import Task as TheirTask
from dask._task_spec import TaskRef
from distributed.client import FutureState

from lazyflow import config
from lazyflow.departures import LastCall, WeakTable
from lazyflow.errors import LazyflowWarning, SchedulerLost, WorkerDied
from lazyflow.graph.grouping import scheduling_options
from lazyflow.graph.options import Options
from lazyflow.graph.task import task_name, users_depth
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.connection import EngineConnection
from lazyflow.schedulers.cluster.dask.actors import DaskLink
from lazyflow.schedulers.cluster.dask.local import Local, started
from lazyflow.schedulers.cluster.groups import Submission, TaskGroup
from lazyflow.schedulers.cluster.losses import gone
from lazyflow.schedulers.cluster.outcome import GroupOutcome
from lazyflow.schedulers.cluster.results import EngineResult, Put
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.cluster.scheduler import EngineScheduler
from lazyflow.schedulers.cluster.work import Work
from lazyflow.schedulers.cluster.worker_filter import chosen, refusal
from lazyflow.schedulers.cluster.worker_threads import run_in_thread

_MESSAGE = 4 << 20  # bytes of payloads that go in one message, about
_ANSWER = 1.0  # seconds that workers get to say what they run
_PATIENCE = 2.0  # seconds that a cluster of this process gets at the end of Python
_ALONE = 3.0  # seconds after which a caller who waits looks whether there are workers
_FRESH = 2.0  # seconds for which the number of workers is taken as known
_numbers = count(1)

# -- in a worker ----------------------------------------------------------------------------

#: Groups that run in this process, by name of their run and number, and what ends each.
_active: dict[tuple[str, int], tuple[Work, Any]] = {}


async def _group(payload: bytes, topic: str, *deps: GroupOutcome) -> GroupOutcome:
    """Have a group run by a thread of ours; return when it is done or given up."""
    worker = distributed.get_worker()
    loop = asyncio.get_running_loop()
    work = Work(payload, deps, "distributed")
    done: asyncio.Future[Any] = loop.create_future()
    key = (f"{topic}/{work.run_name}", work.number)
    _active[key] = work, done

    def tell(found: Any) -> None:
        try:
            loop.call_soon_threadsafe(_settle, done, found)
        except RuntimeError:  # the worker has closed
            pass

    run_in_thread(work, contextvars.copy_context(), tell)
    del deps, payload
    try:
        found = await done
    finally:
        del _active[key]
    if found is None:
        return GroupOutcome({}, {})
    outcome: GroupOutcome
    outcome, report = found
    if report:
        worker.log_event(topic, report)
    return outcome


def _settle(done: asyncio.Future[Any], found: Any) -> None:
    if not done.done():
        done.set_result(found)


async def _give_up(name: str, numbers: list[int]) -> None:
    """End groups of a run: what runs now is left behind with its thread, the rest not started."""
    for number in numbers:
        found = _active.get((name, number))
        if found is not None:
            work, done = found
            work.give_up()
            _settle(done, None)


async def _running(name: str) -> list[int]:
    return [work.running() for (run, _), (work, _) in tuple(_active.items()) if run == name]


# -- with the caller ------------------------------------------------------------------------


#: Futures that handles stand for, by number. A Ctrl-C in their `__del__` is lost, so a thread of
#: ours drops them: were they in handles, the collection of a cycle would call it anywhere.
_futures: dict[int, Any] = {}


class _DaskHandle:
    """Stands for what the cluster keeps.

    asked
        The only workers that may make it, by any of their names; None: all may.
    workers
        Their addresses when it was handed over.
    """

    __slots__ = ("_number", "_release", "asked", "key", "workers")

    def __init__(self, key: str) -> None:
        self.key = key
        self._number = 0
        self._release: LastCall | None = None
        self.asked: tuple[Any, ...] | None = None
        self.workers: list[Any] = []

    @property
    def future(self) -> Any:
        """What was handed over, or None."""
        return _futures.get(self._number)

    def hold(self, future: Any) -> None:
        """Keep the future of what was handed over."""
        number = next(_numbers)
        self._release = LastCall(_futures.pop, number, None)
        _futures[number] = future
        self._number = number


class DaskEngine(EngineConnection):
    """One client."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise TypeError(
                "the distributed.Client is asynchronous, so nobody can wait for it in this "
                "thread. Make one by distributed.Client(...) without asynchronous=True."
            )
        self._client = weakref.ref(client)
        self.topic = f"lazyflow-{client.id}"
        self._unique = uuid.uuid4().hex
        self._width = 0
        self._asked_at = 0.0
        self._hears_of_workers = False
        self._is_ending = False
        super().__init__()
        client.subscribe_topic(self.topic, self._event)
        client._lazyflow_end = LastCall(self.close)  # the thread ends with it

    @property
    def client(self) -> Any:
        """The client; raises SchedulerLost when it is closed."""
        client = self._client()
        if client is None or client.status != "running":  # a lost one tries to connect for 30 s
            raise _lost()
        return client

    def is_usable(self) -> bool:
        """Tell whether something can still be handed over."""
        client = self._client()
        return client is not None and client.status == "running"

    def _event(self, event: tuple[float, bytes]) -> None:
        self.receive(event[1])

    def lookout(self) -> Iterator[float]:
        """Say it, once to each who waits, when there is no worker; ours are started again."""
        client = self._client()
        if client is None or isinstance(client.cluster, Local):
            return
        yield _ALONE
        gone: int | None = None
        while True:
            before, gone = gone, self._came_and_went()
            if gone is not None and gone == before:  # none has come between
                warnings.warn(
                    f"the cluster at {self.address} has had no worker for some time, so nothing "
                    "runs; the tasks wait until one comes. Start some by: dask worker "
                    f"{self.address} or, if you made the cluster, cluster.scale(2)",
                    LazyflowWarning, stacklevel=users_depth(),
                )
                return
            yield 10 * _ALONE if gone is None else _ALONE

    def _came_and_went(self) -> int | None:
        """Return how many workers there have been; None if one is there, or nobody answers."""
        try:
            if self.client.nthreads():
                return None
            events = self.client.get_events("all")
        except (OSError, SchedulerLost):  # the run hears of it
            return None
        return sum(
            isinstance(event, dict) and event.get("action") == "add-worker" for _, event in events
        )

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        address: str = self.client.scheduler.address
        return address

    def width(self) -> int:
        now = monotonic()
        if not self._width or now - self._asked_at > _FRESH:
            self._asked_at = now
            self._width = sum(self.client.nthreads().values()) or 1
        return self._width

    def new_handle(self, group: TaskGroup) -> _DaskHandle:
        name = task_name(group.last)
        name = name if name.isidentifier() else "lazyflow"  # the cluster reads up to the number
        return _DaskHandle(f"{name}-{next(_numbers)}-{self._unique}")

    # -- actors -----------------------------------------------------------------------------

    def new_link(self, actor: RemoteActor) -> DaskLink:
        return DaskLink(self, actor)

    def handle(self, key: str) -> _DaskHandle:
        """Return what stands for a key."""
        return _DaskHandle(key)

    def token(self, handle: _DaskHandle) -> str:
        return handle.key

    # -- handing over -----------------------------------------------------------------------

    def submit(self, calls: Sequence[Submission]) -> None:
        batch: list[tuple[Any, ...]] = []
        common: Any = None
        size = 0
        for call in calls:
            if batch and (scheduling_options(call[4]) != common or size > _MESSAGE):
                self._hand_over(batch)
                batch, size = [], 0
            batch.append(call)
            common = scheduling_options(call[4])
            size += len(call[2])
        if batch:
            self._hand_over(batch)

    def _hand_over(self, calls: list[tuple[Any, ...]]) -> None:
        """Hand over groups that have the same scheduling options."""
        if self._is_ending:
            raise SchedulerLost(
                "Python is ending, and with it the cluster that was started in this process: it "
                "takes no more tasks. Wait for the results in the main thread before it ends."
            )
        graph, states = {}, {}
        options: Options = calls[0][4]
        asked = options.workers
        workers = [] if asked is None else self._chosen(asked)
        for run, group, payload, deps, _ in calls:
            held = [dep.send() if type(dep) is Put else dep.handle for dep in deps]
            refs = [TaskRef(handle.key) for handle in held]
            handle = group.handle
            graph[handle.key] = TheirTask(handle.key, _group, payload, self.topic, *refs)
            states[handle.key] = _State(handle.key, self, run, group)
            self.register(run, group)
        client = self.client
        client.futures.update(states)
        futures = client.get(
            graph, list(graph), sync=False, priority=options.priority,
            resources=dict(options.resources) if options.resources else None,
            workers=workers or None,
        )
        for (_, group, *_), future in zip(calls, futures, strict=True):
            group.handle.hold(future)
            group.handle.asked, group.handle.workers = asked, workers

    def send(self, outcome: GroupOutcome) -> _DaskHandle:
        (future,) = self.client.scatter([outcome], hash=False)
        handle = _DaskHandle(future.key)
        handle.hold(future)
        return handle

    def is_lost(self, handle: Any) -> bool:
        return handle is None or handle.future is None or handle.future.status in (
            "cancelled", "lost", "error")

    def give_up(self, run: EngineRun, groups: Sequence[TaskGroup]) -> None:
        for group in groups:
            self._groups.pop(group.number, None)
        futures = [g.handle.future for g in groups if g.handle is not None and g.handle.future]
        if not futures or not self.is_usable():
            return
        client = self.client
        numbers = [group.number for group in groups]
        client.cancel(futures, asynchronous=False)
        client.run(_give_up, f"{self.topic}/{run.name}", numbers, wait=False, on_error="ignore")

    def before_executors_end(self) -> None:
        """Have a scheduler in this process take in what was sent: later it can't, and says so."""
        if self._shares_process():
            done = threading.Event()
            self.post(self._end_submitting)
            self.post(done.set)
            done.wait(_PATIENCE)
            self._catch_up(())

    def before_cluster_ends(self) -> None:
        """Give up all that is kept for lazyflow: a cluster in this process would say it is lost."""
        client = self._client()
        if client is not None and self._shares_process():
            self._catch_up([key for key in client.futures if str(key).endswith(self._unique)])
            # a worker that is told to end while it imports modules complains, too
            ask = partial(client._run, _running, "", on_error="ignore")
            with suppress(OSError, TimeoutError):
                client.sync(ask, callback_timeout=_PATIENCE)

    def _shares_process(self) -> bool:
        client = self._client()
        if client is None or client.status != "running":
            return False
        return isinstance(getattr(client.cluster, "scheduler", None), distributed.Scheduler)

    def _end_submitting(self) -> None:
        self._is_ending = True

    def _catch_up(self, keys: Sequence[str]) -> None:
        """Give keys up; return when the scheduler has taken that in, and all that came before."""
        client = self.client
        mark = f"lazyflow-mark-{next(_numbers)}-{self._unique}"  # nobody knows it: so says a reply

        async def ask() -> None:
            reply = client.futures[mark] = FutureState(mark)
            if keys:
                client._send_to_scheduler_safe(
                    {"op": "client-releases-keys", "keys": keys, "client": client.id})
            client._send_to_scheduler_safe({"op": "report-key", "key": mark, "client": client.id})
            await reply.wait(_PATIENCE)
            del client.futures[mark]

        with suppress(OSError, TimeoutError):
            client.sync(ask)

    # -- asking -----------------------------------------------------------------------------

    def bring(self, remotes: Sequence[EngineResult]) -> None:
        remotes = [r for r in remotes if r.short is None]
        if not remotes:
            return
        futures = {r.handle.key: r.handle.future for r in remotes}
        try:
            found = dict(zip(futures, self.client.gather(list(futures.values())), strict=True))
        except (CancelledError, asyncio.CancelledError) as error:
            if not self.is_usable():
                raise self.translated(error) from None
            # the client may not have heard of the loss yet: then only the error tells the key
            lost = [r for r in remotes if r.handle.key == getattr(error, "key", None)]
            lost += [r for r in remotes if self.is_lost(r.handle)]
            raise gone((lost or list(remotes))[0].task, error) from None
        for remote in remotes:
            remote.outcome = found[remote.handle.key]

    def running(self, run: EngineRun) -> list[tuple[str, int]]:
        name = f"{self.topic}/{run.name}"

        async def ask(client: Any) -> Any:
            return await asyncio.wait_for(client._run(_running, name, on_error="ignore"), _ANSWER)

        try:
            client = self.client
            answers = client.sync(ask, client)
        except (OSError, TimeoutError, SchedulerLost):
            return []
        return [(where, i) for where, tasks in answers.items() for i in tasks if i >= 0]

    def refusal_of(self, options: Options) -> str:
        return refusal(options.workers, options.resources, self._workers())

    # -- who may run a group ----------------------------------------------------------------

    def _workers(self) -> dict[str, Any]:
        # Not scheduler_info(): the client's timer writes over what it has asked for.
        client = self.client
        try:
            workers: dict[str, Any] = client.sync(client.scheduler.identity)["workers"]
        except OSError as error:
            raise _lost(error) from None
        return workers

    def _chosen(self, workers: tuple[Any, ...]) -> list[Any]:
        """Return the addresses of workers; their names, as long as none is there."""
        if not self._hears_of_workers:
            self._hears_of_workers = True
            client = self.client
            client.subscribe_topic("all", self._all_hear)
            # A client that closes stops its timers first. The scheduler tells "all" of its end, and
            # logs a critical error where one that has gone would be told, too.
            client._periodic_callbacks["lazyflow"] = SimpleNamespace(start=bool, stop=self._hush)
        return chosen(workers, self._workers()) or list(workers)

    def _hush(self) -> None:
        client = self._client()
        if client is not None:
            client.unsubscribe_topic("all")

    def _all_hear(self, event: tuple[float, Any]) -> None:
        what = event[1]
        if isinstance(what, dict) and what.get("action") == "add-worker":
            self.post(self._worker_came)

    def _worker_came(self) -> None:
        """Take back groups that wait for an address: under its name, a worker has a new one."""
        known = self._workers()
        handles = [group.handle for _, group in self._groups.values() if group.handle is not None]
        waiting = [
            handle.future for handle in handles
            if handle.asked is not None and known.keys().isdisjoint(handle.workers)
            and chosen(handle.asked, known)
        ]
        if waiting:  # they are handed over again when their futures end
            self.client.cancel(waiting, asynchronous=False)

    def translated(self, error: BaseException) -> BaseException:
        reason = getattr(error, "reason", None) or ""
        if not self.is_usable() or reason.startswith("scheduler"):
            return _lost(error)
        if isinstance(error, CancelledError | asyncio.CancelledError):
            died = WorkerDied(
                f"a value that was kept in the cluster is gone ({reason or 'cancelled'}): its "
                "worker ended, or somebody cancelled it. Compute it again."
            )
            died.__cause__ = error
            return died
        return error

    def ended_badly(self, run: EngineRun, group: TaskGroup, error: BaseException | None) -> None:
        """Take that the cluster gave a group up. In the engine's thread."""
        self._groups.pop(group.number, None)
        if isinstance(error, distributed.KilledWorker):
            deaths = f"{error.allowed_failures + 1} workers"
            run.died(group, error, deaths)
        elif _is_lost_data(error) and self.is_usable():
            run.lost(group, error)  # type: ignore[arg-type]
        elif group.number in run.under_way:
            run.cancel(self.translated(error if error is not None else _lost()))


def _is_lost_data(error: BaseException | None) -> bool:
    """Tell whether a group was cancelled because what it needs is gone: not by us, who forget it.

    The cluster has several words for it ("lost dependencies", "already forgotten").
    """
    reason = getattr(error, "reason", None) or ""
    is_cancelled = isinstance(error, CancelledError | asyncio.CancelledError)
    return is_cancelled and not reason.startswith("scheduler")


class _State(FutureState):
    """The state of a group's key, which tells the engine when it ends otherwise than well.

    Not a callback of the future: for those distributed has an executor, which refuses them, with
    tracebacks, at the end of Python.
    """

    __slots__ = ("engine", "group", "run")

    def __init__(self, key: str, engine: DaskEngine, run: EngineRun, group: TaskGroup) -> None:
        super().__init__(key)
        self.engine = engine
        self.run: EngineRun | None = run
        self.group: TaskGroup | None = group

    def finish(self, type: Any = None) -> None:
        super().finish(type)
        self.run = self.group = None

    def set_error(self, exception: Any, traceback: Any) -> None:
        super().set_error(exception, traceback)
        self._tell()

    def cancel(self, *given: Any, **named: Any) -> None:
        super().cancel(*given, **named)
        self._tell()

    def _tell(self) -> None:
        run, group = self.run, self.group
        self.run = self.group = None
        if run is not None:
            self.engine.post(self.engine.ended_badly, run, group, self.exception)


def _lost(cause: BaseException | None = None) -> SchedulerLost:
    error = SchedulerLost(
        "the connection to the scheduler of the cluster is gone, and with it what was running and "
        "kept there. Look at whether it still runs, connect again by distributed.Client(address), "
        "and compute again."
    )
    error.__cause__ = cause
    return error


# -- schedulers -----------------------------------------------------------------------------

_engines: WeakTable[Any, DaskEngine] = WeakTable()
_lock = threading.Lock()


def _engine_of(client: Any) -> DaskEngine:
    with _lock:
        engine = _engines.get(client)
        if engine is None:
            engine = _engines[client] = DaskEngine(client)
        return engine


class DistributedScheduler(EngineScheduler):
    """The client that is given, active, or of a cluster on this machine that is started.

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
        self._own: Any = None  # a client that was made here
        self._cluster: Any = None
        self._starting = threading.Lock()
        _made[self] = None

    def engine(self) -> DaskEngine:
        """Return the connection."""
        return _engine_of(self._client())

    def _client(self) -> Any:
        if isinstance(self._where, weakref.ref):
            client = self._where()
            if client is None:
                raise _lost()
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
                    f"nobody answers at {self._where}, where the scheduler of a cluster should be: "
                    f"{error}. Start one by: dask scheduler"
                ) from error
        try:
            self._cluster = started(config.get("num_workers") or config.default_workers())
        except RuntimeError as error:
            raise RuntimeError(
                "the workers of a cluster on this machine did not start. In a script, what starts "
                "them must be below `if __name__ == \"__main__\":`, since each of them imports "
                "the script; else see the error above"
            ) from error
        return distributed.Client(self._cluster, set_as_default=False)

    def shutdown(self) -> None:
        """Close what was opened here: never a client or a cluster of the user's."""
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
        """In the child of a fork: connections and threads are the parent's."""
        self._own = self._cluster = None
        self._starting = threading.Lock()
        self.leave()


_of_clients: WeakTable[Any, DistributedScheduler] = WeakTable()
_made: WeakTable[DistributedScheduler, None] = WeakTable()


def scheduler_of(client: Any) -> DistributedScheduler:
    """Return the scheduler that stands for a client."""
    found = _of_clients.get(client)
    if found is None:
        found = _of_clients[client] = DistributedScheduler(client)
    return found


def _living() -> list[DaskEngine]:
    return [engine for engine in map(_engines.get, _engines.living()) if engine is not None]


def _before_executors_end() -> None:
    for scheduler in tuple(_made.living()):
        scheduler.shutdown()
    for engine in _living():
        engine.before_executors_end()


def _before_clusters_end() -> None:
    for engine in _living():
        engine.before_cluster_ends()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _engines.clear()
    for scheduler in tuple(_made.living()):
        scheduler._in_fork()


# Executors end before atexit, and a scheduler in this process needs one. Then Python waits for the
# user's threads, which still get what was handed over.
getattr(threading, "_register_atexit", atexit.register)(_before_executors_end)
atexit.register(_before_clusters_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
