"""`Flame`: which lines of the tasks cost the time, as a table and as a picture of all calls."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from html import escape
from typing import Any

from lazyflow.diagnostics.boxes import count
from lazyflow.diagnostics.profiling.page import write_page
from lazyflow.diagnostics.profiling.records import RunRecord
from lazyflow.diagnostics.profiling.samples import SampledStack, call_tree, hottest
from lazyflow.diagnostics.profiling.texts import percent, seconds

__all__ = ["Flame"]

_LISTED = 20  # lines in the table
_HEADS = ("line", "function", "share", "time", "samples", "code")
_SEEN = {"sync", "threads", "processes", "distributed", "ray"}
_SEEN_ACTORS = {"sync", "threads"}


class Flame:
    """Which lines of the tasks cost the time, over all workers: see `Profile.flame`.

    Attributes
    ----------
    lines : list of HotLine
        The lines at which the time was spent, the hottest first.
    looks : int
        How often a task was seen.
    seconds : float
        The time that it stands for, of all workers together.

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
        """What was seen, in a sentence.

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
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(
                text.ljust(width) if head in ("line", "function", "code") else text.rjust(width)
                for head, text, width in zip(_HEADS, line, widths, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.headline, *table])

    def _repr_html_(self) -> str:
        def row(texts: Sequence[str], tag: str) -> str:
            cells = (
                f'<{tag} style="text-align: left; padding: 2px 8px">{escape(text)}</{tag}>'
                for text in texts
            )
            return f"<tr>{''.join(cells)}</tr>"

        body = "".join(row(texts, "td" if at else "th") for at, texts in enumerate(self._lines()))
        return f"<p>{escape(self.headline)}</p><table>{body}</table>"

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
        """Write the picture and the table as one HTML page, which loads nothing from elsewhere.

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
        """Return the picture: a box for each line, as wide as its time, below what called it.

        A click on a box shows it and what it calls alone.

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
        from lazyflow.diagnostics.profiling.flame_figure import flame_figure

        return flame_figure(self._root)
