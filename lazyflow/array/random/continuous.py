"""Distributions of floats that are of both signs, or lie between bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, ChunksLike, DTypeLike
from lazyflow.array.random.generator import Size, Streams, spread


class Continuous(Streams):
    """Distributions of floats of both signs, or between bounds, as of ``np.random.Generator``."""

    def random(
        self, size: Size = None, dtype: DTypeLike = np.float64, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return floats drawn evenly from 0 up to, without, 1.

        Parameters
        ----------
        size, chunks
            Shape and chunks of the array; without a size it has no axes.
        dtype
            The type of the elements: float64 or float32.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).random(size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(0.5)
        """
        single = np.dtype(dtype) == np.float32
        formula = "uniform_single" if single else "uniform"
        return self._placed("random", formula, (), size, chunks, dtype=np.dtype(dtype))

    def uniform(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return floats drawn evenly from `low` up to, without, `high`.

        Parameters
        ----------
        low
            The smallest value.
        high
            The bound above; it is not drawn.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).uniform(2, 4, size=10_000)
        >>> x.mean().compute().round()
        np.float64(3.0)
        """
        return self._placed(
            "uniform", "uniform", (low, high), size, chunks,
            lambda x, low, high: spread(x, low, high - low),
        )

    def standard_normal(
        self, size: Size = None, dtype: DTypeLike = np.float64, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of the normal distribution with mean 0 and standard deviation 1.

        Parameters
        ----------
        size, chunks
            Shape and chunks of the array; without a size it has no axes.
        dtype
            The type of the elements: float64 or float32.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).standard_normal(size=10_000)
        >>> x.std().compute().round(1)
        np.float64(1.0)
        """
        return self._placed(
            "standard_normal", "normal", (), size, chunks, dtype=np.dtype(dtype)
        )

    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of normal distributions.

        Parameters
        ----------
        loc
            The mean.
        scale
            The standard deviation.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).normal(10, 2, size=10_000)
        >>> x.mean().compute().round()
        np.float64(10.0)
        """
        return self._placed("normal", "normal", (loc, scale), size, chunks, spread)

    def standard_t(self, df: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of Student's t distributions.

        Parameters
        ----------
        df
            Degrees of freedom.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).standard_t(5, size=10_000)
        >>> x.std().compute().round(1)
        np.float64(1.3)
        """
        return self._gamma(
            "standard_t", (df,), size, chunks,
            lambda x, df: self.standard_normal(x.shape, chunks=x.chunks) * np.sqrt(df * 0.5 / x),
            part=0.5, least=1.0,
        )

    def standard_cauchy(self, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of the standard Cauchy distribution.

        Parameters
        ----------
        size, chunks
            Shape and chunks of the array; without a size it has no axes.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).standard_cauchy(size=10_000)
        >>> bool(abs(la.median(x).compute()) < 0.1)
        True
        """
        return self._placed("standard_cauchy", "cauchy", (), size, chunks)

    def laplace(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of Laplace distributions.

        Parameters
        ----------
        loc
            The mean.
        scale
            The mean distance from it.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).laplace(5, 1, size=10_000)
        >>> x.mean().compute().round()
        np.float64(5.0)
        """
        return self._placed("laplace", "laplace", (loc, scale), size, chunks, spread)

    def logistic(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of logistic distributions.

        Parameters
        ----------
        loc
            The mean.
        scale
            The width: the standard deviation is 1.81 times it.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).logistic(5, 1, size=10_000)
        >>> x.mean().compute().round()
        np.float64(5.0)
        """
        return self._placed("logistic", "logistic", (loc, scale), size, chunks, spread)

    def gumbel(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of Gumbel distributions, of largest values.

        Parameters
        ----------
        loc
            The most frequent value.
        scale
            The width: the standard deviation is 1.28 times it.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).gumbel(5, 1, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(5.6)
        """
        return self._placed("gumbel", "gumbel", (loc, scale), size, chunks, spread)

    def triangular(
        self, left: ArrayLike, mode: ArrayLike, right: ArrayLike, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of triangular distributions.

        Parameters
        ----------
        left
            The smallest value.
        mode
            The most frequent value.
        right
            The largest value.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).triangular(0, 1, 5, size=10_000)
        >>> x.mean().compute().round()
        np.float64(2.0)
        """
        return self._placed(
            "triangular", "uniform", (left, mode, right), size, chunks, _triangle
        )

    def vonmises(
        self, mu: ArrayLike, kappa: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return angles from -pi to pi of von Mises distributions, the normal ones of a circle.

        Parameters
        ----------
        mu
            The most frequent angle, in radians.
        kappa
            How narrow: 0 draws all angles alike.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).vonmises(1, 4, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(1.0)
        """
        return self._draw("vonmises", (mu, kappa), size, chunks)


def _triangle(x: Array, left: Any, mode: Any, right: Any) -> Any:
    width = right - left
    low, high = width * (mode - left), width * (right - mode)
    return np.where(
        x * width <= mode - left, left + np.sqrt(x * low), right - np.sqrt((1 - x) * high)
    )
