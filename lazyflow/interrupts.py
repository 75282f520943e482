"""Ctrl-C: where it can come, whose it is, and what survives it.

Python handles signals in the main thread only, between two instructions: there a Ctrl-C is a
KeyboardInterrupt at any call, any jump back, or any beginning of a function, of lazyflow's code as
of the user's. These rules hold wherever it comes:

- *It is the user's, or a task's.* In the main thread a KeyboardInterrupt is the user's: it ends the
  run and is raised by `compute`. In any other thread a task raised it, and it is the failure of
  that task: `is_users_interrupt`.
- *A thread that sleeps wakes up*: `Event`.
- *A thread is started as a whole, or not at all.* `Thread.start` is Python, and a Ctrl-C in it can
  leave the new thread waiting for ever in its first lines: `uninterrupted`.
- *Every descriptor has an owner.* A Ctrl-C can come between the call that returns a descriptor and
  the assignment that keeps it, so both are one step of C: `system.opened`. Elsewhere a name is
  bound before the `try` that takes it back, or an item popped from a list of one.
- *Finalizers run.* A `__del__` in Python would lose the Ctrl-C: see finalizers.py.
- *After it, the program ends at once*: `end_with_python`.

`tests/schedulers/test_interrupt_steps.py` interrupts computations at every such instruction.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial

from lazyflow.clock import Deadline
from lazyflow.system import opened_pipe

__all__ = [
    "EXIT_GRACE", "Event", "end_with_python", "is_users_interrupt", "uninterrupted",
    "was_interrupted",
]


# -- whose it is ------------------------------------------------------------------------------


def is_users_interrupt(error: BaseException) -> bool:
    """Tell whether an error is the user's Ctrl-C, and not raised by a task."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
    )


def was_interrupted() -> bool:
    """Tell whether the main program ended by Ctrl-C."""
    return getattr(sys, "last_type", None) is KeyboardInterrupt


EXIT_GRACE = 2.0  # seconds that running tasks get when the interpreter ends


def end_with_python(shutdown: Callable[[float], list[str]]) -> None:
    """Shut a pool down at the end of Python; wait for running tasks unless Ctrl-C ended it."""
    try:
        left = shutdown(0.0 if was_interrupted() else EXIT_GRACE)
        for name in () if was_interrupted() else left:
            print(f"lazyflow: still running when Python ended: {name}", file=sys.stderr)
    except KeyboardInterrupt:  # the user does not want to wait for the end of running tasks
        pass


# -- steps that it can't come into ------------------------------------------------------------


def uninterrupted(call: Callable[[], object]) -> None:
    """Make a call that no Ctrl-C ends halfway, as the start of a thread must be.

    The main thread has another one make it, which is started by C, and waits: a Ctrl-C meanwhile
    ends the wait, not the call. Raises what the call raises.
    """
    if threading.current_thread() is not threading.main_thread():
        call()
        return
    ended = _thread.allocate_lock()
    ended.acquire()
    failed: list[BaseException] = []

    def make() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)
        finally:
            ended.release()

    _thread.start_new_thread(make, ())
    ended.acquire()
    if failed:
        raise failed.pop()


# -- sleep that it ends -----------------------------------------------------------------------
#
# A lock can be acquired with a signal already noted and not yet handled: it came after the
# interpreter last looked and before the thread slept, a few instructions that take milliseconds on
# a busy machine. Ctrl-C is then lost until the lock is free (seen in 1 of 100 interrupted starts of
# a pool). So the main thread, the only one that handles signals, sleeps on a descriptor that
# signals write to: a signal that came before the sleep ends it as well.

_LONGEST = (1 << 31) - 1  # milliseconds of one poll, the most that it can take
_hear_signals = partial(signal.set_wakeup_fd, warn_on_full_buffer=False)
_CAN_POLL = hasattr(select, "poll")
_PART = 0.1  # seconds, where it can't; a guess
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
        deadline = Deadline(timeout)
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
        deadline = Deadline(timeout)
        while not self._pass(_PART if (left := deadline.left()) is None else min(_PART, left)):
            if deadline.is_over():
                return False
        return True

    def _until_rung(self, bell: _Bell, deadline: Deadline) -> bool:
        while not self._pass(0):
            if deadline.is_over():
                return False
            bell.sleep(deadline.left())
        return True


class _Bell:
    """A pipe that ends a sleep when something is written to it.

    It is closed with its last reference. A thread that rings holds one, so that no byte is
    written to a descriptor that has been closed and reused.
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
