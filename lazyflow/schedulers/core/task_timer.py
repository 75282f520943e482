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


class WorkerTimer:
    """Times the tasks of a run in one worker's thread, and tells `observers` of each.

    It has what the loop of the run calls while nobody else hears of starts or ends, in place of
    the methods of `RunObservers`.

    Attributes
    ----------
    running
        The number of the task that runs now, and its start. It is a list, as just one thread can
        take the item out: that of the task, or the one that ends the run.
    """

    __slots__ = ("_cpu", "_keep", "_name", "_observers", "_read", "running", "thread")

    def __init__(self, worker: Worker, observers: Any) -> None:
        self.running: list[tuple[int, float]] = []
        self.thread = get_ident()
        self._name = worker.name
        self._observers = observers
        self._keep = observers.only_keeper()
        self._read = self._cpu = 0.0  # a moment, and the CPU time that the thread had used by then

    def task_started(self, run: AnyRun, i: int) -> None:
        """Note that this thread is about to call task `i`."""
        start = perf_counter()
        if start - self._read > SHORT:
            self._cpu = thread_time()
            self._read = start = perf_counter()
        self.running.append((i, start))

    def task_ended(self, run: AnyRun, i: int) -> None:
        """Tell where and when task `i` was called, unless that was told at the run's end."""
        end = perf_counter()
        try:
            i, start = self.running.pop()
        except IndexError:
            return
        cpu = end - start
        if cpu > SHORT:
            before, self._cpu = self._cpu + start - self._read, thread_time()
            cpu = min(cpu, max(0.0, self._cpu - before))
        else:
            self._cpu += end - self._read
        self._read = end
        keep = self._keep
        if keep is not None:
            keep((i, self._name, start, end, cpu, None))
        else:
            self._observers.task_ran(run, i, self._name, start, end, cpu, None)


class TaskTimer(Observer):
    """Tells `observers` (a `RunObservers`) of each task of a run where and when it was called."""

    def __init__(self, observers: Any) -> None:
        self._observers = observers
        self._workers: dict[Worker, WorkerTimer] = {}
        self._elsewhere: dict[int, float] = {}  # when tasks began that an executor has

    def of(self, worker: Worker) -> WorkerTimer:
        """Return the timer of a worker's thread, which calls this."""
        known = self._workers.get(worker)
        if known is None:
            known = self._workers[worker] = WorkerTimer(worker, self._observers)
        return known

    def _here(self, run: AnyRun) -> WorkerTimer | None:
        worker: Worker | None = here.worker
        return None if worker is None or worker.run is not run else self.of(worker)

    def running(self, run: AnyRun) -> Iterator[RunningTask]:
        """Yield the tasks that threads of this process run now, named by run and number."""
        for timer in tuple(self._workers.values()):
            for i, start in tuple(timer.running):
                yield RunningTask(timer.thread, (run, i), start)

    def task_started(self, run: AnyRun, i: int) -> None:
        timer = self._here(run)
        if timer is not None:
            timer.task_started(run, i)
        else:
            self._elsewhere[i] = perf_counter()

    def task_ended(self, run: AnyRun, i: int) -> None:
        timer = self._here(run)
        if timer is not None:
            timer.task_ended(run, i)
            return
        end = perf_counter()
        start = self._elsewhere.pop(i, None)
        if start is not None:  # else the run was over before
            self._observers.task_ran(run, i, str(run.scheduler.name), start, end, None, None)

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        self.task_ended(run, i)

    def run_ended(self, run: AnyRun) -> None:
        now = perf_counter()  # nobody hears of the ends of tasks that run now
        for worker, timer in tuple(self._workers.items()):
            try:
                i, start = timer.running.pop()
            except IndexError:
                continue
            self._observers.task_ran(run, i, worker.name, start, now, None, None)
        while self._elsewhere:
            try:
                i, start = self._elsewhere.popitem()
            except KeyError:  # another thread had the last one
                return
            self._observers.task_ran(run, i, str(run.scheduler.name), start, now, None, None)
