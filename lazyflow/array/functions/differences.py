"""Cumulative sums and products, differences, slopes, jumps, and areas under points.

Cumulative functions are scans (nodes/scan.py): blocks are scanned in parallel and combined with the
ends of those before them; only for objects and for products of complex numbers, whose results
depend on the order, the axis becomes one chunk. The other functions are made of operations on
slices that begin at different places, so a task needs a block and the elements beside it. The
slices get equal chunks first (`neighbours`): otherwise each operation would cut at the ends of both
and leave slivers. `gradient` and `unwrap` give the result the chunks of the argument. Coordinates
for `gradient` are needed at the call: chunked ones are computed.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    MISSING,
    ArrayLike,
    Axes,
    DTypeLike,
    as_1d,
    as_array,
    as_result,
    broadcast_node,
)
from lazyflow.array.functions.elementwise import astype, where
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.rearranging import along
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.reductions import totals
from lazyflow.array.functions.reductions.totals import dtype_with_out, ufunc_accumulate
from lazyflow.array.functions.reductions.without_nan import filled
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axis_of

# -- sums up to each element -------------------------------------------------------------------


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
        How blocks get the sum of the blocks before them: one after the other ("sequential"), or by
        a tree ("blelloch"), which has fewer sequential steps. The scans of blocks run in parallel.

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
    """Return the Array API's cumulative sums; parameters are those of ``np.cumulative_sum``.

    Raises
    ------
    ValueError
        There are several axes, and none is chosen.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.cumulative_sum(la.arange(1, 4, chunks=2), include_initial=True).compute()
    array([0, 1, 3, 6])
    """
    return _array_api(np.add, x, axis, dtype, out, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
    out: Array | None = None, include_initial: bool = False,
) -> Array:
    """Return the Array API's cumulative products; parameters as ``np.cumulative_prod``.

    Raises
    ------
    ValueError
        There are several axes, and none is chosen.

    Examples
    --------
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


# -- differences -------------------------------------------------------------------------------


def neighbours(x: Array, axis: int, apart: int = 1) -> tuple[Array, Array]:
    """Return all but the last and all but the first elements along an axis, in equal chunks.

    Otherwise operations would cut both at the ends of either. They get the chunks of the one with
    fewer, so that `diff`'s `prepend` gets no block of its own.
    """
    before = along(x, axis, slice(None, -apart))
    after = along(x, axis, slice(apart, None))
    chunks = min(before.chunks, after.chunks, key=lambda chunks: len(chunks[axis]))
    return Array(rechunk(before.expr, chunks)), Array(rechunk(after.expr, chunks))


def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = MISSING, append: Any = MISSING
) -> Any:
    """Return differences between neighbours, `n` times; parameters are those of ``np.diff``.

    Raises
    ------
    ValueError
        `n` is negative, or the array has no axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.diff(la.from_array([1, 4, 9, 16], chunks=2)).compute()
    array([3, 5, 7])
    >>> la.diff(la.from_array([1, 4, 9, 16], chunks=2), n=2).compute()
    array([2, 2])
    """
    n = operator.index(n)
    if n == 0:
        return a
    if n < 0:
        raise ValueError("order must be non-negative but got " + repr(n))
    resolve_lengths(a, prepend, append)
    x = as_array(a)
    if x.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, x.ndim)
    shape = [1 if k == axis else size for k, size in enumerate(x.shape)]
    parts = []
    for operand in (prepend, x, append):
        if operand is not MISSING and operand is not None:
            node = as_node(operand)
            parts.append(Array(broadcast_node(node, tuple(shape)) if node.ndim == 0 else node))
    if len(parts) > 1:
        x = concatenate(parts, axis=axis)
    op: Any = np.not_equal if x.dtype == bool else np.subtract
    for _ in range(n):
        before, after = neighbours(x, axis)
        x = op(after, before)
    return x


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Return differences between neighbours of the raveled array.

    Parameters are those of ``np.ediff1d``.

    Raises
    ------
    TypeError
        `to_begin` or `to_end` does not fit the dtype of `ary`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.ediff1d(la.from_array([1, 2, 4, 7], chunks=2), to_begin=0).compute()
    array([0, 1, 2, 3])
    """
    x = flat(ary)
    begin = _end_of(to_begin, "to_begin", x.dtype)
    end = _end_of(to_end, "to_end", x.dtype)
    before, after = neighbours(x, 0)
    found: Any = np.subtract(after, before)
    if begin is not None or end is not None:
        parts = [y for y in (begin, found, end) if y is not None]
        found = concatenate(parts).astype(x.dtype)
    return found


def _end_of(given: Any, name: str, dtype: np.dtype[Any]) -> Array | None:
    if given is None:
        return None
    x = flat(given)
    if not np.can_cast(x.dtype, dtype, casting="same_kind"):
        raise TypeError(
            f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
        )
    return astype(x, dtype)


# -- slopes -------------------------------------------------------------------------------------


def gradient(f: ArrayLike, *varargs: Any, axis: Axes = None, edge_order: int = 1) -> Any:
    """Return the slope along each axis; parameters are those of ``np.gradient``.

    Coordinates that are chunked arrays are computed when this is called.

    Raises
    ------
    TypeError
        There are neither one distance nor one for each axis.
    ValueError
        Distances have another length, an axis is too short, or `edge_order` is above 2.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> heights = la.from_array([1.0, 2.0, 4.0, 7.0, 11.0], chunks=2)
    >>> la.gradient(heights, 2.0).compute()
    array([0.5 , 0.75, 1.25, 1.75, 2.  ])
    """
    x = as_array(f).with_known_sizes()
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(
        axis, x.ndim
    )
    spaces = _spaces(x, axes, varargs)
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if x.dtype.kind == "M":
        x = x.view(x.dtype.str.replace("M8", "m8"))
    elif x.dtype.kind not in "bfcmSUV":  # booleans, texts and records can't be subtracted
        x = astype(x, float)
    kind = x.dtype if x.dtype.kind in "fcm" else float
    slopes = []
    for k, space in zip(axes, spaces, strict=True):
        if x.shape[k] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least "
                "(edge_order + 1) elements are required."
            )
        slopes.append(_slope(x, k, space, edge_order).astype(kind))
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _spaces(x: Array, axes: tuple[int, ...], given: tuple[Any, ...]) -> list[Any]:
    """Return for each axis the distance of neighbours: one, or an array of them."""
    if not given:
        return [1.0] * len(axes)
    if len(given) == 1 and np.ndim(given[0]) == 0:
        return list(given) * len(axes)
    if len(given) != len(axes):
        raise TypeError("invalid number of arguments")
    spaces: list[Any] = []
    for axis, distances in zip(axes, given, strict=True):
        if np.ndim(distances) == 0:
            spaces.append(distances)
            continue
        places = np.asarray(distances)
        if places.ndim != 1:
            raise ValueError("distances must be either scalars or 1d")
        if len(places) != x.shape[axis]:
            raise ValueError("when 1d, distances must match the length of the corresponding "
                             "dimension")
        if np.issubdtype(places.dtype, np.integer):
            places = places.astype(np.float64)
        steps = np.diff(places)
        spaces.append(steps[0] if (steps == steps[0]).all() else steps)
    return spaces


def _slope(x: Array, axis: int, space: Any, edge_order: int) -> Array:
    def at(start: int | None, stop: int | None) -> Array:
        return along(x, axis, slice(start, stop))

    def spread(values: Any) -> Any:
        shape = [1] * x.ndim
        shape[axis] = -1
        return np.reshape(values, shape)

    n = x.shape[axis]
    even = np.ndim(space) == 0
    first, last = (space, space) if even else (space[0], space[-1])
    parts = []
    if edge_order == 1:
        parts.append((at(1, 2) - at(0, 1)) / first)
    else:
        three = at(0, 1), at(1, 2), at(2, 3)
        parts.append(_outermost(three, space if even else space[:2], even, False))
    if n > 2:
        before, after = neighbours(x, axis, 2)
        if even:
            parts.append((after - before) / (2.0 * space))
        else:
            middle = Array(rechunk(at(1, -1).expr, before.chunks))
            left, right = space[:-1], space[1:]
            parts.append(
                spread(-right / (left * (left + right))) * before
                + spread((right - left) / (left * right)) * middle
                + spread(left / (right * (left + right))) * after
            )
    if edge_order == 1:
        parts.append((at(-1, None) - at(-2, -1)) / last)
    else:
        three = at(-3, -2), at(-2, -1), at(-1, None)
        parts.append(_outermost(three, space if even else space[-2:], even, True))
    same = [astype(part, x.dtype) for part in parts]
    joined = astype(concatenate(same, axis=axis), x.dtype)
    return Array(rechunk(joined.expr, x.chunks))


def _outermost(three: tuple[Array, Array, Array], space: Any, even: bool, last: bool) -> Array:
    """Return the slope at the last, or else the first, of three points, to the second order."""
    factors: tuple[Any, Any, Any]
    if even:
        factors = (0.5, -2.0, 1.5) if last else (-1.5, 2.0, -0.5)
        factors = tuple([each / space for each in factors])
    else:
        a, b = space
        of_two = (a + b) / (a * b)
        if last:
            factors = b / (a * (a + b)), -of_two, (2.0 * b + a) / (b * (a + b))
        else:
            factors = -(2.0 * a + b) / (a * (a + b)), of_two, -a / (b * (a + b))
    one, two, three_ = (factor * x for factor, x in zip(factors, three, strict=True))
    return one + two + three_


# -- jumps --------------------------------------------------------------------------------------


def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> Array:
    """Return an array without jumps of periods along an axis; parameters as ``np.unwrap``.

    >>> import lazyflow.array as la
    >>> la.unwrap(la.from_array([0, 1, 2, -1, 0], chunks=2), period=4).compute()
    array([0, 1, 2, 3, 4])
    """
    x: Any = as_array(p).with_known_sizes()
    axis = axis_of(axis, x.ndim)
    steps = diff(x, axis=axis)
    dtype = np.result_type(steps.dtype, period)
    if np.issubdtype(dtype, np.integer):
        high, rest = divmod(period, 2)
    else:
        high, rest = period / 2, 0
    within = (steps + high) % period - high
    if rest == 0:  # half a period may be one up or one down: as the step is
        within = where((within == -high) & (steps > 0), high, within)
    corrected = where(abs(steps) < (period / 2 if discont is None else discont), 0, within - steps)
    later = along(x, axis, slice(1, None)) + cumsum(corrected, axis)
    first = astype(along(x, axis, slice(None, 1)), dtype)
    return Array(rechunk(concatenate([first, astype(later, dtype)], axis=axis).expr, x.chunks))


# -- areas --------------------------------------------------------------------------------------


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """Return the area under points joined by lines; parameters are those of ``np.trapezoid``.

    >>> import lazyflow.array as la
    >>> x = la.linspace(0, 1, 101, chunks=20)
    >>> round(float(la.trapezoid(x**2, x).compute()), 6)
    0.33335
    """
    resolve_lengths(y, x)
    heights = as_array(y)
    axis = axis_of(axis, heights.ndim)
    steps: Any = dx
    if x is not None:
        places = as_array(x)
        steps = diff(places, axis=axis if places.ndim > 1 else 0)
        if places.ndim == 1 and heights.ndim > 1:
            steps = steps[(*[None] * axis, slice(None), *[None] * (heights.ndim - axis - 1))]
    before, after = neighbours(heights, axis)
    return totals.sum(steps * (after + before) / 2.0, axis)
