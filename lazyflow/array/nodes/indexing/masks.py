"""Elements chosen by boolean arrays, ``x[x > 0]``; evaluation.py computes their number.

Each block of the mask gives one block of the result, so the mask's chunks must follow each other in
C order, and both arrays are rechunked if they don't. Only the values tell the lengths: all arrays
with one mask share the same unknown lengths, which are counted once for all; in a mask that is in
memory they are counted at the call. Views of other axes move below, to the array.

    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=3) * 1
    >>> chosen = x[x > 2]
    >>> chosen.shape, chosen.with_known_sizes().chunks
    ((None,), ((0, 3),))
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

from lazyflow.array.chunks import Chunks, block_slices, in_c_order
from lazyflow.array.kernels.order import compressed
from lazyflow.array.nodes.align import SizesNeeded, union
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe, Unknown
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.sources import InMemory
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.views import seen
from lazyflow.finalizers import WeakTable
from lazyflow.graph.task import Task

#: The number of elements that each block of a mask chooses, once computed; until then its origin.
_counts: WeakTable[Expr, tuple[int, ...]] = WeakTable()
_unknown: WeakTable[Expr, Unknown] = WeakTable()


class Masked(Expr):
    """The elements of neighbouring axes where a mask of their shape is True, in C order.

    inputs
        A node and the mask, whose chunks are the node's of these axes and in C order.
    first
        The first axis of the mask in the node: the axis of the chosen elements.
    counts
        How many elements each block of the mask chooses, or None.
    """

    __slots__ = ("counts", "first")
    called = "getitem"
    made: ClassVar[np.dtype[Any] | None] = None  # the dtype, if it is not that of the node

    def __init__(self, inputs: tuple[Expr, ...], first: int, counts: Any = None) -> None:
        node, mask = inputs
        chosen = counts
        if counts is None:
            chosen = _unknown.setdefault(mask, Unknown((None,) * prod(mask.numblocks)))
        chunks = (*node.chunks[:first], chosen, *node.chunks[first + mask.ndim:])
        super().__init__(inputs, node.dtype if self.made is None else self.made, chunks)
        self.first = first
        self.counts = counts

    def through(self, selection: Selection) -> Recipe | None:
        slices = selection.slices()
        node, mask = self.inputs
        first = self.first
        picks = (
            *slices.picks[:first], *[None] * mask.ndim, *slices.picks[first + 1:]
        )
        inner = Selection(picks, tuple(range(node.ndim)))
        rest = selection.rest()
        chosen = selection.picks[first]
        outer = Selection((*rest.picks[:first], chosen, *rest.picks[first + 1:]), rest.axes)
        return seen([(node, inner), (mask, Selection.of_all(mask.ndim))], self.with_inputs, outer)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        node, mask = self.inputs
        first = self.first
        at = tuple(map(int, np.unravel_index(index[first], mask.numblocks)))
        func = low.shared(self, "mask", named, "getitem", choose, first, mask.ndim)
        block = low.block(node, (*index[:first], *at, *index[first + 1:]))
        return low.task(func, (block, low.block(mask, at)), self)

    def is_of_elements(self) -> bool:
        """Tell whether each element is chosen by itself, by a program of known types."""
        node, mask = self.inputs
        known = node.known_dtype is not None and mask.known_dtype is not None
        return type(self) is Masked and node.ndim == mask.ndim and known

    def mask_counts(self) -> tuple[int, ...] | None:
        """Return how many elements each block chooses, or None if unknown."""
        return self.counts or _counts.get(self.inputs[1])


def choose(first: int, axes: int, block: Any, mask: Any) -> Any:
    """Return the elements of a block that a mask chooses."""
    if type(block) is np.ndarray and block.shape == mask.shape and block.flags.c_contiguous:
        return compressed(block, mask)
    if axes > 1 and block.flags.c_contiguous:  # in half of the time that NumPy's indexing takes
        block = block.reshape(*block.shape[:first], mask.size, *block.shape[first + axes:])
        mask, axes = mask.reshape(-1), 1
    if axes == 1:
        return np.compress(mask, block, axis=first)
    return block[(*(slice(None),) * first, mask)]


class MaskedBlocks(Expr):
    """The elements chosen of each block by a program, in C order of the blocks.

    inputs
        The fused node, whose blocks are of one axis: its own.
    """

    __slots__ = ("sizes",)
    called = "getitem"

    def __init__(self, inputs: tuple[Expr, ...], sizes: Any) -> None:
        super().__init__(inputs, inputs[0].dtype, (sizes,))
        self.sizes = sizes

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (fused,) = self.inputs
        return low.block(fused, tuple(map(int, np.unravel_index(index[0], fused.numblocks))))


class Places(Masked):
    """The numbers, in C order, of the elements of a mask that are True."""

    __slots__ = ()
    called = "flatnonzero"
    made = np.dtype(np.intp)

    def through(self, selection: Selection) -> Recipe | None:
        return None

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        mask = self.inputs[1]
        at = tuple(map(int, np.unravel_index(index[0], mask.numblocks)))
        start = 0
        for n, edges, i in zip(mask.shape, low.bounds(mask), at, strict=True):
            start = start * n + edges[i]  # type: ignore[operator]
        return low.task(places, (start, low.block(mask, at)), self)


def places(start: int, mask: Any) -> Any:
    """Return the numbers of the elements of a block that are True, the first being `start`."""
    found = np.flatnonzero(mask)
    found += start
    return found


def note_counts(mask: Expr, counts: tuple[int, ...] | None) -> None:
    """Keep how many elements each block of a mask chooses, for all nodes with this mask."""
    assert counts is not None
    _counts[mask] = counts


def masked(node: Expr, mask: Expr, first: int) -> Expr:
    """Return the elements that a mask chooses, of the axes of a node from `first` on.

    Raises
    ------
    IndexError
        The mask's lengths are not the node's.
    SizesNeeded
        Lengths must be known to compare them.
    """
    last = first + mask.ndim
    check_lengths(mask.shape, node.shape, first)
    chunks = []
    for one, other in zip(node.chunks[first:last], mask.chunks, strict=True):
        if one == other:
            chunks.append(one)
        elif None in one or None in other:
            raise SizesNeeded
        else:
            chunks.append(one if mask.free else other if node.free else union({one, other}))
    mask = rechunk(mask, _in_order(mask, tuple(chunks)))
    node = rechunk(node, (*node.chunks[:first], *mask.chunks, *node.chunks[last:]))
    return Masked((node, mask), first, _counts.get(mask) or _counted(mask))


def places_of(mask: Expr) -> Expr:
    """Return the numbers, in C order, of the elements of a mask of known lengths that are True."""
    mask = rechunk(mask, _in_order(mask, mask.chunks))
    return Places((mask, mask), 0, _counts.get(mask) or _counted(mask))


def check_lengths(mask: tuple[Any, ...], shape: tuple[Any, ...], first: int) -> None:
    """Raise IndexError if a mask's lengths are not those of the axes that it is for."""
    for axis, n in enumerate(mask):
        m = shape[first + axis]
        if n is not None and m is not None and n != m:
            raise IndexError(
                f"boolean index did not match indexed array along axis {first + axis}; size of "
                f"axis is {m} but size of corresponding boolean axis is {n}"
            )


def _in_order(mask: Expr, chunks: Chunks) -> Chunks:
    """Return chunks whose blocks, one after the other, are in C order: these, if they are."""
    cut = [axis for axis, sizes in enumerate(chunks) if len(sizes) > 1]
    if not cut or all(n is not None and n <= 1 for sizes in chunks[:cut[-1]] for n in sizes):
        return chunks
    if any(None in sizes for sizes in chunks):
        raise SizesNeeded
    return in_c_order(mask.shape, prod(map(max, chunks)))  # type: ignore[arg-type]


def _counted(mask: Expr) -> tuple[int, ...] | None:
    """Count the elements that a mask chooses, if it is in memory."""
    if not isinstance(mask, InMemory):
        return None
    return tuple([int(np.count_nonzero(mask.array[each])) for each in block_slices(mask.chunks)])
