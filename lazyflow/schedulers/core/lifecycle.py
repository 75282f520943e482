"""The part of a run that is the same wherever its tasks run: it begins once and ends once.

A run ends when its last result is there, when a task fails, when it is cancelled, or when no
result is wanted any more. The thread that pops `_closing` ends it, so it ends once. How tasks
run is for subclasses: `Run` (run.py) for threads of this process, and `OffloadedRun` (remote/) for
others, of which `RemoteRun` (processes/) and `EngineRun` (cluster/) are kinds.

Its observers stand first. An event is a method of `Observer` (base.py) and what that is called
with; `RunObservers.tell` tells the events of runs, tasks, actors and pieces of work, also those
that other processes reported. Loops that call tasks tell of starts and ends by methods of their
own.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from time import perf_counter, thread_time
from typing import Any, Concatenate, ParamSpec, TypeAlias

from lazyflow.errors import Cancelled
from lazyflow.finalizers import Gone, WeakTable, gone
from lazyflow.graph.kinds import LAZY, kinds
from lazyflow.graph.plan import Plan, make_plan
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.interrupts import Event, is_users_interrupt
from lazyflow.schedulers.core.base import AnyRun, Observer, Request, Worker
from lazyflow.schedulers.core.coroutines import cancel_all, cancels_of
from lazyflow.schedulers.core.errors.failures import dressed, keep_call
from lazyflow.schedulers.core.future import PENDING, TaskFuture
from lazyflow.schedulers.core.sampling import RunningTask
from lazyflow.schedulers.core.snapshots import Watches
from lazyflow.schedulers.core.task_resources import asleep, here

P = ParamSpec("P")

_Hearing: TypeAlias = tuple[Any, Callable[..., object]]  # an observer, and what an event calls


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
        now = perf_counter()  # nobody hears of the ends of tasks that run now
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


_nowhere = _Keeper(bool)  # of times that come before somebody keeps them


class RunObservers:
    """The observers of one run, or of what several runs are.

    A run without observers looks at one empty list per task. `on_start`, `on_end` and `on_ran`
    have only the observers that override the method, each with that method, or with what keeps
    times: see `keep_times`. The lists are changed in place and never replaced, since running loops
    hold them.
    """

    __slots__ = ("_often", "members", "on_end", "on_ran", "on_start", "timer")

    def __init__(self, observers: Iterable[Any] = ()) -> None:
        self.members = [
            o for o in observers if _broken.get(o) is None and id(o) not in _broken_for_good
        ]
        self.on_start = _overriding(self.members, "task_started")
        self.on_end = _overriding(self.members, "task_ended")
        self.on_ran = _overriding(self.members, "task_ran")
        self.on_ran += [(o, _nowhere) for o in self.members if getattr(o, "keeps_times", False)]
        self._often = {
            "task_started": self.on_start, "task_ended": self.on_end, "task_ran": self.on_ran,
        }
        self.timer: TaskTimer | None = None

    def tell(
        self, event: Callable[Concatenate[Any, P], object], *details: P.args, **named: P.kwargs
    ) -> None:
        """Call a method of `Observer`, which is the event, of all observers that override it."""
        name = event.__name__
        hearing = self._often.get(name)
        for observer, method in tuple(
            _overriding(self.members, name) if hearing is None else hearing
        ):
            try:
                method(*details, **named)
            except BaseException as error:  # SystemExit too: it would end the thread
                self._drop(observer, name, error)

    # Of starts and ends the loop of a run tells by these, as of `WorkerTimer`: twice as quick.

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
        """The seconds between two looks at tasks in other processes; 0: nobody asks for them."""
        asked = [getattr(observer, "sampling", 0.0) for observer in self.members]
        return min(filter(None, asked), default=0.0)

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
        """Return the `append` of the only list, if nobody else is told of times."""
        method = self.on_ran[0][1] if len(self.on_ran) == 1 else None
        return method.append if isinstance(method, _Keeper) else None

    def add(self, observer: Observer) -> None:
        """Have an observer hear of the ends of tasks from now on, unless it does already."""
        if not any(o is observer for o in self.members):
            self.members.append(observer)
            self.on_end.append((observer, observer.task_ended))

    def clear(self) -> None:
        """Remove all observers."""
        for each in (self.members, *self._often.values()):
            each.clear()

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


def _overriding(observers: list[Any], event: str) -> list[_Hearing]:
    """Return the observers that override a method of `Observer`, each with its method."""
    empty = getattr(Observer, event)
    return [
        (o, method)
        for o in observers
        if getattr(method := getattr(o, event, None) or empty, "__func__", method) is not empty
    ]


# -- compilation in tasks -----------------------------------------------------------------
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
        tell = worker.run.observers.tell
        tell(Observer.task_compiled, worker.run, worker.task, seconds)


# -- the life of a run --------------------------------------------------------------------

#: The scheduler whose task is running here: what a nested compute uses unless told otherwise.
scheduler_here: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "lazyflow_scheduler_here", default=None
)


_cull_lock = threading.Lock()


def doing(worker: Worker) -> str:
    """Describe what a worker is doing."""
    run, i = worker.now()
    if run is None or not 0 <= i < len(run.plan):
        return f"nothing ({worker.kind} {worker.name})"
    task = run.plan.tasks[i]
    return f"{task_name(task)}, made at {place_text(task)} ({worker.kind} {worker.name})"


class _DeliveredLater:
    """Stands for a result that another run will deliver."""

    _lazyflow_kind = LAZY


LATER = _DeliveredLater()


def task_of(lazy: Any) -> Task:
    """Return the task of a lazy value, or of a collection as a whole."""
    task: Task = lazy if kinds[type(lazy)] == LAZY else lazy.__lazyflow_value__()
    return task


def plan_of_lazy(lazy: Any) -> Plan:
    """Return the plan of a lazy value, or of a collection, that a task returned."""
    return make_plan([task_of(lazy)])


class Lifecycle(ABC):
    """One execution of one plan, from its beginning to its end.

    Parameters
    ----------
    plan
        What to run; shared, never changed.
    request
        What the caller asked for.
    scheduler
        The scheduler that runs it.
    parent
        The run and task to which the only result goes: that task returned a lazy value.
    """

    #: The engine that runs it elsewhere and may find it can't go on: see `future.wait_watching`.
    engine: Any = None

    def __init__(
        self,
        plan: Plan,
        request: Request,
        scheduler: Any,
        parent: tuple[Any, int] | None = None,
    ) -> None:
        self.plan = plan
        self.request = request
        self.scheduler = scheduler
        self.parent = parent
        #: Whatever the scheduler keeps with a run; a run made by a task shares its parent's.
        self.attached: Any = parent[0].attached if parent is not None else None
        self.deadline: float | None = parent[0].deadline if parent is not None else None
        self.values: list[Any] = [None] * plan.end
        self.stop: list[None] = []  # not empty: start nothing more
        self.leaf_values: dict[int, Any] = {}  # other values for leaves, in a rerun of a trace
        self.attention: Any = []  # not empty: look before each task, by the slow path
        self.watches: Watches = {}  # of tasks that read large arrays, by their numbers
        self.failed: dict[int, BaseException] = {}
        self.futures: dict[int, Gone] | None = None  # of wanted tasks, by their numbers
        self.dropped: deque[Gone] = deque()  # of `futures`, those that died
        self._watched: list[Gone] = []
        self.unneeded: set[int] = set()
        self.uses_left: list[int] | None = None  # made when the first future is dropped
        self.children: set[Any] = set()
        self.begun = False
        self.inside: set[Worker] = set()  # the workers that work on it now
        self.error: BaseException | None = None
        self.context = contextvars.copy_context()
        self.context.run(scheduler_here.set, scheduler)
        self.observers = RunObservers(request.observers)
        self._closing = [None]  # the thread that pops it ends the run
        self._ended = Event()

    # -- for subclasses ---------------------------------------------------------------------

    def begin(self) -> None:
        """Put the run in motion; return soon."""
        self.begun = True
        if self.observers.members:
            self.observers.tell(Observer.run_started, self)
        if self.plan.outputs:
            self._begin_tasks()
        else:
            self._complete()

    @abstractmethod
    def _begin_tasks(self) -> None:
        """Have the tasks run."""

    @abstractmethod
    def deliver(self, i: int, value: Any) -> None:
        """Accept the result of task `i`; called by any thread."""

    @abstractmethod
    def refuse(self, i: int, error: BaseException) -> None:
        """Accept the (dressed) failure of task `i`; called by any thread."""

    def _clear_queue(self) -> None:
        """Forget the ready tasks: none will be started any more."""
        return

    # -- the end ----------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the run has ended: done, failed or cancelled."""
        return not self._closing

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the run is over (True), or `timeout` seconds have passed (False)."""
        if here.worker is None or self._ended.wait(0):
            return self._ended.wait(timeout)
        with asleep():
            return self._ended.wait(timeout)

    def cancel(self, error: BaseException | None = None) -> None:
        """Start nothing more and end with `error` (a Cancelled unless given)."""
        self._fail(error if error is not None else Cancelled("the run was cancelled"))

    def watch(self, watches: Watches) -> None:
        """Have the tasks of some numbers look whether what they read was changed meanwhile."""
        self.watches = watches
        if watches:
            self.attention.append(None)

    def task_name(self, i: int) -> str:
        """Return the name of task `i` in messages."""
        return task_name(self.plan.tasks[i])

    def running(self) -> list[str]:
        """Name the tasks that are running now: of this run, and of those its tasks started."""
        runs = [self]
        found: list[str] = []
        while runs:
            run = runs.pop()
            runs.extend(run.children)
            found.extend(doing(worker) for worker in tuple(run.inside) if worker.now()[0] is run)
        return found

    def _complete(self) -> None:
        try:
            self._closing.pop()
        except IndexError:
            return
        if self.observers.members:
            self.observers.tell(Observer.run_ended, self)
        parent = self.parent
        if parent is not None:
            parent[0].children.discard(self)
            i = self.plan.outputs[0]
            if i in self.failed:
                parent[0].refuse(parent[1], self.failed[i])
            else:
                parent[0].deliver(parent[1], self.values[i])
        if parent is not None or self.futures is not None:  # else the caller takes the values
            self.forget_values()
        self._ended.set()

    def fetch(self) -> tuple[list[Any], dict[int, BaseException]]:
        """Take the outputs out of the run, and its failures by number, in the caller's thread.

        What is in other processes is brought here; raise if that is impossible.
        """
        found = [self.values[i] for i in self.plan.outputs], self.failed
        self.forget_values()
        return found

    def forget_values(self) -> None:
        """Drop the values and errors: the traceback of a failed task leads to its run."""
        self.error = None
        self.values, self.failed = [], {}

    def _fail(self, error: BaseException, replace_threads: bool = True) -> None:
        """End with an error, and so the runs under this one and the one it made a result for.

        Without recursion: tasks that return lazy values make a chain of runs of any length.
        """
        todo = [(self, error)]
        broken = None
        while todo:
            run, error = todo.pop()
            try:
                run._closing.pop()
            except IndexError:
                continue
            try:
                run._quit(error, todo, replace_threads)
            except BaseException as bug:  # such as RecursionError: the others must still end
                broken = bug
            finally:
                run._ended.set()
        if broken is not None:
            try:
                raise broken
            finally:
                del broken  # a frame that holds its own exception is a cycle

    def _quit(
        self, error: BaseException, todo: list[tuple[Any, BaseException]], replace_threads: bool
    ) -> None:
        self.stop.append(None)
        self._clear_queue()
        parent = self.parent
        if parent is None:
            self.error = error
        else:
            parent[0].children.discard(self)
            if not parent[0].request.collect:
                todo.append((parent[0], error))
        # Not `error` itself: a task of the child may be waiting and raise it there, while the
        # caller raises it here, and both would write to its traceback.
        todo.extend((child, Cancelled("the task that asked for it was given up"))
                    for child in tuple(self.children))
        if self.begun:
            self.observers.tell(Observer.run_ended, self)
            if replace_threads:
                self.scheduler.abandon(self)
                cancel_all(cancels_of(self))
        for reference in tuple((self.futures or {}).values()):
            future = reference()
            if future is not None:
                future.set_error(error)
        if parent is not None and parent[0].request.collect:
            parent[0].refuse(parent[1], error)

    def forget(self, i: int) -> None:
        """Note that wanted task `i` was cancelled; tasks that only it needed are not started."""
        reference = (self.futures or {}).get(i)
        if reference is not None:
            self.dropped.append(reference)
        self.attention.append(None)  # so that the loop looks
        self.cull(replace_threads=True)

    def cull(self, replace_threads: bool = False) -> None:
        """Mark the tasks that only dropped futures needed, so that they are not started.

        The uses of each task are counted down as in reference counting; a task without any is
        unneeded, and so it uses its inputs no more. When nothing is needed the run ends: tasks
        that run just finish, and `replace_threads` tells whether others get their threads at once.
        """
        with _cull_lock:
            if self.futures is None:
                return
            if self.uses_left is None:
                self.uses_left = [len(self.plan.uses(i)) for i in range(self.plan.end)]
            self._count_down(self.futures, self.uses_left)
            is_over = not self.futures
        if is_over:
            error = Cancelled("every result of the run was dropped before it was computed")
            self._fail(error, replace_threads)

    def _count_down(self, futures: dict[int, Gone], uses: list[int]) -> None:
        todo = []
        while self.dropped:
            i = self.dropped.popleft().then
            if futures.pop(i, None) is not None:
                todo.append(i)
        while todo:
            i = todo.pop()
            uses[i] -= 1
            if uses[i] == 0:
                self.unneeded.add(i)
                todo.extend(self.plan.inputs[i] or ())

    def hear_of_drops(self, futures: dict[int, TaskFuture]) -> None:
        """Have the threads that run this look when one of its futures was dropped.

        Python calls the newest callback first, so the number of the future is noted before any
        thread is asked to look.
        """
        callbacks, then = self._on_drop()
        watched = self._watched
        for i, future in futures.items():
            if future.state is PENDING:
                watched += [gone(future, callback, then) for callback in callbacks]
                watched.append(gone(future, self.dropped.append, i))

    def _on_drop(self) -> tuple[list[Callable[[Any], Any]], Any]:
        """Return functions written in C, to call in reverse order, and their argument."""
        return [self.attention.append], None

    def note_failure(self, i: int, error: BaseException) -> None:
        """End the run with the error, or leave it to the users of the result."""
        self._keep_call(i, error, None)
        if self.request.collect:
            self.failed[i] = error
            self.attention.append(None)
        elif not self.stop:  # else it ends with an error of its own, which may have led to this one
            self.stop.append(None)
            self._fail(error)

    def _keep_call(self, i: int, error: BaseException, given: list[Any] | None) -> None:
        tasks = self.plan.tasks
        leaves = {tasks[j]: value for j, value in self.leaf_values.items()}
        keep_call(error, tasks[i], given, leaves)

    def _failed_late(self, i: int, error: BaseException) -> None:
        if is_users_interrupt(error):
            raise error
        self.fail_task(i, error, None)

    def fail_task(self, i: int, error: BaseException, given: list[Any] | None) -> None:
        """Note that task `i` raised for good, with the values `given` as inputs (None: unknown)."""
        error = dressed(error, self.plan.tasks[i], given)
        self._keep_call(i, error, given)
        self.observers.tell(Observer.task_failed, self, i, error)
        self.note_failure(i, error)

    def _compute_instead(self, i: int, lazy: Any) -> Any:
        """Let a run of its own make the result: task `i` returned a lazy value.

        Returns LATER, or None when no plan can be made of it: then the task failed. When that is
        the last thing this run has to do, its parent becomes the new run's: a loop of tasks
        that return tasks takes constant memory.
        """
        try:
            plan = plan_of_lazy(lazy)
        except BaseException as error:
            return self._failed_late(i, error)
        parent: tuple[Any, int] = (self, i)
        only = len(self.plan.outputs) == 1 and self.plan.consumers[i] == self.plan.end
        is_last = only and self.parent is not None
        if is_last:
            assert self.parent is not None
            parent = self.parent
        child = self.context.copy().run(type(self), plan, self.request, self.scheduler, parent)
        if is_last:
            try:
                self._closing.pop()
            except IndexError:
                return LATER
            parent[0].children.discard(self)
            self.observers.tell(Observer.run_ended, self)
            self._ended.set()
        parent[0].children.add(child)
        if parent[0].stop:  # it ends, with an error of its own, and did not see this child
            parent[0].children.discard(child)
        else:
            child.begin()
        return LATER
