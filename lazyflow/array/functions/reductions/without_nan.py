"""Reductions that leave NaN out.

Sums and products put 0 or 1 in the place of NaN; means and variances count with a mask; both are
elementwise operations that fuse with the reduction. Extremes use ``fmax`` and ``fmin``, and warn of
slices without a number when they are computed. For dtypes without NaN the plain reductions run. In
arrays of objects an element that does not equal itself is NaN, and NumPy's function gets the axes
in one chunk.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    MISSING,
    ArrayLike,
    Axes,
    DTypeLike,
    as_result,
    check_elements,
    check_out,
    node_and_mask,
)
from lazyflow.array.functions.reductions.means import mean_of, variance_of
from lazyflow.array.functions.reductions.totals import (
    extreme,
    is_objects,
    of_objects,
    prod,
    sum,
    total_of_objects,
    ufunc_reduce,
)
from lazyflow.array.kernels.order import FMAX, FMIN, MAX, MIN, Kind
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import axes_of, count_over, takes_split_every


def _numbers_only(a: Any, where: Any) -> tuple[Expr, Expr | None]:
    """Return a node and the mask of its elements that are not NaN and that `where` counts."""
    node, mask = node_and_mask(a, where)
    if node.dtype.kind not in "fcO":
        return node, mask
    is_number = _is_number(node)
    if mask is not None:
        (is_number,) = elementwise.ufunc(np.logical_and, (is_number, mask))
    return node, is_number


def _is_number(node: Expr) -> Expr:
    if node.dtype.kind == "O":  # of which NaN are those that don't equal themselves
        return elementwise.function(_equals_itself, (node,), bool)
    (is_nan,) = elementwise.ufunc(np.isnan, (node,))
    return elementwise.ufunc(np.logical_not, (is_nan,))[0]


def _equals_itself(block: Any) -> Any:
    return ~np.not_equal(block, block, dtype=bool)


def filled(a: Any, value: float) -> Array:
    """Return an array with a value in the place of NaN."""
    node, is_number = _numbers_only(a, True)
    if is_number is None:
        return Array(node)
    return Array(elementwise.where(is_number, node, constant(value, node.dtype)))


@takes_split_every
def nansum(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the sum over axes in which NaN counts as 0; parameters are those of `sum`.

    >>> import lazyflow.array as la
    >>> la.nansum(la.from_array([1.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(4.0)
    """
    if is_objects(a, dtype):
        return total_of_objects(np.nansum, np.add, a, axis, out, keepdims, initial, where)
    return sum(filled(a, 0), axis, dtype, out, keepdims, initial, where)


@takes_split_every
def nanprod(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the product over axes in which NaN counts as 1; parameters are those of `prod`.

    >>> import lazyflow.array as la
    >>> la.nanprod(la.from_array([2.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(6.0)
    """
    if is_objects(a, dtype):
        return total_of_objects(np.nanprod, np.multiply, a, axis, out, keepdims, initial, where)
    return prod(filled(a, 1), axis, dtype, out, keepdims, initial, where)


def _inexact(node: Expr, dtype: Any) -> None:
    """Refuse a type of the result that means and variances of these elements can't have."""
    if dtype is not None and node.dtype.kind in "fc" and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")


@takes_split_every
def nanmean(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, *, where: ArrayLike = True
) -> Array:
    """Return the mean over axes of what is not NaN; parameters are those of `mean`.

    Raises
    ------
    TypeError
        `dtype` is one of whole numbers, and the elements are floats.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.nanmean(la.from_array([1.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(2.0)
    """
    if is_objects(a, dtype):
        return of_objects(np.nanmean, a, axis, out, keepdims, where)
    node, mask = _numbers_only(a, where)
    _inexact(node, dtype)
    made = mean_of(node, mask, axis, dtype, keepdims, node.dtype.kind in "fc", out)
    return as_result(made, out, "unsafe")


def _nan_variance(
    a: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, root: bool,
    correction: Any,
) -> Array:
    node, mask = _numbers_only(a, where)
    _inexact(node, dtype)
    where = where if is_objects(a, dtype) else True
    return variance_of(
        Array(node), axis, dtype, out, ddof, keepdims, where, root, correction, mask,
        node.dtype.kind in "fcO",
    )


@takes_split_every
def nanvar(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    ddof: float = 0, keepdims: bool = False, *, where: ArrayLike = True, correction: Any = MISSING
) -> Array:
    """Return the variance over axes of what is not NaN; parameters are those of `var`.

    >>> import lazyflow.array as la
    >>> la.nanvar(la.from_array([1.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(1.0)
    """
    return _nan_variance(a, axis, dtype, out, ddof, keepdims, where, False, correction)


@takes_split_every
def nanstd(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    ddof: float = 0, keepdims: bool = False, *, where: ArrayLike = True, correction: Any = MISSING
) -> Array:
    """Return the standard deviation over axes of what is not NaN; parameters are those of `var`.

    >>> import lazyflow.array as la
    >>> la.nanstd(la.from_array([1.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(1.0)
    """
    return _nan_variance(a, axis, dtype, out, ddof, keepdims, where, True, correction)


@takes_split_every
def nanmax(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the largest element over axes that is not NaN; parameters are those of `max`.

    >>> import lazyflow.array as la
    >>> la.nanmax(la.from_array([1.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(3.0)
    """
    return _nan_extreme(FMAX, a, axis, out, keepdims, initial, where)


@takes_split_every
def nanmin(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the smallest element over axes that is not NaN; parameters are those of `min`.

    >>> import lazyflow.array as la
    >>> la.nanmin(la.from_array([1.0, np.nan, 3.0], chunks=2)).compute()
    np.float64(1.0)
    """
    return _nan_extreme(FMIN, a, axis, out, keepdims, initial, where)


def _nan_extreme(
    kind: Kind, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Array:
    ufunc = kind.ufunc
    resolve_lengths(a, where)
    node, mask = node_and_mask(a, where)
    node = elementwise.cast(node, node.dtype.newbyteorder("="))
    check_out(ufunc.reduce, node.dtype, out)
    if node.dtype.kind == "O":
        has_initial = initial is not MISSING and initial is not None
        check_elements(ufunc, has_initial, mask, count_over(node, axes_of(axis, node.ndim)))
        func = np.nanmax if kind is FMAX else np.nanmin
        options = {"initial": initial} if has_initial else {}
        return of_objects(func, a, axis, out, keepdims, where, **options)
    if node.dtype.kind not in "fcmM":
        kind = MAX if kind is FMAX else MIN
        return extreme(kind, ufunc, Array(node), axis, out, keepdims, initial, where)
    if node.dtype.kind == "f":
        extremes = extreme(kind, ufunc, Array(node), axis, None, keepdims, initial, where)
    else:  # parts of complex numbers are compared, and NaT are NaN
        extremes = ufunc_reduce(ufunc, Array(node), axis, None, None, keepdims, initial, where)
    made = elementwise.function(_warn_of_nan, (extremes.expr,), extremes.dtype)
    return as_result(made, out, "unsafe")


def _warn_of_nan(found: Any) -> Any:
    if np.isnan(found).any():
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    return found
