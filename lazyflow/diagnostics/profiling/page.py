"""HTML pages with a Bokeh figure, which load nothing from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def importing(what: str) -> Iterator[None]:
    """Return a block that imports Bokeh; where there is none, the error says what to type."""
    try:
        yield
    except ImportError:
        raise ImportError(
            f"{what} draws with Bokeh, which is not installed. Type: pip install "
            '"lazyflow[diagnostics]"'
        ) from None


def write_page(path: str | os.PathLike[str], figure: Any, title: str, below: str) -> None:
    """Write a page with a figure, and some HTML below it."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    page = file_html(
        figure, INLINE, title, template=_PAGE,
        template_variables={"policy": _POLICY, "below": below},
    )
    Path(path).write_text(page, encoding="utf-8")
