"""The runners of a search: as many as trials may be under way at once.

Those in processes of their own stay for the next search, as the workers of the pool do: to start a
process takes longer than many a trial.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from lazyflow.api.actors import actor
from lazyflow.api.futures import Future
from lazyflow.api.submitting import put
from lazyflow.api.waiting import wait
from lazyflow.config import default_workers
from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.schedulers.core.base import Scheduler
from lazyflow.schedulers.remote.environment import packed
from lazyflow.tune.reporting import TrialOrder
from lazyflow.tune.runner import TrialRunner
from lazyflow.tune.trial import Trial

#: By scheduler: what runners took over of the caller when they were made, and those without work.
#: Only of schedulers where each has a process of its own.
_idle: dict[str, tuple[bytes, list[Any]]] = {}


def _look(future: Any) -> None:
    """Look at how a call has ended that nobody waits for: nothing is to be said of it."""
    if not future.cancelled():
        future.exception()


def _idle_of(scheduler: str) -> list[Any]:
    """Return the runners without work; those of another environment end."""
    environment = packed() + pickle.dumps((dict(os.environ), sys.path))
    if scheduler not in _idle or _idle[scheduler][0] != environment:
        _idle[scheduler] = environment, []
    return _idle[scheduler][1]


class Slot:
    """A runner, and the trial that it runs."""

    def __init__(self, runner: Any, loaded: Future) -> None:
        self.runner = runner
        self.began = 0.0
        self._loaded = loaded
        self.trial: Trial | None = None
        self.future: Future | None = None
        self.stopped: Future | None = None

    def begin(self, trial: Trial, order: TrialOrder) -> None:
        """Begin a trial."""
        self.trial, self.began = trial, monotonic()
        self.future = self.runner.begin(order, self._loaded)

    def go_on(self) -> None:
        """Let the trial go on."""
        self.future = self.runner.go_on()

    def stop(self) -> None:
        """End the trial, which has reported."""
        self.stopped = self.runner.stop()
        self.free()

    def free(self) -> None:
        """Be without a trial."""
        self.trial = self.future = None


class Runners:
    """The slots of a search."""

    def __init__(
        self, scheduler: Scheduler, count: int, function: Callable[..., Any], data: dict[str, Any]
    ) -> None:
        self._scheduler = scheduler
        self._has_processes = scheduler.name in ("processes", "ray")
        self._count = count
        self._function = put(function, scheduler=scheduler)
        self._data = {name: put(value, scheduler=scheduler) for name, value in data.items()}
        self._idle = _idle_of(scheduler.name)
        self.slots: list[Slot] = []

    def free_slot(self) -> Slot | None:
        """Return a slot without a trial, or None."""
        for slot in self.slots:
            if slot.trial is None:
                return slot
        if len(self.slots) == self._count:
            return None
        slot = self._new()
        self.slots.append(slot)
        return slot

    def busy(self) -> list[Slot]:
        """Return the slots with trials."""
        return [slot for slot in self.slots if slot.trial is not None]

    def lose(self, slot: Slot) -> None:
        """Forget a slot whose runner has died."""
        self.slots.remove(slot)

    def settle(self) -> None:
        """Wait until the trials that were stopped have ended."""
        wait([slot.stopped for slot in self.slots if slot.stopped is not None])

    def close(self) -> None:
        """End what runs; keep processes for the next search."""
        for slot in self.slots:
            if slot.future is not None:
                is_done = slot.future.done()
                if not is_done:
                    slot.future.add_done_callback(_look)
                    slot.future.cancel(force=self._has_processes)
                if is_done or not self._has_processes:
                    slot.runner.stop().add_done_callback(_look)  # at its next report
            elif self._has_processes and len(self._idle) < default_workers():
                slot.runner.load(None, {})
                self._idle.append(slot.runner)
        self.slots.clear()

    def _new(self) -> Slot:
        while self._idle:
            runner = self._idle.pop()
            try:
                loaded = runner.load(self._function, self._data)
                loaded.result()
                return Slot(runner, loaded)
            except (WorkerDied, Cancelled):  # meanwhile, or by a shutdown
                continue
        runner = actor(TrialRunner, scheduler=self._scheduler, mutates=False)()
        return Slot(runner, runner.load(self._function, self._data))
