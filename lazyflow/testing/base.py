"""What the parts of the contract share."""

from __future__ import annotations

from typing import Any

import lazyflow


class Part:
    """One part of the contract, for the scheduler named by the class that inherits it.

    scheduler
        As in ``compute(scheduler=...)``.
    parallel
        Tasks may run at the same time.
    interrupts
        ``timeout=`` ends the wait while a task runs.
    eager
        ``persist`` returns when the work is done.
    survives_fork
        A forked child can compute on it.
    """

    scheduler: Any = None
    parallel = True
    interrupts = True
    eager = False
    survives_fork = True

    def compute(self, *args: Any, **options: Any) -> Any:
        """Compute on this scheduler; one value for one argument."""
        values = lazyflow.compute(*args, scheduler=self.scheduler, **options)
        return values[0] if len(values) == 1 else values

    def persist(self, *args: Any, **options: Any) -> Any:
        """Persist on this scheduler; one value for one argument."""
        values = lazyflow.persist(*args, scheduler=self.scheduler, **options)
        return values[0] if len(values) == 1 else values


def inc(x: Any) -> Any:
    """Add one."""
    return x + 1


def add(x: Any, y: Any) -> Any:
    """Add."""
    return x + y
