"""`AdviceWindow`: the rules of advice, on what ran in the last seconds."""

from __future__ import annotations

from operator import attrgetter
from time import perf_counter

from lazyflow.diagnostics.profiling.actor_calls import ActorCalls
from lazyflow.diagnostics.profiling.advice import Advice, advice
from lazyflow.diagnostics.profiling.evidence import Evidence, idle_seconds, memory_limit
from lazyflow.diagnostics.profiling.recording import Recording, Words
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord
from lazyflow.diagnostics.profiling.usage import UsageMeter

__all__ = ["AdviceWindow"]

_LEAST = 5.0  # seconds of a window: a rule needs some time to judge
_MOST = 200_000  # calls of one: judging more would take seconds
_KEPT = 6  # pieces of advice that are shown


class AdviceWindow:
    """Collects runs that are over, and judges them between two runs, every five seconds or more.

    Parameters
    ----------
    calls
        The calls of actors, which it takes out.
    meter
        Has read memory and CPU use.

    Attributes
    ----------
    found : list of Advice
        The latest pieces, one for each rule and line.

    Examples
    --------
    >>> AdviceWindow(ActorCalls(), UsageMeter(tuple)).found
    []
    """

    def __init__(self, calls: ActorCalls, meter: UsageMeter) -> None:
        self.found: list[Advice] = []
        self._calls = calls
        self._meter = meter
        self._clear()

    def _clear(self) -> None:
        self._runs: list[Recording] = []
        self._spans = 0  # of those runs
        self._meter.forget()
        self._start, self._idle = perf_counter(), idle_seconds()

    def add(self, recording: Recording) -> None:
        """Add a run that is over."""
        if self._spans < _MOST:
            self._runs.append(recording)
            self._spans += 1 + len(recording.spans)

    def look(self) -> None:
        """Judge what was added, if that is long enough by now; nothing may run meanwhile.

        Examples
        --------
        >>> AdviceWindow(ActorCalls(), UsageMeter(tuple)).look()
        """
        seconds = perf_counter() - self._start
        words = Words()
        if not self._runs:
            self._calls.drop_records()  # of calls alone there is no advice
            self._clear()
        if not self._runs or seconds < _LEAST:
            return
        tasks: list[TaskRecord] = list(self._calls.take_records(self._start, words))
        runs: list[RunRecord] = []
        for each in self._runs:
            tasks += each.task_records(len(runs), self._start, words)
            runs.append(each.run_record(self._start, words))
        tasks.sort(key=attrgetter("start"))
        idle, now = self._idle, idle_seconds()
        usage = [use for use in self._meter.records(self._start) if use.time > 0]
        evidence = Evidence(
            tasks, runs, seconds, None if idle is None or now is None else now - idle,
            usage=usage, limit=memory_limit(usage),
        )
        latest = {(each.rule, each.place): each for each in [*self.found, *advice(evidence)]}
        self.found = list(latest.values())[-_KEPT:]
        self._clear()
