"""`scheduler="ray"`: plans on Ray.

A group of tasks is one Ray task. Its results are the outcome, or the parts of that, which stay in
Ray's store, and the report, which comes to the caller. Ray computes lost outcomes again by itself,
and runs a group again whose worker died; both count as runs of the group.

The engine's thread has all state of groups (engine.py). A thread that watches Ray's process sets
`_is_gone` when that ends, before it posts the end of the runs: nothing may call Ray then. The
scheduler has its engine, and the folder of a Ray that it has started, under `_lock`.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future as TheirFuture
from functools import partial
from itertools import islice
from math import inf
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import ray
from ray._private.worker import get_dashboard_url
from ray.job_config import JobConfig

from lazyflow import config
from lazyflow.errors import SchedulerLost, WorkerDied
from lazyflow.graph.options import Options
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.engine import Engine, note_host
from lazyflow.schedulers.cluster.group_queue import Submission, TaskGroup
from lazyflow.schedulers.cluster.outcome import GroupOutcome, adopted
from lazyflow.schedulers.cluster.ray.actors import RayActor, RayLink
from lazyflow.schedulers.cluster.results import EngineResult, because
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.cluster.scheduler import EngineScheduler
from lazyflow.schedulers.cluster.work import Work, run_in_thread
from lazyflow.schedulers.core.base import ReportsInfo
from lazyflow.system import at_fork

#: Resources for which Ray has arguments of their own.
_OWN = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


def _group(payload: bytes, parts: list[list[int]], *deps: GroupOutcome) -> tuple[Any, ...]:
    """Run a group, not in the main thread: there a task's KeyboardInterrupt would be Ctrl-C."""
    done: SimpleQueue[tuple[GroupOutcome, bytes]] = SimpleQueue()
    run_in_thread(Work(payload, deps, "ray"), contextvars.Context(), done.put)
    del payload, deps
    outcome, report = done.get()
    return (*map(outcome.part, parts), report) if parts else (outcome, report)


def _adopted(value: Any) -> tuple[GroupOutcome, None]:
    return adopted(value), None


def _cause(error: BaseException | None) -> BaseException | None:
    """Return the exception of the user's function, from Ray's error."""
    cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else None
    return cause if isinstance(cause, BaseException) else error


class RayEngine(Engine):
    """The engine of this process's Ray. Handles have Ray's reference as `ref`."""

    has_priorities = False

    def __init__(self) -> None:
        self._remote = ray.remote(_group)
        self._adopted = ray.remote(_adopted).options(num_returns=2, num_cpus=0)
        self._actor_class = ray.remote(RayActor)
        self._job = ray.get_runtime_context().get_job_id()
        self._is_gone = False
        if len(ray.nodes()) > 1:
            note_host(str(ray.util.get_node_ip_address()))
        super().__init__()
        threading.Thread(target=self._watch, name="lazyflow-ray-watch", daemon=True).start()

    def is_usable(self) -> bool:
        """Return whether tasks can still be submitted."""
        return not self._is_gone and self.is_current()

    def is_current(self) -> bool:
        """Return whether Ray is still the one that this engine was made for."""
        return bool(
            ray.is_initialized() and ray.get_runtime_context().get_job_id() == self._job
        )

    def _watch(self) -> None:
        """End runs when Ray's process on this machine ends: Ray would wait for it for ever."""
        node = getattr(ray._private.worker, "_global_node", None)
        if node is None:  # a client of a Ray elsewhere, which notices by itself
            return
        with socket.socket(socket.AF_UNIX) as raylet:
            try:
                raylet.connect(node.raylet_socket_name)
                raylet.recv(1)  # no data comes, only the end
            except OSError:
                pass
        self.part()

    def part(self) -> None:
        """Stop calling Ray, and end the runs that wait for it."""
        self._is_gone = True  # no call of Ray from now on: it would end this process
        self.post(self._end_runs)

    def _end_runs(self) -> None:
        for run, group in tuple(self._groups.values()):
            if group.number in run.under_way:
                run.cancel(_lost())
        self._groups.clear()

    def width(self) -> int:
        return max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def new_handle(
        self, run: EngineRun, group: TaskGroup, is_part: bool = False
    ) -> SimpleNamespace:
        return SimpleNamespace(ref=None)  # it is set at the submission

    def drop(self, handle: SimpleNamespace) -> None:
        handle.ref = None

    def new_link(self, actor: RemoteActor) -> RayLink:
        if not self.is_usable():
            raise _lost()
        return RayLink(self, actor, self._actor_class, _session_folder())

    def token(self, handle: SimpleNamespace) -> list[Any]:
        return [handle.ref]  # Ray leaves references in a list as they are

    def submit(self, calls: Sequence[Submission]) -> None:
        if not self.is_usable():
            raise _lost()
        for run, group, payload, deps, options in calls:
            refs = [dep.current_handle().ref for dep in deps]
            given = run.context.copy().run(config.get, "ray_options") or {}
            remote = self._remote.options(
                **{**given, **_wants(options.resources)},
                num_returns=len(group.kept()) + 1, max_retries=group.runs - 1,
                retry_exceptions=False, name=group.name,
            )
            self._groups[group.number] = run, group
            parts = [part.outputs for part in group.parts]
            *outcomes, report = remote.remote(payload, parts, *refs)
            for kept, ref in zip(group.kept(), outcomes, strict=True):
                kept.handle.ref = ref
            report.future().add_done_callback(partial(self._group_ended, run, group))

    def send(self, outcome: GroupOutcome) -> SimpleNamespace:
        return SimpleNamespace(ref=ray.put(outcome))

    def adopt(self, theirs: Any, then: Callable[[BaseException | None], None]) -> SimpleNamespace:
        ref, report = self._adopted.remote(theirs)
        report.future().add_done_callback(lambda future: then(_cause(future.exception())))
        return SimpleNamespace(ref=ref)

    def is_lost(self, handle: Any) -> bool:
        return handle is None or handle.ref is None

    def give_up(self, run: EngineRun, groups: Sequence[TaskGroup]) -> None:
        if not groups or not self.is_usable():
            return
        may_run = frozenset(islice(self._groups, 2 * self.width()))
        for group in groups:
            known = self._groups.pop(group.number, None)
            handle = group.kept()[0].handle
            if handle is None or handle.ref is None:
                continue
            if known is None or group.number not in may_run or not run.queue.is_short(group):
                ray.cancel(handle.ref, force=True)
            # else it is left to end: to cancel a running task costs a worker, and Ray aborts this
            # process ("Tried to complete task that was not pending") if it ends just then.

    def bring(self, remotes: Sequence[EngineResult]) -> None:
        if not self.is_usable():
            raise _lost()
        refs = list({remote.handle.ref: None for remote in remotes})  # Ray opens each as often
        try:
            outcomes = dict(zip(refs, ray.get(refs), strict=True))
        except ray.exceptions.RayError as error:
            raise self.translated(error) from None
        for remote in remotes:
            remote.outcome = outcomes[remote.handle.ref]

    def running(self, run: EngineRun) -> list[tuple[str, int]]:
        return []  # Ray knows groups only: the run names their tasks

    def memory(self) -> float:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return min([float(node.get("object_store_memory", inf)) for node in nodes], default=inf)

    def refusal_of(self, options: Options) -> str:
        resources = options.resources or {}
        offered = ray.cluster_resources()
        if all(offered.get(name, 0) >= count for name, count in resources.items()):
            return ""
        shown = {name: count for name, count in offered.items() if "node:" not in name}
        return (
            f"Ray offers no {dict(resources)!r}; it has {shown!r}. Start a node that does: "
            "ray start --num-gpus=1 or --resources='{\"name\": 1}'."
        )

    def translated(self, error: BaseException) -> BaseException:
        if not self.is_usable():
            return _lost(error)
        if isinstance(error, ray.exceptions.ObjectLostError):
            return because(error, WorkerDied(
                "a value that was kept in Ray is gone with the node that held it, and Ray can't "
                "make it again. Compute it again."
            ))
        return error

    def _group_ended(self, run: EngineRun, group: TaskGroup, future: TheirFuture[bytes]) -> None:
        """Pass the report of a group, or its error, on. Called in a thread of Ray."""
        error = future.exception()
        if error is not None:
            self.post(self._failed, run, group, error)
        elif future.result():
            self.receive(future.result())

    def _failed(self, run: EngineRun, group: TaskGroup, error: BaseException) -> None:
        """Handle a group that has failed in Ray. Called in the engine's thread."""
        self._groups.pop(group.number, None)
        exceptions = ray.exceptions
        if isinstance(error, exceptions.WorkerCrashedError | exceptions.OutOfMemoryError):
            run.died(group, error, group.runs)
        elif isinstance(error, exceptions.ObjectLostError) and self.is_usable():
            run.lost(group, error)
        elif group.number in run.under_way:
            run.cancel(self.translated(error))


def _wants(resources: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, count in (resources or {}).items():
        if name in _OWN:
            options[_OWN[name]] = count
        else:
            options.setdefault("resources", {})[name] = count
    return options


def _own_path() -> list[str]:
    """Return the folders of modules that another interpreter would not search, the last one first.

    Ray itself gives its workers only the folder of the script and the working directory.
    """
    given = sys.prefix, sys.base_prefix
    return [p for p in reversed(sys.path) if os.path.isdir(p) and not p.startswith(given)]


def _session_folder() -> str:
    """Return the folder of this Ray's session, which is removed with all that is left in it."""
    node = ray._private.worker._global_node
    return str(node.get_session_dir_path()) if node is not None else ""


def _lost(cause: BaseException | None = None) -> SchedulerLost:
    return because(cause, SchedulerLost(
        "Ray was shut down, or its process on this machine ended, and with it the tasks and values "
        "there. Start it again, by ray.shutdown() and ray.init(), and compute again."
    ))


class RayScheduler(EngineScheduler, ReportsInfo):
    """A scheduler that runs plans on the Ray of this process, or starts one and ends it."""

    name = "ray"

    def __init__(self) -> None:
        super().__init__()
        self._engine: RayEngine | None = None
        self._folder: str | None = None  # the folder of a Ray that was started here
        self._lock = threading.Lock()

    def engine(self) -> RayEngine:
        """Return the engine of the current Ray."""
        with self._lock:
            if self._engine is not None and self._engine.is_usable():
                return self._engine
            if self._engine is not None and self._engine.is_current():  # but its process has ended
                if self._folder is None:
                    raise _lost()
                ray.shutdown()
            if not ray.is_initialized():
                self._start()
            self._engine = RayEngine()
            return self._engine

    def _start(self) -> None:
        self._remove_folder()
        self._folder = tempfile.mkdtemp(prefix="lazyflow-ray-")
        ray.init(
            address="local",
            num_cpus=config.get("num_workers") or config.default_workers(),
            include_dashboard=False,
            configure_logging=False,
            job_config=JobConfig(_py_driver_sys_path=_own_path()),
            _temp_dir=self._folder,
        )

    def _remove_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def info(self) -> dict[str, Any]:
        """Return the address of Ray's page, if there is one."""
        url = get_dashboard_url() if ray.is_initialized() else ""
        return {"dashboards": [f"http://{url}"] if url else []}

    def shutdown(self) -> None:
        """End the Ray that was started here, and never the user's."""
        self.end_actors()
        with self._lock:
            engine, self._engine = self._engine, None
            is_current = engine is None or engine.is_current()
            if engine is not None:
                engine.part()
                engine.end_thread()
            if self._folder is not None:
                if is_current:
                    ray.shutdown()
                self._remove_folder()

    def _in_fork(self) -> None:
        """In the child of a fork, forget the connection: it is the parent's."""
        self._engine = self._folder = None
        self._lock = threading.Lock()
        self.leave()


scheduler = RayScheduler()

atexit.register(scheduler.shutdown)
at_fork(after_in_child=scheduler._in_fork)
