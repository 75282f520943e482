"""What the rules of advice look at: records of a block, and figures that several rules need."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from lazyflow import config
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    gaps,
    total,
    union,
)


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
    """

    def __init__(
        self,
        tasks: Sequence[TaskRecord],
        runs: Sequence[RunRecord],
        seconds: float,
        idle: float | None = None,
        cores: int | None = None,
    ) -> None:
        self.tasks = tasks
        self.runs = runs
        self.seconds = seconds
        self.idle = idle
        self.cores = config.cpu_count() if cores is None else cores

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
            if task.worker:
                found[task.run].append(task)
        return found

    @cached_property
    def alone(self) -> float:
        """Seconds outside of runs."""
        return total(gaps(self.runs, self.seconds))

    @cached_property
    def idle_in_runs(self) -> float:
        """Seconds of idle cores while runs were under way, at least; 0 where it is unknown."""
        return max(0.0, (self.idle or 0.0) - self.alone * (os.cpu_count() or 1))


def covered(tasks: Sequence[TaskRecord]) -> float:
    """Return the seconds in which any of the tasks ran."""
    return total(union((task.start, task.end) for task in tasks))


def idle_seconds() -> float | None:
    """Return the seconds that the machine's cores have been idle since it started, where known."""
    try:
        with open("/proc/stat") as file:
            fields = file.readline().split()
        return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):  # not Linux
        return None
