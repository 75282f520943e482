"""The arrays that tiles of outputs go into: whole, or reduced to lanes of blocks and moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.lowering import KINDS
from lazyflow.array.kernels.order import (
    Form,
    contiguous,
    finish,
    identity,
    kept_shape,
    reduce_blocks,
    rest_of_rounds,
    rounds,
)
from lazyflow.array.kernels.planning import TILE, BlockPlan


class OutputBuffer(Protocol):
    """Takes the tiles of an output, one after the other.

    at
        The position of the output in those of the program.
    flat
        The result in one dimension, into which tiles may be written, or None.
    array
        The array that kernels write into.
    """

    at: int
    flat: Any
    array: Any

    def take(self, low: int, tile: Any, mask: Any) -> None:
        """Take a tile whose first element is number `low`, and its mask, if there is one."""

    def finish(self) -> np.ndarray:
        """Return the result."""


class _FullBuffer:
    def __init__(self, plan: BlockPlan, at: int, out: Any) -> None:
        self.at = at
        dtype = plan.lowered.dtypes[plan.lowered.outputs[at].value]
        self.array = self.result = (
            out if fits(plan, at, out) else np.empty(plan.shape, dtype)
        )
        self.flat = self.result.reshape(-1) if self.result.flags.c_contiguous else None

    def take(self, low: int, tile: Any, mask: Any) -> None:
        for piece, first, last in pieces(self.result, low, low + len(tile)):
            piece[...] = tile[first:last].reshape(piece.shape)

    def finish(self) -> np.ndarray:
        return self.result


class _ReductionBuffer:
    flat = None

    def __init__(self, plan: BlockPlan, at: int, form: Form) -> None:
        self.plan, self.at, self.form = plan, at, form
        reduction = plan.lowered.outputs[at].reduction
        assert reduction is not None
        self.reduction = reduction
        self.ufunc = KINDS[reduction.kind]
        shape = (form.outer, form.blocks, form.lanes)
        start = identity(reduction.kind, reduction.dtype)
        self.filled = start is not None
        self.array = self.partial = (
            np.full(shape, start, reduction.dtype) if self.filled
            else np.empty(shape, reduction.dtype)
        )

    def take(self, low: int, tile: Any, mask: Any) -> None:
        form = self.form
        outer, within = divmod(low, form.elements)
        if form.elements <= TILE:
            rows = tile.reshape(-1, form.elements)
            reduce_blocks(self.ufunc, form.lanes, rows, self.partial[outer : outer + len(rows)])
        elif form.block <= TILE:
            block = within // form.block
            reduce_blocks(self.ufunc, form.lanes, tile[None], self.partial[outer, block:][None])
        else:
            block, inside = divmod(within, form.block)
            self._take_rows(self.partial[outer, block], inside, tile)

    def _take_rows(self, lanes: Any, inside: int, tile: Any) -> None:
        at = 0
        while at < len(tile):
            row, lane = divmod(inside + at, len(lanes))
            piece = tile[at : at + len(lanes) - lane]
            acc = lanes[lane : lane + len(piece)]
            if row or self.filled:
                self.ufunc(acc, piece, out=acc)
            else:
                acc[...] = piece
            at += len(piece)

    def finish(self) -> np.ndarray:
        shape, axes = self.plan.shape, self.reduction.axes
        first = finish(self.ufunc, self.form, self.partial)
        result = rest_of_rounds(self.ufunc, rounds(shape, axes)[1:], first)
        return contiguous(result).reshape(kept_shape(shape, axes))


class _MomentsBuffer:
    flat = None

    def __init__(self, plan: BlockPlan, at: int, form: Form) -> None:
        self.plan, self.at, self.form = plan, at, form
        output = plan.lowered.outputs[at]
        assert output.reduction is not None
        self.reduction = output.reduction
        dtype = plan.lowered.dtypes[output.value]
        self.array = self.partial = moments.new_moments(form, dtype, output.mask is not None)

    def take(self, low: int, tile: Any, mask: Any) -> None:
        form = self.form
        outer, within = divmod(low, form.elements)
        k = max(1, len(tile) // form.elements)
        mask = None if mask is None else mask.reshape(k, -1)
        first = within // form.block
        blocks = -(-len(tile) // k // form.block)
        into = self.partial[:, outer : outer + k, first : first + blocks]
        moments.block_moments(form.lanes, tile.reshape(k, -1), mask, into)

    def finish(self) -> np.ndarray:
        return moments.finish_moments(self.plan.shape, self.reduction, self.partial)


def fits(plan: BlockPlan, at: int, out: Any) -> bool:
    """Tell whether an array has the shape and the dtype of an output that is not reduced."""
    value, reduction, _ = plan.lowered.outputs[at]
    return (
        out is not None
        and reduction is None
        and out.shape == plan.shape
        and out.dtype == plan.lowered.dtypes[value]
        and out.flags.aligned
    )


def pieces(view: Any, low: int, high: int, at: int = 0) -> Iterator[tuple[Any, int, int]]:
    """Yield the elements from `low` to `high`, counted in C order, of an array of any strides.

    Each piece is a view, and comes with the numbers of its elements in those that are yielded.

    >>> x = np.arange(12).reshape(4, 3).T
    >>> [(piece.tolist(), first, last) for piece, first, last in pieces(x, 2, 7)]
    [([6, 9], 0, 2), ([[1, 4, 7]], 2, 5)]
    """
    if view.ndim < 2:
        piece = view[low:high] if view.ndim else view
        yield piece, at, at + high - low
        return
    inner = view[0].size
    first, skipped = divmod(low, inner)
    last, over = divmod(high, inner)
    if first == last:
        yield from pieces(view[first], skipped, over, at)
        return
    if skipped:
        yield from pieces(view[first], skipped, inner, at)
        first += 1
        at += inner - skipped
    if first < last:
        yield view[first:last], at, at + (last - first) * inner
    if over:
        yield from pieces(view[last], 0, over, at + (last - first) * inner)


def output_buffer(plan: BlockPlan, at: int, form: Form | None, out: Any) -> OutputBuffer:
    """Return the buffer for the tiles of an output in a pass with a form.

    out
        An array that the output is written into if it isn't reduced and the array fits, or None.
    """
    reduction = plan.lowered.outputs[at].reduction
    if reduction is None:
        return _FullBuffer(plan, at, out)
    assert form is not None
    return (_MomentsBuffer if reduction.kind == "moments" else _ReductionBuffer)(plan, at, form)
