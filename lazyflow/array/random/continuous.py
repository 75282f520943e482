"""Distributions of floats: of both signs or between bounds, then of positive ones.

Most methods transform an array of uniform, normal or exponential draws element by element
(`_placed`), so a task can make any region of the result by itself. Gamma draws, and beta, chisquare
and standard_t, which are made of them, do so for a number as first parameter that is large enough
(`_gamma`). NumPy's generators draw all others in boxes (generator.py): vonmises, f, the noncentral
ones, and gammas whose first parameter is an array. NumPy's own errors and dtypes hold, but the
values differ from those of ``np.random.Generator`` with the same seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, ChunksLike, DTypeLike
from lazyflow.array.random.generator import Size, Streams, spread


class Continuous(Streams):
    """Distributions of floats, as of ``np.random.Generator``."""

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

    # -- of positive numbers ---------------------------------------------------------------------

    def standard_exponential(
        self, size: Size = None, dtype: DTypeLike = np.float64, method: str = "zig",
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of the exponential distribution with mean 1.

        Parameters
        ----------
        size, chunks
            Shape and chunks of the array; without a size it has no axes.
        dtype
            The type of the elements: float64 or float32.
        method
            "zig" or "inv", as in NumPy. Both give the same draws here.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).standard_exponential(size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(1.0)
        """
        return self._placed(
            "standard_exponential", "exponential", (), size, chunks, dtype=np.dtype(dtype),
            method=method,
        )

    def exponential(
        self, scale: ArrayLike = 1.0, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of exponential distributions: of waiting times.

        Parameters
        ----------
        scale
            The mean.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).exponential(2, size=10_000)
        >>> x.mean().compute().round()
        np.float64(2.0)
        """
        return self._placed(
            "exponential", "exponential", (scale,), size, chunks,
            lambda x, scale: spread(x, 0.0, scale),
        )

    def standard_gamma(
        self, shape: ArrayLike, size: Size = None, dtype: DTypeLike = np.float64,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of gamma distributions with scale 1.

        Parameters
        ----------
        shape
            The shape of the distribution, and its mean.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.
        dtype
            The type of the elements: float64 or float32.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).standard_gamma(3, size=10_000)
        >>> x.mean().compute().round()
        np.float64(3.0)
        """
        return self._gamma(
            "standard_gamma", (shape,), size, chunks, lambda x, shape: x, dtype=np.dtype(dtype)
        )

    def gamma(
        self, shape: ArrayLike, scale: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of gamma distributions.

        Parameters
        ----------
        shape
            The shape of the distribution.
        scale
            The mean divided by the shape.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).gamma(3, 2, size=10_000)
        >>> x.mean().compute().round()
        np.float64(6.0)
        """
        return self._gamma(
            "gamma", (shape, scale), size, chunks, lambda x, shape, scale: spread(x, 0.0, scale)
        )

    def beta(
        self, a: ArrayLike, b: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws from 0 to 1 with a density of ``x**(a - 1) * (1 - x)**(b - 1)``.

        Parameters
        ----------
        a
            The first exponent, plus 1.
        b
            The second exponent, plus 1.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).beta(2, 2, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(0.5)
        """
        return self._gamma(
            "beta", (a, b), size, chunks,
            lambda x, a, b: x / (x + self.standard_gamma(b, x.shape, chunks=x.chunks)), least=1.0,
        )

    def chisquare(self, df: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of chi-square distributions.

        Parameters
        ----------
        df
            Degrees of freedom, and the mean.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).chisquare(3, size=10_000)
        >>> x.mean().compute().round()
        np.float64(3.0)
        """
        return self._gamma("chisquare", (df,), size, chunks, lambda x, df: x * 2.0, 0.5)

    def noncentral_chisquare(
        self, df: ArrayLike, nonc: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of noncentral chi-square distributions.

        Parameters
        ----------
        df
            Degrees of freedom.
        nonc
            The distance of the mean from `df`.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).noncentral_chisquare(3, 2, size=10_000)
        >>> x.mean().compute().round()
        np.float64(5.0)
        """
        return self._draw("noncentral_chisquare", (df, nonc), size, chunks)

    def f(
        self, dfnum: ArrayLike, dfden: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of F distributions.

        Parameters
        ----------
        dfnum
            Degrees of freedom of the numerator.
        dfden
            Degrees of freedom of the denominator.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).f(5, 20, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(1.1)
        """
        return self._draw("f", (dfnum, dfden), size, chunks)

    def noncentral_f(
        self, dfnum: ArrayLike, dfden: ArrayLike, nonc: ArrayLike, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of noncentral F distributions.

        Parameters
        ----------
        dfnum
            Degrees of freedom of the numerator.
        dfden
            Degrees of freedom of the denominator.
        nonc
            The noncentrality of the numerator.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).noncentral_f(5, 20, 1, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(1.3)
        """
        return self._draw("noncentral_f", (dfnum, dfden, nonc), size, chunks)

    def lognormal(
        self, mean: ArrayLike = 0.0, sigma: ArrayLike = 1.0, size: Size = None,
        *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws whose logarithms are normally distributed.

        Parameters
        ----------
        mean
            The mean of the logarithms.
        sigma
            The standard deviation of the logarithms.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).lognormal(1, 0.5, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(3.1)
        """
        return self._placed(
            "lognormal", "normal", (mean, sigma), size, chunks,
            lambda x, mean, sigma: np.exp(spread(x, mean, sigma)),
        )

    def rayleigh(
        self, scale: ArrayLike = 1.0, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of Rayleigh distributions.

        Parameters
        ----------
        scale
            The most frequent value.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).rayleigh(2, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(2.5)
        """
        return self._placed(
            "rayleigh", "exponential", (scale,), size, chunks,
            lambda x, scale: np.sqrt(x * 2) * scale,
        )

    def weibull(self, a: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of Weibull distributions with scale 1.

        Parameters
        ----------
        a
            The shape of the distribution.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).weibull(1.5, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(0.9)
        """
        return self._placed(
            "weibull", "exponential", (a,), size, chunks,
            lambda x, a: np.where(a == 0, 0.0, x ** (1 / np.where(a == 0, 1.0, a))),
        )

    def pareto(self, a: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws of Pareto II (Lomax) distributions.

        Parameters
        ----------
        a
            The shape of the distribution: larger ones have fewer large draws.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).pareto(3, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(0.5)
        """
        return self._placed(
            "pareto", "exponential", (a,), size, chunks,
            lambda x, a: np.expm1(x / a),
        )

    def power(self, a: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return draws from 0 to 1 with a density of ``a * x**(a - 1)``.

        Parameters
        ----------
        a
            The exponent, plus 1.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).power(1, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(0.5)
        """
        return self._placed(
            "power", "inside", (a,), size, chunks,
            lambda x, a: x ** np.true_divide(1, a),
        )

    def wald(
        self, mean: ArrayLike, scale: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of Wald (inverse Gaussian) distributions.

        Parameters
        ----------
        mean
            The mean.
        scale
            The shape of the distribution: larger ones are narrower.
        size, chunks
            Shape and chunks of the array; without a size, the shape of the parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).wald(2, 3, size=10_000)
        >>> x.mean().compute().round(1)
        np.float64(2.0)
        """
        def of_normal(x: Any, mean: Any, scale: Any) -> Any:  # Michael, Schucany and Haas (1976)
            ratio = 4 * scale / (mean * x * x)
            low = mean * ratio / np.square(np.sqrt(ratio + 1) + 1)
            which = self.random(x.shape, chunks=x.chunks) * (mean + low) <= mean
            return np.where(which, low, mean * mean / low)

        return self._placed("wald", "normal", (mean, scale), size, chunks, of_normal)


def _triangle(x: Array, left: Any, mode: Any, right: Any) -> Any:
    width = right - left
    low, high = width * (mode - left), width * (right - mode)
    return np.where(
        x * width <= mode - left, left + np.sqrt(x * low), right - np.sqrt((1 - x) * high)
    )
