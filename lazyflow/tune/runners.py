"""The runners of a search, one for each trial that may run at once::

    Search (caller's thread)      Slot                TrialRunner (an actor)     its thread
    slot.begin(trial, order) -->  future of `begin` ----> starts -------------->  fn(config)
                                                          _reports <-- report --  tune.report
    event = future.result() <---  TrialReport  <--------  returns, and fn waits
    slot.go_on() or stop() ---->  future of `go_on` ----> _answers -- True ---->  goes on

Runners in processes of their own stay for the next search, like the workers of the pool, because
starting a process takes longer than many trials. State::

    Slot.trial, Slot.future      the trial, and the call that returns its next event; None: free
    Slot.stopped                 the call that ends the last trial, awaited by `Runners.settle`
    Runners.slots :: [Slot]      at most `count`, made when they are needed
    _idle :: {scheduler: (environment, [runner])}   of this process: those without work, for
                                 searches with the same settings, environment and path
"""

from __future__ import annotations

import contextvars
import os
import pickle
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from lazyflow.api.actors import actor
from lazyflow.api.futures import Future, put
from lazyflow.api.waiting import wait
from lazyflow.config import default_workers
from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.schedulers.core.base import Scheduler
from lazyflow.schedulers.remote.environment import packed
from lazyflow.tune.trial import RunningTrial, Trial, TrialOrder, TrialReport, TrialStopped, running

# -- where the functions of trials run: an actor for each trial that is under way ---------
#
# The search needs no way from a worker to the caller but the results of calls, which every
# scheduler has. On sync the function runs in the caller's thread, by `run_here`.


class TrialReturned(NamedTuple):
    """The end of a trial's function, and its result."""

    value: Any


TrialEvent = TrialReport | TrialReturned


class TrialRunner:
    """Runs trials, one after the other. Methods return when the trial reports or returns."""

    def __init__(self) -> None:
        self._function: Callable[..., Any] | None = None
        self._data: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._reports: SimpleQueue[TrialEvent | BaseException | None] = SimpleQueue()
        self._answers: SimpleQueue[bool] = SimpleQueue()

    def load(self, function: Callable[..., Any] | None, data: dict[str, Any]) -> None:
        """Take the function of trials, and its arguments beside configurations."""
        self._function, self._data = function, data

    def begin(self, order: TrialOrder, loaded: None) -> TrialEvent:
        """Begin a trial after `load`; an error of that is raised here, as it is an argument."""
        self._reports, self._answers = SimpleQueue(), SimpleQueue()
        context = contextvars.copy_context()
        context.run(running.set, RunningTrial(order, self._send))
        self._thread = threading.Thread(
            target=context.run, args=(self._run, order), name=f"trial-{order.number}", daemon=True
        )
        self._thread.start()
        return self._next()

    def go_on(self) -> TrialEvent:
        """Let the trial continue after its report."""
        self._answers.put(True)
        return self._next()

    def stop(self) -> None:
        """End the trial at its report, if it has not ended by itself."""
        if self._thread is None:
            return
        self._answers.put(False)
        while isinstance(self._reports.get(), TrialReport):  # it caught the end, and went on
            self._answers.put(False)
        self._join()

    def _next(self) -> TrialEvent:
        event = self._reports.get()
        if isinstance(event, BaseException):
            self._join()
            try:
                raise event
            finally:
                del event
        assert event is not None
        if isinstance(event, TrialReturned):
            self._join()
        return event

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self._thread = None

    # -- in the thread of the trial -----------------------------------------------------------

    def _send(self, report: TrialReport) -> bool:
        self._reports.put(report)
        return self._answers.get()

    def _run(self, order: TrialOrder) -> None:
        assert self._function is not None
        try:
            self._reports.put(TrialReturned(self._function(order.config, **self._data)))
        except TrialStopped:
            self._reports.put(None)
        except BaseException as error:
            self._reports.put(error)


def run_here(
    function: Callable[..., Any], data: dict[str, Any], order: TrialOrder,
    heard: Callable[[TrialReport], bool],
) -> TrialReturned | None:
    """Run a trial in this thread; return None if it was stopped.

    `heard` decides at each report whether it continues.
    """
    context = contextvars.copy_context()
    context.run(running.set, RunningTrial(order, heard))
    try:
        return TrialReturned(context.run(function, order.config, **data))
    except TrialStopped:
        return None


#: By scheduler: the caller's settings when runners were made, and the runners without work.
#: Only of schedulers where each has a process of its own.
_idle: dict[str, tuple[bytes, list[Any]]] = {}


def _look(future: Any) -> None:
    """Look at the end of a call that nothing waits for, so that its error is not logged."""
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

    def begin(self, trial: Trial, order: TrialOrder, now: float) -> None:
        """Begin a trial."""
        self.trial, self.began = trial, now
        self.future = self.runner.begin(order, self._loaded)

    def go_on(self) -> None:
        """Let the trial continue."""
        self.future = self.runner.go_on()

    def stop(self) -> None:
        """End the trial, which has reported."""
        self.stopped = self.runner.stop()
        self.free()

    def free(self) -> None:
        """Give up the trial."""
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
        """End running trials; keep processes for the next search."""
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
