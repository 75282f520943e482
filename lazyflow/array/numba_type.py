"""The type of chunked arrays in Numba: arrays, computed when a compiled function is called."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.core.boxing import unbox_array
from numba.core.datamodel import models, register_default
from numba.extending import NativeValue, unbox
from numba.np.numpy_support import from_dtype


class ChunkedArray(types.Array):
    """The type of chunked arrays as arguments of compiled functions."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        super().__init__(dtype, ndim, "C", name=f"chunked array({dtype}, {ndim}d)")


register_default(ChunkedArray)(models.ArrayModel)


@unbox(ChunkedArray)
def _computed(chunked: ChunkedArray, x: Any, c: Any) -> NativeValue:
    array = c.pyapi.object_getattr_string(x, "_numba_value_")
    native = unbox_array(types.Array(chunked.dtype, chunked.ndim, "C"), array, c)
    c.pyapi.decref(array)
    return native


def numba_type(dtype: np.dtype[Any], ndim: int) -> ChunkedArray:
    """Return the type for an array."""
    return ChunkedArray(from_dtype(dtype), ndim)
