"""The picture of a `Flame`, by Bokeh: boxes below the boxes that called them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from lazyflow.diagnostics.profiling.page import importing
from lazyflow.diagnostics.profiling.samples import (
    PACKAGE,
    PROGRAM,
    PYTHON,
    CallNode,
    code_of,
    owner,
    place_of,
)
from lazyflow.diagnostics.profiling.texts import percent, seconds

_MOST = 10_000  # boxes that a browser moves without waiting
_ROW = 22  # px
_TALLEST = 900  # px
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
    with importing("flame"):
        from bokeh.models import ColumnDataSource, Range1d
        from bokeh.plotting import figure
    boxes = list(_boxes(root))
    rows = 1 + max((box.depth for box in boxes), default=0)
    columns: dict[str, Any] = {
        field: [getattr(box, field) for box in boxes] for field in FlameBox._fields
    }
    source = ColumnDataSource(columns)
    plot = figure(
        height=min(_TALLEST, 120 + _ROW * rows), sizing_mode="stretch_width",
        x_range=Range1d(start=0.0, end=root.seconds or 1.0, bounds="auto"),
        x_axis_label="seconds in tasks", y_range=Range1d(start=rows - 0.5, end=-0.5),
        toolbar_location="above", active_scroll="xwheel_zoom",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
    )
    plot.toolbar.logo = None
    plot.grid.visible = plot.yaxis.visible = False
    plot.hbar(
        y="depth", left="left", right="right", height=0.92, fill_color="color",
        line_color="#ffffff", source=source, legend_field="whose", nonselection_alpha=1.0,
    )
    plot.text(
        x="start", y="depth", text="label", source=source, x_offset=4, text_font_size="12px",
        text_baseline="middle", nonselection_alpha=1.0,
    )
    plot.add_layout(plot.legend[0], "below")
    plot.legend.orientation = "horizontal"
    plot.legend.border_line_color = None
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
    level, depth, left_to_make = [(0.0, root)], 0, _MOST
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
