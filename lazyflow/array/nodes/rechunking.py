"""The same array in other chunks, in bounded memory.

A block is cut into copies of its pieces at once, and forgotten: what lives is the pieces that were
not put together yet, the data once, and a block or two for each thread. (Views would keep every
block until the last of its pieces is used: twice the data.) With a memory limit, pieces that take
much of it go through a file (exchange_file.py), as do those that take much of the memory of a
cluster's workers.
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
from lazyflow.array.nodes.task_parts import TaskDetails, named
from lazyflow.array.nodes.views import View
from lazyflow.graph.task import Task
from lazyflow.store.spilling import make_room_for

#: Pieces above which a rechunk goes by chunks between the two: 1,000 rows to 1,000 columns are a
#: million pieces, and 64,000 by blocks in between. A guess at where tasks cost as much as copies.
MANY = 20_000

#: As many through a file, where they are no tasks.
_MANY_IN_FILE = 10 * MANY


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
        by_file = low.shared(self, "file", ByFile, low, self)
        if by_file.file is not None:
            return by_file.block(low, index)
        source = low.shared(self, "source", staged, self.inputs[0], self.chunks)
        cuts = _cuts(low, self, index, source.chunks)
        if 0 in shape:
            nothing = named("rechunk-cut", copies, [tuple([piece for (_, piece, _), *_ in cuts])])
            block = low.block(source, tuple([number for (number, _, _), *_ in cuts]))
            return low.parts(nothing, (block,), self, 1)[0]
        pieces = [
            low.shared(self, number, self._cut, low, source, number)[index]
            for number in product(*[[number for number, _, _ in axis] for axis in cuts])
        ]
        if len(pieces) == 1:
            return pieces[0]
        lengths = tuple([tuple([n for _, _, n in axis]) for axis in cuts])
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


class ByFile:
    """The tasks of a rechunk whose pieces go through a file, in which each block lies in a row.

    Attributes
    ----------
    file
        None, if the pieces fit into the memory limit.
    """

    def __init__(self, low: MakesTasks, node: Expr) -> None:
        self.node, self.file, dtype = node, None, node.known_dtype
        if low.exchange is None or dtype is None or dtype.hasobject or None in node.shape:
            return
        self.source = staged(node.inputs[0], node.chunks, _MANY_IN_FILE)
        at_once = pieces_at_once(self.source.chunks, node.chunks) * dtype.itemsize
        self.file = low.exchange(node.size * dtype.itemsize, at_once)

    def block(self, low: MakesTasks, index: Index) -> Task:
        """Return the task of one block."""
        node = self.node
        cuts = _cuts(low, node, index, self.source.chunks)
        written = [
            low.shared(node, number, self._write, low, number)
            for number in product(*[[number for number, _, _ in axis] for axis in cuts])
        ]
        start, _ = self._place(low, index)
        where = TaskDetails(start, tuple([tuple([n for _, _, n in axis]) for axis in cuts]))
        func = named("rechunk", read_block, node.known_dtype)
        return low.task(func, (where, self.file, *written), node)

    def _write(self, low: MakesTasks, number: Index) -> Task:
        """Return the task that writes the pieces of a block of the source."""
        cuts = _cuts(low, self.source, number, self.node.chunks)
        slices = product(*[_spans([n for _, _, n in axis]) for axis in cuts])
        places = []
        for piece, of_source in zip(product(*cuts), slices, strict=True):
            start, shape = self._place(low, tuple([i for i, _, _ in piece]))
            lengths = tuple([n for _, _, n in piece])
            start += in_a_row([span.start for _, span, _ in piece], lengths, shape)
            places.append((start, of_source, lengths))
        func = named("rechunk-cut", write_pieces, self.node.known_dtype)
        return low.task(func, (TaskDetails(places), self.file, low.block(self.source, number)),
                        self.node)

    def _place(self, low: MakesTasks, index: Index) -> tuple[int, Index]:
        """Return where a block begins in the file, in elements, and its shape."""
        node = self.node
        shape: Any = tuple([sizes[i] for sizes, i in zip(node.chunks, index, strict=True)])
        starts = [edges[i] for edges, i in zip(low.bounds(node), index, strict=True)]
        return in_a_row(starts, shape, node.shape), shape


def in_a_row(starts: Sequence[int], lengths: Sequence[int], shape: Sequence[Any]) -> int:
    """Return how many elements are before a part of an array whose parts lie one after the other.

    The parts are a grid, in C order.

    >>> in_a_row((2, 3), (2, 2), (5, 5))  # two rows of five, and three columns of two
    16
    """
    return sum(
        start * prod(lengths[:axis]) * prod(shape[axis + 1:]) for axis, start in enumerate(starts)
    )


def pieces_at_once(old: Chunks, new: Chunks) -> int:
    """Return how many elements are cut after a block and not put together, at most.

    Blocks are made in C order.

    >>> pieces_at_once(((1, 1, 1, 1), (4,)), ((4,), (1, 1, 1, 1)))
    12
    >>> pieces_at_once(((2, 2, 2),), ((3, 3),))
    1
    """
    first = np.zeros((), np.intp)  # for each old block, the first new one that has a part of it
    size = np.ones((), np.intp)
    joined = np.ones((), np.intp)
    for own, other in zip(old, new, strict=True):
        ends = np.cumsum(other)
        at = np.searchsorted(ends, np.cumsum(own) - own, side="right")
        first = np.add.outer(first * len(other), at.clip(max=len(other) - 1))
        size = np.multiply.outer(size, np.array(own))
        joined = np.multiply.outer(joined, np.array(other))
    cut = np.bincount(first.ravel(), size.ravel(), joined.size).cumsum()
    return int((cut - joined.ravel().cumsum()).max())


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


def staged(node: Expr, chunks: Chunks, many: int = MANY) -> Expr:
    """Return the node to cut for a rechunk: the given one, or an equal with chunks in between.

    many
        Pieces above which there are some.

    These are, along each axis, as long as the geometric mean of the two, so that their blocks are
    not larger than the larger ones.
    """
    pieces = prod([
        len(old) if None in old else len({*accumulate(old), *accumulate(new)})
        for old, new in zip(node.chunks, chunks, strict=True)
    ])
    blocks = prod(node.numblocks) + prod(map(len, chunks))
    if pieces <= max(many, 4 * blocks):
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
    return Rechunk((staged(node, middle, many),), middle)


def copies(slices: list[tuple[slice, ...]], block: Any) -> tuple[Any, ...]:
    """Return copies of the pieces of a block that different blocks need."""
    return tuple([np.array(block[piece]) for piece in slices])


def write_pieces(
    dtype: np.dtype[Any], where: TaskDetails, file: Any, block: Any
) -> Any:
    """Write pieces of a block to a file; return what tells readers where they are.

    where
        For each piece its start in the file, in elements, its slices of the block and its shape.
    """
    refuse_sparse(block)
    return file.write(
        (start * dtype.itemsize, np.ascontiguousarray(np.broadcast_to(block[slices], shape), dtype))
        for start, slices, shape in where.values[0]
    )


def read_block(dtype: np.dtype[Any], where: TaskDetails, file: Any, *written: Any) -> Any:
    """Return a block of its pieces in a file.

    where
        Its start in the file, in elements, and the lengths of the pieces along each axis.
    """
    start, lengths = where.values
    shape = tuple(map(sum, lengths))
    size = prod(shape) * dtype.itemsize
    make_room_for(size)
    found = file.read(start * dtype.itemsize, size, written).view(dtype)
    if all(len(axis) == 1 for axis in lengths[1:]):
        return found.reshape(shape)
    sizes = list(product(*lengths))
    ends = accumulate(map(prod, sizes[:-1]))
    pieces = [part.reshape(size) for part, size in zip(np.split(found, list(ends)), sizes,
                                                       strict=True)]
    return pieces_joined(lengths, dtype, *pieces)


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
