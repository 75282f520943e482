"""Whether arrays are equal, exactly or within tolerances.

`isclose` of float32 and float64 is made of ufuncs; for other dtypes, and for tolerances that are no
plain numbers, NumPy's function gets each block. Arrays of different shapes are unequal without a
computation. Comparisons of whole arrays are reductions, and results stay lazy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.elementwise import call_ufunc, where
from lazyflow.array.functions.reductions import totals
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import broadcast_shape
from lazyflow.array.nodes.elementwise import constant


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Return whether elements are equal within tolerances; parameters are those of ``np.isclose``.

    >>> import lazyflow.array as la
    >>> la.isclose(la.from_array([1.0, 1.1], chunks=1), 1.0, atol=0.01).compute()
    array([ True, False])
    """
    nodes = as_node(a), as_node(b)
    plain = all(type(t) in (int, float) and abs(t) < 1e30 for t in (rtol, atol))
    if plain and all(x.dtype in (np.float32, np.float64) for x in nodes):
        x, y = map(Array, nodes)
        finite = call_ufunc(np.isfinite, (y,))
        other = where(finite, y, 0.0)  # a difference of infinities would be reported
        found = finite & (abs(x - other) <= atol + rtol * abs(other)) | (x == y)
        return found | (x != x) & (y != y) if equal_nan else found
    if all(isinstance(t, int | float | np.generic) for t in (rtol, atol)):  # weak beside float32
        return Array(elementwise.function(
            np.isclose, nodes, bool, rtol=rtol, atol=atol, equal_nan=bool(equal_nan)
        ))
    return Array(elementwise.function(
        _isclose, (*nodes, as_node(rtol), as_node(atol)), bool, equal_nan=bool(equal_nan)
    ))


def _isclose(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    return np.isclose(a, b, rtol, atol, equal_nan)


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Return whether all elements are equal within tolerances.

    Parameters are those of ``np.allclose``.

    >>> import lazyflow.array as la
    >>> measured = la.from_array([1.0, 2.0, 3.0], chunks=2)
    >>> la.allclose(measured, [1.0, 2.0, 3.0 + 1e-9]).compute()
    np.True_
    """
    return totals.all(isclose(a, b, rtol, atol, equal_nan))


# -- equality -----------------------------------------------------------------------------------


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Return whether two arrays have the same shape and equal elements.

    Parameters are those of ``np.array_equal``. Chunks may differ.

    >>> import lazyflow.array as la
    >>> x = la.arange(4, chunks=2)
    >>> la.array_equal(x, [0, 1, 2, 3]).compute(), la.array_equal(x, x[:3]).compute()
    (np.True_, np.False_)
    """
    one, other = as_array(a1), as_array(a2)
    resolve_lengths(one, other)
    if one.shape != other.shape:
        return Array(constant(False, bool))
    same = one == other
    if equal_nan and one.dtype.kind in "fcmM" and other.dtype.kind in "fcmM":
        same = same | (np.isnan(one) & np.isnan(other))
    return totals.all(same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return whether two arrays are equal once they are broadcast to one shape.

    >>> import lazyflow.array as la
    >>> la.array_equiv(la.ones((3, 2), chunks=2), [1, 1]).compute()
    np.True_
    """
    one, other = as_array(a1), as_array(a2)
    resolve_lengths(one, other)
    try:
        broadcast_shape([one.shape, other.shape])
    except ValueError:
        return Array(constant(False, bool))
    return totals.all(one == other)
