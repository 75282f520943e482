"""The same array in other chunks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyflow.array.expr import Chunks, Expr, Index
from lazyflow.array.lazy_dtype import common_dtype
from lazyflow.array.views import Pick, Spec, View, cut
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.lowering import Lowering


class Rechunk(Expr):
    """Blocks put together of pieces of the input's blocks."""

    __slots__ = ()

    def __init__(self, node: Expr, chunks: Chunks) -> None:
        super().__init__(node.dtype_or_lazy, chunks, (node,))

    def params(self) -> tuple[Any, ...]:
        return (self.chunks,)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return rechunk(inputs[0], self.chunks)

    def through(self, spec: Spec) -> Any:
        chunks = View(self, spec).chunks
        return [(self.inputs[0], spec)], lambda found: rechunk(found[0], chunks)

    def make_block(self, low: Lowering, index: Index) -> Task:
        (node,) = self.inputs
        bounds = low.bounds(self)
        pieces = []
        for axis, sizes in enumerate(node.chunks):
            start = bounds[axis][index[axis]]
            n = self.chunks[axis][index[axis]]
            assert n is not None
            pieces.append(cut(sizes, Pick(start, 1, n)))
        shape = tuple([self.chunks[axis][i] for axis, i in enumerate(index)])
        numbers = product(*[[number for number, _, _ in axis] for axis in pieces])
        blocks = [low.block(node, i) for i in numbers]
        if len(blocks) == 1 and shape == tuple(
            [node.chunks[axis][piece[0][0]] for axis, piece in enumerate(pieces)]
        ):
            return blocks[0]
        return low.task(Assemble(pieces, shape, self.known_dtype), blocks, self)


def rechunk(node: Expr, chunks: Chunks) -> Expr:
    """Return a node in these chunks: itself, if they are its own."""
    if node.chunks == chunks:
        return node
    if node.free:
        return node.with_chunks(chunks)
    if isinstance(node, Rechunk):
        return rechunk(node.inputs[0], chunks)
    return Rechunk(node, chunks)


class Assemble:
    """Puts a block together of pieces of others.

    pieces
        For each axis: number of a block, a slice of it, a length.
    dtype
        Of the result; None: what the blocks have.
    """

    __name__ = "rechunk"
    _lazyflow_kind = 0

    def __init__(self, pieces: Any, shape: tuple[Any, ...], dtype: Any) -> None:
        self.pieces = pieces
        self.shape = shape
        self.dtype = dtype

    def __call__(self, *blocks: Any) -> Any:
        if len(blocks) == 1:
            return blocks[0][tuple([piece for ((_, piece, _),) in self.pieces])]
        dtype = common_dtype(blocks) if self.dtype is None else self.dtype
        out = np.empty(self.shape, dtype)
        spans: list[list[tuple[slice, slice]]] = []
        for axis in self.pieces:
            at = 0
            spans.append([])
            for _, piece, n in axis:
                spans[-1].append((slice(at, at + n), piece))
                at += n
        for block, places in zip(blocks, product(*spans), strict=True):
            out[tuple([to for to, _ in places])] = block[tuple([piece for _, piece in places])]
        return out
