"""The tasks of one message while a worker runs them, and their results as the answer has them.

A result is a tuple of an id, a kind of protocol.py, and the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from time import perf_counter, thread_time
from typing import Any

from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.schedulers.core.sampling import RunningTask, Stack
from lazyflow.schedulers.core.task_timer import SHORT
from lazyflow.schedulers.processes.protocol import (
    ENCODED,
    ENCODED_KEPT,
    KEPT,
    PLAIN,
    PLAIN_KEPT,
    TaskNote,
    TaskSpan,
)
from lazyflow.schedulers.processes.worker.process import WorkerProcess
from lazyflow.schedulers.remote import calls
from lazyflow.store.pickling.serialize import Unpicklable
from lazyflow.store.sizes import size_of

_SMALL = 1 << 10  # bytes; a value up to here goes to the parent with the answer


class RunningFlight:
    """Tasks that came in one message, while they are run, and what is not answered of them.

    ``todo`` is shared with the service thread, which takes from its other end what is recalled.
    """

    def __init__(
        self, number: int, records: list[calls.Record], timed: float | None
    ) -> None:
        self.number = number
        self.todo = deque(records)
        #: Takes the next task; raises IndexError when there is none.
        self.take = self.todo.popleft if timed is None else self._take_timed
        self._spans: deque[TaskSpan] = deque()
        self._running: tuple[int, float, float] | None = None  # id, start, CPU time at the start
        self.done: deque[tuple[Any, ...]] = deque()
        self.failed: deque[tuple[Any, ...]] = deque()
        self.deferred: deque[int] = deque()  # ids of tasks that need what another run will make
        self._notes: dict[tuple[int, Stack], tuple[int, float]] = {}
        self._compiled: deque[tuple[int, float]] = deque()
        self.answered_at = perf_counter()  # or begun, before the first answer
        self.times: dict[int, list[float]] = {}

    def add_time(self, function: int, count: int, seconds: float) -> None:
        """Take in that so many calls of a function took so long."""
        known = self.times.get(function)
        if known is None and count:
            self.times[function] = [count, seconds]
        elif known is not None:
            known[0] += count
            known[1] += seconds

    def _take_timed(self) -> calls.Record:
        """Take the next task, and note that the one before is over, its result packed."""
        now = perf_counter()
        running = self._running
        if running is None:
            cpu = thread_time()
        else:
            i, start, before = running
            cpu = before + now - start if now - start < SHORT else thread_time()
            self._spans.append((i, start, now, min(cpu - before, now - start)))
        self._running = None  # after the span is there, for the other thread
        record = self.todo.popleft()
        self._running = record[0], now, cpu
        return record

    def running(self) -> Iterator[RunningTask]:
        """Yield the task that runs now, if tasks are timed, named by its id."""
        running = self._running
        if running is not None:
            yield RunningTask(threading.main_thread().ident or 0, *running[:2])

    def sampled(self, i: int, stack: Stack, seconds: float) -> None:
        """Note where a task was. By the thread that looks."""
        looks, before = self._notes.get((i, stack), (0, 0.0))
        self._notes[i, stack] = looks + 1, before + seconds

    def compiled(self, seconds: float) -> None:
        """Note that the task that runs now has compiled."""
        if self._running is not None:
            self._compiled.append((self._running[0], seconds))

    def take_back(self) -> list[int]:
        """Take out the tasks that were not begun, the last first; return their ids."""
        ids = []
        while True:
            try:
                ids.append(self.todo.pop()[0])
            except IndexError:
                return ids

    def take_outcomes(
        self,
    ) -> tuple[list[Any], list[Any], dict[int, tuple[Any, ...]], list[TaskSpan], list[TaskNote]]:
        """Take out what failed and what was deferred, and the times and notes of tasks."""
        failed, deferred = [], []
        while self.failed:
            failed.append(self.failed.popleft())
        while self.deferred:
            deferred.append(self.deferred.popleft())
        taken, self.times = self.times, {}
        times = {f: tuple(t) for f, t in tuple(taken.items())}  # the other thread may add to it
        return failed, deferred, times, self._take_spans(), self._take_notes()

    def _take_notes(self) -> list[TaskNote]:
        notes: list[TaskNote] = []
        while self._compiled:
            notes.append(self._compiled.popleft())
        if self._notes:
            taken, self._notes = self._notes, {}
            notes += [(*at, *seen) for at, seen in tuple(taken.items())]
        return notes

    def _take_spans(self) -> list[TaskSpan]:
        running = self._running  # it may be done: the other thread answers before the next is taken
        spans: list[TaskSpan] = [] if running is None else [(*running[:2], perf_counter(), None)]
        while self._spans:
            spans.append(self._spans.popleft())
        return spans


def entry(process: WorkerProcess, i: int, value: Any, flags: int) -> tuple[Any, ...]:
    """Return what the answer has of one result.

    If nobody has asked for it, the value goes along when it is small and nothing can go wrong.
    """
    is_there = bool(flags & calls.KEEP)
    if value.__class__ in IMMUTABLE and calls.is_short(value):
        return (i, PLAIN_KEPT if is_there else PLAIN, value)
    size = size_of(value)
    if flags & (calls.WANT | calls.SMALL):
        is_sent = flags & calls.WANT or size < process.least
    else:
        is_sent = size <= _SMALL and calls.travels_well(value)
    if is_sent:
        try:
            return (i, ENCODED_KEPT if is_there else ENCODED, *process.encode(value))
        except Unpicklable:
            if flags & calls.WANT:
                raise  # else it can be of use where it is
    return (i, KEPT, size)
