"""Pictures of a search, by Bokeh."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from lazyflow import config
from lazyflow.tune.sampling import OptunaSampler
from lazyflow.tune.space import Space
from lazyflow.tune.trial import COMPLETED, Trial

_WIDTH, _HEIGHT = 640, 360


class PlottedSearch(NamedTuple):
    """The trials that have reported the metric, the best first, and what they were drawn from."""

    ranked: Sequence[Trial]
    space: Space
    metric: str
    mode: str


def plot(kind: str, *found: Any) -> Any:
    """Return a figure of a kind of a `PlottedSearch`, whose fields follow."""
    make = _KINDS.get(kind)
    if make is None:
        hint = config.nearest(str(kind), _KINDS)
        raise ValueError(f"there is no plot {kind!r}{hint} Plots are {', '.join(_KINDS)}.")
    return make(PlottedSearch(*found))


def _figure(**options: Any) -> Any:
    from bokeh.plotting import figure

    return figure(width=_WIDTH, height=_HEIGHT, **options)


def _history(result: PlottedSearch) -> Any:
    trials = sorted(result.ranked, key=lambda trial: trial.number)
    values = [trial.metrics[result.metric] for trial in trials]
    numbers = [trial.number for trial in trials]
    best = list(accumulate(values, min if result.mode == "min" else max))
    found = _figure(title="Trials", x_axis_label="trial", y_axis_label=result.metric)
    found.scatter(numbers, values, size=7, legend_label=result.metric)
    found.step(numbers, best, mode="after", color="firebrick", legend_label="best so far")
    return found


def _reports(result: PlottedSearch) -> Any:
    found = _figure(title="Reports", x_axis_label="report", y_axis_label=result.metric)
    for trial, color in zip(result.ranked, _colors(result), strict=True):
        steps = [k for k, each in enumerate(trial.history, 1) if result.metric in each]
        values = [trial.history[k - 1][result.metric] for k in steps]
        found.line(steps, values, color=color)
        found.scatter(steps[-1:], values[-1:], color=color)
    return found


def _parallel(result: PlottedSearch) -> Any:
    trials = result.ranked
    names = [*trials[0].drawn, result.metric]
    columns = [_places([_of(trial, name, result.metric) for trial in trials]) for name in names]
    found = _figure(title="Parameters", x_range=names, y_axis_label="smallest to largest")
    lines = list(zip(*columns, strict=True))
    found.multi_line([names] * len(lines), [list(line) for line in lines], color=_colors(result))
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


def _colors(result: PlottedSearch) -> list[str]:
    """Return a color for each ranked trial, the darkest for the best."""
    from bokeh.palettes import viridis

    count = len(result.ranked)
    return list(viridis(min(count, 256)))[:count] + ["#fde725"] * (count - 256)


def _importance(result: PlottedSearch) -> Any:
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    sampler = OptunaSampler(result.space, None)
    for trial in result.ranked:
        sampler.known(trial.number, trial.drawn)
        value = trial.metrics[result.metric]
        sampler.ended(trial.number, COMPLETED, value if result.mode == "min" else -value)
    shares = get_param_importances(sampler.study, evaluator=PedAnovaImportanceEvaluator())
    names = list(shares)[::-1]
    found = _figure(title="What matters", y_range=names, x_axis_label="importance")
    found.hbar(names, height=0.6, right=[shares[name] for name in names])
    return found


_KINDS: dict[str, Callable[[Any], Any]] = {
    "history": _history, "importance": _importance, "parallel": _parallel, "reports": _reports,
}
