"""Bokeh figures with lanes, and HTML pages with them, which load nothing from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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
