"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, DTypeLike, as_1d, as_result
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.reductions.by_ufunc import dtype_with_out, ufunc_accumulate
from lazyflow.array.functions.reductions.without_nan import filled
from lazyflow.array.nodes.reductions import axis_of


def _cumulative(
    ufunc: np.ufunc, a: Any, axis: Any, dtype: Any, out: Any, method: str
) -> Array:
    if axis is None:
        a, axis = flat(a), 0
    if dtype is not None:
        dtype = np.dtype(dtype).type  # NumPy leaves units and orders of bytes out
    return ufunc_accumulate(ufunc, as_1d(a, axis), axis, dtype, out, method=method)


def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None,
    *, method: str = "sequential",
) -> Array:
    """Return the sums of each element and those before it; parameters are those of ``np.cumsum``.

    Parameters
    ----------
    method
        How blocks get the sum of those before them: one after the other ("sequential"), or by a
        tree ("blelloch"), of fewer steps in a row. Blocks themselves are scanned at the same time.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.cumsum(la.arange(6, chunks=2)).compute()
    array([ 0,  1,  3,  6, 10, 15])
    """
    return _cumulative(np.add, a, axis, dtype, out, method)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None,
    *, method: str = "sequential",
) -> Array:
    """Return the products of each element and those before it; parameters are those of `cumsum`.

    >>> import lazyflow.array as la
    >>> la.cumprod(la.asarray([1, 2, 3, 4])).compute()
    array([ 1,  2,  6, 24])
    """
    return _cumulative(np.multiply, a, axis, dtype, out, method)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None,
    *, method: str = "sequential",
) -> Array:
    """Return cumulative sums in which NaN counts as 0; parameters are those of `cumsum`.

    >>> import lazyflow.array as la
    >>> la.nancumsum(la.from_array([1.0, np.nan, 2.0], chunks=1)).compute()
    array([1., 1., 3.])
    """
    return cumsum(filled(a, 0), axis, dtype, out, method=method)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None,
    *, method: str = "sequential",
) -> Array:
    """Return cumulative products in which NaN counts as 1; parameters are those of `cumsum`.

    >>> import lazyflow.array as la
    >>> la.nancumprod(la.from_array([2.0, np.nan, 3.0], chunks=1)).compute()
    array([2., 2., 6.])
    """
    return cumprod(filled(a, 1), axis, dtype, out, method=method)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
    out: Array | None = None, include_initial: bool = False,
) -> Array:
    """Return cumulative sums as the Array API has them; parameters as ``np.cumulative_sum``.

    >>> import lazyflow.array as la
    >>> la.cumulative_sum(la.arange(1, 4, chunks=2), include_initial=True).compute()
    array([0, 1, 3, 6])
    """
    return _array_api(np.add, x, axis, dtype, out, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
    out: Array | None = None, include_initial: bool = False,
) -> Array:
    """Return cumulative products as the Array API has them; parameters as ``np.cumulative_prod``.

    >>> import lazyflow.array as la
    >>> la.cumulative_prod(la.arange(1, 4, chunks=2)).compute()
    array([1, 2, 6])
    """
    return _array_api(np.multiply, x, axis, dtype, out, include_initial)


def _array_api(
    ufunc: np.ufunc, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool
) -> Array:
    node = as_1d(x, 0).expr
    if axis is None and node.ndim != 1:
        raise ValueError(
            "For arrays which have more than one dimension ``axis`` argument is required."
        )
    axis = 0 if axis is None else axis_of(axis, node.ndim)
    dtype = dtype_with_out(ufunc, dtype, node.dtype, out)
    made = ufunc_accumulate(ufunc, Array(node), axis, dtype)
    if include_initial:
        shape = [1 if k == axis else n for k, n in enumerate(made.shape)]
        made = concatenate([np.full(shape, ufunc.identity, made.dtype), made], axis=axis)
    return as_result(made.expr, out, "unsafe")
