"""The indices of grids and triangles, and coordinates of grids."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import ArrayLike, ChunksLike, ShapeLike, as_array
from lazyflow.array.functions.creation import ones, tri, zeros
from lazyflow.array.functions.indexing.nonzero import nonzero
from lazyflow.array.functions.manipulation.axes import swapaxes
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.manipulation.shaping import broadcast_arrays, broadcast_to, ravel
from lazyflow.array.functions.ranges import arange
from lazyflow.array.nodes import elementwise


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """Return coordinates of a grid, one array for each axis.

    Parameters are those of ``np.meshgrid``.

    Results are views until they are computed, whatever `copy` says.

    >>> import lazyflow.array as la
    >>> x, y = la.meshgrid(la.arange(3), la.arange(2))
    >>> (x + 10 * y).compute()
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    count = len(xi)
    found = []
    for k, x in enumerate(xi):
        flat = ravel(as_array(x))
        found.append(flat[tuple([slice(None) if i == k else None for i in range(count)])])
    if indexing == "xy" and count > 1:
        found = [swapaxes(x, 0, 1) for x in found]
    return tuple(found) if sparse or not found else broadcast_arrays(*found)


def indices(
    dimensions: Sequence[int], dtype: Any = int, sparse: bool = False, *,
    chunks: ChunksLike = "auto"
) -> Any:
    """Return the indices of a grid, one array along the first axis for each axis of the grid.

    With ``sparse=True`` it is a tuple of arrays that broadcast to the grid.

    >>> import lazyflow.array as la
    >>> rows, columns = la.indices((2, 3), chunks=2)
    >>> (10 * rows + columns).compute()
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    shape = tuple(map(operator.index, dimensions))
    if dtype is None and not sparse:
        dtype = float  # NumPy's np.empty decides
    sizes = normalize_chunks(chunks, shape, None, dtype)
    thin = tuple([
        arange(n, dtype=dtype, chunks=(sizes[k],))[
            tuple([slice(None) if i == k else None for i in builtins.range(len(shape))])
        ]
        for k, n in enumerate(shape)
    ])
    if sparse:
        return thin
    if not thin:
        return zeros((0,), dtype)
    return stack([broadcast_to(x, shape, chunks=sizes) for x in thin])


def tril_indices(n: int, k: int = 0, m: int | None = None, *, chunks: ChunksLike = "auto") -> Any:
    """Return the indices of what is on and below a diagonal of an ``n`` by ``m`` matrix.

    >>> import lazyflow.array as la
    >>> rows, columns = la.tril_indices(3)
    >>> rows.compute(), columns.compute()
    (array([0, 1, 1, 2, 2, 2]), array([0, 0, 1, 0, 1, 2]))
    """
    return nonzero(tri(n, m, k=k, dtype=bool, chunks=chunks))


def triu_indices(n: int, k: int = 0, m: int | None = None, *, chunks: ChunksLike = "auto") -> Any:
    """Return the indices of what is on and above a diagonal of an ``n`` by ``m`` matrix.

    >>> import lazyflow.array as la
    >>> rows, columns = la.triu_indices(3, k=1)
    >>> rows.compute(), columns.compute()
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    return nonzero(np.logical_not(tri(n, m, k=k - 1, dtype=bool, chunks=chunks)))


def _matrix(arr: Any) -> Array:
    x = as_array(arr)
    if x.ndim != 2:
        raise ValueError("input array must be 2-d")
    return x.with_known_sizes()


def tril_indices_from(arr: ArrayLike, k: int = 0) -> Any:
    """Return the indices of what is on and below a diagonal of this matrix.

    >>> import lazyflow.array as la
    >>> rows, columns = la.tril_indices_from(la.ones((2, 2)))
    >>> rows.compute(), columns.compute()
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    x = _matrix(arr)
    return tril_indices(x.shape[0], k, x.shape[1], chunks=x.chunks)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> Any:
    """Return the indices of what is on and above a diagonal of this matrix.

    >>> import lazyflow.array as la
    >>> rows, columns = la.triu_indices_from(la.ones((2, 2)))
    >>> rows.compute(), columns.compute()
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    x = _matrix(arr)
    return triu_indices(x.shape[0], k, x.shape[1], chunks=x.chunks)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array of `ndim` axes of length `n`.

    >>> import lazyflow.array as la
    >>> [each.compute() for each in la.diag_indices(2)]
    [array([0, 1]), array([0, 1])]
    """
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array whose axes are all of one length.

    >>> import lazyflow.array as la
    >>> [each.compute() for each in la.diag_indices_from(la.ones((2, 2)))]
    [array([0, 1]), array([0, 1])]
    """
    x = as_array(arr).with_known_sizes()
    if x.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(x.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(x.shape[0], x.ndim)


def mask_indices(n: int, mask_func: Any, k: Any = 0) -> tuple[Array, ...]:
    """Return the indices of what a function such as `triu` leaves of an ``n`` by ``n`` matrix.

    >>> import lazyflow.array as la
    >>> [each.compute() for each in la.mask_indices(2, la.triu)]
    [array([0, 0, 1]), array([0, 1, 1])]
    """
    return nonzero(mask_func(ones((n, n), int), k) != 0)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return index arrays, each along an axis of its own, that cross each other.

    >>> import lazyflow.array as la
    >>> rows, columns = la.ix_(la.asarray([0, 2]), [1, 3, 4])
    >>> rows.shape, columns.shape
    ((2, 1), (1, 3))
    """
    found = []
    for k, each in enumerate(args):
        empty = not isinstance(each, Array | np.ndarray) and not np.size(each)
        x = as_array(np.zeros(0, np.intp) if empty else each)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.dtype == bool:
            (x,) = nonzero(x)
        found.append(x[(None,) * k + (slice(None),) + (None,) * (len(args) - k - 1)])
    return tuple(found)


def unravel_index(indices: ArrayLike, shape: Any, order: Any = "C") -> tuple[Array, ...]:
    """Return the coordinates of flat indices, an array for each axis.

    Parameters are those of ``np.unravel_index``.

    >>> import lazyflow.array as la
    >>> rows, columns = la.unravel_index(la.asarray([1, 5]), (2, 3))
    >>> rows.compute(), columns.compute()
    (array([0, 1]), array([1, 2]))
    """
    node = as_node(indices)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    few: Any = 0 if shape else node.ndim * (1,)
    np.unravel_index(np.zeros(few, node.dtype), shape, order)  # its errors, now
    return tuple([
        Array(elementwise.function(_coordinate, (node,), np.intp, shape=shape, order=order, at=at))
        for at in range(len(shape))
    ])


def _coordinate(x: Any, shape: tuple[int, ...], order: Any, at: int) -> Any:
    return np.unravel_index(x, shape, order)[at]


def ravel_multi_index(
    multi_index: Sequence[Any], dims: ShapeLike, mode: str | Sequence[str] = "raise",
    order: Any = "C",
) -> Array:
    """Return the flat indices of coordinates, which are an array for each axis.

    Parameters are those of ``np.ravel_multi_index``.

    >>> import lazyflow.array as la
    >>> la.ravel_multi_index((la.asarray([0, 1]), la.asarray([2, 0])), (2, 3)).compute()
    array([2, 3])
    """
    known(*multi_index)
    nodes = tuple([as_node(x) for x in broadcast_arrays(*multi_index)])
    dims = tuple(dims) if np.iterable(dims) else (dims,)
    modes: Any = mode if isinstance(mode, str) else tuple(mode)
    empty: Any = tuple([np.zeros(0, x.dtype) for x in nodes])
    np.ravel_multi_index(empty, dims, modes, order)  # its errors, now
    return Array(elementwise.function(_flat, nodes, np.intp, dims=dims, mode=modes, order=order))


def _flat(*coordinates: Any, dims: Any, mode: Any, order: Any) -> Any:
    return np.ravel_multi_index(coordinates, dims, mode, order)
