"""Groups in a worker of distributed.

A group of tasks is one task there, a coroutine that has a thread of lazyflow run the group. So a
group that is given up while it runs ends at once for the cluster, and others get its slot. Reports
to the caller go with the events of the cluster.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from typing import Any

import distributed

from lazyflow.schedulers.cluster.outcome import GroupOutcome
from lazyflow.schedulers.cluster.work import Work
from lazyflow.schedulers.cluster.worker_threads import run_in_thread

#: Running groups of this process with the futures of their ends, by name of the run and number.
_active: dict[tuple[str, int], tuple[Work, Any]] = {}


async def run_group(payload: bytes, topic: str, *deps: GroupOutcome) -> GroupOutcome:
    """Run a group in a thread of lazyflow; return when it is done or given up."""
    worker = distributed.get_worker()
    loop = asyncio.get_running_loop()
    work = Work(payload, deps, "distributed")
    done: asyncio.Future[Any] = loop.create_future()
    key = (f"{topic}/{work.run_name}", work.number)
    _active[key] = work, done

    def done_here(found: Any) -> None:
        with suppress(RuntimeError):  # the worker has closed
            loop.call_soon_threadsafe(settle, done, found)

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


def settle(future: asyncio.Future[Any], found: Any) -> bool:
    """Set the result of a future; return whether it had none before."""
    is_first = not future.done()
    if is_first:
        future.set_result(found)
    return is_first


async def give_up_groups(name: str, numbers: list[int]) -> None:
    """Give up groups of a run: their threads end after the running task."""
    for number in numbers:
        found = _active.get((name, number))
        if found is not None:
            work, done = found
            work.give_up()
            settle(done, None)


async def running_tasks(name: str) -> list[int]:
    """Return the numbers of the tasks of a run that run now."""
    return [work.running() for (run, _), (work, _) in tuple(_active.items()) if run == name]
