"""Choices, permutations, and draws of vectors, one in each row of an array.

A row of `multinomial`, `dirichlet` and their like is one draw, which a task makes whole even if it
needs a part. Choices with replacement of a number or a list are functions of their place, like
other draws: a task makes any region. Those of chunked arrays take elements at places drawn at the
call. Without replacement each element depends on all others, and one task draws the sample with
NumPy's generator before it is cut into chunks; so it does for the permutation of a length. The
order of a permuted array is drawn at the call and held in memory; its elements are gathered lazily.
`permuted` along an axis sorts random keys instead, so that each row gets an order of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, ChunksLike, as_array
from lazyflow.array.functions.indexing.taking import take
from lazyflow.array.functions.sorting import argsort, take_along_axis
from lazyflow.array.kernels.draws.draw import table
from lazyflow.array.nodes.indexing.gather import gather
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Generated, TaskBlocks
from lazyflow.array.random.discrete import Discrete
from lazyflow.array.random.generator import (
    Correlated,
    Size,
    Stream,
    Values,
    in_memory,
    probe,
    size_of,
)

Floats = Sequence[float] | np.ndarray[Any, Any] | Array
Validity = Literal["warn", "raise", "ignore"]
Factoring = Literal["svd", "eigh", "cholesky"]


class Sampling(Discrete):
    """Choices, permutations and vectors, as of ``np.random.Generator``."""

    def choice(
        self, a: ArrayLike, size: Size = None, replace: bool = True, p: Floats | None = None,
        axis: int = 0, shuffle: bool = True, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return a sample of 0 ... a - 1 or of the elements of `a`.

        Parameters
        ----------
        a
            The number of elements to choose from, or the elements. For a chunked array, or one of
            several axes, places along `axis` are drawn when this is called; their elements are
            taken block by block.
        size, chunks
            Shape and chunks of the array; without a size one element, or row, is chosen.
        replace
            An element may be chosen again. Otherwise one task draws the sample, because each
            element depends on all others.
        p
            The probability of each element; without it, all are alike. A chunked array is computed
            when this is called.
        axis
            The axis of the choice.
        shuffle
            A sample without replacement is in random order.

        Raises
        ------
        AxisError
            `a` has one axis, and `axis` is another.
        TypeError
            `a` is lazy, and no chunked array.
        ValueError
            There is nothing to choose of, `p` is no list of probabilities of it, or too few
            elements for a sample without replacement.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).choice(["a", "b"], size=1000, p=[0.9, 0.1], chunks=100)
        >>> bool((x == "a").sum() > 800)
        True
        """
        if isinstance(p, Array):
            p = p.compute()
        if isinstance(a, Array) or np.ndim(in_memory(a, "choice")) > 1:
            x = as_array(a).with_known_sizes()
            (axis,) = np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
            at = self.choice(x.shape[axis], size, replace, p, shuffle=shuffle).compute()
            chosen = take(x, at, axis)
            return chosen if chunks == "auto" else chosen.rechunk(chunks)
        values: Any = None
        number: Any = a
        if not isinstance(a, int | np.integer):
            values = np.asarray(in_memory(a, "choice"))
        if values is not None and values.ndim == 0:
            values, number = None, operator.index(values[()])
        if values is not None and axis not in (0, -1):
            raise np.exceptions.AxisError(axis, 1)
        count = operator.index(number) if values is None else len(values)
        shape = size_of(size)
        # NumPy checks these
        probe().choice(count, size=0 if replace and 0 in shape else 1, p=p)
        dtype = np.dtype(np.int64) if values is None else values.dtype
        if replace:
            sizes = normalize_chunks(chunks, shape, None, dtype)
            if p is None:
                x = self.integers(max(count, 1), size=shape, chunks=sizes)
            else:
                x = self._by_place("choice", "listed", np.int64, shape, sizes, table(p))
            if values is None:
                return x
            places: Any = x.expr
            return Array(Generated(Chosen(places.formula, Values(values)), dtype, sizes))
        if prod(shape) > count:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        sample = Sample("choice", self._next(), count if values is None else values, shape, {
            "replace": False, "p": p, "shuffle": shuffle,
        })
        return _one_task(sample, shape, dtype, chunks)

    def permutation(
        self, x: int | ArrayLike, axis: int = 0, *, chunks: ChunksLike = "auto"
    ) -> Array:
        """Return 0 ... x - 1, or an array along an axis, in random order.

        The order of an array is drawn at once, when this is called.

        Parameters
        ----------
        x
            A length, or an array.
        axis
            The axis of the array along which it is put in random order.
        chunks
            Chunks of the result when `x` is a length.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.sort(la.random.default_rng(0).permutation(4)).compute()
        array([0, 1, 2, 3])
        """
        if isinstance(x, int | np.integer):
            sample = Sample("permutation", self._next(), int(x), None, {})
            return _one_task(sample, (int(x),), np.dtype(np.int64), chunks)
        found = as_array(x).with_known_sizes()
        (axis,) = np.lib.array_utils.normalize_axis_tuple(axis, found.ndim)
        order = Sample("permutation", self._next(), found.shape[axis], None, {})()
        return Array(gather(found.expr, (axis,), (order,)))

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Put a chunked array in random order along an axis, in place.

        Parameters
        ----------
        x
            The array, which gets another expression.
        axis
            The axis.

        Raises
        ------
        TypeError
            `x` is no chunked array.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.arange(4, chunks=2)
        >>> la.random.default_rng(0).shuffle(x)
        >>> la.sort(x).compute()
        array([0, 1, 2, 3])
        """
        if not isinstance(x, Array):
            raise TypeError(
                f"shuffle() changes a chunked array in place; got a {type(x).__name__}. Use "
                "np.random for arrays in memory, or permutation(x), which returns a new array."
            )
        x._expr = self.permutation(x, axis).expr

    def permuted(self, x: ArrayLike, *, axis: int | None = None) -> Array:
        """Return all elements of an array in random order, or those of each row along an axis.

        Parameters
        ----------
        x
            The array.
        axis
            Along which each row gets an order of its own, by sorting as many random numbers; it
            becomes one chunk. None: all elements are put in one order.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.random.default_rng(0).permuted(la.ones((2, 3), chunks=2)).shape
        (2, 3)
        """
        found = as_array(x).with_known_sizes()
        if axis is not None:
            keys = self.random(found.shape, chunks=found.chunks)
            return take_along_axis(found, argsort(keys, axis), axis)
        return self.permutation(found.ravel()).reshape(found.shape)

    def multinomial(
        self, n: int, pvals: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto"
    ) -> Array:
        """Return how often each of several outcomes comes in `n` trials, on a new last axis.

        Parameters
        ----------
        n
            How many trials there are.
        pvals
            The probability of each outcome.
        size, chunks
            Shape without the last axis, and chunks.

        Raises
        ------
        ValueError
            `pvals` are no probabilities, or have several axes.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).multinomial(20, [0.2, 0.5, 0.3], size=2)
        >>> x.shape, x.sum(axis=1).compute()
        ((2, 3), array([20, 20]))
        """
        count, each = operator.index(in_memory(n, "multinomial")), _vector(pvals, "multinomial")
        probe().multinomial(count, each.array, size=1)
        return self._rows("multinomial", (count, each), size, len(each.array), np.int64, chunks)

    def multivariate_hypergeometric(
        self, colors: ArrayLike, nsample: int, size: Size = None,
        method: Literal["marginals", "count"] = "marginals", *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return how many things of each color a sample has, on a new last axis.

        Parameters
        ----------
        colors
            How many things of each color there are.
        nsample
            How many are drawn, without replacement.
        size, chunks
            Shape without the last axis, and chunks.
        method
            "marginals" or "count", which is faster for few things.

        Raises
        ------
        ValueError
            `colors` are negative, have several axes, or are fewer than `nsample`.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).multivariate_hypergeometric([5, 10, 15], 8, size=2)
        >>> x.shape, x.sum(axis=1).compute()
        ((2, 3), array([8, 8]))
        """
        each = _vector(colors, "multivariate_hypergeometric")
        probe().multivariate_hypergeometric(each.array, nsample, size=1, method=method)
        return self._rows(
            "multivariate_hypergeometric", (each, nsample), size, len(each.array), np.int64,
            chunks, method=method,
        )

    def dirichlet(
        self, alpha: ArrayLike, size: Size = None, *, chunks: ChunksLike = "auto"
    ) -> Array:
        """Return draws of a Dirichlet distribution, on a new last axis: shares of a whole.

        Parameters
        ----------
        alpha
            The concentration of each share.
        size, chunks
            Shape without the last axis, and chunks.

        Raises
        ------
        ValueError
            `alpha` is negative, or has several axes.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).dirichlet([1, 2, 3], size=2)
        >>> x.shape, x.sum(axis=1).compute().round(6)
        ((2, 3), array([1., 1.]))
        """
        each = _vector(alpha, "dirichlet")
        probe().dirichlet(each.array, size=1)
        return self._rows("dirichlet", (each,), size, len(each.array), np.float64, chunks)

    def multivariate_normal(
        self, mean: ArrayLike, cov: ArrayLike, size: Size = None, check_valid: Validity = "warn",
        tol: float = 1e-8, *, method: Factoring = "svd", chunks: ChunksLike = "auto",
    ) -> Array:
        """Return draws of a normal distribution of vectors, on a new last axis.

        Parameters
        ----------
        mean
            The mean of each element of a vector.
        cov
            The covariance matrix.
        size, chunks
            Shape without the last axis, and chunks.
        check_valid
            "warn", "raise" or "ignore" a matrix that no covariance can be.
        tol
            How far from symmetric and positive a matrix may be.
        method
            How the matrix is factored: "svd", "eigh" or "cholesky".

        Raises
        ------
        ValueError
            `mean` is no vector, or `cov` no square matrix of its length.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.default_rng(0).multivariate_normal([1, 5], [[2, 0], [0, 1]], size=9999)
        >>> x.mean(axis=0).compute().round()
        array([1., 5.])
        """
        center, matrix = [
            np.asarray(in_memory(x, "multivariate_normal"), float) for x in (mean, cov)
        ]
        probe().multivariate_normal(center, matrix, 1, check_valid, tol, method=method)
        of = Correlated(Values(center), Values(_factor(matrix, method)))
        return self._rows("multivariate_normal", (of,), size, len(center), np.float64, chunks)

    def _rows(
        self, name: str, params: tuple[Any, ...], size: Size, width: int, dtype: Any,
        chunks: ChunksLike, /, **options: Any,
    ) -> Array:
        shape = size_of(size)
        if isinstance(chunks, Sequence) and not isinstance(chunks, str) and (
            len(chunks) == len(shape)
        ):
            chunks = (*chunks, -1)  # they are of `size`
        return self._made(name, params, (*shape, width), dtype, chunks, 1, options)


def _vector(value: Any, method: str) -> Values:
    array = np.asarray(in_memory(value, method))
    if array.ndim != 1:
        raise ValueError(
            f"{method}() of chunked arrays takes one vector of parameters; got shape {array.shape}"
        )
    return Values(array)


@dataclass(frozen=True)
class Chosen:
    """Elements of an array, at places that are drawn."""

    places: Any
    values: Values
    takes_out = True
    __name__ = "choice"

    def __call__(self, region: Any, out: Any = None) -> np.ndarray[Any, Any]:
        # no place is outside, but with other modes NumPy writes to another array first
        return self.values.array.take(self.places(region), out=out, mode="clip")


def _factor(cov: np.ndarray[Any, Any], method: str) -> np.ndarray[Any, Any]:
    """Return the matrix that gives independent vectors this covariance, as NumPy computes it."""
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
    source = TaskBlocks((), dtype, ())
    task = Lowering().task(sample, (), source)
    whole = Array(TaskBlocks([task], dtype, tuple([(n,) for n in shape])))
    return whole.rechunk(sizes) if shape else whole
