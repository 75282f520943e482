"""Groups in a worker of distributed.

A group of tasks is one task there: a coroutine that has a thread of the worker's own pool run the
group, so that profiles, ``worker_client()`` and ``secede()`` work in its tasks as in distributed's
own. A group that is given up while it runs ends at once for the cluster; its thread leaves the
pool, and another one gets its slot. Reports to the caller go with the events of the cluster.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import time
from typing import Any

import distributed
from distributed import threadpoolexecutor as pools
from distributed.utils import set_thread_state

from lazyflow.schedulers.cluster.dask.worker_memory import memory_of
from lazyflow.schedulers.cluster.outcome import GroupOutcome
from lazyflow.schedulers.cluster.work import Work
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.task_resources import here

_PATIENCE = 1.0  # seconds that a task waits for others before it gives its slot to them; a guess


class _WorkerSlot:
    """The slot of a task in its worker, which other tasks get when it waits for long.

    The call that it waits for may need a slot: an actor is made by a task, perhaps a later one.
    """

    def __init__(self) -> None:
        self._has_left = False

    def lookout(self) -> Iterator[float]:
        """Give the slot away after a while; the task goes on without one."""
        if not self._has_left:
            yield _PATIENCE
            self._has_left = True
            distributed.secede()


class _Running:
    """A group that runs in a thread of a worker's pool; `done` is the future of its end."""

    def __init__(self, worker: Any, key: Any, work: Work) -> None:
        self._worker = worker
        self.memory = memory_of(worker)
        self._pool = worker.executors["default"]
        self._key = key
        self._thread: threading.Thread | None = None
        self._has_left = False
        self._context = contextvars.copy_context()
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.loop.create_future()
        self._pool.submit(self._run)

    def _run(self) -> None:
        worker, me = self._worker, threading.current_thread()
        self._thread = me
        with worker.active_threads_lock:
            worker.active_threads[me.ident] = self._key
        with set_thread_state(
            start_time=time(), execution_state=worker.execution_state, key=self._key
        ):
            here.slot = _WorkerSlot()
            outcome = self._context.run(self._outcome)
            here.slot = None
        with worker.active_threads_lock:
            del worker.active_threads[me.ident]
        with pools.threads_lock:
            self._thread = None
            if self._has_left:
                pools.thread_state.proceed = False
        with suppress(RuntimeError):  # the worker has closed
            self.loop.call_soon_threadsafe(settle, self.done, outcome)

    def _outcome(self) -> tuple[GroupOutcome, bytes]:
        outcome, report = self.work()
        if self.memory is not None:
            self.memory.keep(outcome)
        return outcome, report

    def give_up(self) -> None:
        """End for the cluster; the thread ends after its task."""
        self.work.give_up()
        settle(self.done, None)
        with pools.threads_lock:
            if self._thread in self._pool._threads:
                self._has_left = True  # and another thread gets its place
                self._pool._threads.remove(self._thread)
                self._pool._adjust_thread_count()


#: Running groups of this process, by name of the run and number.
_active: dict[tuple[str, int], _Running] = {}

#: Groups that were given up before they came here, by the same names. The word takes another way
#: than the group, so that it may come first. The latest stay: a group follows within moments.
_unwanted: dict[tuple[str, int], None] = {}
_UNWANTED = 10_000  # a guess


class RunsSpent(Exception):
    """A group was to run more often than it may; ``args`` are its key."""


async def run_group(
    key: Any, payload: bytes, topic: str, runs: int, *deps: GroupOutcome
) -> GroupOutcome:
    """Run a group in a thread; return when it is done or given up.

    `runs` is how often the group may run. If it is not 0, the scheduler counts the runs, and is
    asked before each. If a file is gone from which it reads, the scheduler has it run again.
    """
    worker = distributed.get_worker()
    if runs and not await worker.scheduler.lazyflow_begin(
        key=key, worker=worker.address, runs=runs
    ):
        raise RunsSpent(key)
    work = Work(payload, deps, "distributed")
    name = (f"{topic}/{work.run_name}", work.number)
    if name in _unwanted:
        return GroupOutcome({}, {})
    running = _Running(worker, key, work)
    _active[name] = running
    del deps, payload, work
    try:
        answer = await running.done
    finally:
        del _active[name]
    if answer is None:
        return GroupOutcome({}, {})
    if running.work.gone:
        await worker.scheduler.lazyflow_make_again(keys=running.work.gone)
        raise distributed.Reschedule
    outcome: GroupOutcome
    outcome, report = answer
    outcome.key = key
    if running.memory is not None:
        running.memory.count(outcome)
    if report:
        worker.log_event(topic, report)
    return outcome


async def part_of_group(key: Any, outcome: GroupOutcome, numbers: list[int]) -> GroupOutcome:
    """Return the results of some of the tasks of a group."""
    part = outcome.part(numbers)
    part.key = key
    memory = memory_of(distributed.get_worker())
    if memory is not None:
        memory.count(part)
    return part


def settle(future: asyncio.Future[Any], outcome: Any) -> bool:
    """Set the result of a future; return whether it had none before."""
    is_first = not future.done()
    if is_first:
        future.set_result(outcome)
    return is_first


async def give_up_groups(name: str, numbers: list[int]) -> None:
    """Give up groups of a run, also those that come later."""
    for number in numbers:
        running = _active.get((name, number))
        if running is not None:
            running.give_up()
        else:
            _unwanted[name, number] = None
    for _ in range(len(_unwanted) - _UNWANTED):
        del _unwanted[next(iter(_unwanted))]


async def drop_kept(name: str) -> None:
    """Drop the object that the worker keeps by a name; in a thread: it may run the user's code."""
    await asyncio.to_thread(task_resources.drop, name)


async def running_tasks(name: str) -> list[int]:
    """Return the numbers of the tasks of a run that run now."""
    return [each.work.running() for (run, _), each in tuple(_active.items()) if run == name]
