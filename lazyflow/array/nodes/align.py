"""Common shapes and chunks of several arrays.

The common chunks of an axis are cut wherever one of the arrays is cut, if that gives no more than
three blocks for each of full length. Otherwise the shortest list of chunks holds. Its neighbours
are joined up to a sixteenth more than the longest chunk, so that the steps of a stencil add no
cuts. Axes of unknown lengths fit only if their chunks are known to be the same; otherwise
`SizesNeeded` asks for the lengths.

    >>> import lazyflow.array as la
    >>> nodes = [la.ones(12, chunks=sizes).expr for sizes in (6, 4)]
    >>> common_chunks(nodes)
    ((4, 2, 2, 4),)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr

# Both are guessed.
_PIECES = 3  # for each block of full length there are at most so many, however chunks are cut
_SLIVER = 16  # part of a block by which another may be longer than the longest


class SizesNeeded(Exception):
    """Unknown lengths are needed; `dispatch.with_lengths` computes them and calls again."""

    def __str__(self) -> str:
        return (
            "the lengths of some axes are not known, as after indexing with a boolean array, so it "
            "is not certain that they fit here. Find them out first: x.compute_chunk_sizes()"
        )


def broadcast_shape(shapes: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    """Return the shape that some shapes broadcast to.

    >>> broadcast_shape([(3, 1), (4,), ()])
    (3, 4)
    """
    ndim = max(map(len, shapes), default=0)
    found: list[int | None] = []
    for axis in range(-ndim, 0):
        lengths = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(lengths) > 1:
            if None in lengths:
                raise SizesNeeded
            shown = " ".join(str(shape) for shape in shapes)
            raise ValueError(f"operands could not be broadcast together with shapes {shown}")
        found.append(lengths.pop() if lengths else 1)
    return tuple(found)


def common_chunks(nodes: Sequence[Expr], fit: bool = False) -> Chunks:
    """Return the chunks of an elementwise operation on some nodes.

    Where their chunks differ, the result is cut wherever one of them is, as long as that gives few
    small blocks. `fit`: blocks of unknown lengths are known to fit.
    """
    first = nodes[0].chunks if nodes else ()
    if all(node.chunks is first for node in nodes):
        return first
    shape = broadcast_shape([node.shape for node in nodes])
    ndim = len(shape)
    found = []
    for axis, n in zip(range(-ndim, 0), shape, strict=True):
        given = {
            node.chunks[axis] for node in nodes
            if node.ndim >= -axis and (node.shape[axis] != 1 or n == 1)
        }
        found.append(given.pop() if len(given) == 1 else fitting(given, fit))
    return tuple(found)


def fitting(given: set[tuple[Any, ...]], fit: bool = False) -> tuple[Any, ...]:
    """Return common chunks for several of one axis; `fit` as of `common_chunks`."""
    if len(given) > 1 and not any(None in sizes for sizes in given):
        return _without_slivers(given, union(given))
    if len(given) > 1 and not fit:
        raise SizesNeeded
    return given.pop()


def union(several: set[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the chunks that are cut wherever one of several is.

    >>> union({(2, 4), (3, 3)})
    (2, 1, 3)
    """
    cuts = sorted({end for chunks in several for end in accumulate(chunks)})
    if not cuts or cuts == [0]:
        return (0,)
    return tuple([end - start for start, end in zip([0, *cuts], cuts, strict=False) if end > start])


def _without_slivers(given: set[tuple[int, ...]], cut: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chunks that are cut wherever one of several is, or fewer if these are many.

    Each step of a stencil, ``x[1:-1] + x[2:] + x[:-2]``, would cut beside all cuts of the last one.
    These are the shortest list, its neighbours joined up to about the longest chunk.

    >>> _without_slivers({(5, 5)}, (4, 1, 5))
    (4, 1, 5)
    >>> _without_slivers({(80, 1, 1, 1, 77), (80, 2, 78)}, (80, 1, 1, 1, 1, 1, 75))
    (82, 78)
    """
    longest = max(map(max, given))
    if len(cut) <= _PIECES * max(-(-sum(cut) // max(longest, 1)), 1):
        return cut
    found = [0]
    for n in min(given, key=lambda sizes: (len(sizes), sizes)):
        if found[-1] + n <= longest + longest // _SLIVER:
            found[-1] += n
        else:
            found.append(n)
    return tuple(found)


def operand_chunks(node: Expr, shape: tuple[int | None, ...], chunks: Chunks) -> Chunks:
    """Return the chunks that an operand needs so that it fits a result of this shape and chunks."""
    if node.shape == shape:
        return chunks
    skipped = len(shape) - node.ndim
    return tuple([
        (1,) if node.shape[axis] == 1 and shape[axis + skipped] != 1 else chunks[axis + skipped]
        for axis in range(node.ndim)
    ])
