"""The distributions of `Generator` of which each element is drawn for itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.random.generator import Streams


class Distributions(Streams):
    """Methods as those of ``np.random.Generator``: parameters are numbers or NumPy arrays."""

    def random(self, size: Any = None, dtype: Any = np.float64, *, chunks: Any = "auto") -> Array:
        """Return floats from 0 up to, without, 1."""
        return self._draw("random", (), size, chunks, dtype=np.dtype(dtype))

    def standard_normal(
        self, size: Any = None, dtype: Any = np.float64, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of the standard normal distribution."""
        return self._draw("standard_normal", (), size, chunks, dtype=np.dtype(dtype))

    def normal(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of normal distributions."""
        return self._draw("normal", (loc, scale), size, chunks)

    def uniform(
        self, low: Any = 0.0, high: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return floats from `low` up to, without, `high`."""
        return self._draw("uniform", (low, high), size, chunks)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", *,
        chunks: Any = "auto",
    ) -> Array:
        """Return draws of the exponential distribution with mean 1."""
        return self._draw(
            "standard_exponential", (), size, chunks, dtype=np.dtype(dtype), method=method
        )

    def exponential(self, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of exponential distributions with mean `scale`."""
        return self._draw("exponential", (scale,), size, chunks)

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = np.float64, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of gamma distributions with scale 1."""
        return self._draw("standard_gamma", (shape,), size, chunks, dtype=np.dtype(dtype))

    def gamma(
        self, shape: Any, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of gamma distributions."""
        return self._draw("gamma", (shape, scale), size, chunks)

    def beta(self, a: Any, b: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of beta distributions."""
        return self._draw("beta", (a, b), size, chunks)

    def binomial(self, n: Any, p: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return how many of `n` trials succeed."""
        return self._draw("binomial", (n, p), size, chunks)

    def negative_binomial(self, n: Any, p: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return how many trials fail before `n` succeed."""
        return self._draw("negative_binomial", (n, p), size, chunks)

    def geometric(self, p: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return how many trials it takes until one succeeds."""
        return self._draw("geometric", (p,), size, chunks)

    def hypergeometric(
        self, ngood: Any, nbad: Any, nsample: Any, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return how many of a sample are good."""
        return self._draw("hypergeometric", (ngood, nbad, nsample), size, chunks)

    def poisson(self, lam: Any = 1.0, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Poisson distributions."""
        return self._draw("poisson", (lam,), size, chunks)

    def logseries(self, p: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of logarithmic series distributions."""
        return self._draw("logseries", (p,), size, chunks)

    def zipf(self, a: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Zipf distributions."""
        return self._draw("zipf", (a,), size, chunks)

    def chisquare(self, df: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of chi-square distributions."""
        return self._draw("chisquare", (df,), size, chunks)

    def noncentral_chisquare(
        self, df: Any, nonc: Any, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of noncentral chi-square distributions."""
        return self._draw("noncentral_chisquare", (df, nonc), size, chunks)

    def f(self, dfnum: Any, dfden: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of F distributions."""
        return self._draw("f", (dfnum, dfden), size, chunks)

    def noncentral_f(
        self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of noncentral F distributions."""
        return self._draw("noncentral_f", (dfnum, dfden, nonc), size, chunks)

    def standard_t(self, df: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Student's t distributions."""
        return self._draw("standard_t", (df,), size, chunks)

    def standard_cauchy(self, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of the standard Cauchy distribution."""
        return self._draw("standard_cauchy", (), size, chunks)

    def lognormal(
        self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of log-normal distributions."""
        return self._draw("lognormal", (mean, sigma), size, chunks)

    def laplace(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of Laplace distributions."""
        return self._draw("laplace", (loc, scale), size, chunks)

    def logistic(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of logistic distributions."""
        return self._draw("logistic", (loc, scale), size, chunks)

    def gumbel(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of Gumbel distributions."""
        return self._draw("gumbel", (loc, scale), size, chunks)

    def rayleigh(self, scale: Any = 1.0, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Rayleigh distributions."""
        return self._draw("rayleigh", (scale,), size, chunks)

    def weibull(self, a: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Weibull distributions."""
        return self._draw("weibull", (a,), size, chunks)

    def pareto(self, a: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Pareto II (Lomax) distributions."""
        return self._draw("pareto", (a,), size, chunks)

    def power(self, a: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws from 0 to 1 with density ``a * x**(a - 1)``."""
        return self._draw("power", (a,), size, chunks)

    def wald(self, mean: Any, scale: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of Wald (inverse Gaussian) distributions."""
        return self._draw("wald", (mean, scale), size, chunks)

    def triangular(
        self, left: Any, mode: Any, right: Any, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return draws of triangular distributions."""
        return self._draw("triangular", (left, mode, right), size, chunks)

    def vonmises(self, mu: Any, kappa: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return angles of von Mises distributions."""
        return self._draw("vonmises", (mu, kappa), size, chunks)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64,
        endpoint: bool = False, *, chunks: Any = "auto",
    ) -> Array:
        """Return integers from `low` (0, if only one is given) up to `high`, without it or with."""
        if high is None:
            low, high = 0, low
        return self._draw(
            "integers", (low, high), size, chunks, dtype=np.dtype(dtype), endpoint=bool(endpoint)
        )
