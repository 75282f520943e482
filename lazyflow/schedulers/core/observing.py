"""The observers of a run, and how events reach them."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from time import perf_counter, thread_time
from typing import Any

from lazyflow.departures import WeakTable
from lazyflow.schedulers.core.base import AnyRun, Observer, Worker
from lazyflow.schedulers.core.errors.failures import is_users_interrupt
from lazyflow.schedulers.core.sampling import RunningTask
from lazyflow.schedulers.core.task_resources import here

# -- `ProgramObserver`: hears also what belongs to no run, or to several ------------------


class ProgramObserver(Observer):
    """Watches, beside runs, what the program around them does.

    Its methods are called in the thread that the program computes in, unless they say otherwise.
    """

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        """Hear of the arrays that the next run of this thread makes.

        Each is a tuple: code and offset of the user's line; what made it; the number of its blocks
        that are computed; bytes of the largest, about.
        """

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        """Hear what the caller of `compute` gets of a run, after its end, by outputs."""

    def call_made(self, call: Any) -> None:
        """Hear that a method of an actor is called, or its constructor: see `WatchedCall`."""

    def call_ended(self, call: Any) -> None:
        """Hear that such a call is over, in whichever thread has its outcome."""

    def work_started(self, work: Any) -> None:
        """Hear that several runs of this thread begin that are one piece of work, as a fit.

        `work` has a name and a unit, how many of these are done as count, and a text; see
        `lazyflow.api.works`.
        """

    def work_went_on(self, work: Any) -> None:
        """Hear that count and text of a piece of work have changed."""

    def work_ended(self, work: Any) -> None:
        """Hear that a piece of work is over."""


# -- how long the tasks of a run took, where threads of this process call them ------------

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


#: Observers that raised: logged then, ignored since. By identity, as an observer may not be
#: hashable (a dataclass, for example).
_broken: WeakTable[Any, list[None]] = WeakTable()
#: Those that have no weak references, by id: they are held so that their ids are not reused.
_broken_for_good: dict[int, tuple[Any, list[None]]] = {}

_nowhere = deque[Any](maxlen=0).append  # times that come before somebody keeps them


class RunObservers:
    """The observers of one run.

    A run without observers looks at one empty list per task. `on_start`, `on_end` and `on_ran`
    have only the observers that override the method, each with that method; in `on_ran` stands
    also whether it takes the event as one tuple, see `keep_times`. The lists are changed in place
    and never replaced, since running loops hold them.
    """

    __slots__ = ("members", "on_end", "on_ran", "on_start", "timer")

    def __init__(self, observers: Iterable[Any] = ()) -> None:
        self.members = [
            o for o in observers if _broken.get(o) is None and id(o) not in _broken_for_good
        ]
        self.on_start = _overriding(self.members, "task_started")
        self.on_end = _overriding(self.members, "task_ended")
        self.on_ran: list[tuple[Any, Callable[..., object], bool]] = [
            *((*pair, False) for pair in _overriding(self.members, "task_ran")),
            *((o, _nowhere, True) for o in self.members if getattr(o, "keeps_times", False)),
        ]
        self.timer: TaskTimer | None = None

    @property
    def sampling(self) -> float:
        """The seconds between two looks at tasks in other processes; 0: nobody asks for them."""
        asked = [getattr(observer, "sampling", 0.0) for observer in self.members]
        return min(filter(None, asked), default=0.0)

    def time_here(self) -> None:
        """Have the tasks timed that threads of this process call."""
        self.timer = timer = TaskTimer(self)
        self.members.insert(0, timer)  # a task has run before its failure is told
        self.on_start.append((timer, timer.task_started))
        self.on_end.insert(0, (timer, timer.task_ended))

    def alone_in(self, worker: Worker) -> RunObservers | WorkerTimer:
        """Return what to tell of a start or end of which just one hears, in a worker's thread."""
        return self if self.timer is None else self.timer.of(worker)

    def keep_times(self, observer: Observer, kept: list[tuple[Any, ...]]) -> None:
        """Have the times of tasks added to a list: see `Observer.keeps_times`."""
        self.on_ran[:] = [
            (o, kept.append, True) if o is observer else (o, *rest) for o, *rest in self.on_ran
        ]

    def only_keeper(self) -> Callable[[tuple[Any, ...]], object] | None:
        """Return the `append` of the only list, if nobody else is told of times."""
        return self.on_ran[0][1] if len(self.on_ran) == 1 and self.on_ran[0][2] else None

    def add(self, observer: Observer) -> None:
        """Have an observer hear of the ends of tasks from now on, unless it does already."""
        if not any(o is observer for o in self.members):
            self.members.append(observer)
            self.on_end.append((observer, observer.task_ended))

    def clear(self) -> None:
        """Remove all observers."""
        for each in (self.members, self.on_start, self.on_end, self.on_ran):
            each.clear()

    def run_started(self, run: AnyRun) -> None:
        """Tell observers that the run begins."""
        self._tell(run, "run_started")

    def run_ended(self, run: AnyRun) -> None:
        """Tell observers that the run is over."""
        self._tell(run, "run_ended")

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        """Tell observers of the arrays that the next run makes."""
        self._tell(arrays, "arrays_planned", kind=ProgramObserver)

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        """Tell observers what a caller got of the run."""
        self._tell(run, "values_returned", values, kind=ProgramObserver)

    def work_started(self, work: Any) -> None:
        """Tell observers that a piece of work begins."""
        self._tell(work, "work_started", kind=ProgramObserver)

    def work_went_on(self, work: Any) -> None:
        """Tell observers how far a piece of work is."""
        self._tell(work, "work_went_on", kind=ProgramObserver)

    def work_ended(self, work: Any) -> None:
        """Tell observers that a piece of work is over."""
        self._tell(work, "work_ended", kind=ProgramObserver)

    def call_made(self, call: Any) -> None:
        """Tell observers that an actor is called."""
        self._tell(call, "call_made", kind=ProgramObserver)

    def call_ended(self, call: Any) -> None:
        """Tell observers that the call of an actor is over."""
        self._tell(call, "call_ended", kind=ProgramObserver)

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        """Tell observers that a task failed for good."""
        self._tell(run, "task_failed", i, error)

    def task_moved(self, run: AnyRun, i: int, size: int) -> None:
        """Tell observers what was sent to the process of a task."""
        self._tell(run, "task_moved", i, size)

    def task_compiled(self, run: AnyRun, i: int, seconds: float) -> None:
        """Tell observers how long Numba compiled in a task."""
        self._tell(run, "task_compiled", i, seconds)

    def task_sampled(self, run: AnyRun, i: int, stack: Any, looks: int, seconds: float) -> None:
        """Tell observers where a task in another process was."""
        self._tell(run, "task_sampled", i, stack, looks, seconds)

    def task_started(self, run: AnyRun, i: int) -> None:
        """Tell observers that a task is about to be called."""
        for observer, method in tuple(self.on_start):
            try:
                method(run, i)
            except BaseException as error:
                self._drop(observer, "task_started", error)

    def task_ended(self, run: AnyRun, i: int) -> None:
        """Tell observers that a task returned."""
        for observer, method in tuple(self.on_end):
            try:
                method(run, i)
            except BaseException as error:
                self._drop(observer, "task_ended", error)

    def task_ran(
        self, run: AnyRun, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        """Tell observers where and when a task was called."""
        for observer, method, is_append in tuple(self.on_ran):
            try:
                if is_append:
                    method((i, worker, start, end, cpu, size))
                else:
                    method(run, i, worker, start, end, cpu, size)
            except BaseException as error:
                self._drop(observer, "task_ran", error)

    def _tell(
        self, subject: Any, event: str, *details: Any, kind: type[Any] = object
    ) -> None:
        for observer in tuple(self.members):
            if not isinstance(observer, kind):
                continue
            try:
                getattr(observer, event)(subject, *details)
            except BaseException as error:  # SystemExit too: it would end the thread
                self._drop(observer, event, error)

    def _drop(self, observer: Any, event: str, error: BaseException) -> None:
        """Ignore an observer that raised, in this run and later ones; log its first error."""
        if is_users_interrupt(error):
            raise error
        self.members[:] = [o for o in self.members if o is not observer]
        self.on_ran[:] = [one for one in self.on_ran if one[0] is not observer]
        for pairs in (self.on_start, self.on_end):
            pairs[:] = [pair for pair in pairs if pair[0] is not observer]
        mine: list[None] = []  # made here, so that just one of several threads finds it there
        try:
            first = _broken.setdefault(observer, mine)
        except TypeError:
            first = _broken_for_good.setdefault(id(observer), (observer, mine))[1]
        if first is not mine:
            return
        import logging

        try:
            logging.getLogger("lazyflow").error(
                "the observer %s failed in %s and is not called again; results are not affected",
                type(observer).__name__, event, exc_info=error,
            )
        except Exception:  # a log handler that raises must not change results either
            pass


def _overriding(
    observers: list[Any], event: str
) -> list[tuple[Any, Callable[..., None]]]:
    """Return the observers that override a method of `Observer`, each with its method."""
    empty = getattr(Observer, event)
    return [
        (o, method)
        for o in observers
        if getattr(method := getattr(o, event, None) or empty, "__func__", method) is not empty
    ]


# -- compiling ----------------------------------------------------------------------------
#
# How long Numba compiled, by its own events: told to whoever runs the task in whose thread.
#
# Numba is not imported for it, and nothing is listened to before somebody observes. What listens
# stays: taking it away while another thread compiles could lose an event of another listener.

_known: set[Callable[[float], None]] = set()


def listen(tell: Callable[[float], None] | None = None) -> None:
    """Have `tell` called with the seconds of each compilation, in its thread, if Numba is there.

    Without `tell`, the observers of the run are told whose task the thread runs. It may be called
    again and again, since a task may be the first to import Numba.
    """
    tell = tell or _tell_observers
    events: Any = sys.modules.get("numba.core.event")
    # It is there before all of it is, while another thread imports it.
    if tell in _known or events is None or not hasattr(events, "trigger_event"):
        return
    _known.add(tell)
    times = _Times(tell)
    listener = type("CompileListener", (events.Listener,), {
        "on_start": lambda self, event: times.began(),
        "on_end": lambda self, event: times.ended(),
    })
    events.register("numba:compile", listener())


class _Times(threading.local):
    """The compilations of a thread, one inside the other: the outermost one is timed."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._began: list[float] = []

    def began(self) -> None:
        self._began.append(perf_counter())

    def ended(self) -> None:
        if self._began:  # else it began before this listened
            began = self._began.pop()
            if not self._began:
                self._tell(perf_counter() - began)


def _tell_observers(seconds: float) -> None:
    worker: Worker | None = here.worker
    if worker is not None and worker.run is not None and worker.task >= 0:
        worker.run.observers.task_compiled(worker.run, worker.task, seconds)
