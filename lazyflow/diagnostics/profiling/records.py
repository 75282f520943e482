"""Records of each task and run, and derived figures: lanes of workers, gaps, busy time.

All times are seconds since the profile began. A task counts for its worker; tasks of one worker
that overlap, as a task and those that it computes, are in rows of their own:

>>> def task(name, start, end):
...     return TaskRecord(name, name, "", 0, "worker-1", start, end, None, None, False)
>>> rows = rows_by_worker([task("outer", 0, 9), task("inner", 1, 2), task("next", 9, 10)])
>>> [[each.name for each in row] for row in rows["worker-1"]]
[['outer', 'next'], ['inner']]
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from lazyflow.diagnostics.profiling.graph_facts import NOTHING, Sights


class TaskRecord(NamedTuple):
    """A call of a task, or of an actor's method.

    Attributes
    ----------
    name
        The task's name in messages.
    function
        Its function with its module.
    place
        The line that made the task, as text.
    run
        The index of its run in the profile; -1: it is a call of an actor.
    worker
        The thread or process that called it, or the actor; empty if it failed before it was called.
    start, end
        Seconds since the profile began.
    cpu
        Seconds of CPU time of its thread; None: unknown.
    size
        Bytes of its result; None: unknown.
    failed
        Whether it raised, after its last retry.
    compiled
        Seconds for which Numba compiled in it.
    moved
        Bytes of arguments and inputs sent to the process that called it; None: unknown.
    """

    name: str
    function: str
    place: str
    run: int
    worker: str
    start: float
    end: float
    cpu: float | None
    size: int | None
    failed: bool
    compiled: float = 0.0
    moved: int | None = None

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.end - self.start


class SpilledValues(NamedTuple):
    """Values written to a file below a memory limit, for tasks of a run, and read from there.

    Attributes
    ----------
    values, size
        How many values were written, of this run and others, and their bytes.
    seconds
        For which they were written.
    read
        Bytes that its tasks read from the file.
    """

    values: int = 0
    size: int = 0
    seconds: float = 0.0
    read: int = 0


def summed(spilled: Iterable[SpilledValues]) -> SpilledValues:
    """Return the sums of several."""
    return SpilledValues(*map(sum, zip(SpilledValues(), *spilled, strict=True)))


class RunRecord(NamedTuple):
    """A run, started by one `compute`, `persist` or `submit`.

    Attributes
    ----------
    start, end
        Seconds since the profile began.
    place
        The user's line that started it, as text; empty if there is none.
    is_users
        Whether the user's own code started it: no estimator, no trace and no task.
    scheduler
        The name of the scheduler.
    tasks
        The number of tasks in its plan that are calls.
    chain
        The number of tasks in its longest chain of dependencies.
    sights
        Facts about its graph.
    spilled
        The values written to a file and read from there.
    """

    start: float
    end: float
    place: str
    is_users: bool
    scheduler: str
    tasks: int
    chain: int
    sights: Sights = NOTHING
    spilled: SpilledValues = SpilledValues()


class UsageRecord(NamedTuple):
    """The memory and CPU use of this process and the workers of its runs at a moment.

    Attributes
    ----------
    time
        Seconds since the profile began.
    memory
        Bytes of memory of this process; None: unknown.
    worker_memory
        Bytes of memory of the worker processes on this machine, without shared memory.
    cpu
        The cores that all of them used since the previous record.
    """

    time: float
    memory: int | None
    worker_memory: int
    cpu: float

    @property
    def total(self) -> int:
        """Bytes of all of them together."""
        return (self.memory or 0) + self.worker_memory


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a key by which worker-2 comes before worker-10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def rows_by_worker(tasks: Iterable[TaskRecord]) -> dict[str, list[list[TaskRecord]]]:
    """Return the rows of each worker: tasks of one row never overlap, and stand in order.

    A worker has more than one row when its tasks compute others, or when it is an executor.
    """
    rows: defaultdict[str, list[list[TaskRecord]]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: (task.start, -task.end)):
        if not task.worker:
            continue
        for row in rows[task.worker]:
            if row[-1].end <= task.start:
                row.append(task)
                break
        else:
            rows[task.worker].append([task])
    return {worker: rows[worker] for worker in sorted(rows, key=_in_order)}


def union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the times that any of the spans covers, as spans that do not touch.

    >>> union([(3, 4), (0, 1), (1, 2)])
    [(0, 2), (3, 4)]
    """
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def under_way(
    runs: Iterable[RunRecord], tasks: Iterable[TaskRecord]
) -> list[tuple[float, float]]:
    """Return the times at which a run or a call of an actor was active."""
    calls = ((task.start, task.end) for task in tasks if task.run < 0)
    return union([*((run.start, run.end) for run in runs), *calls])


def gaps(
    runs: Iterable[RunRecord], tasks: Iterable[TaskRecord], end: float
) -> list[tuple[float, float]]:
    """Return the times, from 0 to `end`, at which no run or actor was active.

    >>> run = RunRecord(1, 2, "main.py:3 in <module>", True, "sync", 1, 1)
    >>> gaps([run, run._replace(start=4, end=9)], [], 8)
    [(0.0, 1), (2, 4)]
    """
    found, at = [], 0.0
    for start, stop in under_way(runs, tasks):
        if min(start, end) > at:
            found.append((at, min(start, end)))
        at = max(at, stop)
    if end > at:
        found.append((at, end))
    return found


def total(spans: Iterable[tuple[float, float]]) -> float:
    """Return the sum of the lengths of spans."""
    return sum(end - start for start, end in spans)
