"""The pass that drops rechunks where what is below can be made in any chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from lazyflow.array.chunks import Chunks, are_parts
from lazyflow.array.nodes.align import operand_chunks, union
from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, Recipe, Request, answered, below, same, same_line
from lazyflow.array.nodes.joined import Concatenate, concatenated
from lazyflow.array.nodes.rechunking import Rechunk, in_chunks, in_parts, is_held


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


def _free(nodes: list[Expr]) -> set[Expr]:
    """Return the nodes that can be made in any chunks at no cost.

    Operations are not where several read them: they would be made in the chunks of each, and what
    is below them for all readers of each.
    """
    users: Counter[Expr] = Counter()
    for node in reversed(nodes):  # what is joined is asked for in the chunks of each user
        for x in node.inputs:
            users[x] += max(users[node], 1) if isinstance(node, Concatenate | Rechunk) else 1
    free: set[Expr] = set()
    for node in nodes:
        if node.free or (
            isinstance(node, Elementwise | Rechunk) and users[node] < 2
            and all(x in free for x in node.inputs)
        ):
            free.add(node)
    return free


def _recipe(free: set[Expr], node: Expr, chunks: Chunks | None) -> Recipe:
    """Return what makes a node in some chunks; None: in its own."""
    if isinstance(node, Rechunk) and node.inputs[0] in free:
        own = node.chunks if chunks is None else chunks
        return [_request(node.inputs[0], own)], lambda found: in_chunks(found[0], own)
    if isinstance(node, Rechunk) and _is_recut(node, free):
        own, (x,) = node.chunks if chunks is None else chunks, node.inputs
        parts, axis = _joined(x)
        return [_request(*pair) for pair in zip(parts, _pieces(x, own, free), strict=True)], (
            lambda found: in_chunks(concatenated(found, axis), own)
        )
    if chunks is None:
        return [(x, None) for x in node.inputs], partial(same, node)
    if isinstance(node, Elementwise) and node in free:
        needed = [_request(x, operand_chunks(x, node.shape, chunks)) for x in node.inputs]
        return needed, node.with_inputs
    return [(node, None)], lambda found: in_parts(found[0], chunks)


def _is_recut(node: Rechunk, free: set[Expr]) -> bool:
    """Tell whether what is joined below can be cut where the chunks end.

    Then blocks are copied only where a joint is, and once. Kept blocks are cut so where they stay
    nearly whole: of others, and of many pieces, copies are made at once (rechunking.py).
    """
    (x,) = node.inputs
    parts, _ = _joined(x)
    if None in x.shape or not all(each in free or is_held(each) for each in parts):
        return False
    pieces = _pieces(x, node.chunks, free)
    return [each.chunks for each in parts] != pieces and all(
        each in free or all(map(_is_nearly_whole, each.chunks, own))
        for each, own in zip(parts, pieces, strict=True)
    )


def _is_nearly_whole(chunks: tuple[int, ...], pieces: tuple[int, ...]) -> bool:
    """Tell whether chunks are cut into pieces of which one is at least three quarters of each.

    >>> _is_nearly_whole((8, 8), (1, 7, 8)), _is_nearly_whole((8, 8), (7, 1, 4, 4))
    (True, False)
    """
    if not are_parts(pieces, chunks):
        return False
    left = iter(pieces)
    for n in chunks:
        most, done = 0, 0
        while done < n:
            most, done = max(most, size := next(left)), done + size
        if 4 * most < 3 * n:
            return False
    return True


def _joined(x: Expr) -> tuple[tuple[Expr, ...], int]:
    """Return the nodes that a node consists of, and along which axis: it may be one."""
    return (x.inputs, x.axis) if isinstance(x, Concatenate) else ((x,), 0)


def _pieces(joined: Expr, chunks: Chunks, free: set[Expr]) -> list[Chunks]:
    """Return the chunks of what is joined whose ends are those of some chunks of the whole.

    Those of kept blocks have also the ends of these.
    """
    found: list[Chunks] = []
    first = 0
    parts, axis = _joined(joined)
    ends: Any = list(accumulate(chunks[axis]))
    for x in parts:
        n = x.shape[axis]
        assert n is not None
        last = first + n
        between = ends[bisect_right(ends, first):bisect_left(ends, last)]
        inside = sorted({first, *between, last})
        sizes = tuple([b - a for a, b in pairwise(inside)]) or (0,)
        wanted = (*chunks[:axis], sizes, *chunks[axis + 1:])
        if x not in free:
            wanted = tuple([union({*pair}) for pair in zip(x.chunks, wanted, strict=True)])
        found.append(wanted)
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
