"""The same array in other chunks, in bounded memory.

A block is cut into copies of its pieces at once, and forgotten: what lives is the pieces that were
not put together yet, the data once, and a block or two for each thread. (Views would keep every
block until the last of its pieces is used: twice the data.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, are_parts, in_steps, length, refuse_sparse
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe, common_dtype
from lazyflow.array.nodes.pieces import in_other_chunks
from lazyflow.array.nodes.selection import Pick, Selection, cut
from lazyflow.array.nodes.sources import TaskBlocks
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.views import View
from lazyflow.graph.task import Task

#: Pieces above which a rechunk goes by chunks between the two: 1,000 rows to 1,000 columns are a
#: million pieces, and 64,000 by blocks in between. A guess at where tasks cost as much as copies.
MANY = 20_000


class Rechunk(Expr):
    """Blocks that are joined pieces of the input's blocks."""

    __slots__ = ()

    def __init__(self, inputs: tuple[Expr, ...], chunks: Chunks) -> None:
        super().__init__(inputs, inputs[0].dtype_or_lazy, chunks)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return in_chunks(inputs[0], self.chunks)

    def through(self, selection: Selection) -> Recipe | None:
        chunks = View((self,), selection).chunks
        return [(self.inputs[0], selection)], lambda found: in_chunks(found[0], chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        shape = tuple([sizes[i] for sizes, i in zip(self.chunks, index, strict=True)])
        if 0 in shape and None not in shape:
            return low.value(np.empty(shape, self.dtype))
        source = low.shared(self, "source", staged, self.inputs[0], self.chunks)
        cuts = _cuts(low, self, index, source.chunks)
        if 0 in shape:
            nothing = named("rechunk-cut", copies, [tuple([found for (_, found, _), *_ in cuts])])
            block = low.block(source, tuple([number for (number, _, _), *_ in cuts]))
            return low.parts(nothing, (block,), self, 1)[0]
        pieces = [
            low.shared(self, number, self._cut, low, source, number)[index]
            for number in product(*[[number for number, _, _ in axis] for axis in cuts])
        ]
        if len(pieces) == 1:
            return pieces[0]
        lengths = tuple([tuple([n for _, _, n in axis]) for axis in cuts])
        # Pieces are tasks on distributed, too, and permutations go likewise (exchange.py), not by
        # its P2P shuffle: with that, dask's rows to columns take 1.08 to 1.19 times as long as
        # these and move twice the bytes.
        return low.task(named("rechunk", pieces_joined, lengths, self.known_dtype), pieces, self)

    def _cut(self, low: MakesTasks, source: Expr, number: Index) -> dict[Index, Task]:
        """Cut a block of the source; return its pieces by the block of the result."""
        block = low.block(source, number)
        cuts = _cuts(low, source, number, self.chunks)
        places = list(product(*cuts))
        indices = [tuple([i for i, _, _ in place]) for place in places]
        if len(places) == 1:
            return {indices[0]: block}
        slices = [_spans([n for _, _, n in pieces]) for pieces in cuts]  # of the source's block
        func = named("rechunk-cut", copies, list(product(*slices)))
        return dict(zip(indices, low.parts(func, (block,), self, len(places)), strict=True))


def _cuts(low: MakesTasks, node: Expr, index: Index, chunks: Chunks) -> list[list[Any]]:
    """Return, for each axis, the parts of other chunks that a block of a node covers.

    Blocks of unknown lengths are those of the other.
    """
    bounds = low.bounds(node)
    return [
        [(i, slice(None), None)] if None in sizes
        else cut(other, Pick(starts[i], 1, sizes[i]))
        for i, starts, sizes, other in zip(index, bounds, node.chunks, chunks, strict=True)
    ]


def _spans(lengths: Sequence[int | None]) -> list[slice]:
    """Return the places of pieces in a whole; the only one of unknown length is all of it."""
    if None in lengths:
        return [slice(None)]
    return [slice(a, b) for a, b in pairwise([0, *accumulate(lengths)])]


def in_chunks(node: Expr, chunks: Chunks) -> Expr:
    """Return a node in the chunks that it had before a rewriting; unknown lengths are equal."""
    if node.chunks == chunks:
        return node
    return rechunk(node, tuple([
        own if n is None or length(sizes) is None else sizes
        for own, n, sizes in zip(node.chunks, node.shape, chunks, strict=True)
    ]))


def rechunk(node: Expr, chunks: Chunks) -> Expr:
    """Return a node in these chunks; the node itself, if it has them.

    Raises
    ------
    SizesNeeded
        Lengths that are not known would have to change.
    """
    if node.chunks == chunks:
        return node
    for own, n, wanted in zip(node.chunks, node.shape, chunks, strict=True):
        if own != wanted and (n is None or length(wanted) is None):
            raise SizesNeeded
    if node.free:
        return node.with_chunks(chunks)
    if node.kind is not None:
        return in_other_chunks(node, chunks)
    if isinstance(node, Rechunk):
        return in_chunks(node.inputs[0], chunks)
    return Rechunk((node,), chunks)


def in_parts(node: Expr, chunks: Chunks) -> Expr:
    """Return a node in chunks for something that can read parts of blocks: not copied, if held.

    Blocks that are still to be computed are cut into copies, so that they can be forgotten.
    """
    if node.chunks == chunks or not is_held(node) or not all(map(are_parts, chunks, node.chunks)):
        return in_chunks(node, chunks)
    if isinstance(node, View):
        return View((node.inputs[0],), node.selection, chunks)
    return View((node,), Selection.of_all(node.ndim), chunks)


def is_held(node: Expr) -> bool:
    """Tell whether the blocks of a node are kept, or are parts of such ones."""
    base = node.inputs[0] if isinstance(node, View) else node
    return isinstance(base, TaskBlocks) and base.held


def staged(node: Expr, chunks: Chunks) -> Expr:
    """Return the node to cut for a rechunk: the given one, or an equal with chunks in between.

    These are, along each axis, as long as the geometric mean of the two, so that their blocks are
    not larger than the larger ones.
    """
    pieces = prod([
        len(old) if None in old else len({*accumulate(old), *accumulate(new)})
        for old, new in zip(node.chunks, chunks, strict=True)
    ])
    blocks = prod(node.numblocks) + prod(map(len, chunks))
    if pieces <= max(MANY, 4 * blocks):
        return node
    between: list[tuple[Any, ...]] = []
    for old, new, n in zip(node.chunks, chunks, node.shape, strict=True):
        if n is None:
            between.append(old)
            continue
        count = max(round((len(old) * len(new)) ** 0.5), 1)
        between.append(in_steps(n, max(-(-n // count), 1)))
    middle = tuple(between)
    if middle in (node.chunks, chunks):
        return node
    return Rechunk((staged(node, middle),), middle)


def copies(slices: list[tuple[slice, ...]], block: Any) -> tuple[Any, ...]:
    """Return copies of the pieces of a block that different blocks need."""
    return tuple([np.array(block[piece]) for piece in slices])


def pieces_joined(
    lengths: tuple[tuple[int | None, ...], ...], dtype: np.dtype[Any] | None, *parts: Any
) -> Any:
    """Return a block of its pieces.

    lengths
        Of the parts along each axis; None: of the only ones, which have any length.
    dtype
        Of the block; None: what the parts have.
    """
    shape = [
        n if None in axis else sum(axis) for axis, n in zip(lengths, parts[0].shape, strict=True)
    ]
    out = np.empty(shape, common_dtype(parts) if dtype is None else dtype)
    for part, place in zip(parts, product(*map(_spans, lengths)), strict=True):
        refuse_sparse(part)
        out[place] = part
    return out
