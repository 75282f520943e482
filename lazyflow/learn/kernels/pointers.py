"""Several arrays as one argument of kernels: where their memory is.

Numba's own lists of arrays are compiled in every process that makes one, which takes 0.3 s, and
kernels are compiled anew for each kind of arrays in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, types

from lazyflow.learn.kernels.compiling import compiled, machine_code, making

__all__ = ["Addresses", "addresses_of", "ask_for_rows", "chunk_of", "numbers_at", "rows_at"]


class Addresses(NamedTuple):
    """Where arrays of one type are; somebody else must keep them.

    first
        The address of each one.
    ends
        How many rows there are up to the end of each.
    like
        An array of their type without rows.

    Examples
    --------
    >>> addresses_of([np.ones((2, 3)), np.ones((4, 3))]).ends
    array([2, 6])
    """

    first: np.ndarray
    ends: np.ndarray
    like: np.ndarray


_NOWHERE = Addresses(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def addresses_of(arrays: Sequence[Any]) -> Addresses:
    """Return where arrays in C order are, which are alike but for their rows; of None nothing.

    Examples
    --------
    >>> addresses_of([np.ones(2), np.ones(4, np.float32)])
    Traceback (most recent call last):
    ...
    TypeError: a kernel needs arrays in C order, all (rows,) of float64, not (4,) of float32
    """
    if arrays[0] is None:
        return _NOWHERE
    like = np.empty((0, *arrays[0].shape[1:]), arrays[0].dtype)
    for each in arrays:
        if each.dtype != like.dtype or each.shape[1:] != like.shape[1:] or (
            not each.flags.c_contiguous
        ):
            wanted = f"({', '.join(['rows', *map(str, like.shape[1:])])}{',' * (like.ndim == 1)})"
            raise TypeError(
                f"a kernel needs arrays in C order, all {wanted} of {like.dtype}, not "
                f"{each.shape} of {each.dtype}"
            )
    first = np.array([each.__array_interface__["data"][0] for each in arrays], np.int64)
    return Addresses(first, np.cumsum([len(each) for each in arrays]), like)


@machine_code
def _pointer(context: Any, address: Any) -> Any:
    """Return an integer as a pointer."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), code


@machine_code
def _prefetch(context: Any, address: Any) -> Any:
    """Ask for the bytes at an address, and go on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (pointer.type,),
            ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number]),
        )
        builder.call(function, [pointer, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), code


@compiled
def ask_for_rows(arrays: Addresses, low: int, count: int) -> None:
    """Ask the memory for rows that are read soon: in random order, nothing foresees them.

    Those of the next chunk are left out.
    """
    k = chunk_of(arrays.ends, low)
    before = arrays.ends[k - 1] if k else 0
    width = arrays.like.shape[1] * arrays.like.itemsize
    first = arrays.first[k] - before * width
    for address in range(first + low * width, first + min(low + count, arrays.ends[k]) * width, 64):
        _prefetch(address)


@making
def rows_at(arrays: Addresses, k: int) -> np.ndarray:
    """Return one of several arrays (rows, columns)."""
    rows = arrays.ends[k] - (arrays.ends[k - 1] if k else 0)
    return carray(_pointer(arrays.first[k]), (rows, arrays.like.shape[1]), arrays.like.dtype)


@making
def numbers_at(arrays: Addresses, k: int) -> np.ndarray:
    """Return one of several arrays (rows,)."""
    rows = arrays.ends[k] - (arrays.ends[k - 1] if k else 0)
    return carray(_pointer(arrays.first[k]), (rows,), arrays.like.dtype)


@compiled
def chunk_of(ends: np.ndarray, row: int) -> int:
    """Return the first chunk that ends behind a row.

    Examples
    --------
    >>> [chunk_of(np.array([2, 2, 6]), row) for row in (0, 1, 2, 5)]
    [0, 0, 2, 2]
    """
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > row:
            high = middle
        else:
            low = middle + 1
    return low
