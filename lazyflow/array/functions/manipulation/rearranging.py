"""Functions that put elements in other places: flip, roll, repeat, tile, split.

The functions are made of views, joins, takes and reshapes, and have no tasks of their own. `roll`
gives the result the chunks of the argument. `tile`, and `repeat` with one number, broadcast along a
new axis that a reshape then joins with the old one. `repeat` with a number for each element needs
these numbers at the call, as `trim_zeros` needs the places of the outermost elements: both are
computed. Parts, as of `split`, are views.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow import config
from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    Axes,
    ShapeLike,
    as_1d,
    as_array,
    broadcast_node,
    lengths_of,
)
from lazyflow.array.functions.creation import zeros
from lazyflow.array.functions.indexing.taking import take
from lazyflow.array.functions.manipulation.joining import concatenate, stack
from lazyflow.array.functions.manipulation.shaping import expand_dims, ravel, transpose
from lazyflow.array.functions.ranges import arange
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.reductions import axis_of
from lazyflow.array.nodes.reshaped import reshaped


def along(x: Array, axis: int, key: Any) -> Array:
    """Return the part that an index along one axis takes."""
    return x[(*[slice(None)] * axis, key)]


# -- flips and rolls ------------------------------------------------------------------------------


def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """Return an array with the elements along axes in reverse order: all axes, or those given.

    >>> import lazyflow.array as la
    >>> la.flip(la.arange(4, chunks=3)).compute()
    array([3, 2, 1, 0])
    """
    x = as_array(m)
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x[tuple([slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim)])]


def flipud(m: ArrayLike) -> Array:
    """Return an array with its rows in reverse order.

    Raises
    ------
    ValueError
        The array has no axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.flipud(la.asarray([[1, 2], [3, 4]])).compute()
    array([[3, 4],
           [1, 2]])
    """
    if as_array(m).ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, 0)


def fliplr(m: ArrayLike) -> Array:
    """Return an array with the elements of each row in reverse order.

    Raises
    ------
    ValueError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.fliplr(la.asarray([[1, 2], [3, 4]])).compute()
    array([[2, 1],
           [4, 3]])
    """
    if as_array(m).ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Return an array turned by 90 degrees `k` times, from the first of `axes` towards the second.

    Raises
    ------
    ValueError
        `axes` are not two different axes of the array.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.rot90(la.asarray([[1, 2], [3, 4]])).compute()
    array([[2, 4],
           [1, 3]])
    """
    x = as_array(m)
    if len(tuple(axes)) != 2:
        raise ValueError("len(axes) must be 2.")
    one, other = axes
    if one == other or abs(one - other) == x.ndim:
        raise ValueError("Axes must be different.")
    if not all(-x.ndim <= axis < x.ndim for axis in (one, other)):
        raise ValueError(f"Axes={axes} out of range for array of ndim={x.ndim}.")
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (one, other))
    order = list(range(x.ndim))
    order[one], order[other] = order[other], order[one]
    return transpose(flip(x, other), order) if k == 1 else flip(transpose(x, order), other)


def roll(a: ArrayLike, shift: int | Sequence[int], axis: Axes = None) -> Array:
    """Return an array shifted along axes; elements past the end move to the beginning.

    Chunks stay as they are.

    Raises
    ------
    ValueError
        `shift` or `axis` has more than one axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.roll(la.arange(5, chunks=2), 2).compute()
    array([3, 4, 0, 1, 2])
    """
    x = as_array(a).with_known_sizes()
    if axis is None:
        return roll(ravel(x), shift, 0).reshape(x.shape)
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    pairs = np.broadcast(shift, axes)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts = dict.fromkeys(range(x.ndim), 0)
    for by, k in pairs:
        shifts[int(k)] += operator.index(by)
    found = x
    for k, by in shifts.items():
        n = x.shape[k]
        if n and by % n:
            cut = n - by % n
            parts = [along(found, k, slice(cut, None)), along(found, k, slice(None, cut))]
            found = concatenate(parts, k)
    return found.rechunk(x.chunks).astype(x.dtype)


# -- copies ---------------------------------------------------------------------------------------


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array:
    """Return an array with each element, or each index of an axis, repeated.

    Parameters
    ----------
    repeats
        How often: one number for all, or one for each; lazy ones are computed.

    Raises
    ------
    TypeError
        `repeats` is an array of other than whole numbers, or of several axes.
    ValueError
        `repeats` are negative, or neither one nor as many as the axis is long.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.repeat(la.arange(3, chunks=2), 2).compute()
    array([0, 0, 1, 1, 2, 2])
    >>> la.repeat(la.asarray([[1, 2], [3, 4]]), [1, 2], axis=0).compute()
    array([[1, 2],
           [3, 4],
           [3, 4]])
    """
    x = as_1d(a, axis)
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_of(axis, x.ndim)
    resolve_lengths(x)
    counts = np.asarray(repeats)
    if not isinstance(repeats, np.ndarray):  # as NumPy does it: 2.0 and [] are integers
        counts = counts.astype(np.intp)
    if counts.dtype.kind not in "iub" or counts.ndim > 1:
        raise TypeError(f"repeats must be an integer or integers along one axis; got {repeats!r}")
    if (counts < 0).any():
        raise ValueError("repeats may not contain negative values.")
    if counts.size == 1:
        return _copies(x, axis, int(counts.ravel()[0]), axis + 1)
    n = x.shape[axis]
    if len(counts) != n:
        raise ValueError(
            f"operands could not be broadcast together with shape ({n},) ({len(counts)},)"
        )
    return take(x, np.repeat(np.arange(n), counts), axis=axis)


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """Return copies of an array side by side, as many along each axis as `reps` says.

    Raises
    ------
    ValueError
        `reps` are negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.tile(la.asarray([1, 2]), (2, 2)).compute()
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    counts = lengths_of(reps)
    x = as_array(A).with_known_sizes()
    if x.ndim < len(counts):
        x = x[(None,) * (len(counts) - x.ndim)]
    counts = (1,) * (x.ndim - len(counts)) + counts
    for axis, count in enumerate(counts):
        if count < 0:
            raise ValueError("negative dimensions are not allowed")
        x = _copies(x, axis, count, axis)
    return x


def _copies(x: Array, axis: int, count: int, place: int) -> Array:
    """Return an axis as it is after a new one of this length was put at a place beside it."""
    if count == 1:
        return x
    n = x.shape[axis]
    shape = [*x.shape[:axis], n * count, *x.shape[axis + 1:]]
    if not x.size or not count:
        return zeros(shape, x.dtype, chunks=-1)
    wide = expand_dims(x, place)
    node = broadcast_node(wide.expr, (*wide.shape[:place], count, *wide.shape[place:][1:]))
    others = prod([max(sizes) for k, sizes in enumerate(x.chunks) if k != axis])
    limit = config.get("chunk_bytes") // max(x.itemsize, 1)
    return Array(reshaped(node, tuple(shape), max(limit, others * max(x.chunks[axis]))))


# -- parts ----------------------------------------------------------------------------------------


def array_split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Array]:
    """Return parts of an array along an axis, of about equal lengths or cut at some indices.

    Raises
    ------
    ValueError
        There would be fewer than one section.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [part.compute().tolist() for part in la.array_split(la.arange(7, chunks=4), 3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    x = as_array(ary)
    axis = axis_of(axis, x.ndim)
    resolve_lengths(x)
    n = x.shape[axis]
    given: Any = indices_or_sections
    if np.ndim(given):
        cuts = [0, *map(operator.index, given), n]
    else:
        count = operator.index(given)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, more = divmod(n, count)
        cuts = [i * each + min(i, more) for i in range(count + 1)]
    return [along(x, axis, slice(a, b)) for a, b in pairwise(cuts)]


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the parts of an array at each index of an axis, without this axis.

    Raises
    ------
    ValueError
        The array has no axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [part.compute().tolist() for part in la.unstack(la.asarray([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    x = as_array(x).with_known_sizes()
    if not x.ndim:
        raise ValueError("Input array must be at least 1-d.")
    before = (slice(None),) * axis_of(axis, x.ndim)
    return tuple([x[(*before, i)] for i in range(x.shape[len(before)])])


def split(ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return equal parts of an array along an axis, or parts that are cut at some indices.

    Raises
    ------
    ValueError
        The axis can't be divided into equal parts; `array_split` makes uneven ones.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [part.compute().tolist() for part in la.split(la.arange(6, chunks=4), 3)]
    [[0, 1], [2, 3], [4, 5]]
    >>> [part.shape for part in la.split(la.arange(6, chunks=4), [1, 4])]
    [(1,), (3,), (2,)]
    """
    x = as_array(ary)
    sections: Any = indices_or_sections
    if not np.ndim(sections):
        resolve_lengths(x)
        n = x.shape[axis_of(axis, x.ndim)]
        if sections > 0 and n % sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return parts of an array along the second axis, of a 1-d array along the first, as `split`.

    Raises
    ------
    ValueError
        The array has no axis, or a length is no multiple of the number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [part.shape for part in la.hsplit(la.ones((2, 6)), [1, 3])]
    [(2, 1), (2, 2), (2, 3)]
    """
    x = as_array(ary)
    if x.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return parts of an array along the first axis, as `split`.

    Raises
    ------
    ValueError
        The array has fewer than two axes, or a length is no multiple of the number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [part.shape for part in la.vsplit(la.ones((4, 3)), 2)]
    [(2, 3), (2, 3)]
    """
    x = as_array(ary)
    if x.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(x, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return parts of an array along the third axis, as `split`.

    Raises
    ------
    ValueError
        The array has fewer than three axes, or a length is no multiple of the number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [part.shape for part in la.dsplit(la.ones((2, 2, 6)), 3)]
    [(2, 2, 2), (2, 2, 2), (2, 2, 2)]
    """
    x = as_array(ary)
    if x.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(x, indices_or_sections, 2)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Array:
    """Return an array without the zeros at the ends of axes.

    Parameters are those of ``np.trim_zeros``.

    The zeros are counted when this is called.

    Raises
    ------
    ValueError
        `trim` has other letters than "f" and "b".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.trim_zeros(la.from_array([0, 0, 1, 0, 2, 0], chunks=3)).compute()
    array([1, 0, 2])
    """
    x = as_array(filt).with_known_sizes()
    ends = trim.lower()
    if ends not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {ends!r}")
    axes = range(x.ndim) if axis is None else sorted(
        normalize_axis_tuple(axis, x.ndim, "axis")
    )
    if not axes:
        return x
    there = (x != 0) if x.dtype.hasobject else Array(elementwise.not_zero(x.expr))
    bounds = []
    for k in axes:
        hit = there.any(axis=tuple([other for other in range(x.ndim) if other != k]))
        n = x.shape[k]
        at = arange(n, chunks=hit.chunks).expr
        bounds.append(Array(elementwise.where(hit.expr, at, n)).min(initial=n))
        bounds.append(Array(elementwise.where(hit.expr, at, -1)).max(initial=-1))
    computed = iter(np.asarray(stack(bounds)).tolist())
    slices = [slice(None)] * x.ndim
    for k, first, last in zip(axes, computed, computed, strict=True):
        nothing = last < 0
        slices[k] = slice(0, 0) if nothing else slice(
            first if "f" in ends else None, last + 1 if "b" in ends else None
        )
    return x[tuple(slices)]


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """Return an array of another shape, filled with repeated elements, as ``np.resize``.

    Raises
    ------
    ValueError
        A length is negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.resize(la.arange(3), (2, 4)).compute()
    array([[0, 1, 2, 0],
           [1, 2, 0, 1]])
    """
    shape = lengths_of(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    x, count = ravel(a).with_known_sizes(), prod(shape)
    if not (x.size and count):
        return zeros(shape, x.dtype)
    if count > x.size:
        x = tile(x, -(-count // x.size))
    return x[:count].reshape(shape).astype(np.result_type(x.dtype))  # of native byte order
