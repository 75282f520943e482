"""`profile`: an observer that records what runs in a ``with`` block."""

from __future__ import annotations

import os
from collections import deque
from contextvars import Token
from operator import attrgetter
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lazyflow.api.runs import observers
from lazyflow.diagnostics.profiling.evidence import Evidence, idle_seconds
from lazyflow.diagnostics.profiling.recording import Recording, Words
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord
from lazyflow.diagnostics.profiling.sights import GraphWatch, refusal
from lazyflow.schedulers.core.base import AnyRun
from lazyflow.schedulers.core.program_observer import ProgramObserver

if TYPE_CHECKING:
    from lazyflow.diagnostics.profiling.advice import Advice
    from lazyflow.diagnostics.profiling.summary import Summary

__all__ = ["Profile", "profile"]


class Profile(ProgramObserver):
    """What ran in a ``with`` block: see `profile`.

    Attributes
    ----------
    tasks : list of TaskRecord
        The calls of tasks, by their start.
    runs : list of RunRecord
        The runs that are over, in the order of their ends.
    seconds : float
        How long the block took, or has taken so far.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     lazyflow.delayed(abs)(-1).compute()
    1
    >>> p
    <Profile: 1 task of 1 run>
    """

    def __init__(self) -> None:
        self._watch = GraphWatch()
        self._open: dict[Any, Recording] = {}
        self._over: deque[Recording] = deque()
        self._tasks: list[TaskRecord] = []
        self._runs: list[RunRecord] = []
        self._token: Token[tuple[Any, ...]] | None = None
        self._idle = self._idle_end = idle_seconds()
        self._start = perf_counter()
        self._end: float | None = None

    def __repr__(self) -> str:
        tasks, runs = len(self.tasks), len(self._runs)
        return f"<Profile: {tasks:,} task{'s'[:tasks != 1]} of {runs:,} run{'s'[:runs != 1]}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __enter__(self) -> Profile:
        if self._token is not None:
            raise RuntimeError(
                "this profile is in use already: each block has its own, by "
                "`with lazyflow.profile() as p:`"
            )
        self._token = observers.set((*observers.get(), self))
        self._idle = idle_seconds()
        self._start = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        observers.reset(self._token)
        self._end = perf_counter()
        self._idle_end = idle_seconds()

    # -- while tasks run --------------------------------------------------------------------

    def run_started(self, run: AnyRun) -> None:
        self._open[run] = Recording(run, self._watch)

    def task_ran(
        self, run: AnyRun, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        recording = self._open.get(run)
        if recording is not None:
            recording.spans.append((i, worker, start, end, cpu, size))

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

    def arrays_planned(self, arrays: list[tuple[Any, ...]]) -> None:
        self._watch.planned(arrays)

    def values_returned(self, run: AnyRun, values: list[Any]) -> None:
        self._watch.returned(run, values)

    # -- when somebody asks -----------------------------------------------------------------

    @property
    def tasks(self) -> list[TaskRecord]:
        """The calls of tasks so far, by their start; those of runs that are over.

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
        """The runs that are over, in the order of their ends.

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
        """How long the block took, or has taken so far.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     pass
        >>> p.seconds > 0
        True
        """
        return (perf_counter() if self._end is None else self._end) - self._start

    def summary(self) -> Summary:
        """Return a table by function: calls, times, CPU share, failures and bytes.

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

        The first lane is the caller's, where times outside of runs are red: nothing ran then.
        It needs Bokeh: ``pip install "lazyflow[diagnostics]"``.

        Parameters
        ----------
        path
            Where to write the picture and the summary as one HTML page, which loads nothing from
            elsewhere.

        Returns
        -------
        bokeh.plotting.figure
            For a notebook: ``bokeh.io.output_notebook()``, then ``bokeh.io.show(p.timeline())``.

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
        from lazyflow.diagnostics.profiling.timeline import timeline

        return timeline(path, self.tasks, self.runs, self.seconds)

    def advice(self) -> list[Advice]:
        """Return what to change in the program, by what was seen; nothing where all is well.

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
        return advice(Evidence(self.tasks, self.runs, self.seconds, idle))

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the tasks to a JSON file that Perfetto (ui.perfetto.dev) and Chrome open.

        Examples
        --------
        >>> import lazyflow, os, tempfile
        >>> with lazyflow.profile() as p:
        ...     lazyflow.delayed(abs)(-1).compute()
        1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.to_chrome_trace(os.path.join(folder, "trace.json"))
        """
        from lazyflow.diagnostics.profiling.chrome_trace import write_trace

        write_trace(path, self.tasks, self.runs, self.seconds)

    def _resolve(self) -> None:
        """Make records of what was recorded."""
        if not self._over:
            return
        runs, tasks = list(self._runs), list(self._tasks)
        words = Words()
        while self._over:
            one = self._over.popleft()
            tasks += one.task_records(len(runs), self._start, words)
            runs.append(one.run_record(self._start, words))
        tasks.sort(key=attrgetter("start"))
        self._runs, self._tasks = runs, tasks


def profile() -> Profile:
    """Return a context manager that records what runs in its block, on any scheduler.

    In the block a task costs about a microsecond more; elsewhere it costs nothing. Runs that this
    thread begins in it are recorded, and what their tasks compute; those that end later appear
    when they end. Calls of actors are not recorded, and of results the size only where they are
    in other processes.

    Returns
    -------
    Profile
        With `summary`, `timeline`, `to_chrome_trace` and `advice`.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     lazyflow.delayed(sum)([lazyflow.delayed(abs)(-i) for i in range(9)]).compute()
    36
    >>> sorted(row.calls for row in p.summary().rows)
    [1, 9]
    """
    return Profile()
