"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.dispatch import implements
from lazyflow.array.functions.arguments import as_1d, as_result
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.reductions.by_ufunc import ufunc_accumulate
from lazyflow.array.functions.reductions.without_nan import filled
from lazyflow.array.nodes.moments import axis_of


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
            made = concatenate([start, made], axis=axis)
        return as_result(made.expr, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``np.{name}``."
    return implements(*filter(None, [getattr(np, name, None)]))(function)


cumulative_sum = _array_api("cumulative_sum", np.add)
cumulative_prod = _array_api("cumulative_prod", np.multiply)
