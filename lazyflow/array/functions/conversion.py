"""Arrays of anything that NumPy makes one of: `asarray` and its relatives."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.foreign import refuse_lazy
from lazyflow.array.functions.arguments import (
    ArrayLike,
    DTypeLike,
    as_array,
    check_device,
    check_order,
)
from lazyflow.array.functions.keywords import check_like
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.graph.kinds import FOREIGN, kinds


def asarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None, *,
    device: str | None = None, copy: bool | None = None, like: Any = None,
    allow_unknown_chunksizes: bool = True, **keywords: Any,
) -> Array:
    """Return a chunked array of anything that NumPy makes an array of; chunked arrays as they are.

    With ``copy=True`` a later write into `a` changes nothing; with ``copy=False`` what needs a copy
    raises ValueError. Other keywords, such as ``chunks=``, are those of `from_array`, for what is
    no chunked array. With ``allow_unknown_chunksizes=False`` a list of arrays of unknown lengths
    raises ValueError. Chunks are NumPy's arrays, so `like` may be one, or a chunked array.

    >>> import lazyflow.array as la
    >>> x = la.asarray([[1, 2], [3, 4]])
    >>> x.T.compute()
    array([[1, 3],
           [2, 4]])
    >>> la.asarray(x) is x
    True
    """
    check_order(order)
    check_device(device)
    if keywords:  # of a chunked array none is used, but a wrong one is refused
        try:
            signature(from_array).bind(a, **keywords)
        except TypeError as error:
            raise TypeError(f"asarray() {error}") from None
    check_like(like)
    if copy is not None and isinstance(a, Array):
        _check_copy(copy, a.dtype, dtype)
        found = Array(a.expr) if copy else a
    elif copy is not None and kinds[type(a)] != FOREIGN and not (
        isinstance(a, list | tuple) and _holds_arrays(a)
    ):
        refuse_lazy(a)
        found = _of(np.array(a, dtype, copy=copy), keywords=keywords)
    else:
        found = a if isinstance(a, Array) else _of(a, dtype, allow_unknown_chunksizes, keywords)
    return found if dtype is None else found.astype(dtype)


def _check_copy(copy: bool, given: np.dtype[Any], dtype: Any) -> None:
    if not copy and dtype is not None and np.dtype(dtype) != given:
        raise ValueError(
            f"elements of {given} are not those of {np.dtype(dtype)} without a copy (copy=False). "
            "Leave copy= out"
        )


asanyarray = asarray


def array(
    a: ArrayLike, dtype: DTypeLike | None = None, ndmin: int = 0, *, copy: Any = True,
    **keywords: Any,
) -> Array:
    """Return a chunked array of a copy of `a`.

    With ``copy=False`` it reads the memory of `a`, which must not change then. Other parameters are
    those of `asarray`.

    >>> import lazyflow.array as la
    >>> la.array([[1, 2], [3, 4]], dtype=float).sum(axis=0).compute()
    array([4., 6.])
    """
    if isinstance(a, list | tuple) and _holds_arrays(a):
        a = _of(a)
    elif not isinstance(a, Array) and kinds[type(a)] != FOREIGN:
        refuse_lazy(a)
        a = np.array(a, dtype=dtype, ndmin=ndmin, copy=copy)
    found = asarray(a, dtype, **keywords)
    if found is a and copy:
        found = Array(a.expr)  # changed in place, it is not the other that changes
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def from_dlpack(
    x: Any, /, *, device: str | None = None, copy: bool | None = None
) -> Array:
    """Return a chunked array of the memory of an array that has ``__dlpack__``.

    Chunked arrays stay lazy. Parameters are those of ``np.from_dlpack``.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> la.from_dlpack(np.arange(3)).sum().compute()
    np.int64(3)
    """
    if isinstance(x, Array):
        return asarray(x, device=device, copy=copy)
    made: Any = np.from_dlpack
    return from_array(made(x, device=device, copy=copy))


def _of(
    a: Any, dtype: Any = None, unknown: bool = True, keywords: dict[str, Any] | None = None
) -> Array:
    if isinstance(a, list | tuple) and _holds_arrays(a):
        parts = [_of(x) if isinstance(x, list | tuple) else as_array(x) for x in a]
        return stack(parts, allow_unknown_chunksizes=unknown)
    if kinds[type(a)] == FOREIGN:
        return Array(as_node(a))
    refuse_lazy(a)
    has_shape = hasattr(a, "shape") and hasattr(a, "dtype")
    return from_array(a if has_shape else np.asanyarray(a, dtype), **(keywords or {}))


def _holds_arrays(a: Any) -> bool:
    return any(
        isinstance(x, Array) or (isinstance(x, list | tuple) and _holds_arrays(x)) for x in a
    )
