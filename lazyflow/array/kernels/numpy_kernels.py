"""Programs run by NumPy's functions on whole blocks: for every dtype, without compiling.

Inputs that aren't contiguous are copied where NumPy's functions differ by an ulp on other strides.
A value's memory is given to a result, or freed, as soon as no later step reads the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.draw import made
from lazyflow.array.kernels.float_warnings import FloatReports
from lazyflow.array.kernels.order import contiguous
from lazyflow.array.kernels.planning import BlockPlan, WholeStep, fits, make_plan, scans_of
from lazyflow.array.kernels.program import CAST, WHERE, BlockFunction, LoweredStep, ScanOperation

_PARTS = 64  # of a block, of which the first that raise a kernel's flags tell the names


def _perform(step: LoweredStep, operands: Sequence[Any]) -> Sequence[Any]:
    """Run one operation on arrays."""
    op = step.op
    if op is CAST:
        return (operands[0].astype(step.loop[1]),)
    if op is WHERE:
        return (np.where(*operands),)
    if isinstance(op, ScanOperation):
        return (_scanned(op, operands, step.loop[-1]),)
    if isinstance(op, BlockFunction):
        return (_apply(op, operands).astype(step.loop[-1], copy=False),)
    found = op(*operands)
    return found if len(step.results) > 1 else (found,)


def _scanned(op: ScanOperation, operands: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    found = op.ufunc.accumulate(operands[0], axis=op.axis, dtype=dtype)
    return op.ufunc(operands[1], found, out=found) if operands[1:] else found


def _apply(op: BlockFunction, operands: Sequence[Any]) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    found = np.asarray(op.func(*operands, **dict(op.keywords)))
    if found.shape != shape:
        raise ValueError(
            f"{op.name} gave an array of shape {found.shape} for blocks of shape {shape}. A "
            f"function in a fused expression has to keep the shape; use map_blocks for others."
        )
    return found


def run_whole(
    plan: BlockPlan, blocks: Sequence[Any], reports: FloatReports, outs: Mapping[int, Any]
) -> list[np.ndarray]:
    """Run all steps on whole blocks, each in the shape that its operands have.

    outs
        For outputs, by number, arrays that they may be written into.
    """
    written = _written(plan, outs)
    values = _run(plan, plan.whole, _plain(plan, blocks), reports, written)
    found = []
    for at, output in enumerate(plan.lowered.outputs):
        reports.now = output.reported_name
        found.append(_whole_result(plan, at, values, written))
    return found


def _plain(plan: BlockPlan, blocks: Sequence[Any]) -> list[Any]:
    """Return blocks that lie so that NumPy's functions give the same bits everywhere."""
    return [
        x if x.flags.aligned and (plan.exact or x.flags.c_contiguous) else np.array(x, order="C")
        for x in blocks
    ]


def run_before(plan: BlockPlan, blocks: Sequence[Any], reports: FloatReports) -> list[Any]:
    """Return the values: the blocks, and the results of the steps before the passes."""
    return _run(plan, plan.before, blocks, reports, {})


def find_reports(
    plan: BlockPlan, blocks: Sequence[Any], kinds: Set[str], reports: FloatReports
) -> bool:
    """Run the steps on parts of the blocks, one by one, until reports of all these kinds are made.

    A kernel reports the kinds of errors but not the operations that made them. False: they come
    from reductions.
    """
    arrays = list(map(made, blocks))
    axis = int(np.argmax(plan.shape)) - len(plan.shape)
    length, part = plan.shape[axis], plan
    parts = 1 if scans_of(plan.lowered.steps) else _PARTS
    for low in range(0, length, step := max(1, length // parts)):
        where = (..., slice(low, low + step), *[slice(None)] * ~axis)
        some = [x[where] if x.ndim >= -axis and x.shape[axis] > 1 else x for x in arrays]
        shapes = tuple([x.shape for x in some])
        if shapes != part.shapes[: len(shapes)]:
            part = make_plan(plan.lowered, shapes)
        _run(part, part.whole, _plain(part, some), reports, {})
        if kinds <= reports.kinds:
            return True
    return False


def _written(plan: BlockPlan, outs: Mapping[int, Any]) -> dict[int, Any]:
    """Return the arrays that values are to be written into, by number."""
    found: dict[int, Any] = {}
    for at, out in sorted(outs.items(), key=lambda pair: pair[0]):
        value = plan.lowered.outputs[at].value
        if plan.shapes[value] == plan.shape and fits(plan, at, out):
            found.setdefault(value, out)
    return found


def _run(
    plan: BlockPlan,
    steps: Sequence[WholeStep],
    blocks: Sequence[Any],
    reports: FloatReports,
    outs: Mapping[int, Any],
) -> list[Any]:
    values: list[Any] = [*blocks, *[None] * (len(plan.lowered.dtypes) - len(blocks))]
    for simple, op, operands, result, name, step, into, drop in steps:
        reports.now = name
        given = [values[n] for n in operands]
        if simple:
            out = values[into] if into >= 0 else None
            values[result] = op(*given, out=outs.get(result, out) if outs else out)
        elif op is CAST and result in outs:
            values[result] = outs[result]
            np.copyto(values[result], given[0], casting="unsafe")
        else:
            for number, value in zip(step.results, _perform(step, given), strict=True):
                values[number] = _array(value, plan.lowered.dtypes[number])
        for number in drop:
            values[number] = None
    return values


def _array(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a result as an array: a ufunc of 0-d arrays returns a scalar, or an object."""
    if isinstance(value, np.ndarray):
        return value
    if not dtype.hasobject:
        return np.asarray(value, dtype if dtype.kind in "SU" else None)  # an element may be shorter
    made = np.empty(1, dtype)
    made[0] = value
    return made.reshape(())


def _whole_result(
    plan: BlockPlan, at: int, values: list[Any], outs: Mapping[int, Any]
) -> np.ndarray:
    output = plan.lowered.outputs[at]
    value = values[output.value]
    if value.shape != plan.shape:
        value = contiguous(np.broadcast_to(value, plan.shape))
    if output.reduction is None:
        if plan.aliased[at] or not value.flags.writeable:
            return value.copy()
        out = outs.get(output.value)
        return out if out is value else np.asarray(value, order="C")
    mask = None if output.mask is None else np.broadcast_to(values[output.mask], plan.shape)
    one_zero = not plan.why_whole
    found = output.reduction.kind.reduce_whole(output.reduction, value, mask, one_zero)
    return np.asarray(found)
