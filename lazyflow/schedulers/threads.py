"""One pool of daemon threads for the process: the default scheduler.

A caller that is not a thread of the pool runs no task. It sleeps, and wakes when its run is
over, at a timeout, or by a signal: so Ctrl-C and ``timeout=`` work while a task sits in C.

A thread of the pool that has to wait for a run (a `compute` inside a task) first works on that
run itself. When the rest of it runs elsewhere it sleeps, and meanwhile the pool may have one
thread more: nesting cannot deadlock, with one worker too. It never runs tasks of other runs,
which might need a lock that is held lower on its own stack.

State, all guarded by `_lock` (taken when threads go idle or are woken, never per task):

    _size       threads wanted; grows to the largest num_workers asked for
    _threads    threads that belong to the pool
    _waiting    threads of it that sleep inside a task; each allows one more
    _idle       threads without work, each asleep on a lock of its own: nobody polls
    _queues     runs that may have ready tasks: waited-for ones, then background ones
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from lazyflow import config
from lazyflow.errors import Cancelled
from lazyflow.schedulers.base import Worker
from lazyflow.schedulers.future import log_unseen, unseen_errors, wake_to_log
from lazyflow.schedulers.run import Run, doing, here

EXIT_GRACE = 2.0  # seconds that running tasks get when the interpreter ends


class _Thread(Worker):
    """A worker that is a thread of the pool."""

    __slots__ = ("abandoned", "owes_seat", "thread", "wake")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.wake = threading.Lock()
        self.wake.acquire()
        self.abandoned = False  # its run was given up; it ends after the task
        self.owes_seat = False
        self.thread: threading.Thread


class _Seats:
    """How many tasks of a run, and of the runs its tasks turned into, may run at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.free: list[None] = [None] * count
        self.queued: set[Run] = set()


class ThreadsScheduler:
    """The process's pool of threads."""

    name = "threads"
    options = frozenset({"priority"})

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Start with nothing: at first, and in the child after a fork."""
        self._lock = threading.Lock()
        self._size = 0
        self._serial = 0
        self._waiting = 0
        self._threads: set[_Thread] = set()
        self._idle: list[_Thread] = []
        self._queues: tuple[deque[Run], deque[Run]] = (deque(), deque())

    # -- what a run calls -------------------------------------------------------------------

    def start(self, run: Run) -> None:
        """Queue a run for as many threads as it may have."""
        workers = run.request.num_workers or config.get("num_workers") or default_workers()
        run.attached = _Seats(workers)
        if workers > self._size:
            with self._lock:
                self._size = max(self._size, workers)
        run.begin()

    def offer(self, run: Run, count: int) -> None:
        """Wake or start as many threads as there are tasks and seats for."""
        # The run's tasks are in its list already, and a thread that finds the list empty takes
        # the run out of `queued` before it looks a second time: one of the two sees the other.
        if not self._idle and run in run.attached.queued and self._full():
            return
        with self._lock:
            self._enqueue(run)
            for _ in range(min(count, run.attached.count)):
                if self._idle:
                    self._idle.pop().wake.release()
                elif not self._full():
                    self._start_thread()
                else:
                    break

    def wait(self, run: Run, timeout: float | None) -> bool:
        """Sleep until the run is over; inside a task of ours, help it first."""
        me = here.worker
        if not isinstance(me, _Thread):
            return run.wait(timeout)
        if timeout is None and not run.over and run.ready:
            run.context.copy().run(run.work, me)
        if run.over:
            return True
        with self.blocked(me):
            return run.wait(timeout)

    @contextmanager
    def blocked(self, me: Worker) -> Iterator[None]:
        """While the thread sleeps inside a task, let another have its place."""
        assert isinstance(me, _Thread)
        seats: _Seats | None = me.run.attached if me.run is not None else None
        with self._lock:
            self._waiting += 1
            if seats is not None:
                seats.free.append(None)
            if any(run.ready for queue in self._queues for run in queue):
                if self._idle:
                    self._idle.pop().wake.release()
                elif not self._full():
                    self._start_thread()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if seats is not None:
                    try:
                        seats.free.pop()
                    except IndexError:  # taken meanwhile: one task too many until we are through
                        me.owes_seat = True

    def abandon(self, run: Run) -> None:
        """Replace the threads that are still inside a task of a run that was given up."""
        with self._lock:
            for queue in self._queues:
                if run in queue:
                    queue.remove(run)
            run.attached.queued.discard(run)
            for thread in tuple(self._threads):
                if thread.run is run and thread is not here.worker:
                    thread.abandoned = True
                    self._threads.discard(thread)

    # -- threads ----------------------------------------------------------------------------

    def _full(self) -> bool:
        return len(self._threads) >= self._size + self._waiting

    def _enqueue(self, run: Run) -> None:
        if run not in run.attached.queued and not run.over:
            run.attached.queued.add(run)
            self._queues[run.request.background].append(run)

    def _start_thread(self) -> None:
        self._serial += 1
        me = _Thread(f"lazyflow-{self._serial}")
        me.thread = threading.Thread(target=self._serve, args=(me,), name=me.name, daemon=True)
        self._threads.add(me)
        try:
            me.thread.start()
        except RuntimeError:  # no more threads to be had, or the interpreter is ending
            self._threads.discard(me)
            if not self._threads:
                raise

    def _serve(self, me: _Thread) -> None:
        """Work on one run after the other; the life of a thread."""
        while True:
            run = self._next_run(me)
            if run is None:
                return
            try:
                run.context.copy().run(run.work, me)
            except BaseException as error:  # a bug of ours: never leave a caller waiting
                run.cancel(error)
            seats: _Seats = run.attached
            if me.owes_seat:
                me.owes_seat = False
            else:
                seats.free.append(None)
            run = seats = None  # type: ignore[assignment]  # hold no values while asleep

    def _next_run(self, me: _Thread) -> Run | None:
        """Return a run to work on, with a seat taken; sleep until there is one; None: end."""
        while True:
            if unseen_errors:
                log_unseen()
            with self._lock:
                if me.abandoned:
                    return None
                if len(self._threads) > self._size + self._waiting:
                    self._threads.discard(me)
                    return None
                for queue in self._queues:
                    run = self._choose(queue)
                    if run is not None:
                        return run
                self._idle.append(me)
            me.wake.acquire()

    def _choose(self, queue: deque[Run]) -> Run | None:
        for _ in range(len(queue)):
            run = queue[0]
            seats: _Seats = run.attached
            if not run.ready:
                seats.queued.discard(run)
                if not run.ready:
                    queue.popleft()
                    continue
                seats.queued.add(run)
            queue.rotate(-1)  # the next thread begins with the next run
            try:
                seats.free.pop()
            except IndexError:
                continue
            return run
        return None

    def wake_one(self) -> None:
        """Wake an idle thread, if there is one, to see what finalizers left. Never locks."""
        try:
            self._idle.pop().wake.release()
        except IndexError:
            pass

    # -- the end ----------------------------------------------------------------------------

    def shutdown(self, grace: float = EXIT_GRACE) -> list[str]:
        """Cancel queued work, end idle threads, and wait for running tasks for `grace` seconds.

        Returns the names of tasks that were still running then.
        """
        with self._lock:
            threads = list(self._threads)
            queued = {run for queue in self._queues for run in queue}
            self._size = 0
            while self._idle:
                self._idle.pop().wake.release()
        busy = {thread.run for thread in threads if thread.run is not None}
        for run in queued | busy:
            run.cancel(Cancelled("lazyflow was shut down before the run was done"))
        deadline = monotonic() + grace
        for thread in threads:
            if thread is not here.worker:
                thread.thread.join(max(0.0, deadline - monotonic()))
        return [doing(t) for t in threads if t.run is not None and t.thread.is_alive()]


_default_workers = 0


def default_workers() -> int:
    """Return the number of cores this process may use, looked up once."""
    global _default_workers
    if not _default_workers:
        _default_workers = config.cpu_count()
    return _default_workers


#: The pool of this process.
threads = ThreadsScheduler()


wake_to_log.append(threads.wake_one)


def _at_exit() -> None:
    log_unseen()
    left = threads.shutdown()
    for name in left:
        print(f"lazyflow: still running when Python ended: {name}", file=sys.stderr)


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads._reset)
