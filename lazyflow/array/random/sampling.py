"""Choices, permutations and draws that fill a row of an array."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.indexing.taking import take
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.random.distributions import Distributions
from lazyflow.array.random.generator import in_memory, probe, size_of
from lazyflow.array.random.streams import Correlated, Stream, Table, Values


class Sampling(Distributions):
    """Methods as those of ``np.random.Generator``."""

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0,
        shuffle: bool = True, *, chunks: Any = "auto",
    ) -> Array:
        """Return a sample of 0 ... a - 1 or of the elements of `a`, which is in memory.

        Without replacement it is drawn by one task, because each element depends on all others.
        """
        values: Any = None
        if not isinstance(a, int | np.integer):
            values = np.asarray(in_memory(a, "choice"))
        if values is not None and values.ndim == 0:
            values, a = None, operator.index(values[()])
        if values is not None and (values.ndim != 1 or axis not in (0, -1)):
            raise ValueError(
                f"choice() takes a number or elements along one axis; got an array of shape "
                f"{values.shape} and axis={axis}. Choose rows by x[rng.choice(len(x), n)]."
            )
        count = operator.index(a) if values is None else len(values)
        shape = size_of(size)
        # NumPy says what is wrong with these
        probe().choice(count, size=0 if replace and 0 in shape else 1, p=p)
        dtype = np.dtype(np.int64) if values is None else values.dtype
        if replace:
            weights = None if p is None else Values(_cumulated(p))
            table = Table(count, None if values is None else Values(values), weights)
            return self._made("choice", (table,), shape, dtype, chunks)
        if prod(shape) > count:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        sample = Sample("choice", self._next(), count if values is None else values, shape, {
            "replace": False, "p": p, "shuffle": shuffle,
        })
        return _one_task(sample, shape, dtype, chunks)

    def permutation(self, x: Any, axis: int = 0, *, chunks: Any = "auto") -> Array:
        """Return 0 ... x - 1, or what is along an axis of an array, in random order.

        The order of an array is drawn at once, when this is called.
        """
        if isinstance(x, int | np.integer):
            sample = Sample("permutation", self._next(), int(x), None, {})
            return _one_task(sample, (int(x),), np.dtype(np.int64), chunks)
        found = x if isinstance(x, Array) else Array(as_node(x))
        (axis,) = np.lib.array_utils.normalize_axis_tuple(axis, found.ndim)
        count = found.with_known_sizes().shape[axis]
        order = Sample("permutation", self._next(), count, None, {})()
        taken: Array = take(found, order, axis=axis)
        return taken

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Make an array be its permutation along an axis."""
        if not isinstance(x, Array):
            raise TypeError(
                f"shuffle() changes a chunked array in place; got a {type(x).__name__}. Use "
                "np.random for what is in memory, or permutation(x), which returns a new array."
            )
        x._expr = self.permutation(x, axis).expr

    def permuted(self, x: Any, *, axis: int | None = None) -> Array:
        """Return all elements of an array in random order: of one with one axis, or axis=None."""
        found = x if isinstance(x, Array) else Array(as_node(x))
        if axis is not None and found.ndim > 1:
            raise TypeError(
                "permuted() along one axis, each row in an order of its own, does not work on "
                "chunked arrays. For one order for all rows use permutation(x, axis)."
            )
        return self.permutation(found.ravel()).reshape(found.shape)

    def multinomial(
        self, n: Any, pvals: Any, size: Any = None, *, chunks: Any = "auto"
    ) -> Array:
        """Return how often each of several outcomes comes in `n` trials, on a new last axis."""
        n, pvals = operator.index(in_memory(n, "multinomial")), _vector(pvals, "multinomial")
        probe().multinomial(n, pvals.array, size=1)
        return self._rows("multinomial", (n, pvals), size, len(pvals.array), np.int64, chunks)

    def multivariate_hypergeometric(
        self, colors: Any, nsample: int, size: Any = None, method: Any = "marginals", *,
        chunks: Any = "auto",
    ) -> Array:
        """Return how many of each color a sample has, on a new last axis."""
        colors = _vector(colors, "multivariate_hypergeometric")
        probe().multivariate_hypergeometric(colors.array, nsample, size=1, method=method)
        return self._rows(
            "multivariate_hypergeometric", (colors, nsample), size, len(colors.array), np.int64,
            chunks, method=method,
        )

    def dirichlet(self, alpha: Any, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return draws of a Dirichlet distribution, on a new last axis."""
        alpha = _vector(alpha, "dirichlet")
        probe().dirichlet(alpha.array, size=1)
        return self._rows("dirichlet", (alpha,), size, len(alpha.array), np.float64, chunks)

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Any = None, check_valid: Any = "warn",
        tol: float = 1e-8, *, method: Any = "svd", chunks: Any = "auto",
    ) -> Array:
        """Return draws of a normal distribution of vectors, on a new last axis."""
        mean, cov = [np.asarray(in_memory(x, "multivariate_normal"), float) for x in (mean, cov)]
        probe().multivariate_normal(mean, cov, 1, check_valid, tol, method=method)
        of = Correlated(Values(mean), Values(_factor(cov, method)))
        return self._rows("multivariate_normal", (of,), size, len(mean), np.float64, chunks)

    def _rows(
        self, name: str, params: tuple[Any, ...], size: Any, width: int, dtype: Any,
        chunks: Any, /, **options: Any,
    ) -> Array:
        whole = tuple([Whole(p.array) if isinstance(p, Values) else p for p in params])
        return self._made(
            name, whole, (*size_of(size), width), dtype, chunks, 1, options
        )


class Whole(Values):
    """A parameter that every draw needs whole."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return Whole, (self.array,)

    def part(self, box: Any) -> np.ndarray[Any, Any]:
        return self.array


def _vector(value: Any, method: str) -> Values:
    array = np.asarray(in_memory(value, method))
    if array.ndim != 1:
        raise ValueError(
            f"{method}() of chunked arrays takes one vector of parameters; got shape {array.shape}"
        )
    return Values(array)


def _cumulated(p: Any) -> np.ndarray[Any, Any]:
    found = np.cumsum(np.asarray(p, dtype=float))
    return found / found[-1]


def _factor(cov: np.ndarray[Any, Any], method: str) -> np.ndarray[Any, Any]:
    """Return a matrix that makes vectors of this covariance of independent ones, as NumPy's."""
    if method == "cholesky":
        return np.linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = np.linalg.eigh(cov)
        return vectors * np.sqrt(np.abs(values))
    left, values, _ = np.linalg.svd(cov)
    return left * np.sqrt(values)


class Sample:
    """A sample that one task draws."""

    def __init__(
        self, method: str, stream: Stream, of: Any, size: Any, options: dict[str, Any]
    ) -> None:
        self.__name__ = method
        self.stream = stream
        self.of = np.array(of) if isinstance(of, np.ndarray) else of
        self.size = size
        self.options = options if size is None else {**options, "size": size}

    def __call__(self) -> np.ndarray[Any, Any]:
        generator = self.stream.generators()(0)
        return np.asarray(getattr(generator, self.__name__)(self.of, **self.options))


def _one_task(sample: Sample, shape: tuple[int, ...], dtype: Any, chunks: Any) -> Array:
    sizes = normalize_chunks(chunks, shape, None, dtype)
    source = Tasks((), dtype, ())
    task = Lowering().task(sample, (), source)
    whole = Array(Tasks([task], dtype, tuple([(n,) for n in shape])))
    return whole.rechunk(sizes) if shape else whole
