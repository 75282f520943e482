"""The base class of the contract's parts."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import lazyflow
from lazyflow.testing.signals import Level, inc


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
    shares_memory
        Tasks run in the caller's process. If not, they run on its machine: values are copied when
        sent, and a dropped value is freed once the message about it has arrived.
    waits_ahead
        How many tasks may wait at a worker, if there are several, for values from others.
    """

    scheduler: Any = None
    parallel = True
    interrupts = True
    eager = False
    survives_fork = True
    shares_memory = True
    waits_ahead = 0

    def needs(self, able: bool, why_not: str) -> None:
        """Skip the test unless this scheduler has the abilities that it needs."""
        if not able:
            pytest.skip(why_not)

    def compute(self, *args: Any, **options: Any) -> Any:
        """Compute on this scheduler; one value for one argument."""
        values = lazyflow.compute(*args, scheduler=self.scheduler, **options)
        return values[0] if len(values) == 1 else values

    def persist(self, *args: Any, **options: Any) -> Any:
        """Persist on this scheduler; one value for one argument."""
        values = lazyflow.persist(*args, scheduler=self.scheduler, **options)
        return values[0] if len(values) == 1 else values

    def word_travels(self) -> None:
        """Let workers in other processes hear which values the caller just dropped."""
        gc.collect()
        if not self.shares_memory:
            self.compute(lazyflow.delayed(inc)(1), num_workers=2)

    def comes_to(self, level: Level, number: int) -> bool:
        """Tell whether a level is `number`, once other processes have heard of it."""
        self.word_travels()
        return level.now() == number if self.shares_memory else level.wait_for(number)
