"""Functions of arrays that are combinations of elementwise operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import functions, helper, implements
from lazyflow.array.functions.ufuncs import apply_ufunc, into, stretched
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded


def _operand(x: Any) -> Any:
    return x if type(x) in (bool, int, float, complex) else as_node(x)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return elements of `x` where the condition holds, else of `y`; parameters as np.where."""
    if (x is None) != (y is None):
        raise ValueError("either both or neither of x and y should be given")
    if x is None:
        return functions["nonzero"](condition)
    return Array(elementwise.where(as_node(condition), _operand(x), _operand(y)))


@implements(*filter(None, [getattr(np, "astype", None)]))  # NumPy 2.1
def astype(
    x: Any, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True,
    copy: bool = True, device: Any = None,
) -> Array:
    """Return the array with elements of another type."""
    node = as_node(x)
    dtype = np.dtype(dtype)
    if order not in ("K", "C", "A"):
        raise ValueError(f"chunked arrays have C order; got order={order!r}")
    if device not in (None, "cpu"):
        raise ValueError(f'chunked arrays are on the device "cpu"; got device={device!r}')
    if not np.can_cast(node.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {node.dtype!r} to {dtype!r} according to the rule "
            f"{casting!r}"
        )
    return Array(elementwise.cast(node, dtype))


_CLIP: Any = np._core.umath.clip  # type: ignore[attr-defined]  # NumPy gives it no name


@implements(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
    max: Any = None, dtype: Any = None,
) -> Array:
    """Return elements moved into an interval; parameters as np.clip."""
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError(
            "clip() takes the bounds as a_min and a_max or as min= and max=, not both"
        )
    low = a_min if min is None else min
    high = a_max if max is None else max
    x: Any = Array(as_node(a))
    if low is None and high is None:
        x = apply_ufunc(np.positive, "__call__", x)  # as NumPy, which refuses booleans so
    if x.dtype.kind in "iu":  # numbers that the dtype does not have bound nothing, as in NumPy
        limits = np.iinfo(x.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is not None and high is not None:
        x = apply_ufunc(_CLIP, "__call__", x, low, high, dtype=dtype)
    elif low is not None:
        x = apply_ufunc(np.maximum, "__call__", x, low, dtype=dtype)
    elif high is not None:
        x = apply_ufunc(np.minimum, "__call__", x, high, dtype=dtype)
    found: Array = x if out is None else into(out, x.expr)
    return found


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Array:
    """Return elements rounded to decimals, halves to even."""
    node = as_node(a)
    if decimals == 0 and node.dtype.kind == "f":
        made = apply_ufunc(np.rint, "__call__", Array(node)).expr
    else:
        few = 0 if node.dtype.hasobject else 1  # nothing is known of what objects can do
        dtype = np.round(np.zeros(few, node.dtype), decimals).dtype
        made = elementwise.function(np.round, (node,), dtype, decimals=int(decimals))
    return Array(made) if out is None else into(out, made)


around = round


@implements(np.real)
def real(x: Any) -> Array:
    """Return the real parts."""
    node = as_node(x)
    if node.dtype.kind != "c":
        return Array(node)
    dtype = np.empty(0, node.dtype).real.dtype
    return Array(elementwise.function(np.real, (node,), dtype))


@implements(np.imag)
def imag(x: Any) -> Array:
    """Return the imaginary parts."""
    node = as_node(x)
    if node.dtype.kind != "c":
        return Array(stretched(elementwise.constant(np.zeros((), node.dtype)), node.shape))
    dtype = np.empty(0, node.dtype).imag.dtype
    return Array(elementwise.function(np.imag, (node,), dtype))


@implements()
def conj(x: Any) -> Array:
    """Return complex conjugates."""
    found: Array = apply_ufunc(np.conjugate, "__call__", Array(as_node(x)))
    return found


@helper()
def conj_of(x: Array) -> Array:
    """Return ``x.conj()``: unlike NumPy's function the method leaves real numbers as they are."""
    return x if x.dtype.kind in "biuf" else conj(x)


@implements(np.angle)
def angle(x: Any, deg: bool = False) -> Array:
    """Return the angle of complex numbers, in radians or degrees."""
    node = as_node(x)
    dtype = np.angle(np.zeros(1, node.dtype), deg).dtype
    return Array(elementwise.function(np.angle, (node,), dtype, deg=bool(deg)))


@implements(np.isclose)
def isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Return whether elements are equal within tolerances; parameters as np.isclose."""
    nodes = as_node(a), as_node(b)
    return Array(elementwise.function(
        np.isclose, nodes, bool, rtol=rtol, atol=atol, equal_nan=bool(equal_nan)
    ))


@implements(np.allclose)
def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Return whether all elements are equal within tolerances."""
    found: Array = functions["all"](isclose(a, b, rtol, atol, equal_nan))
    return found


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Return elements with NaN and infinities replaced; with ``copy=False`` in the array itself."""
    node = as_node(x)
    made = elementwise.function(
        np.nan_to_num, (node,), node.dtype, nan=nan, posinf=posinf, neginf=neginf
    )
    found: Array = Array(made) if copy else into(x, made)
    return found


@implements(np.copy)
def copy(a: Any) -> Array:
    """Return the same: an array of its own, which in-place operations don't change for others."""
    return Array(as_node(a))


@helper()
def field(x: Array, key: Any) -> Array:
    """Return a field of a structured array."""
    node = as_node(x)
    dtype = np.zeros(1, node.dtype)[key].dtype
    names = key if isinstance(key, str) else tuple(key)
    return Array(elementwise.function(_field, (node,), dtype, names=names))


def _field(x: Any, names: Any) -> Any:
    return x[names if isinstance(names, str) else list(names)]


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Array:
    """Return whether each element is among others; parameters as np.isin."""
    node = as_node(element)
    values = np.asarray(test_elements).ravel()
    op: Any = Among(values, bool(assume_unique), bool(invert), kind)
    try:
        np.result_type(node.dtype, values.dtype)
    except TypeError:  # NumPy compares with a few of them one by one, and sorts many, which raises
        if None in node.shape:
            raise SizesNeeded from None
        if len(values) >= 10 * Array(node).size ** 0.145:
            raise
        op = OneByOne(values, bool(invert))
    return Array(elementwise.function(op, (node,), bool))


class OneByOne:
    """Tells for each element of a tile whether it equals one of some values of another kind."""

    __name__ = "isin"

    def __init__(self, values: Any, invert: bool) -> None:
        self.values = values
        self.invert = invert

    def __call__(self, x: Any) -> Any:
        found = np.zeros(x.shape, bool)
        for value in self.values:
            found |= x == value
        return ~found if self.invert else found


class Among:
    """Tells for each element of a tile whether it is among some values."""

    __name__ = "isin"

    def __init__(self, values: Any, assume_unique: bool, invert: bool, kind: Any) -> None:
        self.values = values
        self.assume_unique = assume_unique
        self.invert = invert
        self.kind = kind

    def __call__(self, x: Any) -> Any:
        return np.isin(
            x, self.values, assume_unique=self.assume_unique, invert=self.invert, kind=self.kind
        )
