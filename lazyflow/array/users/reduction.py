"""Reductions by users' functions, in a tree: of blocks, of partial results, of the last ones.

`chunk` is called for each block, then `combine` (or `aggregate`) for groups of neighbouring parts
until one call can take the rest, then `aggregate`. One call takes up to `split_every` parts, 16
unless given; for several axes the root of that along each. The order depends on the numbers of
blocks only, not on where tasks run. Blocks without elements are left out. The functions are never
tried, so the dtype must be given; the parts may be anything if they come in lists, and only the
last result is checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lazyflow.array.chunks import Chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.arguments import assign_out, broadcast_node
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import axes_of, parts_at_once, without_empty
from lazyflow.array.nodes.user_calls import BLOCK, BlockCalls, BoundCall, InputBlocks, declared
from lazyflow.array.users.block_layout import Labels, Sizes, input_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


def reduction(
    x: ArrayLike,
    chunk: Callable[..., Any],
    aggregate: Callable[..., Any],
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    split_every: int | Mapping[int, int] | None = None,
    combine: Callable[..., Any] | None = None,
    name: str | None = None,
    out: Array | None = None,
    concatenate: bool = True,
    output_size: int = 1,
    meta: Any = None,
    weights: ArrayLike | None = None,
) -> Array:
    """Return a reduction by your own functions, in a tree.

    Parameters
    ----------
    x
        The array.
    chunk
        Called first, for each block: ``chunk(block, axis=axes, keepdims=True)``, with the block of
        `weights`, if given, as second argument. Its result must have the axes of the block.
    aggregate
        Called last: ``aggregate(parts, axis=axes, keepdims=keepdims)``.
    axis
        An axis or several; None: all. The functions get a tuple.
    keepdims
        The result keeps the axes.
    dtype, meta
        The dtype of the result, or an example array; one of them is needed.
    split_every
        How many parts one call takes at most: 16 unless given; or a dict by axis (2 along axes that
        are not in it).
    combine
        Called with ``keepdims=True`` where there are more parts than `split_every`; None:
        `aggregate` is called.
    name
        The name of the tasks; without it, those of the functions.
    out
        A chunked array that gets the result.
    concatenate
        The parts come as one array; otherwise they come in lists, nested for several axes, and
        need not be arrays.
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
    result_dtype = declared(dtype, meta)
    if result_dtype is None:
        raise ValueError("reduction() needs the dtype of the result: pass dtype= or meta=")
    node = as_node(x)
    axes = axes_of(axis, node.ndim)
    nodes = [without_empty(node, axes)]
    if weights is not None:
        nodes.append(rechunk(broadcast_node(as_node(weights), node.shape), nodes[0].chunks))
    size = operator.index(output_size)
    whole: dict[str, Any] = {"axis": axes, "keepdims": True}
    first = BoundCall(chunk, [BLOCK] * len(nodes), whole, "reduction", name)
    given = (_blocks(nodes[0], tuple(range(node.ndim)), True),) * len(nodes)
    chunks = _cut(nodes[0].chunks, axes, size)
    parts = _placed(BlockCalls(tuple(nodes), first, given, result_dtype, chunks, checked=False))
    together = _together(split_every, axes)
    while any(len(parts.chunks[axis]) > most for axis, most in together.items()):
        call = BoundCall(combine or aggregate, [BLOCK], whole, "reduction", name)
        parts = _placed(_step(call, parts, together, size, concatenate))
    last = BoundCall(aggregate, [BLOCK], {"axis": axes, "keepdims": keepdims}, "reduction", name)
    made = _last(last, parts, axes, keepdims, size, concatenate, result_dtype)
    return Array(made) if out is None else assign_out(out, made)


def _placed(node: Expr) -> Expr:
    """Return a node that was made at the user's line."""
    return Array(node).expr


def _blocks(node: Expr, out: Labels, concatenate: bool) -> InputBlocks:
    """Return the blocks of a node for a result whose axes are these of the node's."""
    sizes: Sizes = dict(enumerate(node.chunks))
    return input_blocks(tuple(range(node.ndim)), node, out, sizes, concatenate)


def _cut(chunks: Chunks, axes: tuple[int, ...], size: int) -> Chunks:
    return tuple([
        (size,) * len(sizes) if axis in axes else sizes for axis, sizes in enumerate(chunks)
    ])


def _together(split_every: Any, axes: tuple[int, ...]) -> dict[int, int]:
    """Return how many parts along each axis one call takes.

    >>> _together(None, (0, 1)), _together({0: 4}, (0,))
    ({0: 4, 1: 4}, {0: 4})
    """
    if isinstance(split_every, Mapping):
        return {axis: parts_at_once(split_every.get(axis, 2)) for axis in axes}
    most = parts_at_once(split_every)
    return {axis: max(int(most ** (1 / len(axes))), 2) for axis in axes}


def _step(
    call: BoundCall, parts: Expr, together: Mapping[int, int], size: int, concatenate: bool
) -> Expr:
    """Return the node of calls that each combine neighbouring parts."""
    given = _blocks(parts, tuple(range(parts.ndim)), concatenate)
    given = given._replace(axes=tuple([
        each._replace(together=together.get(axis)) for axis, each in enumerate(given.axes)
    ]))
    chunks = tuple([
        (size,) * -(-len(sizes) // together[axis]) if axis in together else sizes
        for axis, sizes in enumerate(parts.chunks)
    ])
    return BlockCalls((parts,), call, (given,), parts.dtype_or_lazy, chunks, checked=False)


def _last(
    call: BoundCall, parts: Expr, axes: tuple[int, ...], keepdims: bool, size: int,
    concatenate: bool, dtype: Any,
) -> Expr:
    """Return the node of the calls that give the result."""
    kept = [axis for axis in range(parts.ndim) if keepdims or axis not in axes]
    out = tuple([("reduced", axis) if axis in axes else axis for axis in kept])
    chunks = tuple([(size,) if axis in axes else parts.chunks[axis] for axis in kept])
    return BlockCalls((parts,), call, (_blocks(parts, out, concatenate),), dtype, chunks)
