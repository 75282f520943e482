"""`Flame`: the hottest lines of the tasks, as a table and as a picture of all calls."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.page import laned_figure, legend_below, write_page
from lazyflow.diagnostics.profiling.records import RunRecord
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
from lazyflow.diagnostics.profiling.texts import percent, seconds, table_html, table_text

__all__ = ["Flame"]


# -- the picture of a `Flame`, by Bokeh: boxes below the boxes that called them -----------

_MAX_BOXES = 10_000  # boxes that a browser moves without waiting
_ROW = 22  # px
_TASKS = "tasks"
_COLORS = {_TASKS: "#7799cc", PROGRAM: "#ee9944", PACKAGE: "#ddcc77", PYTHON: "#cccccc"}
_TOOLTIPS = [
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
    """A box, from `left` to `right` seconds; what follows its colour is for the mouse."""

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
        HoverTool(tooltips=_TOOLTIPS, renderers=boxes), TapTool(callback=enter, renderers=boxes)
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
        depth, left, left + node.seconds, left, _COLORS[whose], whose, name,
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
