"""An interactive picture of what ran, by Bokeh: a lane for each worker, and one for the caller.

Its first part computes what is drawn.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.page import laned_figure, legend_below, write_page
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    UsageRecord,
    gaps,
    rows_by_worker,
)
from lazyflow.diagnostics.profiling.summary import Summary, short_names
from lazyflow.diagnostics.profiling.texts import percent, seconds
from lazyflow.store.sizes import format_bytes

# -- the bars of a timeline: which lane, which colour, and the texts that the mouse brings up


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


# -- memory and CPU use as bars below the lanes of a timeline, in their coordinates -------


HEIGHT = 3  # lanes that one of them takes

_OWN, _WORKERS, _CPU = "memory of this process", "memory of workers", "CPU"
_USAGE_COLORS = {_OWN: "#8899bb", _WORKERS: "#bbccee", _CPU: "#88aa77"}


class UsageBar(NamedTuple):
    """A bar, in seconds and lanes; what follows its colour is for the mouse."""

    left: float
    right: float
    top: float
    bottom: float
    color: str
    memory: str
    cpu: str


def usage_bars(
    usage: Sequence[UsageRecord], lane: int
) -> tuple[dict[float, str], dict[str, list[UsageBar]]]:
    """Return names by where they stand, and bars by their entry in the legend.

    They begin at the number of a lane. Memory of this process and of workers is stacked.
    """
    names: dict[float, str] = {}
    groups: dict[str, list[UsageBar]] = {_OWN: [], _WORKERS: [], _CPU: []}
    most = max((each.total for each in usage), default=0)
    cores = max((each.cpu for each in usage), default=0.0)
    if most:
        names[lane + (HEIGHT - 1) / 2] = f"memory, to {format_bytes(most)}"
        floor, lane = lane + HEIGHT - 0.6, lane + HEIGHT
    if cores:
        names[lane + (HEIGHT - 1) / 2] = f"CPU, to {cores:.2g} cores"
    left = 0.0
    for each in usage:
        here, workers = each.memory or 0, each.worker_memory
        words = (
            f"{format_bytes(here)} here, {format_bytes(workers)} in workers" if most else "unknown",
            f"{each.cpu:.2g} cores in use",
        )
        span = left, each.time
        if most:
            own, whole = floor - _share(here, most), floor - _share(each.total, most)
            groups[_OWN].append(UsageBar(*span, own, floor, _USAGE_COLORS[_OWN], *words))
            groups[_WORKERS].append(UsageBar(*span, whole, own, _USAGE_COLORS[_WORKERS], *words))
        if cores:
            base = lane + HEIGHT - 0.6
            top = base - _share(each.cpu, cores)
            groups[_CPU].append(UsageBar(*span, top, base, _USAGE_COLORS[_CPU], *words))
        left = each.time
    return names, {
        label: high for label, bars in groups.items()
        if (high := [bar for bar in bars if bar.top < bar.bottom])
    }


def _share(value: float, most: float) -> float:
    return (HEIGHT - 0.2) * value / most


_LANE_HEIGHT = 26  # px

_TOOLTIPS = [
    ("what", "@what"), ("function", "@function"), ("time", "@time"), ("CPU", "@cpu"),
    ("made at", "@place"),
]

_USAGE_TOOLTIPS = [("memory", "@memory"), ("CPU", "@cpu")]


# -- the page -----------------------------------------------------------------------------


def timeline(
    path: str | os.PathLike[str] | None,
    tasks: Sequence[TaskRecord],
    runs: Sequence[RunRecord],
    time: float,
    usage: Sequence[UsageRecord] = (),
) -> Any:
    """Return a Bokeh figure of what ran; write it, and the summary, to an HTML file if asked."""
    figure = _figure(tasks, runs, time, usage)
    if path is not None:
        write_page(path, figure, "lazyflow timeline", Summary(tasks, runs, time)._repr_html_())
    return figure


def _figure(
    tasks: Sequence[TaskRecord],
    runs: Sequence[RunRecord],
    time: float,
    usage: Sequence[UsageRecord],
) -> Any:
    workers, groups = bars_of(tasks, runs, time)
    names, used = usage_bars(usage, len(workers))
    rows = len(workers) + HEIGHT * len(names)
    plot = laned_figure("timeline", rows, 140 + _LANE_HEIGHT * rows, time, "seconds")
    from bokeh.models import HoverTool, PlainText

    plot.ygrid.visible = False
    labels = dict(enumerate(workers)) | names
    plot.yaxis.ticker = list(labels)
    # Plain: a name between dollar signs would be set as a formula.
    plot.yaxis.major_label_overrides = {at: PlainText(text=name) for at, name in labels.items()}
    drawn: list[Any] = []
    # A browser gives the shortest bar a pixel: those of functions with more time lie on top.
    for label, bars in reversed(groups.items()):
        columns: dict[str, Any] = dict(zip(Bar._fields, zip(*bars, strict=True), strict=True))
        # Lines would show what is shorter than a pixel as more than it is.
        drawn.append(plot.hbar(
            y="lane", left="left", right="right", height=0.8, fill_color="color", source=columns,
            line_color="color" if label == FAILED else None, legend_label=label,
        ))
    plot.add_tools(HoverTool(tooltips=_TOOLTIPS, renderers=drawn))
    _add_usage(plot, used)
    legend_below(plot)
    plot.legend.items.reverse()
    plot.legend.location = "bottom_left"
    plot.legend.ncols = 8
    plot.legend.click_policy = "hide"
    return plot


def _add_usage(plot: Any, groups: dict[str, list[UsageBar]]) -> None:
    from bokeh.models import HoverTool

    drawn: list[Any] = []
    for label, bars in reversed(groups.items()):
        columns: dict[str, Any] = dict(zip(UsageBar._fields, zip(*bars, strict=True), strict=True))
        drawn.append(plot.quad(
            left="left", right="right", top="top", bottom="bottom", fill_color="color",
            line_color=None, source=columns, legend_label=label,
        ))
    if drawn:
        plot.add_tools(HoverTool(tooltips=_USAGE_TOOLTIPS, renderers=drawn, visible=False))
