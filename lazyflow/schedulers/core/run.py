"""One execution of one plan by threads of this process.

Any number of threads may be inside `Run.work` at once, and no lock guards the state:

    arrivals[i]   an iterator over one item less than task i has inputs. Each input that arrives
                  takes an item; the thread that finds none has the last input, and runs the task.
    releases[i]   the same over the uses of result i: the thread that finds none drops the value.
    ready         a list used as a stack; ``pop`` gives a task to just one thread.

``next`` on a tuple's iterator is a single step under the interpreter lock, like ``list.pop``; it
was measured at 80 ns for a task with two inputs, a list of tokens popped until IndexError at
370. On builds without that lock it is not safe, and lazyflow does not claim those.

A thread that finishes a task goes on with one that it made ready, so chains and subtrees stay
in one thread and values die young. Whatever is rare (retries, failed inputs, values
that have to be copied, dropped futures) sits behind one test per task: is `attention` empty?
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from types import CoroutineType
from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.graph.guards import is_open
from lazyflow.graph.items import itemized
from lazyflow.graph.kinds import ARRAY, COLLECTION, COPIED, ITERATOR, LAZY, kinds, stored
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.core import slow_path
from lazyflow.schedulers.core.base import Request, Worker
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import LATER, Lifecycle
from lazyflow.schedulers.core.priorities import PriorityQueue
from lazyflow.schedulers.core.task_resources import task_over
from lazyflow.store.protected import protected
from lazyflow.store.values import IteratorItems, locked, references

_ONE = (None,)

#: References to a result that only the loop and `Run.keep` hold, as getrefcount counts them.
_FRESH = references(3)


def _counters(counts: list[int]) -> list[Iterator[None] | None]:
    return [
        None if k < 2 else iter(_ONE) if k == 2 else iter((None,) * (k - 1)) for k in counts
    ]


class Run(Lifecycle):
    """A run whose tasks are called by threads of this process.

    Parameters are those of `Lifecycle`.
    """

    def __init__(
        self,
        plan: Plan,
        request: Request,
        scheduler: Any,
        parent: tuple[Run, int] | None = None,
    ) -> None:
        super().__init__(plan, request, scheduler, parent)
        if self.observers.on_ran:
            self.observers.time_here()
        self.arrivals = _counters(plan.needs)
        self.releases = _counters([len(u) if u.__class__ is list else 1 for u in plan.consumers])
        self.ready: Any = PriorityQueue(plan) if plan.priorities else plan.ready.copy()
        self.copied: set[int] = set()  # results of which each consumer gets a copy
        if plan.slow or request.check_mutation or self.deadline:
            self.attention.append(None)

    def begin(self) -> None:
        """Deliver the leaves and offer what is ready. For the scheduler's `start`."""
        self.begun = True
        self.observers.run_started(self)
        plan = self.plan
        if not plan.outputs:
            self._complete()
            return
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
        finally:
            here.worker = before
            if here.uses:  # of a task of which nobody heard that it ended, as the run is over
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
        on_start, on_end, alone = observers.on_start, observers.on_end, observers.alone_in(worker)
        take = self.ready.pop
        prioritized = self.ready if plan.priorities else None
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
                            if on_end and not stop:  # nobody hears of a run that is over
                                (observers if len(on_end) > 1 else alone).task_ended(self, i)
                    except BaseException as error:
                        value = slow_path.retried(self, i, given, error)
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
                            elif prioritized is None:
                                i = users
                            else:
                                i = prioritized.swap(users)
                                if i < 0:
                                    self.scheduler.offer(self, 1)
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

    def _clear_queue(self) -> None:
        self.ready.clear()

    # -- what the loop does now and then ----------------------------------------------------

    def keep(self, i: int, value: Any, given: Any = ()) -> Any:
        """Return the form in which a result is stored; LATER when it has yet to be computed."""
        kind = kinds[type(value)]
        if kind == ARRAY:
            can_change = value.flags.writeable or is_open(value)
            if not can_change or self.plan.consumers[i] == self.plan.end:
                return value
            return locked(value, sys.getrefcount(value) <= _FRESH)
        if kind in (LAZY, COLLECTION):
            return value if value is LATER else self._compute_instead(i, value)
        if value.__class__ is CoroutineType:
            return self.keep(i, slow_path.awaited(self, i, list(given), value))
        if kind != ITERATOR and self.plan.consumers[i] != self.plan.end:  # tasks read it
            value = protected(value, sys.getrefcount(value) <= _FRESH)
        if kind == ITERATOR:
            nout = self.plan.tasks[i]._options.nout
            if nout is None and self.has_one_reader(i):
                return value
            try:
                if nout is not None:
                    return self.keep(i, itemized(value, nout))
                value = protected(IteratorItems(value), True)
            except BaseException as error:  # the rest of a generator's body ran just now
                return self._failed_late(i, error)
        elif kind not in COPIED:
            return value
        self.copied.add(i)
        self.attention.append(None)
        return value

    def has_one_reader(self, i: int) -> bool:
        """Tell whether one task alone reads a result."""
        return self.futures is None and self.plan.consumers[i].__class__ is int

    def _call_slowly(self, i: int) -> Any:
        """Run task `i` with everything looked at; return its value, or None when it failed."""
        if self.deadline is not None and monotonic() >= self.deadline:
            self.stop.append(None)
            return None
        call = self._slow_call(i)
        return None if call is None else slow_path.made_by(self, i, call)

    def _slow_call(self, i: int) -> slow_path.TaskCall | None:
        """Take the inputs of task `i` for its call; None when it need not run."""
        if self.dropped:
            self.cull()
            if self.stop:
                return None
        numbers = self.plan.inputs[i] or ()
        raw, last = slow_path.taken(self.values, self.releases, numbers)
        if slow_path.is_moot(self, i, numbers):
            return None
        copied = self.copied
        shared = () if copied.isdisjoint(numbers) else [j in copied for j in numbers]
        return slow_path.TaskCall(self, self.plan.tasks[i], raw, shared, last)

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

    def prepared(self, i: int) -> list[Any] | None:
        """Return the values of task `i`'s inputs as it may have them; None: it need not run."""
        call = self._slow_call(i)
        return None if call is None else call.values()

    def deliver(self, i: int, value: Any) -> None:
        """Take the result of task `i`, from any thread."""
        self._then_offer(self._arrive, i, value)

    def refuse(self, i: int, error: BaseException) -> None:
        """Take the (dressed) failure of task `i`, from any thread."""
        self.note_failure(i, error)
        if not self.stop:
            self._then_offer(self._arrive, i, None)

    def _deliver_future(self, i: int, future: TaskFuture, brings: bool = False) -> None:
        """Take the outcome of a future that leaf `i` stands for.

        A value of another process is brought here by a thread of its own: the one that tells of
        it may be the one through which it has to come.
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

    def _then_offer(self, step: Callable[[int, Any, list[int]], None], i: int, what: Any) -> None:
        made: list[int] = []
        step(i, what, made)
        if made:
            made.reverse()
            self.ready.extend(made)
            self.scheduler.offer(self, len(made))

    def _arrive_future(self, i: int, future: TaskFuture, made: list[int]) -> None:
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
