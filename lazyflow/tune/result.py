"""What a search has found."""

from __future__ import annotations

import html
import math
from typing import Any

from lazyflow.tune.space import Space, leaves_of
from lazyflow.tune.trial import FAILED, Trial, loss

_ROWS = 20  # of the table in a notebook


class SearchResult:
    """The trials of a search.

    Attributes
    ----------
    trials
        All trials, in the order of their numbers.
    space
        What the trials were drawn from.
    metric, mode
        What was compared.
    total
        How many trials the search has, those included that were not made.
    deadline
        When its time is over, as `time.monotonic` counts; None: never.
    was_interrupted
        Whether Ctrl-C ended the search.

    Examples
    --------
    >>> from lazyflow import tune
    >>> result = tune.run(lambda c: c["x"] ** 2, {"x": tune.grid_search([3, 1, 2])}, num_samples=1,
    ...                   metric="loss", scheduler="sync", verbose=0)
    >>> result.best.config, result.best.metrics
    ({'x': 1}, {'loss': 1})
    >>> result
    <SearchResult: 3 trials, best loss 1 of trial 1>
    """

    def __init__(
        self, space: Space, metric: str, mode: str, total: int, deadline: float | None
    ) -> None:
        self.trials: list[Trial] = []
        self.space = space
        self.metric, self.mode = metric, mode
        self.total, self.deadline = total, deadline
        self.was_interrupted = False

    def check(self) -> None:
        """Raise the first error if all trials that are over have failed."""
        over = [trial for trial in self.trials if trial.is_over]
        if over and all(trial.status == FAILED for trial in over) and over[0].error is not None:
            over[0].error.add_note(
                f"All {len(over)} trials have failed; this is the error of the first, whose "
                f"configuration is {over[0].config!r:.300}"
            )
            raise over[0].error

    def ranked(self) -> list[Trial]:
        """Return the trials that have reported the metric, the best first."""
        sign = 1 if self.mode == "min" else -1
        losses = [(loss(t.value(self.metric), sign), t.number, t) for t in self.trials]
        return [t for found, _, t in sorted(losses, key=lambda each: each[:2]) if found < math.inf]

    @property
    def best(self) -> Trial:
        """The trial whose newest report of the metric is the best.

        Raises
        ------
        LookupError
            No trial has reported a number.
        """
        ranked = [t for t in self.ranked() if t.status != FAILED]
        if not ranked:
            raise LookupError(
                f"none of {len(self.trials)} trials has reported a number as {self.metric!r}"
            )
        return ranked[0]

    @property
    def errors(self) -> dict[int, BaseException]:
        """Why trials have failed, by number."""
        return {t.number: t.error for t in self.trials if t.error is not None}

    def to_pandas(self) -> Any:
        """Return a DataFrame: a row for each trial, its newest metrics, and its parameters."""
        import pandas as pd

        rows = [
            {
                "status": t.status, **t.metrics,
                **{f"config/{path}": value for path, value in leaves_of(t.config).items()},
                "reports": len(t.history), "seconds": t.seconds, "failures": t.failures,
            }
            for t in self.trials
        ]
        return pd.DataFrame(rows, index=pd.Index([t.number for t in self.trials], name="trial"))

    def plot(self, kind: str = "history") -> Any:
        """Return a figure of Bokeh's.

        Parameters
        ----------
        kind
            ``"history"``: the metric of each trial, and the best so far. ``"reports"``: what each
            trial has reported, step by step. ``"parallel"``: a line for each trial through its
            parameters. ``"importance"``: how much each parameter matters, as Optuna finds it.
        """
        from lazyflow.tune.plots import plot

        ranked = self.ranked()
        if not ranked:
            raise ValueError(f"no trial has reported a number as {self.metric!r}: nothing to plot")
        return plot(kind, ranked, self.space, self.metric, self.mode)

    def __repr__(self) -> str:
        ranked = self.ranked()
        best = "no metric reported"
        if ranked:
            value = ranked[0].metrics[self.metric]
            best = f"best {self.metric} {value:.6g} of trial {ranked[0].number}"
        return f"<SearchResult: {len(self.trials)} trials, {best}>"

    def _repr_html_(self) -> str:
        ranked = self.ranked()
        shown = (ranked + [t for t in self.trials if t not in ranked])[:_ROWS]
        paths = list(shown[0].drawn or leaves_of(shown[0].config)) if shown else []
        head = ["trial", "status", self.metric, *paths, "reports", "seconds"]
        lines = []
        for t in shown:
            leaves, value = leaves_of(t.config), t.value(self.metric)
            cells = [
                t.number, t.status, "" if value is None else f"{value:.6g}",
                *(_short(leaves.get(path)) for path in paths), len(t.history), f"{t.seconds:.2g}",
            ]
            lines.append("".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells))
        titles = "".join(f"<th>{html.escape(title)}</th>" for title in head)
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<p>{html.escape(repr(self))}</p><table><tr>{titles}</tr>{rows}</table>"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)[:40]
