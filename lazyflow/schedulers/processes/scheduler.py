"""`scheduler="processes"`: starts, watches and ends the pool of this process.

``_driver`` is the pool, None before the first use; `shutdown` ends it, and the next run makes
another. It is made under ``_lock``, but known before its thread is started, so that a Ctrl-C
meanwhile leaves no pool that nothing ends. The child of a fork forgets it: the workers are the
parent's. A task in a worker that computes does so in that worker, by worker/nested.py.
"""

from __future__ import annotations

import atexit
import threading
import warnings
from collections.abc import Callable
from typing import Any

from lazyflow.errors import LazyflowWarning
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import users_depth
from lazyflow.interrupts import EXIT_GRACE, end_with_python
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.base import (
    EndsTasks,
    KeepsActors,
    MakesRuns,
    Puts,
    ReportsInfo,
    Request,
    ShutsDown,
)
from lazyflow.schedulers.processes.parent.driver import Driver
from lazyflow.schedulers.processes.parent.pool_run import PoolRun
from lazyflow.schedulers.processes.parent.values import put
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.environment import notices, process_settings, versions
from lazyflow.system import at_fork, has_descriptors_of_others


class ProcessesScheduler(MakesRuns, Puts, EndsTasks, KeepsActors, ReportsInfo, ShutsDown):
    """The pool of worker processes, started on first use."""

    name = "processes"
    options = frozenset({"priority", "crash_retries", "memory_limit"}) | (
        {"files"} if has_descriptors_of_others() else set()
    )
    actors_share_memory = False

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """How many workers there may be: the most that was asked for."""
        return self._driver.state.size if self._driver is not None else 0

    def make_run(self, plan: Plan, request: Request) -> PoolRun:
        """Return the run of a plan."""
        return PoolRun(plan, request, self)

    def start(self, run: Any) -> None:
        """Hand a run to the workers."""
        driver = self._driver
        if driver is not None and threading.current_thread() is driver.thread:
            raise RuntimeError(
                "a compute on processes can't be waited for here: this is called while arguments "
                "are pickled for the workers, by a __reduce__ or __getstate__ for example. Compute "
                "it before."
            )
        driver = run.driver = self._running_driver()
        driver.memory.arenas.recycle_within(run.request.memory_limit)
        notices.look()
        process_settings.look()
        if versions.look() != driver.reloads:
            _say_reloads(driver)
        if driver.copies.advice:
            _advise(driver)
        run.environment = run.context.copy().run(environment.packed)
        run.begin()

    def offer(self, run: Any, count: int) -> None:
        """Nothing becomes ready outside of the driver."""

    def wait(self, run: Any, timeout: float | None) -> bool:
        """Sleep until the run is over; then run the merges that are left for the caller."""
        is_over: bool = run.wait(timeout)
        if is_over and run.merges and run.error is None:
            run.merge()
        if run.driver is not None and run.driver.copies.advice:
            _advise(run.driver)
        return is_over

    def abandon(self, run: Any) -> None:
        """End the workers that are busy with tasks of a run that was given up."""
        if run.driver is not None:
            run.driver.loop.post(run.driver.runs.abandon, run)

    def end_task(self, run: Any, i: int) -> None:
        """End the worker that runs task `i` of a run, if one does."""
        host = getattr(run, "host", None)
        if host is not None:  # the call of an actor
            host.force(run)
        elif run.driver is not None:
            run.driver.loop.post(run.driver.runs.end_task, run, i)

    def divide_late(self, run: Any, take: Callable[[bytes | None], None]) -> None:
        """Have `take` called with the report of a parcel that takes long; None: no report comes.

        See worker/parcels.py. The thread that drives the workers makes the call.
        """
        run.driver.loop.post(run.driver.runs.divide_late, run, take)

    def make_actor(self, spec: Any) -> Any:
        """Return where an actor lives: in a process of its own."""
        from lazyflow.schedulers.actors.remote_actor import RemoteActor
        from lazyflow.schedulers.processes.parent.actor_port import ProcessPort

        return RemoteActor(spec, ProcessPort(self._running_driver()))

    def put(self, value: Any, task: Any) -> Any:
        """Take a value for all workers; return the object that its future holds."""
        return put(self._running_driver(), value, task)

    def info(self) -> dict[str, Any]:
        """Return figures of the pool; see `lazyflow.schedulers.info`."""
        driver = self._driver
        return driver.info() if driver is not None else {"workers": []}

    def shutdown(self, grace: float = EXIT_GRACE) -> list[str]:
        """End the pool; return the names of tasks that were still running after `grace`."""
        with self._lock:
            driver, self._driver = self._driver, None
        return driver.close(grace) if driver is not None else []

    def drop(self, name: str) -> None:
        """Have workers drop the object that they keep by a name."""
        driver = self._driver
        if driver is not None:
            driver.loop.post(driver.drop_named, name)

    def _running_driver(self) -> Driver:
        driver = self._driver
        if driver is None or driver.broken or driver.thread.ident is None:  # it was not started
            with self._lock:
                driver = self._driver
                if driver is None or driver.broken:
                    # Known before its thread is waited for: a Ctrl-C meanwhile loses nothing.
                    driver = self._driver = Driver()
                if driver.thread.ident is None:
                    driver.starter.begin()
        return driver

    def _in_fork(self) -> None:
        """In the child of a fork: the workers are the parent's."""
        driver, self._driver = self._driver, None
        self._lock = threading.Lock()
        if driver is not None:
            driver.leave()


def _say_reloads(driver: Driver) -> None:
    """Warn once that workers reload modules that the program has reloaded."""
    reloaded = versions.reloaded[driver.reloads :]
    driver.reloads += len(reloaded)
    if driver.says_reloads:
        driver.says_reloads = False
        warnings.warn(
            f"{', '.join(reloaded)} was reloaded: the workers of scheduler=\"processes\" reload it "
            "too. Existing values and actors keep their classes, except with %autoreload. This "
            "warning appears once.",
            LazyflowWarning, stacklevel=users_depth(),
        )


def _advise(driver: Driver) -> None:
    """Show the advice on repeated copies, at the user's line."""
    advice = driver.copies.advice
    while advice:
        warnings.warn(advice.popleft(), LazyflowWarning, stacklevel=users_depth())


#: The pool of this process.
processes = ProcessesScheduler()
task_resources.tellers.append(processes.drop)


atexit.register(lambda: end_with_python(processes.shutdown))
at_fork(after_in_child=processes._in_fork)
