"""One pool of daemon threads for the process: the default scheduler.

A caller that is not a thread of the pool runs no task. It sleeps, and wakes when its run is
over, at a timeout, or by a signal: so Ctrl-C and ``timeout=`` work while a task sits in C. Only
light runs, whose tasks take microseconds, are done by the caller itself, as on sync: there both
are looked at between two tasks, and a thread would take longer to wake than they.

A thread of the pool that has to wait for a run (a `compute` inside a task) first works on that
run itself. When the rest of it runs elsewhere it sleeps, and meanwhile the pool may have one
thread more: nesting cannot deadlock, with one worker too. It never runs tasks of other runs,
which might need a lock that is held lower on its own stack.

State, all guarded by `_lock` (taken when threads go idle or are woken, never per task; by the main
thread not around loops: to Python 3.13 jumps back are outside, and Ctrl-C would leave it locked):

    _size         how many threads are wanted: the largest num_workers that was asked for
    _threads      threads that belong to the pool and do not sleep inside a task
    _sleeping     threads that sleep inside a task; others may have their places meanwhile
    _idle         for each thread without work, a function that wakes it: no thread polls
    _queues       runs that may have ready tasks: those that are waited for, then background ones
    _queued       the runs in both queues: added last and removed first, since Ctrl-C may come
                  between, and threads look through the queues for runs that are over
    _by_priority  the same for runs with priorities: the task with the highest one goes first, and
                  a thread leaves a run when a task of another is more urgent than its next
"""

from __future__ import annotations

import atexit
import operator
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import Any

from lazyflow import config
from lazyflow.clock import Deadline
from lazyflow.errors import Cancelled
from lazyflow.finalizers import wait_for_last_calls
from lazyflow.graph.plan import Plan
from lazyflow.interrupts import EXIT_GRACE, Event, end_with_python, uninterrupted
from lazyflow.schedulers.core.base import KeepsActors, MakesRuns, Request, ShutsDown, Worker
from lazyflow.schedulers.core.priorities import FairQueue, next_rank
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.core.task_resources import here
from lazyflow.schedulers.sync import SyncScheduler
from lazyflow.system import at_fork

_callers = SyncScheduler()

# -- slots: they cap how many tasks of a run are run at once ------------------------------
#
# A thread may be inside several runs at once: a task computes, and the thread helps. A slot in
# each of them is its right to be there. A thread that goes to sleep inside a task gives all of
# them back, since the task that it waits for may need them. If a slot is taken when the thread
# wakes, the run has one thread too many until the task is done: waiting for the slot could mean to
# wait for a thread that needs a lock which this task holds.


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


# -- the pool -----------------------------------------------------------------------------


class _Thread(SlotWorker):
    """A worker that is a thread of the pool."""

    __slots__ = ("abandoned", "ended", "pool", "thread", "wake")

    def __init__(self, name: str, pool: ThreadsScheduler) -> None:
        super().__init__(name)
        self.pool = pool
        self.wake = threading.Lock()
        self.wake.acquire()
        self.ended = Event()
        self.abandoned = False  # its run was given up; it ends after the task
        self.thread: threading.Thread

    def asleep(self) -> AbstractContextManager[None]:
        return self.pool.blocked(self)


def _take_slot(run: Run) -> bool:
    """Take a slot in a run, if one is free."""
    return bool(run.attached.take())


class ThreadsScheduler(MakesRuns, KeepsActors, ShutsDown):
    """The process's pool of threads."""

    name = "threads"
    options = frozenset({"priority", "files"})
    actors_share_memory = True

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Start with nothing: at first, and in the child after a fork."""
        self._lock = threading.Lock()
        self._size = 0
        self._serial = 0
        self._threads: set[_Thread] = set()
        self._sleeping: set[_Thread] = set()
        self._idle: list[Callable[[], None]] = []
        self._queues: tuple[deque[Run], deque[Run]] = (deque(), deque())
        self._queued: set[Run] = set()
        self._by_priority = FairQueue[Run](next_rank), FairQueue[Run](next_rank)
        self._has_priorities = False  # some run had
        self._end_actors: Callable[[Deadline], list[str]] | None = None
        # Pops and calls in one step of C: a Ctrl-C between the two would lose a thread.
        # IndexError when no thread is idle.
        self._wake_next = map(operator.call, iter(self._idle.pop, None)).__next__

    def _in_fork(self) -> None:
        """In the child of a fork: the threads are the parent's, and so are their runs."""
        mine = {thread.run for thread in (*self._threads, *self._sleeping) if thread.forked}
        runs = self._known_runs() - mine
        self._reset()
        error = Cancelled(
            "results that were pending on threads are not in this process, the child of a fork: "
            "the threads that compute them are the parent's. Ask for them before the fork, or "
            "compute them again here."
        )
        for run in runs:
            run.observers.clear()  # they hear of it in the parent
            run.cancel(error)

    def _known_runs(self) -> set[Run]:
        """Return the runs that are queued or worked on."""
        members = (*self._threads, *self._sleeping)
        working = {run for thread in members if (run := thread.run) is not None}
        return working.union(*self._queues, *self._by_priority)

    def make_run(self, plan: Plan, request: Request) -> Run:
        """Return a run for the threads, or for the caller itself."""
        return _callers.make_run(plan, request) if request.light else Run(plan, request, self)

    # -- called by runs ---------------------------------------------------------------------

    def start(self, run: Run) -> None:
        """Queue a run for as many threads as it may have."""
        run.attached = Slots(run.request.num_workers or config.default_workers())
        run.begin()

    def offer(self, run: Run, count: int) -> None:
        """Wake or start as many threads as there are tasks and slots for."""
        # The run's tasks are in its list already, and a thread that finds the list empty takes
        # the run out of `_queued` before it looks a second time: one of the two sees the other.
        if not self._idle and run in self._queued and len(self._threads) >= self._size:
            return
        with self._lock:
            self._enqueue(run)
            calls = range(min(count, run.attached.count))
            all(self._wake() or self._start_thread() or self._ask_to_leave(run) for _ in calls)
            if not self._threads and not run.over:
                raise RuntimeError("no thread can be started, and lazyflow has none")

    def wait(self, run: Run, timeout: float | None) -> bool:
        """Sleep until the run is over; inside a task of ours, help it first."""
        me = here.worker
        if isinstance(me, _Thread) and timeout is None and run.ready and run.attached.take():
            me.serve(run)
            self._take_back(me)
        return run.wait(timeout)

    @contextmanager
    def blocked(self, me: _Thread) -> Iterator[None]:
        """While the thread sleeps inside a task, let another have its place."""
        me.give_slots_back()
        with self._lock:
            if me in self._threads:
                self._threads.discard(me)
                self._sleeping.add(me)
            self._serve_ready()
        try:
            yield
        finally:
            with self._lock:
                if me in self._sleeping:
                    self._sleeping.discard(me)
                    self._threads.add(me)
            me.take_slots_again()

    def abandon(self, run: Run) -> None:
        """Replace the threads that are still inside a task of a run that was given up."""
        with self._lock:
            self._take_out(run)
            self._serve_ready()

    def _take_out(self, run: Run) -> None:
        self._queued.discard(run)
        for queue in self._queues:
            if run in queue:
                queue.remove(run)
        for urgent in self._by_priority:
            urgent.remove(run)
        for thread in (*self._threads, *self._sleeping):
            is_inside = thread.run is run and thread is not here.worker
            if is_inside or thread.thread.ident is None:  # Ctrl-C came while it was started
                thread.abandoned = True
                self._threads.discard(thread)
                self._sleeping.discard(thread)

    def _take_back(self, me: _Thread) -> None:
        """Forget that a thread was given up when it came back and another run is under it."""
        if me.abandoned and me.run is not None and not me.run.over:
            with self._lock:
                me.abandoned = False
                self._threads.add(me)

    # -- threads ----------------------------------------------------------------------------

    def _enqueue(self, run: Run) -> None:
        if not run.stop:
            self._size = max(self._size, run.attached.count)  # here: a shutdown may have come
            if run.plan.priorities:
                self._has_priorities = True
                self._by_priority[run.request.background].put(run)
            elif run not in self._queued:
                self._queues[run.request.background].append(run)
                self._queued.add(run)

    def _wake(self) -> bool:
        try:
            self._wake_next()
        except IndexError:
            return False
        return True

    def _start_thread(self) -> bool:
        """Add a thread; False when there are enough, or the system gives no more."""
        if len(self._threads) >= self._size:
            return False
        self._serial += 1
        me = _Thread(f"lazyflow-{self._serial}", self)
        me.thread = threading.Thread(target=self._serve, args=(me,), name=me.name, daemon=True)
        self._threads.add(me)
        try:
            uninterrupted(me.thread.start)
        except RuntimeError:  # the system gives no more threads, or the interpreter is ending
            self._threads.discard(me)
            return False
        return True

    def _ask_to_leave(self, run: Run) -> bool:
        """Have threads leave less urgent runs after their tasks; tells whether one was asked."""
        rank = next_rank(run) if self._has_priorities else None
        if rank is None:
            return False
        less_urgent = None
        for thread in self._threads:
            other = thread.run
            if other in (None, run) or other.request.background != run.request.background:
                continue
            if other.plan.priorities:  # it leaves by itself
                other.ready.floor = min(other.ready.floor, rank)
            elif rank < 0 and not thread.must_leave:
                less_urgent = thread
        if less_urgent is not None:
            less_urgent.ask_to_leave()
        return less_urgent is not None

    def _serve_ready(self) -> None:
        """Let a thread look at the queues, when there may be something for it in them."""
        for queue, urgent in zip(self._queues, self._by_priority, strict=True):
            is_ready = urgent.first_rank() is not None
            while queue and not is_ready:
                is_ready = self._first_is_ready(queue)
            if is_ready:
                _ = self._wake() or self._start_thread()
                return

    def _serve(self, me: _Thread) -> None:
        """Work on one run after the other; the life of a thread."""
        while True:
            run = self._next_run(me)
            if run is None:
                me.ended.set()
                return
            me.serve(run)
            del run  # hold no values while asleep

    def _next_run(self, me: _Thread) -> Run | None:
        """Return a run to work on, with a slot taken; sleep until there is one; None: end."""
        while True:
            with self._lock:
                if me.abandoned or len(self._threads) > self._size:
                    self._threads.discard(me)
                    self._serve_ready()  # it may have been woken for a task
                    return None
                for queue, urgent in zip(self._queues, self._by_priority, strict=True):
                    run = self._choose(queue, urgent)
                    if run is not None:
                        return run
                self._idle.append(me.wake.release)
            me.wake.acquire()

    def _choose(self, queue: deque[Run], urgent: FairQueue[Run]) -> Run | None:
        if not self._has_priorities:
            return self._choose_in_turn(queue)
        run = urgent.take(_take_slot) if urgent.goes_first() else None
        run = run or self._choose_in_turn(queue) or urgent.take(_take_slot)
        if run is not None and run.plan.priorities:
            run.ready.floor = inf if (rank := next_rank(run)) is None else rank
        return run

    def _choose_in_turn(self, queue: deque[Run]) -> Run | None:
        for _ in range(len(queue)):
            if self._first_is_ready(queue):
                run = queue[0]
                queue.rotate(-1)  # the next thread begins with the next run
                if run.attached.take():
                    return run
        return None

    def _first_is_ready(self, queue: deque[Run]) -> bool:
        """Tell whether the first run has ready tasks; take it out of the queue when not."""
        run = queue[0]
        if run.ready:
            return True
        self._queued.discard(run)
        if run.ready:
            self._queued.add(run)
            return True
        queue.popleft()
        return False

    def make_actor(self, spec: Any) -> Any:
        """Return where an actor lives: in threads of its own."""
        from lazyflow.schedulers.actors import local

        self._end_actors = local.shutdown
        return local.ThreadActor(spec, self)

    # -- the end ----------------------------------------------------------------------------

    def shutdown(self, grace: float = EXIT_GRACE) -> list[str]:
        """Cancel queued work, end idle threads, and wait for running tasks for `grace` seconds.

        Returns the names of tasks that were still running then.
        """
        deadline = Deadline(grace)
        threads = self._give_up_all()
        while self._threads and not deadline.is_over():  # a run that was waiting for that has begun
            threads += self._give_up_all()
        left = []
        for thread in threads:
            if thread is not here.worker and thread.thread.ident is not None:
                if thread.ended.wait(deadline.left()):
                    thread.thread.join()  # it has nothing more to do
                elif thread.run is not None:
                    left.append(thread.doing())
        if self._end_actors is not None:
            left += self._end_actors(deadline)
        return left

    def _give_up_all(self) -> list[_Thread]:
        """Cancel all runs and let go of all threads; returns these."""
        with self._lock:
            threads = [*self._threads, *self._sleeping]
            runs = self._known_runs()
            self._size = 0
            self._threads.clear()
            self._sleeping.clear()
            for thread in threads:  # a compute in a task may want the pool to grow again
                thread.abandoned = True
            sum(iter(self._wake, False))
        for run in runs:
            run.cancel(Cancelled("lazyflow was shut down before the run was done"))
        return threads


#: The pool of this process.
threads = ThreadsScheduler()


def _at_exit() -> None:
    wait_for_last_calls()
    end_with_python(threads.shutdown)


atexit.register(_at_exit)
at_fork(after_in_child=threads._in_fork)
