"""Pictures of a profile by Bokeh, as HTML pages that load nothing from elsewhere.

`timeline` shows what ran: a lane for each worker, and one for the caller. `Flame` has the hottest
lines of the tasks, as a table and as a picture of all calls.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.records import (
    RunRecord,
    TaskRecord,
    UsageRecord,
    gaps,
    rows_by_worker,
)
from lazyflow.diagnostics.profiling.samples import (
    PACKAGE,
    PROGRAM,
    PYTHON,
    CallNode,
    SampledStack,
    call_tree,
    code_of,
    hottest,
    owner,
    place_of,
)
from lazyflow.diagnostics.profiling.summary import Summary, short_names
from lazyflow.diagnostics.profiling.texts import percent, seconds, table_html, table_text
from lazyflow.store.sizes import format_bytes

#: Nothing is loaded from elsewhere, whatever stands in the page.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
_PAGE = """
{% block preamble %}
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<style>
  body { font: 14px sans-serif; color: #17202c; background: #ffffff; }
  main { padding: 12px 20px; }
  td, th { font-variant-numeric: tabular-nums; }
</style>
{% endblock %}
{% block contents %}
<main>{{ super() }}{{ below }}</main>
{% endblock %}
"""


_TALLEST = 900  # px


def laned_figure(what: str, rows: int, height: int, end: float, label: str) -> Any:
    """Return a figure of so many lanes, the first at the top, over `end` seconds."""
    try:
        from bokeh.models import Range1d
        from bokeh.plotting import figure
    except ImportError:
        raise ImportError(
            f"{what} draws with Bokeh, which is not installed. Type: pip install "
            '"lazyflow[diagnostics]"'
        ) from None
    plot = figure(
        height=min(_TALLEST, height), sizing_mode="stretch_width",
        x_range=Range1d(start=0.0, end=end), x_axis_label=label,
        y_range=Range1d(start=rows - 0.5, end=-0.5),
        toolbar_location="above", active_scroll="xwheel_zoom",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
    )
    plot.toolbar.logo = None
    return plot


def legend_below(plot: Any) -> None:
    """Move the legend of a figure below it."""
    plot.add_layout(plot.legend[0], "below")
    plot.legend.orientation = "horizontal"
    plot.legend.border_line_color = None


def write_page(path: str | os.PathLike[str], figure: Any, title: str, below: str) -> None:
    """Write a page with a figure, and some HTML below it."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    page = file_html(
        figure, INLINE, title, template=_PAGE,
        template_variables={"policy": _POLICY, "below": below},
    )
    Path(path).write_text(page, encoding="utf-8")


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
    """A bar, from `left` to `right` seconds; the fields after its colour are for the mouse."""

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
    """A bar, in seconds and lanes; the fields after its colour are for the mouse."""

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
    most = max((record.total for record in usage), default=0)
    cores = max((record.cpu for record in usage), default=0.0)
    if most:
        names[lane + (HEIGHT - 1) / 2] = f"memory, to {format_bytes(most)}"
        floor, lane = lane + HEIGHT - 0.6, lane + HEIGHT
    if cores:
        names[lane + (HEIGHT - 1) / 2] = f"CPU, to {cores:.2g} cores"
    left = 0.0
    for record in usage:
        here, workers = record.memory or 0, record.worker_memory
        words = (
            f"{format_bytes(here)} here, {format_bytes(workers)} in workers" if most else "unknown",
            f"{record.cpu:.2g} cores in use",
        )
        span = left, record.time
        if most:
            own, whole = floor - _share(here, most), floor - _share(record.total, most)
            groups[_OWN].append(UsageBar(*span, own, floor, _USAGE_COLORS[_OWN], *words))
            groups[_WORKERS].append(UsageBar(*span, whole, own, _USAGE_COLORS[_WORKERS], *words))
        if cores:
            base = lane + HEIGHT - 0.6
            top = base - _share(record.cpu, cores)
            groups[_CPU].append(UsageBar(*span, top, base, _USAGE_COLORS[_CPU], *words))
        left = record.time
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
    """Return a Bokeh figure of the runs; write it, and the summary, to an HTML file if asked."""
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
        # Lines would show bars below a pixel as longer than they are.
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


# -- the picture of a `Flame`, by Bokeh: boxes below the boxes that called them -----------

_MAX_BOXES = 10_000  # boxes that a browser moves without waiting
_ROW = 22  # px
_TASKS = "tasks"
_FRAME_COLORS = {_TASKS: "#7799cc", PROGRAM: "#ee9944", PACKAGE: "#ddcc77", PYTHON: "#cccccc"}
_FRAME_TOOLTIPS = [
    ("function", "@function"), ("line", "@place"), ("code", "@code"), ("time", "@time"),
    ("samples", "@samples"),
]

#: Writes into each box as much of its name as there is room for.
_FIT = """
const {left, right, start, function: names, label} = source.data;
const letters = (frame.inner_width || 1000) / (range.end - range.start) / 7;
for (let i = 0; i < names.length; i++) {
  const room = Math.floor((Math.min(right[i], range.end) - Math.max(left[i], range.start))
    * letters) - 1;
  label[i] = room < 3 ? "" : names[i].length <= room ? names[i] : names[i].slice(0, room - 1) + "…";
  start[i] = Math.max(left[i], range.start);
}
source.change.emit();
"""
#: Shows the box that was clicked, and what it calls, as wide as the picture.
_ENTER = """
const [i] = source.selected.indices;
if (i !== undefined) {
  range.setv({start: source.data.left[i], end: source.data.right[i]});
  source.selected.indices = [];
}
"""


class FlameBox(NamedTuple):
    """A box, from `left` to `right` seconds; the fields after its colour are for the mouse."""

    depth: int
    left: float
    right: float
    start: float
    color: str
    whose: str
    function: str
    place: str
    code: str
    time: str
    samples: str
    label: str


def flame_figure(root: CallNode) -> Any:
    """Return a Bokeh figure of a tree of calls."""
    boxes = list(_boxes(root))
    rows = 1 + max((box.depth for box in boxes), default=0)
    plot = laned_figure("flame", rows, 120 + _ROW * rows, root.seconds or 1.0, "seconds in tasks")
    from bokeh.models import ColumnDataSource

    columns: dict[str, Any] = {
        field: [getattr(box, field) for box in boxes] for field in FlameBox._fields
    }
    source = ColumnDataSource(columns)
    plot.x_range.bounds = "auto"
    plot.grid.visible = plot.yaxis.visible = False
    plot.hbar(
        y="depth", left="left", right="right", height=0.92, fill_color="color",
        line_color="#ffffff", source=source, legend_field="whose", nonselection_alpha=1.0,
    )
    plot.text(
        x="start", y="depth", text="label", source=source, x_offset=4, text_font_size="12px",
        text_baseline="middle", nonselection_alpha=1.0,
    )
    legend_below(plot)
    _react(plot, source)
    return plot


def _react(plot: Any, source: Any) -> None:
    """Have names fit into their boxes, and clicks and the mouse do something."""
    from bokeh.models import CustomJS, HoverTool, TapTool

    fit = CustomJS(args={"source": source, "range": plot.x_range, "frame": plot}, code=_FIT)
    plot.x_range.js_on_change("start", fit)
    plot.x_range.js_on_change("end", fit)
    plot.js_on_change("inner_width", fit)
    enter = CustomJS(args={"source": source, "range": plot.x_range}, code=_ENTER)
    boxes = plot.renderers[:1]  # and not the words in them
    plot.add_tools(
        HoverTool(tooltips=_FRAME_TOOLTIPS, renderers=boxes),
        TapTool(callback=enter, renderers=boxes),
    )


def _boxes(root: CallNode) -> Iterator[FlameBox]:
    """Yield the boxes of a tree, level by level, without those that would be too narrow to see."""
    if not root.looks:
        return
    level, depth, left_to_make = [(0.0, root)], 0, _MAX_BOXES
    narrowest = root.seconds / 5_000
    while level and left_to_make > 0:
        below = []
        for left, node in level[:left_to_make]:
            yield _box(depth, left, node, root.seconds)
            for each in sorted(node.below.values(), key=lambda each: -each.seconds):
                if each.seconds >= narrowest:
                    below.append((left, each))
                left += each.seconds
        left_to_make -= len(level)
        level, depth = below, depth + 1


def _box(depth: int, left: float, node: CallNode, whole: float) -> FlameBox:
    line = node.line
    whose = owner(line[1]) if line else _TASKS
    name = f"{node.name}  {place_of(line).rpartition(os.sep)[2]}" if line else node.name
    return FlameBox(
        depth, left, left + node.seconds, left, _FRAME_COLORS[whose], whose, name,
        place_of(line) if line else "", code_of(line) if line else "",
        f"{seconds(node.seconds)} ({percent(node.seconds / whole)})", f"{node.looks:,}", "",
    )


_LISTED = 20  # lines in the table
_HEADS = ("line", "function", "share", "time", "samples", "code")
_WORDS = ("line", "function", "code")  # columns that have no numbers
_SEEN = {"sync", "threads", "processes", "distributed", "ray"}
_SEEN_ACTORS = {"sync", "threads"}


# -- flame --------------------------------------------------------------------------------


class Flame:
    """The hottest lines of the tasks, over all workers: see `Profile.flame`.

    Attributes
    ----------
    lines : list of HotLine
        The lines at which time was spent, hottest first.
    looks : int
        The number of samples that saw a task.
    seconds : float
        The time that these stand for, over all workers.

    Examples
    --------
    >>> import lazyflow, time
    >>> with lazyflow.profile(sample=0.001) as p:
    ...     lazyflow.delayed(time.sleep)(0.2).compute()
    >>> p.flame().looks > 0
    True
    """

    def __init__(
        self, samples: Sequence[SampledStack], runs: Sequence[RunRecord], interval: float,
        actors_on: Collection[str] = (),
    ) -> None:
        self.lines = hottest(samples)
        self.looks = sum(each.looks for each in samples)
        self.seconds = sum(each.seconds for each in samples)
        self._root = call_tree(samples)
        self._interval = interval
        unseen = {
            "tasks": {run.scheduler for run in runs} - _SEEN,
            "methods of actors": {*actors_on} - _SEEN_ACTORS,
        }
        self._unseen = [f"{what} on {', '.join(sorted(on))}" for what, on in unseen.items() if on]

    @property
    def headline(self) -> str:
        """The result in a sentence.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     pass
        >>> p.flame().headline[:34]
        'no task was seen: looks are taken '
        """
        text = (
            f"{count(self.looks, 'sample')} of {count(len(self._root.below), 'function')}, which "
            f"stand for {seconds(self.seconds)} in tasks"
            if self.looks
            else f"no task was seen: looks are taken each {seconds(self._interval)}. For shorter "
            "tasks type profile(sample=0.001)"
        )
        if self._unseen:
            text += f"; {' and '.join(self._unseen)} are not looked at"
        return text

    def __repr__(self) -> str:
        return table_text(self.headline, self._lines(), _WORDS)

    def _repr_html_(self) -> str:
        return table_html(self.headline, self._lines(), _WORDS)

    def _lines(self) -> list[tuple[str, ...]]:
        """Return the heads and the texts of the hottest lines."""
        texts = [
            (
                line.place or "(in C)", line.function, percent(line.share), seconds(line.seconds),
                f"{line.samples:,}", line.code,
            )
            for line in self.lines[:_LISTED]
        ]
        return [_HEADS, *texts] if texts else []

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the picture and the table as one HTML page, which loads no other files.

        Examples
        --------
        >>> import lazyflow, os, tempfile
        >>> with lazyflow.profile() as p:
        ...     pass
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     p.flame().write(os.path.join(folder, "flame.html"))
        """
        write_page(path, self.figure(), "lazyflow flame", self._repr_html_())

    def figure(self) -> Any:
        """Return the picture: a box for each line, as wide as its time, below its caller.

        A click on a box shows only this box and its calls.

        Returns
        -------
        bokeh.plotting.figure
            For a notebook: ``bokeh.io.output_notebook()``, then ``bokeh.io.show(...)``.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.profile() as p:
        ...     pass
        >>> type(p.flame().figure()).__name__
        'figure'
        """
        return flame_figure(self._root)
