"""Groups in a worker of distributed.

A group of tasks is one task there, a coroutine: it has a thread of lazyflow's run the group, so
that one that was given up while it runs ends at once for the cluster, and others get its place.
What a worker reports to the caller goes with the events of the cluster.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import distributed

from lazyflow.schedulers.cluster.outcome import GroupOutcome
from lazyflow.schedulers.cluster.work import Work
from lazyflow.schedulers.cluster.worker_threads import run_in_thread

#: Groups that run in this process, by name of their run and number, and what ends each.
_active: dict[tuple[str, int], tuple[Work, Any]] = {}


async def run_group(payload: bytes, topic: str, *deps: GroupOutcome) -> GroupOutcome:
    """Have a group run by a thread of ours; return when it is done or given up."""
    worker = distributed.get_worker()
    loop = asyncio.get_running_loop()
    work = Work(payload, deps, "distributed")
    done: asyncio.Future[Any] = loop.create_future()
    key = (f"{topic}/{work.run_name}", work.number)
    _active[key] = work, done

    def done_here(found: Any) -> None:
        try:
            loop.call_soon_threadsafe(_settle, done, found)
        except RuntimeError:  # the worker has closed
            pass

    run_in_thread(work, contextvars.copy_context(), done_here)
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


async def give_up_groups(name: str, numbers: list[int]) -> None:
    """End groups of a run: what runs now is left behind with its thread, the rest not started."""
    for number in numbers:
        found = _active.get((name, number))
        if found is not None:
            work, done = found
            work.give_up()
            _settle(done, None)


async def running_tasks(name: str) -> list[int]:
    """Return the numbers of the tasks that run now of a run."""
    return [work.running() for (run, _), (work, _) in tuple(_active.items()) if run == name]
