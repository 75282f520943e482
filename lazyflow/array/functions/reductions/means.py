"""Means, variances and standard deviations.

A mean is a sum divided by a count; if the number of elements is unknown, it is counted, or each
block gives its moments. Variances read the data once: each block gives its count, mean and sum of
squared distances, and neighbours are merged. Only a variance with ``dtype=`` a type of whole
numbers takes two passes, as NumPy cuts the mean off there. float16 is summed as float32. Objects go
to NumPy's function along axes in one chunk. Higher moments subtract the mean first, so they read
the data twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    MISSING,
    ArrayLike,
    Axes,
    DTypeLike,
    as_array,
    as_result,
    broadcast_node,
    check_out,
    node_and_mask,
    out_dtype,
)
from lazyflow.array.functions.reductions.totals import dtype_of_time, is_objects, of_objects, sum
from lazyflow.array.kernels.order import MOMENTS, SUM
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    MeanOf,
    MeanOfMoments,
    VarOf,
    axes_of,
    count_over,
    parts_at_once,
    reduced,
    takes_split_every,
)
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view


def _mean_dtypes(node: Expr, dtype: Any, function: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes of a mean's sum and of its result."""
    of_time = dtype_of_time(function, node, dtype)
    if of_time is not None:
        return of_time, of_time
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if node.dtype.kind in "SUV":
        function(np.zeros(1, node.dtype))  # refuses, in its words
    if node.dtype.kind in "biu":
        return np.dtype(float), np.dtype(float)
    if node.dtype == np.float16:
        return np.dtype(np.float32), np.dtype(np.float16)
    native = node.dtype.newbyteorder("=")
    return native, native


@takes_split_every
def mean(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, *, where: ArrayLike = True
) -> Array:
    """Return the mean over axes; parameters are those of ``np.mean``.

    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=4).reshape(2, 3)
    >>> x.mean().compute(), la.mean(x, axis=0).compute()
    (np.float64(2.5), array([1.5, 2.5, 3.5]))
    """
    if is_objects(a, dtype):
        axes_of(axis, as_node(a).ndim, as_1d=where is not True)
        return of_objects(np.mean, a, axis, out, keepdims, where)
    node, mask = node_and_mask(a, where)
    return as_result(mean_of(node, mask, axis, dtype, keepdims, out=out), out, "unsafe")


def mean_of(
    node: Expr, mask: Expr | None, axis: Any, dtype: Any, keepdims: Any, quiet: bool = False,
    out: Any = None,
) -> Expr:
    """Return the mean of what counts of a node; `quiet` as of `MeanOf`.

    out
        Where it will be: as in NumPy, the sum is in it before it is divided.
    """
    axes_of(axis, node.ndim, as_1d=mask is not None)
    check_out(np.nanmean if quiet else np.mean, node.dtype, out, dtype=dtype)
    inner, result = _mean_dtypes(node, dtype, np.mean)
    held = out_dtype(out)
    result = held or result
    many = count_over(node, axes_of(axis, node.ndim))
    counted = mask
    if mask is not None:
        node = elementwise.where(mask, node, constant(0, node.dtype))
    elif many is None and (inner.kind not in "fc" or held is not None):  # which are no moments
        counted = broadcast_node(constant(1, int), node.shape)
    if counted is not None:
        total = reduced(node, SUM, axis, keepdims, inner)
        count = reduced(counted, SUM, axis, keepdims, int)
        return elementwise.function(MeanOf(result, held, None, quiet), (total, count), result)
    if many is None:
        return reduced(node, MOMENTS, axis, keepdims, inner, result, MeanOfMoments(result))
    return reduced(node, SUM, axis, keepdims, inner, result, MeanOf(result, held, many))


@dataclass(frozen=True)
class SpreadOfMoments:
    """A variance, or its root, of moments; without warnings, as it is masked if there is none."""

    ddof: float
    root: bool
    dtype: Any

    @property
    def __name__(self) -> str:
        return "std" if self.root else "var"

    def __call__(self, moments: Any) -> Any:
        count, _, squares = map(np.real, moments)
        found = squares / np.where(count > self.ddof, count - self.ddof, 1)
        return np.asarray(np.sqrt(found) if self.root else found).astype(self.dtype, copy=False)


#: NumPy's functions by whether the root is taken, and NaN are left out.
_SPREADS = {
    (False, False): np.var, (True, False): np.std,
    (False, True): np.nanvar, (True, True): np.nanstd,
}


def variance_of(
    a: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, root: bool,
    correction: Any, mask: Expr | None = None, quiet: bool = False,
) -> Array:
    """Return a variance or its root; `mask` tells which elements count, `quiet` as of `VarOf`."""
    if correction is not MISSING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    if is_objects(a, dtype):
        func = _SPREADS[root, quiet]
        return of_objects(func, a, axis, out, keepdims, where, ddof=ddof)
    node, given = node_and_mask(a, where)
    mask = given if mask is None else mask
    axes_of(axis, node.ndim, as_1d=mask is not None)
    check_out(_SPREADS[root, quiet], node.dtype, out, dtype=dtype)
    inner, result = _mean_dtypes(node, dtype, np.var)
    if result.kind == "c" and dtype is None:
        result = np.dtype(f"f{result.itemsize // 2}")
    result = out_dtype(out) or result
    if inner.kind in "biu":
        finish = VarOf(ddof, root, quiet, result)
        made = _in_whole_numbers(node, mask, axis, inner, keepdims, finish)
        if root and out is None and made.ndim:  # NumPy refuses these roots, but of one number
            check_out(_SPREADS[root, quiet], node.dtype, np.empty((), inner), dtype=dtype)
        return as_result(made, out, "unsafe")
    if inner.kind == "f" and node.dtype.kind in "iuf":  # elements that a smaller type does not have
        inner = np.result_type(inner, node.dtype)
    finish = VarOf(ddof, root, quiet, result)
    made = reduced(node, MOMENTS, axis, keepdims, inner, result, finish, mask)
    return as_result(made, out, "unsafe")


def _in_whole_numbers(
    node: Expr, mask: Expr | None, axis: Any, dtype: np.dtype[Any], keepdims: Any, finish: VarOf
) -> Expr:
    """Return a variance whose sums are whole numbers: NumPy cuts the mean, too, in two passes."""
    (away,) = elementwise.ufunc(np.subtract, (node, mean_of(node, mask, axis, dtype, True)))
    (squares,) = elementwise.ufunc(np.multiply, (away, elementwise.ufunc(np.conjugate, (away,))[0]))
    if squares.dtype.kind == "c":
        squares = elementwise.function(np.real, (squares,), np.empty(0, squares.dtype).real.dtype)
    counted = broadcast_node(constant(True), node.shape) if mask is None else mask
    if mask is not None:
        squares = elementwise.where(mask, squares, constant(0, squares.dtype))
    total = reduced(squares, SUM, axis, keepdims, dtype)
    count = reduced(counted, SUM, axis, keepdims, int)
    return elementwise.function(finish, (total, count), finish.dtype)


@takes_split_every
def var(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    ddof: float = 0, keepdims: bool = False, *, where: ArrayLike = True, correction: Any = MISSING
) -> Array:
    """Return the variance over axes; parameters are those of ``np.var``.

    Each block gives its number of elements, their mean and their squared distances from it; these
    are merged by the formula of Chan, Golub and LeVeque (1983): a large mean costs few digits. The
    method ``x.var()`` takes ``correction=`` too, as in the Array API.

    Raises
    ------
    ValueError
        Both `ddof` and `correction` are given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.var(la.arange(5, chunks=2)).compute()
    np.float64(2.0)
    """
    return variance_of(a, axis, dtype, out, ddof, keepdims, where, False, correction)


@takes_split_every
def std(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    ddof: float = 0, keepdims: bool = False, *, where: ArrayLike = True, correction: Any = MISSING
) -> Array:
    """Return the standard deviation over axes; parameters are those of `var`.

    Raises
    ------
    ValueError
        Both `ddof` and `correction` are given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.std(la.asarray([2.0, 4.0, 4.0, 6.0]), ddof=1).compute().round(3)
    np.float64(1.633)
    """
    return variance_of(a, axis, dtype, out, ddof, keepdims, where, True, correction)


def moment(
    a: ArrayLike, order: int, axis: Axes = None, dtype: DTypeLike | None = None,
    keepdims: bool = False, ddof: float = 0, split_every: Any = None, out: Array | None = None,
) -> Array:
    """Return a central moment over axes: the mean of the differences to the mean to some power.

    Parameters
    ----------
    order
        The power, 0 or more.
    ddof
        The sum is divided by how many elements there are, without `ddof`.
    a, axis, dtype, keepdims, out
        As of `var`, which is the moment of order 2.
    split_every
        How many neighbours are merged at a time; no value depends on it.

    Raises
    ------
    ValueError
        `order` is negative, or no whole number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.moment(la.from_array([0.0, 0.0, 0.0, 4.0], chunks=2), 3).compute()
    np.float64(6.0)
    """
    if not isinstance(order, int | np.integer) or order < 0:
        raise ValueError("Order must be an integer >= 0")
    parts_at_once(split_every)
    x = as_array(a)
    inner = np.dtype(dtype) if dtype is not None else _mean_dtypes(x.expr, None, np.mean)[0]
    result = np.dtype(dtype) if dtype is not None else _mean_dtypes(x.expr, None, np.mean)[1]
    apart: Any = x.astype(inner)
    if order < 2:
        parts = Array(broadcast_node(constant(1 - order, inner), x.shape))
        return as_result(mean(parts, axis, keepdims=keepdims).expr, out)
    apart = apart - mean(apart, axis, keepdims=True)
    total: Any = sum(apart ** int(order), axis, keepdims=keepdims)
    resolve_lengths(x)
    count: Any = count_over(x.expr, axes_of(axis, x.ndim))
    return as_result((total / max(count - ddof, 0)).astype(result).expr, out)


def spread_weights(weights: Expr, node: Expr, axis: Any) -> Expr:
    """Return weights, of the elements or of their places along axes, so that they broadcast."""
    if weights.shape == node.shape:
        return weights
    if None in (*weights.shape, *node.shape):
        raise SizesNeeded
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normalize_axis_tuple(axis, node.ndim)
    if weights.shape != tuple([node.shape[k] for k in axes]):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    spread = tuple([axes.index(k) if k in axes else ~1 for k in range(node.ndim)])
    return view(weights, Selection((None,) * weights.ndim, spread))


def _normalised(total: Any, scale: Any) -> Any:
    if np.any(scale == 0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return total / scale


_normalised.__name__ = "divide"  # NumPy's warnings say so


@takes_split_every
def average(
    a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:
    """Return the weighted mean over axes; parameters are those of ``np.average``.

    With ``returned=True`` the sum of the weights is returned, too.

    Raises
    ------
    TypeError
        The shapes of `a` and `weights` differ, and there is no `axis`.
    ValueError
        The shape of `weights` does not fit the axis.
    ZeroDivisionError
        When computed: weights sum to zero.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.average(la.arange(4, chunks=2), weights=[4, 3, 2, 1]).compute()
    np.float64(1.0)
    """
    x = as_array(a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        count = count_over(x.with_known_sizes().expr, axes_of(axis, x.ndim))
        scale = Array(broadcast_node(constant(count, result.dtype), result.shape))
        return (result, scale) if returned else result
    axes_of(axis, x.ndim, as_1d=False)
    w = Array(spread_weights(as_node(weights), x.expr, axis))
    dtype = np.result_type(x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else []))
    scale = sum(w, axis, dtype=dtype, keepdims=keepdims)
    products = elementwise.ufunc(np.multiply, (x.expr, w.expr), dtype)[0]
    total = sum(Array(products), axis, dtype=dtype, keepdims=keepdims)
    kind = np.true_divide.resolve_dtypes((total.dtype, scale.dtype, None))[2]
    result = Array(elementwise.function(_normalised, (total.expr, scale.expr), kind))
    if scale.shape != result.shape:
        scale = Array(broadcast_node(scale.expr, result.shape))
    return (result, scale) if returned else result
