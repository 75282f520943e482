"""Functions of elements near each other: coarser arrays, and gaps filled with what is before.

`coarsen` moves the ends of chunks to multiples of the groups, gives each group an axis of its own
by a reshape, and calls the reduction once, for the whole lazy array. `push` fills each block by
itself, then carries the last elements of all blocks along the axis in one small task for each row
of blocks, and fills what is left: blocks are filled in parallel, and chunks stay.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.elementwise import notnull, where
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.rearranging import along
from lazyflow.array.functions.ranges import arange
from lazyflow.array.functions.reductions.totals import ufunc_accumulate
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axis_of
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock


def coarsen(
    reduction: Callable[..., Any], x: ArrayLike, axes: Mapping[int, int],
    trim_excess: bool = False, **kwargs: Any,
) -> Array:
    """Return an array in which a reduction replaces groups of neighbours by one element each.

    Parameters
    ----------
    reduction
        Called with an array and ``axis=``, a tuple, as NumPy's or your own.
    x
        The array.
    axes
        How many neighbours become one, by axis.
    trim_excess
        Drop elements at the end of an axis that fill no group.
    **kwargs
        Of the reduction.

    Raises
    ------
    ValueError
        A length is not a multiple of its group, and `trim_excess` is False.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.coarsen(np.sum, la.arange(7, chunks=4), {0: 2}, trim_excess=True).compute()
    array([1, 5, 9])
    """
    x = as_array(x).with_known_sizes()
    factors = [1] * x.ndim
    for axis, n in axes.items():
        factors[axis_of(axis, x.ndim)] = operator.index(n)
    if min(factors, default=1) < 1:
        raise ValueError(f"axes= says how many neighbours become one, 1 or more; got {axes}")
    if trim_excess:
        x = x[tuple([slice(n - n % f) for n, f in zip(x.shape, factors, strict=True)])]
    elif any(n % f for n, f in zip(x.shape, factors, strict=True)):
        raise ValueError(
            f"the shape {x.shape} is not a multiple of {tuple(factors)} along each axis: pass "
            "trim_excess=True to leave out what is left at the ends"
        )
    cut = tuple([
        tuple(np.diff(sorted({0, *(np.cumsum(sizes) // f * f).tolist(), n})).tolist()) or (0,)
        for sizes, f, n in zip(x.chunks, factors, x.shape, strict=True)
    ])
    apart = [k for n, f in zip(x.shape, factors, strict=True) for k in (n // f, f)]
    blocks = Array(rechunk(x.expr, cut)).reshape(apart)
    return as_array(reduction(blocks, axis=tuple(range(1, 2 * x.ndim, 2)), **kwargs))


def push(array: ArrayLike, n: int | None = None, axis: int = -1) -> Array:
    """Return an array whose missing elements are the last ones before them along an axis.

    Parameters
    ----------
    array
        Floats; NaN is missing. Of other types nothing is, but NaT.
    n
        How many missing elements in a row are filled; None: all.
    axis
        The axis; its chunks stay as they are.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.push(la.from_array([np.nan, 1, np.nan, np.nan, 4], chunks=2), 1).compute()
    array([nan,  1.,  1., nan,  4.])
    """
    x = as_array(array).with_known_sizes()
    axis = axis_of(axis, x.ndim)
    if not x.size or x.dtype.kind not in "fcmM":
        return x
    func = named("push", _pushed, axis)
    own = PerBlock((x.expr,), func, x.dtype, x.chunks)
    ones = (*x.chunks[:axis], (1,) * len(x.chunks[axis]), *x.chunks[axis + 1:])
    last = PerBlock((own,), named("push-last", _last, axis), x.dtype, ones)
    whole = (*x.chunks[:axis], (len(ones[axis]),), *x.chunks[axis + 1:])
    ends = Array(rechunk(PerBlock((rechunk(last, whole),), func, x.dtype, whole), ones))
    missing = np.full((1,) * x.ndim, np.nan if x.dtype.kind in "fc" else "NaT", x.dtype)
    first = np.broadcast_to(missing, [1 if k == axis else m for k, m in enumerate(x.shape)])
    before = concatenate([first, along(ends, axis, slice(None, -1))], axis=axis)
    carried = rechunk(before.expr, ones)
    filled = Array(PerBlock((own, carried), named("push", _filled, axis), x.dtype, x.chunks))
    if n is None:
        return filled
    places = arange(x.shape[axis], chunks=(x.chunks[axis],))
    places = places[(slice(None), *[None] * (x.ndim - axis - 1))]
    seen: Any = ufunc_accumulate(np.maximum, where(notnull(x), places, -1), axis)
    return where(places - seen <= operator.index(n), filled, missing)


def _pushed(axis: int, block: Any) -> Any:
    there = _there(block)
    if there.all():
        return block
    places = np.arange(block.shape[axis]).reshape([-1] + [1] * (block.ndim - axis - 1))
    at = np.where(there, places, 0)
    np.maximum.accumulate(at, axis=axis, out=at)
    return np.take_along_axis(block, at, axis)


def _there(block: Any) -> Any:
    return ~(np.isnat(block) if block.dtype.kind in "mM" else np.isnan(block))


def _last(axis: int, block: Any) -> Any:
    n = block.shape[axis]
    return np.take(block, [n - 1], axis) if n else np.full(
        [1 if k == axis else m for k, m in enumerate(block.shape)], np.nan
    ).astype(block.dtype)


def _filled(axis: int, block: Any, before: Any) -> Any:
    there = _there(block)
    return block if there.all() else np.where(there, block, before)
