"""Sums, products, extremes, means and variances, with their versions that leave NaN out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lazyflow.array import elementwise
from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import helpers, implements
from lazyflow.array.elementwise import constant
from lazyflow.array.expr import Expr
from lazyflow.array.moments import (
    MeanOf,
    MeanOfMoments,
    MeanOfTotals,
    VarOf,
    axes_of,
    count_over,
    keeps,
    reduced,
)
from lazyflow.array.ufuncs import into, stretched
from lazyflow.array.views import Spec, view

_MISSING: Any = np._NoValue


def _given(a: Any, where: Any) -> tuple[Expr, Expr | None]:
    node = as_node(a)
    if where is True or where is _MISSING:
        return node, None
    mask = elementwise.cast(as_node(where), bool)
    return node, stretched(mask, node.shape)


def _out(node: Expr, out: Any) -> Any:
    if isinstance(out, tuple):
        (out,) = out
    return Array(node) if out is None else into(out, node, "unsafe")


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < np.dtype(int).itemsize):
        return np.dtype(int)
    if dtype.kind == "u" and dtype.itemsize < np.dtype(np.uint).itemsize:
        return np.dtype(np.uint)
    return dtype.newbyteorder("=")


# -- functions ----------------------------------------------------------------------------------


@implements(np.sum)
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = _MISSING, where: Any = True,
) -> Array:
    """Return the sum over axes; parameters are those of ``np.sum``."""
    return _total("sum", np.add, 0, a, axis, dtype, out, keepdims, initial, where)


@implements(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = _MISSING, where: Any = True,
) -> Array:
    """Return the product over axes; parameters are those of ``np.prod``."""
    return _total("prod", np.multiply, 1, a, axis, dtype, out, keepdims, initial, where)


def _total(
    kind: str, ufunc: np.ufunc, neutral: int, a: Any, axis: Any, dtype: Any, out: Any,
    keepdims: Any, initial: Any, where: Any,
) -> Array:
    node, mask = _given(a, where)
    dtype = _sum_dtype(node.dtype) if dtype is None else np.dtype(dtype)
    if mask is not None:
        node = elementwise.where(mask, node, constant(neutral, node.dtype))
    made = reduced(node, kind, axis, keepdims, dtype)
    if initial is not _MISSING and initial is not None:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, dtype)))
    return _out(made, out)


@implements(np.max, np.amax)
def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _MISSING,
    where: Any = True,
) -> Array:
    """Return the largest element over axes; parameters are those of ``np.max``."""
    return _extreme("max", np.maximum, a, axis, out, keepdims, initial, where)


amax = max


@implements(np.min, np.amin)
def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _MISSING,
    where: Any = True,
) -> Array:
    """Return the smallest element over axes; parameters are those of ``np.min``."""
    return _extreme("min", np.minimum, a, axis, out, keepdims, initial, where)


amin = min


def _extreme(
    kind: str, ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    known(a)  # a block without elements has no largest one
    node, mask = _given(a, where)
    node = elementwise.cast(node, node.dtype.newbyteorder("="))
    has_initial = initial is not _MISSING and initial is not None
    if mask is not None:
        if not has_initial:
            raise ValueError(
                f"reduction operation {ufunc.__name__!r} does not have an identity, so to use a "
                "where mask one has to specify 'initial'"
            )
        node = elementwise.where(mask, node, constant(initial, node.dtype))
    axes = axes_of(axis, node.ndim)
    if count_over(node, axes) == 0 and axes:
        if not has_initial:
            raise ValueError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            )
        shape = [1 if k in axes else n for k, n in enumerate(node.shape)]
        made = stretched(constant(initial, node.dtype), tuple(shape))
        picks = tuple([0 if k in axes else None for k in range(node.ndim)])
        if not keeps(keepdims):
            kept = tuple([k for k in range(node.ndim) if k not in axes])
            made = view(made, Spec(picks, kept))
        return _out(made, out)
    made = reduced(node, kind, axes, keepdims, node.dtype)
    if has_initial:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, node.dtype)))
    return _out(made, out)


@implements(np.any)
def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Array:
    """Return whether some element over axes is true; parameters are those of ``np.any``."""
    return _truth("any", False, a, axis, out, keepdims, where)


@implements(np.all)
def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Array:
    """Return whether all elements over axes are true; parameters are those of ``np.all``."""
    return _truth("all", True, a, axis, out, keepdims, where)


def _truth(
    kind: str, neutral: bool, a: Any, axis: Any, out: Any, keepdims: Any, where: Any
) -> Array:
    node, mask = _given(a, where)
    node = elementwise.cast(node, bool)
    if mask is not None:
        node = elementwise.where(mask, node, constant(neutral, bool))
    return _out(reduced(node, kind, axis, keepdims, bool), out)


def _mean_dtypes(node: Expr, dtype: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes of a mean's sum and of its result."""
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if node.dtype.kind in "biu":
        return np.dtype(float), np.dtype(float)
    if node.dtype == np.float16:
        return np.dtype(np.float32), np.dtype(np.float16)
    native = node.dtype.newbyteorder("=")
    return native, native


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Any = True,
) -> Array:
    """Return the mean over axes; parameters are those of ``np.mean``."""
    node, mask = _given(a, where)
    return _out(_mean(node, mask, axis, dtype, keepdims), out)


def _mean(
    node: Expr, mask: Expr | None, axis: Any, dtype: Any, keepdims: Any, quiet: bool = False
) -> Expr:
    inner, result = _mean_dtypes(node, dtype)
    if mask is not None:
        counted = elementwise.where(mask, node, constant(0, node.dtype))
        total = reduced(counted, "sum", axis, keepdims, inner)
        count = reduced(mask, "sum", axis, keepdims, int)
        return elementwise.function(MeanOfTotals(quiet, result), (total, count), result)
    many = count_over(node, axes_of(axis, node.ndim))
    if many is None:
        return reduced(node, "moments", axis, keepdims, inner, result, MeanOfMoments(result))
    return reduced(node, "sum", axis, keepdims, inner, result, MeanOf(many, result))


def _variance(
    a: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, root: bool,
    correction: Any, mask: Expr | None = None, quiet: bool = False,
) -> Array:
    if correction is not _MISSING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    node, given = _given(a, where)
    mask = given if mask is None else mask
    inner, result = _mean_dtypes(node, dtype)
    if result.kind == "c":
        result = np.dtype(f"f{result.itemsize // 2}")
    finish = VarOf(ddof, root, quiet, result)
    return _out(reduced(node, "moments", axis, keepdims, inner, result, finish, mask), out)


@implements(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, correction: Any = _MISSING,
) -> Array:
    """Return the variance over axes; parameters are those of ``np.var``.

    Blocks give how many there are, their mean and the squares of distances to it, merged by the
    formula of Chan, Golub and LeVeque (1983), so that a large mean costs no digits.
    """
    return _variance(a, axis, dtype, out, ddof, keepdims, where, False, correction)


@implements(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, correction: Any = _MISSING,
) -> Array:
    """Return the standard deviation over axes; parameters are those of ``np.std``."""
    return _variance(a, axis, dtype, out, ddof, keepdims, where, True, correction)


# -- leaving NaN out ----------------------------------------------------------------------------


def _numbers_only(a: Any, where: Any) -> tuple[Expr, Expr | None]:
    """Return a node and what of it counts: not NaN, and wanted."""
    node, mask = _given(a, where)
    if node.dtype.kind not in "fc":
        return node, mask
    (is_nan,) = elementwise.ufunc(np.isnan, (node,))
    (is_number,) = elementwise.ufunc(np.logical_not, (is_nan,))
    if mask is not None:
        (is_number,) = elementwise.ufunc(np.logical_and, (is_number, mask))
    return node, is_number


def _masked(node: Expr, mask: Expr | None) -> Any:
    return True if mask is None else Array(mask)


@implements(np.nansum)
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = _MISSING, where: Any = True,
) -> Array:
    """Return the sum over axes of what is not NaN."""
    node, mask = _numbers_only(a, where)
    return sum(Array(node), axis, dtype, out, keepdims, initial, _masked(node, mask))


@implements(np.nanprod)
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = _MISSING, where: Any = True,
) -> Array:
    """Return the product over axes of what is not NaN."""
    node, mask = _numbers_only(a, where)
    return prod(Array(node), axis, dtype, out, keepdims, initial, _masked(node, mask))


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Any = True,
) -> Array:
    """Return the mean over axes of what is not NaN."""
    node, mask = _numbers_only(a, where)
    return _out(_mean(node, mask, axis, dtype, keepdims, quiet=True), out)


@implements(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, correction: Any = _MISSING,
) -> Array:
    """Return the variance over axes of what is not NaN."""
    node, mask = _numbers_only(a, where)
    return _variance(
        Array(node), axis, dtype, out, ddof, keepdims, True, False, correction, mask, True
    )


@implements(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, correction: Any = _MISSING,
) -> Array:
    """Return the standard deviation over axes of what is not NaN."""
    node, mask = _numbers_only(a, where)
    return _variance(
        Array(node), axis, dtype, out, ddof, keepdims, True, True, correction, mask, True
    )


@implements(np.nanmax)
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _MISSING,
    where: Any = True,
) -> Array:
    """Return the largest element over axes of what is not NaN."""
    return _nan_extreme(max, -np.inf, a, axis, out, keepdims, initial, where)


@implements(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = _MISSING,
    where: Any = True,
) -> Array:
    """Return the smallest element over axes of what is not NaN."""
    return _nan_extreme(min, np.inf, a, axis, out, keepdims, initial, where)


def _nan_extreme(
    extreme: Any, least: float, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    node, mask = _numbers_only(a, where)
    if node.dtype.kind in "cmM":  # parts of complex numbers are compared, and NaT are NaN
        by = helpers["ufunc_reduce"]
        ufunc = np.fmax if extreme is max else np.fmin
        found = by(ufunc, Array(node), axis, None, None, keepdims, initial, where)
        return _out(elementwise.function(_told, (found.expr,), node.dtype), out)
    if node.dtype.kind != "f":
        return extreme(Array(node), axis, out, keepdims, initial, where)
    assert mask is not None
    filled = elementwise.where(mask, node, constant(least, node.dtype))
    found = extreme(Array(filled), axis, None, keepdims, initial)
    if initial is not _MISSING:
        return _out(found.expr, out)
    there = reduced(mask, "any", axis, keepdims, bool)
    return _out(elementwise.function(_or_nan, (found.expr, there), node.dtype), out)


def _told(found: Any) -> Any:
    if np.isnan(found).any():
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    return found


def _or_nan(found: Any, there: Any) -> Any:
    if not np.all(there):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    return np.where(there, found, np.asarray(np.nan, found.dtype))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Return how many elements over axes are not zero."""
    return sum(Array(elementwise.cast(as_node(a), bool)), axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    """Return the largest minus the smallest element over axes."""
    found = max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)
    return _out(found.expr, out)


def _normalised(total: Any, scale: Any) -> Any:
    if np.any(scale == 0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return total / scale


_normalised.__name__ = "divide"  # NumPy's warnings say so


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: Any = False,
) -> Any:
    """Return the weighted mean over axes; parameters are those of ``np.average``."""
    x = Array(as_node(a))
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        count = count_over(x.with_known_sizes().expr, axes_of(axis, x.ndim))
        scale = Array(stretched(constant(count, found.dtype), found.shape))
        return (found, scale) if returned else found
    w = Array(as_node(weights))
    if w.shape != x.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = axes_of(axis, x.ndim)
        if w.shape != tuple([x.shape[k] for k in axes]):
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        spread = tuple([axes.index(k) if k in axes else ~1 for k in range(x.ndim)])
        w = Array(stretched(view(w.expr, Spec((None,) * w.ndim, spread)), x.shape))
    dtype = np.result_type(x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else []))
    scale = sum(w, axis, dtype=dtype, keepdims=keepdims)
    products = elementwise.ufunc(np.multiply, (x.expr, w.expr), dtype)[0]
    total = sum(Array(products), axis, dtype=dtype, keepdims=keepdims)
    kind = np.true_divide.resolve_dtypes((total.dtype, scale.dtype, None))[2]
    found = Array(elementwise.function(_normalised, (total.expr, scale.expr), kind))
    return (found, scale) if returned else found
