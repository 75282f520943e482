"""An event for which a thread sleeps until another thread sets it.

A lock can be acquired with a signal already noted and not yet handled: it came after the
interpreter last looked and before the thread slept, a few instructions that take milliseconds on
a busy machine. Ctrl-C is then lost until the lock is free (seen in 1 of 100 interrupted starts of
a pool). So the main thread, the only one that handles signals, sleeps on a descriptor that
signals write to: what was written before the sleep ends it as well.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from functools import partial
from math import inf
from time import monotonic

from lazyflow.system import opened_pipe

_LONGEST = (1 << 31) - 1  # milliseconds of one poll, the most that it can take
_hear_signals = partial(signal.set_wakeup_fd, warn_on_full_buffer=False)
_CAN_POLL = hasattr(select, "poll")
_PART = 0.1  # seconds, where it can't
_SHORT = 0.02  # seconds of a wait that is not worth the 15 µs of listening for signals


class Event:
    """An event that is set once; then all threads that wait for it go on."""

    __slots__ = ("_bells", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._bells: tuple[_Bell, ...] = ()

    def set(self) -> None:
        """Set the event: all threads that wait for it go on."""
        self._lock.release()
        for bell in self._bells:
            bell.ring()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until it is set (True), or `timeout` seconds have passed (False)."""
        if timeout is not None and timeout > threading.TIMEOUT_MAX:
            timeout = None
        if threading.current_thread() is not threading.main_thread():
            return self._pass(-1 if timeout is None else timeout)
        if self._pass(_SHORT if timeout is None else min(timeout, _SHORT)):
            return True
        if timeout is not None and timeout <= _SHORT:
            return False
        rest = None if timeout is None else timeout - _SHORT
        return self._wait_for_signals_too(rest) if _CAN_POLL else self._wait_in_parts(rest)

    def _pass(self, timeout: float) -> bool:
        if self._lock.acquire(timeout=timeout):
            self._lock.release()
            return True
        return False

    def _wait_for_signals_too(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else monotonic() + timeout
        bell = _Bell()
        before: list[int] = []
        self._bells += (bell,)
        try:
            # In one step, all of it C: a signal between the call and keeping what it returns
            # would lose that, and later ones would be written to a descriptor that is closed.
            try:
                before.extend(map(_hear_signals, (bell.write_end,)))
            except ValueError:  # Python is embedded, and its main thread is not the process's
                return self._pass(-1 if timeout is None else timeout)
            return self._until_rung(bell, deadline)
        finally:
            if before:
                try:  # the call itself, and first: a Ctrl-C can come after it, not before
                    _hear_signals(before[0])
                except (ValueError, OSError):  # the descriptor that got them before is closed
                    signal.set_wakeup_fd(-1)
                bell.hand_on(before[0])
            self._bells = tuple(b for b in self._bells if b is not bell)

    def _wait_in_parts(self, timeout: float | None) -> bool:
        """Look up now and then: on Windows nothing ends the wait for a lock, Ctrl-C neither."""
        deadline = inf if timeout is None else monotonic() + timeout
        while not self._pass(max(0.0, min(_PART, deadline - monotonic()))):
            if monotonic() >= deadline:
                return False
        return True

    def _until_rung(self, bell: _Bell, deadline: float | None) -> bool:
        while not self._pass(0):
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return False
            bell.sleep(left)
        return True


class _Bell:
    """A pipe that ends a sleep when something is written to it.

    It is closed with its last reference. A thread that rings holds one, so that no byte is
    written to a descriptor that has been closed and reused. C closes it, not a `__del__`: see
    finalizers.py.
    """

    __slots__ = ("_ends", "_poll", "_read", "_signals", "write_end")

    def __init__(self) -> None:
        self._ends = opened_pipe()
        self._read, self.write_end = [end.fileno() for end in self._ends]
        os.set_blocking(self._read, False)
        os.set_blocking(self.write_end, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        self._signals = b""

    def ring(self) -> None:
        try:
            os.write(self.write_end, b"\0")
        except BlockingIOError:  # it is full, so it rings already
            pass

    def hand_on(self, before: int) -> None:
        """Pass signals on to the descriptor that got them before, such as an event loop's."""
        self._take()
        came, self._signals = self._signals, b""
        if before >= 0 and came:
            try:
                os.write(before, came)
            except OSError:  # it is full, so its reader wakes anyway, or closed
                pass

    def sleep(self, timeout: float | None) -> None:
        self._poll.poll(None if timeout is None else min(timeout * 1000, _LONGEST))
        self._take()

    def _take(self) -> None:
        try:
            self._signals += os.read(self._read, 4096).replace(b"\0", b"")
        except BlockingIOError:
            pass
