"""Scans: each element is combined by a ufunc with all elements before it along an axis.

Each block is scanned by itself. The carry of a block combines all elements before it. It is made of
the ends of the earlier blocks, the last elements of their scans, so that only these small pieces
wait for each other::

    node          Scan        what users have made, until it is expanded
    ends          BlockEnds   the last elements of a scan of each block
    carries       Carries     the ends, combined up to each block
    result        Scanned     a scan of each block, each element combined with the carry

Blocks are read twice, so that scans are fused with what is before and after them. The carry of the
first blocks is the neutral element; for ufuncs and dtypes without one, the scans of blocks are kept
in between (`Joined`). Cumulative sums of positive elements never fall: a block continues with the
bits that end the block before it.

    >>> import lazyflow.array as la
    >>> x = la.ones(6, chunks=3).cumsum()
    >>> (result,) = expand_scans([x.expr])
    >>> result.inputs, result.inputs[1].inputs
    ((<full float64 6>, <carries float64 2>), (<last float64 2>,))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.kernels.order import LAST, Reduction, neutral
from lazyflow.array.kernels.program import ScanOperation
from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe, rebuilt, same
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import Reduce, without_empty
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.task_parts import named, writes_out
from lazyflow.array.nodes.user_calls import PerBlock
from lazyflow.array.nodes.views import seen
from lazyflow.graph.task import Task


class Scan(Expr):
    """``ufunc.accumulate`` along an axis, of an associative ufunc, before it is expanded.

    parallel
        Carries are made as a tree instead of one after the other.
    """

    __slots__ = ("axis", "parallel", "ufunc")

    def __init__(
        self, inputs: tuple[Expr, ...], ufunc: np.ufunc, axis: int, dtype: np.dtype[Any],
        parallel: bool,
    ) -> None:
        super().__init__(inputs, dtype, inputs[0].chunks)
        self.ufunc = ufunc
        self.axis = axis
        self.parallel = parallel

    @property
    def name(self) -> str:
        return ScanOperation(self.ufunc, self.axis).name

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        raise TypeError(f"{self.name} has no blocks of its own: it is expanded first")

    def through(self, selection: Selection) -> Recipe | None:
        slices = selection.slices()
        axis = self.axis
        inner = Selection((*slices.picks[:axis], None, *slices.picks[axis + 1:]), slices.axes)
        left = [0 if isinstance(pick, int) else None for pick in selection.picks]
        rest: Any = (*left[:axis], selection.picks[axis], *left[axis + 1:])
        return seen([(self.inputs[0], inner)], self.with_inputs, Selection(rest, selection.axes))

    def expanded(self) -> Expr:
        """Return the nodes that compute it."""
        (x,), ufunc, axis = self.inputs, self.ufunc, self.axis
        if neutral(ufunc, self.dtype) is None:
            func = named(self.name, scan_block, ufunc, axis, self.dtype)
            alone: Expr = PerBlock((x,), func, self.dtype, x.chunks)
            end = named("end", last_along, axis)
            ends: Expr = PerBlock((alone,), end, self.dtype, ends_of(x.chunks, axis))
            return Joined((alone, Carries((ends,), ufunc, axis, self.parallel)), ufunc, axis)
        operation = ScanOperation(ufunc, axis - self.ndim)
        alone = Scanned((x,), operation, self.dtype)
        if self.numblocks[axis] == 1:
            return alone
        carries = Carries((BlockEnds((alone,), axis),), ufunc, axis, self.parallel)
        return Scanned((x, carries), operation, self.dtype)


class Scanned(Elementwise):
    """The scan of each block, combined with its carry if that is an input, too.

    It is fused like elementwise operations, and has the chunks of the values.
    """

    __slots__ = ()

    def __init__(
        self, inputs: tuple[Expr, ...], op: ScanOperation, dtype: np.dtype[Any]
    ) -> None:
        Expr.__init__(self, inputs, dtype, inputs[0].chunks)
        self.op = op
        self.loop = (dtype,) * (len(inputs) + 1)
        self.result = 0


class BlockEnds(Reduce):
    """The last elements of the scan of each block."""

    __slots__ = ()

    def __init__(self, inputs: tuple[Expr, ...], axis: int) -> None:
        dtype = inputs[0].dtype
        Expr.__init__(self, inputs, dtype, ends_of(inputs[0].chunks, axis))
        self.reduction = Reduction(LAST, (axis,), dtype)
        self.finish = None


class Carries(Expr):
    """The carry of each block: the ends of the earlier ones combined, as one element."""

    __slots__ = ("axis", "parallel", "ufunc")

    def __init__(
        self, inputs: tuple[Expr, ...], ufunc: np.ufunc, axis: int, parallel: bool
    ) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)
        self.ufunc = ufunc
        self.axis = axis
        self.parallel = parallel

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        at, axis = index[self.axis], self.axis
        if at == 0:
            none = np.full((1,) * self.ndim, neutral(self.ufunc, self.dtype), self.dtype)
            return low.value(none)
        line = [
            (*index[:axis], i, *index[axis + 1:]) for i in range(self.numblocks[axis] - 1)
        ]
        carries = low.shared(self, ("carries", line[0]), list)
        if self.parallel and not carries:
            carries.extend(self._prefixes(low, line))
        for each in line[len(carries):at]:
            end = low.block(self.inputs[0], each)
            carries.append(self._combined(low, carries[-1], end) if carries else end)
        found: Task = carries[at - 1]
        return found

    def _combined(self, low: MakesTasks, before: Task, after: Task) -> Task:
        func = low.shared(self, "carry", named, "carry", with_carry, self.ufunc, self.dtype)
        return low.task(func, (before, after), self)

    def _prefixes(self, low: MakesTasks, line: Sequence[Index]) -> list[Task]:
        """Return all carries: sums of pairs first, then what lies between them."""
        levels = [[low.block(self.inputs[0], each) for each in line]]
        while len(levels[-1]) > 1:
            level = levels[-1]
            levels.append([
                self._combined(low, level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)
            ])
        found: list[Task] = levels.pop()
        for level in reversed(levels):
            pairs = found
            found = [level[0]]
            for i in range(1, len(level)):
                pair = pairs[(i - 1) // 2]
                found.append(pair if i % 2 else self._combined(low, pair, level[i]))
        return found


class Joined(Expr):
    """The scans of blocks, which are kept, combined with their carries."""

    __slots__ = ("axis", "ufunc")

    def __init__(self, inputs: tuple[Expr, ...], ufunc: np.ufunc, axis: int) -> None:
        alone = inputs[0]
        super().__init__(inputs, alone.dtype, alone.chunks)
        self.ufunc = ufunc
        self.axis = axis

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        alone, carries = self.inputs
        block = low.block(alone, index)
        if index[self.axis] == 0:
            return block
        func = low.shared(self, "join", named, self.name, with_carry, self.ufunc, self.dtype)
        return low.task(func, (low.block(carries, index), block), self)


def ends_of(chunks: Chunks, axis: int) -> Chunks:
    """Return the chunks of the ends of blocks: of length 1 along an axis."""
    return (*chunks[:axis], (1,) * len(chunks[axis]), *chunks[axis + 1:])


@writes_out
def scan_block(
    ufunc: np.ufunc, axis: int, dtype: np.dtype[Any], block: Any, *, out: Any = None
) -> Any:
    """Return the scan of a block by itself."""
    # NumPy takes no dtype for dates and times, whose unit it would have to keep
    wanted = None if dtype.kind in "mM" else dtype
    return ufunc.accumulate(block, axis=axis, dtype=wanted, out=out)


def last_along(axis: int, block: Any) -> Any:
    """Return a copy of the last element along an axis, so that the block need not be kept."""
    return block[(*[slice(None)] * axis, slice(-1, None))].copy()


@writes_out
def with_carry(
    ufunc: np.ufunc, dtype: np.dtype[Any], before: Any, after: Any, *, out: Any = None
) -> Any:
    """Return a scanned block combined with the carry of the blocks before it."""
    return ufunc(before, after, out=out).astype(dtype, copy=False)


def scan(
    node: Expr, ufunc: np.ufunc, axis: int, dtype: np.dtype[Any], parallel: bool = False
) -> Expr:
    """Return the scan of a node by an associative ufunc."""
    full = without_empty(node, (axis,))
    return rechunk(Scan((full,), ufunc, axis, dtype, parallel), node.chunks)


def expand_scans(wanted: Sequence[Expr]) -> Sequence[Expr]:
    """Return equals of some nodes without a `Scan`."""

    def changed(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        made = same(node, inputs)
        return made.expanded() if isinstance(made, Scan) else made

    return rebuilt(wanted, changed)
