"""Windows that slide over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow import config
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import as_array
from lazyflow.array.nodes.halo import Extended, Margin
from lazyflow.array.nodes.user_calls import BLOCK, BlockCalls, BoundCall
from lazyflow.array.users.block_layout import input_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_LARGEST = 16  # times the bytes of an automatic chunk that a block of windows has at most: a guess


def sliding_window_view(
    x: ArrayLike, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None,
    automatic_rechunk: bool = True,
) -> Array:
    """Return windows that slide over an array, as ``np.lib.stride_tricks.sliding_window_view``.

    Parameters
    ----------
    x
        The array.
    window_shape
        The lengths of a window.
    axis
        The axes along which the windows slide, one for each length; None: all axes.
    automatic_rechunk
        Cut chunks so that a block, were its windows written out, is not much larger than a chunk
        of ``config.chunk_bytes``: at most 16 times, or than it was.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.sliding_window_view(la.arange(5, chunks=2), 3).sum(axis=1).compute()
    array([3, 6, 9])
    """
    source = as_array(x).with_known_sizes()
    axes, windows = _windows(source, window_shape, axis)
    grids: list[tuple[int, ...]] = []
    for k, (sizes, n) in enumerate(zip(source.chunks, source.shape, strict=True)):
        less = sum([w - 1 for a, w in zip(axes, windows, strict=True) if a == k])
        grids.append(_first(sizes, n - less) if k in axes else sizes)
    if automatic_rechunk:
        grids = _smaller(grids, prod(windows), source)
    margins = tuple([
        Margin(0, n - sum(grid), "none", grid)
        for grid, n in zip(grids, source.shape, strict=True)
    ])
    node = Array(Extended((source.expr,), margins)).expr
    call = BoundCall(
        np.lib.stride_tricks.sliding_window_view, [BLOCK],
        {"window_shape": windows, "axis": axes}, "sliding_window_view",
    )
    labels = tuple(range(source.ndim))
    own = input_blocks(labels, node, labels, dict(enumerate(node.chunks)), False)
    chunks = (*grids, *[(w,) for w in windows])
    return Array(BlockCalls((node,), call, (own,), source.expr.dtype_or_lazy, chunks))


def _windows(x: Array, window_shape: Any, axis: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    windows = tuple(window_shape) if isinstance(window_shape, Sequence | np.ndarray) else (
        window_shape,
    )
    if any(w < 0 for w in windows):
        raise ValueError("`window_shape` cannot contain negative values")
    if axis is None:
        axes = tuple(range(x.ndim))
        if len(windows) != len(axes):
            raise ValueError(
                "Since axis is `None`, must provide window_shape for all dimensions of `x`; got "
                f"{len(windows)} window_shape elements and `x.ndim` is {x.ndim}."
            )
    else:
        axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
        if len(windows) != len(axes):
            raise ValueError(
                "Must provide matching length window_shape and axis; got "
                f"{len(windows)} window_shape elements and {len(axes)} axes elements."
            )
    for k, n in enumerate(x.shape):
        if sum([w - 1 for a, w in zip(axes, windows, strict=True) if a == k]) > n - 1 and k in axes:
            raise ValueError("window shape cannot be larger than input array shape")
    return axes, tuple(map(int, windows))


def _first(sizes: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the chunks of the first n elements, none of them empty.

    >>> _first((3, 0, 3, 3), 5)
    (3, 2)
    """
    found: list[int] = []
    for size in sizes:
        taken = min(size, n)
        if taken:
            found.append(taken)
        n -= taken
    if n:  # there is one window of length 0 more than elements
        found[-1:] = [sum(found[-1:]) + n]
    return tuple(found)


def _smaller(grids: list[tuple[int, ...]], factor: int, x: Array) -> list[tuple[int, ...]]:
    """Cut chunks so that the windows of a block, written out, are not too large."""
    itemsize = x.dtype.itemsize or 1
    before = prod([max(sizes) for sizes in x.chunks]) * itemsize
    limit = max(_LARGEST * config.get("chunk_bytes"), before)
    largest = prod([max(grid) for grid in grids]) * factor * itemsize
    if largest <= limit:
        return grids
    shape = tuple(map(sum, grids))
    wanted = normalize_chunks("auto", shape, max(limit // factor, itemsize), x.dtype, None)
    return [
        min(grid, tuple(other), key=max) for grid, other in zip(grids, wanted, strict=True)
    ]
