"""The threads of an engine's worker in which groups run, kept from one group to the next.

What tasks keep by thread, such as a worker state of scope "thread", is there for the groups to
come. There are as many threads as groups ran at once: a thread is free again before the engine
learns that its group has ended. A thread whose group was given up ends with the group, since
another thread has taken its place.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from lazyflow.schedulers.cluster.work import Work

#: Threads that have nothing to do, the last one freed at the end.
_free: list[_GroupThread] = []


def run_in_thread(
    work: Work, context: contextvars.Context, done: Callable[[Any], object]
) -> None:
    """Run a group in a context and a thread of this process, then call `done` there."""
    try:
        thread = _free.pop()
    except IndexError:
        thread = _GroupThread()
    thread.calls.put((work, context, done))


class _GroupThread:
    """A thread that runs groups, with its queue."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._serve, name="lazyflow-group", daemon=True).start()

    def _serve(self) -> None:
        while True:
            work, context, done = self.calls.get()
            found = context.run(work)
            is_replaced = work.is_given_up
            if not is_replaced:
                _free.append(self)
            done(found)
            if is_replaced:
                return
            del work, context, done, found  # hold no values while asleep


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free.clear)
