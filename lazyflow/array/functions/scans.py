"""Cumulative sums and products, and ``ufunc.accumulate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import functions, helper, implements
from lazyflow.array.functions.extremes import ASSOCIATIVE, result
from lazyflow.array.functions.nan_reductions import filled
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.moments import axis_of
from lazyflow.array.nodes.scan import scan
from lazyflow.array.nodes.tree import Op, tree, whole_along


def flat(a: Any) -> Array:
    """Return an array with one axis, in C order."""
    node = as_node(a)
    if node.ndim == 1:
        return Array(node)
    if node.ndim == 0:
        return Array(node)[None]
    found: Array = functions["ravel"](Array(node))
    return found


def as_1d(a: Any, axis: Any) -> Array:
    """Return an array of one element where there are no axes: here NumPy takes 0 or -1 as one."""
    node = as_node(a)
    return Array(node) if node.ndim or axis is None else Array(node)[None]


@dataclass(frozen=True)
class Accumulate(Op):
    """``ufunc.accumulate`` along an axis in one chunk."""

    ufunc: np.ufunc
    axis: int
    dtype: Any

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{self.ufunc.__name__}.accumulate"

    def first(self, block: Any) -> Any:
        return self.ufunc.accumulate(block, axis=self.axis, dtype=self.dtype)


@helper()
def ufunc_accumulate(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, *,
    method: str = "sequential",
) -> Array:
    """Return ``ufunc.accumulate(array, ...)``; parameters are those of NumPy's.

    method
        How blocks get what is before them: one after the other ("sequential"), or by a tree
        ("blelloch"). Either way all blocks are scanned at the same time.
    """
    if method not in ("sequential", "blelloch"):
        raise ValueError(f"method must be 'sequential' or 'blelloch'; got {method!r}")
    x = Array(as_node(array))
    known(x)
    node = x.expr
    if node.ndim == 0:
        raise TypeError("cannot accumulate on a scalar")
    axis = axis_of(axis, node.ndim)
    found = ufunc.accumulate(np.ones((1,) * node.ndim, node.dtype), dtype=dtype).dtype
    ordered = found.hasobject or (ufunc is np.multiply and found.kind == "c")
    if ufunc in ASSOCIATIVE and not ordered:  # of which NaN, zeros and rounding depend on the order
        return result(scan(node, ufunc, axis, found, method == "blelloch"), out)
    node = whole_along(node, (axis,))
    made = tree(Accumulate(ufunc, axis, dtype), [node], _same(node, axis), found)
    return result(made, out)


def _same(node: Expr, axis: int) -> Any:
    """Return the layout of what changes the values along an axis only."""
    return tuple([(node.shape[k],) if k == axis else k for k in range(node.ndim)])


def _cumulative(
    ufunc: np.ufunc, a: Any, axis: Any, dtype: Any, out: Any, method: str
) -> Array:
    if axis is None:
        a, axis = flat(a), 0
    if dtype is not None:
        dtype = np.dtype(dtype).type  # NumPy leaves units and orders of bytes out
    return ufunc_accumulate(ufunc, as_1d(a, axis), axis, dtype, out, method=method)


@implements(np.cumsum)
def cumsum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *, method: str = "sequential"
) -> Array:
    """Return the sums of what is before each element and itself; parameters as np.cumsum.

    >>> import lazyflow.array as la
    >>> la.cumsum(la.arange(6, chunks=2)).compute()
    array([ 0,  1,  3,  6, 10, 15])
    """
    return _cumulative(np.add, a, axis, dtype, out, method)


@implements(np.cumprod)
def cumprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *, method: str = "sequential"
) -> Array:
    """Return the products of what is before each element and itself; parameters as np.cumprod."""
    return _cumulative(np.multiply, a, axis, dtype, out, method)


@implements(np.nancumsum)
def nancumsum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *, method: str = "sequential"
) -> Array:
    """Return cumulative sums in which NaN count as 0."""
    return cumsum(filled(a, 0), axis, dtype, out, method=method)


@implements(np.nancumprod)
def nancumprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *, method: str = "sequential"
) -> Array:
    """Return cumulative products in which NaN count as 1."""
    return cumprod(filled(a, 1), axis, dtype, out, method=method)


def _array_api(name: str, ufunc: np.ufunc) -> Any:
    def function(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None,
        include_initial: bool = False,
    ) -> Array:
        node = as_1d(x, axis).expr
        if axis is None and node.ndim != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is "
                             "required.")
        axis = 0 if axis is None else axis_of(axis, node.ndim)
        made = ufunc_accumulate(ufunc, Array(node), axis, dtype)
        if include_initial:
            start = np.full(
                [1 if k == axis else n for k, n in enumerate(made.shape)],
                ufunc.identity, made.dtype,
            )
            made = functions["concatenate"]([start, made], axis=axis)
        return result(made.expr, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``np.{name}``."
    return implements(*filter(None, [getattr(np, name, None)]))(function)


cumulative_sum = _array_api("cumulative_sum", np.add)
cumulative_prod = _array_api("cumulative_prod", np.multiply)
