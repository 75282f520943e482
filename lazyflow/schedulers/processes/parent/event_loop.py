"""The loop of the driver: descriptors, timers and posted steps, and the start of its thread.

`EventLoop.sleep` waits for descriptors and timers, and makes their calls; `run_steps` runs what
other threads have posted, each step once and in the order of the posts. To post takes no lock, so a
finalizer or a signal handler may do it.

State::

    steps :: deque           posted steps that did not run; any thread appends
    is_over :: bool          the thread runs no further step; set once, by it, or in a forked child
    _calls :: {fd: call}     what to call when a descriptor is readable
    _first :: {fd: call}     likewise for output of workers, which was written before the answer
    _timers :: heap of (time, number, call)
    _is_awake :: bool        set by the thread of the loop alone; while it is false a post rings
"""

from __future__ import annotations

import heapq
import select
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Any, TypeAlias

from lazyflow.clock import Clock
from lazyflow.finalizers import Gone, gone
from lazyflow.interrupts import uninterrupted
from lazyflow.system import make_poller, make_waker

Call = Callable[[], None]

#: A function, its arguments, and whether it is run after the end as well, by any thread.
Step: TypeAlias = tuple[Callable[..., None], tuple[Any, ...], bool]


class EventLoop:
    """A poller with a call for each descriptor, timers, and posted steps.

    Output of workers is handled before all else: it was written before the result.

    steps
        Posted steps that were not run yet. A weak reference there has its step as ``then``.
    is_over
        The thread of the loop runs no step any more.
    now
        The clock of the thread of the loop: all moments there are its times.
    """

    def __init__(self, now: Clock = monotonic) -> None:
        self.now = now
        self.steps: deque[Step | Gone] = deque()
        self.is_over = False
        self._waker, self.ring, self._note_waking = make_waker()
        self._wake = self._waker.fileno()
        self._poll = make_poller()
        self._poll.register(self._wake, select.POLLIN)
        self._calls: dict[int, Call] = {}
        self._first: dict[int, Call] = {}
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = count()
        self._is_awake = False

    # -- steps: any thread may post them, and none of this locks ------------------------------

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Have a step run in the thread of the loop; it is dropped if that has ended."""
        self._post((step, details, False))

    def post_always(self, step: Callable[..., None], *details: Any) -> None:
        """Likewise; after the end the thread that finds the step runs it."""
        self._post((step, details, True))

    def _post(self, item: Step) -> None:
        self.steps.append(item)
        # Only the thread that waits sets `_is_awake`: set here, before the write, a Ctrl-C between
        # the two would leave it asleep for ever.
        if not self._is_awake:
            self.ring(None)
        if self.is_over:
            self.run_late_steps()

    def when_gone(self, obj: Any, step: Callable[..., None], *details: Any) -> list[Gone]:
        """Have a step run when an object was collected, if the result is held until then."""
        callbacks, then = self.on_drop(step, *details)
        return [gone(obj, callback, then) for callback in callbacks]

    def on_drop(
        self, step: Callable[..., None], *details: Any
    ) -> tuple[list[Callable[[Any], Any]], Step]:
        """Return functions of C that post a step, called in reverse order, and their argument."""
        return [self.ring, self.steps.append], (step, details, False)

    def run_steps(self) -> None:
        """Run the posted steps."""
        while self.steps:
            item = self.steps.popleft()
            step, details, _ = item.then if isinstance(item, Gone) else item
            step(*details)

    def run_late_steps(self) -> None:
        """Run those of the steps left that are always run: here, or where they are posted."""
        while self.steps:
            try:
                item = self.steps.popleft()
            except IndexError:  # another thread had it
                return
            step, details, is_always = item.then if isinstance(item, Gone) else item
            if is_always:
                step(*details)

    # -- descriptors and timers -----------------------------------------------------------------

    def add(self, fd: int, call: Call, is_output: bool = False) -> None:
        """Watch a descriptor for reading."""
        self._poll.register(fd, select.POLLIN)
        (self._first if is_output else self._calls)[fd] = call

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor; nothing happens if it was not watched."""
        if self._calls.pop(fd, None) is not None or self._first.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def for_writing(self, fd: int, is_wanted: bool) -> None:
        """Call for a descriptor also when it can be written to, or not any more."""
        if fd in self._calls:
            self._poll.modify(fd, select.POLLIN | (select.POLLOUT if is_wanted else 0))

    def after(self, seconds: float, call: Call) -> None:
        """Have something called later."""
        heapq.heappush(self._timers, (self.now() + seconds, next(self._numbers), call))

    def sleep(self, until: float | None, heeds_steps: bool = True) -> None:
        """Wait for descriptors and timers, and make their calls; steps are not run."""
        self._is_awake = False
        if self._timers and (until is None or until > self._timers[0][0]):
            until = self._timers[0][0]
        timeout = None if until is None else max(0.0, until - self.now())
        if heeds_steps and self.steps:  # asked when a wake-up can't be missed any more
            timeout = 0.0
        events = self._poll.poll(timeout)
        self._is_awake = True
        due = [
            (calls, fd, calls[fd])
            for calls in (self._first, self._calls) for fd, _ in events if fd in calls
        ]
        for calls, fd, call in due:
            # A call before it may have closed the descriptor and opened another of its number.
            if calls.get(fd) is call:
                call()
        if self._wake in dict(events):
            self._note_waking()
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def close(self) -> None:
        """Wait for nothing any more; the descriptor that wakes it is closed with its last user."""
        self._poll.close()


class LoopThread:
    """A thread that is started once, also if a Ctrl-C ends the thread that starts it."""

    def __init__(self, target: Callable[[], None]) -> None:
        self._unstarted = [None]  # the thread that pops it starts this one
        self.thread = threading.Thread(target=target, name="lazyflow-processes", daemon=True)

    def begin(self) -> None:
        """Start the thread, unless that was done before a Ctrl-C ended the thread that did it."""
        uninterrupted(self._start_once)

    def _start_once(self) -> None:
        if self._unstarted:
            try:
                self._unstarted.pop()
            except IndexError:  # another thread did
                return
            try:
                self.thread.start()
            except RuntimeError as error:  # the system gives no more threads: the next one tries
                self._unstarted.append(None)
                error.add_note(
                    "lazyflow needs a thread to drive its worker processes: a limit on threads "
                    "(ulimit -u) or on memory (ulimit -v) is the usual cause"
                )
                raise
