"""Where tiles of the outputs go: into arrays, or reduced into blocks of lanes and moments."""

from __future__ import annotations

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
from lazyflow.array.kernels.planning import TILE, Plan


class Sinking(Protocol):
    """Takes the tiles of an output, one after the other.

    at
        Which output.
    flat
        The result in one dimension, where tiles may be written, or None.
    array
        What kernels write into.
    """

    at: int
    flat: Any
    array: Any

    def take(self, low: int, tile: Any, mask: Any) -> None:
        """Take elements from `low` on, and what of them counts, or None."""

    def finish(self) -> np.ndarray:
        """Return the result."""


class _Plain:
    def __init__(self, plan: Plan, at: int) -> None:
        self.at = at
        self.result = np.empty(plan.shape, plan.lowered.dtypes[plan.lowered.sinks[at].value])
        self.array = self.flat = self.result.reshape(-1)

    def take(self, low: int, tile: Any, mask: Any) -> None:
        self.flat[low : low + len(tile)] = tile

    def finish(self) -> np.ndarray:
        return self.result


class _Reduced:
    flat = None

    def __init__(self, plan: Plan, at: int, form: Form) -> None:
        self.plan, self.at, self.form = plan, at, form
        self.reduction = plan.lowered.sinks[at].reduction
        assert self.reduction is not None
        self.ufunc = KINDS[self.reduction.kind]
        self.array = self.partial = new_partial(plan, at, form)
        self.filled = identity(self.reduction.kind, self.reduction.dtype) is not None

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
        return finish_reduced(self.plan, self.at, self.partial)


def new_partial(plan: Plan, at: int, form: Form) -> Any:
    """Return the array for reduced lanes of blocks, which they start from."""
    reduction = plan.lowered.sinks[at].reduction
    assert reduction is not None
    shape = (form.outer, form.blocks, form.lanes)
    start = identity(reduction.kind, reduction.dtype)
    if start is None:
        return np.empty(shape, reduction.dtype)
    return np.full(shape, start, reduction.dtype)


def finish_reduced(plan: Plan, at: int, partial: Any) -> np.ndarray:
    """Return the result of an output from its reduced lanes of blocks."""
    reduction = plan.lowered.sinks[at].reduction
    assert reduction is not None
    ufunc, forms = KINDS[reduction.kind], rounds(plan.shape, reduction.axes)
    result = rest_of_rounds(ufunc, forms[1:], finish(ufunc, forms[0], partial))
    return contiguous(result).reshape(kept_shape(plan.shape, reduction.axes))


class _Moments:
    flat = None

    def __init__(self, plan: Plan, at: int, form: Form) -> None:
        self.plan, self.at, self.form = plan, at, form
        sink = plan.lowered.sinks[at]
        dtype = plan.lowered.dtypes[sink.value]
        self.array = self.partial = moments.new_moments(form, dtype, sink.mask is not None)

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
        reduction = self.plan.lowered.sinks[self.at].reduction
        assert reduction is not None
        return moments.finish_moments(self.plan.shape, reduction, self.partial)


def sink_for(plan: Plan, at: int, form: Form | None) -> Sinking:
    """Return what takes the tiles of an output in a pass with a form."""
    reduction = plan.lowered.sinks[at].reduction
    if reduction is None:
        return _Plain(plan, at)
    assert form is not None
    return (_Moments if reduction.kind == "moments" else _Reduced)(plan, at, form)
