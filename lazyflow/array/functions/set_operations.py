"""What two arrays have in common or not, and the different elements as the Array API has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.elementwise import astype
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.sets import isin, unique
from lazyflow.array.functions.sorting import sort
from lazyflow.array.nodes.align import SizesNeeded


def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """Return the different elements of two arrays together, sorted.

    >>> import lazyflow.array as la
    >>> la.union1d(la.asarray([1, 3]), la.asarray([2, 3])).compute()
    array([1, 2, 3])
    """
    found: Array = unique(concatenate((ar1, ar2), axis=None))
    return found


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Return the different elements that are in both arrays, sorted.

    Parameters are those of ``np.intersect1d``. The different elements of each array become one
    block; how many are in both is known only when something was computed.

    >>> import lazyflow.array as la
    >>> la.intersect1d(la.from_array([3, 1, 2, 3], chunks=2), [3, 4, 1]).compute()
    array([1, 3])
    """
    arrays = [flat(ar1), flat(ar2)]
    dtype = np.result_type(*[x.dtype for x in arrays])
    if not return_indices:
        one, other = [unique(x) for x in arrays]
        return astype(one[isin(one, other)], dtype)
    (one, first), (other, second) = [unique(x, return_index=True) for x in arrays]
    both, back = isin(one, other), isin(other, one)
    return astype(one[both], dtype), first[both], second[back]


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the different elements of `ar1` that are not in `ar2`, sorted.

    Parameters are those of ``np.setdiff1d``: with ``assume_unique=True`` elements of `ar1` are kept
    in their order, and as often as they are there. The different elements of `ar2` become one
    block.

    >>> import lazyflow.array as la
    >>> la.setdiff1d(la.from_array([3, 1, 2, 3], chunks=2), [2, 4]).compute()
    array([1, 3])
    """
    x = flat(ar1) if assume_unique else unique(ar1)
    others = unique(ar2)
    try:
        alone = isin(x, others, invert=True)
    except SizesNeeded:  # types that NumPy compares in a way that depends on the length
        x = x.with_known_sizes()
        alone = isin(x, others, invert=True)
    found: Array = x[alone]
    return found


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the different elements that are in one of two arrays only, sorted.

    Parameters are those of ``np.setxor1d``.

    >>> import lazyflow.array as la
    >>> la.setxor1d(la.from_array([3, 1, 2], chunks=2), [2, 4]).compute()
    array([1, 3, 4])
    """
    one, other = unique(ar1), unique(ar2)
    dtype = np.result_type(one.dtype, other.dtype)  # what has none in common is refused here
    alone = one[isin(one, other, invert=True)], other[isin(other, one, invert=True)]
    if dtype.kind in "mM":  # of which `unique` keeps one NaT of two
        return sort(concatenate(alone))
    found: Array = unique(concatenate(alone), equal_nan=False)
    return found


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


def unique_all(x: ArrayLike) -> UniqueAllResult:
    """Return the different elements, where each is first, where all are in them, and how often.

    Every NaN is an element of its own, as in all four functions of this kind.

    >>> import lazyflow.array as la
    >>> found = la.unique_all(la.from_array([3, 1, 3], chunks=2))
    >>> found.values.compute(), found.indices.compute()
    (array([1, 3]), array([1, 0]))
    """
    return UniqueAllResult(*unique(as_array(x), True, True, True, equal_nan=False))


def unique_counts(x: ArrayLike) -> UniqueCountsResult:
    """Return the different elements, and how often each is there.

    >>> import lazyflow.array as la
    >>> values, counts = la.unique_counts(la.from_array([3, 1, 3], chunks=2))
    >>> counts.compute()
    array([1, 2])
    """
    return UniqueCountsResult(*unique(as_array(x), return_counts=True, equal_nan=False))


def unique_inverse(x: ArrayLike) -> UniqueInverseResult:
    """Return the different elements, and which of them each element is, in the shape of the array.

    >>> import lazyflow.array as la
    >>> values, inverse = la.unique_inverse(la.from_array([3, 1, 3], chunks=2))
    >>> values[inverse].compute()
    array([3, 1, 3])
    """
    return UniqueInverseResult(*unique(as_array(x), return_inverse=True, equal_nan=False))


def unique_values(x: ArrayLike) -> Array:
    """Return the different elements, sorted.

    >>> import lazyflow.array as la
    >>> la.unique_values(la.from_array([3, 1, 3], chunks=2)).compute()
    array([1, 3])
    """
    found: Array = unique(as_array(x), equal_nan=False)
    return found
