"""Scans: each element is combined by a ufunc with all elements before it along an axis.

Each block is scanned by itself. What is before a block, its carry, is made of the last elements
of the blocks before it, so that only these small pieces wait for each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.task_parts import named, writes_out
from lazyflow.array.nodes.views import seen
from lazyflow.graph.task import Task


class Scan(Expr):
    """``ufunc.accumulate`` along an axis, of an associative ufunc.

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
        if self.ufunc in (np.add, np.multiply):
            return "cumsum" if self.ufunc is np.add else "cumprod"
        return f"{self.ufunc.__name__}.accumulate"

    def through(self, selection: Selection) -> Recipe | None:
        slices = selection.slices()
        axis = self.axis
        inner = Selection((*slices.picks[:axis], None, *slices.picks[axis + 1:]), slices.axes)
        left = [0 if isinstance(pick, int) else None for pick in selection.picks]
        rest: Any = (*left[:axis], selection.picks[axis], *left[axis + 1:])
        return seen([(self.inputs[0], inner)], self.with_inputs, Selection(rest, selection.axes))

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        alone = self._alone(low, index)
        at = index[self.axis]
        if at == 0:
            return alone
        carries = low.shared(self, ("carries", self._other_axes(index)), list)
        if self.parallel:
            if not carries:
                carries.extend(self._prefixes(low, index))
        else:
            for i in range(len(carries), at):
                carries.append(self._carry(low, carries, self._in_line(index, i)))
        return self._joined(low, carries[at - 1], alone)

    def _other_axes(self, index: Index) -> Index:
        return (*index[: self.axis], *index[self.axis + 1:])

    def _in_line(self, index: Index, at: int) -> Index:
        return (*index[: self.axis], at, *index[self.axis + 1:])

    def _alone(self, low: MakesTasks, index: Index) -> Task:
        """Return the task that scans a block by itself."""

        def make() -> Task:
            details = self.name, scan_block, self.ufunc, self.axis, self.dtype
            func = low.shared(self, "scan", named, *details)
            return low.task(func, (low.block(self.inputs[0], index),), self)

        found: Task = low.shared(self, ("alone", index), make)
        return found

    def _end(self, low: MakesTasks, index: Index) -> Task:
        func = low.shared(self, "end", named, "end", last_along, self.axis)
        return low.task(func, (self._alone(low, index),), self)

    def _carry(self, low: MakesTasks, before: list[Task], index: Index) -> Task:
        """Return the carry after a block, with those before it: of one task, not of two."""
        if not before:
            return self._end(low, index)
        details = "carry", end_with_carry, self.ufunc, self.axis, self.dtype
        func = low.shared(self, "carry", named, *details)
        return low.task(func, (before[-1], self._alone(low, index)), self)

    def _joined(self, low: MakesTasks, before: Task, after: Task) -> Task:
        func = low.shared(self, "join", named, self.name, with_carry, self.ufunc, self.dtype)
        return low.task(func, (before, after), self)

    def _prefixes(self, low: MakesTasks, index: Index) -> list[Task]:
        """Return all carries: sums of pairs first, then what lies between them."""
        ends = [
            self._end(low, self._in_line(index, i)) for i in range(self.numblocks[self.axis] - 1)
        ]
        levels = [ends]
        while len(levels[-1]) > 1:
            level = levels[-1]
            levels.append([
                self._joined(low, level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)
            ])
        found: list[Task] = levels.pop()
        for level in reversed(levels):
            pairs = found
            found = [level[0]]
            for i in range(1, len(level)):
                half = pairs[i // 2] if i % 2 else self._joined(low, pairs[i // 2 - 1], level[i])
                found.append(half)
        return found


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


def end_with_carry(
    ufunc: np.ufunc, axis: int, dtype: np.dtype[Any], before: Any, block: Any
) -> Any:
    """Return the last element along an axis, combined with the carry of the blocks before."""
    return with_carry(ufunc, dtype, before, last_along(axis, block))


def scan(
    node: Expr, ufunc: np.ufunc, axis: int, dtype: np.dtype[Any], parallel: bool = False
) -> Expr:
    """Return the scan of a node by an associative ufunc."""
    sizes = node.chunks[axis]
    if 0 in sizes:
        whole = tuple([n for n in sizes if n != 0]) or (0,)
        full = rechunk(node, (*node.chunks[:axis], whole, *node.chunks[axis + 1:]))
        return rechunk(Scan((full,), ufunc, axis, dtype, parallel), node.chunks)
    return Scan((node,), ufunc, axis, dtype, parallel)
