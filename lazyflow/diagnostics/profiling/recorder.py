"""`profile`: an observer that records the runs in a ``with`` block::

    run_started --> Recording (in `_open`) -- the run appends spans --> run_ended --> `_over`
    p.tasks, p.runs --> _resolve --> TaskRecord, RunRecord, with names and lines as text

While tasks run, only tuples are appended; names are looked up when a result is asked for. State of
a `Profile`::

    _open :: {run: Recording}          runs that go on
    _over :: deque of Recording        ended, and not yet made into records
    _tasks, _runs :: [TaskRecord], [RunRecord]
    _calls :: ActorCalls               calls of actors
    _watch :: GraphWatch               facts about graphs, for advice
    _looks :: Looks                    the thread that samples lines, memory and CPU use

A profile is used for one block; outside of it, tasks cost nothing more.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import Token
from numbers import Real
from operator import attrgetter
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lazyflow.api.evaluate import observers
from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.advice import Evidence, memory_limit
from lazyflow.diagnostics.profiling.graph_facts import GraphWatch, refusal
from lazyflow.diagnostics.profiling.recording import ActorCalls, Recording, UsageMeter, Words
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    SpilledValues,
    TaskRecord,
    UsageRecord,
    gaps,
    rows_by_worker,
)
from lazyflow.diagnostics.profiling.samples import Samples
from lazyflow.schedulers.actors.calls import WatchedCall
from lazyflow.schedulers.core.base import AnyRun, Observer
from lazyflow.schedulers.core.observing import listen
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, Stack, depth_here
from lazyflow.system import idle_seconds

if TYPE_CHECKING:
    from lazyflow.diagnostics.profiling.advice import Advice
    from lazyflow.diagnostics.profiling.pages import Flame
    from lazyflow.diagnostics.profiling.summary import Summary


# -- a file for Perfetto -----------------------------------------------------------------------


def write_trace(
    path: str | os.PathLike[str],
    tasks: Sequence[TaskRecord],
    runs: Sequence[RunRecord],
    seconds: float,
    usage: Sequence[UsageRecord] = (),
) -> None:
    """Write a trace: a track for the caller, one for each row of each worker, and counters."""
    events = [_named("process_name", 0, "lazyflow"), _named("thread_name", 0, "caller")]
    for start, end in gaps(runs, tasks, seconds):
        events.append(_slice("outside of runs", "caller", 0, start, end, {}))
    rows = [
        (worker, row) for worker, rows in rows_by_worker(tasks).items() for row in rows
    ]
    for track, (worker, row) in enumerate(rows, 1):
        events.append(_named("thread_name", track, worker))
        events.append({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": track,
                       "args": {"sort_index": track}})
        events += _slices(track, row)
    events += _counters(usage)
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
    Path(path).write_text(text, encoding="utf-8")


def _slices(track: int, row: list[TaskRecord]) -> Iterator[dict[str, Any]]:
    for task in row:
        details: dict[str, Any] = {"function": task.function, "made at": task.place}
        if task.cpu is not None:
            details["CPU ms"] = round(task.cpu * 1e3, 3)
        if task.size is not None:
            details["bytes"] = task.size
        if task.moved is not None:
            details["bytes moved"] = task.moved
        if task.compiled:
            details["compile ms"] = round(task.compiled * 1e3, 3)
        if task.failed:
            details["failed"] = True
        kind = "failed" if task.failed else "task"
        yield _slice(task.name, kind, track, task.start, task.end, details)


def _counters(usage: Sequence[UsageRecord]) -> Iterator[dict[str, Any]]:
    for each in usage:
        if each.memory is not None:
            yield _counter("memory", each.time, {
                "this process": each.memory, "workers": each.worker_memory,
            })
        yield _counter("CPU", each.time, {"cores": round(each.cpu, 3)})


def _counter(name: str, time: float, values: dict[str, float]) -> dict[str, Any]:
    ts = round(time * 1e6, 3)
    return {"ph": "C", "name": name, "pid": 1, "tid": 0, "ts": ts, "args": values}


def _slice(
    name: str, kind: str, track: int, start: float, end: float, details: dict[str, Any]
) -> dict[str, Any]:
    """Return a complete event; its times are in microseconds."""
    ts, dur = round(start * 1e6, 3), round((end - start) * 1e6, 3)
    return {
        "ph": "X", "name": name, "cat": kind, "pid": 1, "tid": track, "ts": ts, "dur": dur,
        "args": details,
    }


def _named(what: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": track, "args": {"name": name}}


# -- the thread of a profile: it looks at tasks of this process, and reads memory and CPU use

_MIN_INTERVAL, _MAX_INTERVAL = 0.001, 3600.0  # seconds between two samples


class Looks:
    """Samples taken every `sample` seconds; with None there are none, and no thread.

    Parameters
    ----------
    runs
        Returns the active runs.
    calls
        Returns the active calls of actors, each named by its `WatchedCall`.

    Attributes
    ----------
    samples
        The lines at which tasks were, also in other processes.
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
            if not is_number or not _MIN_INTERVAL <= given <= _MAX_INTERVAL:
                raise (ValueError if is_number else TypeError)(
                    f"sample={sample!r}: the seconds between two samples must be a number from "
                    f"{_MIN_INTERVAL} to {_MAX_INTERVAL:g}. Type: profile(), which samples each "
                    "0.01 s, or profile(sample=None), which takes no samples"
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


# -- the recorder -------------------------------------------------------------------------


class Profile(Observer):
    """A recording of a ``with`` block: see `profile`.

    Attributes
    ----------
    tasks : list of TaskRecord
        The calls of tasks and of actors, by their start.
    runs : list of RunRecord
        The finished runs, in the order in which they ended.
    seconds : float
        The seconds that the block took, or has taken so far.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     lazyflow.delayed(abs)(-1).compute()
    1
    >>> p
    <Profile: 1 task of 1 run>
    """

    keeps_times = True

    def __init__(self, sample: float | None) -> None:
        self._looks = Looks(sample, lambda: list(self._open), lambda: self._calls.running())
        self._watch = GraphWatch()
        self._calls = ActorCalls()
        self._open: dict[Any, Recording] = {}
        self._over: deque[Recording] = deque()
        self._tasks: list[TaskRecord] = []
        self._runs: list[RunRecord] = []
        self._token: Token[tuple[Any, ...]] | None = None
        self._idle = self._idle_end = idle_seconds()
        self._start = perf_counter()
        self._end: float | None = None

    def __repr__(self) -> str:
        from lazyflow.diagnostics.profiling.summary import in_words

        return f"<Profile: {in_words(self.tasks)} of {count(len(self.runs), 'run')}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __enter__(self) -> Profile:
        if self._token is not None:
            raise RuntimeError(
                "this profile is in use, or was used. Give each block its own: "
                "with lazyflow.profile() as p:"
            )
        self._token = observers.set((*observers.get(), self))
        self._idle = idle_seconds()
        self._start = perf_counter()
        self.sampling = self._looks.sample or 0.0
        self._looks.begin()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        observers.reset(self._token)
        self.sampling = 0.0
        self._end = perf_counter()
        self._idle_end = idle_seconds()
        self._looks.end()

    # -- while tasks run --------------------------------------------------------------------

    def run_started(self, run: AnyRun) -> None:
        recording = self._open[run] = Recording(run, self._watch)
        run.observers.keep_times(self, recording.spans)
        self._looks.see(run.scheduler)

    def task_moved(self, run: AnyRun, i: int, size: int) -> None:
        recording = self._open.get(run)
        if recording is not None:
            recording.moved[i] = recording.moved.get(i, 0) + size

    def task_compiled(self, run: AnyRun, i: int, seconds: float) -> None:
        recording = self._open.get(run)
        if recording is not None:
            recording.compiled[i] = recording.compiled.get(i, 0.0) + seconds

    def task_sampled(self, run: AnyRun, i: int, stack: Stack, looks: int, seconds: float) -> None:
        if run in self._open:
            self._looks.samples.add(run.plan.tasks[i]._func, stack, looks, seconds)

    def values_spilled(
        self, run: AnyRun, i: int, count: int, size: int, seconds: float
    ) -> None:
        recording = self._open.get(run)
        if recording is not None:
            recording.spilled.append(SpilledValues(count, size, seconds))

    def values_restored(self, run: AnyRun, i: int, size: int) -> None:
        recording = self._open.get(run)
        if recording is not None:
            recording.spilled.append(SpilledValues(read=size))

    def task_failed(self, run: AnyRun, i: int, error: BaseException) -> None:
        recording = self._open.get(run)
        if recording is not None:
            recording.fail(i, perf_counter(), refusal(run, i, error))

    def run_ended(self, run: AnyRun) -> None:
        recording = self._open.pop(run, None)
        if recording is None:
            return
        recording.close(run)
        self._over.append(recording)

    def call_made(self, call: WatchedCall) -> None:
        self._calls.made(call)
        self._looks.see(call.scheduler)

    def call_ended(self, call: WatchedCall) -> None:
        self._calls.ended(call)

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        self._watch.planned(arrays)

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        self._watch.returned(run, values)

    # -- the results ------------------------------------------------------------------------

    @property
    def tasks(self) -> list[TaskRecord]:
        """The calls of tasks in finished runs, by their start.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> [task.name for task in p.tasks]
        ['abs']
        """
        self._resolve()
        return self._tasks

    @property
    def runs(self) -> list[RunRecord]:
        """The finished runs, in the order in which they ended.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> p.runs[0].tasks
        1
        """
        self._resolve()
        return self._runs

    @property
    def seconds(self) -> float:
        """The seconds that the block took, or has taken so far.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     pass
        >>> p.seconds > 0
        True
        """
        return (perf_counter() if self._end is None else self._end) - self._start

    @property
    def usage(self) -> list[UsageRecord]:
        """Memory and CPU use over time, of this process and those of workers and actors.

        Empty for a block of less than a tenth of a second, or one that took no samples.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     pass
        >>> p.usage
        []
        """
        end = self.seconds  # the last reading may have ended after the block
        return [each for each in self._looks.meter.records(self._start) if each.time <= end]

    def summary(self) -> Summary:
        """Return a table by function: calls, times, CPU share, failures, bytes and compile time.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> p.summary().rows[0].function
        'abs'
        """
        from lazyflow.diagnostics.profiling.summary import Summary

        return Summary(self.tasks, self.runs, self.seconds)

    def timeline(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Return an interactive picture: a lane for each worker, coloured by function.

        The first lane is the caller's; red marks times outside of runs, when no task ran.
        Memory and CPU use over time are below the lanes.
        It needs Bokeh: ``pip install "lazyflow[diagnostics]"``.

        Parameters
        ----------
        path
            The file for the picture and the summary as one HTML page, which loads no other files.

        Returns
        -------
        bokeh.plotting.figure
            For a notebook: ``bokeh.io.output_notebook()``, then ``bokeh.io.show(p.timeline())``.

        Raises
        ------
        ImportError
            Bokeh is not installed.

        Examples
        --------
        >>> import lazyflow, os, tempfile
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     figure = p.timeline(os.path.join(folder, "timeline.html"))
        >>> type(figure).__name__
        'figure'
        """
        from lazyflow.diagnostics.profiling.pages import timeline

        return timeline(path, self.tasks, self.runs, self.seconds, self.usage)

    def flame(self, path: str | os.PathLike[str] | None = None) -> Flame:
        """Return the lines of the tasks' functions that took the most time, over all workers.

        The lines of running tasks are sampled. Time inside C counts for the line of Python that
        called it. Sampling covers tasks on sync, threads, processes, distributed and Ray, but not
        those on your own executor.

        Parameters
        ----------
        path
            The file for an interactive picture of all calls as one HTML page, which loads no
            other files. It needs Bokeh: ``pip install "lazyflow[diagnostics]"``.

        Returns
        -------
        Flame
            Its text is a table of the hottest lines; ``figure()`` is the picture for a notebook.

        Raises
        ------
        RuntimeError
            The profile took no samples, because ``sample`` was None.
        ImportError
            With `path`, Bokeh is not installed.

        Examples
        --------
        >>> import lazyflow, time
        >>> with lazyflow.profile(sample=0.001) as p:
        ...     lazyflow.delayed(time.sleep)(0.2).compute()
        >>> p.flame().lines[0].function
        'time.sleep'
        """
        from lazyflow.diagnostics.profiling.pages import Flame

        if self._looks.sample is None:
            raise RuntimeError(
                "this profile took no samples, as it was made by profile(sample=None). Type: with "
                "lazyflow.profile() as p:"
            )
        stacks, actors_on = self._looks.samples.stacks(), self._calls.schedulers
        flame = Flame(stacks, self.runs, self._looks.sample, actors_on)
        if path is not None:
            flame.write(path)
        return flame

    def advice(self) -> list[Advice]:
        """Return advice on what to change in the program; an empty list if all is well.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> p.advice()
        []
        """
        from lazyflow.diagnostics.profiling.advice import advice

        before, after = self._idle, self._idle_end if self._end else idle_seconds()
        idle = None if before is None or after is None else after - before
        usage = self.usage
        return advice(Evidence(
            self.tasks, self.runs, self.seconds, idle, usage=usage, limit=memory_limit(usage)
        ))

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that Perfetto (ui.perfetto.dev) and Chrome open.

        It has the tasks, and memory and CPU use as counters.

        Examples
        --------
        >>> import lazyflow, os, tempfile
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.to_chrome_trace(os.path.join(folder, "trace.json"))
        """
        write_trace(path, self.tasks, self.runs, self.seconds, self.usage)

    def _resolve(self) -> None:
        """Make records of the recordings."""
        words = Words()
        calls = list(self._calls.take_records(self._start, words))
        if not self._over and not calls:
            return
        runs, tasks = list(self._runs), [*self._tasks, *calls]
        while self._over:
            one = self._over.popleft()
            tasks += one.task_records(len(runs), self._start, words)
            runs.append(one.run_record(self._start, words))
        tasks.sort(key=attrgetter("start"))
        self._runs, self._tasks = runs, tasks


def profile(sample: float | None = 0.01) -> Profile:
    """Return a context manager that records the runs in its block, on any scheduler.

    In the block a task costs about a microsecond more; outside it nothing. The profile records the
    runs that this thread begins in the block, and nested runs of their tasks; runs that end after
    the block appear when they end. It also records calls of actors made in the block;
    `Profile.flame` covers those of actors on sync and threads. The sizes of results are known only
    for results in other processes.

    Parameters
    ----------
    sample
        Seconds between two samples of the tasks' current lines, for `Profile.flame`. A thread in
        this process and one in each worker take them until the block ends, and also read memory
        and CPU use. None: no such threads.

    Returns
    -------
    Profile
        With `summary`, `timeline`, `flame`, `to_chrome_trace` and `advice`.

    Raises
    ------
    ValueError
        `sample` is less than a millisecond, or more than an hour.
    TypeError
        `sample` is not a number.
    RuntimeError
        The profile is used for a second block.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     lazyflow.delayed(sum)([lazyflow.delayed(abs)(-i) for i in range(9)]).compute()
    36
    >>> sorted(row.calls for row in p.summary().rows)
    [1, 9]
    """
    return Profile(sample)
