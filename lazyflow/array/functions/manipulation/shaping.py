"""Functions that give arrays another shape: reshape, squeeze, transpose, broadcast, ..."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow.array.chunks import normalize_chunks, parse_bytes
from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import helper, implements
from lazyflow.array.evaluation.lengths import known
from lazyflow.array.functions.arguments import as_array, check_order, stretched
from lazyflow.array.nodes.align import broadcast_shape
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.moments import axis_of
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reshaped import reshaped
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view

# -- the same elements in another shape -----------------------------------------------------------


@implements(np.reshape)
def reshape(
    a: Any, shape: Any, order: str = "C", *, copy: bool | None = None,
    merge_chunks: bool = True, limit: int | str | None = None,
) -> Array:
    """Return the elements in another shape, in C order.

    Parameters
    ----------
    shape
        A length or lengths; one may be -1: what is left.
    copy
        As of ``np.reshape``; what is lazy can't promise that nothing is copied.
    merge_chunks
        False: axes that become one are cut into chunks of length 1, but for the last of them.
        Otherwise chunks along the first of them are put together again where there is room.
    limit
        Bytes of a chunk of axes that change; as many as the largest has now, if left out.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.arange(12, chunks=6).reshape(4, -1).chunks
    ((2, 2), (3,))
    """
    check_order(order, ("C", "A"))
    if copy is False:
        raise ValueError("an array that has to be computed can't be reshaped without a copy")
    x = as_array(a)
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    wanted = tuple([operator.index(n) for n in given])
    if x.ndim == 1 and wanted == (-1,):
        return x
    wanted = _without_unknown(wanted, x.size, x.shape)
    if not x.size:
        return Array(stretched(constant(np.zeros((), x.dtype)), wanted))
    if isinstance(limit, str):
        limit = parse_bytes(limit)
    if limit is not None:
        limit = max(limit // max(x.itemsize, 1), 1)
    return Array(reshaped(x.expr, wanted, limit, merge_chunks))


def _without_unknown(
    wanted: tuple[int, ...], size: int, before: tuple[int, ...]
) -> tuple[int, ...]:
    if wanted.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    rest = prod([n for n in wanted if n != -1])
    found = tuple([size // rest if n == -1 and rest else n for n in wanted])
    if any(n < 0 for n in found) or prod(found) != size:
        shown = str(wanted).replace(" ", "")
        raise ValueError(
            f"cannot reshape array of size {size} into shape {shown}: its shape is {before}"
        )
    return found


@helper()
def reshape_method(
    x: Array, *shape: Any, order: str = "C", copy: bool | None = None, merge_chunks: bool = True,
    limit: int | str | None = None,
) -> Array:
    """As `reshape`, with the lengths as one argument or several."""
    return reshape(
        x, shape[0] if len(shape) == 1 else shape, order, copy=copy, merge_chunks=merge_chunks,
        limit=limit,
    )


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Array:
    """Return the elements along one axis, in C order."""
    if order == "K":
        order = "A"
    return reshape(a, -1, order)


def flat(a: Any) -> Array:
    """Return an array with one axis, in C order."""
    node = as_node(a)
    if node.ndim == 1:
        return Array(node)
    if node.ndim == 0:
        return Array(node)[None]
    found: Array = ravel(Array(node))
    return found


# -- axes -----------------------------------------------------------------------------------------


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Array:
    """Return an array without axes of length 1: all, or those given."""
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
    picks = tuple([0 if k in gone else None for k in range(x.ndim)])
    return Array(view(x.expr, Selection(picks, tuple([k for k in range(x.ndim) if k not in gone]))))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Array:
    """Return an array with new axes of length 1 at these places of the result."""
    x = as_array(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    new = set(normalize_axis_tuple(axis, x.ndim + count))
    old = iter(range(x.ndim))
    axes = tuple([~1 if k in new else next(old) for k in range(x.ndim + count)])
    return Array(view(x.expr, Selection((None,) * x.ndim, axes)))


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> Array:
    """Return an array with its axes in another order; turned around if none is given."""
    return as_array(a).transpose(axes)


@implements(*filter(None, [getattr(np, "permute_dims", None)]))
def permute_dims(a: Any, axes: Any = None) -> Array:
    """As `transpose`."""
    return as_array(a).transpose(axes)


@implements(*filter(None, [getattr(np, "matrix_transpose", None)]))
def matrix_transpose(x: Any, /) -> Array:
    """Return an array with its last two axes exchanged."""
    found = as_array(x)
    if found.ndim < 2:
        raise ValueError(
            f"Input array must be at least 2-dimensional, but it is {found.ndim}"
        )
    return found.mT


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Return an array with axes moved to other places; the others keep their order."""
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


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """Return an array with an axis moved to before another; parameters as np.rollaxis."""
    x = as_array(a)
    axis = axis_of(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(
            f"'start' arg requires {-x.ndim} <= start < {x.ndim + 1}, but {start} was passed in"
        )
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - (axis < start))


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Return an array with two axes exchanged."""
    x = as_array(a)
    order = list(range(x.ndim))
    one, other = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[one], order[other] = other, one
    return x.transpose(order)


def _each(arrays: tuple[Any, ...], change: Any) -> Any:
    found = [change(as_array(x)) for x in arrays]
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """Return arrays with at least one axis."""
    return _each(arys, lambda x: x if x.ndim else x[None])


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Return arrays with at least two axes; new ones come first."""
    return _each(arys, lambda x: x[(None,) * (2 - x.ndim)] if x.ndim < 2 else x)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Return arrays with at least three axes, as np.atleast_3d places them."""
    keys: Any = {0: (None, None, None), 1: (None, slice(None), None), 2: (..., None)}
    return _each(arys, lambda x: x[keys[x.ndim]] if x.ndim < 3 else x)


# -- stretching ---------------------------------------------------------------------------------


@implements(np.broadcast_to)
def broadcast_to(
    array: Any, shape: Any, subok: bool = False, *, chunks: Any = None
) -> Array:
    """Return an array stretched to a shape.

    Parameters
    ----------
    chunks
        Of the result, as of `normalize_chunks`. Left out: those of the array, and automatic ones
        along stretched axes.
    """
    if subok:
        raise TypeError("chunked arrays have no subclasses; leave subok=True out")
    x = as_array(array)
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    wanted: tuple[Any, ...] = tuple([operator.index(n) for n in given])
    known(x)
    try:
        fits = x.ndim <= len(wanted) and broadcast_shape([x.shape, wanted]) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"operands could not be broadcast together: an array of shape {x.shape} does not "
            f"stretch to the requested shape {wanted}"
        )
    if x.shape == wanted and chunks is None:
        return x
    skipped = len(wanted) - x.ndim
    own = [
        x.chunks[k - skipped] if k >= skipped and x.shape[k - skipped] == n else "auto"
        for k, n in enumerate(wanted)
    ]
    sizes = normalize_chunks(own if chunks is None else chunks, wanted, None, x.dtype)
    node = x.expr if x.shape == wanted else stretched(x.expr, wanted)
    return Array(rechunk(node, sizes))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Array, ...]:
    """Return arrays stretched to their common shape."""
    arrays = [as_array(x) for x in args]
    known(*arrays)
    shape = broadcast_shape([x.shape for x in arrays])
    return tuple([broadcast_to(x, shape, subok) for x in arrays])


# -- questions ----------------------------------------------------------------------------------


@implements(np.shape)
def shape(a: Any) -> tuple[Any, ...]:
    """Return the lengths of the axes."""
    return as_array(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    """Return the number of axes."""
    return as_array(a).ndim


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements, of all axes or of some."""
    x = as_array(a).with_known_sizes()
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return prod([x.shape[k] for k in axes])
