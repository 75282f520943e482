"""`scheduler="processes"` inside a worker: the worker itself, by the loop of sync.

A task that computes does the work itself. It waits for no other worker, so nested computes can't
starve, even with one worker.
"""

from __future__ import annotations

from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.schedulers.core.base import installed
from lazyflow.schedulers.core.task_resources import scheduler_here
from lazyflow.schedulers.sync import SyncScheduler


class InsideScheduler(SyncScheduler):
    """The worker's own main thread as the only worker."""

    name = "processes"

    def __init__(self) -> None:
        super().__init__()
        self.active: set[Any] = set()

    def start(self, run: Any) -> None:
        """Begin a run; `give_up` can stop it until `wait` has ended."""
        self.active.add(run)
        try:
            super().start(run)
        except BaseException:
            self.active.discard(run)
            raise

    def wait(self, run: Any, timeout: float | None) -> bool:
        """Do the work of a run, which is not kept until the next compute."""
        try:
            return super().wait(run, timeout)
        finally:
            self.active.discard(run)

    def give_up(self) -> None:
        """Stop the computes of the task that runs here. Called by the service thread."""
        for run in tuple(self.active):
            run.cancel(Cancelled("the task that asked for it was given up"))


#: The scheduler of computes in tasks of this worker.
inside = InsideScheduler()


def install() -> None:
    """Make it this process's "processes", and the default scheduler of tasks."""
    installed[inside.name] = inside
    scheduler_here.set(inside)
