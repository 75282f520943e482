"""Functions that take elements by their indices: `take`, `compress`, `diagonal`, ...

The chunks of a result depend on the indices, so lazy ones are computed at the call; the elements
stay lazy and are gathered (nodes/indexing/gather.py). Only a lazy condition of `compress` and
`extract` that has the length or shape of the array stays lazy, and the length of the result is
unknown. `delete` joins slices where it leaves up to 16 runs of elements, and uses a mask otherwise.
`insert` at one place joins slices; at several it takes elements and writes the values between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike, as_1d, as_array, as_result
from lazyflow.array.functions.creation import eye, tri, zeros
from lazyflow.array.functions.elementwise import where
from lazyflow.array.functions.indexing.index_arrays import (
    as_indices,
    checked_indices,
    compute_integers,
    split_key,
    take_by_arrays,
    take_by_mask,
    take_points,
)
from lazyflow.array.functions.manipulation.shaping import broadcast_to, flat
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.indexing.gather import gather
from lazyflow.array.nodes.indexing.keys import is_basic, parse
from lazyflow.array.nodes.joined import concatenated
from lazyflow.array.nodes.reductions import axis_of

_RUNS = 16  # slices that are joined where elements are deleted, at most; a guess


def getitem_by_arrays(x: Array, entries: list[Any]) -> Array:
    """Return ``x[key]`` for a key with index arrays."""
    return Array(take_by_arrays(x, entries))


class PointIndexer:
    """The attribute ``x.vindex``: index arrays take points, whose axes come first in the result.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.from_array(np.arange(12).reshape(3, 4), chunks=2)
    >>> x.vindex[[0, 1, 2], [3, 2, 1]].compute()
    array([3, 6, 9])
    """

    def __init__(self, x: Array) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        if any(each is None for each in keys):
            raise IndexError("vindex does not support indexing with None (np.newaxis)")
        entries = compute_integers(parse(key, self._x.shape))
        if is_basic(entries):
            return self._x[tuple(entries)]
        parts = split_key(entries)
        base = self._x[tuple(parts.basic)]  # integers go with slices: they broadcast
        return Array(take_points(base.expr, as_indices(base, parts.arrays)))


def vindex_of(x: Array) -> PointIndexer:
    """Return ``x.vindex``."""
    return PointIndexer(x)


def check_mode(mode: Any) -> None:
    """Raise as NumPy for a word that says nothing of indices out of bounds."""
    if mode not in ("wrap", "clip", "raise"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


def _indices_by_mode(
    at: np.ndarray[Any, Any], axis: int, n: int, mode: str, times: int = 1
) -> np.ndarray[Any, Any]:
    """Return indices, none of them negative, of an axis that is taken from some times."""
    check_mode(mode)
    if not n and at.size:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "raise" and times:  # if never, NumPy takes any
        return checked_indices(at, axis, n)
    return (at % n if mode == "wrap" else at.clip(0, n - 1)).astype(np.intp)


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Array | None = None,
    mode: str = "raise"
) -> Array:
    """Return elements by their indices along an axis; without `axis`, of all elements in C order.

    Parameters are those of ``np.take``. Lazy indices are computed: the chunks depend on them.

    Raises
    ------
    IndexError
        An index is out of bounds with ``mode="raise"``, or there is nothing to take of.
    ValueError
        `mode` is none of "raise", "wrap" and "clip".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.take(la.arange(0, 50, 10, chunks=2), [4, 0, 1]).compute()
    array([40,  0, 10])
    """
    x = as_1d(a, axis).with_known_sizes()
    at = np.asarray(indices)
    if at.dtype.kind not in "iub" and at.size:
        np.zeros(1).take(np.zeros(1, at.dtype))  # refuses, in its words
    at = at.astype(np.intp)
    if axis is None:
        made = _flat(x, _indices_by_mode(at, 0, x.size, mode))
    else:
        axis = axis_of(axis, x.ndim)
        places = _indices_by_mode(at, axis, x.shape[axis], mode, prod(x.shape[:axis]))
        if not places.ndim:
            made = x[(slice(None),) * axis + (int(places),)].expr
        else:
            made = gather(x.expr, (axis,), (places,))
    return as_result(made, out, "unsafe")


def _flat(x: Array, at: np.ndarray[Any, Any]) -> Expr:
    """Return elements by their indices in C order."""
    x = x if x.ndim else x[None]
    places = np.unravel_index(at, x.shape)
    if not at.ndim:
        return x[tuple(map(int, places))].expr
    return gather(x.expr, tuple(range(x.ndim)), places)


def shuffle(
    x: ArrayLike, indexer: Sequence[Sequence[int]], axis: int, chunks: str = "auto"
) -> Array:
    """Return an array with the elements along an axis in groups; no group spans two chunks.

    Parameters
    ----------
    x
        The array.
    indexer
        Lists of indices: the groups. Neighbours share a chunk up to 1.25 times the mean length of
        the chunks that `x` has.
    axis
        The axis.
    chunks
        "auto", for dask's signature.

    Raises
    ------
    IndexError
        An index is out of bounds.
    ValueError
        `indexer` is no list of lists.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> y = la.shuffle(la.arange(8, chunks=4), [[6, 5, 2], [4, 1], [3, 0, 7]], axis=0)
    >>> y.chunks, y.compute()
    (((5, 3),), array([6, 5, 2, 4, 1, 3, 0, 7]))
    """
    x = as_array(x).with_known_sizes()
    axis = axis_of(axis, x.ndim)
    groups = [np.asarray(each, dtype=np.intp) for each in indexer]
    if chunks != "auto":
        raise ValueError(f"chunks= of shuffle() is 'auto', as in dask; got {chunks!r}")
    if any(each.ndim != 1 for each in groups):
        raise ValueError("indexer= is a list of lists of indices, one for each group")
    n: int = x.shape[axis]
    mean = n / len(x.chunks[axis])
    sizes = [0]
    for size in map(len, groups):
        if sizes[-1] and (sizes[-1] > mean or sizes[-1] + size > int(mean * 1.25)):
            sizes.append(0)
        sizes[-1] += size
    at = checked_indices(np.concatenate(groups or [np.zeros(0, np.intp)]), axis, n)
    return Array(gather(x.expr, (axis,), (at,), (tuple(sizes),)))


def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Array | None = None
) -> Array:
    """Return what a 1-d condition chooses along an axis.

    Without `axis` it chooses among all elements, in C order.

    Raises
    ------
    ValueError
        `condition` doesn't have exactly one axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.compress([True, False, True], la.arange(6, chunks=2).reshape(2, 3), axis=1).compute()
    array([[0, 2],
           [3, 5]])
    """
    x = as_1d(a, axis)
    if as_node(condition).ndim != 1:
        raise ValueError("condition must be a 1-d array")
    if axis is None and x.ndim != 1:
        return take(x, np.flatnonzero(np.asarray(condition)), None, out)
    axis = 0 if axis is None else axis_of(axis, x.ndim)
    resolve_lengths(x)
    n = x.shape[axis]
    if isinstance(condition, Array) and condition.with_known_sizes().shape[0] == n:
        made = take_by_mask(x, Array(elementwise.not_zero(condition.expr)), axis)
        return as_result(made, out, "unsafe")
    return take(x, np.flatnonzero(np.asarray(condition)), axis, out)


def compress_method(
    a: Array, condition: ArrayLike, axis: int | None = None, out: Array | None = None
) -> Array:
    """Return ``la.compress(condition, a, axis, out)``."""
    return compress(condition, a, axis, out)


def extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    """Return the elements for which a condition of the array's shape holds, in C order.

    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=4)
    >>> la.extract(x % 2 == 1, x).compute()
    array([1, 3, 5])
    """
    x = as_array(arr)
    mask = Array(elementwise.not_zero(as_node(condition)))
    resolve_lengths(x, mask)
    if mask.shape == x.shape and x.ndim:
        return x[mask]
    return take(x, np.flatnonzero(np.asarray(mask)))


def delete(arr: ArrayLike, obj: int | slice | ArrayLike, axis: int | None = None) -> Array:
    """Return the array without some indices of an axis; without `axis`, of all elements in C order.

    Raises
    ------
    IndexError
        There is no place `obj`.
    ValueError
        `obj` is a mask of another length, or has several axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.delete(la.arange(5, chunks=2), [0, 3]).compute()
    array([1, 2, 4])
    """
    x = as_array(arr).with_known_sizes()
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    gone: Any = obj
    if not isinstance(obj, slice | int):
        gone = np.asarray(gone) if isinstance(gone, Array | np.ndarray) or np.size(gone) else []
    keep = np.ones(x.shape[axis], bool)
    try:
        np.delete(keep, gone)
    except IndexError as error:
        raise IndexError(str(error).replace("axis 0", f"axis {axis}")) from None
    except ValueError as error:  # a boolean array of another length
        raise ValueError(str(error).replace("axis 0", f"axis {axis}")) from None
    keep[gone] = False
    edges = np.diff(keep, prepend=False, append=False)
    if np.count_nonzero(edges) > 2 * _RUNS:
        return Array(take_by_mask(x, keep, axis))
    runs = edges.nonzero()[0].reshape(-1, 2).tolist()
    return _joined([_part(x, axis, *run) for run in runs or [[0, 0]]], axis)


def _part(x: Array, axis: int, start: int, stop: int) -> Array:
    part: Array = x[(*(slice(None),) * axis, slice(start, stop))]
    return part


def _joined(parts: list[Array], axis: int) -> Array:
    return Array(concatenated([x.expr for x in parts], axis))


def insert(
    arr: ArrayLike, obj: int | slice | ArrayLike, values: ArrayLike, axis: int | None = None
) -> Array:
    """Return the array with values put in before some indices.

    Parameters are those of ``np.insert``.

    Raises
    ------
    IndexError
        There is no place `obj`.
    ValueError
        `values` don't fit the other axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.insert(la.arange(4, chunks=2), 2, [7, 8]).compute()
    array([0, 1, 7, 8, 2, 3])
    """
    x = as_array(arr).with_known_sizes()
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    value = as_array(values if isinstance(values, Array) else np.array(values, x.dtype))
    resolve_lengths(value)
    value = value[(None,) * (x.ndim - value.ndim)]
    at = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if not at.size and not isinstance(obj, np.ndarray | Array):  # [] has no type, in NumPy, too
        at = at.astype(np.intp)
    if at.dtype == bool and at.ndim == 1:
        at = np.flatnonzero(at)
    if at.size == 1 and at.dtype != bool:  # values may be several places
        place = at.item()
        if not -n <= place <= n:
            raise IndexError(f"index {place} is out of bounds for axis {axis} with size {n}")
        if not at.ndim:  # x[:, place] and x[:, [place]] differ in what they broadcast
            value = value.transpose((*range(1, axis + 1), 0, *range(axis + 1, value.ndim)))
        if value.ndim == x.ndim:
            new = broadcast_to(value, (*x.shape[:axis], value.shape[axis], *x.shape[axis + 1:]))
            place += n * (place < 0)
            parts = [_part(x, axis, 0, place), new.astype(x.dtype), _part(x, axis, place, n)]
            return _joined(parts, axis)
        at = at.repeat(value.shape[axis])
    try:
        count = len(np.insert(np.arange(n), at, -1)) - n
    except IndexError as error:
        raise IndexError(str(error).replace("axis 0", f"axis {axis}")) from None
    where = np.insert(np.arange(n), at, -np.arange(count, 0, -1))
    added = np.flatnonzero(where < 0)
    added = added[where[added].argsort()]  # in the order of the values
    lead = (slice(None),) * axis
    if n:
        where[added] = 0
        made = take(x, where, axis)
    else:
        shape = (*x.shape[:axis], len(where), *x.shape[axis + 1:])
        made = zeros(shape, x.dtype)
    made[(*lead, added)] = value
    return made


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return diagonals of matrices, along the last axis; parameters are those of ``np.diagonal``.

    Raises
    ------
    ValueError
        The array has fewer than two axes, or `axis1` is `axis2`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.diagonal(la.arange(6, chunks=3).reshape(2, 3), offset=1).compute()
    array([1, 5])
    """
    x = as_array(a)
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    one, other = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    if one == other:
        raise ValueError("axis1 and axis2 cannot be the same")
    resolve_lengths(x)
    rows, columns = max(-offset, 0), max(offset, 0)
    count = max(min(x.shape[one] - rows, x.shape[other] - columns), 0)
    at = np.arange(count)
    places = dict(sorted({one: at + rows, other: at + columns}.items()))
    made = Array(gather(x.expr, tuple(places), tuple(places.values())))
    return made.transpose((*range(1, made.ndim), 0))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return a diagonal of a matrix, or a matrix with a 1-d array on a diagonal.

    Raises
    ------
    ValueError
        The array has neither one nor two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.diag(la.arange(9, chunks=3).reshape(3, 3)).compute()
    array([0, 4, 8])
    >>> la.diag(la.asarray([1, 2])).compute()
    array([[1, 0],
           [0, 2]])
    """
    x = as_array(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    resolve_lengths(x)
    n = x.shape[0]
    if not n:
        return zeros((abs(k), abs(k)), x.dtype)
    rows = take(x, np.arange(-max(-k, 0), n + max(k, 0)), mode="clip")
    on = eye(n + abs(k), k=k, dtype=bool, chunks=(rows.chunks[0], rows.chunks[0]))
    return where(on, rows[:, None], np.zeros((), x.dtype)).astype(x.dtype)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return a matrix with all elements, in C order, on a diagonal.

    >>> import lazyflow.array as la
    >>> la.diagflat(la.asarray([[1, 2]])).compute()
    array([[1, 0],
           [0, 2]])
    """
    return diag(flat(v), k)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """Return the array with zeros above a diagonal of its last two axes.

    Raises
    ------
    ValueError
        The array has no axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.tril(la.ones((3, 3), dtype=int, chunks=2)).compute()
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return _triangle(m, k, True)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """Return the array with zeros below a diagonal of its last two axes.

    Raises
    ------
    ValueError
        The array has no axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.triu(la.ones((3, 3), dtype=int, chunks=2), k=1).compute()
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """
    return _triangle(m, k - 1, False)


def _triangle(m: Any, k: int, lower: bool) -> Array:
    x = as_array(m).with_known_sizes()
    if x.ndim == 1:  # as NumPy: each row is the array
        x = broadcast_to(x, (x.shape[0], x.shape[0]))
    if x.ndim < 2:
        raise ValueError("tril and triu need an array of at least one dimension")
    chunks = x.chunks[-2:]
    below = tri(x.shape[-2], x.shape[-1], k=k, dtype=bool, chunks=chunks)
    zero = np.zeros((), x.dtype)
    return where(below, x, zero) if lower else where(below, zero, x)
