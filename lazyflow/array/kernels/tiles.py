"""Programs run by ufuncs, tile by tile: for every dtype, without compiling, as NumPy computes.

A tile is a range of about 64 K elements in C order (see TILE). Contiguous inputs are read as
slices, others are copied into a contiguous tile (on other strides NumPy's functions differ by an
ulp). Results go to a few buffers, each reused as soon as its value is no longer needed, or straight
into the array of an output. Values that are the same all along some axis are computed before, once,
in their own shape. Small blocks are computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.lowering import LoweredStep
from lazyflow.array.kernels.order import contiguous, reduce_whole
from lazyflow.array.kernels.outputs import OutputBuffer, output_buffer, pieces
from lazyflow.array.kernels.planning import (
    CONSTANT,
    FLAT,
    TILE,
    BlockPass,
    BlockPlan,
    Panels,
    make_plan,
    name_of,
    source_layout,
)
from lazyflow.array.kernels.program import CAST, WHERE, TileFunction
from lazyflow.array.kernels.reports import FloatReports


def perform(step: LoweredStep, operands: Sequence[Any], outs: Sequence[Any]) -> Sequence[Any]:
    """Run one operation on arrays; `outs` are arrays that its results may go into, or None."""
    op = step.op
    if op is CAST:
        if outs[0] is None:
            return (operands[0].astype(step.loop[1]),)
        np.copyto(outs[0], operands[0], casting="unsafe")
        return outs
    if op is WHERE:
        return (np.where(*operands),)
    if isinstance(op, TileFunction):
        return (_apply(op, operands).astype(step.loop[-1], copy=False),)
    if len(outs) > 1:
        return tuple(op(*operands, out=tuple(outs)))
    return (op(*operands) if outs[0] is None else op(*operands, out=outs[0]),)


def _apply(op: TileFunction, operands: Sequence[Any]) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    found = np.asarray(op.func(*operands, **dict(op.keywords)))
    if found.shape != shape:
        raise ValueError(
            f"{op.name} gave an array of shape {found.shape} for tiles of shape {shape}. A "
            f"function in a fused expression has to keep the shape; use map_blocks for others."
        )
    return found


def run_whole(plan: BlockPlan, blocks: Sequence[Any], reports: FloatReports) -> list[np.ndarray]:
    """Run all steps on whole blocks, each in the shape that its operands have."""
    values: list[Any] = [None] * len(plan.lowered.dtypes)
    values[: len(blocks)] = [x if x.flags.c_contiguous else contiguous(x) for x in blocks]
    _run_before(plan, values, reports)
    found = []
    for at, output in enumerate(plan.lowered.outputs):
        reports.now = output.reported_name
        found.append(_whole_result(plan, at, values))
    return found


def _run_before(plan: BlockPlan, values: list[Any], reports: FloatReports) -> None:
    for simple, op, operands, result, name, step, drop in plan.before:
        reports.now = name
        if simple:
            if len(operands) == 2:
                values[result] = op(values[operands[0]], values[operands[1]])
            else:
                values[result] = op(*[values[n] for n in operands])
        else:
            outs = [None] * len(step.results)
            found = perform(step, [values[n] for n in operands], outs)
            for number, value in zip(step.results, found, strict=True):
                values[number] = _array(value, plan.lowered.dtypes[number])
        for number in drop:
            values[number] = None


def _array(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a result as an array: a ufunc of 0-d arrays returns a scalar, or an object."""
    if isinstance(value, np.ndarray):
        return value
    if not dtype.hasobject:
        return np.asarray(value, dtype if dtype.kind in "SU" else None)  # an element may be shorter
    made = np.empty(1, dtype)
    made[0] = value
    return made.reshape(())


def _whole_result(plan: BlockPlan, at: int, values: list[Any]) -> np.ndarray:
    output = plan.lowered.outputs[at]
    value = values[output.value]
    if value.shape != plan.shape:
        value = contiguous(np.broadcast_to(value, plan.shape))
    if output.reduction is None:
        return value.copy() if plan.aliased[at] or not value.flags.writeable else value
    if output.reduction.kind != "moments":
        return contiguous(reduce_whole(output.reduction, value))
    mask = None if output.mask is None else values[output.mask]
    if mask is not None and mask.shape != plan.shape:
        mask = contiguous(np.broadcast_to(mask, plan.shape))
    return contiguous(moments.of_whole(output.reduction, value, mask))


def compute_small(plan: BlockPlan, blocks: Sequence[Any], reports: FloatReports) -> list[Any]:
    """Return the values: the blocks, and the results of the steps before the tiles."""
    values: list[Any] = [None] * len(plan.lowered.dtypes)
    values[: len(blocks)] = blocks
    _run_before(plan, values, reports)
    return values


class _Source(NamedTuple):
    """The array of which tiles of a value are taken, when no step of the pass gives it."""

    value: int
    flat: Any  # of a contiguous array
    view: Any  # of another one, whose tiles are copied into the buffer
    buffer: Any


def _sources(
    plan: BlockPlan, some: BlockPass, values: Sequence[Any], tiles: list[Any]
) -> list[_Source]:
    found = []
    for number in some.sources:
        value = values[number]
        layout = source_layout(plan, some, number, value)
        if layout == CONSTANT:
            tiles[number] = value.reshape(())
        elif layout == FLAT:
            found.append(_Source(number, value.reshape(-1), None, None))
        else:
            buffer = np.empty(min(TILE, plan.size), value.dtype)
            found.append(_Source(number, None, np.broadcast_to(value, plan.shape), buffer))
    return found


def run_pass(
    plan: BlockPlan,
    some: BlockPass,
    values: Sequence[Any],
    reports: FloatReports,
    outs: Mapping[int, Any],
) -> list[np.ndarray]:
    """Run the steps of a pass tile by tile; return the results of its outputs.

    outs
        For outputs, by number, arrays that they may be written into.
    """
    tiles: list[Any] = [None] * len(plan.lowered.dtypes)
    sources = _sources(plan, some, values, tiles)
    buffers = [np.empty(min(TILE, plan.size), dtype) for dtype in some.slots]
    outputs = [output_buffer(plan, n, some.form, outs.get(n)) for n in some.outputs]
    direct = {
        number: outputs[at].flat for number, at in some.direct if outputs[at].flat is not None
    }
    for low, high in some.grid(plan.size):
        n = high - low
        for source in sources:
            if source.view is None:
                tiles[source.value] = source.flat[low:high]
            else:
                for piece, first, last in pieces(source.view, low, high):
                    source.buffer[first:last].reshape(piece.shape)[...] = piece
                tiles[source.value] = source.buffer[:n]
        for step, slots in some.steps:
            reports.now = name_of(step.op)
            into = [
                direct[number][low:high]
                if number in direct
                else None
                if slot < 0
                else buffers[slot][:n]
                for number, slot in zip(step.results, slots, strict=True)
            ]
            found = perform(step, [tiles[number] for number in step.operands], into)
            for number, value in zip(step.results, found, strict=True):
                tiles[number] = value
        _take(plan, outputs, tiles, low, direct, reports)
    return [output.finish() for output in outputs]


def _take(
    plan: BlockPlan,
    outputs: list[OutputBuffer],
    tiles: list[Any],
    low: int,
    direct: Any,
    reports: FloatReports,
) -> None:
    for output in outputs:
        value, _, mask = plan.lowered.outputs[output.at]
        reports.now = plan.lowered.outputs[output.at].reported_name
        if value not in direct or output.flat is not direct[value]:
            output.take(low, tiles[value], None if mask is None else tiles[mask])


RunPass = Callable[
    [BlockPlan, BlockPass, Sequence[Any], FloatReports, Mapping[int, Any]], list[np.ndarray]
]


def run_passes(
    plan: BlockPlan,
    blocks: Sequence[Any],
    reports: FloatReports,
    outs: Mapping[int, Any],
    one_pass: RunPass = run_pass,
) -> list[np.ndarray]:
    """Run a program over blocks; `one_pass` runs each of its passes, by tiles unless given."""
    if plan.is_whole:
        return run_whole(plan, blocks, reports)
    values = compute_small(plan, blocks, reports)
    results: list[Any] = [None] * len(plan.lowered.outputs)
    for some in plan.passes:
        if some.panels is None:
            found = one_pass(plan, some, values, reports, outs)
        else:
            found = _run_panels(plan, some, some.panels, blocks, reports)
        for at, result in zip(some.outputs, found, strict=True):
            results[at] = result
    return results


def _run_panels(
    plan: BlockPlan, some: BlockPass, panels: Panels, blocks: Sequence[Any], reports: FloatReports
) -> list[np.ndarray]:
    """Run a pass over slices of an axis that is kept, one after the other."""
    outputs = tuple(plan.lowered.outputs[at] for at in some.outputs)
    lowered = plan.lowered._replace(outputs=outputs)
    found = []
    for low in range(0, plan.shape[panels.axis], panels.length):
        cut = [_slice(x, panels.axis - len(plan.shape), low, low + panels.length) for x in blocks]
        found.append(run_passes(make_plan(lowered, [x.shape for x in cut]), cut, reports, {}))
    return [
        np.concatenate(parts, axis=parts[0].ndim - len(plan.shape) + panels.axis)
        for parts in zip(*found, strict=True)
    ]


def _slice(block: Any, axis: int, low: int, high: int) -> Any:
    if block.ndim < -axis or block.shape[axis] == 1:
        return block
    return block[(..., slice(low, high), *[slice(None)] * (-axis - 1))]
