"""Functions that join arrays: concatenate, stack, block and their relatives.

Joined arrays hand on their blocks (nodes/joined.py): the chunks along the axis are those of all
arrays one after another, and only along other axes arrays may be rechunked to common chunks. Arrays
in memory that are no chunked arrays get automatic chunks along the axis. The dtype is that of
``np.concatenate`` for empty arrays, at the call. Unknown lengths are accepted unless
``allow_unknown_chunksizes=False``. `stack`, `block` and the others call `concatenate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.arguments import (
    NUMBERS,
    ArrayLike,
    Casting,
    DTypeLike,
    as_array,
    as_result,
    operands,
)
from lazyflow.array.functions.manipulation.shaping import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    ravel,
)
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.joined import concatenated
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axis_of


def concatenate(
    arrays: Sequence[ArrayLike], axis: int | None = 0, out: Array | None = None,
    dtype: DTypeLike | None = None, casting: Casting = "same_kind", *,
    allow_unknown_chunksizes: bool = True,
) -> Array:
    """Return arrays one after another along an axis that they have; None: all elements.

    With ``allow_unknown_chunksizes=False`` arrays of unknown lengths raise ValueError.

    Raises
    ------
    TypeError
        `arrays` is no sequence of arrays.
    ValueError
        There are none, or their shapes don't fit, or lengths that may not be unknown are.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.concatenate([la.zeros(3, chunks=2), la.ones(2)])
    >>> x.chunks, x.compute()
    (((2, 1, 2),), array([0., 0., 0., 1., 1.]))
    """
    if axis is None:
        arrays, axis = [ravel(x) for x in _of_numbers(arrays)], 0
    parts = _several(arrays, "need at least one array to concatenate")
    _check_known(parts, allow_unknown_chunksizes)
    ndim = _ndim_of(parts)
    axis = axis_of(axis, ndim)
    parts = [
        x if x is given else _in_chunks(x, axis) for x, given in zip(parts, arrays, strict=True)
    ]
    _check_lengths(parts, axis)
    nodes = _in_one_dtype(parts, dtype, casting)
    made = concatenated(nodes, axis)
    return as_result(made, out, casting)


def _of_numbers(arrays: Any) -> Any:
    """Return arrays, and Python numbers as arrays of the type that the others give them."""
    if not any(type(x) in NUMBERS for x in arrays):
        return arrays
    nodes, dtype = operands(arrays)
    return [Array(x if isinstance(x, Expr) else elementwise.wrapped(x, dtype)) for x in nodes]


def _several(arrays: Any, words: str) -> list[Any]:
    """Return arrays of what was given."""
    if not isinstance(arrays, Array) and not isinstance(arrays, Sequence | np.ndarray):
        raise TypeError(f"arrays to join must be given as a list or tuple; got {arrays!r:.100}")
    found = [as_array(x) for x in arrays]
    if not found:
        raise ValueError(words)
    return found


def _check_known(parts: list[Any], allowed: bool) -> None:
    for i, x in enumerate(parts):
        if not allowed and None in x.shape:
            raise ValueError(
                f"the array at index {i} has lengths that are not known yet: {x.shape}. Compute "
                "them, x.compute_chunk_sizes(), or pass allow_unknown_chunksizes=True"
            )


def _in_chunks(x: Array, axis: int) -> Array:
    chunks = normalize_chunks({axis: "auto"}, x.shape, None, x.dtype)
    return Array(rechunk(x.expr, chunks)) if x.expr.free else x


def _ndim_of(parts: list[Any]) -> int:
    ndim: int = parts[0].ndim
    if ndim == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    for i, x in enumerate(parts):
        if x.ndim != ndim:
            raise ValueError(
                "all the input arrays must have same number of dimensions, but the array at index "
                f"0 has {ndim} dimension(s) and the array at index {i} has {x.ndim} dimension(s)"
            )
    return ndim


def _check_lengths(parts: list[Any], axis: int) -> None:
    first = parts[0].shape
    for i, x in enumerate(parts):
        for k, (n, other) in enumerate(zip(first, x.shape, strict=True)):
            if k != axis and n != other and None not in (n, other):
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match "
                    f"exactly, but along dimension {k}, the array at index 0 has size {n} and the "
                    f"array at index {i} has size {other}"
                )


def _in_one_dtype(parts: list[Any], dtype: Any, casting: Any) -> list[Expr]:
    nodes = [as_node(x) for x in parts]
    few = [np.empty(0, x.dtype) for x in nodes]
    common = np.concatenate(few, dtype=dtype, casting=casting).dtype  # or it refuses
    return [elementwise.cast(x, common) for x in nodes]


concat = concatenate


def stack(
    arrays: Sequence[ArrayLike], axis: int = 0, out: Array | None = None, *,
    dtype: DTypeLike | None = None, casting: Casting = "same_kind",
    allow_unknown_chunksizes: bool = True,
) -> Array:
    """Return arrays of one shape along a new axis.

    With ``allow_unknown_chunksizes=False`` arrays of unknown lengths raise ValueError.

    Raises
    ------
    TypeError
        `arrays` is no sequence of arrays.
    ValueError
        There are none, or their shapes differ, or lengths that may not be unknown are.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(3)
    >>> la.stack([x, 10 * x]).compute()
    array([[ 0,  1,  2],
           [ 0, 10, 20]])
    >>> la.stack([x, 10 * x], axis=1).shape
    (3, 2)
    """
    parts = _several(arrays, "need at least one array to stack")
    _check_known(parts, allow_unknown_chunksizes)
    if len({x.ndim for x in parts}) > 1 or any(
        len(set(lengths) - {None}) > 1 for lengths in zip(*[x.shape for x in parts], strict=True)
    ):
        raise ValueError("all input arrays must have the same shape")
    axis = axis_of(axis, parts[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in parts], axis, out, dtype, casting)


def hstack(
    tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: Casting = "same_kind"
) -> Array:
    """Return arrays side by side: along the second axis, 1-d arrays along their only one.

    Raises
    ------
    TypeError
        `tup` is no sequence of arrays.
    ValueError
        There are none, or their shapes don't fit.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.hstack([la.zeros((2, 1)), la.ones((2, 2))]).compute()
    array([[0., 1., 1.],
           [0., 1., 1.]])
    """
    parts = [atleast_1d(x) for x in _several(tup, "need at least one array to concatenate")]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def vstack(
    tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: Casting = "same_kind"
) -> Array:
    """Return arrays below each other: along the first axis, 1-d arrays as rows.

    Raises
    ------
    TypeError
        `tup` is no sequence of arrays.
    ValueError
        There are none, or their shapes don't fit.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.vstack([la.arange(3), la.zeros((1, 3), dtype=int)]).compute()
    array([[0, 1, 2],
           [0, 0, 0]])
    """
    parts = [atleast_2d(x) for x in _several(tup, "need at least one array to concatenate")]
    return concatenate(parts, 0, dtype=dtype, casting=casting)


def dstack(tup: Sequence[ArrayLike]) -> Array:
    """Return arrays one after another along the third axis.

    Raises
    ------
    TypeError
        `tup` is no sequence of arrays.
    ValueError
        There are none, or their shapes don't fit.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.dstack([la.arange(3), la.arange(3)]).shape
    (1, 3, 2)
    """
    parts = [atleast_3d(x) for x in _several(tup, "need at least one array to concatenate")]
    return concatenate(parts, 2)


def column_stack(tup: Sequence[ArrayLike]) -> Array:
    """Return arrays side by side, 1-d arrays as columns.

    Raises
    ------
    TypeError
        `tup` is no sequence of arrays.
    ValueError
        There are none, or their shapes don't fit.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.column_stack([la.arange(3), la.ones(3, dtype=int)]).compute()
    array([[0, 1],
           [1, 1],
           [2, 1]])
    """
    parts = [
        x if x.ndim > 1 else atleast_2d(x).T
        for x in _several(tup, "need at least one array to concatenate")
    ]
    return concatenate(parts, 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Return an array with values after it; without `axis`, of all elements in C order.

    >>> import lazyflow.array as la
    >>> la.append(la.arange(3), [7, 8]).compute()
    array([0, 1, 2, 7, 8])
    """
    return concatenate([arr, values] if axis is not None else [ravel(arr), ravel(values)], axis)


def block(arrays: Any) -> Array:
    """Return an array of nested lists of blocks; parameters as np.block.

    Raises
    ------
    TypeError
        A tuple stands where a list has to.
    ValueError
        Lists are empty, or of different depths.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.block([[la.ones((1, 1)), la.zeros((1, 2))], [la.zeros((1, 3))]]).compute()
    array([[1., 0., 0.],
           [0., 0., 0.]])
    """
    empty: list[str] = []
    depth = _depth(arrays, (), empty)
    if empty:
        raise ValueError(f"List at {empty[-1]} cannot be empty")
    leaves = list(_leaves(arrays))
    ndim = max(depth, *[np.ndim(x) for x in leaves])
    return _blocked(arrays, depth, ndim)


def _depth(arrays: Any, place: tuple[int, ...], empty: list[str]) -> int:
    """Return how deep lists are nested; names of those without elements are appended to `empty`."""
    name = "arrays" + "".join(f"[{i}]" for i in place)
    if isinstance(arrays, tuple):
        raise TypeError(
            f"{name} is a tuple. Only lists can be used to arrange blocks, and np.block does not "
            "allow implicit conversion from tuple to ndarray."
        )
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        empty.append(name)
        return 1
    depths = [_depth(x, (*place, i), empty) for i, x in enumerate(arrays)]
    for i, depth in enumerate(depths):
        if depth != depths[0]:
            raise ValueError(
                f"List depths are mismatched. First element was at depth "
                f"{len(place) + 1 + depths[0]}, but there is an element at depth "
                f"{len(place) + 1 + depth} ({name}[{i}])"
            )
    return 1 + depths[0]


def _leaves(arrays: Any) -> Any:
    if isinstance(arrays, list):
        for x in arrays:
            yield from _leaves(x)
    else:
        yield arrays


def _blocked(arrays: Any, depth: int, ndim: int) -> Array:
    if depth:
        return concatenate([_blocked(x, depth - 1, ndim) for x in arrays], axis=-depth)
    found = as_array(arrays)
    return found[(None,) * (ndim - found.ndim)] if found.ndim < ndim else found
