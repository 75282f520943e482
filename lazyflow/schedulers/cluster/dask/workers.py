"""The workers of a cluster: their number, and which of them may run a group.

A cluster is given as its scheduler describes it: by address, ``name``, ``host`` and ``resources``
of each worker.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from multiprocessing import resource_tracker
from time import time
from types import SimpleNamespace
from typing import Any

import distributed
from distributed import SchedulerPlugin
from distributed.core import Status
from distributed.deploy.spec import SpecCluster
from distributed.gc import disable_gc_diagnosis
from distributed.protocol.pickle import dumps

from lazyflow.clock import Clock
from lazyflow.errors import LazyflowWarning, SchedulerLost
from lazyflow.graph.options import Options
from lazyflow.graph.task import users_depth
from lazyflow.logs import INFO, log
from lazyflow.schedulers.cluster.dask.client import ClientReference, lost, refuse_on_loop
from lazyflow.schedulers.cluster.dask.worker_files import KEEP_FILES, forget_client, forget_worker

# -- the cluster on this machine that `scheduler="distributed"` starts where there is none

_ABSENCE = 1.0  # seconds after which workers are checked; a guess
_ENDED = (Status.closed, Status.failed)


class OwnCluster(distributed.LocalCluster):
    """A LocalCluster that starts a worker again however often it ends.

    The one of distributed checks 15 s after an end whether a worker of that name is there, and if
    not closes its nanny for good, also when the worker had come back and has just ended again, or
    is slow to start on a busy machine. After that had happened to all workers, tasks would wait
    for ever.
    """

    async def _start(self) -> None:
        # A terminal and a notebook's stop button send Ctrl-C to all processes of a program; only
        # this one is to get it. Processes that this thread, the cluster's own, starts inherit that.
        if threading.current_thread() is not threading.main_thread():
            resource_tracker.ensure_running()  # it unblocks the signal when it is started
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        await super()._start()
        # It calls a Python function in any thread after collections, where a Ctrl-C is lost.
        disable_gc_diagnosis()

    def _update_worker_status(self, op: Any, msg: Any) -> None:
        super(SpecCluster, self)._update_worker_status(op, msg)
        if op == "remove":
            self._look_later()

    def _look_later(self) -> None:
        if self.status == Status.running:
            asyncio.get_running_loop().call_later(_ABSENCE, self._look)

    def _look(self) -> None:
        """Start workers again whose nannies, which would do that, have ended, too."""
        if self.status != Status.running:
            return
        ended = [n for n, nanny in self.workers.items() if nanny.status in _ENDED]
        for name in ended:
            del self.workers[name]
        if ended:
            self._correct_state()
        if ended or not self.scheduler_info["workers"]:
            self._look_later()  # the new ones may fail as well
        if ended:  # last: a filter may make it an error
            warnings.warn(
                f"{len(ended)} of {len(self.worker_spec)} workers of lazyflow's cluster at "
                f"{self.scheduler_address} ended for good ({', '.join(map(str, ended))}) and are "
                "started again; what they kept is computed again where it is needed. If it goes "
                "on, look at the workers' logs above, and type lazyflow.shutdown() to end it.",
                LazyflowWarning, stacklevel=1,
            )


def started(workers: int) -> OwnCluster:
    """Return a cluster of workers with one thread each, which takes work from this program alone.

    A port of a cluster runs the code of whoever connects, and all users of a machine can connect to
    its loopback: connections are encrypted with a key that is made here, in memory.
    """
    security = _key_of_its_own()
    cluster = OwnCluster(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=security,
    )
    opened = (
        f"lazyflow has started a cluster of {workers} worker{'s'[: workers != 1]} at "
        f"{cluster.scheduler_address}"
    )
    log(
        INFO, "%s; its pages, which show names of tasks to all users of this machine, are at %s",
        opened, cluster.dashboard_link,
    )
    if security is None:
        warnings.warn(
            f"{opened}, without a key: every user of this machine can run code there as you. Type: "
            "pip install cryptography; it then takes work from this program alone. Or pass a "
            "cluster of yours, scheduler=distributed.Client(...).",
            LazyflowWarning, stacklevel=1,
        )
    return cluster


def _key_of_its_own() -> distributed.Security | None:
    """Return a new key and its certificate; None where they can't be made."""
    try:
        return distributed.Security.temporary()
    except ImportError:
        return None


# -- in the engine's scheduler ------------------------------------------------------------
#
# lazyflow's part in the scheduler of distributed: wishes for places, and how often groups run.
#
# A wish for a place is one for which nothing waits. Deaths of workers count for a group as they do
# for any task of distributed, from another start: `RUNS` annotates after how many it fails. That
# counts also where the group was only queued, so a group that must not run too often asks before it
# begins: then the count is exact.


RUNS = "lazyflow_runs"  # the annotation: deaths after which a group fails

_MAX_GROUPS = 100_000  # groups, also forgotten ones, whose beginnings are remembered; a guess


class SchedulerPart(SchedulerPlugin):
    """Has the scheduler forget impossible places, and count how often groups begin.

    State, which the scheduler's event loop alone changes: ``_begun :: {key: runs}``, the latest
    groups that began, and ``_with_files :: {client}``, whose files workers may have.
    """

    name = "lazyflow"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Be told which scheduler it is."""
        self._scheduler = scheduler
        self._begun: OrderedDict[Any, int] = OrderedDict()
        scheduler.handlers["lazyflow_begin"] = self.begin
        scheduler.handlers["lazyflow_begun"] = self.begun
        scheduler.handlers["lazyflow_make_again"] = self.make_again
        scheduler.handlers["lazyflow_is_there"] = self.is_there
        self._with_files: set[str] = set()
        scheduler.stream_handlers[KEEP_FILES] = self.keep_files

    def update_graph(self, scheduler: Any, *, annotations: Any, **given: Any) -> None:
        """Be told of new tasks, before they are sent to workers."""
        for key, runs in annotations.get(RUNS, {}).items():
            scheduler.tasks[key].suspicious = scheduler.allowed_failures + 1 - runs

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Be told that the state of a task has changed.

        One that may run elsewhere would wait until its very worker comes back: after the death of
        all workers, for ever.
        """
        if finish == "no-worker":
            state = self._scheduler.tasks[key]
            if state.loose_restrictions:
                state.worker_restrictions = state.host_restrictions = None

    def keep_files(self, client: str) -> None:
        """Note that workers may have files of a client."""
        self._with_files.add(client)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Have workers drop the files of a client that is gone."""
        if client in self._with_files:
            self._with_files.remove(client)
            scheduler.loop.add_callback(self._tell_workers, dumps(partial(forget_client, client)))

    def remove_worker(self, scheduler: Any, worker: str, **given: Any) -> None:
        """Have the others' tasks no longer wait for a part of a file of a worker that is gone."""
        if self._with_files:
            scheduler.loop.add_callback(self._tell_workers, dumps(partial(forget_worker, worker)))

    async def _tell_workers(self, function: bytes) -> None:
        async def tell(worker: str) -> None:
            with suppress(OSError):  # it ends, too: a broadcast would log that as an error
                await self._scheduler.rpc(worker).run(function=function)

        await asyncio.gather(*map(tell, tuple(self._scheduler.workers)))

    def make_again(self, keys: Sequence[Any]) -> None:
        """Have lost results made again if they are needed, as after the death of a worker."""
        tasks = self._scheduler.tasks
        lost = {key: "released" for key in keys if key in tasks and tasks[key].state == "memory"}
        self._scheduler.transitions(lost, stimulus_id=f"lazyflow-make-again-{time()}")

    def is_there(self, worker: str) -> bool:
        """Return whether a worker is one of the cluster's."""
        return worker in self._scheduler.workers

    def begin(self, key: Any, worker: str, runs: int) -> bool:
        """Count one more run of a task, unless there were so many; return whether it may begin.

        Tasks that another worker has got since, or that are released or forgotten, must not begin:
        their ends would not count.
        """
        state = self._scheduler.tasks.get(key)
        count = self._begun.get(key, 0)
        place = state.processing_on if state is not None else None
        if place is None or place.address != worker or count >= runs:
            return False
        self._begun[key] = count + 1
        if count + 1 == runs:
            state.suspicious = self._scheduler.allowed_failures  # the next death is the end
        while len(self._begun) > _MAX_GROUPS:
            self._begun.popitem(last=False)
        return True

    def begun(self, key: Any) -> int:
        """Return how often a task that counts its runs has begun."""
        return self._begun.get(key, 0)


def set_up(client: Any) -> bool:
    """Have the part in the scheduler of a client; return False if that takes no code."""
    try:
        client.register_plugin(SchedulerPart())
    except ValueError:
        return False
    return True


# -- the workers of a cluster -------------------------------------------------------------

_ALONE = 3.0  # seconds after which a waiting caller checks for workers; a guess
_MOST_SHOWN = 8  # workers, in a message
_FRESH = 2.0  # seconds for which the number of workers is not asked again; a guess


class ClusterWorkers:
    """The workers of the cluster that a `DaskEngine` is connected to.

    What the scheduler knows of them (``_width``, ``_places``, ``_memory``) is asked again after two
    seconds. ``_takes_code`` is whether lazyflow's part runs in the scheduler; None: not tried yet.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._now: Clock = engine.now
        self._reference: ClientReference = engine.reference
        self._width = 0
        self._places: list[str] = []  # the address of each worker, for each of its threads
        self._turns = count()
        self._takes_code: bool | None = None  # not known yet
        self._memory = inf
        self._asked_at = 0.0
        self._hears_of_workers = False
        self._theirs: Callable[[Any], Any] = bool  # the user's own handler of the topic

    def width(self) -> int:
        """Return how many tasks all workers can run at once."""
        self._look()
        return self._width

    def is_within(self, limit: int) -> bool:
        """Return whether there are workers, and run no more tasks than a limit at once."""
        self._look()
        return 0 < len(self._places) <= limit

    def next_place(self) -> str:
        """Return where a group should run, each thread in turn; empty if that can't be asked for.

        Called in the engine's thread.
        """
        self._look()
        places = self._places if self.scheduler_takes_code() else []
        return places[next(self._turns) % len(places)] if places else ""

    def scheduler_takes_code(self) -> bool:
        """Return whether the scheduler has lazyflow's part. Called in the engine's thread."""
        if self._takes_code is None:
            self._takes_code = set_up(self._reference.get())
        return self._takes_code

    def memory(self) -> float:
        """Return the least memory limit of a worker, in bytes."""
        self._look()
        return self._memory

    def all_memory(self) -> float:
        """Return the memory limits of all workers, in bytes."""
        self._look()
        return self._memory * len(set(self._places))

    def _look(self) -> None:
        now = self._now()
        if not self._width or now - self._asked_at > _FRESH:
            self._asked_at = now
            known = self._workers()
            self._places = [a for a, worker in known.items() for _ in range(worker["nthreads"])]
            self._width = len(self._places) or 1
            self._memory = min([w["memory_limit"] or inf for w in known.values()], default=inf)

    def lookout(self) -> Iterator[float]:
        """Warn each waiting caller once if there is no worker; lazyflow's own come back."""
        client = self._reference.or_none()
        if client is None or isinstance(client.cluster, OwnCluster):
            return
        refuse_on_loop(client)
        yield _ALONE
        gone: int | None = None
        while True:
            before, gone = gone, self._came_and_went()
            if gone is not None and gone == before:  # no worker has come in between
                address = self._reference.get().scheduler.address
                warnings.warn(
                    f"the cluster at {address} has had no worker for some time, so nothing "
                    "runs; the tasks wait until one comes. Start some by: dask worker "
                    f"{address} or, if you made the cluster, cluster.scale(2)",
                    LazyflowWarning, stacklevel=users_depth(),
                )
                return
            yield 10 * _ALONE if gone is None else _ALONE

    def _came_and_went(self) -> int | None:
        """Return how many workers there have been; None if there is one, or no answer."""
        try:
            client = self._reference.get()
            if client.nthreads():
                return None
            events = client.get_events("all")
        except (OSError, SchedulerLost):  # the run will fail
            return None
        return sum(
            isinstance(event, dict) and event.get("action") == "add-worker" for _, event in events
        )

    def refusal_of(self, options: Options) -> str:
        """Return why no worker may run tasks with these options; empty if one may."""
        return refusal(options.workers, options.resources, self._workers())

    def _workers(self) -> dict[str, Any]:
        # Not scheduler_info(): a timer of the client overwrites its fresh answer.
        client = self._reference.get()
        try:
            workers: dict[str, Any] = client.sync(client.scheduler.identity)["workers"]
        except OSError as error:
            raise lost(error) from None
        return workers

    def chosen(self, workers: tuple[Any, ...]) -> list[Any]:
        """Return the addresses of workers, or their names while none of them is there."""
        self.hear()
        return chosen(workers, self._workers()) or list(workers)

    def hear(self) -> None:
        """Have steps follow from now on when a worker joins."""
        if not self._hears_of_workers:
            self._hears_of_workers = True
            client = self._reference.get()
            self._theirs = client._event_handlers.get("all", self._theirs)
            client.subscribe_topic("all", self._all_hear)
            # A client that closes stops its timers first. The scheduler sends "all" its end,
            # and logs a critical error when that goes to a client that has gone.
            client._periodic_callbacks["lazyflow"] = SimpleNamespace(start=bool, stop=self._hush)

    def _hush(self) -> None:
        client = self._reference.or_none()
        if client is not None:
            client.unsubscribe_topic("all")

    def _all_hear(self, event: tuple[float, Any]) -> Any:
        what = event[1]
        if isinstance(what, dict) and what.get("action") == "add-worker":
            self._engine.post(self._worker_came)
        return self._theirs(event)

    def _worker_came(self) -> None:
        """Hand over more groups, also those for a worker that has come back at another address."""
        self._width = 0
        self._engine.widened()
        known = self._workers()
        waiting = [
            handle.future for handle in self._engine.handles()
            if handle.asked is not None and known.keys().isdisjoint(handle.workers)
            and chosen(handle.asked, known)
        ]
        if waiting:  # they are submitted again when their futures end
            self._reference.get().cancel(waiting, asynchronous=False)


def chosen(workers: Sequence[Any], cluster: Mapping[str, Any]) -> list[str]:
    """Return the addresses of workers that are given by address, name or host.

    >>> cluster = {"tcp://10.0.0.1:5": {"name": "big", "host": "10.0.0.1"}}
    >>> chosen(["big"], cluster), chosen(["10.0.0.1", "small"], cluster), chosen([0], cluster)
    (['tcp://10.0.0.1:5'], ['tcp://10.0.0.1:5'], [])
    """
    return [
        address for address, worker in cluster.items()
        if any(each in _names(address, worker) for each in workers)
    ]


def _names(address: str, worker: Any) -> tuple[Any, ...]:
    return address, address.partition("://")[2], worker.get("name"), worker.get("host")


def refusal(
    workers: Sequence[Any] | None, resources: Mapping[str, float] | None, cluster: Mapping[str, Any]
) -> str:
    """Return why no worker of a cluster may run such a task; empty if one may.

    >>> cluster = {"tcp://10.0.0.1:5": {"name": "big", "resources": {"GPU": 1}}}
    >>> refusal(["big"], {"GPU": 1}, cluster)
    ''
    >>> refusal(["small"], None, cluster)[:42]
    "the cluster has no worker 'small'; it has "
    """
    for name in workers or ():
        if not chosen([name], cluster):
            return (
                f"the cluster has no worker {name!r}; it has {_shown(cluster)}. Name workers by "
                "their names, addresses or hosts: dask worker --name big, for example."
            )
    if not resources:
        return ""
    may = cluster if workers is None else {a: cluster[a] for a in chosen(workers, cluster)}
    offered = [worker.get("resources") or {} for worker in may.values()]
    if any(all(have.get(k, 0) >= v for k, v in resources.items()) for have in offered):
        return ""
    whose = "worker of the cluster" if workers is None else f"worker of {list(workers)!r}"
    return (
        f"no {whose} offers {dict(resources)!r}; they have {offered!r}. Start "
        "one that does: dask worker --resources \"GPU=1\", for example."
    )


def _shown(cluster: Mapping[str, Any]) -> str:
    names = [
        address if worker.get("name") in (None, address) else f"{worker['name']!r} ({address})"
        for address, worker in sorted(cluster.items(), key=lambda item: str(item[1].get("name")))
    ]
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "") or "none"
