"""The same array in other chunks, in bounded memory.

A block is cut into copies of its pieces at once, and forgotten: what lives is the pieces that were
not put together yet, the data once, and a block or two for each thread. (Views would keep every
block until the last of its pieces is used: twice the data.)
"""

from __future__ import annotations

from itertools import accumulate, pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyflow.array.expr import Chunks, Expr, Index
from lazyflow.array.lazy_dtype import common_dtype
from lazyflow.array.views import Pick, Spec, View, cut
from lazyflow.graph.kinds import ATOM
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.lowering import Lowering

#: Pieces above which a rechunk goes by chunks between the two: 1,000 rows to 1,000 columns are a
#: million pieces, and 64,000 by blocks in between. A guess at where tasks cost as much as copies.
_MANY = 20_000


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
        shape = tuple([sizes[i] for sizes, i in zip(self.chunks, index, strict=True)])
        if 0 in shape:
            return low.value(np.empty(shape, self.dtype))
        source = low.shared(self, "source", staged, self.inputs[0], self.chunks)
        bounds = low.bounds(self)
        cuts = []
        for axis, sizes in enumerate(source.chunks):
            start = bounds[axis][index[axis]]
            cuts.append(cut(sizes, Pick(start, 1, self.chunks[axis][index[axis]])))
        pieces = [
            self._piece(low, source, number, index)
            for number in product(*[[number for number, _, _ in axis] for axis in cuts])
        ]
        if len(pieces) == 1:
            return pieces[0]
        lengths = tuple([tuple([n for _, _, n in axis]) for axis in cuts])
        return low.task(Assemble(lengths, self.known_dtype), pieces, self)

    def _piece(self, low: Lowering, source: Expr, number: Index, index: Index) -> Task:
        """Return the part of a block of the source that is in a block of this."""
        parts = low.shared(self, number, self._cut, low, source, number)
        found: Task = parts[index]
        return found

    def _cut(self, low: Lowering, source: Expr, number: Index) -> dict[Index, Task]:
        """Have a block of the source cut; return its parts by the block of this they are in."""
        block = low.block(source, number)
        starts = low.bounds(source)
        cuts = []
        for axis, i in enumerate(number):
            pick = Pick(starts[axis][i], 1, source.chunks[axis][i])
            cuts.append(cut(self.chunks[axis], pick))
        places = list(product(*cuts))
        indices = [tuple([i for i, _, _ in place]) for place in places]
        if len(places) == 1:
            return {indices[0]: block}
        slices = []
        for pieces in cuts:  # of the source's block
            ends = [0, *accumulate(n for _, _, n in pieces)]
            slices.append([slice(a, b) for a, b in pairwise(ends)])
        func = Cut([tuple(piece) for piece in product(*slices)])
        return dict(zip(indices, low.parts(func, (block,), self, len(places)), strict=True))


def rechunk(node: Expr, chunks: Chunks) -> Expr:
    """Return a node in these chunks: itself, if they are its own."""
    if node.chunks == chunks:
        return node
    if node.free:
        return node.with_chunks(chunks)
    if isinstance(node, Rechunk):
        return rechunk(node.inputs[0], chunks)
    return Rechunk(node, chunks)


def staged(node: Expr, chunks: Chunks) -> Expr:
    """Return what to cut for a rechunk: the node, or itself in chunks in between.

    These are, along each axis, as long as the geometric mean of the two, so that their blocks are
    not larger than the larger ones.
    """
    pieces = prod([
        len({*accumulate(old), *accumulate(new)})
        for old, new in zip(node.chunks, chunks, strict=True)
    ])
    blocks = prod(node.numblocks) + prod(map(len, chunks))
    if pieces <= max(_MANY, 4 * blocks):
        return node
    between = []
    for old, new, n in zip(node.chunks, chunks, node.shape, strict=True):
        assert n is not None
        count = max(round((len(old) * len(new)) ** 0.5), 1)
        size = max(-(-n // count), 1)
        between.append(tuple([min(size, n - at) for at in range(0, n, size)]) or (0,))
    middle = tuple(between)
    if middle in (node.chunks, chunks):
        return node
    return Rechunk(staged(node, middle), middle)


class Cut:
    """Gives copies of parts of a block."""

    __name__ = "rechunk-cut"

    def __init__(self, slices: list[tuple[slice, ...]]) -> None:
        self.slices = slices

    def __call__(self, block: Any) -> tuple[Any, ...]:
        return tuple([np.array(block[piece]) for piece in self.slices])


class Assemble:
    """Puts a block together of its parts.

    lengths
        Of the parts along each axis.
    dtype
        Of the block; None: what the parts have.
    """

    __name__ = "rechunk"
    _lazyflow_kind = ATOM

    def __init__(self, lengths: tuple[tuple[int, ...], ...], dtype: np.dtype[Any] | None) -> None:
        self.lengths = lengths
        self.dtype = dtype

    def __call__(self, *parts: Any) -> Any:
        dtype = common_dtype(parts) if self.dtype is None else self.dtype
        out = np.empty(tuple(map(sum, self.lengths)), dtype)
        spans: list[list[slice]] = []
        for axis in self.lengths:
            ends = [0, *accumulate(axis)]
            spans.append([slice(a, b) for a, b in pairwise(ends)])
        for part, place in zip(parts, product(*spans), strict=True):
            out[place] = part
        return out
