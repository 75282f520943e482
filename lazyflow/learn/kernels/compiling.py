"""How kernels are compiled: by Numba, once per machine, without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

__all__ = ["REORDER", "compiled", "exactly", "inlined", "kernel", "machine_code", "making"]

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
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value
