"""`profile`: an observer that records what runs in a ``with`` block.

While tasks run, a tuple of raw values is kept for each. Names and lines are looked up when
somebody asks; until then their functions are kept.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from contextvars import Token
from operator import attrgetter
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lazyflow.api.runs import observers
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord
from lazyflow.diagnostics.profiling.texts import shown
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.task import function_name, place_text, task_name
from lazyflow.schedulers.core.base import AnyRun, Observer
from lazyflow.schedulers.remote.task_stub import bare_task

if TYPE_CHECKING:
    from lazyflow.diagnostics.profiling.summary import Summary

__all__ = ["Profile", "profile"]

#: What tasks of one name, function and line have in common.
_common: Callable[[Any], tuple[Any, ...]] = attrgetter(
    "_func", "_options", "_code", "_lasti", "_key"
)


class _Recording:
    """What is recorded of a run.

    spans
        For each task (number, worker, start, end, CPU time, size).
    failed
        When tasks failed, by number.
    kinds
        What names the tasks of `spans`, once the run is over.
    """

    def __init__(self, run: AnyRun) -> None:
        self.spans: list[tuple[int, str, float, float, float | None, int | None]] = []
        self.failed: dict[int, float] = {}
        self.kinds: list[tuple[Any, ...]] = []
        self.place, self.by_library = _users_line()
        self.scheduler = str(run.scheduler.name)
        self.tasks = len(run.plan) - len(run.plan.leaves)
        self.start = self.end = perf_counter()


def _users_line() -> tuple[tuple[Any, int] | None, bool]:
    """Return the code and offset of the user's line below, and whether an estimator is between."""
    frame: Any = sys._getframe(1)
    by_library = False
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if not module.startswith("lazyflow."):
            if module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names:
                break  # this is the thread of an engine
            return (frame.f_code, frame.f_lasti), by_library
        by_library = by_library or module.startswith("lazyflow.learn.")
        frame = frame.f_back
    return None, False


class Profile(Observer):
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
        self._open: dict[Any, _Recording] = {}
        self._over: deque[_Recording] = deque()
        self._tasks: list[TaskRecord] = []
        self._runs: list[RunRecord] = []
        self._token: Token[tuple[Any, ...]] | None = None
        self._start = perf_counter()
        self._end: float | None = None

    def __repr__(self) -> str:
        tasks, runs = len(self.tasks), len(self._runs)
        return f"<Profile: {tasks:,} task{'s'[:tasks != 1]} of {runs:,} run{'s'[:runs != 1]}>"

    def __enter__(self) -> Profile:
        if self._token is not None:
            raise RuntimeError(
                "this profile is in use already: each block has its own, by "
                "`with lazyflow.profile() as p:`"
            )
        self._token = observers.set((*observers.get(), self))
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

    # -- while tasks run --------------------------------------------------------------------

    def run_started(self, run: AnyRun) -> None:
        self._open[run] = _Recording(run)

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
            recording.failed[i] = perf_counter()

    def run_ended(self, run: AnyRun) -> None:
        recording = self._open.pop(run, None)
        if recording is None:
            return
        recording.end = perf_counter()
        ran = {span[0] for span in recording.spans} if recording.failed else ()
        for i, when in recording.failed.items():
            if i not in ran:  # for example, it could not be sent
                recording.spans.append((i, "", when, when, None, None))
        # Not the plan: it holds the values that the caller gave.
        tasks = run.plan.tasks
        recording.kinds = [_common(tasks[span[0]]) for span in recording.spans]
        self._over.append(recording)

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
        words = _Words()
        while self._over:
            one = self._over.popleft()
            for kind, (i, worker, start, end, cpu, size) in zip(one.kinds, one.spans, strict=False):
                tasks.append(
                    TaskRecord(
                        *words.of(kind), len(runs), shown(worker), start - self._start,
                        end - self._start, cpu, size, i in one.failed,
                    )
                )
            start, end = one.start - self._start, one.end - self._start
            place = words.of((abs, DEFAULT, *one.place, None))[2] if one.place else ""
            runs.append(RunRecord(start, end, place, one.by_library, one.scheduler, one.tasks))
        tasks.sort(key=attrgetter("start"))
        self._runs, self._tasks = runs, tasks


class _Words:
    """Names, functions and places of tasks as text, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Any, tuple[str, str, str]]] = {}

    def of(self, kind: tuple[Any, ...]) -> tuple[str, str, str]:
        """Return name, function and place of a task with such fields as `_common` gets."""
        key = tuple(map(id, kind))  # functions need not be hashable
        if key not in self._known:
            task = bare_task(kind[0], ())
            _, task._options, task._code, task._lasti, task._key = kind
            text = shown(task_name(task)), shown(_full_name(task._func)), shown(place_text(task))
            self._known[key] = kind, text  # with the objects, whose ids are not used again then
        return self._known[key][1]


def _full_name(func: Any) -> str:
    """Return the name of a function with its module, and with its line if it is a lambda."""
    name = function_name(func)
    try:
        name, module = getattr(func, "__qualname__", name), getattr(func, "__module__", None)
        if "<lambda>" in name:
            name = f"{name}:{func.__code__.co_firstlineno}"
        return f"{module}.{name}" if module else str(name)
    except Exception:  # a hostile __getattr__
        return name


def profile() -> Profile:
    """Return a context manager that records what runs in its block, on any scheduler.

    Nothing is recorded outside of blocks, and runs elsewhere are no slower. In the block a task
    costs one to two microseconds more. Runs that begin in it and end later are recorded when they
    end.

    Returns
    -------
    Profile
        With `summary`, `timeline` and `to_chrome_trace`.

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
