"""A call of an actor that somebody observes: when and where it ran, told to its observers."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter, thread_time, time
from typing import Any

from lazyflow.graph.task import Task

#: When a call began and ended in a worker, by `time.time`, and the CPU seconds of its thread.
CallTimes = tuple[float, float, float | None]


def _nothing() -> None:
    """Stand for the reference to a call that is not made yet."""


class WatchedCall:
    """What observers hear of a call; none is made when nobody observes.

    Attributes
    ----------
    task
        Method and arguments.
    scheduler, actor, number
        The scheduler of the actor, its name in messages, and a number that no other actor of this
        process has.
    thread
        The identifier of the thread of this process that runs the call now; 0: none, or it shares
        the thread with others.
    start, end
        By `time.perf_counter`; None: it did not begin, or where it was that is not known.
    cpu
        Seconds of CPU time that its thread used; None: unknown.
    failed
        Whether it raised, or could not run.
    call
        Returns the `ActorCall`, or None when it is gone.
    """

    __slots__ = (
        "_before", "_observers", "_open", "actor", "call", "cpu", "end", "failed", "number",
        "scheduler", "start", "task", "thread",
    )

    def __init__(
        self, task: Task, scheduler: Any, actor: str, number: int, observers: Any
    ) -> None:
        self.task = task
        self.scheduler = scheduler
        self.actor = actor
        self.number = number
        self.thread = 0
        self.start: float | None = None
        self.end: float | None = None
        self.cpu: float | None = None
        self.failed = False
        self.call: Callable[[], Any] = _nothing
        self._before: float | None = None
        self._observers = observers
        self._open = [None]  # whoever pops it tells of the end
        observers.call_made(self)

    @property
    def is_running(self) -> bool:
        """Whether it has begun and is not over, as far as that is known here."""
        call = self.call()
        return self.end is None and call is not None and bool(call.inside)

    def begin(self, is_alone: bool) -> None:
        """Note that this thread makes the call; `is_alone` tells that it does nothing else."""
        if is_alone:
            self.thread, self._before = get_ident(), thread_time()
        self.start = perf_counter()

    def took(self, times: CallTimes | None) -> None:
        """Note when another process made the call; None: it did not."""
        if times is None:
            return
        ahead = time() - perf_counter()
        start, end, self.cpu = times
        self.start, self.end = start - ahead, end - ahead

    def over(self, failed: bool = False) -> None:
        """Tell observers that the call is over; the first time only."""
        try:
            self._open.pop()
        except IndexError:
            return
        if self.end is None and self.start is not None:
            self.end = perf_counter()
            if self._before is not None and self.thread == get_ident():
                self.cpu = thread_time() - self._before
        self.thread, self.failed = 0, failed
        self._observers.call_ended(self)


class CallTimer:
    """Times a call in the worker that makes it."""

    __slots__ = ("_before", "_start")

    def __init__(self, is_alone: bool) -> None:
        self._before = thread_time() if is_alone else None
        self._start = time()

    def times(self) -> CallTimes:
        """Return what `WatchedCall.took` takes; the call ends now, in the thread that began it."""
        cpu = None if self._before is None else thread_time() - self._before
        return self._start, time(), cpu
