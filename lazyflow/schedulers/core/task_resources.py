"""Resources that a task uses until it ends, and objects that a worker keeps between tasks.

``here.uses`` is a list for each thread, empty unless a task has asked for something. It is
looked at where that costs nothing: in `Run` by an observer, which the first use in a run adds;
in worker processes after each task.

A use belongs to a task: to number `task` of `run`, or, where tasks are called outside of `Run`,
to the only one that runs in the thread; `run` is None then. A thread is in the loop of one run
once, so when a task of a run ends, all that the thread uses for that run is given back.
"""

from __future__ import annotations

import atexit
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from lazyflow.schedulers.core.base import AnyRun, Observer, Worker
from lazyflow.system import at_fork

# -- the worker of the current thread, and how a thread announces that it sleeps ----------


class _CurrentThread(threading.local):
    worker: Worker | None = None
    is_worker = False
    actor: Any = None
    slot: Any = None

    def __init__(self) -> None:
        self.uses: list[Any] = []


#: ``here.worker`` is the worker that this thread is, inside `Run.work`; ``is_worker`` tells that
#: the thread runs tasks outside of one. ``here.uses``: see `task_over`. ``here.actor`` is the
#: actor whose thread it is, if that runs one call at a time: see actors/calls.py. ``here.slot`` is
#: the slot of an engine's worker that the thread has, with ``lookout()``: see `wait_watching`.
here = _CurrentThread()

#: The scheduler whose task is running here: the default of a nested compute.
scheduler_here: ContextVar[Any] = ContextVar("lazyflow_scheduler_here", default=None)


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


at_fork(after_in_child=_after_fork)


class Use(ABC):
    """Something that a task has until it ends."""

    __slots__ = ("run", "task")

    def __init__(self, run: Any, task: int) -> None:
        self.run = run
        self.task = task

    @abstractmethod
    def end(self) -> None:
        """Return it, in the thread of the task; called again if Ctrl-C interrupted the call."""

    @abstractmethod
    def asleep(self) -> AbstractContextManager[None]:
        """Return a context manager that is entered while the task sleeps."""


class _Watcher(Observer):
    """Ends the uses of each task that ends, in its thread."""

    def task_ended(self, run: AnyRun, i: int) -> None:
        if here.uses:
            task_over(run)

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        if here.uses:
            task_over(run)


_watcher = _Watcher()


def current_task() -> tuple[Any, int] | None:
    """Return the run and the number of the task that calls this, None outside of tasks."""
    worker = here.worker
    if worker is not None and worker.run is not None and worker.task >= 0:
        return worker.run, worker.task
    return (None, 0) if here.is_worker else None


def begin(use: Use) -> None:
    """Note a use by the calling task, which lasts until the task ends."""
    here.uses.append(use)
    run = use.run
    if run is not None:
        run.observers.add(_watcher)


def task_over(run: Any) -> None:
    """End the uses of the task that this thread ran for a run, the newest first."""
    for use in [use for use in reversed(here.uses) if use.run is run]:
        use.end()
        here.uses.remove(use)


@contextmanager
def as_worker() -> Iterator[None]:
    """Mark this thread as a worker while it calls a task outside of `Run`."""
    before, here.is_worker = here.is_worker, True
    try:
        yield
    finally:
        here.is_worker = before
        if here.uses:
            task_over(None)


# -- objects that a worker keeps until it ends -------------------------------------------------


class Kept(ABC):
    """Something that this process keeps between tasks."""

    @abstractmethod
    def close(self) -> None:
        """Close it, unless a task has it in use."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """Let go of it in the child of a fork, without closing it: it belongs to the parent."""


#: Objects from other processes, by name: they stay for later tasks until `drop` is called.
arrived: dict[str, Any] = {}

#: One function for each scheduler, which tells its workers to `drop` a name.
tellers: list[Callable[[str], Any]] = []


def tell_to_drop(name: str) -> None:
    """Have workers drop the object of a name that was dropped here."""
    for tell in tellers:
        tell(name)


def drop(name: str) -> None:
    """Close the object of a name, which its own process has dropped."""
    dropped = arrived.pop(name, None)
    if dropped is not None:
        dropped.close()


#: By id. This module is imported before schedulers are, so their threads end first at exit.
kept: dict[int, Kept] = {}


def close_kept() -> None:
    """Close everything that is not in use, the newest first."""
    for one in reversed(tuple(kept.values())):
        one.close()


def _drop_uses_in_child() -> None:
    here.uses.clear()
    inherited = tuple(kept.values())
    kept.clear()
    for one in inherited:
        one.leave_to_parent()


atexit.register(close_kept)
at_fork(after_in_child=_drop_uses_in_child)
