"""The worker of the current thread, and how a thread announces that it sleeps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lazyflow.schedulers.core.base import Worker


class _CurrentThread(threading.local):
    worker: Worker | None = None
    is_worker = False

    def __init__(self) -> None:
        self.uses: list[Any] = []


#: ``here.worker`` is the worker that this thread is, inside `Run.work`; ``is_worker`` tells that
#: the thread runs tasks outside of one. ``here.uses``: see task_resources.py.
here = _CurrentThread()


@contextmanager
def asleep() -> Iterator[None]:
    """Announce to every scheduler for which this thread works that it sleeps in this block."""
    with ExitStack() as stack:
        worker = here.worker
        while worker is not None:
            stack.enter_context(worker.asleep())
            worker = worker.below
        for use in here.uses:
            stack.enter_context(use.asleep())
        yield
