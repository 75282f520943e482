"""Memory and CPU use over time, of this process and of the workers of its runs and actors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any, NamedTuple

from lazyflow.diagnostics.profiling.records import UsageRecord
from lazyflow.schedulers.core.base import ReportsInfo, provides
from lazyflow.system import process_usage

_STEP = 0.05  # seconds between two readings
_MAX_READINGS = 4_000  # readings; with more, every second one is dropped, and they become rarer
_WORKERS = 0.2  # seconds for which the list of workers is taken to be right


class _Reading(NamedTuple):
    """What was read at a moment: bytes, and all CPU seconds of this process and of workers."""

    when: float
    memory: int | None
    worker_memory: int
    cpu: float


class UsageMeter:
    """Reads memory and CPU use; in one thread at a time.

    Parameters
    ----------
    schedulers
        Returns the schedulers of the runs.
    """

    def __init__(self, schedulers: Callable[[], Iterable[Any]]) -> None:
        self._schedulers = schedulers
        self._step = _STEP
        self._readings: list[_Reading] = []
        self._workers: dict[int, int] = {}  # bytes of shared memory that they hold, by process
        self._listed = float("-inf")
        self._cpu: dict[int, float] = {}  # of workers, as last read
        self._before: dict[int, float] = {}  # of workers, when they were first seen

    def read(self) -> None:
        """Take a reading if one is due."""
        now = perf_counter()
        if self._readings and now < self._readings[-1].when + self._step:
            return
        if now > self._listed + _WORKERS:
            self._listed, self._workers = now, {
                each["pid"]: each["shared_bytes"] for each in processes_of(self._schedulers())
            }
        resident, *_ = process_usage(os.getpid())
        private = 0
        for pid in self._workers:
            held, common, cpu = process_usage(pid)
            private += max(0, (held or 0) - common)
            self._cpu[pid] = max(cpu, self._before.setdefault(pid, cpu))
        theirs = sum(self._cpu[pid] - first for pid, first in self._before.items())
        own, when = process_time(), perf_counter()  # side by side: a task may hold this thread up
        self._readings.append(
            _Reading(when, resident, private + sum(self._workers.values()), own + theirs)
        )
        if len(self._readings) > _MAX_READINGS:
            self._readings = self._readings[::2]
            self._step *= 2

    def drop_readings(self) -> None:
        """Drop the readings but the last, from which on the next one counts."""
        self._readings = self._readings[-1:]
        self._step = _STEP

    def records(self, began: float) -> list[UsageRecord]:
        """Return what was read, with the use of the CPU between one reading and the next."""
        return [
            UsageRecord(
                after.when - began, after.memory, after.worker_memory,
                max(0.0, after.cpu - before.cpu) / (after.when - before.when),
            )
            for before, after in pairwise(list(self._readings))
        ]


def processes_of(schedulers: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the figures of each process that schedulers have on this machine, as `info` has them.

    Those of actors have a name by ``"actor"``.
    """
    for scheduler in schedulers:
        if provides(scheduler, ReportsInfo):
            info = scheduler.info()
            yield from info.get("workers", ())
            yield from info.get("actors", ())
