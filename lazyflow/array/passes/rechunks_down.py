"""The pass that drops rechunks where what is below can be made in any chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.align import operand_chunks
from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, Recipe, Request, answered, below, same, same_line
from lazyflow.array.nodes.joined import Concatenate, concatenated
from lazyflow.array.nodes.rechunking import Rechunk, in_chunks


def rechunks_down(wanted: Sequence[Expr]) -> Sequence[Expr]:
    """Drop rechunks that cancel, and those of what can be made in any chunks.

    >>> import lazyflow.array as la
    >>> x = la.ones(8, chunks=2)
    >>> (made,) = rechunks_down([(x + 1).rechunk(4).rechunk(8).expr])
    >>> made, made.chunks
    (<add float64 8>, ((8,),))
    """
    nodes = below(wanted)
    rechunks = [node for node in nodes if isinstance(node, Rechunk)]
    free = _free(nodes) if rechunks else set()
    if not any(node.inputs[0] in free or _is_recut(node, free) for node in rechunks):
        return wanted
    found = answered(
        wanted, partial(_recipe, free), lambda made, node, chunks: same_line(made, node)
    )
    return [found[node, None] for node in wanted]


def _free(nodes: Sequence[Expr]) -> set[Expr]:
    """Return the nodes that can be made in any chunks at no cost."""
    free: set[Expr] = set()
    for node in nodes:
        if node.free or (
            isinstance(node, Elementwise | Rechunk) and all(x in free for x in node.inputs)
        ):
            free.add(node)
    return free


def _recipe(free: set[Expr], node: Expr, chunks: Chunks | None) -> Recipe:
    """Return what makes a node in some chunks; None: in its own."""
    if isinstance(node, Rechunk) and node.inputs[0] in free:
        own = node.chunks if chunks is None else chunks
        return [_request(node.inputs[0], own)], lambda found: in_chunks(found[0], own)
    if isinstance(node, Rechunk) and _is_recut(node, free):
        own, joined = node.chunks if chunks is None else chunks, node.inputs[0]
        assert isinstance(joined, Concatenate)
        pieces = zip(joined.inputs, _pieces(joined, own), strict=True)
        return [_request(*pair) for pair in pieces], lambda found: in_chunks(
            concatenated(found, joined.axis), own
        )
    if chunks is None:
        return [(x, None) for x in node.inputs], partial(same, node)
    if isinstance(node, Elementwise) and node in free:
        needed = [_request(x, operand_chunks(x, node.shape, chunks)) for x in node.inputs]
        return needed, node.with_inputs
    return [(node, None)], lambda found: in_chunks(found[0], chunks)


def _is_recut(node: Rechunk, free: set[Expr]) -> bool:
    """Tell whether free nodes are joined below, and can be cut where the chunks end.

    Then blocks are copied only where a joint is.
    """
    (joined,) = node.inputs
    return (
        isinstance(joined, Concatenate)
        and None not in joined.shape
        and all(x in free for x in joined.inputs)
        and [x.chunks for x in joined.inputs] != _pieces(joined, node.chunks)
    )


def _pieces(joined: Concatenate, chunks: Chunks) -> list[Chunks]:
    """Return the chunks of what is joined whose ends are those of some chunks of the whole."""
    found, axis, first = [], joined.axis, 0
    ends: Any = list(accumulate(chunks[axis]))
    for x in joined.inputs:
        n = x.shape[axis]
        assert n is not None
        last = first + n
        between = ends[bisect_right(ends, first):bisect_left(ends, last)]
        inside = sorted({first, *between, last})
        sizes = tuple([b - a for a, b in pairwise(inside)]) or (0,)
        found.append((*chunks[:axis], sizes, *chunks[axis + 1:]))
        first = last
    return found


def _request(node: Expr, chunks: Chunks) -> Request:
    return node, None if chunks == node.chunks else chunks


def explain_rechunks(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say how many rechunks are needed less."""
    count, left = [
        sum(isinstance(node, Rechunk) for node in below(nodes)) for nodes in (before, after)
    ]
    if left == count:
        return "no rechunk is needed less"
    return f"{count - left:,} of {count:,} rechunks are dropped: what is below has their chunks"
