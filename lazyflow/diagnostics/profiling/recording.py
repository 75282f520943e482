"""Recordings of runs, of calls of actors, and of memory and CPU use meanwhile.

While tasks run, a tuple of raw values is kept for each. Names and lines are looked up
on request; until then their functions are kept. Each actor has a lane of its own. Memory and CPU
use are those of this process and of the workers of its runs and actors.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from operator import attrgetter, itemgetter
from time import perf_counter, process_time
from typing import Any, NamedTuple

from lazyflow.clock import Clock
from lazyflow.diagnostics.profiling.graph_facts import GraphWatch, Refusal
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    SpilledValues,
    TaskRecord,
    UsageRecord,
    summed,
)
from lazyflow.diagnostics.profiling.texts import shown, shown_end
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.task import function_name, height_over, place_text, task_name
from lazyflow.schedulers.actors.calls import WatchedCall
from lazyflow.schedulers.core.base import AnyRun, ReportsInfo, provides
from lazyflow.schedulers.core.sampling import RunningTask
from lazyflow.schedulers.core.task_resources import here
from lazyflow.schedulers.remote.calls import bare_task
from lazyflow.system import process_usage

#: Number of the task, worker, start, end, CPU time, size of the result.
Span = tuple[int, str, float, float, float | None, int | None]

#: The common record of tasks of one name, function and line.
naming: Callable[[Any], tuple[Any, ...]] = attrgetter(
    "_func", "_options", "_code", "_lasti", "_key"
)


_number: Callable[[Span], int] = itemgetter(0)


class Recording:
    """The recording of a run.

    spans
        A `Span` for each task.
    failed
        When tasks failed, by number.
    compiled, moved
        Seconds for which Numba compiled, and bytes that were sent, by number of the task.
    spilled
        The values written to files and read from there, piece by piece.
    kinds
        The names of the tasks of `spans`, once the run is over.
    look
        Facts about the graph.
    """

    def __init__(self, run: AnyRun, watch: GraphWatch) -> None:
        self.spans: list[Span] = []
        self.failed: dict[int, float] = {}
        self.compiled: dict[int, float] = {}
        self.moved: dict[int, int] = {}
        self.spilled: list[SpilledValues] = []
        self.kinds: list[tuple[Any, ...]] = []
        self.place, is_users = _users_line()
        self.is_users = is_users and here.worker is None
        self.scheduler = str(run.scheduler.name)
        plan = run.plan
        self.tasks = len(plan) - len(plan.leaves)
        self.chain = min(self.tasks, height_over([plan.tasks[i] for i in plan.outputs]))
        self.look = watch.look(run)
        self.start = self.end = perf_counter()

    def fail(self, i: int, when: float, refused: Refusal | None) -> None:
        """Note that a task failed, and whether it did since it changed its input."""
        self.failed[i] = when
        if refused is not None:
            self.look.refused.append(refused)

    def close(self, run: AnyRun) -> None:
        """Take the names of the tasks of an ended run; not its plan, which holds values."""
        self.end = perf_counter()
        ran = {span[0] for span in self.spans} if self.failed else ()
        for i, when in self.failed.items():
            if i not in ran:  # for example, it could not be sent
                self.spans.append((i, "", when, when, None, None))
        tasks = run.plan.tasks
        self.kinds = list(map(naming, map(tasks.__getitem__, map(_number, self.spans))))

    def task_records(self, run: int, began: float, words: Words) -> Iterator[TaskRecord]:
        """Yield the records of the tasks; `run` is the index of the run."""
        for kind, (i, worker, start, end, cpu, size) in zip(self.kinds, self.spans, strict=False):
            yield TaskRecord(
                *words.of(kind), run, shown(worker), start - began, end - began, cpu, size,
                i in self.failed, self.compiled.get(i, 0.0), self.moved.get(i),
            )

    def run_record(self, began: float, words: Words) -> RunRecord:
        """Return the record of the run."""
        place = words.at(self.place) if self.place else ""
        return RunRecord(
            self.start - began, self.end - began, place, self.is_users, self.scheduler, self.tasks,
            self.chain, self.look.sights(words.at), summed(self.spilled),
        )


def _users_line() -> tuple[tuple[Any, int] | None, bool]:
    """Return code and offset of the user's line below, and whether no estimator is between."""
    frame: Any = sys._getframe(1)
    is_users = True
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if not module.startswith("lazyflow."):
            if module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names:
                break  # this is the thread of an engine
            return (frame.f_code, frame.f_lasti), is_users
        is_users = is_users and not module.startswith(_LOOPS)
        frame = frame.f_back
    return None, False


#: Modules that compute again and again for the user, each time as cheaply as they can.
_LOOPS = ("lazyflow.learn.", "lazyflow.api.rerunning")


class Words:
    """Names, functions and places of tasks as text, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, tuple[str, str, str]]] = {}

    def at(self, line: tuple[Any, int]) -> str:
        """Return a line, given as code and offset, as text."""
        return self.of((abs, DEFAULT, *line, None))[2]

    def of(self, kind: tuple[Any, ...]) -> tuple[str, str, str]:
        """Return name, function and place of a task with such fields as `naming` gets."""
        func, options, code, lasti, name = kind
        key = id(func), id(options), id(code), lasti, name  # functions need not be hashable
        if key not in self._known:
            task = bare_task(func, ())
            task._options, task._code, task._lasti, task._key = options, code, lasti, name
            text = shown(task_name(task)), shown(full_name(func)), shown_end(place_text(task))
            self._known[key] = kind, text  # with the objects, whose ids are not used again then
        return self._known[key][1]


def full_name(func: Any) -> str:
    """Return the name of a function with its module, and with its line if it is a lambda."""
    name = function_name(func)
    try:
        name, module = getattr(func, "__qualname__", name), getattr(func, "__module__", None)
        if "<lambda>" in name:
            name = f"{name}:{func.__code__.co_firstlineno}"
        return f"{module}.{name}" if module else str(name)
    except Exception:  # a hostile __getattr__
        return name


# -- calls of actors ---------------------------------------------------------------------------


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
        """Forget the recording."""
        self._over.clear()

    def take_records(self, began: float, words: Words) -> Iterator[TaskRecord]:
        """Take out the recording."""
        while self._over:
            kind, worker, start, end, cpu, failed = self._over.popleft()
            yield TaskRecord(
                *words.of(kind), -1, worker, start - began, end - began, cpu, None, failed
            )


# -- memory and CPU use ------------------------------------------------------------------------


_STEP = 0.05  # seconds between two readings; a guess
_MAX_READINGS = 4_000  # readings; of more, half are dropped, and they become rarer; a guess
_WORKERS = 0.2  # seconds for which the list of workers is taken to be right; a guess


class _Reading(NamedTuple):
    """Readings at a moment: bytes, and all CPU seconds of this process and of workers."""

    when: float
    memory: int | None
    worker_memory: int
    cpu: float


class UsageMeter:
    """Reads memory and CPU use; in one thread at a time.

    Parameters
    ----------
    schedulers
        Returns the schedulers of the runs.
    now
        Returns the time in seconds, as records have it.
    """

    def __init__(
        self, schedulers: Callable[[], Iterable[Any]], now: Clock = perf_counter
    ) -> None:
        self._schedulers = schedulers
        self._now = now
        self._step = _STEP
        self._readings: list[_Reading] = []
        self._workers: dict[int, int] = {}  # bytes of shared memory that they hold, by process
        self._listed = float("-inf")
        self._cpu: dict[int, float] = {}  # of workers, as last read
        self._before: dict[int, float] = {}  # of workers, when they were first seen

    def read(self) -> None:
        """Take a reading if one is due."""
        now = self._now()
        if self._readings and now < self._readings[-1].when + self._step:
            return
        if now > self._listed + _WORKERS:
            self._listed, self._workers = now, {
                each["pid"]: each["shared_bytes"] for each in processes_of(self._schedulers())
            }
        resident, *_ = process_usage(os.getpid())
        private = 0
        for pid in self._workers:
            held, common, cpu = process_usage(pid)
            private += max(0, (held or 0) - common)
            self._cpu[pid] = max(cpu, self._before.setdefault(pid, cpu))
        theirs = sum(self._cpu[pid] - first for pid, first in self._before.items())
        own, when = process_time(), self._now()  # side by side: a task may hold this thread up
        self._readings.append(
            _Reading(when, resident, private + sum(self._workers.values()), own + theirs)
        )
        if len(self._readings) > _MAX_READINGS:
            self._readings = self._readings[::2]
            self._step *= 2

    def drop_readings(self) -> None:
        """Drop the readings but the last, from which on the next one counts."""
        self._readings = self._readings[-1:]
        self._step = _STEP

    def records(self, began: float) -> list[UsageRecord]:
        """Return the readings, with the use of the CPU between one and the next."""
        return [
            UsageRecord(
                after.when - began, after.memory, after.worker_memory,
                max(0.0, after.cpu - before.cpu) / (after.when - before.when),
            )
            for before, after in pairwise(list(self._readings))
        ]


def processes_of(schedulers: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the figures of each process that schedulers have on this machine, as `info` has them.

    Those of actors have a name by ``"actor"``.
    """
    for scheduler in schedulers:
        if provides(scheduler, ReportsInfo):
            info = scheduler.info()
            yield from info.get("workers", ())
            yield from info.get("actors", ())
