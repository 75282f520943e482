"""Derivatives of the losses for one row, for the kernels that take steps."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from math import exp
from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

__all__ = [
    "REORDER", "LossKind", "compiled", "exactly", "kernel", "machine_code", "making", "slope",
    "write_slopes",
]


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

#: As `compiled`, for what is right in the order only in which it is written.
exactly: Any = _jit(**_OPTIONS, fastmath={"contract", "nsz"}, _nrt=False)

machine_code: Any = intrinsic  # who calls one gives no context, as types would have it


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls, as `making`; Ctrl-C ends it by KeyboardInterrupt.

    Python sees the signal while results are made into its objects, and would raise SystemError.

    It is compiled once for each type of rows: all arrays are read-only to it, since those of a
    store are, and None is an array of no numbers.

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
    if isinstance(value, IntEnum):  # Numba's files would name the class, and fail once it moves
        return int(value)
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


class LossKind(IntEnum):
    """What kernels call the losses."""

    LOGISTIC = 0
    SOFTMAX = 1
    SQUARES = 2


@compiled
def _write_softmax(scores: np.ndarray, target: int, out: np.ndarray) -> None:
    largest = scores[0]
    for k in range(1, len(scores)):
        largest = max(largest, scores[k])
    total = 0.0
    for k in range(len(scores)):
        out[k] = exp(scores[k] - largest)  # cannot overflow
        total += out[k]
    for k in range(len(scores)):
        out[k] /= total
    out[target] -= 1.0


@compiled
def slope(kind: int, score: float, target: float) -> float:
    """Return the derivative of the loss of one score; softmax has none of its own.

    Examples
    --------
    >>> slope(LossKind.SQUARES, 3.0, 1.0)
    2.0
    """
    if kind == LossKind.LOGISTIC:
        return -target / (1.0 + exp(target * score))
    return score - target


@_jit(**_OPTIONS, fastmath=REORDER, _nrt=False, inline="always")
def write_slopes(
    kind: int, scores: np.ndarray, y: np.ndarray, i: int, out: np.ndarray
) -> None:
    """Write the derivatives of the loss of row `i` by its scores.

    ``y[i]`` is one number -1 or 1 (logistic), the number of a class (softmax), or a number for
    each score (squares). It comes as array and place: a view for each row would cost as much as
    the row. It is inlined, which takes an eighth from the time of a step.

    Examples
    --------
    >>> out = np.empty(1)
    >>> write_slopes(LossKind.SQUARES, np.array([3.0]), np.array([[1.0]]), 0, out)
    >>> out
    array([2.])
    """
    if kind == LossKind.SOFTMAX:
        _write_softmax(scores, int(y[i, 0]), out)
    else:
        for k in range(len(scores)):
            out[k] = slope(kind, scores[k], y[i, k])
