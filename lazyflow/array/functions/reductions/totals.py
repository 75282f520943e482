"""Reductions by ufuncs: sums, products, extremes, whether elements are true, and any ufunc's own.

A reduction takes one of three ways. Sums, products, extremes, `any` and `all` of NumPy's numbers
are `Reduced` nodes, which fuse with the operations below them and have kernels. Other ufuncs, and
other types, are trees of ``ufunc.reduce`` (`ByUfunc`). Objects are reduced along axes in one chunk,
as only the objects know what they make.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    MISSING,
    ArrayLike,
    Axes,
    DTypeLike,
    as_array,
    as_result,
    broadcast_node,
    check_elements,
    check_out,
    element_of,
    node_and_mask,
    out_dtype,
)
from lazyflow.array.functions.one_chunk import NumpyOp, along_axis, over_axes
from lazyflow.array.kernels.order import ALL, ANY, MAX, MIN, PROD, SUM, Kind
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    TreeReduction,
    axes_of,
    axis_of,
    count_over,
    keeps,
    kept_axes,
    reduced,
    reduced_shape,
    takes_split_every,
    tree,
    without_empty,
)
from lazyflow.array.nodes.scan import scan

# -- of any ufunc ------------------------------------------------------------------------------


#: Ufuncs that can combine their own results of blocks.
ASSOCIATIVE = frozenset({
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or,
    np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm, np.logaddexp,
    np.logaddexp2, np.hypot,
})


@dataclass(frozen=True)
class ByUfunc(TreeReduction):
    """``ufunc.reduce`` over axes; `dtype` and `initial` as given to NumPy."""

    ufunc: np.ufunc
    axes: tuple[int, ...]
    dtype: Any
    keepdims: bool
    initial: Any

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{self.ufunc.__name__}.reduce"

    def first(self, block: Any, mask: Any = None) -> Any:
        options: dict[str, Any] = {} if self.initial is MISSING else {"initial": self.initial}
        if mask is not None:
            options["where"] = mask
        found = self.ufunc.reduce(
            block, axis=self.axes, dtype=self.dtype, keepdims=True, **options
        )
        return np.asarray(found)

    def merge(self, parts: Sequence[Any]) -> Any:
        found = parts[0]
        for part in parts[1:]:
            found = self.ufunc(found, part, dtype=self.dtype)
        return found

    def last(self, part: Any) -> Any:
        return part if self.keepdims else part.squeeze(self.axes)


def dtype_with_out(ufunc: np.ufunc, dtype: Any, given: np.dtype[Any], out: Any) -> Any:
    """Return the dtype in which NumPy reduces or scans: that of both, where only `out` has one."""
    wanted = out_dtype(out)
    if dtype is not None or wanted is None or wanted.hasobject or given.hasobject:
        return dtype
    *_, found = ufunc.resolve_dtypes((wanted, given, None), casting="unsafe", reduction=True)
    return None if found.kind in "mM" else found  # which have a unit, that dtype= can't have


def ufunc_reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: Any = False, initial: Any = MISSING, where: Any = True,
) -> Array:
    """Return ``ufunc.reduce(x, ...)``; parameters are those of NumPy's.

    Ufuncs that are not associative, like ``np.subtract``, and those with `initial`, take the
    axes as one chunk.
    """
    resolve_lengths(x, where)
    node, mask = node_and_mask(x, where)
    axes = axes_of(axis, node.ndim)
    check_out(ufunc.reduce, node.dtype, out, dtype=dtype)
    dtype = dtype_with_out(ufunc, dtype, node.dtype, out)
    found_dtype = _dtype_of_reduce(ufunc, node, axes, dtype, initial, mask)
    by_blocks = (
        ufunc in ASSOCIATIVE and initial is MISSING and bool(count_over(node, axes))
        and (mask is None or ufunc.identity is not None)
        and not (ufunc is np.multiply and found_dtype.kind == "c")
    )
    cut = [k for k in axes[1:] if node.numblocks[k] > 1]
    if by_blocks and node.dtype.kind in "cO" and cut:
        # axis by axis, so that NaN and equal elements meet in C order, which decides among them
        inner = ufunc_reduce(ufunc, x, axes[-1], dtype, None, True, initial, where)
        result = ufunc_reduce(ufunc, inner, axes[:-1], None, None, True)
        if not keeps(keepdims):
            result = result[tuple([0 if k in axes else slice(None) for k in range(node.ndim)])]
        return as_result(result.expr, out, "unsafe")
    op = ByUfunc(ufunc, axes, dtype, keeps(keepdims), initial)
    inputs = [node] if mask is None else [node, mask]
    if not by_blocks:
        made = over_axes(op, inputs, axes, keeps(keepdims), found_dtype)
        return as_result(made, out, "unsafe")
    inputs = [without_empty(operand, axes) for operand in inputs]
    layout = kept_axes(node.ndim, axes, keeps(keepdims))
    return as_result(tree(op, inputs, layout, found_dtype), out, "unsafe")


def _dtype_of_reduce(
    ufunc: np.ufunc, node: Expr, axes: tuple[int, ...], dtype: Any, initial: Any,
    mask: Expr | None,
) -> np.dtype[Any]:
    """Return the dtype of NumPy's result for as few elements as can be, after its checks."""
    given = {} if initial is MISSING else {"initial": initial}
    if mask is not None:
        given["where"] = np.ones((1,) * node.ndim, bool)
    count = 0 if node.dtype.hasobject else 1  # of results: nothing is known of what objects can do
    shape: list[Any] = [
        builtins.min(n or 0, 2) if k in axes else 1 for k, n in enumerate(node.shape)
    ]
    few = np.ones((count, *shape), node.dtype)
    found: np.dtype[Any] = ufunc.reduce(
        few, axis=tuple([k + 1 for k in axes]), dtype=dtype, **given
    ).dtype
    return found


@dataclass(frozen=True)
class Accumulate(TreeReduction):
    """``ufunc.accumulate`` along an axis in one chunk."""

    ufunc: np.ufunc
    axis: int
    dtype: Any

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{self.ufunc.__name__}.accumulate"

    def first(self, block: Any) -> Any:
        return self.ufunc.accumulate(block, axis=self.axis, dtype=self.dtype)


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
    x = as_array(array).with_known_sizes()
    node = x.expr
    if node.ndim == 0:
        raise TypeError("cannot accumulate on a scalar")
    axis = axis_of(axis, node.ndim)
    check_out(ufunc.reduce, node.dtype, out, dtype=dtype)
    dtype = dtype_with_out(ufunc, dtype, node.dtype, out)
    found = ufunc.accumulate(np.ones((1,) * node.ndim, node.dtype), dtype=dtype).dtype
    ordered = found.hasobject or (ufunc is np.multiply and found.kind == "c")
    if ufunc in ASSOCIATIVE and not ordered:  # of which NaN, zeros and rounding depend on the order
        return as_result(scan(node, ufunc, axis, found, method == "blelloch"), out, "unsafe")
    return as_result(along_axis(Accumulate(ufunc, axis, dtype), node, axis, found), out, "unsafe")


# -- of objects --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObjectReduction(NumpyOp):
    """A reduction of NumPy's whose results are objects; a second block is the ``where=``."""

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
    resolve_lengths(a)
    node, mask = node_and_mask(a, where)
    axes = axes_of(axis, node.ndim)
    keywords.update(axis=axes, keepdims=keeps(keepdims))
    op = ObjectReduction(func, tuple(keywords.items()))
    inputs = [node] if mask is None else [node, mask]
    return as_result(over_axes(op, inputs, axes, keeps(keepdims), object), out, "unsafe")


def total_of_objects(
    func: Any, ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    """Return a sum or product of objects, which depends on their order."""
    options = {} if initial is MISSING else {"initial": initial}
    _, mask = node_and_mask(a, where)
    check_elements(ufunc, bool(options) and initial is not None, mask, None)
    return of_objects(func, a, axis, out, keepdims, where, **options)


def is_objects(a: Any, dtype: Any) -> bool:
    """Tell whether a reduction is one of objects, and not cast to another type before."""
    return dtype is None and as_node(a).dtype.hasobject


# -- sums, products and extremes ---------------------------------------------------------------


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
        resolve_lengths(a, where)
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
    """Return the largest element over axes, NaN if any element is NaN.

    Parameters are those of ``np.max``.

    Raises
    ------
    ValueError
        `initial` is missing where the array is empty, or where `where` is given.

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

    Parameters are those of ``np.min``.

    Raises
    ------
    ValueError
        `initial` is missing where the array is empty, or where `where` is given.

    Examples
    --------
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
    resolve_lengths(a, where)  # a block without elements has no largest one
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
