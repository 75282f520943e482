"""The pass that drops rechunks where what is below can be made in any chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyflow.array.nodes.align import operand_chunks
from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, below, same, same_line
from lazyflow.array.nodes.rechunking import Rechunk, in_chunks

#: A node and the chunks in which it is wanted; None: its own.
Request = tuple[Expr, Any]


def rechunks_down(wanted: Sequence[Expr]) -> list[Expr]:
    """Drop rechunks that cancel, and those of what can be made in any chunks.

    >>> import lazyflow.array as la
    >>> x = la.ones(8, chunks=2)
    >>> (made,) = rechunks_down([(x + 1).rechunk(4).rechunk(8).expr])
    >>> made, made.chunks
    (<add float64 8>, ((8,),))
    """
    nodes = below(wanted)
    free = _free(nodes)
    if not any(isinstance(node, Rechunk) and node.inputs[0] in free for node in nodes):
        return list(wanted)
    found: dict[Request, Expr] = {}
    stack: list[tuple[Request, list[Request] | None]] = [((node, None), None) for node in wanted]
    while stack:
        request, needed = stack.pop()
        if request in found:
            continue
        if needed is None:
            needed = _needed(*request, free)
            missing = [each for each in needed if each not in found]
            if missing:
                stack.append((request, needed))
                stack.extend([(each, None) for each in missing])
                continue
        made = found[request] = _made(*request, needed, [found[each] for each in needed])
        same_line(made, request[0])
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


def _needed(node: Expr, chunks: Any, free: set[Expr]) -> list[Request]:
    """Return what has to be found to make a node in some chunks."""
    if isinstance(node, Rechunk) and node.inputs[0] in free:
        return [_request(node.inputs[0], node.chunks if chunks is None else chunks)]
    if chunks is None:
        return [(x, None) for x in node.inputs]
    if isinstance(node, Elementwise) and node in free:
        return [_request(x, operand_chunks(x, node.shape, chunks)) for x in node.inputs]
    return [(node, None)]


def _request(node: Expr, chunks: Any) -> Request:
    return node, None if chunks == node.chunks else chunks


def _made(node: Expr, chunks: Any, needed: list[Request], found: list[Expr]) -> Expr:
    """Return a node in some chunks, made of what was needed for that."""
    if isinstance(node, Rechunk) and len(found) == 1 and needed[0][0] is node.inputs[0]:
        return in_chunks(found[0], node.chunks if chunks is None else chunks)
    if chunks is None:
        return same(node, tuple(found))
    if isinstance(node, Elementwise) and needed != [(node, None)]:
        return node.with_inputs(tuple(found))
    return in_chunks(found[0], chunks)


def explain_rechunks(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say how many rechunks are needed less."""
    count, left = [
        sum(isinstance(node, Rechunk) for node in below(nodes)) for nodes in (before, after)
    ]
    if left == count:
        return "no rechunk is needed less"
    return f"{count - left:,} of {count:,} rechunks are dropped: what is below has their chunks"
