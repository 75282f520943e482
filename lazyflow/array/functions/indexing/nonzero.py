"""The indices of elements that are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.arguments import ArrayLike
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.indexing.masks import places_of


def _mask(a: Any) -> Array:
    return Array(elementwise.not_zero(as_node(a)))


def argwhere(a: ArrayLike) -> Array:
    """Return the indices of elements that are not zero, a row for each element.

    How many there are is known only when something was computed.

    >>> import lazyflow.array as la
    >>> la.argwhere(la.eye(3, chunks=2)).compute()
    array([[0, 0],
           [1, 1],
           [2, 2]])
    """
    mask = _mask(a).with_known_sizes()
    if not mask.ndim:
        return argwhere(mask[None])[:, :0]
    places = Array(places_of(mask.expr))[:, None]
    if mask.ndim == 1:
        return places
    lengths = np.array(mask.shape, np.intp)
    return places // np.append(np.cumprod(lengths[:0:-1])[::-1], 1) % lengths


def nonzero(a: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of elements that are not zero, an array for each axis.

    >>> import lazyflow.array as la
    >>> x = la.from_array([0, 3, 0, 5], chunks=2)
    >>> (indices,) = la.nonzero(x)
    >>> indices.compute()
    array([1, 3])
    """
    if not as_node(a).ndim:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() "
            "instead."
        )
    found = argwhere(a)
    return tuple([found[:, k] for k in range(found.shape[1])])


def flatnonzero(a: ArrayLike) -> Array:
    """Return the indices, in C order, of elements that are not zero.

    >>> import lazyflow.array as la
    >>> la.flatnonzero(la.arange(6, chunks=2) % 2).compute()
    array([1, 3, 5])
    """
    mask = _mask(a).with_known_sizes()
    if not mask.ndim:
        mask = mask[None]
    return Array(places_of(mask.expr))
