"""Functions that add, remove and reorder axes: squeeze, transpose, moveaxis, atleast_1d, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow.array.core import Array
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import ArrayLike, Axes, as_array
from lazyflow.array.nodes.reductions import axis_of


def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """Return an array without axes of length 1: all of them, or those given.

    >>> import lazyflow.array as la
    >>> la.squeeze(la.ones((1, 3, 1))).shape, la.squeeze(la.ones((1, 3, 1)), axis=0).shape
    ((3,), (3, 1))
    """
    x = as_array(a)
    if axis is None:
        gone: Any = {k for k, n in enumerate(x.with_known_sizes().shape) if n == 1}
    elif not x.ndim and axis in (0, -1):
        gone = set()  # as in NumPy
    else:
        gone = set(normalize_axis_tuple(axis, x.ndim))
        if any(x.shape[k] is None for k in gone):
            known(x)
        if any(x.shape[k] != 1 for k in gone):
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to one: the shape "
                f"is {x.shape}"
            )
    return x[tuple([0 if k in gone else slice(None) for k in range(x.ndim)])]


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Return an array with new axes of length 1 at these places of the result.

    >>> import lazyflow.array as la
    >>> la.expand_dims(la.ones((2, 3)), (0, 3)).shape
    (1, 2, 3, 1)
    """
    x = as_array(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    new = set(normalize_axis_tuple(axis, x.ndim + count))
    return x[tuple([None if k in new else slice(None) for k in range(x.ndim + count)])]


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return an array with its axes in another order; in reverse order if none is given.

    >>> import lazyflow.array as la
    >>> la.transpose(la.asarray([[1, 2, 3], [4, 5, 6]])).compute()
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    return as_array(a).transpose(axes)


permute_dims = transpose


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return an array with its last two axes exchanged.

    >>> import lazyflow.array as la
    >>> la.matrix_transpose(la.ones((4, 2, 3))).shape
    (4, 3, 2)
    """
    found = as_array(x)
    if found.ndim < 2:
        raise ValueError(
            f"Input array must be at least 2-dimensional, but it is {found.ndim}"
        )
    return found.mT


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Return an array with axes moved to other places; the others keep their order.

    >>> import lazyflow.array as la
    >>> la.moveaxis(la.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_array(a)
    sources = normalize_axis_tuple(source, x.ndim)
    places = normalize_axis_tuple(destination, x.ndim)
    if len(sources) != len(places):
        raise ValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [k for k in range(x.ndim) if k not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return x.transpose(order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Return an array with an axis moved to before another.

    Parameters are those of ``np.rollaxis``.

    >>> import lazyflow.array as la
    >>> la.rollaxis(la.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_array(a)
    axis = axis_of(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(
            f"'start' arg requires {-x.ndim} <= start < {x.ndim + 1}, but {start} was passed in"
        )
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - (axis < start))


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return an array with two axes exchanged.

    >>> import lazyflow.array as la
    >>> la.swapaxes(la.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_array(a)
    order = list(range(x.ndim))
    one, other = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[one], order[other] = other, one
    return x.transpose(order)


def _each(arrays: tuple[Any, ...], change: Any) -> Any:
    found = [change(as_array(x)) for x in arrays]
    return found[0] if len(found) == 1 else tuple(found)


def atleast_1d(*arys: ArrayLike) -> Any:
    """Return arrays with at least one axis.

    >>> import lazyflow.array as la
    >>> la.atleast_1d(la.asarray(3)).compute()
    array([3])
    """
    return _each(arys, lambda x: x if x.ndim else x[None])


def atleast_2d(*arys: ArrayLike) -> Any:
    """Return arrays with at least two axes; new ones come first.

    >>> import lazyflow.array as la
    >>> la.atleast_2d(la.arange(3)).shape
    (1, 3)
    """
    return _each(arys, lambda x: x[(None,) * (2 - x.ndim)] if x.ndim < 2 else x)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Return arrays with at least three axes, where ``np.atleast_3d`` puts them.

    >>> import lazyflow.array as la
    >>> la.atleast_3d(la.arange(3)).shape
    (1, 3, 1)
    """
    keys: Any = {0: (None, None, None), 1: (None, slice(None), None), 2: (..., None)}
    return _each(arys, lambda x: x[keys[x.ndim]] if x.ndim < 3 else x)
