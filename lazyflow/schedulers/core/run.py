"""One execution of one plan, which begins once and ends once.

`BaseRun` has the code common to all runs. `Run` has its tasks called by threads of this process;
the runs of worker processes and of engines are kinds of `OffloadedRun`. A run ends with its last
result, or early in `BaseRun._fail`; the thread that pops `_closing` ends it. A value is dropped
after its last use in `Run._loop`; `BaseRun.cull` finds tasks that only dropped futures needed.

State: `plan` and `request` never change. The thread that has the outcome of task i writes
``values[i]`` or ``failed[i]``; any thread may append to `stop`, `attention` and `dropped`; `cull`
alone writes `unneeded` and `uses_left`, under a lock. `BaseRun.__init__` has the types.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from types import CoroutineType
from typing import Any

from lazyflow.clock import NEVER, Deadline
from lazyflow.errors import Cancelled
from lazyflow.finalizers import Gone, gone
from lazyflow.graph import plan as plans
from lazyflow.graph.guards import is_open
from lazyflow.graph.items import itemized
from lazyflow.graph.kinds import ARRAY, COLLECTION, COPIED, ITERATOR, KEPT, LAZY, kinds, stored
from lazyflow.graph.plan import Plan, plan_of_lazy
from lazyflow.graph.task import HELD, task_name
from lazyflow.interrupts import Event, is_users_interrupt
from lazyflow.schedulers.core.base import MakesRuns, Observer, Request, Worker, provides
from lazyflow.schedulers.core.coroutines import cancel_all, cancels_of, finished
from lazyflow.schedulers.core.errors.failures import dressed, forget_context, keep_call, tell_of_bug
from lazyflow.schedulers.core.future import PENDING, TaskFuture
from lazyflow.schedulers.core.observing import RunObservers, tell_restored, tells_spilled
from lazyflow.schedulers.core.priorities import PriorityQueue
from lazyflow.schedulers.core.slow_calls import TaskCall, called, taken
from lazyflow.schedulers.core.snapshots import Watches, verify
from lazyflow.schedulers.core.task_resources import asleep, here, scheduler_here, task_over
from lazyflow.store.kept_values import keep
from lazyflow.store.protected import protected
from lazyflow.store.values import IteratorItems, locked, references

# -- a run of any kind --------------------------------------------------------------------

_cull_lock = threading.Lock()


class _DeliveredLater:
    """Stands for a result that another run will deliver."""

    _lazyflow_kind = LAZY


LATER = _DeliveredLater()


class BaseRun(ABC):
    """One execution of one plan, from its beginning to its end.

    Parameters
    ----------
    plan
        The plan to run; shared, never changed.
    request
        The options of the caller.
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
        self.edits = plans.watch_plan(plan) if plans.watch_plan is not None else None
        self.request = request
        self.scheduler = scheduler
        self.parent = parent
        #: Whatever the scheduler keeps with a run; a run made by a task shares its parent's.
        self.attached: Any = parent[0].attached if parent is not None else None
        self.deadline: Deadline = parent[0].deadline if parent is not None else NEVER
        self.values: list[Any] = [None] * plan.end
        self.stop: list[None] = []  # not empty: start nothing more
        self.leaf_values: dict[int, Any] = {}  # other values for leaves, in a rerun of a trace
        self.attention: Any = []  # not empty: tasks take the way of slow_calls.py
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
    def deliver_error(self, i: int, error: BaseException) -> None:
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
        """Have tasks, by number, check whether the caller has edited their arguments meanwhile."""
        self.watches = watches
        if watches:
            self.attention.append(None)

    def task_name(self, i: int) -> str:
        """Return the name of task `i` in messages."""
        return task_name(self.plan.tasks[i])

    def running(self) -> list[str]:
        """Name the tasks that are running now: of this run, and of those its tasks started."""
        runs = [self]
        names: list[str] = []
        while runs:
            run = runs.pop()
            runs.extend(run.children)
            names.extend(each.doing() for each in tuple(run.inside) if each.now()[0] is run)
        return names

    def _complete(self) -> None:
        if self.edits is not None and (edited := self.edits()) is not None:
            return self._fail(edited)
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
                parent[0].deliver_error(parent[1], self.failed[i])
            else:
                parent[0].deliver(parent[1], self.values[i])
        if parent is not None or self.futures is not None:  # else the caller takes the values
            self.drop_values()
        self._ended.set()

    def fetch(self) -> tuple[list[Any], dict[int, BaseException]]:
        """Take the outputs out of the run, and its failures by number, in the caller's thread.

        Values in other processes are brought here; raises if that is impossible.
        """
        outputs = [self.values[i] for i in self.plan.outputs]
        outputs = [each.opened() if kinds[type(each)] == KEPT else each for each in outputs]
        failed = self.failed
        self.drop_values()
        return outputs, failed

    def drop_values(self) -> None:
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
            parent[0].deliver_error(parent[1], error)

    def cancel_task(self, i: int) -> None:
        """Note that wanted task `i` was cancelled; tasks that only it needed are not started."""
        reference = (self.futures or {}).get(i)
        if reference is not None:
            self.dropped.append(reference)
        self.attention.append(None)  # so that the loop looks
        self.cull(replace_threads=True)

    def cull(self, replace_threads: bool = False) -> None:
        """Mark the tasks that only dropped futures needed, so that they never start.

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


# -- a run on threads of this process -----------------------------------------------------

_ONE = (None,)

#: References to a result that only the loop and `Run.keep` hold, as getrefcount counts them.
_FRESH = references(3)


def _counters(counts: list[int]) -> list[Iterator[None] | None]:
    return [
        None if k < 2 else iter(_ONE) if k == 2 else iter((None,) * (k - 1)) for k in counts
    ]


class Run(BaseRun):
    """A run whose tasks are called by threads of this process.

    Any number of threads may be inside `work` at once, and no lock guards the state:

        arrivals[i]   an iterator over one item less than task i has inputs. Each input that
                      arrives takes an item; the thread that finds none has the last input, and
                      runs the task.
        releases[i]   the same over the uses of result i: the thread that finds none drops the
                      value.
        ready         a list used as a stack; ``pop`` gives a task to just one thread.

    ``next`` on a tuple's iterator is a single step under the GIL, like ``list.pop``. It was
    measured at 80 ns for a task with two inputs; a list of tokens popped until IndexError took
    370. Without the GIL it is not safe, and lazyflow does not support such builds.

    A thread that finishes a task goes on with one that it made ready, so chains and subtrees stay
    in one thread and values die young. Rare cases (retries, failed inputs, values that have to
    be copied, dropped futures) take another path (slow_calls.py), behind one test per task: is
    `attention` empty?
    """

    def __init__(
        self, plan: Plan, request: Request, scheduler: Any, parent: tuple[Run, int] | None = None
    ) -> None:
        super().__init__(plan, request, scheduler, parent)
        if self.observers.on_ran:
            self.observers.time_here()
        self.arrivals = _counters(plan.needs)
        self.releases = _counters([len(u) if u.__class__ is list else 1 for u in plan.consumers])
        self.is_ranked = plan.by_number or bool(plan.priorities)
        self.ready: Any = PriorityQueue(plan) if self.is_ranked else plan.ready.copy()
        self.copied: set[int] = set()  # results of which each consumer gets a copy
        if plan.slow or request.check_mutation or self.deadline is not NEVER:
            self.attention.append(None)

    def _begin_tasks(self) -> None:
        """Deliver the leaves and offer the ready tasks."""
        plan = self.plan
        made: list[int] = []
        pending: list[tuple[int, TaskFuture]] = []
        for i in plan.leaves:
            task = plan.tasks[i]
            if task._func is not HELD:
                self._arrive(i, self.leaf_values.get(i, task._args[0]), made)
            elif task._args[0].done():
                self._arrive_future(i, task._args[0], made)
            else:
                pending.append((i, task._args[0]))
        if made:
            self.ready.extend(made)
            self.ready.sort(reverse=True)
        if self.ready:
            self.scheduler.offer(self, len(self.ready))
        for i, future in pending:
            future.add_callback(lambda f, i=i: self._deliver_future(i, f))  # type: ignore[misc]

    # -- the loop ---------------------------------------------------------------------------

    def work(self, worker: Worker) -> None:
        """Run ready tasks, and those they make ready, until none is left to take."""
        outer = worker.run, worker.task
        worker.run = self
        self.inside.add(worker)
        before = here.worker
        if before is not worker:
            worker.below = before
        here.worker = worker  # right before `try`, and taken back first: Ctrl-C comes after calls
        try:
            self._loop(worker)
        except Exception as bug:  # what tasks raise stays in the loop
            tell_of_bug(bug, self)
            raise
        finally:
            here.worker = before
            if here.uses:  # of a task whose end was not told, as the run is over
                task_over(self)
            if worker.forked:  # the parent goes on with the run; its copy has nowhere to return to
                os._exit(0)
            self.inside.discard(worker)
            worker.run, worker.task = outer

    def _loop(self, worker: Worker) -> None:
        plan, values, arrivals, releases = self.plan, self.values, self.arrivals, self.releases
        tasks, inputs, consumers, end = plan.tasks, plan.inputs, plan.consumers, plan.end
        stop, attention, futures = self.stop, self.attention, self.futures
        observers = self.observers
        on_start, on_end, timer = observers.on_start, observers.on_end, observers.timer
        alone: Any = observers if timer is None else timer.of(worker)
        take = self.ready.pop
        ranked = self.ready if self.is_ranked else None
        own: list[int] = []  # items and attributes of the last result: they stay in this thread
        try:
            while True:
                try:
                    i = own.pop() if own else take()
                except IndexError:
                    return
                while i >= 0:
                    if stop:
                        return
                    worker.task = i
                    task = tasks[i]
                    numbers = inputs[i]
                    given: list[Any] = []
                    try:
                        if attention:
                            if worker.must_leave:
                                self._put_back([*own, i])
                                return
                            value = self._call_slowly(i)
                            if stop:
                                return
                        else:
                            if on_start:
                                (observers if len(on_start) > 1 else alone).task_started(self, i)
                            if numbers is not None:
                                for j in numbers:
                                    given.append(values[j])
                                    left = releases[j]
                                    if left is None or next(left, True):
                                        values[j] = None
                            if task._bind is not None:
                                args, kwargs = task._bind.fill(given)
                                value = task._func(*args, **kwargs)
                                args = kwargs = None  # type: ignore[assignment]
                            else:
                                value = task._func(*(task._args if numbers is None else given))
                            if on_end and not stop:  # of a run that is over nothing more is told
                                (observers if len(on_end) > 1 else alone).task_ended(self, i)
                    except BaseException as error:
                        value = self._try_again(i, given, error)
                        if stop:
                            return
                    if stored[type(value)]:
                        value = self.keep(i, value, given)
                        if value is LATER:
                            break
                    values[i] = value
                    if futures is not None:
                        self._publish(i, value)
                    value = given = None  # type: ignore[assignment]  # hold nothing meanwhile
                    users = consumers[i]
                    if users.__class__ is not int:
                        i = self._pass_on(i, users, own)  # type: ignore[arg-type]
                    else:
                        i = -1
                        left = arrivals[users]
                        if left is None or next(left, True):
                            if users == end:
                                self._complete()
                            elif ranked is None:
                                i = users
                            else:
                                i = ranked.swap(users)
                                if i < 0:
                                    self.scheduler.offer(self, 1)
        finally:
            # The traceback of a failed task has its frame, which knows this one as its caller:
            # while the exception is kept, nothing may be held here.
            values = given = value = args = kwargs = None  # type: ignore[assignment]

    def _pass_on(self, i: int, users: list[int], own: list[int]) -> int:
        """Count result `i` in at each of its users; return the task to go on with, or -1."""
        arrivals, end = self.arrivals, self.plan.end
        made = []
        for user in users:
            left = arrivals[user]
            if left is None or next(left, True):
                if user == end:
                    self._complete()
                else:
                    made.append(user)
        if not made:
            return -1
        if self.is_ranked:
            self.ready.extend(made)
            self.scheduler.offer(self, len(made))
            return -1
        if len(made) == 1:
            return made[0]
        made.reverse()
        first = made.pop()
        heads = self.plan.heads
        if heads is not None:
            head = heads[i]
            own.extend([user for user in made if heads[user] == head])
            made = [user for user in made if heads[user] != head]
        if made:
            self.ready.extend(made)
            self.scheduler.offer(self, len(made))
        return first

    def _put_back(self, taken: list[int]) -> None:
        self.ready.extend(taken)
        self.scheduler.offer(self, len(taken))

    def _clear_queue(self) -> None:
        self.ready.clear()

    # -- rare steps of the loop -------------------------------------------------------------

    def keep(self, i: int, value: Any, given: Any = ()) -> Any:
        """Return the form in which a result is stored; LATER when it has yet to be computed."""
        kind, limit = kinds[type(value)], self.request.memory_limit
        is_read = self.plan.consumers[i] != self.plan.end  # by tasks
        if self.futures is None and not is_read:
            limit = None  # the caller gets it
        is_shared = is_read or limit is not None
        if kind == ARRAY:
            if is_shared and (value.flags.writeable or is_open(value)):
                value = locked(value, sys.getrefcount(value) <= _FRESH)
        elif kind in (LAZY, COLLECTION):
            return value if value is LATER else self._compute_instead(i, value)
        elif value.__class__ is CoroutineType:
            return self.keep(i, self._awaited(i, list(given), value))
        elif kind == ITERATOR:
            nout = self.plan.tasks[i]._options.nout
            if nout is None and self.has_one_reader(i):
                return value
            try:
                if nout is not None:
                    return self.keep(i, itemized(value, nout))
                value = protected(IteratorItems(value), True)
            except BaseException as error:  # the rest of a generator's body ran just now
                return self._failed_late(i, error)
        elif is_shared and kind != KEPT:
            value = protected(value, sys.getrefcount(value) <= _FRESH)
        if limit is not None:
            try:
                who = "persisted" if i in (self.futures or ()) else "runs"
                value = keep(value, limit, who, tells_spilled(self, i))  # which waits for room
            except BaseException as error:
                return self._failed_late(i, error)
        kind = kinds[type(value)]
        if kind in COPIED:
            self.copied.add(i)
        if kind in COPIED or kind == KEPT:
            self.attention.append(None)
        return value

    def has_one_reader(self, i: int) -> bool:
        """Tell whether exactly one task reads a result."""
        return self.futures is None and self.plan.consumers[i].__class__ is int

    def _call_slowly(self, i: int) -> Any:
        """Run task `i` with all checks; return its value, or None when it failed."""
        if self.deadline.is_over():
            self.stop.append(None)
            return None
        call = self._slow_call(i)
        if call is None:
            return None
        observers = self.observers
        if observers.on_start:
            observers.tell(Observer.task_started, self, i)
        try:
            value = call(call.last)
            verify(self.watches, i, call.task)
        except BaseException as error:
            self._stop_if_interrupted(error)
            given = call.given
            call.raw = call.given = []  # the error keeps frames alive that hold the call
            return self.fail_task(i, error, given)
        if observers.on_end:
            observers.tell(Observer.task_ended, self, i)
        return value

    def _slow_call(self, i: int) -> TaskCall | None:
        """Take the inputs of task `i` for its call; None when it need not run."""
        if self.dropped:
            self.cull()
            if self.stop:
                return None
        numbers = self.plan.inputs[i] or ()
        if self.observers.members:
            tell_restored(self.observers, self, i, map(self.values.__getitem__, numbers))
        raw, last = taken(self.values, self.releases, numbers)
        if self._is_moot(i, numbers):
            return None
        copied = self.copied
        shared = () if copied.isdisjoint(numbers) else [j in copied for j in numbers]
        return TaskCall(self, self.plan.tasks[i], raw, shared, last)

    def _is_moot(self, i: int, numbers: Sequence[int]) -> bool:
        """Tell whether task `i` need not run: it is unneeded, or fails since an input failed."""
        if not self.failed and not self.unneeded:
            return False
        failed = next((j for j in numbers if j in self.failed), None)
        if failed is not None:
            self.failed[i] = self.failed[failed]
        return failed is not None or i in self.unneeded

    def _awaited(self, i: int, given: list[Any], coroutine: Any) -> Any:
        """Return the value of a coroutine that task `i` returned, None if the task failed.

        It is LATER when the run has ended meanwhile.
        """
        try:
            return finished(coroutine)
        except BaseException as error:
            value = self._try_again(i, given, error)
            return LATER if self.stop else value

    def _try_again(self, i: int, given: list[Any], error: BaseException) -> Any:
        """Call a task again that raised in the loop; return its value, or None if it failed."""
        self._stop_if_interrupted(error)
        if self.over:  # the result is not needed, and the inputs may be gone
            self.stop.append(None)
            return None
        task = self.plan.tasks[i]
        left, first = task._options.retries, error
        while left and isinstance(error, Exception):
            left -= 1
            if here.uses:
                task_over(self)
            try:
                value = finished(called(task, given))
                self.observers.tell(Observer.task_ended, self, i)
                return value
            except BaseException as again:
                self._stop_if_interrupted(again)
                forget_context(again, first)  # it would keep these frames alive, and so the values
                error = again
        return self.fail_task(i, error, given)

    def _stop_if_interrupted(self, error: BaseException) -> None:
        """Cancel the run and raise the error, if it is the user's Ctrl-C and not the task's."""
        if is_users_interrupt(error):
            self.cancel(Cancelled("interrupted"))
            raise error

    def _publish(self, i: int, value: Any) -> None:
        """Set the future of a wanted result as soon as it is there."""
        assert self.futures is not None
        # Read before it is out of `futures`: another thread may end the run from there on.
        values, error = self.values, self.failed.get(i)
        reference = self.futures.pop(i, None)
        if reference is None:
            return
        future = reference()
        if future is not None:
            future.set_outcome(value, error)
        left = self.releases[i]
        if left is None or next(left, True):
            values[i] = None
        if not self.futures:
            self._complete()

    # -- single steps, for schedulers that run tasks elsewhere, and for leaves ---------------

    def take_ready(self) -> int:
        """Return a ready task, or -1."""
        try:
            return int(self.ready.pop())
        except IndexError:
            return -1

    def prepared(self, i: int) -> list[Any] | None:
        """Return the values of task `i`'s inputs as it may have them; None: it need not run."""
        call = self._slow_call(i)
        return None if call is None else call.values()

    def deliver(self, i: int, value: Any) -> None:
        """Take the result of task `i`, from any thread."""
        self._then_offer(self._arrive, i, value)

    def deliver_error(self, i: int, error: BaseException) -> None:
        """Take the (dressed) failure of task `i`, from any thread."""
        self.note_failure(i, error)
        if not self.stop:
            self._then_offer(self._arrive, i, None)

    def _deliver_future(self, i: int, future: TaskFuture, brings: bool = False) -> None:
        """Take the outcome of a future that leaf `i` stands for.

        A new thread fetches a value that is in another process: this thread may be the one that
        receives such values, and would wait for itself.
        """
        try:
            if future.is_elsewhere() and not brings:
                threading.Thread(
                    target=self._deliver_future, args=(i, future, True), name="lazyflow-fetch",
                    daemon=True,
                ).start()
            else:
                self._then_offer(self._arrive_future, i, future)
        except BaseException as error:  # for example Ctrl-C: the run would wait for ever
            self.cancel(Cancelled(f"an input could not be delivered: {type(error).__name__}"))
            raise

    def _then_offer(self, step: Callable[[int, Any, list[int]], None], i: int, result: Any) -> None:
        made: list[int] = []
        step(i, result, made)
        if made:
            made.reverse()
            self.ready.extend(made)
            self.scheduler.offer(self, len(made))

    def _arrive_future(self, i: int, future: TaskFuture, made: list[int]) -> None:
        value, error = future.outcome(as_kept=True)
        if error is None:
            self._arrive(i, value, made)
            return
        self.note_failure(i, error)
        if not self.stop:
            self._arrive(i, None, made)

    def _arrive(self, i: int, value: Any, made: list[int]) -> None:
        if stored[type(value)]:
            value = self.keep(i, value)
            if value is LATER:
                return
        values = self.values
        if not values:  # the run is over
            return
        values[i] = value
        if self.futures is not None:
            self._publish(i, value)
        for user in self.plan.uses(i):
            left = self.arrivals[user]
            if left is None or next(left, True):
                if user == self.plan.end:
                    self._complete()
                else:
                    made.append(user)


# -- a run whose tasks other processes call -----------------------------------------------


class OffloadedRun(BaseRun):
    """A run of a pool of processes or of an engine: one thread of that takes all its steps.

    Attributes
    ----------
    wanted
        Numbers of results that the caller waits for, and that are not there yet.
    """

    #: The class of results that stay where they are until `fetch` gets them.
    held_type: type

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.wanted: set[int] = set()

    def arrived(self, i: int, value: Any) -> None:
        """Take a result, or that it failed; nothing happens unless it is wanted.

        A value that was lost may come twice.
        """
        if i not in self.wanted:
            return
        self.wanted.discard(i)
        if self.futures is not None:
            reference = self.futures.pop(i, None)
            future = reference() if reference is not None else None
            if future is not None:
                future.set_outcome(value, self.failed.get(i))
        elif self.values:
            self.values[i] = value

    def fetch(self) -> tuple[list[Any], dict[int, BaseException]]:
        """Open the wanted values, in the caller's thread: that may run the user's code."""
        held, held_type = {}, self.held_type
        for i in self.plan.outputs:
            value = self.values[i]
            if issubclass(type(value), held_type) and i not in self.failed:
                held[i], self.values[i] = value, None
        self._bring(held.values())
        for i in tuple(held):
            try:
                self.values[i] = held.pop(i).get()
            except Exception as error:
                if not self.request.collect:
                    raise
                self.failed[i] = error
        return super().fetch()

    def _bring(self, held: Collection[Any]) -> None:
        """Copy held values here together, where that is quicker than one by one."""


# -- the one way to make a run of a plan --------------------------------------------------


def make_run(plan: Plan, request: Request, scheduler: Any) -> BaseRun:
    """Return a run that has not begun, of the class that its scheduler can wake and wait for.

    All runs are made here, but those of lazy values that tasks return: they have their parent's
    class.
    """
    if provides(scheduler, MakesRuns):
        made: BaseRun = scheduler.make_run(plan, request)
        return made
    return Run(plan, request, scheduler)
