"""Functions of blocks and their neighbourhoods: `map_overlap`, `overlap`, `trim_internal`.

`map_overlap` extends each block by parts of its neighbours (nodes/halo.py), calls the function by
`map_blocks`, and cuts off what belongs to the extension. A depth that exceeds a chunk makes a task
read more than one neighbour, so nothing is rechunked for it; only `overlap` joins short chunks at
an edge without a boundary, where `trim_internal` would otherwise cut too much. Of several arrays,
each has its own depth, and the one with the most axes decides how much is cut off. Unknown lengths
are computed first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import by_axis
from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.halo import BOUNDARIES, Extended, Margin, Trimmed, known_shape
from lazyflow.array.nodes.user_calls import BlockCalls
from lazyflow.array.users.block_layout import aligned, axis_numbers, from_last
from lazyflow.array.users.map_blocks import map_blocks

Depth = dict[int, tuple[int, int]]

#: By how many elements a block is extended: for all axes, for each axis, or by axis.
DepthLike = int | tuple[Any, ...] | Mapping[int, Any] | None


# -- depths and boundaries as users give them ------------------------------------------------------


def _by_axis(given: Any, ndim: int, parameter: str) -> dict[int, Any]:
    """Return a parameter by axis, given as one value for all axes, a tuple of them, or a dict."""
    if isinstance(given, Mapping):
        return by_axis(given, ndim, f"{parameter} names")
    if isinstance(given, tuple):
        if len(given) != ndim:
            raise ValueError(f"{parameter}={given!r} is for {len(given)} axes, not for {ndim}")
        return dict(enumerate(given))
    return dict.fromkeys(range(ndim), given)


def _depths(depth: Any, ndim: int) -> Depth:
    """Return depths before and after, for each axis.

    >>> _depths({0: 1, -1: (0, 2)}, 2)
    {0: (1, 1), 1: (0, 2)}
    """
    found = dict.fromkeys(range(ndim), (0, 0))
    for axis, each in _by_axis(0 if depth is None else depth, ndim, "depth").items():
        sides = tuple(each) if isinstance(each, tuple | list) else (each, each)
        if len(sides) != 2 or any(
            not isinstance(n, int | np.integer) or n < 0 for n in sides
        ):
            raise ValueError(
                f"the depth of axis {axis} must be a length of 0 or more, or a pair of these for "
                f"before and after; got {each!r:.100}"
            )
        found[axis] = (int(sides[0]), int(sides[1]))
    return found


def _boundaries(boundary: Any, ndim: int) -> dict[int, Any]:
    """Return the boundary of each axis."""
    found: dict[int, Any] = dict.fromkeys(range(ndim), "none")
    for axis, each in _by_axis(boundary, ndim, "boundary").items():
        if isinstance(each, str) and each not in BOUNDARIES:
            raise ValueError(
                f"boundary {each!r} is not one of {', '.join(map(repr, BOUNDARIES))} or a value"
                f"{config.nearest(each, BOUNDARIES)}"
            )
        found[axis] = "none" if each is None else each
    return found


# -- extending and trimming -----------------------------------------------------------------------


def overlap(
    x: Array, depth: DepthLike, boundary: Any = None, *, allow_rechunk: bool = True
) -> Array:
    """Return an array whose blocks are those of another, extended by their neighbourhoods.

    Parameters
    ----------
    x
        The array.
    depth
        By how many elements a block is extended: one number, one for each axis, or a dict by axis;
        each may be a pair, for before and after.
    boundary
        The values beyond the edge: "none", "periodic" (the other end), "reflect" (mirrored, the
        last element included), "nearest" (the last element), or a value; also one for each axis,
        or a dict by axis. Farther out the array is repeated, as by `numpy.pad`.
    allow_rechunk
        False: a chunk that is shorter than the depth is an error. Otherwise more than one
        neighbour is read, and short chunks at an edge whose boundary is "none" are joined.

    Raises
    ------
    ValueError
        A chunk is shorter than the depth, and `allow_rechunk` is False.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(4, chunks=2)
    >>> la.overlap.overlap(x, 1, "periodic").compute()
    array([3, 0, 1, 2, 1, 2, 3, 0])
    """
    x.with_known_sizes()
    depths, boundaries = _depths(depth, x.ndim), _boundaries(boundary, x.ndim)
    _check(x.expr, depths, boundaries, allow_rechunk)
    chunks = tuple([
        _long_ends(sizes, *depths[axis]) if _is_none(boundaries[axis]) else sizes
        for axis, sizes in enumerate(x.chunks)
    ])
    return Array(_extended(x.rechunk(chunks).expr, depths, boundaries))


def _check(node: Expr, depths: Depth, boundaries: dict[int, Any], allow_rechunk: bool) -> None:
    for axis, (sizes, n) in enumerate(zip(node.chunks, known_shape(node), strict=True)):
        most = max(depths[axis])
        if most > n == 0 and isinstance(boundaries[axis], str) and not _is_none(boundaries[axis]):
            raise ValueError(
                f"axis {axis} has no elements, so boundary={boundaries[axis]!r} has no values to "
                f"extend it by; use boundary=\"none\" or a value"
            )
        if not allow_rechunk and most > min(sizes) and len(sizes) > 1:
            raise ValueError(
                f"the shortest chunk of axis {axis} has length {min(sizes)}, less than the "
                f"overlapping depth {most}. Pass allow_rechunk=True, or rechunk the array"
            )


def _is_none(boundary: Any) -> bool:
    return isinstance(boundary, str) and boundary == "none"


def _long_ends(sizes: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """Join chunks at the ends that are shorter than a depth.

    >>> _long_ends((1, 1, 3, 3, 1), 2, 2)
    (2, 3, 4)
    """
    made = list(sizes)
    while len(made) > 1 and made[0] < before:
        made[:2] = [made[0] + made[1]]
    while len(made) > 1 and made[-1] < after:
        made[-2:] = [made[-2] + made[-1]]
    return tuple(made)


def _extended(node: Expr, depths: Depth, boundaries: dict[int, Any]) -> Expr:
    if not any(map(any, depths.values())):
        return node
    return Extended((node,), tuple([
        Margin(*depths[axis], boundaries[axis], sizes) for axis, sizes in enumerate(node.chunks)
    ]))


def trim_internal(x: Array, axes: DepthLike, boundary: Any = None) -> Array:
    """Return an array without the outer elements of each block.

    Parameters
    ----------
    x
        The array.
    axes
        How many elements: as `depth` of `overlap`.
    boundary
        As of `overlap`: where it is "none", blocks keep their elements at the edge.

    Raises
    ------
    ValueError
        `axes` names no axis of the array, or `boundary` is not a kind of boundary.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.overlap.overlap(la.arange(4, chunks=2), 1, "reflect")
    >>> la.overlap.trim_internal(x, 1, "reflect").compute()
    array([0, 1, 2, 3])
    """
    depths, boundaries = _depths(axes, x.ndim), _boundaries(boundary, x.ndim)
    if not any(map(any, depths.values())):
        return x
    cuts = []
    for axis, count in enumerate(x.numblocks):
        own = [depths[axis]] * count
        if _is_none(boundaries[axis]):
            own[0] = (0, own[0][1])
            own[-1] = (own[-1][0], 0)
        cuts.append(tuple(own))
    return Array(Trimmed((x.expr,), tuple(cuts)))


trim_overlap = trim_internal


# -- functions of extended blocks -----------------------------------------------------------------


def map_overlap(
    func: Callable[..., Any],
    *args: Any,
    depth: DepthLike | list[Any] = None,
    boundary: Any = None,
    trim: bool = True,
    align_arrays: bool = True,
    allow_rechunk: bool = True,
    **kwargs: Any,
) -> Array:
    """Return an array of a function's results for each block and its neighbourhood.

    Parameters
    ----------
    func
        Called with an extended block of each array.
    *args
        Chunked arrays that broadcast against each other.
    depth, boundary
        As of `overlap`; a list has one for each array.
    trim
        Results for the extension are taken off; of several arrays, the one with the most axes
        decides how much. False: nothing is taken off, so lengths along extended axes are unknown
        before they are computed, unless ``chunks=`` tells them.
    align_arrays
        Arrays are cut so that their chunks fit; otherwise numbers of blocks must be equal or 1.
    allow_rechunk
        As of `overlap`.
    **kwargs
        Parameters of `map_blocks`, and keywords of `func`.

    Raises
    ------
    TypeError
        `func` is no function, or what follows it is no chunked array.
    ValueError
        `depth` is negative, `boundary` is not a kind of boundary, or a chunk is shorter than the
        depth.

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.from_array(np.array([1, 1, 2, 3, 3, 3, 2, 1, 1]), chunks=5)
    >>> la.map_overlap(lambda b: b - np.roll(b, 1), x, depth=1, boundary=0).compute()
    array([ 1,  0,  1,  1,  0,  0, -1, -1,  0])
    """
    _check_arguments(func, args)
    resolve_lengths(*args)
    nodes = [x.expr for x in args]
    if align_arrays:
        nodes, _ = aligned(nodes, from_last(nodes))
    sides = [
        (_depths(d, x.ndim), _boundaries(b, x.ndim))
        for x, d, b in zip(
            args, _for_each(depth, len(args), "depth"),
            _for_each(boundary, len(args), "boundary"), strict=True,
        )
    ]
    extended = []
    for node, own in zip(nodes, sides, strict=True):
        _check(node, *own, allow_rechunk)
        extended.append(Array(_extended(node, *own)))
    mapped = map_blocks(func, *extended, **kwargs)
    first = max(range(len(args)), key=lambda i: (args[i].ndim, -i))
    if not any(map(any, sides[first][0].values())):
        return mapped
    drop_axis, new_axis = kwargs.get("drop_axis"), kwargs.get("new_axis")
    if trim:
        return _trimmed(mapped, nodes[first], *sides[first], drop_axis, new_axis)
    if "chunks" in kwargs:
        return mapped
    return _of_any_length(mapped, sides[first][0], drop_axis, new_axis)


def _check_arguments(func: Any, args: Sequence[Any]) -> None:
    if not callable(func):
        raise TypeError(
            f"map_overlap() takes the function first, then arrays; got a {type(func).__name__}. "
            "x.map_overlap(func, depth) is the method"
        )
    for x in args:
        if not isinstance(x, Array):
            raise TypeError(
                f"map_overlap() takes chunked arrays after the function; got a "
                f"{type(x).__name__}. Pass other values as keywords of the function"
            )
    if not args:
        raise TypeError("map_overlap() needs an array after the function")


def _trimmed(
    found: Array, node: Expr, depths: Depth, boundaries: dict[int, Any], drop_axis: Any,
    new_axis: Any,
) -> Array:
    """Return results of an extended node's blocks without those of the extension."""
    ends = {
        axis: Margin(*depths[axis], boundaries[axis], node.chunks[axis]).ends(n)
        for axis, n in enumerate(known_shape(node))
    }
    moved = _moved(ends, found.ndim, drop_axis, new_axis)
    return Array(Trimmed((found.expr,), tuple([
        moved.get(axis, ((0, 0),) * count) for axis, count in enumerate(found.numblocks)
    ])))


def _of_any_length(found: Array, depths: Depth, drop_axis: Any, new_axis: Any) -> Array:
    """Return results of extended blocks whose lengths along the extended axes are not known."""
    node: Any = found.expr
    extended = {axis: any(each) for axis, each in depths.items()}
    extended = _moved(extended, found.ndim, drop_axis, new_axis)
    chunks = tuple([
        (None,) * len(sizes) if extended.get(axis) else sizes
        for axis, sizes in enumerate(node.chunks)
    ])
    return Array(BlockCalls(node.inputs, node.call, node.shares, node.dtype_or_lazy, chunks))


def map_overlap_of(
    x: Array, func: Callable[..., Any], depth: Any = None, boundary: Any = None,
    trim: bool = True, **kwargs: Any,
) -> Array:
    """Return ``la.map_overlap(func, x, ...)``."""
    return map_overlap(func, x, depth=depth, boundary=boundary, trim=trim, **kwargs)


def _for_each(given: Any, count: int, parameter: str) -> list[Any]:
    if not isinstance(given, list):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"{parameter} is a list for {len(given)} arrays, but there are {count}")
    return given


def _moved(given: dict[int, Any], ndim: int, drop_axis: Any, new_axis: Any) -> dict[int, Any]:
    """Return a dict by axis for a result without the dropped axes and with new ones."""
    dropped = axis_numbers(drop_axis, len(given), "drop_axis")
    kept = [given[axis] for axis in sorted(given) if axis not in dropped]
    if new_axis is None:
        new_axis = range(ndim - len(kept))
    added = axis_numbers(new_axis, ndim, "new_axis")
    left = [axis for axis in range(ndim) if axis not in added]
    return dict(zip(left, kept, strict=True))
