"""An interactive picture of what ran, by Bokeh: a lane for each worker, and one for the caller.

`bars` computes what is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lazyflow.diagnostics.profiling.bars import FAILED, Bar, bars_of
from lazyflow.diagnostics.profiling.records import RunRecord, TaskRecord
from lazyflow.diagnostics.profiling.summary import Summary

_LANE_HEIGHT = 26  # px
_TALLEST = 900  # px

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
<main>{{ super() }}{{ summary }}</main>
{% endblock %}
"""
_TOOLTIPS = [
    ("what", "@what"), ("function", "@function"), ("time", "@time"), ("CPU", "@cpu"),
    ("made at", "@place"),
]


def timeline(
    path: str | os.PathLike[str] | None,
    tasks: Sequence[TaskRecord],
    runs: Sequence[RunRecord],
    time: float,
) -> Any:
    """Return a Bokeh figure of what ran; write it, and the summary, to an HTML file if asked."""
    figure = _figure(tasks, runs, time)
    if path is not None:
        from bokeh.embed import file_html
        from bokeh.resources import INLINE

        page = file_html(
            figure, INLINE, "lazyflow timeline", template=_PAGE,
            template_variables={
                "policy": _POLICY, "summary": Summary(tasks, runs, time)._repr_html_(),
            },
        )
        Path(path).write_text(page, encoding="utf-8")
    return figure


def _figure(tasks: Sequence[TaskRecord], runs: Sequence[RunRecord], time: float) -> Any:
    try:
        from bokeh.models import HoverTool, PlainText, Range1d
        from bokeh.plotting import figure
    except ImportError:
        raise ImportError(
            "timeline draws with Bokeh, which is not installed. Type: pip install "
            '"lazyflow[diagnostics]"'
        ) from None
    lanes, groups = bars_of(tasks, runs, time)
    plot = figure(
        height=min(_TALLEST, 140 + _LANE_HEIGHT * len(lanes)), sizing_mode="stretch_width",
        x_range=Range1d(start=0.0, end=time), x_axis_label="seconds",
        y_range=Range1d(start=len(lanes) - 0.5, end=-0.5),
        toolbar_location="above", active_scroll="xwheel_zoom",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
    )
    plot.toolbar.logo = None
    plot.ygrid.visible = False
    plot.yaxis.ticker = list(range(len(lanes)))
    # Plain: a name between dollar signs would be set as a formula.
    plot.yaxis.major_label_overrides = {at: PlainText(text=name) for at, name in enumerate(lanes)}
    # A browser gives the shortest bar a pixel: those of functions with more time lie on top.
    for label, bars in reversed(groups.items()):
        columns: dict[str, Any] = dict(zip(Bar._fields, zip(*bars, strict=True), strict=True))
        # Lines would show what is shorter than a pixel as more than it is.
        plot.hbar(
            y="lane", left="left", right="right", height=0.8, fill_color="color", source=columns,
            line_color="color" if label == FAILED else None, legend_label=label,
        )
    plot.add_tools(HoverTool(tooltips=_TOOLTIPS))
    plot.add_layout(plot.legend[0], "below")
    plot.legend.items.reverse()
    plot.legend.location = "bottom_left"
    plot.legend.orientation = "horizontal"
    plot.legend.ncols = 8
    plot.legend.click_policy = "hide"
    plot.legend.border_line_color = None
    return plot
