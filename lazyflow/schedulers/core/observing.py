"""Events for the observers of runs: tasks, their times, and compilations in them.

An event is a method of `Observer` (base.py) and its arguments. `RunObservers.tell` tells most
events; loops that call tasks tell of starts and ends by methods of their own, which take half as
long. Compilations are told by Numba's own events.

    >>> from lazyflow.schedulers.core.base import Observer
    >>> class Mine(Observer):
    ...     def task_ended(self, run, i):
    ...         print("ended:", i)
    >>> RunObservers([Mine()]).tell(Observer.task_ended, None, 7)
    ended: 7

State, without locks, since each change is a single step of a list or dict::

    RunObservers.members, on_*     of a run; any thread removes an observer that raised
    WorkerTimer.running            tasks that a thread has begun; that thread, and the run's end
    TaskTimer._elsewhere           tasks that an executor has: when they began; any thread
    _broken, _broken_for_good      observers that raised, in any run: ignored since
    _known                         functions that hear Numba's events; only added to
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from time import perf_counter, thread_time
from typing import Any, Concatenate, ParamSpec, TypeAlias

from lazyflow.finalizers import WeakTable
from lazyflow.graph.kinds import KEPT, kinds
from lazyflow.interrupts import is_users_interrupt
from lazyflow.logs import log_failure
from lazyflow.schedulers.core.base import AnyRun, Observer, Worker
from lazyflow.schedulers.core.sampling import RunningTask
from lazyflow.schedulers.core.task_resources import here

P = ParamSpec("P")

_Hearing: TypeAlias = tuple[Any, Callable[..., object]]  # an observer, and the method to call


# -- how long the tasks of a run took, where threads of this process call them ------------

#: Seconds. A thread's CPU time costs half a microsecond to read, ten times its clock: a task or a
#: pause that is shorter than this is taken to have kept its thread busy.
SHORT = 20e-6


class WorkerTimer:
    """Times the tasks of a run in one worker's thread, and tells `observers` of each.

    While there is no other observer of starts or ends, the loop of the run calls these methods in
    place of those of `RunObservers`.

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
            self._observers.tell(Observer.task_ran, run, i, self._name, start, end, cpu, None)


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

    def _ran(self, run: AnyRun, i: int, name: str, start: float, end: float) -> None:
        self._observers.tell(Observer.task_ran, run, i, name, start, end, None, None)

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
            self._ran(run, i, str(run.scheduler.name), start, end)

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        self.task_ended(run, i)

    def run_ended(self, run: AnyRun) -> None:
        now = perf_counter()  # the ends of tasks that run now are not told
        for worker, timer in tuple(self._workers.items()):
            try:
                i, start = timer.running.pop()
            except IndexError:
                continue
            self._ran(run, i, worker.name, start, now)
        while self._elsewhere:
            try:
                i, start = self._elsewhere.popitem()
            except KeyError:  # another thread had the last one
                return
            self._ran(run, i, str(run.scheduler.name), start, now)


#: Observers that raised: logged then, ignored since. By identity, as an observer may not be
#: hashable (a dataclass, for example).
_broken: WeakTable[Any, list[None]] = WeakTable()
#: Those that have no weak references, by id: they are held so that their ids are not reused.
_broken_for_good: dict[int, tuple[Any, list[None]]] = {}


# -- observers of a run -------------------------------------------------------------------


class _Keeper:
    """Adds the times of tasks to the list of an observer that keeps them."""

    __slots__ = ("append",)

    def __init__(self, append: Callable[[tuple[Any, ...]], object]) -> None:
        self.append = append

    def __call__(self, run: AnyRun, *span: Any) -> None:
        self.append(span)


_nowhere = _Keeper(bool)  # for times before an observer has called `keep_times`


class RunObservers:
    """The observers of one run, or of several runs that are one piece of work.

    A run without observers looks at one empty list per task. `on_start`, `on_end` and `on_ran`
    have only the observers that override the method, each with that method, or with the function
    that keeps times: see `keep_times`. The lists are changed in place and never replaced, since
    running loops hold them.
    """

    __slots__ = ("_often", "members", "on_end", "on_ran", "on_start", "timer")

    def __init__(self, observers: Iterable[Any] = ()) -> None:
        self.members = [
            o for o in observers if _broken.get(o) is None and id(o) not in _broken_for_good
        ]
        self.on_start: list[_Hearing] = []
        self.on_end: list[_Hearing] = []
        self.on_ran: list[_Hearing] = []
        self._often = {
            "task_started": self.on_start, "task_ended": self.on_end, "task_ran": self.on_ran,
        }
        self.timer: TaskTimer | None = None
        if self.members:
            for event, heard in self._often.items():
                heard += self._overriding(event)
            self.on_ran += [(o, _nowhere) for o, keeps in self._asked("keeps_times") if keeps]

    def tell(
        self, event: Callable[Concatenate[Any, P], object], *details: P.args, **named: P.kwargs
    ) -> None:
        """Call a method of `Observer`, the event, on all observers that override it."""
        name = event.__name__
        hearing = self._often.get(name)
        for observer, method in self._overriding(name) if hearing is None else tuple(hearing):
            try:
                method(*details, **named)
            except BaseException as error:  # SystemExit too: it would end the thread
                self._drop(observer, name, error)

    # The loop of a run calls these two for starts and ends, as those of `WorkerTimer`: `tell`
    # takes twice as long.

    def task_started(self, run: AnyRun, i: int) -> None:
        """Tell of the start of a task."""
        for observer, method in tuple(self.on_start):
            try:
                method(run, i)
            except BaseException as error:
                self._drop(observer, "task_started", error)

    def task_ended(self, run: AnyRun, i: int) -> None:
        """Tell of the end of a task."""
        for observer, method in tuple(self.on_end):
            try:
                method(run, i)
            except BaseException as error:
                self._drop(observer, "task_ended", error)

    @property
    def sampling(self) -> float:
        """The seconds between two samples of tasks in other processes; 0: no samples."""
        return min([asked for _, asked in self._asked("sampling") if asked], default=0.0)

    def time_here(self) -> None:
        """Have the tasks timed that threads of this process call."""
        self.timer = timer = TaskTimer(self)
        self.members.insert(0, timer)  # a task has run before its failure is told
        self.on_start.append((timer, timer.task_started))
        self.on_end.insert(0, (timer, timer.task_ended))

    def keep_times(self, observer: Observer, kept: list[tuple[Any, ...]]) -> None:
        """Have the times of tasks added to a list: see `Observer.keeps_times`."""
        keeper = _Keeper(kept.append)
        self.on_ran[:] = [(o, keeper if o is observer else method) for o, method in self.on_ran]

    def only_keeper(self) -> Callable[[tuple[Any, ...]], object] | None:
        """Return the `append` of the only list, if no other observer is told of times."""
        method = self.on_ran[0][1] if len(self.on_ran) == 1 else None
        return method.append if isinstance(method, _Keeper) else None

    def add(self, observer: Observer) -> None:
        """Have an observer hear of the ends of tasks from now on, unless it does already."""
        if not any(o is observer for o in self.members):
            self.members.append(observer)
            self.on_end.append((observer, observer.task_ended))

    def clear(self) -> None:
        """Remove all observers."""
        for heard in (self.members, *self._often.values()):
            heard.clear()

    def _asked(self, name: str) -> list[tuple[Any, Any]]:
        """Return the observers that have an attribute, each with its value."""
        found = []
        for observer in tuple(self.members):
            try:
                found.append((observer, getattr(observer, name)))
            except AttributeError:
                pass
            except BaseException as error:
                self._drop(observer, name, error)
        return found

    def _overriding(self, event: str) -> list[_Hearing]:
        """Return the observers that override a method of `Observer`, each with its method."""
        empty = getattr(Observer, event)
        return [
            (o, method) for o, method in self._asked(event)
            if method is not None and getattr(method, "__func__", method) is not empty
        ]

    def _drop(self, observer: Any, event: str, error: BaseException) -> None:
        """Ignore an observer that raised, in this run and later ones; log its first error."""
        if is_users_interrupt(error):
            raise error
        self.members[:] = [o for o in self.members if o is not observer]
        for pairs in self._often.values():
            pairs[:] = [pair for pair in pairs if pair[0] is not observer]
        mine: list[None] = []  # made here, so that just one of several threads finds it there
        try:
            first = _broken.setdefault(observer, mine)
        except TypeError:
            first = _broken_for_good.setdefault(id(observer), (observer, mine))[1]
        if first is mine:
            log_failure(observer, event, error)


# -- values beyond the memory limit --------------------------------------------------------


def tells_spilled(run: Any, i: int) -> Callable[[int, int, float], object] | None:
    """Return a function that tells of values written to make room for task `i`, if observed."""
    observers = run.observers
    if not observers.members:
        return None
    return lambda *what: observers.tell(Observer.values_spilled, run, i, *what)


def tell_restored(observers: RunObservers, run: Any, i: int, inputs: Iterable[Any]) -> None:
    """Tell how much of the inputs of task `i` is read from a file, if anything is."""
    if size := sum(value.in_file() for value in inputs if kinds[type(value)] == KEPT):
        observers.tell(Observer.values_restored, run, i, size)


# -- compilation in tasks -----------------------------------------------------------------
#
# How long Numba compiled, by its own events: the observers of the task in that thread are told.
#
# This does not import Numba. The first observer adds a listener, which stays: to remove it while
# another thread compiles could lose an event of another listener.

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
        tell = worker.run.observers.tell
        tell(Observer.task_compiled, worker.run, worker.task, seconds)
