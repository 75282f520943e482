"""Programs run by generated kernels: each input is read once, and nothing between is written.

A kernel takes a whole block without the GIL. It gives the bits that tiles give: operations are
IEEE's or NumPy's own loops, reductions keep the order of order.py, and before a kernel is used its
results are compared with those of tiles on made-up values. When it raises a floating-point flag
that the caller wants to hear of, the block is run again by tiles, which report as NumPy does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.compiler import Kernel
from lazyflow.array.kernels.native.llvm_ir import RUN
from lazyflow.array.kernels.native.llvm_moments import write_kernel
from lazyflow.array.kernels.native.loops import loop_of
from lazyflow.array.kernels.native.operations import SUPPORTED, is_inline
from lazyflow.array.kernels.native.staging import (
    ANY,
    CONSTANT,
    FLAT,
    SAME,
    UNIT,
    Spec,
    make_spec,
    stages_of,
)
from lazyflow.array.kernels.outputs import Sinking, sink_for
from lazyflow.array.kernels.planning import Pass, Plan
from lazyflow.array.kernels.program import CAST, Elementwise

_HUGE = 1 << 62
_SHORT = 8  # elements of a run, from which a kernel is faster than tiles

_FLAGS = ((1, "invalid"), (4, "divide"), (8, "over"), (16, "under"))  # of x86


def refusal(plan: Plan, some: Pass) -> str:
    """Return why a pass can't have a kernel, wherever its sources lie, or nothing."""
    found = plan.kernels.get(some.outputs)
    if found is None:
        ways = (ANY,) * len(some.sources)
        found = plan.kernels[some.outputs] = why_not(make_spec(plan.lowered, some, ways))
    return str(found)


class Laid(NamedTuple):
    """How the sources of a pass lie in memory: `ways` as in Spec, and what goes with them.

    row
        Elements of a row, for those that lie in rows.
    steps
        Bytes between rows and within them, for each of those.
    """

    ways: tuple[str, ...]
    arrays: tuple[Any, ...]
    row: int
    steps: tuple[int, ...]


def lay(plan: Plan, some: Pass, values: Sequence[Any]) -> Laid:
    """Find out how the sources lie; those that don't lie in rows are copied."""
    ways, arrays, views = [], [], {}
    for at, number in enumerate(some.sources):
        value = values[number]
        if not value.flags.aligned:
            value = value.copy()
        if value.size == 1 and number not in some.spread:
            ways.append(CONSTANT)
        elif value.shape == plan.shape and value.flags.c_contiguous:
            ways.append(FLAT)
        else:
            views[at] = value = np.broadcast_to(value, plan.shape)
            ways.append(ANY)
        arrays.append(value)
    row, found = _rows(plan.shape, [view.strides for view in views.values()])
    while found is None:
        at = next(iter(views))
        arrays[at], ways[at] = np.array(views.pop(at), order="C"), FLAT
        row, found = _rows(plan.shape, [view.strides for view in views.values()])
    steps = []
    for at, (across, along) in zip(views, found, strict=True):
        size = arrays[at].itemsize
        ways[at] = UNIT if along == size else SAME if along == 0 else ANY
        steps += [across, along]
    return Laid(tuple(ways), tuple(arrays), row, tuple(steps))


def _rows(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[int, list[tuple[int, int]] | None]:
    """Return the length of rows that all arrays have in common, and their steps."""
    if not strides:
        return _HUGE, []
    runs: list[tuple[int, list[int]]] = []
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        here = [own[axis] for own in strides]
        if runs and all(a == b * length for a, b in zip(runs[-1][1], here, strict=True)):
            runs[-1] = (runs[-1][0] * length, here)
        else:
            runs.append((length, here))
    if len(runs) > 2:
        return 0, None
    if not runs:
        return _HUGE, [(0, 0)] * len(strides)
    across = runs[0][1] if len(runs) == 2 else [0] * len(strides)
    return runs[-1][0], list(zip(across, runs[-1][1], strict=True))


def why_not(spec: Spec) -> str:
    """Return why no kernel can be generated, or nothing."""
    for dtype, _ in spec.sources:
        if dtype not in SUPPORTED:
            return f"there are no kernels for values of dtype {dtype}"
    for call in spec.calls:
        if is_inline(call.op, call.loop):
            continue
        if isinstance(call.op, Elementwise):
            return f"{call.op.name} is a function of whole tiles"
        if call.op is CAST:
            return f"astype from {call.loop[0]} to {call.loop[1]} is done by NumPy"
        if not isinstance(call.op, np.ufunc) or loop_of(call.op, call.loop) is None:
            named = ", ".join(map(str, call.loop[: len(call.operands)]))
            return f"{call.op.__name__} of {named} can't be called from a kernel"
    for value, kind, _ in spec.sinks:
        if spec.dtypes[value] not in SUPPORTED:
            return f"there are no kernels for values of dtype {spec.dtypes[value]}"
        if kind == "moments" and stages_of(spec).scratch:
            return "moments of what NumPy's loops give are done by tiles: kernels compute it twice"
    return compiler.unavailable()


def no_gain(spec: Spec) -> str:
    """Return why a kernel would be no faster, or nothing."""
    kinds = {kind for _, kind, _ in spec.sinks}
    if "moments" in kinds:
        return ""
    if not spec.calls:
        return "there is nothing to compute but reductions of the inputs, as fast by tiles"
    if len(spec.calls) == 1 and kinds == {None}:
        return "one operation without a reduction is as fast by tiles"
    return ""


class Prepared(NamedTuple):
    """A kernel for a pass, or why there is none."""

    spec: Spec
    why: str
    gain: str
    kernel: Kernel | None
    loops: tuple[int, ...]
    scratch: int


_prepared: dict[Spec, Prepared] = {}
_MOST = 1024


def prepare(plan: Plan, some: Pass, ways: tuple[str, ...]) -> Prepared:
    """Return the kernel for a pass over sources that lie so; programs alike share it."""
    known = (some.outputs, ways)
    found = plan.kernels.get(known)
    if found is None:
        spec = make_spec(plan.lowered, some, ways)
        found = _prepared.get(spec)
        if found is None:
            if len(_prepared) >= _MOST:
                _prepared.clear()
            found = _prepare(spec)
            if found.kernel is not None:
                found = _prepared.setdefault(spec, found)
        plan.kernels[known] = found
    return found


def _prepare(spec: Spec) -> Prepared:
    why = why_not(spec)
    if why:
        return Prepared(spec, why, "", None, (), 0)
    stages = stages_of(spec)
    loops = []
    for group in stages.groups:
        for call in group.loops:
            loop = loop_of(call.op, call.loop)
            assert loop is not None
            loops += [loop.function, loop.data]
    text = write_kernel(spec, stages, "NAME")

    def check(function: Any) -> str | None:
        from lazyflow.array.kernels.native.checking import difference

        return difference(spec, tuple(loops), len(stages.scratch), function)

    kernel = Kernel(text, check)
    return Prepared(spec, "", no_gain(spec), kernel, tuple(loops), len(stages.scratch))


def short_runs(some: Pass, laid: Laid) -> str:
    """Return why runs would be too short for a kernel, or nothing."""
    lanes = _HUGE if some.form is None else some.form.lanes
    least = min(lanes, laid.row)
    if least < _SHORT:
        return f"runs of {least} elements are too short for a kernel"
    return ""


def call_kernel(
    function: Any, plan: Plan, some: Pass, laid: Laid, loops: Sequence[int], scratch: int
) -> tuple[list[Sinking], int]:
    """Run a kernel over a block; return where its results are, and the raised flags."""
    sinks = [sink_for(plan, at, some.form) for at in some.outputs]
    places = [sink.array.ctypes.data for sink in sinks]
    memory = np.empty(scratch * RUN * 8, np.uint8)
    pointers = (
        *compiler.flag_functions(),
        *loops,
        *(array.ctypes.data for array in laid.arrays),
        *places,
        memory.ctypes.data,
    )
    form = some.form
    elements, lanes, slots = _HUGE, _HUGE, 0
    if form is not None:
        elements, lanes, slots = form.elements, form.lanes, form.outer * form.blocks * form.lanes
    most = RUN if scratch else _HUGE
    numbers = (0, plan.size, elements, lanes, laid.row, most, slots, *laid.steps)
    flags = function(
        (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * len(numbers))(*numbers)
    )
    return sinks, flags


def heard(flags: int, modes: Any) -> bool:
    """Tell whether the caller wants to hear of any of the flags."""
    return any(flags & bit and modes[kind] != "ignore" for bit, kind in _FLAGS)
