"""Tools of all kernels: decorators that compile, arrays by address, loops over few rows.

Numba compiles once per machine, and kernels run without the GIL.

Several arrays are one argument, by the addresses of their memory: Numba's own lists of arrays are
compiled in every process that makes one, which takes 0.3 s, and kernels are compiled anew for each
kind of arrays in them.

A few neighbouring rows stay in the cache. Loops over rows and loops over features stand apart from
the exponentials, so that the compiler makes vector code of all three: a pass over 200,000 rows of
50 features takes 4.5 ms, where one loop over rows with a call of ``exp`` takes 6.6, and reading
them alone 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

# -- compilation ------------------------------------------------------------------------------


REORDER = {"reassoc", "contract", "nsz", "arcp"}  # all but nnan and ninf, which hide bad numbers

_NONE = np.empty(0)
_NONE.flags.writeable = False

_jit: Any = njit  # whose types lack _nrt, which Numba's own functions use
_OPTIONS: Any = {"nogil": True, "cache": True, "error_model": "numpy"}  # compiled once per machine

#: The decorator of functions that return arrays.
making: Any = _jit(**_OPTIONS, fastmath=REORDER, _nrt=True)

#: The decorator of what kernels call. It makes no array, and does not count the references to those
#: that it is given, which took a sixth of a block of SAGA.
compiled: Any = _jit(**_OPTIONS, fastmath=REORDER, _nrt=False)

#: As `compiled`, put into the kernels that call it before Numba finds out their types.
inlined: Any = _jit(**_OPTIONS, fastmath=REORDER, _nrt=False, inline="always")

#: As `compiled`, for what is right in the order only in which it is written.
exactly: Any = _jit(**_OPTIONS, fastmath={"contract", "nsz"}, _nrt=False)

machine_code: Any = intrinsic  # who calls one gives no context, as types would have it


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls, as `making`; Ctrl-C ends it by KeyboardInterrupt.

    Without this, a signal that arrives while results become Python objects raises SystemError.

    It is compiled once for each type of rows: all arrays count as read-only, since those of a store
    are, and None is passed as an empty array.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import logistic_sums  # is made by it
    >>> round(logistic_sums(np.zeros(1), np.ones((1, 0)), np.ones(1), None)[0], 4)
    0.6931
    """
    made = making(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        try:
            return made(*map(_alike, args))
        except SystemError as error:
            cause = error.__cause__
            while isinstance(cause, SystemError):
                cause = cause.__cause__
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            raise

    return call


def _alike(value: Any) -> Any:
    if value is None:
        return _NONE
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


# -- several arrays as one argument -----------------------------------------------------------


class Addresses(NamedTuple):
    """The addresses of arrays of one type; the caller keeps the arrays alive.

    first
        The address of each one.
    ends
        The number of rows up to the end of each.
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
    """Return the addresses of C-ordered arrays that differ in rows only; of None, no address.

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
    for chunk in arrays:
        if chunk.dtype != like.dtype or chunk.shape[1:] != like.shape[1:] or (
            not chunk.flags.c_contiguous
        ):
            wanted = f"({', '.join(['rows', *map(str, like.shape[1:])])}{',' * (like.ndim == 1)})"
            raise TypeError(
                f"a kernel needs arrays in C order, all {wanted} of {like.dtype}, not "
                f"{chunk.shape} of {chunk.dtype}"
            )
    first = np.array([chunk.__array_interface__["data"][0] for chunk in arrays], np.int64)
    return Addresses(first, np.cumsum([len(chunk) for chunk in arrays]), like)


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
    """Prefetch rows that are read soon: the processor can't predict their random order.

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


# -- a few rows -------------------------------------------------------------------------------

_LARGEST, _SMALLEST = 708.0, -709.3  # of what has an exponential that is not infinity and not 0
_TILE = 16  # rows that are there at once
_PER_LN2 = 1.4426950408889634  # 1 / ln(2)
_LN2, _LN2_REST = 0.693147180369123816490, 1.90821492927058770002e-10  # whose sum has more digits


@compiled
def write_scores(
    w: np.ndarray, offset: float, X: np.ndarray, low: int, high: int, out: np.ndarray
) -> None:
    """Write the scores of the rows from `low` to `high`; `w` has their d coefficients, or more.

    Examples
    --------
    >>> out = np.zeros(1)
    >>> write_scores(np.array([2.0]), 1.0, np.array([[3.0]]), 0, 1, out)
    >>> out
    array([7.])
    """
    d = X.shape[1]
    for i in range(low, high):
        score = offset
        for j in range(d):
            score += w[j] * X[i, j]
        out[i - low] = score


@compiled
def add_rows(
    factors: np.ndarray, X: np.ndarray, low: int, high: int, out: np.ndarray
) -> None:
    """Add the rows from `low` to `high`, each times a factor, and the factors as a last column.

    Two rows at once: `out` is read and written half as often.

    Examples
    --------
    >>> out = np.zeros(2)
    >>> add_rows(np.array([2.0, 1.0]), np.array([[3.0], [1.0]]), 0, 2, out)
    >>> out
    array([7., 3.])
    """
    d = X.shape[1]
    pairs = (high - low) // 2 * 2
    for i in range(0, pairs, 2):
        first, second, row = factors[i], factors[i + 1], low + i
        for j in range(d):
            out[j] += first * X[row, j] + second * X[row + 1, j]
        out[d] += first + second
    if pairs < high - low:
        first = factors[pairs]
        for j in range(d):
            out[j] += first * X[high - 1, j]
        out[d] += first


@machine_code
def _float_of(context: Any, bits: Any) -> Any:
    """Return the float64 that has these bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), code


@exactly
def exponential(value: float) -> float:
    """Return e to the power of a number; NaN stays.

    Numbers beyond 708 count as 708, and results below the smallest normal number are 0. The error
    is at most two units in the last place: after a multiple of ln 2 is subtracted, the rest of a
    Taylor series of 13 terms is below that. Its terms are added in pairs, which need not wait for
    each other.

    Examples
    --------
    >>> exponential(1.0), exponential(-800.0)
    (2.718281828459045, 0.0)
    """
    value = _LARGEST if value > _LARGEST else value  # comparisons leave NaN as it is
    value = _SMALLEST if value < _SMALLEST else value
    whole = np.floor(value * _PER_LN2 + 0.5)
    x = (value - whole * _LN2) - whole * _LN2_REST
    square = x * x
    fourth = square * square
    first = (1.0 + x) + (0.5 + x * (1.0 / 6.0)) * square
    second = (1.0 / 24.0 + x * (1.0 / 120.0)) + (1.0 / 720.0 + x * (1.0 / 5040.0)) * square
    third = (1.0 / 40320.0 + x * (1.0 / 362880.0)) + (
        1.0 / 3628800.0 + x * (1.0 / 39916800.0)
    ) * square
    last = 1.0 / 479001600.0 + x * (1.0 / 6227020800.0)
    series = (first + second * fourth) + (third + last * fourth) * (fourth * fourth)
    return series * _float_of((np.int64(np.int32(whole)) + 1023) << 52)  # times a power of 2


@kernel
def column_sums(X: np.ndarray) -> np.ndarray:
    """Return the sums of the columns of rows (n, d), in float64.

    Examples
    --------
    >>> column_sums(np.array([[3.0, 1.0], [2.0, 0.0]]))
    array([5., 1.])
    """
    rows, d = X.shape
    sums, ones = np.zeros(d + 1), np.ones(_TILE)
    for low in range(0, rows, _TILE):
        add_rows(ones, X, low, min(low + _TILE, rows), sums)
    return sums[:d]
