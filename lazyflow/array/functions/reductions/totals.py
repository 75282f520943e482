"""Sums, products, extremes, and whether elements are true."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import implements
from lazyflow.array.evaluation.lengths import known
from lazyflow.array.functions.arguments import (
    MISSING,
    as_result,
    counted,
    element_of,
    needs_elements,
    stretched,
)
from lazyflow.array.functions.reductions.by_ufunc import ufunc_reduce
from lazyflow.array.functions.reductions.objects import is_objects, total_of_objects
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.moments import axes_of, count_over, keeps, reduced
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view


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


@implements(np.sum)
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = MISSING, where: Any = True,
) -> Array:
    """Return the sum over axes; parameters are those of ``np.sum``."""
    return _total("sum", np.add, 0, a, axis, dtype, out, keepdims, initial, where)


@implements(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = MISSING, where: Any = True,
) -> Array:
    """Return the product over axes; parameters are those of ``np.prod``."""
    return _total("prod", np.multiply, 1, a, axis, dtype, out, keepdims, initial, where)


def _total(
    kind: str, ufunc: np.ufunc, neutral: int, a: Any, axis: Any, dtype: Any, out: Any,
    keepdims: Any, initial: Any, where: Any,
) -> Array:
    node, mask = counted(a, where)
    if is_objects(a, dtype):
        func = getattr(np, kind)
        return total_of_objects(func, ufunc, a, axis, out, keepdims, initial, where)
    dtype = dtype_of_time(ufunc.reduce, node, dtype) or (
        _sum_dtype(node.dtype) if dtype is None else np.dtype(dtype)
    )
    # of products infinite parts depend on the order, and of what starts at -0.0 the sign of 0
    if (kind == "prod" and dtype.kind == "c") or (kind == "sum" and _is_minus_0(initial, dtype)):
        return ufunc_reduce(ufunc, Array(node), axis, dtype, out, keepdims, initial, where)
    if mask is not None:
        node = elementwise.where(mask, node, constant(neutral, node.dtype))
    made = reduced(node, kind, axis, keepdims, dtype)
    if initial is not MISSING and initial is not None:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, dtype)))
    return as_result(made, out, "unsafe")


def _is_minus_0(initial: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in "fc" or initial is MISSING or initial is None:
        return False
    start = element_of(initial, dtype)
    return bool(start == 0 and (np.signbit(start.real) or np.signbit(start.imag)))


@implements(np.max, np.amax)
def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = MISSING,
    where: Any = True,
) -> Array:
    """Return the largest element over axes; parameters are those of ``np.max``."""
    return _extreme("max", np.maximum, a, axis, out, keepdims, initial, where)


amax = max


@implements(np.min, np.amin)
def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = MISSING,
    where: Any = True,
) -> Array:
    """Return the smallest element over axes; parameters are those of ``np.min``."""
    return _extreme("min", np.minimum, a, axis, out, keepdims, initial, where)


amin = min


def _extreme(
    kind: str, ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    known(a, where)  # a block without elements has no largest one
    node, mask = counted(a, where)
    node = elementwise.cast(node, node.dtype.newbyteorder("="))
    axes = axes_of(axis, node.ndim)
    ufunc.resolve_dtypes((node.dtype, node.dtype, None))  # NumPy's words where there is no order
    if node.dtype.kind == "c":  # which NaN there is depends on the order
        return ufunc_reduce(ufunc, Array(node), axis, None, out, keepdims, initial, where)
    has_initial = initial is not MISSING and initial is not None
    if has_initial:
        initial = element_of(initial, node.dtype)
    count = count_over(node, axes)
    needs_elements(ufunc, has_initial, mask, count if axes else None)
    if mask is not None:
        node = elementwise.where(mask, node, constant(initial, node.dtype))
    if count == 0 and axes:
        shape = [1 if k in axes else n for k, n in enumerate(node.shape)]
        made = stretched(constant(initial, node.dtype), tuple(shape))
        picks = tuple([0 if k in axes else None for k in range(node.ndim)])
        if not keeps(keepdims):
            kept = tuple([k for k in range(node.ndim) if k not in axes])
            made = view(made, Selection(picks, kept))
        return as_result(made, out, "unsafe")
    made = reduced(node, kind, axes, keepdims, node.dtype)
    if has_initial:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, node.dtype)))
    return as_result(made, out, "unsafe")


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
    node, mask = counted(a, where)
    node = elementwise.cast(node, bool)
    if mask is not None:
        node = elementwise.where(mask, node, constant(neutral, bool))
    return as_result(reduced(node, kind, axis, keepdims, bool), out, "unsafe")


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Return how many elements over axes are not zero."""
    node = as_node(a)
    if axis is not None or keepdims:
        np.count_nonzero(np.zeros(1, node.dtype), axis=0)  # refuses records, unless of all axes
    return sum(Array(elementwise.not_zero(node)), axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    """Return the largest minus the smallest element over axes."""
    found = max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)
    return as_result(found.expr, out, "unsafe")


