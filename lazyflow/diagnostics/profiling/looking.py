"""The thread of a profile: it looks at tasks of this process, and reads memory and CPU use."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from threading import get_ident
from typing import Any

from lazyflow.diagnostics.profiling.samples import Samples
from lazyflow.diagnostics.profiling.usage import UsageMeter
from lazyflow.schedulers.actors.watched_call import WatchedCall
from lazyflow.schedulers.core.base import AnyRun
from lazyflow.schedulers.core.compiling import listen
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, Stack, depth_here

_LEAST, _MOST = 0.001, 3600.0  # seconds between two looks


class Looks:
    """What is seen by looking each `sample` seconds; None: nothing, and there is no thread.

    Parameters
    ----------
    runs
        Returns the runs that go on.
    calls
        Returns the calls of actors that go on, each named by its `WatchedCall`.

    Attributes
    ----------
    samples
        Where tasks were, those of other processes too.
    meter
        Memory and CPU use.
    """

    def __init__(
        self, sample: float | None, runs: Callable[[], list[AnyRun]],
        calls: Callable[[], list[RunningTask]],
    ) -> None:
        if sample is not None:
            given: Any = sample
            is_number = isinstance(given, Real) and not isinstance(given, bool)
            if not is_number or not _LEAST <= given <= _MOST:
                raise (ValueError if is_number else TypeError)(
                    f"sample={sample!r}: the seconds between two looks are a number from {_LEAST} "
                    f"to {_MOST:g}. Type: profile(), which looks each 0.01 s, or "
                    "profile(sample=None), which does not look"
                )
        self.sample = sample
        self.samples = Samples()
        self._schedulers: dict[int, Any] = {}
        self.meter = UsageMeter(lambda: list(self._schedulers.values()))
        self._runs = runs
        self._calls = calls
        self._sampler: Sampler | None = None

    def begin(self) -> None:
        """Start the thread."""
        listen()
        if self.sample is not None:
            outer = {get_ident(): depth_here()}  # a task may profile what it computes
            self._sampler = Sampler(
                self.sample, self._running, self._sampled, self._looked, outer=outer
            ).start()

    def end(self) -> None:
        """End the thread."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None
        self._schedulers.clear()

    def see(self, scheduler: Any) -> None:
        """Read the memory of a scheduler's workers and actors from now on, until the end."""
        if self._sampler is not None:
            self._schedulers[id(scheduler)] = scheduler

    def _running(self) -> list[RunningTask]:
        timers = [(run, run.observers.timer) for run in self._runs()]
        tasks = [task for run, timer in timers if timer for task in timer.running(run)]
        return tasks + self._calls()

    def _sampled(
        self, task: tuple[AnyRun, int] | WatchedCall, stack: Stack, seconds: float
    ) -> None:
        called = task.task if isinstance(task, WatchedCall) else task[0].plan.tasks[task[1]]
        self.samples.add(called._func, stack, 1, seconds)

    def _looked(self) -> None:
        listen()  # a task may have imported Numba
        self.meter.read()
