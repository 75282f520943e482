"""Functions that change the shape of arrays, or add, remove and reorder axes.

Functions of axes are views, which the passes move down through most operations, so that only what
is needed is read. `reshape` keeps NumPy's order of elements and cuts chunks for that where it must
(nodes/reshaped.py); for Fortran's order it transposes before and after. `reshape_blockwise` never
cuts a chunk, but the order of elements is another one than NumPy's. `broadcast_to` keeps the chunks
of the array and chooses automatic ones along the repeated axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow.array.aliases import axes_in_memory, is_contiguous, is_fortran, reshaped_seen
from lazyflow.array.chunks import normalize_chunks, parse_bytes
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import order_of, resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    Axes,
    ChunksLike,
    ShapeLike,
    as_array,
    broadcast_node,
    lengths_of,
)
from lazyflow.array.nodes.align import broadcast_shape, common_chunks
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axis_of
from lazyflow.array.nodes.reshaped import ReshapedBlocks, grouped, reshaped

# -- axes --------------------------------------------------------------------------------------


def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """Return an array without axes of length 1: all of them, or those given.

    Raises
    ------
    ValueError
        An axis of `axis` has another length than 1.

    Examples
    --------
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
            resolve_lengths(x)
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

    Raises
    ------
    ValueError
        The array has fewer than two axes.

    Examples
    --------
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

    Raises
    ------
    ValueError
        `source` and `destination` have different numbers of axes.

    Examples
    --------
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

    Raises
    ------
    AxisError
        There is no such axis, or no such place.

    Examples
    --------
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


# -- the same elements in another shape -----------------------------------------------------------


def reshape(
    a: ArrayLike, shape: ShapeLike, order: str = "C", *, copy: bool | None = None,
    merge_chunks: bool = True, limit: int | str | None = None,
) -> Array:
    """Return the elements in another shape, in C order.

    Parameters
    ----------
    shape
        A length or lengths; one may be -1, and follows from the others.
    order
        Order of the elements in both shapes: "C", "F", or "A": "F" where NumPy's array would lie in
        that order in memory, without gaps, such as ``x.T``, else "C".
    copy
        As of ``np.reshape``: True returns an independent array; False raises ValueError where a
        view of `a` is impossible.
    merge_chunks
        False: of axes that become one, all except the last are cut into chunks of length 1. True:
        afterwards, chunks along the first of them are joined where there is room.
    limit
        Most bytes of a chunk; axes that stay are cut, too, if that needs it. None: as many as the
        largest chunk has now, and axes that stay keep their chunks.

    Raises
    ------
    ValueError
        The numbers of elements differ, -1 comes twice, `order` is none of "C", "F" and "A", or
        ``copy=False`` and a copy is needed.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.arange(12, chunks=6).reshape(4, -1).chunks
    ((2, 2), (3,))
    """
    if order not in ("C", "F", "A"):
        raise ValueError(f"order must be one of 'C', 'F', or 'A' (got {order!r})")
    x = as_array(a)
    if copy is not None:
        made = reshape(x, shape, order, merge_chunks=merge_chunks, limit=limit)
        if not copy and made is not x and made._lens is None and made.size:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return Array(made.expr) if copy else made
    new_shape = lengths_of(shape)
    if order == "F" or (order == "A" and is_fortran(x, order_of)):
        turned = reshape(x.transpose(), new_shape[::-1], merge_chunks=merge_chunks, limit=limit)
        return turned.transpose()
    if x.ndim == 1 and new_shape == (-1,):
        return x
    new_shape = _without_unknown(new_shape, x.size, x.shape)
    if not x.size:
        return Array(broadcast_node(constant(np.zeros((), x.dtype)), new_shape))
    if isinstance(limit, str):
        limit = parse_bytes(limit)
    if limit is not None:
        limit = max(limit // max(x.itemsize, 1), 1)
    return reshaped_seen(x, reshaped(x.expr, new_shape, limit, merge_chunks))


def _without_unknown(
    new_shape: tuple[int, ...], size: int, before: tuple[int, ...]
) -> tuple[int, ...]:
    if new_shape.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    rest = prod([n for n in new_shape if n != -1])
    found = tuple([size // rest if n == -1 and rest else n for n in new_shape])
    if any(n < 0 for n in found) or prod(found) != size:
        shown = str(new_shape).replace(" ", "")
        raise ValueError(
            f"cannot reshape array of size {size} into shape {shown}: its shape is {before}"
        )
    return found


def reshape_blockwise(x: ArrayLike, shape: ShapeLike, chunks: Any = None) -> Array:
    """Return an array whose blocks are those of `x` in another shape: the order is not NumPy's.

    Neighbouring axes are joined, or one is divided, without a rechunk.

    Parameters
    ----------
    x
        The array.
    shape
        A length or lengths; one may be -1, and follows from the others.
    chunks
        For each axis the lengths of the chunks of the result: needed if it has more axes than `x`,
        to undo a reshape of blocks.

    Raises
    ------
    NotImplementedError
        Several axes would become several other axes.
    ValueError
        `chunks` is left out where it is needed, or does not fit.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=6).reshape(2, 3).rechunk((2, (2, 1)))
    >>> y = la.reshape_blockwise(x, 6)
    >>> y.compute(), y.chunks
    (array([0, 1, 3, 4, 2, 5]), ((4, 2),))
    >>> bool((la.reshape_blockwise(y, (2, 3), chunks=x.chunks) == x).all())
    True
    """
    x = as_array(x).with_known_sizes()
    new_shape = _without_unknown(lengths_of(shape), x.size, x.shape)
    if new_shape == x.shape or not x.size:
        return reshape(x, new_shape)
    groups = grouped(x.shape, new_shape)
    if any(g.last - g.first > 1 and g.to_last - g.to_first > 1 for g in groups):
        raise NotImplementedError(
            f"reshape_blockwise() makes one axis of neighbours, or several of one; {x.shape} to "
            f"{new_shape} does both at once. Do it in two steps"
        )
    if chunks is None or len(new_shape) < x.ndim:
        if len(new_shape) > x.ndim:
            raise ValueError(
                f"from {x.ndim} axes to {len(new_shape)} the chunks are not known: pass chunks=, "
                "as those of the array before its axes became one"
            )
        chunks = [_products(x.chunks[g.first:g.last]) for g in groups if g.to_last > g.to_first]
    new_chunks = normalize_chunks(tuple(chunks), new_shape, None, x.dtype)
    for g in groups:
        own, other = x.chunks[g.first:g.last], new_chunks[g.to_first:g.to_last]
        if _products(own) != _products(other):
            raise ValueError(
                f"blocks of the chunks {other} have {_products(other)} elements, but those of "
                f"{own} have {_products(own)}: pass chunks= of the array before its axes became one"
            )
    return Array(ReshapedBlocks((x.expr,), new_chunks, groups))


def _products(chunks: Any) -> tuple[int, ...]:
    """Return the sizes of the blocks that chunks of some axes make, in C order."""
    return tuple(map(prod, product(*chunks)))


def reshape_method(
    x: Array, *shape: Any, order: str = "C", copy: bool | None = None, merge_chunks: bool = True,
    limit: int | str | None = None,
) -> Array:
    """Return ``la.reshape(x, shape, ...)``; lengths may be several arguments, as of NumPy's."""
    return reshape(
        x, shape[0] if len(shape) == 1 else shape, order, copy=copy, merge_chunks=merge_chunks,
        limit=limit,
    )


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """Return the elements along one axis, in C order.

    Parameters
    ----------
    order
        "C", "F" or "A", as of `reshape`, or "K": as they would lie in NumPy's memory.

    Raises
    ------
    ValueError
        `order` is none of "C", "F" and "A".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.asarray([[1, 2], [3, 4]])
    >>> la.ravel(x).compute(), la.ravel(x.T, "K").compute(), la.ravel(x, "F").compute()
    (array([1, 2, 3, 4]), array([1, 2, 3, 4]), array([1, 3, 2, 4]))
    """
    x = as_array(a)
    if order == "K":
        x, order = x.transpose(axes_in_memory(x, order_of)), "C"
    found = reshape(x, -1, order)
    return found if is_contiguous(x, order) else Array(found.expr)  # NumPy copies, too


def flat(a: Any) -> Array:
    """Return an array with one axis, in C order."""
    node = as_node(a)
    if node.ndim == 1:
        return Array(node)
    if node.ndim == 0:
        return Array(node)[None]
    return ravel(Array(node))


# -- stretching ---------------------------------------------------------------------------------


def broadcast_to(
    array: ArrayLike, shape: ShapeLike, subok: bool = False, *, chunks: ChunksLike | None = None
) -> Array:
    """Return an array broadcast to a shape.

    Parameters
    ----------
    chunks
        Of the result, as of `normalize_chunks`. None: those of the array, and automatic ones along
        repeated axes.

    Raises
    ------
    TypeError
        ``subok=True``: chunked arrays have no subclasses.
    ValueError
        The array does not broadcast to `shape`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.broadcast_to(la.arange(3), (2, 3)).compute()
    array([[0, 1, 2],
           [0, 1, 2]])
    """
    if subok:
        raise TypeError("chunked arrays have no subclasses; leave subok=True out")
    x = as_array(array)
    new_shape: tuple[Any, ...] = lengths_of(shape)
    resolve_lengths(x)
    try:
        fits = x.ndim <= len(new_shape) and broadcast_shape([x.shape, new_shape]) == new_shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"operands could not be broadcast together: an array of shape {x.shape} does not "
            f"broadcast to the requested shape {new_shape}"
        )
    if x.shape == new_shape and chunks is None:
        return x
    skipped = len(new_shape) - x.ndim
    own = [
        x.chunks[k - skipped] if k >= skipped and x.shape[k - skipped] == n else "auto"
        for k, n in enumerate(new_shape)
    ]
    sizes = normalize_chunks(own if chunks is None else chunks, new_shape, None, x.dtype)
    node = x.expr if x.shape == new_shape else broadcast_node(x.expr, new_shape)
    return Array(rechunk(node, sizes))


def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Array, ...]:
    """Return arrays broadcast to their common shape, in the chunks that operations on them have.

    Raises
    ------
    TypeError
        ``subok=True``: chunked arrays have no subclasses.
    ValueError
        The arrays do not broadcast against each other.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x, y = la.broadcast_arrays(la.arange(3), la.asarray([[1], [2]]))
    >>> x.shape, y.compute()
    ((2, 3), array([[1, 1, 1],
           [2, 2, 2]]))
    """
    arrays = [as_array(x) for x in args]
    resolve_lengths(*arrays)
    shape: Any = broadcast_shape([x.shape for x in arrays])
    chunks = common_chunks([x.expr for x in arrays])
    return tuple([
        broadcast_to(x, shape, subok, chunks=None if x.chunks == chunks else chunks)
        for x in arrays
    ])


# -- lengths ------------------------------------------------------------------------------------


def shape(a: ArrayLike) -> tuple[Any, ...]:
    """Return the lengths of the axes; None for one that is not known yet.

    >>> import lazyflow.array as la
    >>> la.shape(la.ones((2, 3)))
    (2, 3)
    >>> x = la.arange(5)
    >>> la.shape(x[x > 2])
    (None,)
    """
    return as_array(a).shape


def ndim(a: ArrayLike) -> int:
    """Return the number of axes.

    >>> import lazyflow.array as la
    >>> la.ndim(la.ones((2, 3)))
    2
    """
    return as_array(a).ndim


def size(a: ArrayLike, axis: Axes = None) -> int:
    """Return the number of elements, of all axes or along some.

    >>> import lazyflow.array as la
    >>> la.size(la.ones((2, 3))), la.size(la.ones((2, 3)), axis=1)
    (6, 3)
    """
    x = as_array(a).with_known_sizes()
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return prod([x.shape[k] for k in axes])
