"""The threads of one `Executor`: they make calls, or hand on the results of other processes.

They are not the threads of the scheduler, and belong to no run: a call may wait for anything, even
for calls of another executor, and blocks none of the pool's threads.

State of `CallThreads`; ``_lock`` guards all but the queue and `_running`::

    _queue :: SimpleQueue       calls; None, or a reference to the executor that is gone, ends a
                                thread, which puts one there for the next
    _threads :: {Thread}        at most `most`, started when a call finds none idle
    _idle :: int                threads that sleep, without those that a queued call will wake
    _running :: {Future}        of calls that have begun
    _is_shut :: bool, broken :: str      take no more calls; why the initializer has failed

Of the process: `busy`, the executors that have threads, and `python_ends`. At the end of the
program their calls are waited for, before Python joins threads; the child of a fork fails them.
"""

from __future__ import annotations

import concurrent.futures
import sys
import threading
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Any

from lazyflow import config
from lazyflow.clock import NEVER, Deadline
from lazyflow.errors import Cancelled
from lazyflow.finalizers import Gone
from lazyflow.interrupts import uninterrupted
from lazyflow.system import at_fork

AnyFuture = concurrent.futures.Future[Any]

#: The future, the context, and the function with its arguments.
Call = tuple[AnyFuture, Context, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class CallThreads:
    """Threads that make calls, started when one is needed and none is idle.

    Parameters
    ----------
    most
        How many calls run at once.
    initializer, initargs
        A function that each thread calls first, and its arguments.
    """

    def __init__(
        self, most: int, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
    ) -> None:
        self._most = most
        self._initializer = initializer
        self._initargs = initargs
        self._is_shut = False
        self.broken = ""
        self.executor_gone: Gone | None = None  # held for its callback
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Call | Gone | None] = SimpleQueue()
        #: Ends the threads when the executor is collected; called with a weak reference.
        self.end_later = self._queue.put
        self._idle = 0  # threads that sleep and that no call is for
        self._threads: set[threading.Thread] = set()
        self._running: set[AnyFuture] = set()

    def submit(self, call: Call) -> None:
        """Have a call made."""
        with self._lock:
            if self.broken:
                raise concurrent.futures.BrokenExecutor(self.broken)
            if self._is_shut or python_ends:
                raise RuntimeError(SHUT)
            self._queue.put(call)
            if self._idle:
                self._idle -= 1
            elif len(self._threads) < self._most:
                start_thread(self, self._threads, self._work)

    def _work(self) -> None:
        """Make one call after the other; the life of a thread."""
        if self._initializer is not None and not self._is_started():
            return
        queue, running = self._queue, self._running
        while True:
            if queue.empty():
                with self._lock:
                    self._idle += queue.empty()
            call = queue.get()
            if call.__class__ is not tuple:
                self._end_thread()
                return
            future, context, function, args, kwargs = call
            if future.set_running_or_notify_cancel():
                running.add(future)
                try:
                    value = context.run(function, *args, **kwargs)
                except BaseException as error:
                    future.set_exception(error)
                    del error
                else:
                    future.set_result(value)
                running.discard(future)
            call = future = context = function = args = kwargs = value = None  # type: ignore

    def _is_started(self) -> bool:
        try:
            self._initializer(*self._initargs)  # type: ignore[misc]
        except BaseException as error:
            self.break_down(failed_start(f"{type(error).__name__}: {error}"))
            return False
        return True

    def _end_thread(self) -> None:
        with self._lock:
            self._is_shut = True
            self._threads.discard(threading.current_thread())
            self._queue.put(None)  # for the next one
            if not self._threads:
                busy.discard(self)

    def break_down(self, words: str) -> None:
        """Have all calls that have not begun, and those to come, fail with these words."""
        with self._lock:
            self.broken = self.broken or words
            self._threads.discard(threading.current_thread())
            if not self._threads:
                busy.discard(self)
            left = self._taken_out()
        fail_all(left, words)

    def _taken_out(self) -> list[AnyFuture]:
        """Take the calls out that have not begun."""
        left: list[AnyFuture] = []
        while not self._queue.empty():
            call = self._queue.get()
            if type(call) is tuple:
                left.append(call[0])
        return left

    # -- the end ------------------------------------------------------------------------------

    def shut(self, cancels: bool) -> None:
        """Take no more calls; the threads end after those that are there."""
        with self._lock:
            self._is_shut = True
            left = self._taken_out() if cancels else []
            self._queue.put(None)
        cancel_all(left)

    def join(self, deadline: Deadline = NEVER) -> int:
        """Wait for the end of the threads; return how many calls are left at the deadline."""
        for thread in tuple(self._threads):
            if thread is not threading.current_thread():
                thread.join(deadline.left())
        return len(self._running) + self._queue.qsize() - 1 if self._threads else 0

    def futures_lost(self) -> list[AnyFuture]:
        """In the child of a fork: start anew; return the futures of calls of the parent's."""
        futures = [*self._running, *self._taken_out()]
        self._begin()
        return futures


SHUT = (
    "cannot schedule new futures after shutdown; make another lazyflow.Executor, which costs "
    "little: its worker processes are running still"
)


def start_thread(
    owner: Any, threads: set[threading.Thread], work: Callable[[], None]
) -> None:
    """Start another thread of an executor; RuntimeError if it has none and can't have any."""
    thread = threading.Thread(target=work, name="lazyflow-executor", daemon=True)
    threads.add(thread)
    busy.add(owner)
    try:
        uninterrupted(thread.start)
    except RuntimeError:
        threads.discard(thread)
        if not threads:
            raise


def failed_start(words: str) -> str:
    """Say that an initializer has failed."""
    return f"the initializer of the executor has failed in a worker: {words}"


def fail_all(futures: list[AnyFuture], words: str) -> None:
    """Fail the calls that have not begun, since the executor is broken."""
    for future in futures:
        if future.running() or future.set_running_or_notify_cancel():
            future.set_exception(concurrent.futures.BrokenExecutor(words))


def cancel_all(futures: list[AnyFuture]) -> None:
    """Cancel the calls that have not begun, and wake those that wait for them."""
    for future in futures:
        future.cancel()
        future.set_running_or_notify_cancel()


# -- executors that have threads, when the program ends or is forked --------------------------

#: Owners of threads, with `shut`, `join` and `futures_lost`.
busy: set[Any] = set()

#: Not empty: the program has ended, and no call is taken any more.
python_ends: list[None] = []


def _finish() -> None:
    limit = config.get("exit_timeout")
    deadline = Deadline(limit)
    why = f"since config.exit_timeout={limit} passed"
    python_ends.append(None)
    waiting = tuple(busy)
    for each in waiting:
        each.shut(cancels=False)
    try:
        left = sum([each.join(deadline) for each in waiting])
    except KeyboardInterrupt:
        left, why = sum([each.join(Deadline(0)) for each in waiting]), "at Ctrl-C"
    if left and sys.stderr is not None:
        print(
            f"lazyflow: dropped at the end of the program, {why}: {left} calls of an Executor that "
            "were not done. Wait for them before it, or raise exit_timeout.", file=sys.stderr,
        )


def _after_fork() -> None:
    """In the child of a fork, end the calls on their way: their threads are the parent's."""
    lost = [future for each in tuple(busy) for future in each.futures_lost()]
    busy.clear()
    for future in lost:
        if not future.done():
            future.set_exception(Cancelled(
                "this process is the child of a fork, and the call that was submitted to an "
                "Executor before is its parent's. Submit it again here."
            ))


at_fork(after_in_child=_after_fork)

# Before those of `lazyflow.schedulers.core.unfinished`, which was imported earlier.
threading._register_atexit(_finish)  # type: ignore[attr-defined]
