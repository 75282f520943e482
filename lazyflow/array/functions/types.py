"""The types that arrays have and share, known without computing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.dispatch import implements
from lazyflow.array.functions.arguments import as_array


def _type_or_value(x: Any) -> Any:
    return x.dtype if isinstance(x, Array) else x


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy's promotion gives for arrays, dtypes and numbers.

    >>> import lazyflow.array as la
    >>> la.result_type(la.ones(3, dtype="f4"), 2.5, "i8")
    dtype('float64')
    """
    return np.result_type(*map(_type_or_value, arrays_and_dtypes))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return whether elements can be had in another dtype; parameters as np.can_cast."""
    return np.can_cast(_type_or_value(from_), to, casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> type:
    """Return the inexact type that all arrays fit into; parameters as np.common_type."""
    return np.common_type(*[np.empty(0, as_array(x).dtype) for x in arrays])


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """Return whether the elements are of a complex type, whatever their values."""
    return as_array(x).dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Return whether the elements are not of a complex type."""
    return not iscomplexobj(x)
