"""Runs in the driver's thread: they are taken in, given results and failures, and end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from lazyflow.errors import Cancelled
from lazyflow.schedulers.processes.decisions import jobs, values, workers
from lazyflow.schedulers.processes.decisions.instructions import (
    Deliver,
    EndLater,
    Forget,
    ReportFailure,
)
from lazyflow.schedulers.processes.decisions.nodes import MISSING, SENT, Job, Literal, WorkerRecord
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.processes.parent.functions import FunctionTable
from lazyflow.schedulers.processes.parent.job_builder import NewJob
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.processes.parent.pool import WorkerPool
from lazyflow.schedulers.processes.parent.pool_value import Owner, PoolValue
from lazyflow.schedulers.processes.parent.remote_run import EndedRun, RemoteRun
from lazyflow.schedulers.processes.parent.value_table import ValueTable
from lazyflow.schedulers.processes.protocol import GIVE_UP
from lazyflow.schedulers.remote.task_stub import name_only
from lazyflow.store.pickling.serialize import Encoded

ABANDONED = 0.2  # seconds that a task gets to end after its run was given up


class RunsDriver(Owner, Protocol):
    """What runs need of the driver.

    why
        What is raised for runs that come when it is closing.
    ending
        Whether `close` was called: tasks get longer to end.
    """

    state: State
    memory: PoolMemory
    functions: FunctionTable
    loop: EventLoop
    pool: WorkerPool
    values: ValueTable
    closing: bool
    ending: bool
    why: BaseException

    def perform(self) -> None:
        """Do what the state has decided."""


class Runs:
    """Handles instructions for runs, and steps that are posted by runs and their users."""

    def __init__(self, driver: RunsDriver) -> None:
        self._driver = driver
        self._state = driver.state

    # -- the beginning ----------------------------------------------------------------------

    def add(self, new: NewJob) -> None:
        """Take a job in, or cancel its run if this comes after the end."""
        driver, run, job = self._driver, new.run, new.job
        if run.over or driver.closing:
            if not run.over:
                run.cancel(driver.why)
            return
        run.is_known = True
        for member in driver.pool.members.values():
            run.inside.add(member.inside)
        new.settle()
        driver.functions.retain(run.functions.values())
        jobs.add_job(self._state, job, new.broken)
        for i, value in new.given.items():
            run.arrived(i, value)
        for future, node in new.pending:
            future.add_callback(partial(driver.loop.post, driver.values.take_outcome, node))
        driver.perform()
        self._finish_if_made(job)

    # -- results ----------------------------------------------------------------------------

    def deliver(self, do: Deliver) -> None:
        """Hand a wanted value to its run."""
        node, value, job = do.node, do.value, do.node.job
        run = job.run
        if job.over or run is None:  # it ended meanwhile, and nobody will have the value
            values.unpin(self._state, node)
            return
        if type(value) is Literal:
            value = value.value
            values.unpin(self._state, node)
        elif type(value) is Encoded and run.futures is None:
            self._driver.memory.add(value)
            value = PoolValue(self._driver, None, node.task, value)
        elif run.futures is not None and (type(value) is Encoded or value is MISSING):
            value = PoolValue(self._driver, node, name_only(node.task), None)
        else:
            values.unpin(self._state, node)
        run.arrived(node.i, value)
        self._finish_if_made(job)

    def report_failure(self, do: ReportFailure) -> None:
        """Report to a run that a task of it failed."""
        node, error, job = do.node, do.value, do.node.job
        run = job.run
        if job.over or run is None or run.over:
            return
        if id(error) not in run.reported:
            run.reported[id(error)] = error
            run.observers.task_failed(run, node.i, error)
        run.note_failure(node.i, error)
        if run.over:
            self.end(run)
            return
        if node.pinned:
            values.unpin(self._state, node)
        run.arrived(node.i, None)
        self._finish_if_made(job)

    def _finish_if_made(self, job: Job) -> None:
        if not job.over and job.run is not None and not job.run.wanted:  # over: an EndedRun
            job.run.finish()
            self.end(job.run)

    # -- the end ----------------------------------------------------------------------------

    def end(self, run: RemoteRun) -> None:
        """Take out a run that is over."""
        if run.is_known:  # else it was cancelled before it was taken in
            job = run.job
            jobs.end_job(self._state, job)
            run.nodes = []
            run.inside.clear()
            if job.run is run:  # for tasks that have to run again; not the plan and what it holds
                job.run = EndedRun(run)

    def forget(self, do: Forget) -> None:
        """Let go of all that was kept for a run."""
        driver = self._driver
        run, do.job.run = do.job.run, None
        if run is not None:
            driver.memory.drop_constants(run.literals)
            gone = driver.functions.release(run.functions.values())
            run.functions = {}
            for number in gone:
                self._state.paces.pop(number, None)
            for member in driver.pool.members.values() if gone else ():
                member.forget_functions(gone)

    def cull(self, reference: Callable[[], RemoteRun | None]) -> None:
        """Give up what only dropped futures of a run needed, unless the run has gone."""
        run = reference()
        if run is None:
            return
        run.cull(replace_threads=True)
        if not run.over and run.nodes and run.unneeded:
            nodes = [run.nodes[i] for i in run.unneeded]
            jobs.give_up(self._state, [n for n in nodes if n.job is run.job])
            run.wanted -= run.unneeded
            self._finish_if_made(run.job)

    def end_later(self, do: EndLater) -> None:
        """End the run that makes a value which nobody needs; its parent goes on."""
        maker = do.node.job.run if do.value is None else do.value
        for child in tuple(getattr(maker, "children", ())):
            if child.parent == (maker, do.node.i):
                maker.children.discard(child)
                child.parent = None
                child.cancel(Cancelled("nobody needs the value any more"))

    def cancel_all(self, error: BaseException) -> list[RemoteRun]:
        """Cancel all runs; return them. They are ended by a step that each posts."""
        runs: list[RemoteRun] = self._driver.pool.runs()
        for run in runs:
            if not run.over:
                run.cancel(error)
        return runs

    # -- tasks that nobody wants any more ---------------------------------------------------

    def abandon(self, run: RemoteRun) -> None:
        """Take tasks of a run that is over back, and end those that do not end by themselves."""
        job = getattr(run, "job", None)
        pool = self._driver.pool
        for worker in tuple(self._state.workers):
            if _has_sent(worker, job):
                workers.recall(self._state, worker)
                member = pool.members[worker]
                node = member.running()
                if node is not None and node.job is job:
                    pool.request(member, GIVE_UP, node.id)
                self._driver.loop.after(ABANDONED, partial(self._end_busy, worker, job))

    def _end_busy(self, worker: WorkerRecord, job: Any) -> None:
        pool = self._driver.pool
        member = pool.members.get(worker)
        if member is None or self._driver.ending:  # when tasks get longer
            return
        node = member.running()
        if node is not None and node.job is job and job.over:
            pool.end(member)
        elif _has_sent(worker, job):  # it is only starting, and may take them before the recall
            self._driver.loop.after(ABANDONED, partial(self._end_busy, worker, job))

    def end_task(self, run: RemoteRun, i: int) -> None:
        """End the worker that runs a task which nobody wants any more."""
        node = run.nodes[i] if run.nodes else None
        for member in self._driver.pool.members.values():
            if node is not None and member.running() is node:
                self._driver.pool.end(member)


def _has_sent(worker: WorkerRecord, job: Any) -> bool:
    """Tell whether a worker was sent tasks of a job that it did not answer."""
    return any(n.job is job for f in worker.flights for n in f.nodes if n.phase == SENT)
