"""Distributions of whole numbers.

`integers` between two numbers, and `geometric`, are functions of the place of an element. So are
binomial, negative_binomial, hypergeometric and poisson with numbers as parameters, by a table of
the chances of all likely counts. It holds up to 8,192 counts on each side of the most likely one,
and leaves out those whose chance is less than 2**-70 times as large. Where the likely counts do not
fit the table, and for arrays as parameters, NumPy's generators draw in boxes (generator.py), as
they do for logseries and zipf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, ChunksLike, DTypeLike
from lazyflow.array.kernels.draws.draw import table
from lazyflow.array.kernels.draws.formulas import words_of
from lazyflow.array.random.continuous import Continuous
from lazyflow.array.random.generator import Size, Values, given_of

# -- counts -------------------------------------------------------------------------------
#
# The chances of counts: from the most likely one on, by how much the next is more or less likely.
#
# All is done by IEEE's own operations one after the other, so that every processor finds the same.

_MOST = 1 << 13  # counts that a table has at most on each side of the most likely one
_NEVER = 2.0**-70  # a table leaves out counts whose chance is less than this times the largest

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


_WHOLE = (int, np.integer)

#: How many numbers there are at most for words of 32 bits, of which few are refused then.
_SHORT = 1 << 24


def _trials(x: Array, p: Any) -> Any:
    """Return how many trials there are until one succeeds, of the time that they take."""
    found = np.ceil(x * np.true_divide(-1, np.log1p(np.negative(p))))
    return np.clip(found, 1, 2.0**63 - 1024).astype(np.int64)


# -- the distributions --------------------------------------------------------------------


class Discrete(Continuous):
    """Distributions of whole numbers, as of ``np.random.Generator``."""

    def integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: Size = None,
        dtype: DTypeLike = np.int64, endpoint: bool = False, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return whole numbers from `low` up to `high`, all as frequent.

        Parameters
        ----------
        low, high
            The bounds; if only one is given, it is the upper one, and the lower one is 0.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.
        dtype
            The type of the elements.
        endpoint
            `high` is drawn too.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).integers(1, 6, endpoint=True, size=10_000)
        >>> x.min().compute(), x.max().compute()
        (np.int64(1), np.int64(6))
        """
        if high is None:
            low, high = 0, low
        options = {"dtype": np.dtype(dtype), "endpoint": bool(endpoint)}
        if not (isinstance(low, _WHOLE) and isinstance(high, _WHOLE)):
            return self._draw("integers", (low, high), size, chunks, **options)
        count = int(high) - int(low) + bool(endpoint)
        return self._whole(int(low), count, size, chunks, options)

    def _whole(
        self, low: int, count: int, size: Size, chunks: ChunksLike, options: dict[str, Any]
    ) -> Array:
        formula = "words" if count == 2**64 else "short_range" if count <= _SHORT else "long_range"
        refused = 2 ** (32 if count <= _SHORT else 64) % max(count, 1)
        return self._placed(
            "integers", formula, (low, low + count - options["endpoint"]), size, chunks,
            own=words_of(low, count, refused), **options,
        )

    def _counted(
        self, name: str, params: tuple[Any, ...], size: Size, chunks: ChunksLike
    ) -> Array:
        """Return counts, by a table if the parameters are numbers and few counts are likely."""
        given, _, _ = given_of(name, params, size, {})
        numbers = not any(isinstance(p, Values | Array) for p in given)
        found = table_of(name, *map(float, given)) if numbers else None
        if found is None:
            return self._draw(name, params, size, chunks)
        return self._placed(name, "listed", params, size, chunks, own=found)

    def binomial(
        self, n: ArrayLike, p: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return how many of `n` trials succeed.

        Parameters
        ----------
        n
            How many trials there are.
        p
            The probability that a trial succeeds.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).binomial(10, 0.5, size=10_000)
        >>> x.mean().compute().round()
        np.float64(5.0)
        """
        return self._counted("binomial", (n, p), size, chunks)

    def negative_binomial(
        self, n: ArrayLike, p: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return how many trials fail before `n` of them succeed.

        Parameters
        ----------
        n
            How many trials are to succeed.
        p
            The probability that a trial succeeds.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).negative_binomial(6, 0.5, size=10_000)
        >>> x.mean().compute().round()
        np.float64(6.0)
        """
        return self._counted("negative_binomial", (n, p), size, chunks)

    def geometric(self, p: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return how many trials it takes until one succeeds.

        Parameters
        ----------
        p
            The probability that a trial succeeds.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).geometric(0.25, size=10_000)
        >>> x.mean().compute().round()
        np.float64(4.0)
        """
        return self._placed("geometric", "exponential", (p,), size, chunks, _trials)

    def hypergeometric(
        self, ngood: ArrayLike, nbad: ArrayLike, nsample: ArrayLike, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return how many of a sample without replacement are good.

        Parameters
        ----------
        ngood
            How many good things there are.
        nbad
            How many bad ones there are.
        nsample
            How many of all are drawn.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).hypergeometric(30, 20, 10, size=10_000)
        >>> x.mean().compute().round()
        np.float64(6.0)
        """
        return self._counted("hypergeometric", (ngood, nbad, nsample), size, chunks)

    def poisson(
        self, lam: ArrayLike = 1.0, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of Poisson distributions: of counts of rare events.

        Parameters
        ----------
        lam
            The mean.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).poisson(7, size=10_000)
        >>> x.mean().compute().round()
        np.float64(7.0)
        """
        return self._counted("poisson", (lam,), size, chunks)

    def logseries(self, p: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of logarithmic series distributions.

        Parameters
        ----------
        p
            The parameter, from 0 up to, without, 1.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).logseries(0.6, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(1.6)
        """
        return self._draw("logseries", (p,), size, chunks)

    def zipf(self, a: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of Zipf distributions: ``k`` is as frequent as ``k**-a``.

        Parameters
        ----------
        a
            The exponent, above 1.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).zipf(4, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(1.1)
        """
        return self._draw("zipf", (a,), size, chunks)
