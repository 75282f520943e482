"""A lock that one task at a time may hold.

A thread of a pool that waits for the lock keeps its slot, or a thousand waiting tasks would mean
a thousand threads. But when the task that holds the lock sleeps itself, the work that it sleeps
for may need those slots: then the waiting threads give theirs up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from lazyflow.schedulers.core.current_worker import asleep

__all__ = ["Deadlock", "TaskLock"]

#: Messages to a waiting thread: it holds the lock now; it shall give up its slot.
_ACQUIRED, _GIVE_UP_SLOT = True, False

#: For each thread that waits, the lock that it waits for.
_waits: dict[int, TaskLock] = {}


class Deadlock(RuntimeError):
    """Two tasks would wait for each other for ever."""


class TaskLock:
    """A lock that knows the thread that holds it, and the threads that wait.

    >>> lock = TaskLock()
    >>> lock.acquire()
    >>> lock.is_mine(), lock.try_acquire()
    (True, False)
    >>> lock.release()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0  # a thread; 0: none
        self._holder_sleeps = False
        self._waiting: deque[tuple[int, SimpleQueue[bool]]] = deque()

    def is_mine(self) -> bool:
        """Tell whether this thread holds the lock."""
        return self._holder == threading.get_ident()

    def acquire(self) -> None:
        """Wait until this thread holds the lock; raises `Deadlock` when that can't be."""
        me = threading.get_ident()
        with self._lock:
            if not self._holder:
                self._holder = me
                return
            messages: SimpleQueue[bool] = SimpleQueue()
            self._waiting.append((me, messages))
            _waits[me] = self
            gives_up_slot = self._holder_sleeps
        try:
            self._refuse_circle(me)
            if not gives_up_slot:
                gives_up_slot = messages.get() is _GIVE_UP_SLOT
                if not gives_up_slot:
                    return
            with asleep():
                _await_turn(messages)
        except BaseException:
            self._leave(me, messages)
            raise

    def release(self) -> None:
        """Hand the lock to the thread that has waited longest."""
        with self._lock:
            self._pass_on()

    def try_acquire(self) -> bool:
        """Acquire the lock if no thread holds it; tell whether that was so."""
        with self._lock:
            if self._holder:
                return False
            self._holder = threading.get_ident()
            return True

    @contextmanager
    def holder_asleep(self) -> Iterator[None]:
        """Have waiting threads give up their slots while the holder of the lock sleeps."""
        with self._lock:
            self._holder_sleeps = True
            waiting = [messages for _, messages in self._waiting]
        for messages in waiting:
            messages.put(_GIVE_UP_SLOT)
        try:
            yield
        finally:
            with self._lock:
                self._holder_sleeps = False

    def _pass_on(self) -> None:
        self._holder_sleeps = False
        if self._waiting:
            self._holder, messages = self._waiting.popleft()
            _waits.pop(self._holder, None)
            messages.put(_ACQUIRED)
        else:
            self._holder = 0

    def _leave(self, me: int, messages: SimpleQueue[bool]) -> None:
        """Wait no more, after an interrupt or a deadlock."""
        with self._lock:
            if (me, messages) in self._waiting:
                self._waiting.remove((me, messages))
                _waits.pop(me, None)
            else:  # the lock was handed over just now
                self._pass_on()

    def _refuse_circle(self, me: int) -> None:
        # All waiting threads are in `_waits` before they look: the last one of a circle sees it.
        lock: TaskLock | None = self
        while lock is not None:
            holder = lock._holder
            if holder == me:
                if lock is self or me not in _waits:
                    return  # the lock was handed over just now
                raise Deadlock("it is in use by a task that waits for what this task has in use")
            lock = _waits.get(holder)


def _await_turn(messages: SimpleQueue[bool]) -> None:  # a loop beside `with`: see threads.py
    while messages.get() is _GIVE_UP_SLOT:
        pass
