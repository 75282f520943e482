"""Reductions by users' functions: of blocks, of what they gave together, and of the rest."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from lazyflow.array.chunks import Chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import implements
from lazyflow.array.functions.arguments import into, stretched
from lazyflow.array.nodes.block_call import AxisBlocks, BlockCalls, InputBlocks
from lazyflow.array.nodes.bound_call import BLOCK, BoundCall, declared
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.moments import axes_of
from lazyflow.array.nodes.rechunking import rechunk

_TOGETHER = 16  # results that are combined by one call


@implements()
def reduction(
    x: Any,
    chunk: Callable[..., Any],
    aggregate: Callable[..., Any],
    axis: Any = None,
    keepdims: bool = False,
    dtype: Any = None,
    split_every: Any = None,
    combine: Callable[..., Any] | None = None,
    name: str | None = None,
    out: Any = None,
    concatenate: bool = True,
    output_size: int = 1,
    meta: Any = None,
    weights: Any = None,
) -> Array:
    """Return a reduction that is done by users' functions, in a tree.

    Parameters
    ----------
    x
        The array.
    chunk
        Called first, for each block: ``chunk(block, axis=axes, keepdims=True)``, with the block of
        `weights` after the first if there are any. What it returns must have the axes of the block.
    aggregate
        Called last: ``aggregate(parts, axis=axes, keepdims=keepdims)``.
    axis
        An axis or several; None: all. The functions get a tuple.
    keepdims
        The result keeps the axes.
    dtype, meta
        Type of the result's elements, or an array that has it.
    split_every
        How many parts are put together by one call at most, 16 unless said; or a dict by axis.
    combine
        Called between, with ``keepdims=True``, when there are more; `aggregate` if left out.
    name
        What the tasks are called; else as the functions.
    out
        A chunked array that gets the result.
    concatenate
        The parts are put together as one array; else they come in lists, one in the other for
        several axes, and need not be arrays.
    output_size
        Length of the axes that are kept.
    weights
        Array that broadcasts to the shape of `x`.

    Raises
    ------
    ValueError
        Neither dtype nor meta is given, or the lengths do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.arange(10, chunks=3)
    >>> la.reduction(x, np.sum, np.sum, dtype=int).compute()
    np.int64(45)
    """
    found = declared(dtype, meta)
    if found is None:
        raise ValueError("reduction() must be told the dtype of the result: pass dtype= or meta=")
    node = as_node(x)
    axes = axes_of(axis, node.ndim)
    nodes = [_without_empty(node, axes)]
    if weights is not None:
        nodes.append(rechunk(stretched(as_node(weights), node.shape), nodes[0].chunks))
    size = operator.index(output_size)
    whole: dict[str, Any] = {"axis": axes, "keepdims": True}
    parts = _placed(BlockCalls(
        tuple(nodes), BoundCall(chunk, [BLOCK] * len(nodes), whole, "reduction", name),
        (_each(nodes[0]),) * len(nodes), found, _cut(nodes[0].chunks, axes, size), checked=False,
    ))
    together = _together(split_every, axes)
    while any(len(parts.chunks[axis]) > most for axis, most in together.items()):
        call = BoundCall(combine or aggregate, [BLOCK], whole, "reduction", name)
        parts = _placed(_step(call, parts, together, size, concatenate))
    last = BoundCall(aggregate, [BLOCK], {"axis": axes, "keepdims": keepdims}, "reduction", name)
    made = _last(last, parts, axes, keepdims, size, concatenate, found)
    return Array(made) if out is None else into(out, made)


def _placed(node: Expr) -> Expr:
    """Return a node that knows the user's line."""
    return Array(node).expr


def _without_empty(node: Expr, axes: tuple[int, ...]) -> Expr:
    """Return a node without chunks of length 0, of which many functions have no result."""
    return rechunk(node, tuple([
        tuple([n for n in sizes if n != 0]) or (0,) if axis in axes else sizes
        for axis, sizes in enumerate(node.chunks)
    ]))


def _each(node: Expr) -> InputBlocks:
    axes = [AxisBlocks(k, None, count, count == 1) for k, count in enumerate(node.numblocks)]
    return InputBlocks(tuple(axes), True)


def _cut(chunks: Chunks, axes: tuple[int, ...], size: int) -> Chunks:
    return tuple([
        (size,) * len(sizes) if axis in axes else sizes for axis, sizes in enumerate(chunks)
    ])


def _together(split_every: Any, axes: tuple[int, ...]) -> dict[int, int]:
    """Return how many parts of each axis are put together.

    >>> _together(None, (0, 1)), _together({0: 4}, (0,))
    ({0: 4, 1: 4}, {0: 4})
    """
    if isinstance(split_every, Mapping):
        found = {axis: operator.index(split_every.get(axis, 2)) for axis in axes}
    else:
        most = _TOGETHER if split_every is None else operator.index(split_every)
        if most < 2:
            raise ValueError(f"split_every must be 2 or more; got {split_every!r}")
        found = {axis: max(int(most ** (1 / len(axes))), 2) for axis in axes}
    if any(most < 2 for most in found.values()):
        raise ValueError(f"split_every must be 2 or more; got {split_every!r}")
    return found


def _step(
    call: BoundCall, parts: Expr, together: Mapping[int, int], size: int, concatenate: bool
) -> Expr:
    """Return parts put together by some."""
    along = []
    chunks = []
    for axis, sizes in enumerate(parts.chunks):
        count = len(sizes)
        if axis in together:
            along.append(AxisBlocks(axis, together[axis], count, count == 1))
            chunks.append((size,) * -(-count // together[axis]))
        else:
            along.append(AxisBlocks(axis, None, count, count == 1))
            chunks.append(sizes)
    shares = (InputBlocks(tuple(along), concatenate),)
    return BlockCalls((parts,), call, shares, parts.dtype_or_lazy, tuple(chunks), checked=False)


def _last(
    call: BoundCall, parts: Expr, axes: tuple[int, ...], keepdims: bool, size: int,
    concatenate: bool, dtype: Any,
) -> Expr:
    along = []
    chunks: list[tuple[Any, ...]] = []
    for axis, sizes in enumerate(parts.chunks):
        count = len(sizes)
        if axis not in axes:
            along.append(AxisBlocks(len(chunks), None, count, count == 1))
            chunks.append(sizes)
        else:
            along.append(AxisBlocks(None, None, count, count == 1))
            if keepdims:
                chunks.append((size,))
    shares = (InputBlocks(tuple(along), concatenate),)
    return BlockCalls((parts,), call, shares, dtype, tuple(chunks))
