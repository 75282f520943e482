"""The summary of a profile, as a table by function.

A row is a `FunctionRow`: the calls of one function, with the most expensive first. The headline
says how much of the block passed outside of runs, where the caller worked and the workers had
nothing to do, and for how much of the rest workers were busy: the two figures that show whether the
tasks or the program around them should be looked at. Columns of which nothing is known are left
out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    gaps,
    rows_by_worker,
    summed,
    total,
    union,
)
from lazyflow.diagnostics.profiling.texts import percent, seconds, table_html, table_text
from lazyflow.store.sizes import format_bytes

_HEADS = ("function", "calls", "total", "mean", "p95", "CPU", "failed", "bytes", "moved", "compile")


class FunctionRow(NamedTuple):
    """The calls of one function.

    Attributes
    ----------
    function
        Its name; with its module if several functions have that name.
    calls
        The number of calls.
    total, mean, p95
        Seconds: of all calls, their mean, and their 95th percentile. The time of a task
        includes its own calls of `compute`.
    cpu
        The share of the time in which the task's thread used a CPU; None: unknown. Near 0 the task
        waited; on threads it may have waited for another thread's Python code.
    failed
        The number of calls that raised.
    size
        Bytes of all results with known size; None: none is known.
    moved
        Bytes of arguments and inputs that were sent to other processes; None: unknown, or nothing.
    compiled
        Seconds of the total for which Numba compiled.
    """

    function: str
    calls: int
    total: float
    mean: float
    p95: float
    cpu: float | None
    failed: int
    size: int | None
    moved: int | None = None
    compiled: float = 0.0


class Summary:
    """A table of calls by function; in a notebook as HTML.

    Attributes
    ----------
    rows : list of FunctionRow
        The functions, the most expensive first.
    headline : str
        The totals, and how long the caller ran without tasks.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.profile() as p:
    ...     lazyflow.delayed(abs)(-1).compute()
    1
    >>> print(p.summary())
    1 task of 1 function in 1 run on 1 worker; ...
    function  calls ...
    abs           1 ...
    """

    def __init__(self, tasks: Sequence[TaskRecord], runs: Sequence[RunRecord], time: float) -> None:
        groups: defaultdict[str, list[TaskRecord]] = defaultdict(list)
        for task in tasks:
            groups[task.function].append(task)
        names = short_names(tasks)
        rows = [_row(names[function], group) for function, group in groups.items()]
        self.rows = sorted(rows, key=lambda row: (-row.total, row.function))
        self.headline = _headline(tasks, runs, time, len(rows))

    def __repr__(self) -> str:
        return table_text(self.headline, self._lines(), _HEADS[:1])

    def _lines(self) -> list[tuple[str, ...]]:
        """Return the heads and the texts of the rows, without columns of which nothing is known."""
        lines = [_HEADS, *map(_texts, self.rows)] if self.rows else []
        columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
        return list(zip(*columns, strict=True))

    def _repr_html_(self) -> str:
        return table_html(self.headline, self._lines(), _HEADS[:1])


def short_names(tasks: Iterable[TaskRecord]) -> dict[str, str]:
    """Return the functions' names, without modules if a name is unique.

    Methods of actors keep the class.

    >>> from lazyflow.diagnostics.profiling import records
    >>> load = records.TaskRecord("load", "a.load", "", 0, "", 0, 1, None, None, False)
    >>> short_names([load, load._replace(function="b.load"), load._replace(function="a.sum")])
    {'a.load': 'a.load', 'b.load': 'b.load', 'a.sum': 'sum'}
    """
    short = {
        task.function: task.name if task.run < 0 else task.function.rpartition(".")[2]
        or task.function
        for task in tasks
    }
    often = Counter(short.values())
    return {function: name if often[name] == 1 else function for function, name in short.items()}


def _row(function: str, tasks: list[TaskRecord]) -> FunctionRow:
    times = sorted(task.seconds for task in tasks)
    whole = sum(times)
    measured = [task for task in tasks if task.cpu is not None]
    wall = sum(task.seconds for task in measured)
    sizes = [task.size for task in tasks if task.size is not None]
    moved = [task.moved for task in tasks if task.moved is not None]
    return FunctionRow(
        function=function,
        calls=len(tasks),
        total=whole,
        mean=whole / len(tasks),
        p95=times[-(-95 * len(times) // 100) - 1],
        cpu=min(1.0, sum(task.cpu or 0.0 for task in measured) / wall) if wall else None,
        failed=sum(task.failed for task in tasks),
        size=sum(sizes) if sizes else None,
        moved=sum(moved) if moved else None,
        compiled=sum(task.compiled for task in tasks),
    )


def _texts(row: FunctionRow) -> tuple[str, ...]:
    sizes = ["" if size is None else format_bytes(size) for size in (row.size, row.moved)]
    compiled = seconds(row.compiled) if row.compiled else ""
    times = seconds(row.total), seconds(row.mean), seconds(row.p95)
    failed = f"{row.failed:,}" if row.failed else ""
    return (row.function, f"{row.calls:,}", *times, percent(row.cpu), failed, *sizes, compiled)


def in_words(tasks: Sequence[TaskRecord]) -> str:
    """Return how many calls of actors and how many tasks these are."""
    calls = sum(task.run < 0 for task in tasks)
    text = count(len(tasks) - calls, "task")
    return f"{count(calls, 'call')} of actors and {text}" if calls else text


def _headline(
    tasks: Sequence[TaskRecord], runs: Sequence[RunRecord], time: float, functions: int
) -> str:
    # Idle actors are no loss: they are not workers.
    workers = rows_by_worker(task for task in tasks if task.run >= 0)
    actors = len({task.worker for task in tasks if task.run < 0 and task.worker})
    places = [count(len(workers), "worker")] * bool(workers or not actors)
    places += [count(actors, "actor")] * bool(actors)
    alone = total(gaps(runs, tasks, time))
    inside = max(time - alone, 1e-9)
    busy = sum(
        total(union((task.start, task.end) for row in rows for task in row))
        for rows in workers.values()
    )
    text = (
        f"{in_words(tasks)} of {count(functions, 'function')} in "
        f"{count(len(runs), 'run')} on {' and '.join(places)}; {seconds(time)}, of which "
        f"{seconds(alone)} ({percent(alone / time)}) outside of runs, in the caller's own code"
    )
    spilled = summed(run.spilled for run in runs)
    if spilled.values or spilled.read:
        text += (
            f"; {format_bytes(spilled.size)} were written to a file below memory_limit, and "
            f"{format_bytes(spilled.read)} read from there"
        )
    if workers:
        share = min(1.0, busy / inside / len(workers))
        text += f"; workers were busy for {percent(share)} of the rest"
    return text
