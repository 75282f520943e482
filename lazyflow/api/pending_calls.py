"""The limit on pending calls of an actor: a caller that reaches it sleeps until some have ended.

Only calls of the program itself wait. A call from inside a task or an actor's call is made at
once, since the pending calls may wait for its result. So is the call of a coroutine: its event
loop must not stand still.
"""

from __future__ import annotations

import inspect
import sys
from typing import Protocol

from lazyflow import config
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.event import Event
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import scheduler_here
from lazyflow.schedulers.core.unfinished import unfinished

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Ends(Protocol):
    """An actor, or a pool of them."""

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""


class PendingCalls:
    """Counts the calls of one actor that have not ended."""

    __slots__ = ("_calls", "_sleepers")

    def __init__(self) -> None:
        self._calls: list[None] = []  # one item each: append and pop are atomic, a sum is not
        #: For each sleeping caller its event, and the number of calls at which it goes on.
        self._sleepers: dict[Event, int] = {}

    def make_room(self, host: Ends) -> None:
        """Sleep while the limit of pending calls is reached."""
        limit = config.get("max_pending_calls")
        if len(self._calls) < limit or scheduler_here.get() is not None or _in_coroutine():
            return
        try:
            # In the child of a fork the actor is over, and the parent's calls never end.
            while len(self._calls) >= limit and not host.is_over:
                self._sleep(limit)
        except KeyboardInterrupt as error:
            raise interrupted(error) from None

    def _sleep(self, limit: int) -> None:
        gate = Event()
        # A thread that woke at each end would switch for every call.
        self._sleepers[gate] = limit - 1 - limit // 8
        try:
            if len(self._calls) >= limit:  # a call that ends later sees the gate
                gate.wait()
        finally:
            self._sleepers.pop(gate, None)

    def add(self, future: TaskFuture) -> None:
        """Count a call as pending until its future is done."""
        self._calls.append(None)
        unfinished.add(future)
        future.add_callback(self._ended)

    def _ended(self, future: TaskFuture) -> None:
        unfinished.discard(future)
        self._calls.pop()
        if self._sleepers:
            left = len(self._calls)
            for gate, enough in tuple(self._sleepers.items()):
                if left <= enough and self._sleepers.pop(gate, None) is not None:
                    gate.set()


def _in_coroutine() -> bool:
    """Tell whether a coroutine, or a callback of an event loop, is running here.

    Notebooks run every cell inside a loop: code outside of all functions counts as the program
    itself, and ends the search.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return False
    callback = asyncio.Handle._run.__code__
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if code.co_flags & _ASYNC or code is callback:
            return True
        if not code.co_flags & inspect.CO_NEWLOCALS:
            return False
        frame = frame.f_back
    return False
