"""The worker of the current thread, and how a thread announces that it sleeps."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lazyflow.schedulers.core.base import Worker


class _CurrentThread(threading.local):
    worker: Worker | None = None
    is_worker = False
    actor: Any = None
    slot: Any = None

    def __init__(self) -> None:
        self.uses: list[Any] = []


#: ``here.worker`` is the worker that this thread is, inside `Run.work`; ``is_worker`` tells that
#: the thread runs tasks outside of one. ``here.uses``: see task_resources.py. ``here.actor`` is the
#: actor whose thread it is, if that runs one call at a time: see actors/waits.py. ``here.slot`` is
#: the slot of an engine's worker that the thread has, with ``lookout()``: see `wait_watching`.
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


def _after_fork() -> None:
    """In the child of a fork inside a task: this thread belongs to no pool any more.

    The child may compute. When the task returns there, `Run.work` ends it: the run goes on in
    the parent only. (A fork under sync on the main thread is a plain fork of the program.)
    """
    worker, here.worker = here.worker, None
    while worker is not None:
        if worker.run is not None:
            worker.run.stop.append(None)
        worker.forked = True
        worker = worker.below


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
