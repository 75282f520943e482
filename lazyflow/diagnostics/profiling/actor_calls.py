"""What is recorded of calls of actors: each actor has a lane of its own."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from lazyflow.diagnostics.profiling.recording import Words, naming
from lazyflow.diagnostics.profiling.records import TaskRecord
from lazyflow.diagnostics.profiling.texts import shown
from lazyflow.schedulers.actors.calls import WatchedCall
from lazyflow.schedulers.core.sampling import RunningTask


class ActorCalls:
    """The calls of actors that one observer hears of.

    Attributes
    ----------
    schedulers
        The names of their schedulers so far.
    """

    def __init__(self) -> None:
        self.schedulers: set[str] = set()
        self._open: dict[int, WatchedCall] = {}  # by id
        self._over: deque[tuple[tuple[Any, ...], str, float, float, float | None, bool]] = deque()
        self._lanes: dict[int, str] = {}  # by the number of the actor
        self._often: Counter[str] = Counter()

    def made(self, call: WatchedCall) -> None:
        """Take in that an actor is called."""
        self._open[id(call)] = call
        if call.number not in self._lanes:
            self.schedulers.add(call.scheduler.name)
            self._often[call.actor] += 1
            often = self._often[call.actor]
            self._lanes[call.number] = shown(f"actor {call.actor}") + f" ({often})" * (often > 1)

    def ended(self, call: WatchedCall) -> bool:
        """Take in that a call is over; return whether it is new, and was not just cancelled."""
        if self._open.pop(id(call), None) is None or (call.start is None and not call.failed):
            return False
        now = perf_counter()
        start, end, worker = call.start, call.end, self.lane(call)
        if start is None or end is None:
            start, end, worker = now, now, ""
        self._over.append((naming(call.task), worker, start, end, call.cpu, call.failed))
        return True

    def lane(self, call: WatchedCall) -> str:
        """Return the name of an actor that no other one has."""
        return self._lanes[call.number]

    def running(self) -> list[RunningTask]:
        """Return the calls that threads of this process run now, each named by itself."""
        return [
            RunningTask(call.thread, call, call.start)
            for call in tuple(self._open.values())
            if call.thread and call.start is not None
        ]

    def drop_records(self) -> None:
        """Forget what was recorded."""
        self._over.clear()

    def take_records(self, began: float, words: Words) -> Iterator[TaskRecord]:
        """Take out what was recorded."""
        while self._over:
            kind, worker, start, end, cpu, failed = self._over.popleft()
            yield TaskRecord(
                *words.of(kind), -1, worker, start - began, end - began, cpu, None, failed
            )
