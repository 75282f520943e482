"""In a worker: what is noted of tasks that an observer of the caller's asks for.

A thread looks at where they are while flights come that ask for it, and ends by itself when none
has come for a while.
"""

from __future__ import annotations

from lazyflow.schedulers.core.compiling import listen
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, Stack
from lazyflow.schedulers.processes.worker.flight import RunningFlight


class TaskWatch:
    """Notes what happens in the tasks of the flight that runs now."""

    def __init__(self) -> None:
        self._flight: RunningFlight | None = None
        self._sampler: Sampler | None = None

    def begin(self, flight: RunningFlight, interval: float) -> None:
        """Watch a flight that begins, and look at it each `interval` seconds; 0: do not look."""
        self._flight = flight
        self._listen()
        old = self._sampler
        if old is not None and (old.interval != interval or not old.goes_on()):
            old.stop()
            self._sampler = old = None
        if interval and old is None:
            self._sampler = Sampler(
                interval, self._running, self._sampled, self._listen, may_idle=False
            ).start()

    def end(self) -> None:
        """Watch no flight any more."""
        self._flight = None

    def _listen(self) -> None:
        listen(self._compiled)

    def _running(self) -> tuple[RunningTask, ...]:
        flight = self._flight
        return () if flight is None else tuple(flight.running())

    def _sampled(self, i: int, stack: Stack, seconds: float) -> None:
        flight = self._flight
        if flight is not None:
            flight.sampled(i, stack, seconds)

    def _compiled(self, seconds: float) -> None:
        flight = self._flight
        if flight is not None:
            flight.compiled(seconds)
