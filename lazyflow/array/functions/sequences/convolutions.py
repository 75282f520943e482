"""Sums of products of a sequence with another that slides along it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.elementwise import conjugated
from lazyflow.array.functions.manipulation.axes import atleast_1d
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.nodes.halo import Extended, Margin
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.user_calls import PerBlock

_MODES = ("valid", "same", "full")


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """Return the convolution of two sequences; parameters are those of ``np.convolve``.

    The shorter one becomes one block. Each element is NumPy's sum of the same products: floats may
    differ by rounding, as of `dot`.

    >>> import lazyflow.array as la
    >>> la.convolve(la.arange(5, chunks=2), [1, 1]).compute()
    array([0, 1, 3, 5, 7, 4])
    """
    long, short = _sequences(a, v, mode)
    for name, x in (("a", long), ("v", short)):
        if not x.size:
            raise ValueError(f"{name} cannot be empty")
    if short.size > long.size:
        long, short = short, long
    return _part(_full(long, short), long.size, short.size, mode, (short.size - 1) // 2)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """Return the cross-correlation of two sequences; parameters are those of ``np.correlate``.

    The shorter one becomes one block.

    >>> import lazyflow.array as la
    >>> la.correlate(la.arange(5, chunks=2), [1, 2]).compute()
    array([ 2,  5,  8, 11])
    """
    x, y = _sequences(a, v, mode)
    n, m = x.size, y.size
    if not (n and m):
        np.correlate(np.ones(n), np.ones(m))  # raises
    y = conjugated(y)[::-1] if y.dtype.kind == "c" else y[::-1]
    full = _full(x, y) if n >= m else _full(y, x)
    start = (m - 1) // 2 if n >= m else n // 2
    return _part(full, max(n, m), min(n, m), mode, start)


def _sequences(a: Any, v: Any, mode: Any) -> list[Array]:
    if mode not in _MODES and not (isinstance(mode, int) and 0 <= mode < len(_MODES)):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    found: list[Array] = [atleast_1d(as_array(x)) for x in (a, v)]
    known(*found)
    for x in found:
        if x.ndim != 1:
            raise ValueError("object too deep for desired array")
    return found


def _part(full: Array, n: int, m: int, mode: Any, start: int) -> Array:
    """Return what a mode asks for of all sums, of sequences of n and of m elements."""
    mode = _MODES[operator.index(mode)] if not isinstance(mode, str) else mode
    if mode == "full":
        return full
    return full[m - 1:n] if mode == "valid" else full[start:start + n]


def _full(long: Array, short: Array) -> Array:
    """Return all sums; those of blocks need some elements more, of the blocks after them."""
    dtype = np.convolve(np.ones(1, long.dtype), np.ones(1, short.dtype)).dtype
    less = short.size - 1
    whole = rechunk(short.expr, ((short.size,),))

    def of(x: Any, mode: str, sizes: Any) -> Array:
        op = NumpyOp(np.convolve, (("mode", mode),))
        return Array(PerBlock((x, whole), op, dtype, (sizes,)))

    grid, left = [], long.size - less
    for size in long.chunks[0]:
        if taken := min(size, left):
            grid.append(taken)
            left -= taken
    source = Extended((long.expr,), (Margin(0, less, "none", tuple(grid)),))
    middle = of(source, "valid", tuple(grid))
    if not less:
        return middle
    ends = [rechunk(x.expr, ((less,),)) for x in (long[:less], long[long.size - less:])]
    first, last = [of(x, "full", (2 * less,)) for x in ends]
    return concatenate([first[:less], middle, last[less:]])
