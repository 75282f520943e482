"""Index arrays in the brackets of ``x[...]``, and the indices of elements that are not zero.

The chunks of a result depend on the places, so lazy index arrays are computed at the call. A lazy
mask that is the only index array stays lazy (nodes/indexing/masks.py), and the length of the result
is unknown. Masks beside others are computed and become the indices where they are true. Index
arrays that each vary along an axis of their own, as of ``np.ix_``, are gathered axis after axis,
which needs no index for each point; all others together, by one `gather`. Indices are checked at
the call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lazyflow.api.evaluate import compute
from lazyflow.array.chunks import Chunks, normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.indexing import keys
from lazyflow.array.nodes.indexing.gather import Places, gather
from lazyflow.array.nodes.indexing.masks import check_lengths, masked, places_of
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.sources import InMemory
from lazyflow.array.nodes.views import view

# -- indices of elements that are not zero -----------------------------------------------------


def _mask(a: Any) -> Array:
    return Array(elementwise.not_zero(as_node(a)))


def argwhere(a: ArrayLike) -> Array:
    """Return the indices of elements that are not zero, a row for each element.

    Their number is known only after a computation.

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

    Raises
    ------
    ValueError
        The array has no axis.

    Examples
    --------
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


# -- between the brackets ----------------------------------------------------------------------


class Key(NamedTuple):
    """The parts of a key.

    basic
        Its slices, integers and new axes, with a full slice for each axis of an index array.
    arrays
        The index arrays, each with its first axis in what `basic` gives.
    first
        The axis of the result where the axes of the index arrays stand.
    """

    basic: list[Any]
    arrays: list[tuple[int, Any]]
    first: int


def compute_integers(entries: list[Any]) -> list[Any]:
    """Return entries of a key with lazy integers computed: the result depends on them."""
    lazy = [x for x in entries if isinstance(x, Array) and (x.dtype != bool or not x.ndim)]
    found = iter(compute(*lazy)) if lazy else iter(())
    waiting = set(map(id, lazy))
    made = []
    for each in entries:
        if id(each) in waiting:
            each = np.asarray(next(found))
        if isinstance(each, np.ndarray) and not each.ndim and each.dtype != bool:
            each = int(each)
        made.append(each)
    return made


def split_key(entries: list[Any]) -> Key:
    """Divide the entries of a key among slices and index arrays."""
    basic: list[Any] = []
    arrays = []
    spots: list[int] = []
    before = axis = 0  # axes of the result that slices gave so far; axes of what basic gives
    for spot, entry in enumerate(entries):
        if entry is Ellipsis:  # of no axes, but between index arrays
            continue
        if entry is None or isinstance(entry, slice):
            basic.append(entry)
            before += not spots
            axis += 1
            continue
        spots.append(spot)
        if isinstance(entry, int):
            basic.append(entry)
            continue
        if entry.dtype == bool and not entry.ndim:  # a new axis of length 1 or 0
            basic.append(None)
            arrays.append((axis, np.zeros(int(bool(entry)), dtype=np.intp)))
            axis += 1
            continue
        width = entry.ndim if entry.dtype == bool else 1
        basic.extend([slice(None)] * width)
        arrays.append((axis, entry))
        axis += width
    together = not spots or spots[-1] - spots[0] == len(spots) - 1
    return Key(basic, arrays, before if together else 0)


def take_by_arrays(x: Array, entries: list[Any]) -> Expr:
    """Return the node of ``x[key]`` for a key with index arrays."""
    entries = compute_integers(entries)
    if keys.is_basic(entries):
        return x[tuple(entries)].expr
    key = split_key(entries)
    base = x[tuple(key.basic)]
    if len(key.arrays) == 1:
        ((axis, only),) = key.arrays
        if only.dtype == bool and (only.ndim > 1 or isinstance(only, Array)):
            return _moved(take_by_mask(base, only, axis), (axis,), (key.first,))
    places = as_indices(base, key.arrays)
    return take_points(base.expr, places, key.first)


def take_by_mask(base: Array, mask: Any, axis: int) -> Expr:
    """Return the elements that a mask chooses of the axes of an array from `axis` on."""
    node = _mask_node(mask, base.chunks[axis:axis + mask.ndim])
    try:
        return masked(base.expr, node, axis)
    except SizesNeeded:
        if isinstance(mask, Array):
            resolve_lengths(base, mask)
            node = mask.expr
        else:
            resolve_lengths(base)
        return masked(base.expr, node, axis)


def _mask_node(mask: Any, chunks: Chunks) -> Expr:
    if isinstance(mask, Array):
        return mask.expr
    mask = np.array(mask)
    mask.setflags(write=False)
    fits = bool(chunks) and not any(None in sizes for sizes in chunks)
    if fits and mask.shape == tuple(map(sum, chunks)):
        return InMemory(mask, chunks)
    return InMemory(mask, normalize_chunks("auto", mask.shape, None, mask.dtype))


def as_indices(base: Array, arrays: list[tuple[int, Any]]) -> dict[int, Any]:
    """Return an array of indices, none of them negative, for each axis that is indexed.

    Masks become the indices where they are True; lazy ones are computed for that.
    """
    lazy = [x for _, x in arrays if isinstance(x, Array)]
    found = iter(compute(*lazy)) if lazy else iter(())
    if None in base.shape:
        resolve_lengths(base)
    places: dict[int, Any] = {}
    for axis, each in arrays:
        if isinstance(each, Array):
            each = next(found)
        if each.dtype == bool:
            check_lengths(each.shape, base.shape, axis)
            places.update(zip(range(axis, axis + each.ndim), each.nonzero(), strict=True))
        else:
            places[axis] = checked_indices(each, axis, base.shape[axis])
    return places


def checked_indices(at: Any, axis: int, n: int) -> np.ndarray[Any, Any]:
    """Return indices of an axis, negative ones counted from its end.

    Raises
    ------
    IndexError
        An index is out of bounds.
    """
    given = np.asarray(at)
    at = given.astype(np.intp)  # a copy: the caller's may change
    if not at.size:
        return at
    low = at.min()
    if low < -n or at.max() >= n:
        wrong = given[(at < -n) | (at >= n)].flat[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {n}")
    if low < 0:
        at[at < 0] += n
    return at


def broadcast_indices(places: dict[int, Any]) -> tuple[Any, ...]:
    """Return index arrays broadcast to one shape."""
    try:
        shape = np.broadcast_shapes(*[x.shape for x in places.values()])
        # Read-only: of np.broadcast_arrays' it can't be asked without a warning, as pickle does.
        return tuple([np.broadcast_to(x, shape) for x in places.values()])
    except ValueError:
        shapes = " ".join(str(x.shape).replace(" ", "") for x in places.values())
        raise IndexError(
            "shape mismatch: indexing arrays could not be broadcast together with shapes "
            f"{shapes}"
        ) from None


def take_points(node: Expr, places: dict[int, Any], first: int = 0) -> Expr:
    """Return points, with the axes of the index arrays from `first` on: at 0 as in ``vindex``."""
    axes = tuple(places)
    shared: Places = broadcast_indices(places)
    ndim = shared[0].ndim
    varying = _directions(tuple(places.values()), ndim)
    if varying is not None:
        return _crossed(node, places, varying, first)
    made = gather(node, axes, shared)
    start = axes[0] if len(axes) == 1 else 0
    return _moved(made, tuple(range(start, start + ndim)), tuple(range(first, first + ndim)))


def _directions(places: tuple[Any, ...], ndim: int) -> list[int] | None:
    """Return the axis along which each index array varies, if each has its own (np.ix_)."""
    if len(places) < 2 or len(places) != ndim:
        return None
    found = []
    for each in places:
        own = [axis for axis, n in enumerate(each.shape, ndim - each.ndim) if n != 1]
        if len(own) != 1:
            return None
        found += own
    return found if len(set(found)) == ndim else None


def _crossed(node: Expr, places: dict[int, Any], varying: list[int], first: int) -> Expr:
    """Return the elements at index arrays that vary along axes of their own, one by one."""
    for axis, each in places.items():
        node = gather(node, (axis,), (each.ravel(),))
    to = [first + axis for axis in varying]
    return _moved(node, tuple(places), tuple(to))


def _moved(node: Expr, axes: tuple[int, ...], to: tuple[int, ...]) -> Expr:
    """Return a node with some axes moved; the others keep their order."""
    if axes == to:
        return node
    order = [axis for axis in range(node.ndim) if axis not in axes]
    for place, axis in sorted(zip(to, axes, strict=True)):
        order.insert(place, axis)
    return view(node, Selection((None,) * node.ndim, tuple(order)))
