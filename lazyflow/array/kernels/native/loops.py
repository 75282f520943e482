"""The addresses of NumPy's inner loops: ufuncs called from generated code, without the GIL."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.native.blocks import ELEMENTS

#: Of zeros of both signs, the loops of these give one that depends on the place in a vector.
_EXCLUDED = {np.fmax, np.fmin}


class Loop(NamedTuple):
    """The address of a loop, and that of the data that it has to be given."""

    function: int
    data: int


class _UFunc(ctypes.Structure):
    """The public part of PyUFuncObject (numpy/ufuncobject.h)."""

    _fields_ = [
        ("head", ctypes.c_char * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved1", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    ]


@lru_cache(1024)
def loop_of(ufunc: np.ufunc, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    """Return the loop of a ufunc for exactly these dtypes, or None.

    >>> f8 = np.dtype("f8")
    >>> loop_of(np.exp, (f8, f8)) is not None, loop_of(np.exp, (f8, np.dtype("i8"))) is None
    (True, True)
    """
    if ufunc in _EXCLUDED or any(dtype not in ELEMENTS for dtype in dtypes):
        return None
    if ufunc is np.power and dtypes[0].kind in "iu":
        return None  # it needs the GIL to refuse negative powers
    found = _UFunc.from_address(id(ufunc))
    if (found.nin, found.nout, found.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        return None  # another layout than the one above
    wanted = [dtype.num for dtype in dtypes]
    for at in range(found.ntypes):
        if [found.types[at * found.nargs + n] for n in range(found.nargs)] == wanted:
            return (
                Loop(found.functions[at] or 0, found.data[at] or 0) if found.functions[at] else None
            )
    return None
