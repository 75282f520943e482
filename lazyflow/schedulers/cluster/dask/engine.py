"""The engine of dask.distributed: submits groups by a client, and handles their ends::

    EngineRun.submit --> submit --> _hand_over: one graph of `run_group` tasks --> client.get
    a worker's event (a report) --> _event --> Engine.receive --> EngineRun.reported
    a key fails or is lost --> WatchedState --> _failed --> EngineRun.died, lost, refused or cancel

Groups with equal scheduling options go together, up to about 4 MiB of payload in a message. A group
that is cut into parts is a task of its own with a `part_of_group` task for each part.

State, beside that of `Engine`::

    reference :: ClientReference      weak: the thread ends with the client
    _workers :: ClusterWorkers        their number, memory and places, asked every few seconds
    _direct :: DirectWay              connections to workers for large values
    _is_ending :: bool                Python ends: nothing is submitted any more
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import dask
import distributed
from dask._task_spec import Task as TheirTask
from dask._task_spec import TaskRef
from distributed.comm import get_address_host
from distributed.utils import get_ip

from lazyflow.errors import Cancelled, SchedulerLost, WorkerDied
from lazyflow.finalizers import LastCall
from lazyflow.graph.options import Options, scheduling_options
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.dask.actors import LARGE, DaskLink, DirectWay
from lazyflow.schedulers.cluster.dask.client import ClientReference, DaskHandle, WatchedState, lost
from lazyflow.schedulers.cluster.dask.in_worker import (
    RunsSpent,
    drop_kept,
    give_up_groups,
    part_of_group,
    run_group,
    running_tasks,
)
from lazyflow.schedulers.cluster.dask.worker_files import WorkerFiles
from lazyflow.schedulers.cluster.dask.workers import RUNS, ClusterWorkers
from lazyflow.schedulers.cluster.engine import Engine, note_host
from lazyflow.schedulers.cluster.group_queue import Submission, TaskGroup
from lazyflow.schedulers.cluster.outcome import GroupOutcome, adopted
from lazyflow.schedulers.cluster.results import EngineResult, because, gone
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.store.exchange_file import need_a_file

_MESSAGE = 4 << 20  # bytes of payloads in one message, about; a guess
_PATIENCE = 2.0  # seconds that the engine's thread gets at the end of Python; a guess
_ANSWER = 1.0  # seconds that workers get to report the tasks that they run; a guess


def _host_for_workers(scheduler: str) -> str | None:
    """Return the address that this machine has for those that reach a scheduler."""
    if scheduler.startswith("inproc:"):
        return None
    return str(get_ip(get_address_host(scheduler)))


class DaskEngine(Engine):
    """The engine of one client."""

    def __init__(self, client: Any) -> None:
        self.reference = reference = ClientReference(client)
        self.topic = reference.topic
        self._is_ending = False
        self._direct = DirectWay()
        note_host(_host_for_workers(str(client.scheduler.address)))
        super().__init__()
        self._workers = ClusterWorkers(self)
        client.subscribe_topic(self.topic, self._event)
        client._lazyflow_end = LastCall(self.close)  # the thread ends with it

    @property
    def client(self) -> Any:
        """The client; raises SchedulerLost if it is closed."""
        return self.reference.get()

    def is_usable(self) -> bool:
        """Return whether the client is connected."""
        return self.reference.is_usable()

    def _event(self, event: tuple[float, bytes]) -> None:
        self.receive(event[1])

    def lookout(self) -> Iterator[float]:
        return self._workers.lookout()

    def next_place(self) -> str:
        return self._workers.next_place()

    def hear_of_workers(self) -> None:
        self._workers.hear()

    def width(self) -> int:
        return self._workers.width()

    def is_within(self, limit: int) -> bool:
        return self._workers.is_within(limit)

    def memory(self) -> float:
        return self._workers.memory()

    def exchange(self, size: int, at_once: int) -> WorkerFiles | None:
        """Return files for parts that are exchanged, if the workers' memory can't hold them."""
        client = self.reference.or_none()
        if client is None or client.asynchronous:  # to ask would stop its event loop
            return None
        if not need_a_file(at_once, self._workers.all_memory()):
            return None
        if not self._workers.scheduler_takes_code():  # which has to hear of files that are gone
            return None
        return WorkerFiles.of_client(client, size, int(self.memory()))

    def refusal_of(self, options: Options) -> str:
        return self._workers.refusal_of(options)

    def refusal_of_once(self) -> str:
        if self._workers.scheduler_takes_code():
            return ""
        return (
            "the scheduler of this cluster takes no code (distributed.scheduler.pickle is False), "
            "so that nothing keeps distributed from running a task again whose worker died. Leave "
            "crash_retries=0 out, or allow code there."
        )

    def annotated_retries(self) -> int:
        retries = dask.get_annotations().get("retries") or 0
        if not isinstance(retries, int):
            raise TypeError(
                f"retries in dask.annotate must be a whole number; got {retries!r}. For tasks that "
                "differ: lazyflow.delayed(f, retries=n)"
            )
        return retries

    def new_handle(self, run: EngineRun, group: TaskGroup, is_part: bool = False) -> DaskHandle:
        part = "part_of_" if is_part else ""  # a name of their own: the scheduler goes by names
        return DaskHandle(self.reference.new_key(f"{part}{group.name}-{run.name}"))

    def drop(self, handle: DaskHandle) -> None:
        handle.drop()

    def handles(self) -> list[DaskHandle]:
        """Return the handles of submitted groups."""
        groups = [group for _, group in self._groups.values()]
        return [kept.handle for group in groups for kept in group.kept() if kept.handle is not None]

    # -- actors -----------------------------------------------------------------------------

    def new_link(self, actor: RemoteActor) -> DaskLink:
        return DaskLink(self, actor, self.reference, self._direct)

    def token(self, handle: DaskHandle) -> Any:
        return handle.key

    # -- handing over -----------------------------------------------------------------------

    def submit(self, submissions: Sequence[Submission]) -> None:
        batch: list[Submission] = []
        common: Any = None
        size = 0
        for submission in submissions:
            group = submission.group
            options = scheduling_options(submission.options), group.is_counted, group.runs
            if batch and (options != common or size > _MESSAGE):
                self._hand_over(batch)
                batch, size = [], 0
            batch.append(submission)
            common = options
            size += len(submission.payload)
        if batch:
            self._hand_over(batch)

    def _hand_over(self, submissions: list[Submission]) -> None:
        """Submit groups that have the same scheduling options."""
        if self._is_ending:
            raise SchedulerLost(
                "Python is ending, and with it the cluster that was started in this process: it "
                "takes no more tasks. Wait for the results in the main thread before it ends."
            )
        graph, states = _Graph(), {}
        places: defaultdict[Any, list[str]] = defaultdict(list)
        options = submissions[0].options
        asked = options.workers
        workers = [] if asked is None else self._workers.chosen(asked)
        counted, annotations = self._limits(submissions[0].group)
        for run, group, payload, deps, _ in submissions:
            refs = [TaskRef(dep.current_handle().key) for dep in deps]
            handle = group.handle
            # Groups without inputs begin after those that can go on: see the scheduler's queue.
            graph[handle.key] = TheirTask(
                handle.key, run_group, handle.key, payload, self.topic, counted, *refs,
                _data_producer=not refs)
            place = group.place
            if not refs and run.queue.is_a_share(group):
                place = self.next_place()
            if place and asked is None and not options.resources:
                places[handle.key] = [place]
            for part in group.parts:
                graph[part.handle.key] = TheirTask(
                    part.handle.key, part_of_group, part.handle.key, TaskRef(handle.key),
                    part.outputs)
            for kept in group.kept():  # of a group that is cut into parts, only these stay
                failed = partial(self.post, self._failed, run, group, handle.key)
                states[kept.handle.key] = WatchedState(kept.handle.key, failed)
            self._groups[group.number] = run, group
        client = self.client
        client.futures.update(states)
        get = partial(
            client.get, graph, list(states), sync=False, priority=options.priority,
            resources=dict(options.resources) if options.resources else None,
            workers=workers or None,
        )
        # Where dask.annotate and spans of the caller's hold.
        with_limits = partial(_annotated, get, annotations)
        futures = run.context.copy().run(_placed, with_limits, places)
        kept_ones = [kept for submission in submissions for kept in submission.group.kept()]
        for kept, future in zip(kept_ones, futures, strict=True):
            kept.handle.hold(future)
            kept.handle.asked, kept.handle.workers = asked, workers

    def _limits(self, group: TaskGroup) -> tuple[int, dict[str, Any]]:
        """Return the runs of a group if they are counted, else 0, and the annotations of it."""
        if self._workers.scheduler_takes_code():
            return (group.runs, {}) if group.is_counted else (0, {RUNS: group.runs})
        return 0, {}

    def begun(self, group: TaskGroup) -> int:
        client = self.client
        return int(client.sync(client.scheduler.lazyflow_begun, key=group.handle.key))

    def send(self, outcome: GroupOutcome) -> DaskHandle:
        client = self.client
        way: dict[str, Any] = {}
        if outcome.__sizeof__() >= LARGE and (near := client.sync(self._direct.receiver, client)):
            way = {"direct": True, "workers": near}
        try:
            (future,) = client.scatter([outcome], hash=False, **way)
        except OSError:  # the worker has ended just now
            (future,) = self.client.scatter([outcome], hash=False)
        handle = DaskHandle(future.key)
        handle.hold(future)
        return handle

    def adopt(self, theirs: Any, then: Callable[[BaseException | None], None]) -> DaskHandle:
        client = self.client
        handle = DaskHandle(self.reference.new_key("adopted"))
        made = client.submit(adopted, theirs, key=handle.key)
        handle.hold(made)

        def ended(future: Any) -> None:
            cancelled = future.status in ("cancelled", "lost")
            then(Cancelled(f"{theirs!r} was {future.status}") if cancelled
                 else future._state.exception)

        made.add_done_callback(ended)
        return handle

    def is_lost(self, handle: Any) -> bool:
        return handle is None or handle.future is None or handle.future.status in (
            "cancelled", "lost", "error")

    def give_up(self, run: EngineRun, groups: Sequence[TaskGroup]) -> None:
        for group in groups:
            self._groups.pop(group.number, None)
        handles = [kept.handle for group in groups for kept in group.kept()]
        futures = [handle.future for handle in handles if handle is not None and handle.future]
        if not futures or not self.is_usable():
            return
        client = self.client
        numbers = [group.number for group in groups]
        client.cancel(futures, asynchronous=False)
        name = f"{self.topic}/{run.name}"
        client.run(give_up_groups, name, numbers, wait=False, on_error="ignore")

    def drop_named(self, name: str) -> None:
        """Have workers drop the object that they keep by a name."""
        self.post(self._drop_named, name)

    def _drop_named(self, name: str) -> None:
        if self.is_usable():
            self.client.run(drop_kept, name, wait=False, on_error="ignore")

    # -- the end of Python ------------------------------------------------------------------

    def before_executors_end(self) -> None:
        """Wait until a scheduler in this process has handled all messages: later it can't."""
        if self.reference.shares_process():
            done = threading.Event()
            self.post(self._end_submitting)
            self.post(done.set)
            done.wait(_PATIENCE)
            self.reference.catch_up(())

    def _end_submitting(self) -> None:
        self._is_ending = True

    # -- asking -----------------------------------------------------------------------------

    def bring(self, results: Sequence[EngineResult]) -> None:
        wanted: Counter[DaskHandle] = Counter()
        for result in results:
            wanted[result.handle] += LARGE if result.size is None else result.size
        client = self.client
        try:
            outcomes = client.sync(self._direct.fetched, client, wanted)
            rest = {h.key: h.future for h in wanted if h.key not in outcomes}
            if rest:
                others = client.gather(list(rest.values()), direct=False)
                outcomes.update(zip(rest, others, strict=True))
        except (CancelledError, asyncio.CancelledError, RunsSpent) as error:
            if not self.is_usable():
                raise self.translated(error) from None
            # if the client does not know of the loss yet, only the error has the key
            lost = [r for r in results if r.handle.key == getattr(error, "key", None)]
            lost += [r for r in results if self.is_lost(r.handle)]
            raise gone((lost or results)[0].task, error) from None
        for result in results:
            result.outcome = outcomes[result.handle.key]

    def running(self, run: EngineRun) -> list[tuple[str, int]]:
        name = f"{self.topic}/{run.name}"

        async def ask(client: Any) -> Any:
            asked = client._run(running_tasks, name, on_error="ignore")
            return await asyncio.wait_for(asked, _ANSWER)

        try:
            client = self.client
            answers = client.sync(ask, client)
        except (OSError, TimeoutError, SchedulerLost):
            return []
        return [(where, i) for where, tasks in answers.items() for i in tasks if i >= 0]

    def translated(self, error: BaseException) -> BaseException:
        reason = getattr(error, "reason", None) or ""
        if not self.is_usable() or reason.startswith("scheduler"):
            return lost(error)
        if isinstance(error, CancelledError | asyncio.CancelledError):
            return because(error, WorkerDied(
                f"a value that was kept in the cluster is gone ({reason or 'cancelled'}): its "
                "worker ended, or it was cancelled. Compute it again."
            ))
        return error

    def _failed(
        self, run: EngineRun, group: TaskGroup, key: Any, error: BaseException | None
    ) -> None:
        """Handle a group that has failed in the cluster. Called in the engine's thread."""
        if group.handle is None or group.handle.key != key:  # a part of it has failed before
            return
        self._groups.pop(group.number, None)
        spent = error.args[0] if isinstance(error, RunsSpent) else None
        if isinstance(error, distributed.KilledWorker) or (error is not None and spent == key):
            counts = group.is_counted and self._workers.scheduler_takes_code()
            run.died(group, error, self.begun(group) if counts else group.runs)
        elif isinstance(error, MemoryError):
            keys = [key, *[part.handle.key for part in group.parts]]
            run.refused(group, error, any(repr(each) in str(error) for each in keys))
        elif (spent is not None or _is_lost_data(error)) and self.is_usable():
            run.lost(group, error)  # type: ignore[arg-type]
        elif group.number in run.under_way:
            run.cancel(self.translated(error if error is not None else lost()))


class _Graph(dict[Any, Any]):
    """A graph that the client names by its first key, which is unique, and not by all it has.

    It would hash each task for that, which takes as long as all else of a submission.
    """

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


dask.base.normalize_token.register(_Graph, lambda graph: str(next(iter(graph))))


def _placed(get: Callable[[], Any], places: defaultdict[Any, list[str]]) -> Any:
    """Submit groups, some of which should run at a place, unless the caller has said where.

    They are as near to all workers, or need nothing. The scheduler would choose by the load at that
    time, and one worker could end with twice its share of kept values. Where resources are asked
    for, it would take a place for more than a wish, or break.
    """
    if not places or not dask.get_annotations().keys().isdisjoint(("workers", "resources")):
        return get()
    with dask.annotate(workers=places.__getitem__, allow_other_workers=True):
        return get()


def _annotated(get: Callable[[], Any], annotations: dict[str, Any]) -> Any:
    with dask.annotate(**annotations):
        return get()


def _is_lost_data(error: BaseException | None) -> bool:
    """Return whether a group was cancelled because one of its inputs is lost.

    Groups that lazyflow cancels are unregistered before. The cluster names several reasons
    ("lost dependencies", "already forgotten").
    """
    reason = getattr(error, "reason", None) or ""
    is_cancelled = isinstance(error, CancelledError | asyncio.CancelledError)
    return is_cancelled and not reason.startswith("scheduler")
