"""Taking turns at something that one task at a time may have.

A thread of a pool that waits for its turn keeps its place, or a thousand waiting tasks would
mean a thousand threads. But when the task whose turn it is sleeps itself, what it sleeps for
may need those places: then the others give theirs up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from lazyflow.schedulers.core.slots import asleep

__all__ = ["Deadlock", "Turn"]

_GO, _RISE = True, False

#: For each thread that waits, the turn it waits for.
_waits: dict[int, Turn] = {}


class Deadlock(RuntimeError):
    """Two tasks would wait for each other for ever."""


class Turn:
    """Who may have it now, and who waits.

    >>> turn = Turn()
    >>> turn.take()
    >>> turn.give()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0  # a thread; 0: nobody
        self._holder_sleeps = False
        self._bells: deque[tuple[int, SimpleQueue[bool]]] = deque()

    def is_mine(self) -> bool:
        """Tell whether this thread has it."""
        return self._holder == threading.get_ident()

    def take(self) -> None:
        """Wait until it is this thread's turn; raises Deadlock when that can't be."""
        me = threading.get_ident()
        with self._lock:
            if not self._holder:
                self._holder = me
                return
            mine: SimpleQueue[bool] = SimpleQueue()
            self._bells.append((me, mine))
            _waits[me] = self
            rises = self._holder_sleeps
        try:
            self._refuse_circle(me)
            if not rises:
                rises = mine.get() is _RISE
                if not rises:
                    return
            with asleep():
                while mine.get() is _RISE:
                    pass
        except BaseException:
            self._leave(me, mine)
            raise

    def give(self) -> None:
        """Let the next one have it."""
        with self._lock:
            self._pass_on()

    def try_take(self) -> bool:
        """Take it when nobody has it."""
        with self._lock:
            if self._holder:
                return False
            self._holder = threading.get_ident()
            return True

    @contextmanager
    def holder_asleep(self) -> Iterator[None]:
        """While the holder sleeps, those who wait give up their places."""
        with self._lock:
            self._holder_sleeps = True
            bells = [bell for _, bell in self._bells]
        for bell in bells:
            bell.put(_RISE)
        try:
            yield
        finally:
            with self._lock:
                self._holder_sleeps = False

    def _pass_on(self) -> None:
        self._holder_sleeps = False
        if self._bells:
            self._holder, bell = self._bells.popleft()
            _waits.pop(self._holder, None)
            bell.put(_GO)
        else:
            self._holder = 0

    def _leave(self, me: int, mine: SimpleQueue[bool]) -> None:
        """Wait no more: an interrupt, or a circle."""
        with self._lock:
            if (me, mine) in self._bells:
                self._bells.remove((me, mine))
                _waits.pop(me, None)
            else:  # it came just now
                self._pass_on()

    def _refuse_circle(self, me: int) -> None:
        # All who wait are in `_waits` before they look: of a circle, the last to come sees it.
        turn: Turn | None = self
        while turn is not None:
            holder = turn._holder
            if holder == me:
                if turn is self or me not in _waits:
                    return  # this one has come just now
                raise Deadlock("it is in use by a task that waits for what this task has in use")
            turn = _waits.get(holder)
