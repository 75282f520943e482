"""Sums, products, extremes, means and variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import helpers, implements
from lazyflow.array.functions.ufuncs import counting, into, stretched
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.moments import (
    MeanOf,
    MeanOfMoments,
    MeanOfTotals,
    VarOf,
    axes_of,
    count_over,
    keeps,
    reduced,
)
from lazyflow.array.nodes.tree import Op, kept_axes, tree, whole_along
from lazyflow.array.nodes.views import Spec, view

_MISSING: Any = np._NoValue


def counted(a: Any, where: Any) -> tuple[Expr, Expr | None]:
    """Return the node of an array, and of what is to count of it; None: all."""
    node = as_node(a)
    if where is True or where is _MISSING:
        return node, None
    return node, counting(where, node.shape)


def finished(node: Expr, out: Any) -> Any:
    """Return an array of a node, or `out` once it is that."""
    if isinstance(out, tuple):
        (out,) = out
    return Array(node) if out is None else into(out, node, "unsafe")


def _of_time(function: Any, node: Expr, dtype: Any) -> np.dtype[Any] | None:
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
    node, mask = counted(a, where)
    if is_objects(a, dtype):
        func = getattr(np, kind)
        return total_of_objects(func, ufunc, a, axis, out, keepdims, initial, where)
    dtype = _of_time(ufunc.reduce, node, dtype) or (
        _sum_dtype(node.dtype) if dtype is None else np.dtype(dtype)
    )
    # of products infinite parts depend on the order, and of what starts at -0.0 the sign of 0
    if (kind == "prod" and dtype.kind == "c") or (kind == "sum" and _is_minus_0(initial, dtype)):
        by = helpers["ufunc_reduce"]
        return by(ufunc, Array(node), axis, dtype, out, keepdims, initial, where)
    if mask is not None:
        node = elementwise.where(mask, node, constant(neutral, node.dtype))
    made = reduced(node, kind, axis, keepdims, dtype)
    if initial is not _MISSING and initial is not None:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, dtype)))
    return finished(made, out)


def _is_minus_0(initial: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in "fc" or initial is _MISSING or initial is None:
        return False
    start = element_of(initial, dtype)
    return bool(start == 0 and (np.signbit(start.real) or np.signbit(start.imag)))


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
    known(a, where)  # a block without elements has no largest one
    node, mask = counted(a, where)
    node = elementwise.cast(node, node.dtype.newbyteorder("="))
    axes = axes_of(axis, node.ndim)
    ufunc.resolve_dtypes((node.dtype, node.dtype, None))  # NumPy's words where there is no order
    if node.dtype.kind == "c":  # which NaN there is depends on the order
        by = helpers["ufunc_reduce"]
        return by(ufunc, Array(node), axis, None, out, keepdims, initial, where)
    has_initial = initial is not _MISSING and initial is not None
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
            made = view(made, Spec(picks, kept))
        return finished(made, out)
    made = reduced(node, kind, axes, keepdims, node.dtype)
    if has_initial:
        (made,) = elementwise.ufunc(ufunc, (made, constant(initial, node.dtype)))
    return finished(made, out)


def element_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value as an element of a type, or refuse it as NumPy does if the type has none."""
    made = np.empty(1, dtype)
    made[0] = value
    return made[0]


def needs_elements(
    ufunc: np.ufunc, has_initial: bool, mask: Expr | None, count: int | None
) -> None:
    """Refuse reductions that need at least one element where there may be none."""
    if has_initial:
        return
    if mask is not None:
        raise ValueError(
            f"reduction operation {ufunc.__name__!r} does not have an identity, so to use a "
            "where mask one has to specify 'initial'"
        )
    if count == 0:
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
        )


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
    return finished(reduced(node, kind, axis, keepdims, bool), out)


def _mean_dtypes(node: Expr, dtype: Any, function: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes of a mean's sum and of its result."""
    of_time = _of_time(function, node, dtype)
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


@dataclass(frozen=True)
class OfObjects(Op):
    """A reduction of NumPy's along axes in one chunk: what objects make of it is theirs to say."""

    func: Any
    keywords: tuple[tuple[str, Any], ...]

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return str(self.func.__name__)

    def first(self, block: Any, *mask: Any) -> Any:
        options = {"where": mask[0]} if mask else {}
        found = self.func(block, **options, **dict(self.keywords))
        made = np.empty(np.shape(found), object)
        made[...] = found
        return made


def of_objects(
    func: Any, a: Any, axis: Any, out: Any, keepdims: Any, where: Any, **keywords: Any
) -> Array:
    """Return a reduction of an array of objects by a function of NumPy."""
    known(a)
    node, mask = counted(a, where)
    axes = axes_of(axis, node.ndim)
    keywords.update(axis=axes, keepdims=keeps(keepdims))
    inputs = [whole_along(each, axes) for each in (node, mask) if each is not None]
    op = OfObjects(func, tuple(keywords.items()))
    return finished(tree(op, inputs, kept_axes(node.ndim, axes, keeps(keepdims)), object), out)


def total_of_objects(
    func: Any, ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    """Return a sum or product of objects, which depends on their order."""
    options = {} if initial is _MISSING else {"initial": initial}
    _, mask = counted(a, where)
    needs_elements(ufunc, bool(options) and initial is not None, mask, None)
    return of_objects(func, a, axis, out, keepdims, where, **options)


def is_objects(a: Any, dtype: Any) -> bool:
    """Tell whether a reduction is one of objects, and not cast to another type before."""
    return dtype is None and as_node(a).dtype.hasobject


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Any = True,
) -> Array:
    """Return the mean over axes; parameters are those of ``np.mean``."""
    if is_objects(a, dtype):
        axes_of(axis, as_node(a).ndim, as_1d=where is not True)
        return of_objects(np.mean, a, axis, out, keepdims, where)
    node, mask = counted(a, where)
    return finished(mean_of(node, mask, axis, dtype, keepdims), out)


def mean_of(
    node: Expr, mask: Expr | None, axis: Any, dtype: Any, keepdims: Any, quiet: bool = False
) -> Expr:
    """Return the mean of what counts of a node; `quiet` as of `MeanOfTotals`."""
    axes_of(axis, node.ndim, as_1d=mask is not None)
    inner, result = _mean_dtypes(node, dtype, np.mean)
    if mask is not None:
        some = elementwise.where(mask, node, constant(0, node.dtype))
        total = reduced(some, "sum", axis, keepdims, inner)
        count = reduced(mask, "sum", axis, keepdims, int)
        return elementwise.function(MeanOfTotals(quiet, result), (total, count), result)
    many = count_over(node, axes_of(axis, node.ndim))
    if many is None and inner.kind in "mM":  # which are no moments
        there = stretched(constant(1, int), node.shape)
        total = reduced(node, "sum", axis, keepdims, inner)
        count = reduced(there, "sum", axis, keepdims, int)
        return elementwise.function(MeanOfTotals(quiet, result), (total, count), result)
    if many is None:
        return reduced(node, "moments", axis, keepdims, inner, result, MeanOfMoments(result))
    return reduced(node, "sum", axis, keepdims, inner, result, MeanOf(many, result))


#: NumPy's functions by whether the root is taken, and NaN are left out.
_SPREADS = {
    (False, False): np.var, (True, False): np.std,
    (False, True): np.nanvar, (True, True): np.nanstd,
}


def variance_of(
    a: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, root: bool,
    correction: Any, mask: Expr | None = None, quiet: bool = False,
) -> Array:
    """Return a variance or its root; `mask` as of `counted`, `quiet` as of `VarOf`."""
    if correction is not _MISSING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    if is_objects(a, dtype):
        func = _SPREADS[root, quiet]
        return of_objects(func, a, axis, out, keepdims, where, ddof=ddof)
    node, given = counted(a, where)
    mask = given if mask is None else mask
    axes_of(axis, node.ndim, as_1d=mask is not None)
    inner, result = _mean_dtypes(node, dtype, np.var)
    if result.kind == "c" and dtype is None:
        result = np.dtype(f"f{result.itemsize // 2}")
    if inner.kind == "f" and node.dtype.kind in "iuf":  # elements that a smaller type does not have
        inner = np.result_type(inner, node.dtype)
    finish = VarOf(ddof, root, quiet, result)
    return finished(reduced(node, "moments", axis, keepdims, inner, result, finish, mask), out)


@implements(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, correction: Any = _MISSING,
) -> Array:
    """Return the variance over axes; parameters are those of ``np.var``.

    Blocks give how many there are, their mean and the squares of distances to it, merged by the
    formula of Chan, Golub and LeVeque (1983), so that a large mean costs few digits. The method
    ``x.var()`` takes ``correction=`` too, as the Array API has it.
    """
    return variance_of(a, axis, dtype, out, ddof, keepdims, where, False, correction)


@implements(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Any = False, *, where: Any = True, correction: Any = _MISSING,
) -> Array:
    """Return the standard deviation over axes; parameters are those of ``np.std``."""
    return variance_of(a, axis, dtype, out, ddof, keepdims, where, True, correction)


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
    return finished(found.expr, out)


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
    axes_of(axis, x.ndim, as_1d=False)
    w = Array(as_node(weights))
    if w.shape != x.shape:
        if None in (*w.shape, *x.shape):
            raise SizesNeeded
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
