"""How long the tasks of a run took, where threads of this process call them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident
from time import perf_counter, thread_time
from typing import Any

from lazyflow.schedulers.core.base import AnyRun, Observer, Worker
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.sampling import RunningTask

#: Seconds. A thread's CPU time costs half a microsecond to read, ten times its clock: a task or a
#: pause that is shorter than this is taken to have kept its thread busy.
SHORT = 20e-6


class TaskTimer(Observer):
    """Tells `observers` (a `RunObservers`) of each task of a run where and when it was called."""

    def __init__(self, observers: Any) -> None:
        self._observers = observers
        self._running: dict[int, tuple[Worker | None, float, float]] = {}
        #: For each worker a moment and the CPU time that its thread had used by then.
        self._read: dict[Worker, tuple[float, float]] = {}
        self._threads: dict[Worker, int] = {}

    def running(self, run: AnyRun) -> Iterator[RunningTask]:
        """Yield the tasks that threads of this process run now, named by run and number."""
        for i, (worker, start, _) in self._running.copy().items():
            if worker is not None:
                yield RunningTask(self._threads[worker], (run, i), start)

    def task_started(self, run: AnyRun, i: int) -> None:
        worker: Worker | None = here.worker
        if worker is None or worker.run is not run:  # an executor has it
            self._running[i] = None, perf_counter(), 0.0
            return
        start = perf_counter()
        last = self._read.get(worker)
        if last is None or start - last[0] > SHORT:
            self._threads[worker] = get_ident()
            cpu = thread_time()
            start = perf_counter()
        else:
            cpu = last[1] + start - last[0]
        self._running[i] = worker, start, cpu

    def task_ended(self, run: AnyRun, i: int) -> None:
        end = perf_counter()
        known = self._running.pop(i, None)
        if known is None:  # the run was over before
            return
        worker, start, before = known
        if worker is None:
            self._observers.task_ran(run, i, str(run.scheduler.name), start, end, None, None)
            return
        cpu = end - start
        if cpu > SHORT:
            after = thread_time()
            self._read[worker] = end, after
            cpu = min(cpu, max(0.0, after - before))
        else:
            self._read[worker] = end, before + cpu
        self._observers.task_ran(run, i, worker.name, start, end, cpu, None)

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        self.task_ended(run, i)

    def run_ended(self, run: AnyRun) -> None:
        now = perf_counter()
        while self._running:  # nobody hears of their ends
            try:
                i, (worker, start, _) = self._running.popitem()
            except KeyError:  # another thread had the last one
                return
            name = str(run.scheduler.name) if worker is None else worker.name
            self._observers.task_ran(run, i, name, start, now, None, None)
