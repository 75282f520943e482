"""The types that arrays have and share, known without computing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, Casting, as_array


def _type_or_value(x: Any) -> Any:
    return x.dtype if isinstance(x, Array) else x


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy's promotion gives for arrays, dtypes and numbers.

    >>> import lazyflow.array as la
    >>> la.result_type(la.ones(3, dtype="f4"), 2.5, "i8")
    dtype('float64')
    """
    return np.result_type(*map(_type_or_value, arrays_and_dtypes))


def can_cast(from_: Any, to: Any, casting: Casting = "safe") -> bool:
    """Return whether a cast to another dtype is allowed; parameters are those of ``np.can_cast``.

    >>> import lazyflow.array as la
    >>> la.can_cast(la.ones(3), "f4"), la.can_cast(la.ones(3), "f4", casting="same_kind")
    (False, True)
    """
    return np.can_cast(_type_or_value(from_), to, casting)


class NamespaceInfo(np.__array_namespace_info__):  # type: ignore[misc]
    """What the Array API standard lets programs ask of `lazyflow.array`: dtypes, devices, limits.

    >>> import lazyflow.array as la
    >>> la.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """

    def capabilities(self) -> Any:
        """Return what works: masks as keys, shapes that depend on values, and how many axes.

        A length that depends on values is None in the shape until `Array.with_known_sizes`.
        """
        return {**super().capabilities(), "max dimensions": 32}  # of what reductions take


__array_namespace_info__ = NamespaceInfo


def common_type(*arrays: ArrayLike) -> type:
    """Return the inexact type that the elements of all arrays fit into.

    >>> import lazyflow.array as la
    >>> la.common_type(la.ones(2, dtype="f4"), la.arange(3)).__name__
    'float64'
    """
    return np.common_type(*[np.empty(0, as_array(x).dtype) for x in arrays])


def iscomplexobj(x: ArrayLike) -> bool:
    """Return whether the dtype is a complex one, whatever the values.

    >>> import lazyflow.array as la
    >>> la.iscomplexobj(la.ones(2, dtype=complex)), la.iscomplexobj(la.ones(2))
    (True, False)
    """
    return as_array(x).dtype.kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Return whether the dtype is not a complex one.

    >>> import lazyflow.array as la
    >>> la.isrealobj(la.ones(2))
    True
    """
    return not iscomplexobj(x)


def min_scalar_type(a: Any) -> np.dtype[Any]:
    """Return the smallest type that holds a number; of an array its dtype, whatever the values.

    >>> import lazyflow.array as la
    >>> la.min_scalar_type(300), la.min_scalar_type(la.ones(2))
    (dtype('uint16'), dtype('float64'))
    """
    return a.dtype if isinstance(a, Array) else np.min_scalar_type(a)
