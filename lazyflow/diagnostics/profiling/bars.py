"""The bars of a timeline: which lane, which colour, and the texts that the mouse brings up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord, gaps, rows_by_worker
from lazyflow.diagnostics.profiling.summary import short_names
from lazyflow.diagnostics.profiling.texts import percent, seconds
from lazyflow.store.sizes import format_bytes

MOST = 20_000  # bars that a browser moves without waiting

#: One for each of the functions with the most time.
_COLORS = (
    "#4477aa", "#ee9944", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#7755bb", "#994455",
    "#44aa99", "#dd88bb",
)
_OTHERS, _RUN, _ALONE = "#999999", "#d5dde6", "#f3c6c6"
FAILED = "failed"  # in the legend


class Bar(NamedTuple):
    """A bar, from `left` to `right` seconds; what follows its colour is for the mouse."""

    lane: int
    left: float
    right: float
    color: str
    what: str
    function: str
    time: str
    cpu: str
    place: str


def bars_of(
    tasks: Sequence[TaskRecord], runs: Sequence[RunRecord], time: float, most: int = MOST
) -> tuple[list[str], dict[str, list[Bar]]]:
    """Return the names of the lanes, and the bars by their entry in the legend, in its order.

    Tasks that are too short to be seen share a bar when there would be more than `most`.
    """
    lanes = ["caller"]
    groups: dict[str, list[Bar]] = {"run": [], "outside of runs": []}
    groups["run"] += [_of_run(run) for run in runs]
    for start, end in gaps(runs, tasks, time):
        what = "no run: the caller's own code, and making graphs and plans"
        groups["outside of runs"].append(
            Bar(0, start, end, _ALONE, what, "", seconds(end - start), "", "")
        )
    legend = _legend(tasks)
    groups |= {FAILED: []} | {label: [] for label, _ in legend.values()}
    rows = [(worker, row) for worker, rows in rows_by_worker(tasks).items() for row in rows]
    shortest = _shortest([row for _, row in rows], time, most)
    for worker, row in rows:
        for some in _grouped(row, shortest):
            largest = max(some, key=lambda task: task.seconds)
            label, color = (FAILED, "#cc0000") if largest.failed else legend[largest.function]
            groups[label].append(_of_tasks(len(lanes), some, largest, color))
        lanes.append("" if worker in lanes else worker)
    return lanes, {label: bars for label, bars in groups.items() if bars}


def _legend(tasks: Sequence[TaskRecord]) -> dict[str, tuple[str, str]]:
    """Return label and colour of each function."""
    times: Counter[str] = Counter()
    for task in tasks:
        times[task.function] += task.seconds  # type: ignore[assignment]
    names = short_names(tasks)
    found = {}
    for at, (function, _) in enumerate(times.most_common()):
        is_named = at < len(_COLORS)
        label = names[function].replace("$$", "$ $")  # which would set it as a formula
        found[function] = (label, _COLORS[at]) if is_named else ("other functions", _OTHERS)
    return found


def _shortest(rows: list[list[TaskRecord]], time: float, most: int) -> float:
    """Return the seconds below which tasks share a bar, so that there are about `most` bars."""
    shortest = 0.0
    while sum(1 for row in rows for _ in _grouped(row, shortest)) > most:
        shortest = 2 * shortest or time / 8_000
    return shortest


def _grouped(row: list[TaskRecord], shortest: float) -> Iterator[list[TaskRecord]]:
    """Yield the tasks of a row, one after the other, short neighbours together."""
    some: list[TaskRecord] = []
    for task in row:
        if some and (
            task.seconds >= shortest or task.failed or task.start - some[0].start >= shortest
        ):
            yield some
            some = []
        some.append(task)
        if task.seconds >= shortest or task.failed:
            yield some
            some = []
    if some:
        yield some


def _of_run(run: RunRecord) -> Bar:
    what = f"run of {count(run.tasks, 'task')} on {run.scheduler}"
    time = seconds(run.end - run.start)
    return Bar(0, run.start, run.end, _RUN, what, "", time, "", run.place)


def _of_tasks(lane: int, tasks: list[TaskRecord], largest: TaskRecord, color: str) -> Bar:
    left, right = tasks[0].start, tasks[-1].end
    what, time, cpu = largest.name, seconds(right - left), largest.cpu
    if len(tasks) > 1:
        what = f"{len(tasks):,} short tasks; the longest: {what}"
        cpu = None
    if largest.failed:
        what += " (failed)"
    if largest.size is not None and len(tasks) == 1:
        time += f", result of {format_bytes(largest.size)}"
    if compiled := sum(task.compiled for task in tasks):
        time += f", of which Numba compiled for {seconds(compiled)}"
    used = "" if cpu is None else f"{seconds(cpu)} ({percent(cpu / max(right - left, 1e-9))})"
    return Bar(lane, left, right, color, what, largest.function, time, used, largest.place)
