"""One execution of one plan: what is ready, what is held, what failed, and when it is over.

Any number of threads may be inside `Run.work` at once, and no lock guards the state:

    arrivals[i]   an iterator over one item less than task i has inputs. Each input that arrives
                  takes an item; whoever finds none is the last, and the task is his to run.
    releases[i]   the same over the uses of result i: whoever finds none drops the value.
    ready         a list used as a stack; ``pop`` gives a task to just one thread.

``next`` on a tuple's iterator is a single step under the interpreter lock, like ``list.pop``; it
was measured at 80 ns for a task with two inputs, a list of tokens popped until IndexError at
370. On builds without that lock it is not safe, and lazyflow does not claim those.

A thread that finishes a task goes on with one that it made ready, so chains and subtrees stay
in one thread and values die young. Whatever is rare (retries, failed inputs, values
that have to be copied, dropped futures) sits behind one test per task: is `odd` empty?
"""

from __future__ import annotations

import contextvars
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, COLLECTION, ITERATOR, LAZY, kinds, stored
from lazyflow.graph.plan import Plan, make_plan
from lazyflow.graph.task import HELD, place_text, task_name
from lazyflow.schedulers import careful
from lazyflow.schedulers.base import Request, Worker
from lazyflow.schedulers.failures import dressed, forget_context, is_users_interrupt
from lazyflow.schedulers.future import Future
from lazyflow.schedulers.ranked import Ranked
from lazyflow.schedulers.seats import asleep, here
from lazyflow.store.values import Taken

#: The scheduler whose task is running here: what a nested compute uses unless told otherwise.
scheduler_here: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "lazyflow_scheduler_here", default=None
)


_ONE = (None,)


def _counters(counts: list[int]) -> list[Iterator[None] | None]:
    return [
        None if k < 2 else iter(_ONE) if k == 2 else iter((None,) * (k - 1)) for k in counts
    ]


def doing(worker: Worker) -> str:
    """Say what a worker is doing, for people."""
    run, i = worker.run, worker.task
    if run is None or not 0 <= i < len(run.plan):
        return f"nothing (thread {worker.name})"
    task = run.plan.tasks[i]
    return f"{task_name(task)}, made at {place_text(task)} (thread {worker.name})"


class _Later:
    """Stands for a result that another run will deliver."""

    _lazyflow_kind = LAZY


LATER = _Later()


class Run:
    """One execution of a plan.

    Parameters
    ----------
    plan
        What to run; shared, never changed.
    request
        What the caller asked for.
    scheduler
        Who runs it; told of tasks that became ready.
    parent
        The run and task to which the only result goes: that task returned a lazy value.
    """

    def __init__(
        self,
        plan: Plan,
        request: Request,
        scheduler: Any,
        parent: tuple[Run, int] | None = None,
    ) -> None:
        self.plan = plan
        self.request = request
        self.scheduler = scheduler
        self.parent = parent
        #: Whatever the scheduler keeps with a run; a run made by a task shares its parent's.
        self.attached: Any = parent[0].attached if parent is not None else None
        self.deadline: float | None = parent[0].deadline if parent is not None else None
        self.values: list[Any] = [None] * plan.end
        self.arrivals = _counters(plan.needs)
        self.releases = _counters(
            [len(u) if u.__class__ is list else 1 for u in plan.consumers]
        )
        self.ready: Any = Ranked(plan) if plan.priorities else plan.ready.copy()
        self.stop: list[None] = []  # not empty: start nothing more
        self.leaf_values: dict[int, Any] = {}  # other values for leaves, in a rerun of a trace
        self.odd: list[Any] = []  # not empty: something rare is about, see careful.py
        self.copied: set[int] = set()  # results of which each consumer gets a copy
        self.failed: dict[int, BaseException] = {}
        self.futures: dict[int, weakref.ref[Future]] | None = None
        self.dropped: deque[int] = deque()  # wanted tasks whose futures died: finalizers append
        self.unneeded: set[int] = set()
        self.uses_left: list[int] | None = None  # made when the first future is dropped
        self.children: set[Run] = set()
        self.begun = False
        self.inside: set[Worker] = set()  # who is working on it
        self.error: BaseException | None = None
        self.context = contextvars.copy_context()
        self.context.run(scheduler_here.set, scheduler)
        self.observers = [o for o in request.observers if id(o) not in careful.broken_observers]
        self.on_start = careful.hearers(self.observers, "task_started")
        self.on_done = careful.hearers(self.observers, "task_ended")
        if plan.careful or request.check_mutation or self.deadline:
            self.odd.append(None)
        self._closing = [None]  # whoever pops it ends the run
        self._gate = threading.Lock()
        self._gate.acquire()

    # -- the life of a run ------------------------------------------------------------------

    def begin(self) -> None:
        """Deliver the leaves and offer what is ready. For the scheduler's `start`."""
        self.begun = True
        careful.tell(self, "run_started")
        plan = self.plan
        if not plan.outputs:
            self._complete()
            return
        made: list[int] = []
        pending: list[tuple[int, Future]] = []
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

    @property
    def over(self) -> bool:
        """Whether the run has ended: done, failed or cancelled."""
        return not self._closing

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until the run is over, or `timeout` seconds; tells which."""
        if here.worker is None:
            return self._sleep(timeout)
        with asleep():
            return self._sleep(timeout)

    def _sleep(self, timeout: float | None) -> bool:
        if self._gate.acquire(timeout=-1 if timeout is None else timeout):
            self._gate.release()
            return True
        return False

    def cancel(self, error: BaseException | None = None) -> None:
        """Start nothing more and end with `error` (a Cancelled unless given)."""
        self._fail(error if error is not None else Cancelled("the run was cancelled"))

    def task_name(self, i: int) -> str:
        """Return what messages call task `i`."""
        return task_name(self.plan.tasks[i])

    def running(self) -> list[str]:
        """Name the tasks that are running now: of this run, and of those its tasks started."""
        runs = [self]
        found: list[str] = []
        while runs:
            run = runs.pop()
            runs.extend(run.children)
            found.extend(doing(worker) for worker in tuple(run.inside) if worker.run is run)
        return found

    def _complete(self) -> None:
        try:
            self._closing.pop()
        except IndexError:
            return
        careful.tell(self, "run_ended")
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
        self._gate.release()

    def forget_values(self) -> None:
        """Hold nothing any more: the traceback of a failed task leads to its run."""
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
            except BaseException as bug:  # as a RecursionError: the others must hear of it still
                broken = bug
            finally:
                run._gate.release()
        if broken is not None:
            try:
                raise broken
            finally:
                del broken  # a frame that holds its own exception is a cycle

    def _quit(
        self, error: BaseException, todo: list[tuple[Run, BaseException]], replace_threads: bool
    ) -> None:
        self.stop.append(None)
        self.ready.clear()
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
            careful.tell(self, "run_ended")
            if replace_threads:
                self.scheduler.abandon(self)
        for reference in tuple((self.futures or {}).values()):
            future = reference()
            if future is not None:
                future.set_error(error)
        if parent is not None and parent[0].request.collect:
            parent[0].refuse(parent[1], error)

    def close_unneeded(self, replace_threads: bool) -> None:
        """End because nobody holds a future of this run any more."""
        self._fail(
            Cancelled("every result of the run was dropped before it was computed"),
            replace_threads,
        )

    def forget(self, i: int) -> None:
        """Learn that wanted task `i` was cancelled: what only it needed is not started."""
        self.dropped.append(i)
        self.odd.append(None)  # so that the loop looks
        careful.cull(self, replace_threads=True)

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
        finally:
            here.worker = before
            if worker.forked:  # the parent goes on with the run; its copy has nowhere to return to
                os._exit(0)
            self.inside.discard(worker)
            worker.run, worker.task = outer

    def _loop(self, worker: Worker) -> None:
        plan, values, arrivals, releases = self.plan, self.values, self.arrivals, self.releases
        tasks, inputs, consumers, end = plan.tasks, plan.inputs, plan.consumers, plan.end
        stop, odd, futures = self.stop, self.odd, self.futures
        on_start, on_done = self.on_start, self.on_done
        take = self.ready.pop
        ranked = self.ready if plan.priorities else None
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
                        if odd:
                            if worker.must_leave:
                                self._put_back([*own, i])
                                return
                            value = careful.call(self, i)
                            if stop:
                                return
                        else:
                            if on_start:
                                careful.hear(self, on_start, i)
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
                            if on_done:
                                careful.hear(self, on_done, i)
                    except BaseException as error:
                        value = self.recover(i, given, error)
                        if stop:
                            return
                    if stored[type(value)]:
                        value = self.keep(i, value)
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
        finally:
            # The traceback of a failed task has its frame, which knows this one as its caller:
            # while somebody keeps the exception, nothing may be held here.
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
        if self.plan.priorities:
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

    # -- what the loop does now and then ----------------------------------------------------

    def keep(self, i: int, value: Any) -> Any:
        """Return the form in which a result is stored; LATER when it has yet to be computed."""
        kind = kinds[type(value)]
        if kind == ARRAY:
            if value.flags.writeable and self.plan.consumers[i] != self.plan.end:
                return read_only(value)
            return value
        if kind in (LAZY, COLLECTION):
            return value if value is LATER else self._compute_instead(i, value)
        if kind == ITERATOR:
            if self.futures is None and self.plan.consumers[i].__class__ is int:
                return value  # one reader
            try:
                value = Taken(value)
            except BaseException as error:  # the rest of a generator's body ran just now
                return self._failed_late(i, error)
        self.copied.add(i)
        self.odd.append(None)
        return value

    def _compute_instead(self, i: int, lazy: Any) -> Any:
        """Let a run of its own make the result: task `i` returned a lazy value.

        Returns LATER, or None when no plan can be made of it: then the task failed. When that is
        the last thing this run has to do, its parent becomes the new run's: a loop of tasks
        that return tasks takes constant memory.
        """
        try:
            task = lazy if kinds[type(lazy)] == LAZY else lazy.__lazyflow_value__()
            plan = make_plan([task])
        except BaseException as error:
            return self._failed_late(i, error)
        parent: tuple[Run, int] = (self, i)
        only = len(self.plan.outputs) == 1 and self.plan.consumers[i] == self.plan.end
        is_last = only and self.parent is not None
        if is_last:
            assert self.parent is not None
            parent = self.parent
        child = self.context.copy().run(Run, plan, self.request, self.scheduler, parent)
        if is_last:
            try:
                self._closing.pop()
            except IndexError:
                return LATER
            parent[0].children.discard(self)
            careful.tell(self, "run_ended")
            self._gate.release()
        parent[0].children.add(child)
        if parent[0].stop:  # it was cancelled meanwhile, and did not see this child
            parent[0].children.discard(child)
            child.cancel()
        else:
            child.begin()
        return LATER

    def _failed_late(self, i: int, error: BaseException) -> None:
        if is_users_interrupt(error):
            raise error
        error = dressed(error, self.plan.tasks[i], None)
        careful.tell(self, "task_failed", i, error)
        self.note_failure(i, error)

    def recover(self, i: int, given: list[Any], error: BaseException) -> Any:
        """Retry a task that raised, or give its failure to whom it concerns."""
        if is_users_interrupt(error):
            self.cancel(Cancelled("interrupted"))
            raise error
        if self.over:  # nobody asks, and the values of the inputs may be gone
            self.stop.append(None)
            return None
        task = self.plan.tasks[i]
        left, first = task._options.retries, error
        while left and isinstance(error, Exception):
            left -= 1
            try:
                value = careful.call_once(task, given)
                careful.hear(self, self.on_done, i)
                return value
            except BaseException as again:
                if is_users_interrupt(again):
                    self.cancel(Cancelled("interrupted"))
                    raise
                forget_context(again, first)  # it would hold our frames, and so the values
                error = again
        error = dressed(error, task, given)
        careful.tell(self, "task_failed", i, error)
        self.note_failure(i, error)
        return None

    def note_failure(self, i: int, error: BaseException) -> None:
        """End the run with the error, or leave it to the users of the result."""
        if self.request.collect:
            self.failed[i] = error
            self.odd.append(None)
        else:
            self.stop.append(None)
            self._fail(error)

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
            if error is not None:
                future.set_error(error)
            else:
                future.set_value(value)
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

    def deliver(self, i: int, value: Any) -> None:
        """Take the result of task `i`, from any thread."""
        self._then_offer(self._arrive, i, value)

    def refuse(self, i: int, error: BaseException) -> None:
        """Take the (dressed) failure of task `i`, from any thread."""
        self.note_failure(i, error)
        if not self.stop:
            self._then_offer(self._arrive, i, None)

    def _deliver_future(self, i: int, future: Future) -> None:
        try:
            self._then_offer(self._arrive_future, i, future)
        except BaseException as error:  # for example Ctrl-C: the run would wait for ever
            self.cancel(Cancelled(f"an input could not be delivered: {type(error).__name__}"))
            raise

    def _then_offer(self, step: Callable[[int, Any, list[int]], None], i: int, what: Any) -> None:
        made: list[int] = []
        step(i, what, made)
        if made:
            made.reverse()
            self.ready.extend(made)
            self.scheduler.offer(self, len(made))

    def _arrive_future(self, i: int, future: Future, made: list[int]) -> None:
        value, error = future.outcome()
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


def _after_fork() -> None:
    """In the child of a fork inside a task: this thread belongs to no pool any more.

    The child may compute. When the task returns there, `Run.work` ends it: the run goes on in
    the parent only. (A fork under sync on the main thread is a plain fork of the program.)
    """
    worker, here.worker = here.worker, None
    while worker is not None:
        if worker.run is not None:
            worker.run.stop.append(None)
        worker.forked = True
        worker = worker.below


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
