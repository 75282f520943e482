"""Bits of bytes, one as an element each, and back.

`packbits` moves the ends of chunks along the axis to multiples of eight elements, so that each byte
is made of one block; `unpackbits` keeps the chunks, eight times as long. NumPy's functions run on
each block.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.creation import zeros
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.rearranging import along
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axis_of
from lazyflow.array.nodes.user_calls import PerBlock

_BYTE = np.dtype(np.uint8)


def _with_axis(a: Any, axis: Any, bitorder: str, function: Any) -> tuple[Array, int]:
    x = as_array(a).with_known_sizes()
    function(np.ones(1, x.dtype), bitorder=bitorder)  # NumPy's checks
    if axis is None or not x.ndim:
        return flat(x), 0
    return x, axis_of(axis, x.ndim)


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Return bytes of elements that are 0 or not, eight for each byte; as ``np.packbits``.

    >>> import lazyflow.array as la
    >>> la.packbits(la.from_array([1, 0, 0, 0, 0, 0, 0, 1, 1], chunks=2)).compute()
    array([129, 128], dtype=uint8)
    """
    x, axis = _with_axis(a, axis, bitorder, np.packbits)
    ends = sorted({min(-(-end // 8) * 8, x.shape[axis]) for end in np.cumsum(x.chunks[axis])})
    sizes = tuple(np.diff([0, *ends]).tolist())
    sizes = tuple([n for n in sizes if n]) or (0,)
    node = rechunk(x.expr, (*x.chunks[:axis], sizes, *x.chunks[axis + 1:]))
    packed = (*x.chunks[:axis], tuple([-(-n // 8) for n in sizes]), *x.chunks[axis + 1:])
    op = NumpyOp(np.packbits, (("axis", axis), ("bitorder", bitorder)))
    return Array(PerBlock((node,), op, _BYTE, packed))


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Return the bits of bytes, each as an element of 0 or 1; as ``np.unpackbits``.

    Raises
    ------
    ValueError
        `count` leaves out more bits than there are.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.unpackbits(la.asarray([5], "u1")).compute()
    array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    x, axis = _with_axis(a, axis, bitorder, np.unpackbits)
    bits = (*x.chunks[:axis], tuple([8 * n for n in x.chunks[axis]]), *x.chunks[axis + 1:])
    op = NumpyOp(np.unpackbits, (("axis", axis), ("bitorder", bitorder)))
    found = Array(PerBlock((x.expr,), op, _BYTE, bits))
    if count is None:
        return found
    n, wanted = found.shape[axis], operator.index(count)
    if wanted < -n:
        raise ValueError(f"-count larger than number of elements: count={wanted}, of {n} bits")
    if wanted <= n:
        return along(found, axis, slice(None, wanted))
    more = zeros((*x.shape[:axis], wanted - n, *x.shape[axis + 1:]), _BYTE)
    return concatenate([found, more], axis=axis)
