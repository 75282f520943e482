"""Reductions of nodes over axes, and the last steps of means and variances."""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lazyflow.array.kernels.program import Reduction
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reduce import Reduce
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view

# -- what makes results of merged partial results -----------------------------------------------


def _dividing(quiet: bool) -> Any:
    return np.errstate(divide="ignore", invalid="ignore") if quiet else np.errstate()


@dataclass(frozen=True)
class MeanOf:
    """Divides a sum by the number of elements.

    dtype, held
        Of the result; of the array that has the sum before, if another than it is made in: `out`.
    """

    count: int
    dtype: np.dtype[Any]
    held: np.dtype[Any] | None = None
    __name__ = "mean"

    def __call__(self, total: Any) -> Any:
        if self.count == 0:
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
        total = np.asarray(total).astype(self.held or total.dtype, copy=False)
        found = np.true_divide(total, np.intp(self.count))  # in the type that NumPy divides in
        return np.asarray(found).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class MeanOfTotals:
    """Divides sums by their counts, element by element.

    quiet
        What is divided by 0 is told by one warning, as in the versions that leave NaN out.
    dtype, held
        As of `MeanOf`.
    """

    quiet: bool
    dtype: np.dtype[Any]
    held: np.dtype[Any] | None = None
    __name__ = "divide"  # NumPy's warnings say so

    def __call__(self, total: Any, count: Any) -> Any:
        if np.any(count == 0):
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
        total = np.asarray(total).astype(self.held or total.dtype, copy=False)
        with _dividing(self.quiet):
            found = np.true_divide(total, count)
        return np.asarray(found).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class MeanOfMoments:
    """Takes the mean of moments."""

    dtype: np.dtype[Any]
    __name__ = "mean"

    def __call__(self, moments: Any) -> Any:
        count, mean, _ = moments
        if (count == 0).any():
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
            mean = np.where(count == 0, np.nan, mean)
        return np.asarray(mean).astype(self.dtype, copy=False)


@dataclass(frozen=True)
class VarOf:
    """Computes a variance, or its root, of moments.

    quiet
        What is divided by 0 is told by one warning, as in the versions that leave NaN out.
    """

    ddof: float
    root: bool
    quiet: bool
    dtype: np.dtype[Any]

    @property
    def __name__(self) -> str:
        return "std" if self.root else "var"

    def __call__(self, moments: Any) -> Any:
        count, _, squares = moments
        count = np.real(count)
        freedom = count - self.ddof
        if (freedom <= 0).any():
            words = "Degrees of freedom <= 0 for slice" + "." * self.quiet  # NumPy's
            warnings.warn(words, RuntimeWarning, stacklevel=2)
        squares = np.real(squares)
        if self.dtype.kind == "c":
            squares = squares.astype(self.dtype)
        with _dividing(self.quiet):
            found = squares / np.maximum(freedom, 0)
        if self.quiet:
            found = np.where(freedom <= 0, np.nan, found)
        # before the root: what overflows is infinite, as in NumPy
        found = np.asarray(found).astype(self.dtype, copy=False)
        return np.asarray(np.sqrt(found)).astype(self.dtype, copy=False) if self.root else found


@dataclass(frozen=True)
class VarOfTotals:
    """Computes what `VarOf` does of sums of squares and of how many they are."""

    of_moments: VarOf

    @property
    def __name__(self) -> str:
        return self.of_moments.__name__

    def __call__(self, squares: Any, count: Any) -> Any:
        return self.of_moments((count, None, squares))


# -- the common part ----------------------------------------------------------------------------


def reduced(
    node: Expr,
    kind: str,
    axis: Any,
    keepdims: Any,
    dtype: Any,
    result: Any = None,
    finish: Any = None,
    mask: Expr | None = None,
) -> Expr:
    """Return a reduction of a node over axes.

    dtype, result
        In which it is done, and of the result if `finish` makes another.
    """
    axes = axes_of(axis, node.ndim)
    dtype = np.dtype(dtype)
    whole = without_empty(node, axes)
    inputs = (whole,) if mask is None else (whole, rechunk(mask, whole.chunks))
    if axes or kind == "moments":
        made: Expr = Reduce(inputs, Reduction(kind, axes, dtype), finish, np.dtype(result or dtype))
    else:
        made = elementwise.cast(node, dtype)
        if kind == "sum" and dtype.kind in "fc":  # of which 0 + -0.0 is no negative zero
            (made,) = elementwise.ufunc(np.add, (made, elementwise.constant(0, dtype)))
        if finish is not None:
            made = elementwise.function(finish, (made,), result or dtype)
    if keeps(keepdims):
        return made
    kept = tuple([k for k in range(node.ndim) if k not in axes])
    picks = tuple([0 if k in axes else None for k in range(node.ndim)])
    return view(made, Selection(picks, kept))


def keeps(keepdims: Any) -> bool:
    """Tell whether a value of ``keepdims=`` means yes."""
    return keepdims is not np._NoValue and bool(keepdims)


def axis_of(axis: Any, ndim: int) -> int:
    """Return the number of an axis."""
    return normalize_axis_index(operator.index(axis), ndim)


def axes_of(axis: Any, ndim: int, as_1d: bool = True) -> tuple[int, ...]:
    """Return the numbers of axes to reduce, sorted; 0-d arrays take a number as 1-d ones do.

    as_1d
        False in means, variances and quantiles, which look for their axes themselves in NumPy.
    """
    if axis is None:
        return tuple(range(ndim))
    if ndim == 0 and as_1d and not isinstance(axis, tuple):
        axis_of(axis, 1)
        return ()
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def without_empty(node: Expr, axes: tuple[int, ...]) -> Expr:
    """Return a node without chunks of length 0 along axes that have others."""
    if not any(0 in node.chunks[axis] for axis in axes):
        return node
    return rechunk(node, tuple([
        tuple([n for n in sizes if n != 0]) or (0,) if axis in axes else sizes
        for axis, sizes in enumerate(node.chunks)
    ]))


def count_over(node: Expr, axes: tuple[int, ...]) -> int | None:
    """Return how many elements there are along axes; None: not known yet."""
    lengths: list[Any] = [node.shape[axis] for axis in axes]
    return None if None in lengths else prod(lengths)
