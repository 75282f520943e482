"""Arrays made of the indices of a grid, and indices of grids themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import functions, implements
from lazyflow.array.functions.creation import eye, linspace, tri
from lazyflow.array.functions.manipulation.shaping import of
from lazyflow.array.nodes import elementwise


@implements()
def identity(n: int, dtype: Any = None, *, chunks: Any = "auto") -> Array:
    """Return a square matrix with ones on the diagonal."""
    return eye(n, dtype=float if dtype is None else dtype, chunks=chunks)


@implements()
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0,
    dtype: Any = None, *, chunks: Any = "auto",
) -> Array:
    """Return `num` powers of `base`, evenly from ``base ** start`` to ``base ** stop``."""
    found: Array = np.power(base, linspace(start, stop, num, endpoint, chunks=chunks))
    return found if dtype is None else found.astype(dtype)


@implements()
def fromfunction(
    function: Callable[..., Any], shape: Any = None, *, dtype: Any = float, chunks: Any = "auto",
    **kwargs: Any,
) -> Array:
    """Return the values of a function of the indices.

    Parameters
    ----------
    function
        Called for each block with arrays of its indices, one for each axis, in the shape of the
        block; it returns the block. What it returns for an array of one element tells the dtype.
    shape
        Of the array.
    dtype
        Of the indices.
    chunks
        As of `normalize_chunks`.
    **kwargs
        Keywords of `function`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.fromfunction(lambda i, j: i + 10 * j, (2, 3), dtype=int, chunks=2).compute()
    array([[ 0, 10, 20],
           [ 1, 11, 21]])
    """
    if shape is None:
        raise TypeError("fromfunction() must be told the shape of the array: pass shape=")
    found: Array = functions["map_blocks"](
        function, *functions["indices"](shape, dtype, chunks=chunks), **kwargs
    )
    return found


@implements()
def tril_indices(n: int, k: int = 0, m: int | None = None, *, chunks: Any = "auto") -> Any:
    """Return the indices of what is on and below a diagonal of an ``n`` by ``m`` matrix."""
    return functions["nonzero"](tri(n, m, k=k, dtype=bool, chunks=chunks))


@implements()
def triu_indices(n: int, k: int = 0, m: int | None = None, *, chunks: Any = "auto") -> Any:
    """Return the indices of what is on and above a diagonal of an ``n`` by ``m`` matrix."""
    return functions["nonzero"](np.logical_not(tri(n, m, k=k - 1, dtype=bool, chunks=chunks)))


def _matrix(arr: Any) -> Array:
    x = of(arr)
    if x.ndim != 2:
        raise ValueError("input array must be 2-d")
    return x.with_known_sizes()


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """Return the indices of what is on and below a diagonal of a matrix."""
    x = _matrix(arr)
    return tril_indices(x.shape[0], k, x.shape[1], chunks=x.chunks)


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """Return the indices of what is on and above a diagonal of a matrix."""
    x = _matrix(arr)
    return triu_indices(x.shape[0], k, x.shape[1], chunks=x.chunks)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> tuple[Array, ...]:
    """Return the coordinates of flat indices, an array for each axis; as np.unravel_index."""
    node = as_node(indices)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    np.unravel_index(np.zeros(0, node.dtype), shape, order)  # its errors, now
    return tuple([
        Array(elementwise.function(_coordinate, (node,), np.intp, shape=shape, order=order, at=at))
        for at in range(len(shape))
    ])


def _coordinate(x: Any, shape: tuple[int, ...], order: Any, at: int) -> Any:
    return np.unravel_index(x, shape, order)[at]


@implements(np.ravel_multi_index)
def ravel_multi_index(
    multi_index: Sequence[Any], dims: Any, mode: Any = "raise", order: Any = "C"
) -> Array:
    """Return flat indices of coordinates, an array for each axis; as np.ravel_multi_index."""
    known(*multi_index)
    nodes = tuple([as_node(x) for x in functions["broadcast_arrays"](*multi_index)])
    dims = tuple(dims) if np.iterable(dims) else (dims,)
    modes: Any = mode if isinstance(mode, str) else tuple(mode)
    empty: Any = tuple([np.zeros(0, x.dtype) for x in nodes])
    np.ravel_multi_index(empty, dims, modes, order)  # its errors, now
    return Array(elementwise.function(_flat, nodes, np.intp, dims=dims, mode=modes, order=order))


def _flat(*coordinates: Any, dims: Any, mode: Any, order: Any) -> Any:
    return np.ravel_multi_index(coordinates, dims, mode, order)
