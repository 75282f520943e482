"""The part of a run that is the same wherever its tasks run: it begins once and ends once.

A run ends when its last result is there, when a task fails, when it is cancelled, or when no
result is wanted any more. The thread that pops `_closing` ends it, so it ends once. How tasks
run is for subclasses: `Run` (run.py) for threads of this process, `RemoteRun` (processes/) and
`EngineRun` (cluster/) for others.
"""

from __future__ import annotations

import contextvars
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from lazyflow.departures import Gone, gone
from lazyflow.errors import Cancelled
from lazyflow.graph.kinds import LAZY, kinds
from lazyflow.graph.plan import Plan, make_plan
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.base import Request, Worker
from lazyflow.schedulers.core.coroutines import cancel_all, cancels_of
from lazyflow.schedulers.core.errors.failures import dressed, is_users_interrupt, keep_call
from lazyflow.schedulers.core.event import Event
from lazyflow.schedulers.core.future import PENDING, TaskFuture
from lazyflow.schedulers.core.observing import RunObservers
from lazyflow.schedulers.core.snapshots import Watches
from lazyflow.schedulers.core.task_resources import asleep, here

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


def plan_of(lazy: Any) -> Plan:
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

    @abstractmethod
    def begin(self) -> None:
        """Put the run in motion; return soon."""

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
        self.observers.run_ended(self)
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

    def fetch(self) -> None:
        """Bring the wanted values here, in the caller's thread; raise if that is impossible."""
        return

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
            self.observers.run_ended(self)
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
        self.observers.task_failed(self, i, error)
        self.note_failure(i, error)

    def _compute_instead(self, i: int, lazy: Any) -> Any:
        """Let a run of its own make the result: task `i` returned a lazy value.

        Returns LATER, or None when no plan can be made of it: then the task failed. When that is
        the last thing this run has to do, its parent becomes the new run's: a loop of tasks
        that return tasks takes constant memory.
        """
        try:
            plan = plan_of(lazy)
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
            self.observers.run_ended(self)
            self._ended.set()
        parent[0].children.add(child)
        if parent[0].stop:  # it ends, with an error of its own, and did not see this child
            parent[0].children.discard(child)
        else:
            child.begin()
        return LATER
