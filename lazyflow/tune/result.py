"""The results of a search: its trials, the best one, a table, and pictures.

A `SearchResult` exists from the start of a search, which appends a trial to ``trials`` when it is
made and sorts them by number at the end; callbacks get the same object. Nothing is stored twice:
the ranking, the best trial and the table are made of the trials when they are asked for.

>>> from lazyflow import tune
>>> result = tune.run(lambda c: c["x"] ** 2, {"x": tune.grid_search([3, 1, 2])}, num_samples=1,
...                   metric="loss", scheduler="sync", verbose=0)
>>> [trial.number for trial in result.ranked()]
[1, 2, 0]

Values are compared as losses (``sign`` times the metric, `trial.loss`): a trial without a number,
or with NaN, is not ranked. A failed trial may be ranked by its reports, but is never ``best``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import accumulate
from typing import Any

from lazyflow import config
from lazyflow.clock import Deadline
from lazyflow.tune.space import OptunaSampler, Space, leaves_of
from lazyflow.tune.trial import COMPLETED, FAILED, Trial, loss

_ROWS = 20  # of the table in a notebook


class SearchResult:
    """The trials of a search.

    Attributes
    ----------
    trials
        All trials, in the order of their numbers.
    space
        The space that the trials were drawn from.
    metric, mode
        The metric, and whether its minimum or maximum is best.
    sign
        1 or -1: values of the metric times it are losses.
    total
        The number of trials of the search, including those not made.
    deadline
        When it ends.
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
        self, space: Space, metric: str, mode: str, total: int, deadline: Deadline
    ) -> None:
        self.trials: list[Trial] = []
        self.space = space
        self.metric, self.mode = metric, mode
        self.sign = 1 if mode == "min" else -1  # values times it are losses
        self.total, self.deadline = total, deadline
        self.was_interrupted = False

    def check(self) -> None:
        """Raise the first error if all ended trials have failed.

        Examples
        --------
        >>> from lazyflow import tune
        >>> result = tune.run(lambda c: c["x"] ** 2, {"x": tune.grid_search([0, 1])},
        ...                   num_samples=1, metric="loss", scheduler="sync", verbose=0)
        >>> result.check()
        """
        over = [trial for trial in self.trials if trial.is_over]
        if over and all(trial.status == FAILED for trial in over) and over[0].error is not None:
            over[0].error.add_note(
                f"All {len(over)} trials have failed; this is the error of the first, whose "
                f"configuration is {over[0].config!r:.300}"
            )
            raise over[0].error

    def ranked(self) -> list[Trial]:
        """Return the trials that have reported the metric and not failed, best first.

        Examples
        --------
        >>> from lazyflow import tune
        >>> space = {"x": tune.grid_search([0, 1, 2])}
        >>> result = tune.run(lambda c: (c["x"] - 2) ** 2, space, num_samples=1, metric="loss",
        ...                   scheduler="sync", verbose=0)
        >>> [trial.config["x"] for trial in result.ranked()]
        [2, 1, 0]
        """
        losses = [
            (loss(t.value(self.metric), self.sign), t.number, t)
            for t in self.trials if t.status != FAILED
        ]
        return [t for found, _, t in sorted(losses, key=lambda each: each[:2]) if found < math.inf]

    @property
    def best(self) -> Trial:
        """The trial with the best newest report of the metric.

        Raises
        ------
        LookupError
            No trial that did not fail has reported a number.

        Examples
        --------
        >>> from lazyflow import tune
        >>> space = {"x": tune.grid_search([0, 1, 2])}
        >>> result = tune.run(lambda c: (c["x"] - 1) ** 2, space, num_samples=1, metric="loss",
        ...                   scheduler="sync", verbose=0)
        >>> result.best.config
        {'x': 1}
        """
        ranked = self.ranked()
        if not ranked:
            raise LookupError(
                f"none of {len(self.trials)} trials has reported a number as {self.metric!r}"
            )
        return ranked[0]

    @property
    def errors(self) -> dict[int, BaseException]:
        """The errors of failed trials, by number.

        Examples
        --------
        >>> from lazyflow import tune
        >>> space = {"x": tune.grid_search([0, 1, 2])}
        >>> result = tune.run(lambda c: 1 / c["x"], space, num_samples=1, metric="loss",
        ...                   scheduler="sync", verbose=0)
        >>> result.errors
        {0: ZeroDivisionError('division by zero')}
        """
        return {t.number: t.error for t in self.trials if t.error is not None}

    def to_pandas(self) -> Any:
        """Return a DataFrame: a row for each trial, its newest metrics, and its parameters.

        Examples
        --------
        >>> from lazyflow import tune
        >>> space = {"x": tune.grid_search([0, 1, 2])}
        >>> result = tune.run(lambda c: c["x"] ** 2, space, num_samples=1, metric="loss",
        ...                   scheduler="sync", verbose=0)
        >>> result.to_pandas()[["config/x", "loss"]].to_dict("list")
        {'config/x': [0, 1, 2], 'loss': [0, 1, 4]}
        """
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
            ``"history"``: the metric of each trial, and the best so far. ``"reports"``: the
            reports of each trial, step by step. ``"parallel"``: a line for each trial through its
            parameters. ``"importance"``: how much each parameter matters, computed by Optuna.

        Raises
        ------
        ValueError
            There is no such plot, or no trial has reported a number.
        ImportError
            Bokeh, or Optuna for ``"importance"``, is not installed.

        Examples
        --------
        >>> from lazyflow import tune
        >>> space = {"x": tune.grid_search([0, 1, 2])}
        >>> result = tune.run(lambda c: c["x"] ** 2, space, num_samples=1, metric="loss",
        ...                   scheduler="sync", verbose=0)
        >>> type(result.plot()).__name__
        'figure'
        """
        ranked = self.ranked()
        if not ranked:
            raise ValueError(f"no trial has reported a number as {self.metric!r}: nothing to plot")
        if kind not in _PLOTS:
            hint = config.nearest(str(kind), _PLOTS)
            raise ValueError(f"there is no plot {kind!r}{hint} Plots are {', '.join(_PLOTS)}.")
        return _PLOTS[kind](self, ranked)

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
                *(short(leaves.get(path)) for path in paths), len(t.history), f"{t.seconds:.2g}",
            ]
            lines.append(cells)
        return html_table(repr(self), head, lines)


def short(value: Any) -> str:
    """Return a parameter in a few characters."""
    return f"{value:.4g}" if isinstance(value, float) else repr(value)[:40]


def html_table(heading: str, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table below a line of text."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<p>{escape(heading)}</p><table><tr>{head}</tr>{body}</table>"


# -- pictures of a search and its ranked trials, by Bokeh ---------------------------------

_WIDTH, _HEIGHT = 640, 360


def _figure(**options: Any) -> Any:
    from bokeh.plotting import figure

    return figure(width=_WIDTH, height=_HEIGHT, **options)


def _history(result: SearchResult, ranked: list[Trial]) -> Any:
    trials = sorted(ranked, key=lambda trial: trial.number)
    values = [trial.metrics[result.metric] for trial in trials]
    numbers = [trial.number for trial in trials]
    best = list(accumulate(values, min if result.sign > 0 else max))
    found = _figure(title="Trials", x_axis_label="trial", y_axis_label=result.metric)
    found.scatter(numbers, values, size=7, legend_label=result.metric)
    found.step(numbers, best, mode="after", color="firebrick", legend_label="best so far")
    return found


def _reports(result: SearchResult, ranked: list[Trial]) -> Any:
    found = _figure(title="Reports", x_axis_label="report", y_axis_label=result.metric)
    for trial, color in zip(ranked, _colors(ranked), strict=True):
        steps = [k for k, each in enumerate(trial.history, 1) if result.metric in each]
        values = [trial.history[k - 1][result.metric] for k in steps]
        found.line(steps, values, color=color)
        found.scatter(steps[-1:], values[-1:], color=color)
    return found


def _parallel(result: SearchResult, ranked: list[Trial]) -> Any:
    names = [*ranked[0].drawn, result.metric]
    columns = [_places([_of(trial, name, result.metric) for trial in ranked]) for name in names]
    found = _figure(title="Parameters", x_range=names, y_axis_label="smallest to largest")
    lines = list(zip(*columns, strict=True))
    found.multi_line([names] * len(lines), [list(line) for line in lines], color=_colors(ranked))
    return found


def _of(trial: Trial, name: str, metric: str) -> Any:
    return trial.metrics[metric] if name == metric else trial.drawn[name]


def _places(values: list[Any]) -> list[float]:
    """Return where values are between the smallest, 0, and the largest, 1."""
    if not all(isinstance(value, int | float) for value in values):
        texts = sorted({repr(value) for value in values})
        values = [texts.index(repr(value)) for value in values]
    elif min(values) > 0 and max(values) > 100 * min(values):  # drawn by its logarithm
        values = [math.log(value) for value in values]
    low, span = min(values), max(values) - min(values)
    return [(value - low) / span if span else 0.5 for value in values]


def _colors(ranked: list[Trial]) -> list[str]:
    """Return a color for each ranked trial, the darkest for the best."""
    from bokeh.palettes import viridis

    count = len(ranked)
    return list(viridis(min(count, 256)))[:count] + ["#fde725"] * (count - 256)


def _importance(result: SearchResult, ranked: list[Trial]) -> Any:
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    sampler = OptunaSampler(result.space, None)
    for trial in ranked:
        sampler.known(trial.number, trial.drawn)
        sampler.ended(trial.number, COMPLETED, result.sign * trial.metrics[result.metric])
    shares = get_param_importances(sampler.study, evaluator=PedAnovaImportanceEvaluator())
    names = list(shares)[::-1]
    found = _figure(title="What matters", y_range=names, x_axis_label="importance")
    found.hbar(names, height=0.6, right=[shares[name] for name in names])
    return found


_PLOTS: dict[str, Callable[[SearchResult, list[Trial]], Any]] = {
    "history": _history, "importance": _importance, "parallel": _parallel, "reports": _reports,
}
