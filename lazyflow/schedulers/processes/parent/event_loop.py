"""Which descriptors the driver watches, and what is called when one is ready."""

from __future__ import annotations

import heapq
import os
import select
from collections.abc import Callable
from functools import partial
from itertools import count, repeat
from time import monotonic

from lazyflow.departures import opened

Call = Callable[[], None]


class Watch:
    """An epoll with a call for each descriptor, a way to be woken, and timers.

    What was printed is handled before anything else: it was written before the result.
    """

    def __init__(self) -> None:
        wake = opened(os.eventfd, 0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._wake = wake.fileno()
        #: Wakes whatever its argument is: in C, as a callback of weak references. It holds the
        #: descriptor open, which must not become another's while somebody may write to it.
        self.ring = partial(next, map(os.eventfd_write, repeat(self._wake), repeat(1)))
        self.ring.owner = wake  # type: ignore[attr-defined]
        self._poll = select.epoll()
        self._poll.register(self._wake, select.EPOLLIN)
        self._calls: dict[int, Call] = {}
        self._first: dict[int, Call] = {}
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = count()
        self._is_awake = False

    def wake(self) -> None:
        """End a wait. Any thread may call it: it never locks.

        Only the thread that waits sets `_is_awake`: set here, before the write, a Ctrl-C between
        the two would leave it asleep for ever.
        """
        if not self._is_awake:
            self.ring(None)

    def add(self, fd: int, call: Call, is_output: bool = False) -> None:
        """Watch a descriptor for reading."""
        self._poll.register(fd, select.EPOLLIN)
        (self._first if is_output else self._calls)[fd] = call

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor; nothing happens if it was not watched."""
        if self._calls.pop(fd, None) is not None or self._first.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def for_writing(self, fd: int, is_wanted: bool) -> None:
        """Call for a descriptor also when it can be written to, or not any more."""
        if fd in self._calls:
            self._poll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if is_wanted else 0))

    def after(self, seconds: float, call: Call) -> None:
        """Have something called later."""
        heapq.heappush(self._timers, (monotonic() + seconds, next(self._numbers), call))

    def next_timer(self) -> float | None:
        """Return when the next timer is due."""
        return self._timers[0][0] if self._timers else None

    def sleep(self, until: float | None, has_work: Callable[[], bool]) -> None:
        """Wait for something to happen, and call what is there for it.

        `has_work` is asked when a wake-up can't be missed any more.
        """
        self._is_awake = False
        timeout = None if until is None else max(0.0, until - monotonic())
        events = self._poll.poll(0.0 if has_work() else timeout)
        self._is_awake = True
        for calls in (self._first, self._calls):
            for fd, _ in events:
                call = calls.get(fd)
                if call is not None:
                    call()
        if any(fd == self._wake for fd, _ in events):
            os.eventfd_read(self._wake)
        now = monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def close(self) -> None:
        """Watch nothing any more; the descriptor that wakes it is closed with its last user."""
        self._poll.close()
