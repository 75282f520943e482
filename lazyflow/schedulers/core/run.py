"""One execution of one plan by threads of this process.

Any number of threads may be inside `Run.work` at once, and no lock guards the state:

    arrivals[i]   an iterator over one item less than task i has inputs. Each input that arrives
                  takes an item; the thread that finds none has the last input, and runs the task.
    releases[i]   the same over the uses of result i: the thread that finds none drops the value.
    ready         a list used as a stack; ``pop`` gives a task to just one thread.

``next`` on a tuple's iterator is a single step under the GIL, like ``list.pop``; it
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from types import CoroutineType
from typing import Any

from lazyflow.errors import Cancelled, InputMutated
from lazyflow.graph.arguments import Binder
from lazyflow.graph.guards import is_open
from lazyflow.graph.items import check_length, itemized
from lazyflow.graph.kinds import ARRAY, COLLECTION, COPIED, ITERATOR, LAZY, kinds, stored
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD, Task, place_text, task_name
from lazyflow.interrupts import is_users_interrupt
from lazyflow.schedulers.core.base import MakesRuns, Observer, Request, Worker, provides
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.errors.failures import forget_context
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import LATER, Lifecycle
from lazyflow.schedulers.core.priorities import PriorityQueue
from lazyflow.schedulers.core.snapshots import verify
from lazyflow.schedulers.core.task_resources import here, task_over
from lazyflow.store.protected import editable, protected
from lazyflow.store.values import IteratorItems, consumer_copy, locked, references

# -- calls with copies, retries and checks ------------------------------------------------
#
# Calls with everything that the quick loops must not pay for: copies, retries, checks.
#
# `Run` takes this path while its list `attention` is not empty, for example when a value has to be
# copied for each consumer or an input failed; workers of other processes take it for tasks with
# unusual options (`remote.calls.RecordCall`).

#: Options that few tasks have: retries, mutates, nout, and whether mutation is checked.
Special = tuple[int, bool, int | None, bool]


class SlowCall(ABC):
    """One call of a task's function, with all its options.

    Attributes
    ----------
    run
        The run to which a failed try returns its resources; None outside of `Run`.
    raw
        The stored values of the inputs.
    copied
        For each input, whether the task gets a copy of its own; if empty, it gets no copies.
    special
        The options that few tasks have; None for most tasks.
    given
        The inputs that the function got at the last try, for the note of a failure.
    """

    run: Any = None
    raw: list[Any]
    copied: Sequence[bool]
    special: Special | None
    given: list[Any]

    @abstractmethod
    def call_once(self) -> Any:
        """Call the function with the values `given` as its inputs."""

    @abstractmethod
    def literals(self) -> list[Any]:
        """Return the arguments that are no inputs, for the check of mutation."""

    @abstractmethod
    def name(self) -> str:
        """Return the name of the task in messages."""

    @abstractmethod
    def place(self) -> str:
        """Return where the task was made, in words."""

    def __call__(self, last: Sequence[bool]) -> Any:
        """Return the result, after as many tries as the task may have.

        ``last[k]`` tells that no other task will need input k.
        """
        if self.special is None:
            self.given = self._private()
            return self.call_once()
        left, mutates, nout, check = self.special
        while True:
            try:
                self.given = self._editable(None if left else last) if mutates else (
                    self._private())
                before = self._contents() if check and not mutates else None
                value = finished(self.call_once())
                if before is not None:
                    self._compare(before)
                if nout is not None and (value.__class__ is not tuple or len(value) != nout):
                    value = itemized(value, nout)
                    check_length(value, nout, self.name())
                return value
            except Exception:
                if not left:
                    raise
                if here.uses:
                    task_over(self.run)
            left -= 1

    def values(self) -> list[Any]:
        """Return the values of the inputs for a call elsewhere, which may be made again."""
        if self.special is not None and self.special[1]:
            return self._editable(None)
        return self._private()

    def _private(self) -> list[Any]:
        """Return the values, with copies of those that others share and the task may edit."""
        if True not in self.copied:
            return self.raw
        return [consumer_copy(v) if c else v for v, c in zip(self.raw, self.copied, strict=True)]

    def _editable(self, last: Sequence[bool] | None) -> list[Any]:
        """Return values that the task may edit: all copied if `last` is None, for more tries."""
        if last is None:
            return [editable([value], False) for value in self.raw]
        given = []
        for at, is_last in enumerate(last):
            box, self.raw[at] = [self.raw[at]], None
            given.append(editable(box, is_last))
        return given

    def _compare(self, before: list[tuple[str, str]]) -> None:
        for (where, token), (_, now) in zip(before, self._contents(), strict=True):
            if token != now:
                raise InputMutated(
                    f"{self.name()} changed its {where} in place. Other tasks share that value: "
                    f"copy it first, or say delayed({self.name()}, mutates=True) to get a private "
                    f"one. Made at {self.place()}"
                )

    def _contents(self) -> list[tuple[str, str]]:
        named = [(f"input {at}", v) for at, v in enumerate(self.raw)]
        named += [(f"literal argument {at}", v) for at, v in enumerate(self.literals())]
        return list(_contents(named))


def _contents(named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each name with its value's content hash, which is empty if the value has none."""
    from lazyflow.graph.tokens.tokenize import tokenize

    for name, value in named:
        try:
            yield name, tokenize(value, strict=True)
        except TypeError:
            yield name, ""


def literals_of(binder: Binder) -> list[Any]:
    """Return the items of a binder's templates."""
    return [*binder.template, *(template for _, template, _, _ in binder.makers)]


def _called(task: Task, given: list[Any]) -> Any:
    if task._bind is None:
        return task._func(*(given if task._inputs else task._args))
    args, kwargs = task._bind.fill(given)
    try:
        return task._func(*args, **kwargs)
    finally:
        del args, kwargs  # an error may keep the frame alive, see `Run._loop`


class TaskCall(SlowCall):
    """The slow call of a task in this process.

    last
        For each input, whether no other task will ask for it.
    """

    def __init__(
        self, run: Lifecycle, task: Task, raw: list[Any], copied: Sequence[bool], last: list[bool]
    ) -> None:
        self.run = run
        self.task = task
        self.raw = self.given = raw
        self.copied = copied
        self.last = last
        options, check = task._options, run.request.check_mutation
        self.special = None
        if options.retries or options.mutates or options.nout is not None or check:
            self.special = options.retries, options.mutates, options.nout, check

    def call_once(self) -> Any:
        return _called(self.task, self.given)

    def literals(self) -> list[Any]:
        binder = self.task._bind
        return list(self.task._args) if binder is None else literals_of(binder)

    def name(self) -> str:
        return task_name(self.task)

    def place(self) -> str:
        return place_text(self.task)


def taken(
    values: list[Any], releases: list[Iterator[None] | None], numbers: Sequence[int]
) -> tuple[list[Any], list[bool]]:
    """Take the stored values of some inputs, and tell of each whether no other task needs it."""
    raw: list[Any] = []
    last: list[bool] = []
    for j in numbers:
        raw.append(values[j])  # before the token is taken: the last token's taker drops it
        left = releases[j]
        is_last = left is None or next(left, True) is True
        last.append(is_last)
        if is_last:
            values[j] = None
    return raw, last


def is_moot(run: Lifecycle, i: int, numbers: Sequence[int]) -> bool:
    """Tell whether a task need not run: it is unneeded, or has failed since an input failed."""
    if not run.failed and not run.unneeded:
        return False
    failed = next((j for j in numbers if j in run.failed), None)
    if failed is not None:
        run.failed[i] = run.failed[failed]
    return failed is not None or i in run.unneeded


def made_by(run: Lifecycle, i: int, call: TaskCall) -> Any:
    """Make the call of task `i`, with its observers; return its value, or None if it failed."""
    observers = run.observers
    if observers.on_start:
        observers.tell(Observer.task_started, run, i)
    try:
        value = call(call.last)
        verify(run.watches, i, call.task)
    except BaseException as error:
        return _failed(run, i, call, error)
    if observers.on_end:
        observers.tell(Observer.task_ended, run, i)
    return value


def _stop_if_interrupted(run: Lifecycle, error: BaseException) -> None:
    """Cancel the run and raise the error, if it is the user's Ctrl-C and not the task's."""
    if is_users_interrupt(error):
        run.cancel(Cancelled("interrupted"))
        raise error


def _failed(run: Lifecycle, i: int, call: TaskCall, error: BaseException) -> None:
    _stop_if_interrupted(run, error)
    given = call.given
    call.raw = call.given = []  # the error keeps frames alive that hold the call
    run.fail_task(i, error, given)


def awaited(run: Lifecycle, i: int, given: list[Any], coroutine: Any) -> Any:
    """Return the value of a coroutine that task `i` returned, None if the task failed.

    It is LATER when the run has ended meanwhile.
    """
    try:
        return finished(coroutine)
    except BaseException as error:
        value = retried(run, i, given, error)
        return LATER if run.stop else value


def retried(run: Lifecycle, i: int, given: list[Any], error: BaseException) -> Any:
    """Try a task again that raised in the quick loop; return its value, or None if it failed."""
    _stop_if_interrupted(run, error)
    if run.over:  # no one needs the result, and the inputs may be gone
        run.stop.append(None)
        return None
    task = run.plan.tasks[i]
    left, first = task._options.retries, error
    while left and isinstance(error, Exception):
        left -= 1
        if here.uses:
            task_over(run)
        try:
            value = finished(_called(task, given))
            run.observers.tell(Observer.task_ended, run, i)
            return value
        except BaseException as again:
            _stop_if_interrupted(run, again)
            forget_context(again, first)  # it would keep these frames alive, and so the values
            error = again
    run.fail_task(i, error, given)
    return None


# -- runs ---------------------------------------------------------------------------------

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

    def _begin_tasks(self) -> None:
        """Deliver the leaves and offer what is ready."""
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
        on_start, on_end, timer = observers.on_start, observers.on_end, observers.timer
        alone: Any = observers if timer is None else timer.of(worker)
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
                        value = retried(self, i, given, error)
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
            return self.keep(i, awaited(self, i, list(given), value))
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
        return None if call is None else made_by(self, i, call)

    def _slow_call(self, i: int) -> TaskCall | None:
        """Take the inputs of task `i` for its call; None when it need not run."""
        if self.dropped:
            self.cull()
            if self.stop:
                return None
        numbers = self.plan.inputs[i] or ()
        raw, last = taken(self.values, self.releases, numbers)
        if is_moot(self, i, numbers):
            return None
        copied = self.copied
        shared = () if copied.isdisjoint(numbers) else [j in copied for j in numbers]
        return TaskCall(self, self.plan.tasks[i], raw, shared, last)

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


# -- the one way to make a run of a plan, for whoever wants it computed -------------------


def make_run(plan: Plan, request: Request, scheduler: Any) -> Lifecycle:
    """Return a run that has not begun, of the class that its scheduler can wake and wait for.

    All runs are made here, but those of what a task returned: they are of their parent's class.
    """
    if provides(scheduler, MakesRuns):
        made: Lifecycle = scheduler.make_run(plan, request)
        return made
    return Run(plan, request, scheduler)


# -- slots --------------------------------------------------------------------------------
#
# The slots that cap how many tasks of a run are run at once, and the threads that take them.
#
# A thread may be inside several runs at once: a task computes, and the thread helps. A slot in
# each of them is its right to be there. A thread that goes to sleep inside a task gives all of
# them back, since what it waits for may need them. When it wakes and one is taken, it is one too
# many in that run until the task is done: to wait for the slot could be to wait for a thread that
# needs a lock which this task holds.


class Slots:
    """The slots of a run and of the runs that its tasks turned into: its cap on running tasks."""

    __slots__ = ("count", "free")

    def __init__(self, count: int) -> None:
        self.count = count
        self.free: list[None] = [None] * count

    def take(self) -> bool:
        """Take a slot, if one is free."""
        try:
            self.free.pop()
        except IndexError:
            return False
        return True

    def give(self) -> None:
        """Give a slot back."""
        self.free.append(None)


class _Slot:
    """The slot of a worker in a run.

    is_lost
        Another thread took it while the worker slept.
    must_leave
        The worker was asked to leave the run after its task.
    """

    __slots__ = ("is_lost", "must_leave", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_lost = False
        self.must_leave = False


class SlotWorker(Worker):
    """A thread with a slot in every run that it is in; the innermost run's is last in ``slots``."""

    __slots__ = ("slots",)

    run: Run | None

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.slots: list[_Slot] = []

    def serve(self, run: Run) -> None:
        """Work on a run with a slot that was taken before, then give the slot back."""
        slot = _Slot(run)
        self.slots.append(slot)
        self.must_leave = slot.must_leave
        try:
            run.context.copy().run(run.work, self)
        except BaseException as error:  # a bug of lazyflow: the caller must not wait for ever
            run.cancel(error)
        self.slots.pop()
        if slot.must_leave:
            run.attention.pop()
        if slot.is_lost:
            run.attention.pop()
        else:
            run.attached.give()
        self._look()

    def ask_to_leave(self) -> None:
        """Ask the thread to leave its innermost run after its task. Called by any thread."""
        try:
            slot = self.slots[-1]
        except IndexError:  # it has left
            return
        slot.run.attention.append(None)  # first: the worker takes it out once it sees the request
        slot.must_leave = self.must_leave = True

    def _look(self) -> None:
        """Note whether the thread has to leave the run that it is in now."""
        self.must_leave = bool(self.slots) and (
            self.slots[-1].is_lost or self.slots[-1].must_leave
        )

    def give_slots_back(self) -> None:
        """Give all slots back, before the thread sleeps."""
        for slot in self.slots:
            if not slot.is_lost:
                slot.run.attached.give()

    def take_slots_again(self) -> None:
        """Take the slots again after the sleep; where none is free, leave after the task."""
        for slot in self.slots:
            was_lost, slot.is_lost = slot.is_lost, not slot.run.attached.take()
            if slot.is_lost and not was_lost:
                slot.run.attention.append(None)  # so that the loop looks at `must_leave`
            elif was_lost and not slot.is_lost:
                slot.run.attention.pop()
        self._look()
