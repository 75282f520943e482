"""What the rules of advice look at: records of a block, and figures that several rules need."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from lazyflow import config
from lazyflow.diagnostics.profiling.graph_facts import ArrayChunks
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    UsageRecord,
    gaps,
    total,
    union,
)
from lazyflow.store.memory.available import available_memory


class Evidence:
    """The records of a block.

    Parameters
    ----------
    tasks, runs, seconds
        As those of a `Profile`.
    idle
        Seconds for which cores of the machine had nothing to do in the block, of all cores
        together; None: unknown.
    cores
        The number of cores that this process may use.
    usage
        Memory and CPU use over time; empty where they were not read.
    limit
        Bytes that this process and its workers may take together; None: unknown.
    """

    def __init__(
        self,
        tasks: Sequence[TaskRecord],
        runs: Sequence[RunRecord],
        seconds: float,
        idle: float | None = None,
        cores: int | None = None,
        usage: Sequence[UsageRecord] = (),
        limit: int | None = None,
    ) -> None:
        self.tasks = tasks
        self.runs = runs
        self.seconds = seconds
        self.idle = idle
        self.cores = config.cpu_count() if cores is None else cores
        self.usage = usage
        self.limit = limit

    def parallel_runs(self) -> Iterator[tuple[int, RunRecord]]:
        """Yield the runs that the user's own code started where tasks may run side by side."""
        for index, run in enumerate(self.runs):
            if run.is_users and run.scheduler != "sync":
                yield index, run

    @cached_property
    def tasks_by_run(self) -> dict[int, list[TaskRecord]]:
        """The calls of each run, by the index of the run."""
        found: defaultdict[int, list[TaskRecord]] = defaultdict(list)
        for task in self.tasks:
            if task.worker and task.run >= 0:
                found[task.run].append(task)
        return found

    def users_tasks(self) -> Iterator[tuple[RunRecord, TaskRecord]]:
        """Yield the tasks of runs that the user's own code started, with their runs."""
        for task in self.tasks:
            if task.run >= 0 and self.runs[task.run].is_users:
                yield self.runs[task.run], task

    def users_runs(self) -> Iterator[RunRecord]:
        """Yield the runs that the user's own code started."""
        return (run for run in self.runs if run.is_users)

    @cached_property
    def arrays(self) -> dict[str, list[ArrayChunks]]:
        """The arrays whose blocks were computed, by the lines that made them."""
        found: defaultdict[str, list[ArrayChunks]] = defaultdict(list)
        for run in self.runs:
            for chunks in run.sights.arrays:
                found[chunks.place].append(chunks)
        return dict(found)

    def busy_between(self, start: float, end: float) -> float:
        """Return how many tasks ran at once between two moments, on average."""
        shared = (min(task.end, end) - max(task.start, start) for task in self.tasks)
        return sum(time for time in shared if time > 0) / max(end - start, 1e-9)

    @cached_property
    def alone(self) -> float:
        """Seconds outside of runs."""
        return total(gaps(self.runs, self.tasks, self.seconds))

    @cached_property
    def idle_in_runs(self) -> float:
        """Seconds of idle cores while runs were under way, at least; 0 where it is unknown."""
        return max(0.0, (self.idle or 0.0) - self.alone * (os.cpu_count() or 1))


def covered(tasks: Sequence[TaskRecord]) -> float:
    """Return the seconds in which any of the tasks ran."""
    return total(union((task.start, task.end) for task in tasks))


def memory_limit(usage: Sequence[UsageRecord]) -> int | None:
    """Return the bytes that these processes may have: those of the last record, and what is left.

    None where one of them is unknown.
    """
    left = available_memory()
    return usage[-1].total + left if usage and left is not None else None
