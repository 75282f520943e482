"""Arrays of anything that NumPy makes one of: `asarray` and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.foreign import refuse_lazy
from lazyflow.array.functions.arguments import ArrayLike, DTypeLike, as_array, check_order
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.graph.kinds import FOREIGN, kinds


def asarray(a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None) -> Array:
    """Return a chunked array of anything that NumPy makes an array of; chunked arrays as they are.

    Automatic chunks are those of `from_array`, which has a parameter for others.

    >>> import lazyflow.array as la
    >>> x = la.asarray([[1, 2], [3, 4]])
    >>> x.T.compute()
    array([[1, 3],
           [2, 4]])
    >>> la.asarray(x) is x
    True
    """
    check_order(order)
    found = a if isinstance(a, Array) else _of(a, dtype)
    return found if dtype is None else found.astype(dtype)


asanyarray = asarray


def array(
    a: ArrayLike, dtype: DTypeLike | None = None, ndmin: int = 0, *, copy: Any = True,
) -> Array:
    """Return a chunked array of a copy of `a`.

    With ``copy=False`` it reads the memory of `a`, which must not change then. Other parameters are
    those of ``np.array``.

    >>> import lazyflow.array as la
    >>> la.array([[1, 2], [3, 4]], dtype=float).sum(axis=0).compute()
    array([4., 6.])
    """
    if isinstance(a, list | tuple) and _holds_arrays(a):
        a = _of(a)
    elif not isinstance(a, Array) and kinds[type(a)] != FOREIGN:
        refuse_lazy(a)
        a = np.array(a, dtype=dtype, ndmin=ndmin, copy=copy)
    found = asarray(a, dtype)
    if found is a and copy:
        found = Array(a.expr)  # changed in place, it is not the other that changes
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def _of(a: Any, dtype: Any = None) -> Array:
    if isinstance(a, list | tuple) and _holds_arrays(a):
        return stack([_of(x) if isinstance(x, list | tuple) else as_array(x) for x in a])
    if kinds[type(a)] == FOREIGN:
        return Array(as_node(a))
    refuse_lazy(a)
    return from_array(a if hasattr(a, "shape") and hasattr(a, "dtype") else np.asanyarray(a, dtype))


def _holds_arrays(a: Any) -> bool:
    return any(
        isinstance(x, Array) or (isinstance(x, list | tuple) and _holds_arrays(x)) for x in a
    )
