"""How many bins a histogram has by a rule of NumPy's, of statistics that are computed now.

The rules are those of ``np.histogram_bin_edges``, whose documentation names their sources.
"""

from __future__ import annotations

from math import ceil, log2, pi, sqrt
from typing import Any

import numpy as np

from lazyflow.api import evaluate
from lazyflow.array.core import Array
from lazyflow.array.functions.reductions.quantiles import percentile
from lazyflow.array.functions.reductions.totals import max, min

_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "sturges")


def number_of_bins(x: Array, rule: str, limits: Any) -> int:
    """Return how many bins a rule gives for the elements between limits; None: for all.

    Their extremes, and where the rule needs them their quartiles or moments, are computed now: the
    shape of a histogram depends on them.
    """
    if rule not in _RULES:
        more = "; of 'stone' all values are needed: x.compute()" if rule == "stone" else ""
        raise ValueError(f"{rule!r} is not a valid estimator for `bins`{more}")
    x = x.ravel()
    if limits is not None:
        low, high = limits
        x = x[(x >= low) & (x <= high)]
    if not x.size:
        return 1
    low, high = evaluate.compute(min(x), max(x))
    ptp = float(high) - float(low)
    width = _width(x, rule, ptp)
    if not width:
        return 1
    if x.dtype.kind in "iu":
        width = width if width > 1 else 1
    edges = np.histogram_bin_edges(np.array([low, high]), 1, limits)
    return ceil(float(edges[1] - edges[0]) / width)


def _width(x: Array, rule: str, ptp: float) -> float:
    n = x.size
    if rule == "sqrt":
        return ptp / sqrt(n)
    if rule == "sturges":
        return ptp / (log2(n) + 1)
    if rule == "rice":
        return ptp / (2 * n ** (1 / 3))
    if rule == "scott":
        return float((24 * pi ** 0.5 / n) ** (1 / 3) * x.std().compute())
    if rule == "doane":
        return _doane(x, n, ptp)
    third, first = percentile(x, [75, 25]).compute()
    fd = float(2 * (third - first) * n ** (-1 / 3))
    if rule == "fd":
        return fd
    corrected = np.maximum(fd, ptp / sqrt(n) / 2)  # as many bins at most as twice the root of n
    return float(np.minimum(corrected, ptp / (log2(n) + 1)))


def _doane(x: Array, n: int, ptp: float) -> float:
    if n <= 2:
        return 0.0
    deviation = x.std()
    if not (sigma := float(deviation.compute())):
        return 0.0
    skewness = abs(float((((x - x.mean()) / sigma) ** 3).mean().compute()))
    expected = sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    return ptp / (1 + log2(n) + log2(1 + skewness / expected))
