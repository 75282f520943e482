"""Sums, products, extremes, and whether elements are true."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import (
    MISSING,
    ArrayLike,
    Axes,
    DTypeLike,
    as_result,
    broadcast_node,
    check_elements,
    check_out,
    element_of,
    node_and_mask,
    out_dtype,
)
from lazyflow.array.functions.reductions.by_ufunc import dtype_with_out, ufunc_reduce
from lazyflow.array.functions.reductions.objects import is_objects, total_of_objects
from lazyflow.array.kernels.order import ALL, ANY, MAX, MIN, PROD, SUM, Kind
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    axes_of,
    count_over,
    reduced,
    reduced_shape,
    takes_split_every,
)


def dtype_of_time(function: Any, node: Expr, dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype of a function of dates and spans, or raise what NumPy does; None: others."""
    if node.dtype.kind not in "mM" and (dtype is None or np.dtype(dtype).kind not in "mM"):
        return None
    found: np.dtype[Any] = function(np.zeros(1, node.dtype), dtype=dtype).dtype
    return found


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < np.dtype(int).itemsize):
        return np.dtype(int)
    if dtype.kind == "u" and dtype.itemsize < np.dtype(np.uint).itemsize:
        return np.dtype(np.uint)
    return dtype.newbyteorder("=")


@takes_split_every
def sum(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the sum over axes; parameters are those of ``np.sum``.

    Floats are added in pairs, in an order that depends on the chunks only.

    >>> import lazyflow.array as la
    >>> x = la.ones((4, 6), chunks=(2, 3))
    >>> la.sum(x).compute(), la.sum(x, axis=0).chunks
    (np.float64(24.0), ((3, 3),))
    """
    return _total(SUM, a, axis, dtype, out, keepdims, initial, where)


@takes_split_every
def prod(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the product over axes; parameters are those of ``np.prod``.

    >>> import lazyflow.array as la
    >>> la.prod(la.arange(1, 6, chunks=2)).compute()
    np.int64(120)
    """
    return _total(PROD, a, axis, dtype, out, keepdims, initial, where)


def _total(
    kind: Kind, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any, where: Any,
) -> Array:
    node, mask = node_and_mask(a, where)
    ufunc = kind.ufunc
    if is_objects(a, dtype):
        func = np.sum if kind is SUM else np.prod
        return total_of_objects(func, ufunc, a, axis, out, keepdims, initial, where)
    if initial is None:  # as in NumPy, no identity then
        known(a, where)
        check_elements(ufunc, False, mask, count_over(node, axes_of(axis, node.ndim)))
    check_out(ufunc.reduce, node.dtype, out, dtype=dtype)
    dtype = dtype_with_out(ufunc, dtype, node.dtype, out)
    dtype = dtype_of_time(ufunc.reduce, node, dtype) or (
        _sum_dtype(node.dtype) if dtype is None else np.dtype(dtype)
    )
    # of products infinite parts depend on the order, and of what starts at -0.0 the sign of 0
    if (kind is PROD and dtype.kind == "c") or (kind is SUM and _is_minus_0(initial, dtype)):
        return ufunc_reduce(ufunc, Array(node), axis, dtype, out, keepdims, initial, where)
    if mask is not None:
        node = elementwise.where(mask, node, constant(ufunc.identity, node.dtype))
    made = reduced(node, kind, axis, keepdims, dtype)
    if initial is not MISSING and initial is not None:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, dtype)))
    return as_result(made, out, "unsafe")


def _is_minus_0(initial: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in "fc" or initial is MISSING or initial is None:
        return False
    start = element_of(initial, dtype)
    return bool(start == 0 and (np.signbit(start.real) or np.signbit(start.imag)))


@takes_split_every
def max(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the largest element over axes; NaN if there is one.

    Parameters are those of ``np.max``.

    Raises
    ------
    ValueError
        There is no element and no `initial`, or a `where` without `initial`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.max(la.asarray([[1, 5], [7, 2]]), axis=0).compute()
    array([7, 5])
    """
    return extreme(MAX, np.maximum, a, axis, out, keepdims, initial, where)


amax = max


@takes_split_every
def min(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: Any = MISSING, where: ArrayLike = True
) -> Array:
    """Return the smallest element over axes; NaN if there is one.

    Parameters are those of ``np.min``; errors are those of `max`.

    >>> import lazyflow.array as la
    >>> x = la.from_array([3, 1, 2], chunks=2)
    >>> la.min(x).compute(), la.min(x, initial=0).compute()
    (np.int64(1), np.int64(0))
    """
    return extreme(MIN, np.minimum, a, axis, out, keepdims, initial, where)


amin = min


def extreme(
    kind: Kind, ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    """Return an extreme over axes, of a kind; it is NumPy's reduction by this ufunc."""
    known(a, where)  # a block without elements has no largest one
    node, mask = node_and_mask(a, where)
    node = elementwise.cast(node, node.dtype.newbyteorder("="))
    axes = axes_of(axis, node.ndim)
    ufunc.resolve_dtypes((node.dtype, node.dtype, None))  # NumPy's words where there is no order
    check_out(ufunc.reduce, node.dtype, out)
    if node.dtype.kind == "c":  # which NaN there is depends on the order
        return ufunc_reduce(ufunc, Array(node), axis, None, out, keepdims, initial, where)
    has_initial = initial is not MISSING and initial is not None
    if has_initial:
        initial = element_of(initial, node.dtype)
    count = count_over(node, axes)
    check_elements(ufunc, has_initial, mask, count if axes else None)
    if mask is not None:
        node = elementwise.where(mask, node, constant(initial, node.dtype))
    if count == 0 and axes:
        shape = reduced_shape(node, axes, keepdims)
        return as_result(broadcast_node(constant(initial, node.dtype), shape), out, "unsafe")
    made = reduced(node, kind, axes, keepdims, node.dtype)
    if has_initial:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, node.dtype)))
    return as_result(made, out, "unsafe")


@takes_split_every
def any(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *,
    where: ArrayLike = True
) -> Array:
    """Return whether some element over axes is true; parameters are those of ``np.any``.

    >>> import lazyflow.array as la
    >>> la.any(la.asarray([[True, False], [False, False]]), axis=1).compute()
    array([ True, False])
    """
    return _truth(ANY, a, axis, out, keepdims, where)


@takes_split_every
def all(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *,
    where: ArrayLike = True
) -> Array:
    """Return whether all elements over axes are true; parameters are those of ``np.all``.

    >>> import lazyflow.array as la
    >>> la.all(la.arange(4, chunks=2) < 4).compute()
    np.True_
    """
    return _truth(ALL, a, axis, out, keepdims, where)


def _truth(kind: Kind, a: Any, axis: Any, out: Any, keepdims: Any, where: Any) -> Array:
    node, mask = node_and_mask(a, where)
    node = elementwise.cast(node, bool)
    if mask is not None:
        node = elementwise.where(mask, node, constant(kind.ufunc.identity, bool))
    return as_result(reduced(node, kind, axis, keepdims, bool), out, "unsafe")


@takes_split_every
def count_nonzero(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the number of elements over axes that are not zero.

    >>> import lazyflow.array as la
    >>> la.count_nonzero(la.arange(10, chunks=4) % 3).compute()
    np.int64(6)
    """
    node = as_node(a)
    if axis is not None or keepdims:
        np.count_nonzero(np.zeros(1, node.dtype), axis=0)  # refuses records, unless of all axes
    return sum(Array(elementwise.not_zero(node)), axis, keepdims=keepdims)


@takes_split_every
def ptp(a: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Return the range of the elements over axes: the largest minus the smallest.

    >>> import lazyflow.array as la
    >>> la.ptp(la.from_array([4, 9, 2, 7], chunks=2)).compute()
    np.int64(7)
    """
    check_out(np.ptp, as_node(a).dtype, out)
    largest = max(a, axis, keepdims=keepdims).expr
    if (wanted := out_dtype(out)) is not None:
        largest = elementwise.cast(largest, wanted)
    found = Array(largest) - min(a, axis, keepdims=keepdims)
    return as_result(found.expr, out, "unsafe")


