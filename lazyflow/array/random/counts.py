"""The chances of counts: from the most likely one on, by how much the next is more or less likely.

All is done by IEEE's own operations one after the other, so that every processor finds the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.tables import table

_MOST = 1 << 13  # counts in a table to each side of the most likely one
_NEVER = 2.0**-70  # the chance of a count that a table leaves out, of the most likely one's

#: A count about where the most likely one is, and the chance of k + 1 divided by that of k.
Law = tuple[float, Callable[[Any], Any]]


def _poisson(mean: float) -> Law:
    return mean, lambda k: mean / (k + 1)


def _binomial(n: float, p: float) -> Law:
    odds = np.divide(p, 1 - p)
    return min((n + 1) * p, n), lambda k: (n - k) / (k + 1) * odds


def _negative_binomial(n: float, p: float) -> Law:
    return max((n - 1) * (1 - p) / p, 0), lambda k: (k + n) / (k + 1) * (1 - p)


def _hypergeometric(good: float, bad: float, n: float) -> Law:
    most = (n + 1) * (good + 1) / (good + bad + 2)
    return most, lambda k: (good - k) * (n - k) / ((k + 1) * (bad - n + k + 1))


_LAWS: dict[str, Callable[..., Law]] = {
    "poisson": _poisson, "binomial": _binomial, "negative_binomial": _negative_binomial,
    "hypergeometric": _hypergeometric,
}


@lru_cache(64)
def table_of(name: str, *params: float) -> bytes | None:
    """Return the table of a distribution; None where too many counts are likely.

    >>> table_of("poisson", 3.0) is None, table_of("poisson", 1e9) is None
    (False, True)
    """
    with np.errstate(all="ignore"):
        most, ratio = _LAWS[name](*params)
        if not most < 2.0**53:
            return None
        middle = int(most)
        up = np.cumprod(ratio(np.arange(middle, middle + _MOST, dtype=float)))
        down = np.cumprod(1 / ratio(np.arange(middle - 1, max(middle - _MOST, 0) - 1, -1.0)))
    chances = np.concatenate([down[::-1], [1.0], up])
    (found,) = (chances > _NEVER).nonzero()
    first, last = found[[0, -1]]
    if last + 1 == len(chances) or (first == 0 and len(down) == _MOST):
        return None
    return table(chances[first:last + 1], middle - len(down) + int(first))
