"""What happens to the tasks of a group: noted by its worker, told to the caller's observers.

An event is (STARTED, ENDED or FAILED, number of the task), or if tasks are timed (RAN, number,
worker, start, end, seconds of CPU time), with times by `time.time`, (COMPILED, number, seconds) and
(SAMPLED, number, stack, looks, seconds).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from socket import gethostname
from time import perf_counter, time
from typing import Any

from lazyflow.schedulers.core.base import Observer
from lazyflow.schedulers.core.compiling import listen
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, Stack

STARTED, ENDED, FAILED, RAN, COMPILED, SAMPLED = range(6)


class GroupLog(Observer):
    """Records the times of the tasks of a group, and which task is running."""

    def __init__(self, functions: dict[int, bytes], keeps_events: bool) -> None:
        self.run: Any = None
        self.functions = functions  # digests, by local number of the task
        self.events: list[tuple[Any, ...]] | None = [] if keeps_events else None
        self.times: dict[bytes, tuple[int, float]] = {}
        self.current = -1
        self._since = 0.0

    def watched(self, interval: float) -> AbstractContextManager[object]:
        """Return a block in which what else is asked for is noted: nothing."""
        return nullcontext()

    def close(self) -> None:
        """Record what was noted meanwhile."""

    def task_started(self, run: Any, i: int) -> None:
        if run is self.run:
            self.current = i
            if self.events is not None:
                self.events.append((STARTED, i))
            self._since = perf_counter()

    def task_ended(self, run: Any, i: int) -> None:
        if run is self.run:
            seconds = perf_counter() - self._since
            if self.events is not None:
                self.events.append((ENDED, i))
            digest = self.functions[i]
            calls, before = self.times.get(digest, (0, 0.0))
            self.times[digest] = calls + 1, before + seconds

    def task_failed(self, run: Any, i: int, error: BaseException) -> None:
        if run is self.run and self.events is not None:
            self.events.append((FAILED, i))


class TimedGroupLog(GroupLog):
    """Records also when each task was called, for how long it compiled, and where it was."""

    def __init__(self, functions: dict[int, bytes], keeps_events: bool) -> None:
        super().__init__(functions, keeps_events)
        self._notes: dict[tuple[int, Stack], tuple[int, float]] = {}

    def watched(self, interval: float) -> AbstractContextManager[object]:
        """Return a block in which compiling is noted, and looks taken each `interval` seconds."""
        listen()
        if not interval:
            return nullcontext()
        return Sampler(interval, self._running, self._sampled, listen)

    def _running(self) -> list[RunningTask]:
        return list(self.run.observers.timer.running(self.run)) if self.run is not None else []

    def _sampled(self, task: tuple[Any, int], stack: Stack, seconds: float) -> None:
        looks, before = self._notes.get((task[1], stack), (0, 0.0))
        self._notes[task[1], stack] = looks + 1, before + seconds

    def task_compiled(self, run: Any, i: int, seconds: float) -> None:
        if run is self.run and self.events is not None:
            self.events.append((COMPILED, i, seconds))

    def close(self) -> None:
        if self.events is not None:
            self.events += [(SAMPLED, *at, *seen) for at, seen in self._notes.items()]

    def task_ran(
        self, run: Any, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        if run is self.run and self.events is not None:
            ahead = time() - perf_counter()  # clocks of other machines know no other's
            name = f"{gethostname()} process {os.getpid()}"
            self.events.append((RAN, i, name, start + ahead, end + ahead, cpu))


def tell_observers(run: Any, events: Iterable[tuple[Any, ...]], sizes: Mapping[int, int]) -> None:
    """Tell the observers of a run what a worker reports; `sizes` are those of large results."""
    ahead = time() - perf_counter()
    for what, i, *when in events:
        if what == RAN:
            worker, start, end, cpu = when
            size = sizes.get(i)
            run.observers.task_ran(run, i, worker, start - ahead, end - ahead, cpu, size)
        elif what == COMPILED:
            run.observers.task_compiled(run, i, *when)
        elif what == SAMPLED:
            run.observers.task_sampled(run, i, *when)
        elif what == STARTED:
            run.observers.task_started(run, i)
        elif what == ENDED:
            run.observers.task_ended(run, i)
        elif i in run.errors:
            run.observers.task_failed(run, i, run.errors[i])
