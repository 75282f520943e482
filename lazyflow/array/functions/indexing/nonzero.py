"""The indices of elements that are not zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation.lengths import known
from lazyflow.array.functions.arguments import ArrayLike
from lazyflow.array.functions.indexing.index_arrays import take_by_mask
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.sources import Made, Region


@dataclass(frozen=True)
class Coordinates:
    """The indices of each element, along a new last axis."""

    ndim: int
    __name__ = "argwhere"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        *places, which = region
        out = np.empty([s.stop - s.start for s in region], dtype=np.intp)
        for k in range(which.start, which.stop):
            shape = [-1 if axis == k else 1 for axis in range(self.ndim)]
            out[..., k - which.start] = np.arange(places[k].start, places[k].stop).reshape(shape)
        return out


@dataclass(frozen=True)
class Number:
    """The index of each element in C order."""

    shape: tuple[int, ...]
    __name__ = "flatnonzero"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        places = np.ogrid[region]
        found = np.ravel_multi_index(tuple(places), self.shape)
        return found.astype(np.intp, copy=False)


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
    mask = _mask(a)
    known(mask)
    if not mask.ndim:
        return argwhere(mask[None])[:, :0]
    ndim = mask.ndim
    made = Made(Coordinates(ndim), np.dtype(np.intp), (*mask.chunks, (ndim,)))
    return Array(take_by_mask(Array(made), mask, 0))


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
    mask = _mask(a)
    known(mask)
    if not mask.ndim:
        mask = mask[None]
    made = Made(Number(mask.shape), np.dtype(np.intp), mask.chunks)
    return Array(take_by_mask(Array(made), mask, 0))
