"""`fromfunction`: the values of a user's function of the indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyflow.array.core import Array
from lazyflow.array.functions.grids import indices
from lazyflow.array.users.map_blocks import map_blocks


def fromfunction(
    function: Callable[..., Any], shape: Any = None, *, dtype: Any = float, chunks: Any = "auto",
    **kwargs: Any,
) -> Array:
    """Return the values of a function of the indices.

    Parameters
    ----------
    function
        Called for each block with arrays of its indices, one for each axis, in the shape of the
        block; it returns the block. It is tried on an array of one element to find the dtype.
    shape
        The shape of the array.
    dtype
        The dtype of the indices.
    chunks
        Chunks of the array, as of `normalize_chunks`.
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
        raise TypeError("fromfunction() needs the shape of the array: pass shape=")
    return map_blocks(function, *indices(shape, dtype, chunks=chunks), **kwargs)
