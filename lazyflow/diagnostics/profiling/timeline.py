"""An interactive picture of what ran, by Bokeh: a lane for each worker, and one for the caller.

`bars` computes what is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from lazyflow.diagnostics.profiling.bars import FAILED, Bar, bars_of
from lazyflow.diagnostics.profiling.page import importing, write_page
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord, UsageRecord
from lazyflow.diagnostics.profiling.summary import Summary
from lazyflow.diagnostics.profiling.usage_bars import HEIGHT, UsageBar, usage_bars

_LANE_HEIGHT = 26  # px
_TALLEST = 900  # px

_TOOLTIPS = [
    ("what", "@what"), ("function", "@function"), ("time", "@time"), ("CPU", "@cpu"),
    ("made at", "@place"),
]

_USAGE_TOOLTIPS = [("memory", "@memory"), ("CPU", "@cpu")]


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
    with importing("timeline"):
        from bokeh.models import HoverTool, PlainText, Range1d
        from bokeh.plotting import figure
    lanes, groups = bars_of(tasks, runs, time)
    names, used = usage_bars(usage, len(lanes))
    rows = len(lanes) + HEIGHT * len(names)
    plot = figure(
        height=min(_TALLEST, 140 + _LANE_HEIGHT * rows), sizing_mode="stretch_width",
        x_range=Range1d(start=0.0, end=time), x_axis_label="seconds",
        y_range=Range1d(start=rows - 0.5, end=-0.5),
        toolbar_location="above", active_scroll="xwheel_zoom",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
    )
    plot.toolbar.logo = None
    plot.ygrid.visible = False
    labels = dict(enumerate(lanes)) | names
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
    plot.add_layout(plot.legend[0], "below")
    plot.legend.items.reverse()
    plot.legend.location = "bottom_left"
    plot.legend.orientation = "horizontal"
    plot.legend.ncols = 8
    plot.legend.click_policy = "hide"
    plot.legend.border_line_color = None
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
