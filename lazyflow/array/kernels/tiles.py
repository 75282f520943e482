"""Programs run by ufuncs, tile by tile: every dtype, nothing compiled, NumPy's own semantics.

A tile is a range of elements in C order, about 64 K of them: smaller ones make threads fight for
the GIL, larger ones leave the cache. Inputs are read as slices where they are contiguous and are
copied into a contiguous tile where not (on other strides NumPy's functions differ by an ulp);
results go to a few buffers, reused as soon as their value is no longer needed, or straight to
where they are wanted. Values that are the same all along some axis are computed before, once, in
their own shape. Small blocks are computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.lowering import Call
from lazyflow.array.kernels.order import contiguous, reduce_whole
from lazyflow.array.kernels.outputs import Sinking, sink_for
from lazyflow.array.kernels.planning import TILE, Panels, Pass, Plan, make_plan, name_of
from lazyflow.array.kernels.program import CAST, WHERE, Elementwise
from lazyflow.array.kernels.reports import Collected


def perform(call: Call, operands: Sequence[Any], outs: Sequence[Any]) -> Sequence[Any]:
    """Run one operation on arrays; `outs` are where the results may go, or None."""
    op = call.op
    if op is CAST:
        if outs[0] is None:
            return (operands[0].astype(call.loop[1]),)
        np.copyto(outs[0], operands[0], casting="unsafe")
        return outs
    if op is WHERE:
        return (np.where(*operands),)
    if isinstance(op, Elementwise):
        return (_apply(op, operands).astype(call.loop[-1], copy=False),)
    if len(outs) > 1:
        return tuple(op(*operands, out=tuple(outs)))
    return (op(*operands) if outs[0] is None else op(*operands, out=outs[0]),)


def _apply(op: Elementwise, operands: Sequence[Any]) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    found = np.asarray(op.func(*operands, **dict(op.keywords)))
    if found.shape != shape:
        raise ValueError(
            f"{op.name} gave an array of shape {found.shape} for tiles of shape {shape}. A "
            f"function in a fused expression has to keep the shape; use map_blocks for others."
        )
    return found


def run_whole(plan: Plan, blocks: Sequence[Any], reports: Collected) -> list[np.ndarray]:
    """Run all calls on whole blocks, each in the shape that its operands have."""
    values: list[Any] = [None] * len(plan.lowered.dtypes)
    values[: len(blocks)] = [x if x.flags.c_contiguous else contiguous(x) for x in blocks]
    _run_lines(plan, values, reports)
    found = []
    for at, sink in enumerate(plan.lowered.sinks):
        reports.now = sink.reports
        found.append(_whole_result(plan, at, values))
    return found


def _run_lines(plan: Plan, values: list[Any], reports: Collected) -> None:
    for simple, op, operands, result, name, call, drop in plan.before:
        reports.now = name
        if simple:
            if len(operands) == 2:
                values[result] = op(values[operands[0]], values[operands[1]])
            else:
                values[result] = op(*[values[n] for n in operands])
        else:
            outs = [None] * len(call.results)
            found = perform(call, [values[n] for n in operands], outs)
            for number, value in zip(call.results, found, strict=True):
                values[number] = _array(value, plan.lowered.dtypes[number])
        for number in drop:
            values[number] = None


def _array(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array: a ufunc of 0-d arrays gives a scalar, or an object that was in one."""
    if isinstance(value, np.ndarray):
        return value
    if not dtype.hasobject:
        return np.asarray(value, dtype if dtype.kind in "SU" else None)  # an element may be shorter
    made = np.empty(1, dtype)
    made[0] = value
    return made.reshape(())


def _whole_result(plan: Plan, at: int, values: list[Any]) -> np.ndarray:
    sink = plan.lowered.sinks[at]
    value = values[sink.value]
    if value.shape != plan.shape:
        value = contiguous(np.broadcast_to(value, plan.shape))
    if sink.reduction is None:
        return value.copy() if plan.shared[at] or not value.flags.writeable else value
    if sink.reduction.kind != "moments":
        return contiguous(reduce_whole(sink.reduction, value))
    mask = None if sink.mask is None else values[sink.mask]
    if mask is not None and mask.shape != plan.shape:
        mask = contiguous(np.broadcast_to(mask, plan.shape))
    return contiguous(moments.of_whole(sink.reduction, value, mask))


def compute_small(plan: Plan, blocks: Sequence[Any], reports: Collected) -> list[Any]:
    """Return the values so far: the blocks, and what is computed before the tiles."""
    values: list[Any] = [None] * len(plan.lowered.dtypes)
    values[: len(blocks)] = blocks
    _run_lines(plan, values, reports)
    return values


class _Source(NamedTuple):
    """Where a tile of a value comes from that no call in the tiles gives."""

    value: int
    flat: Any  # of contiguous ones
    view: Any  # of others
    buffer: Any


def _sources(plan: Plan, some: Pass, values: Sequence[Any], tiles: list[Any]) -> list[_Source]:
    found = []
    for number in some.sources:
        value = values[number]
        if value.size == 1 and number not in some.spread:
            tiles[number] = value.reshape(())
        elif value.shape == plan.shape and value.flags.c_contiguous:
            found.append(_Source(number, value.reshape(-1), None, None))
        else:
            buffer = np.empty(min(TILE, plan.size), value.dtype)
            found.append(_Source(number, None, np.broadcast_to(value, plan.shape), buffer))
    return found


def run_pass(plan: Plan, some: Pass, values: Sequence[Any], reports: Collected) -> list[np.ndarray]:
    """Run the calls of a pass tile by tile; return the results of its outputs."""
    tiles: list[Any] = [None] * len(plan.lowered.dtypes)
    sources = _sources(plan, some, values, tiles)
    buffers = [np.empty(min(TILE, plan.size), dtype) for dtype in some.slots]
    sinks = [sink_for(plan, n, some.form) for n in some.outputs]
    direct = {number: sinks[at].flat for number, at in some.direct}
    for low, high in some.grid(plan.size):
        n = high - low
        for source in sources:
            if source.view is None:
                tiles[source.value] = source.flat[low:high]
            else:
                gather(source.view, low, high, source.buffer[:n])
                tiles[source.value] = source.buffer[:n]
        for call, slots in some.calls:
            reports.now = name_of(call.op)
            outs = [
                direct[number][low:high]
                if number in direct
                else None
                if slot < 0
                else buffers[slot][:n]
                for number, slot in zip(call.results, slots, strict=True)
            ]
            found = perform(call, [tiles[number] for number in call.operands], outs)
            for number, value in zip(call.results, found, strict=True):
                tiles[number] = value
        _take(plan, sinks, tiles, low, direct, reports)
    return [sink.finish() for sink in sinks]


def _take(
    plan: Plan,
    sinks: list[Sinking],
    tiles: list[Any],
    low: int,
    direct: Any,
    reports: Collected,
) -> None:
    for sink in sinks:
        value, _, mask = plan.lowered.sinks[sink.at]
        reports.now = plan.lowered.sinks[sink.at].reports
        if value not in direct or sink.flat is not direct[value]:
            sink.take(low, tiles[value], None if mask is None else tiles[mask])


def gather(view: Any, low: int, high: int, into: Any) -> None:
    """Copy the elements from `low` to `high`, counted in C order, of any array.

    >>> into = np.empty(5, int)
    >>> gather(np.arange(12).reshape(4, 3).T, 2, 7, into)
    >>> into
    array([6, 9, 1, 4, 7])
    """
    if view.ndim == 1:
        into[...] = view[low:high]
        return
    inner = view[0].size
    first, skipped = divmod(low, inner)
    last, over = divmod(high, inner)
    if first == last:
        gather(view[first], skipped, over, into)
        return
    at = 0
    if skipped:
        at = inner - skipped
        gather(view[first], skipped, inner, into[:at])
        first += 1
    if first < last:
        full = (last - first) * inner
        into[at : at + full].reshape(last - first, *view.shape[1:])[...] = view[first:last]
        at += full
    if over:
        gather(view[last], 0, over, into[at:])


RunPass = Callable[[Plan, Pass, Sequence[Any], Collected], list[np.ndarray]]


def run_passes(
    plan: Plan, blocks: Sequence[Any], reports: Collected, one_pass: RunPass = run_pass
) -> list[np.ndarray]:
    """Run a program over blocks, its passes by tiles or by what is given."""
    if plan.whole:
        return run_whole(plan, blocks, reports)
    values = compute_small(plan, blocks, reports)
    results: list[Any] = [None] * len(plan.lowered.sinks)
    for some in plan.passes:
        if some.panels is None:
            found = one_pass(plan, some, values, reports)
        else:
            found = _run_panels(plan, some, some.panels, blocks, reports)
        for at, result in zip(some.outputs, found, strict=True):
            results[at] = result
    return results


def _run_panels(
    plan: Plan, some: Pass, panels: Panels, blocks: Sequence[Any], reports: Collected
) -> list[np.ndarray]:
    """Run a pass over slices of an axis that is kept, one after the other."""
    lowered = plan.lowered._replace(sinks=tuple(plan.lowered.sinks[at] for at in some.outputs))
    found = []
    for low in range(0, plan.shape[panels.axis], panels.step):
        cut = [_slice(x, panels.axis - len(plan.shape), low, low + panels.step) for x in blocks]
        found.append(run_passes(make_plan(lowered, [x.shape for x in cut]), cut, reports))
    return [
        np.concatenate(parts, axis=parts[0].ndim - len(plan.shape) + panels.axis)
        for parts in zip(*found, strict=True)
    ]


def _slice(block: Any, axis: int, low: int, high: int) -> Any:
    if block.ndim < -axis or block.shape[axis] == 1:
        return block
    return block[(..., slice(low, high), *[slice(None)] * (-axis - 1))]
