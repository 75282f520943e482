"""`Monitor`: an observer that collects runs, and tells a page of changes.

Threads that run tasks only append raw values; the thread of the server looks names up, some times
a second (`take_in`), and it alone changes the tables below the blank line::

    _raw :: deque of (method, *arguments)      events that were not taken in; any thread appends
    _running :: {(id of run, task): (run, start)}     set by the threads of tasks, which remove it

    _runs :: {id: _OpenRun}, _calls_open :: {id: WatchedCall}    those that go on
    _calls :: deque of _Call, _told :: int     the latest ended calls, and how many there ever were:
                                               a page says how many it has seen
    _functions, _workers :: {name: number}     texts are sent once, then their numbers
    _totals, _done, _failed :: Counter         of calls, by number of the function

If events come faster than they are taken in, the monitor rests: further runs are not watched until
the deque is empty (`_rest`), and the page says so.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice
from math import inf
from operator import attrgetter
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

from lazyflow.api.evaluate import always_observers
from lazyflow.clock import Clock
from lazyflow.diagnostics.profiling.advice import Advice, Evidence, advice, memory_limit
from lazyflow.diagnostics.profiling.graph_facts import GraphWatch, Refusal, refusal
from lazyflow.diagnostics.profiling.recording import (
    ActorCalls,
    Recording,
    Span,
    UsageMeter,
    Words,
    processes_of,
)
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord
from lazyflow.diagnostics.profiling.texts import shown
from lazyflow.graph.task import Task, task_name
from lazyflow.logs import log_failure
from lazyflow.schedulers.actors.calls import WatchedCall
from lazyflow.schedulers.core.base import AnyRun, Observer, ReportsInfo, provides
from lazyflow.system import idle_seconds, process_usage

# -- `AdviceWindow`: the rules of advice, on the runs of the last seconds -----------------

_MIN_SECONDS = 5.0  # seconds of a window: a rule needs some time to judge; a guess
_MOST_JUDGED = 200_000  # calls of one: judging more would take seconds
_MOST_ADVICE = 6  # pieces of advice that are shown


class AdviceWindow:
    """Collects runs that are over, and judges them between two runs, every five seconds or more.

    Parameters
    ----------
    calls
        The calls of actors, which it takes out.
    meter
        Has read memory and CPU use.
    now
        The clock by which tasks began and ended.

    Attributes
    ----------
    found : list of Advice
        The latest pieces, one for each rule and line.

    Examples
    --------
    >>> AdviceWindow(ActorCalls(), UsageMeter(tuple)).found
    []
    """

    def __init__(
        self, calls: ActorCalls, meter: UsageMeter, now: Clock = perf_counter
    ) -> None:
        self.found: list[Advice] = []
        self._now = now
        self._calls = calls
        self._meter = meter
        self._clear()

    def _clear(self) -> None:
        self._runs: list[Recording] = []
        self._spans = 0  # of those runs
        self._meter.drop_readings()
        self._start, self._idle = self._now(), idle_seconds()

    def add(self, recording: Recording) -> None:
        """Add a run that is over."""
        if self._spans < _MOST_JUDGED:
            self._runs.append(recording)
            self._spans += 1 + len(recording.spans)

    def look(self) -> None:
        """Judge the added records, if they are long enough; nothing may run meanwhile.

        Examples
        --------
        >>> AdviceWindow(ActorCalls(), UsageMeter(tuple)).look()
        """
        seconds = self._now() - self._start
        words = Words()
        if not self._runs:
            self._calls.drop_records()  # of calls alone there is no advice
            self._clear()
        if not self._runs or seconds < _MIN_SECONDS:
            return
        tasks: list[TaskRecord] = list(self._calls.take_records(self._start, words))
        runs: list[RunRecord] = []
        for recording in self._runs:
            tasks += recording.task_records(len(runs), self._start, words)
            runs.append(recording.run_record(self._start, words))
        tasks.sort(key=attrgetter("start"))
        idle, now = self._idle, idle_seconds()
        usage = [use for use in self._meter.records(self._start) if use.time > 0]
        evidence = Evidence(
            tasks, runs, seconds, None if idle is None or now is None else now - idle,
            usage=usage, limit=memory_limit(usage),
        )
        latest = {(piece.rule, piece.place): piece for piece in [*self.found, *advice(evidence)]}
        self.found = list(latest.values())[-_MOST_ADVICE:]
        self._clear()


_KEPT = 20_000  # calls that a page which is opened late still gets; a guess
#: Events that may wait for the thread of the server, which looks some times a second. When there
#: are as many, it rests until that has looked: to be watched costs a small run half of its time.
_BUSY = 200
_MAX_EVENTS = 100_000  # the same, from which events of runs that are watched are dropped; a guess
_LATELY = 10.0  # seconds for which the page says that something was left out; a guess
_NAMED = 200  # functions that are listed; the others share a row
_ASKED = 1_000  # calls of actors that are asked whether they run: those that were made first
_OTHERS = "other functions"


# -- the monitor --------------------------------------------------------------------------


class _Call(NamedTuple):
    """A call of a task, as the page draws it; times by the clock of the monitor."""

    worker: int
    function: int
    start: float
    end: float


class _OpenRun(NamedTuple):
    """A run that goes on, and how many calls of each function are to come."""

    run: AnyRun
    recording: Recording
    to_come: Counter[int]


class Monitor(Observer):
    """Collects runs.

    Attributes
    ----------
    wake
        Called when a run begins.

    Examples
    --------
    >>> monitor = Monitor()
    >>> monitor.news(0)["functions"]
    []
    """

    def __init__(self, now: Clock = perf_counter) -> None:
        self._now = now
        self.wake: Callable[[], Any] = lambda: None
        self._raw: deque[tuple[Any, ...]] = deque()  # a method, and its arguments
        self._switching = Lock()
        self._is_open = self._rests = False
        self._left_out_at = -inf  # when something was, last
        self._running: dict[tuple[int, int], tuple[AnyRun, float]] = {}
        self._runs: dict[int, _OpenRun] = {}  # by id
        self._schedulers: dict[int, Any] = {}
        self._calls: deque[_Call] = deque(maxlen=_KEPT)
        self._told = 0  # calls ever
        self._began = now()
        self._workers: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._done: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._totals: Counter[int] = Counter()
        self._over = 0
        self._watch = GraphWatch()
        self._calls_of_actors = ActorCalls()
        self._calls_open: dict[int, WatchedCall] = {}  # by id
        self._seen: dict[int, float] = {}  # when they ran first, where their start is not known
        self._meter = UsageMeter(lambda: tuple(self._schedulers.values()), now)
        self._window = AdviceWindow(self._calls_of_actors, self._meter, now)

    # -- by the threads that run tasks ------------------------------------------------------

    def run_started(self, run: AnyRun) -> None:
        if len(self._raw) >= _BUSY:
            self._rest()
        self._raw.append((self._begin, run, Recording(run, self._watch)))
        self.wake()

    def task_started(self, run: AnyRun, i: int) -> None:
        self._running[id(run), i] = run, self._now()

    def task_ran(
        self, run: AnyRun, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        self._running.pop((id(run), i), None)
        if len(self._raw) >= _MAX_EVENTS:
            self._left_out_at = end
            return
        self._raw.append((self._call, run, (i, worker, start, end, cpu, size)))

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        self._raw.append((self._fail, run, i, self._now(), refusal(run, i, error)))

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        self._watch.planned(arrays)

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        self._watch.returned(run, values)

    def call_made(self, call: WatchedCall) -> None:
        if len(self._raw) >= _BUSY:
            self._rest()
        self._raw.append((self._make_call, call))
        self.wake()

    def call_ended(self, call: WatchedCall) -> None:
        self._raw.append((self._end_call, call))

    def run_ended(self, run: AnyRun) -> None:
        self._raw.append((self._end, run, self._now()))

    def _rest(self) -> None:
        """Watch no further runs until the waiting events were taken in."""
        with self._switching:
            self._left_out_at = self._now()
            if self in always_observers:
                always_observers.remove(self)
                self._rests = True

    # -- by who has opened it ---------------------------------------------------------------

    def open(self) -> None:
        """Watch all runs from now on."""
        with self._switching:
            self._is_open = True
            always_observers.append(self)

    def close(self) -> None:
        """Watch no further runs."""
        with self._switching:
            self._is_open = self._rests = False
            if self in always_observers:
                always_observers.remove(self)

    @property
    def is_open(self) -> bool:
        """Whether it watches runs, now or when it has rested."""
        return self._is_open

    # -- by the thread of the server --------------------------------------------------------

    def is_busy(self) -> bool:
        """Return whether a run goes on, or something was not taken in yet."""
        return bool(self._runs or self._calls_open or self._raw)

    def news(self, since: int) -> dict[str, Any]:
        """Return the news for a page that has seen so many calls, as plain data.

        Examples
        --------
        >>> sorted(Monitor().news(0))[:4]
        ['advice', 'calls', 'count', 'functions']
        """
        self.take_in()
        missed = min(self._told - since, len(self._calls))
        calls = islice(self._calls, len(self._calls) - missed, None)
        return {
            "now": self._now() - self._began,
            "count": self._told,
            "calls": [(*call[:2], round(call.start, 6), round(call.end, 6)) for call in calls],
            "workers": list(self._workers),
            "functions": list(self._functions),
            "progress": self._progress(),
            "runs": {"open": len(self._runs), "over": self._over},
            "left_out": self._now() - self._left_out_at < _LATELY,
            "open_calls": len(self._calls_open),
            "memory": list(self._memory()),
            "links": self._links(),
            "advice": [[each.place, each.seen, each.why, each.do] for each in self._window.found],
        }

    def take_in(self) -> None:
        """Look up the names in the events appended since the last time.

        Examples
        --------
        >>> Monitor().take_in()
        """
        try:
            self._take_in()
        except Exception as error:
            self.close()
            self._raw.clear()
            log_failure(self, "take_in", error)

    def _take_in(self) -> None:
        while self._raw:
            method, *args = self._raw.popleft()
            method(*args)
        for number, i in [pair for pair in self._running.copy() if pair[0] not in self._runs]:
            self._running.pop((number, i), None)
        self._meter.read()
        if not self._runs and not self._calls_open:
            self._window.look()
        if self._rests:
            with self._switching:
                if self._rests:  # and was not closed
                    self._rests = False
                    always_observers.append(self)

    def _begin(self, run: AnyRun, recording: Recording) -> None:
        leaves = set(run.plan.leaves)
        to_come = Counter(
            self._function(task) for i, task in enumerate(run.plan.tasks) if i not in leaves
        )
        self._runs[id(run)] = _OpenRun(run, recording, to_come)
        for function, calls in to_come.items():  # `+=` would go through all functions
            self._totals[function] += calls
        self._schedulers[id(run.scheduler)] = run.scheduler

    def _call(self, run: AnyRun, span: Span) -> None:
        opened = self._runs.get(id(run))
        if opened is None:  # it began before the page
            return
        i, worker, start, end, _, _ = span
        opened.recording.spans.append(span)
        function = self._function(run.plan.tasks[i])
        opened.to_come[function] -= 1
        self._ran(shown(worker), function, start, end)

    def _ran(self, worker: str, function: int, start: float, end: float) -> None:
        self._done[function] += 1
        number = self._workers.setdefault(worker, len(self._workers))
        self._calls.append(_Call(number, function, start - self._began, end - self._began))
        self._told += 1

    def _make_call(self, call: WatchedCall) -> None:
        self._calls_open[id(call)] = call
        self._calls_of_actors.made(call)
        self._schedulers[id(call.scheduler)] = call.scheduler
        self._totals[self._function(call.task)] += 1

    def _end_call(self, call: WatchedCall) -> None:
        if self._calls_open.pop(id(call), None) is None:  # it was made before the page
            return
        self._seen.pop(id(call), None)
        function = self._function(call.task)
        if not self._calls_of_actors.ended(call):  # it was cancelled
            self._totals[function] -= 1
            return
        self._failed[function] += call.failed
        now = self._now()
        self._ran(self._calls_of_actors.lane(call), function, call.start or now, call.end or now)

    def _fail(self, run: AnyRun, i: int, when: float, refused: Refusal | None) -> None:
        opened = self._runs.get(id(run))
        if opened is not None:
            opened.recording.fail(i, when, refused)
            self._failed[self._function(run.plan.tasks[i])] += 1

    def _end(self, run: AnyRun, when: float) -> None:
        opened = self._runs.pop(id(run), None)
        if opened is not None:
            for function, calls in opened.to_come.items():  # cancelled calls never come
                self._totals[function] -= calls
            self._over += 1
            opened.recording.close(run)
            opened.recording.end = when
            self._window.add(opened.recording)

    def _function(self, task: Task) -> int:
        name = shown(task_name(task))
        if name not in self._functions and len(self._functions) >= _NAMED:
            name = _OTHERS
        return self._functions.setdefault(name, len(self._functions))

    def _progress(self) -> list[tuple[int, int, int, int, int, float]]:
        """Return for each function: done, failed, all, running now, for how long at most."""
        now = self._now()
        often: Counter[int] = Counter()
        longest: dict[int, float] = {}
        running = [
            (run.plan.tasks[i], start) for (key, i), (run, start) in self._running.copy().items()
            if key in self._runs
        ]
        running += [
            (call.task, call.start or self._seen.setdefault(id(call), now))
            for call in islice(self._calls_open.values(), _ASKED) if call.is_running
        ]
        for task, start in running:
            function = self._function(task)
            often[function] += 1
            longest[function] = max(longest.get(function, 0.0), now - start)
        return [
            (
                function, self._done[function], self._failed[function],
                max(self._totals[function], self._done[function]), often[function],
                round(longest.get(function, 0.0), 3),
            )
            for function in self._functions.values()
        ]

    def _memory(self) -> Iterator[tuple[str, int | None, int, int]]:
        """Yield name, resident and shared bytes, and kept values of each process here."""
        yield "this process", process_usage(os.getpid())[0], 0, 0
        for each in processes_of(tuple(self._schedulers.values())):
            name = f"process {each['pid']}"
            if "actor" in each:
                name = shown(f"{name}, actor {each['actor']}")
            yield name, process_usage(each["pid"])[0], each["shared_bytes"], each["values"]

    def _links(self) -> list[str]:
        """Return the addresses of engines' own dashboards."""
        found: dict[str, None] = {}
        for scheduler in tuple(self._schedulers.values()):
            if provides(scheduler, ReportsInfo):
                found.update(dict.fromkeys(scheduler.info().get("dashboards", ())))
        return list(found)
