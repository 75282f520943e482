"""Where the largest and the smallest elements are.

A block gives its extreme and the place of it in the whole array; of neighbours the first best is
kept, so ties go to the lowest index, as in NumPy. Without ``axis=`` the places are indices in C
order, and no array is raveled for them. The nan-functions take NaN for an infinity, and raise for a
row of NaN when they are computed. Unknown lengths are computed, and an empty axis is an error at
the call.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import (
    ArrayLike,
    as_array,
    as_result,
    broadcast_node,
    check_out,
)
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    TreeReduction,
    axes_of,
    count_over,
    keeps,
    kept_axes,
    reduced_shape,
    takes_split_every,
    tree,
    without_empty,
)

# -- argmin and its like ------------------------------------------------------------------------


def _as_writable(block: Any) -> Any:
    """Return a view for NumPy's argmin and argmax to read, which copy what can't be written."""
    if type(block) is not np.ndarray or block.dtype.kind not in "biufc" or block.flags.writeable:
        return block
    seen = dict(block.__array_interface__)
    seen["data"] = seen["data"][0], False
    return np.asarray(SimpleNamespace(__array_interface__=seen, block=block))


@dataclass(frozen=True)
class ArgExtreme(TreeReduction):
    """Finds the place of the first extreme: values and places of blocks, the first best wins.

    func
        np.argmin or np.argmax, which say what is best, NaN included.
    axis
        None: places are those of the raveled whole, of this shape.
    fill
        What NaN are taken for, or None: NaN win.
    """

    func: Any
    axis: int | None
    shape: tuple[int, ...]
    keepdims: bool
    fill: float | None

    placed = True

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{'' if self.fill is None else 'nan'}{self.func.__name__}"

    def first(self, where: Any, block: Any) -> Any:
        numbers = True
        if self.fill is not None and block.dtype.kind in "fcO":
            is_nan = np.not_equal(block, block, dtype=bool)
            numbers = ~is_nan.all(axis=self.axis, keepdims=True)
            block = np.where(is_nan, np.asarray(self.fill).astype(block.dtype), block)
        if self.axis is not None:
            at = self.func(_as_writable(block), axis=self.axis, keepdims=True)
            best = np.take_along_axis(block, at, self.axis)
            return best, at + where.regions[self.axis], numbers
        at = np.unravel_index(self.func(_as_writable(block)), block.shape)
        place = [i + start for i, start in zip(at, where.regions, strict=True)]
        flat = np.ravel_multi_index(place, self.shape) if self.shape else np.intp(0)
        return np.asarray(block[at]).reshape(1), np.reshape(flat, 1), np.reshape(numbers, 1)

    def merge(self, parts: Sequence[Any]) -> Any:
        axis = self.axis or 0
        best, at, numbers = zip(*parts, strict=True)
        bests, ats = np.concatenate(best, axis), np.concatenate(at, axis)
        if self.axis is None:
            order = np.argsort(ats)
            bests, ats = bests[order], ats[order]
        first = self.func(bests, axis=axis, keepdims=True)
        any_number = np.logical_or.reduce(np.broadcast_arrays(*numbers))
        return (
            np.take_along_axis(bests, first, axis), np.take_along_axis(ats, first, axis),
            any_number,
        )

    def last(self, part: Any) -> Any:
        _, at, numbers = part
        if not np.all(numbers):
            raise ValueError("All-NaN slice encountered")
        if self.axis is None:
            return at.reshape((1,) * len(self.shape) if self.keepdims else ()).astype(np.intp)
        return (at if self.keepdims else at.squeeze(self.axis)).astype(np.intp, copy=False)


def _arg(
    func: Any, a: Any, axis: Any, out: Any, keepdims: Any, fill: float | None = None
) -> Array:
    node = as_array(a).with_known_sizes().expr
    if axis is not None:
        axis = operator.index(axis)
    axes = axes_of(axis, node.ndim)
    if axis is not None:
        axis = axes[0] if axes else None
    if node.dtype.kind == "V":
        raise TypeError("data type not ordered")
    check_out(func, node.dtype, out)
    if count_over(node, axes) == 0:
        raise ValueError(f"attempt to get {func.__name__} of an empty sequence")
    if axis is not None and 0 in node.shape:
        at: Expr = constant(0, np.intp)
        return as_result(broadcast_node(at, reduced_shape(node, axes, keepdims)), out, "unsafe")
    node = without_empty(node, axes)
    whole: Any = () if axis is not None else node.shape
    op = ArgExtreme(func, axis, whole, keeps(keepdims), fill)
    made = tree(op, [node], kept_axes(node.ndim, axes, keeps(keepdims)), np.intp)
    return as_result(made, out, "unsafe")


@takes_split_every
def argmin(
    a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the smallest element, the first one of several.

    Parameters are those of ``np.argmin``; without `axis` it is an index in C order.

    Raises
    ------
    TypeError
        The elements have no order, such as records.
    ValueError
        There are no elements along the axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.argmin(la.from_array([3, 1, 2, 1], chunks=2)).compute()
    np.int64(1)
    """
    return _arg(np.argmin, a, axis, out, keepdims)


@takes_split_every
def argmax(
    a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the largest element, the first one of several; parameters as of `argmin`.

    Raises
    ------
    TypeError
        The elements have no order, such as records.
    ValueError
        There are no elements along the axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.argmax(la.asarray([[1, 5], [7, 2]]), axis=1).compute()
    array([1, 0])
    """
    return _arg(np.argmax, a, axis, out, keepdims)


@takes_split_every
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the smallest element that is not NaN; parameters are those of `argmin`.

    Raises
    ------
    TypeError
        The elements have no order, such as records.
    ValueError
        There are no elements along the axis, or when computed: all elements of a row are NaN.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.nanargmin(la.from_array([np.nan, 3.0, 2.0], chunks=2)).compute()
    np.int64(2)
    """
    return _arg(np.argmin, a, axis, out, keepdims, np.inf)


@takes_split_every
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the largest element that is not NaN; parameters are those of `argmin`.

    Raises
    ------
    TypeError
        The elements have no order, such as records.
    ValueError
        There are no elements along the axis, or when computed: all elements of a row are NaN.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.nanargmax(la.from_array([1.0, np.nan, 4.0], chunks=2)).compute()
    np.int64(2)
    """
    return _arg(np.argmax, a, axis, out, keepdims, -np.inf)
