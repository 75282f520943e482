"""Elements chosen by index for each row, and indices in sorted arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import in_steps
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import (
    ArrayLike,
    as_array,
    as_result,
    broadcast_node,
    operand_as,
    operands,
)
from lazyflow.array.functions.indexing.taking import take
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axis_of
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock

_MOST = 4  # the part of a memory limit that a sorted array takes as one block
_PART = 16  # the part that each of its parts takes, if it is more: every one is searched for all


def choose(a: ArrayLike, choices: Any, out: Array | None = None, mode: str = "raise") -> Array:
    """Return for each element of `a` that of the choice whose number it is.

    Parameters are those of ``np.choose``.

    >>> import lazyflow.array as la
    >>> la.choose(la.from_array([0, 1, 1], chunks=2), [[1, 2, 3], [10, 20, 30]]).compute()
    array([ 1, 20, 30])
    """
    if isinstance(choices, Array):
        choices = list(choices)
    given, dtype = operands(choices)
    for x in given:
        if isinstance(x, Expr) and not np.can_cast(x.dtype, dtype, "safe"):
            raise TypeError(
                f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule 'safe'"
            )
    arrays = [as_array(a), *[Array(operand_as(x, dtype)) for x in given]]
    if arrays[0].dtype.kind not in "iub":
        np.choose(np.zeros(1, arrays[0].dtype), [0])  # refuses, in its words
    known(*arrays)
    made = elementwise.function(
        _choose, tuple([x.expr for x in arrays]), dtype, mode=mode
    )
    return as_result(made, out, "unsafe")


def _choose(a: Any, *choices: Any, mode: str) -> Any:
    where = np.broadcast_arrays(a, *choices)
    out = np.empty(where[0].shape, choices[0].dtype)
    if mode == "raise" and a.size and (a.min() < 0 or a.max() >= len(choices)):
        raise ValueError("invalid entry in choice array")
    at = where[0] % len(choices) if mode == "wrap" else where[0].clip(0, len(choices) - 1)
    for k, each in enumerate(where[1:]):
        np.copyto(out, each, where=at == k)
    return out


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Return elements by indices along an axis that are others for each row.

    >>> import lazyflow.array as la
    >>> x = la.from_array([[3, 1, 2], [9, 7, 8]], chunks=(1, 3))
    >>> la.take_along_axis(x, x.argsort(axis=1), axis=1).compute()
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    x, at = as_array(arr), as_array(indices)
    known(x, at)
    if at.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if at.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        x, axis = take(x, np.arange(x.size)), 0
    if at.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = axis_of(axis, x.ndim)
    beside = [each.shape[:axis] + each.shape[axis + 1:] for each in (x, at)]
    try:
        rest = np.broadcast_shapes(*beside)
    except ValueError as error:  # NumPy's is one of places
        raise IndexError(
            f"`indices` of shape {at.shape} don't broadcast with `arr` of shape {x.shape}: "
            f"beside axis {axis} lengths must be equal or 1"
        ) from error
    nodes = [
        broadcast_node(each.expr, (*rest[:axis], each.shape[axis], *rest[axis:]))
        for each in (x, at)
    ]
    chunks = tuple([
        (nodes[0].shape[k],) if k == axis else sizes for k, sizes in enumerate(nodes[0].chunks)
    ])
    own = (*chunks[:axis], nodes[1].chunks[axis], *chunks[axis + 1:])
    inputs = rechunk(nodes[0], chunks), rechunk(nodes[1], own)
    return Array(PerBlock(inputs, NumpyOp(np.take_along_axis, (("axis", axis),)), x.dtype, own))


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> Array:
    """Return the indices at which elements would go into a sorted array.

    It becomes one block; of one that takes much of the memory limit, parts are searched one after
    the other.

    >>> import lazyflow.array as la
    >>> la.searchsorted(la.asarray([1, 3, 5]), la.from_array([2, 5, 9], chunks=2)).compute()
    array([1, 2, 3])
    """
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    x, value = as_array(a), as_array(v)
    known(x)
    if x.ndim != 1:
        raise ValueError("object of too small depth for desired array")
    if sorter is not None:
        if as_node(sorter).shape != x.shape:
            raise ValueError("sorter.size must equal number of elements in array")
        x = take(x, sorter)
    node, place = value.expr, np.dtype(np.intp)
    op = NumpyOp(np.searchsorted, (("side", side),))
    (n,), limit = x.shape, config.memory_limit()
    size = x.dtype.itemsize
    if limit is None or n * size <= limit // _MOST or x.dtype.hasobject:
        whole = rechunk(x.expr, (x.shape,))
        return Array(PerBlock((whole, node), op, place, value.chunks))
    parts = in_steps(n, max(limit // _PART // max(size, 1), 1))
    x, edges = Array(rechunk(x.expr, (parts,))), np.cumsum([0, *parts])
    found: Any = None
    for start, stop in pairwise(edges.tolist()):  # each adds to one before: all would be held
        given = (x[start:stop].expr, node, *([] if found is None else [found]))
        func = op if found is None else named("searchsorted", _places_added, side)
        found = PerBlock(given, func, place, value.chunks)
    return Array(found)


def _places_added(side: Any, a: Any, v: Any, before: Any) -> Any:
    return before + np.searchsorted(a, v, side)
