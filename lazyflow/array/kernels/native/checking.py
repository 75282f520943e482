"""The check that a new kernel gives the bits of NumPy's functions, on values made up for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.kernels.draws.block import DrawnBlock, made
from lazyflow.array.kernels.draws.draw import made_up_draw
from lazyflow.array.kernels.lowering import Lowered, Output
from lazyflow.array.kernels.native.calling import PassCall, finish_output
from lazyflow.array.kernels.native.layouts import source_layouts
from lazyflow.array.kernels.native.staging import KernelSpec
from lazyflow.array.kernels.planning import (
    ANY,
    CONSTANT,
    DRAWN,
    FLAT,
    LINES,
    SAME,
    carries_of,
    lines_of,
    make_plan,
    scans_of,
)
from lazyflow.array.kernels.program import Reduction
from lazyflow.array.kernels.reports import FloatReports
from lazyflow.array.kernels.whole import run_whole

_SHAPE = (37, 531)  # full and short blocks of lanes, full and short vectors


def _values(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        small = rng.integers(max(limits.min, -9), 9, shape).astype(dtype)
        large = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, small, large)
    usual = rng.standard_normal(shape) * 10.0 ** rng.integers(-5, 5, shape)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -2.0, 0.5, 1e-310, 1e300])
    # In a corner only: most sums of rows and columns have to be numbers, that they tell something.
    corner = shape[0] // 2, shape[1] // 2
    there = rng.random(corner) < 0.4
    usual[: corner[0], : corner[1]][there] = rng.choice(special, np.count_nonzero(there))
    return usual.astype(dtype)


def _with_layout(
    rng: np.random.Generator, dtype: np.dtype[Any], layout: str, axis: int | None
) -> Any:
    rows, row = _SHAPE
    if layout[0] == DRAWN:
        draw = made_up_draw(layout[1:], dtype, (rows, row + 3))
        return DrawnBlock(draw, (slice(0, rows), slice(1, row + 1)))
    if layout == CONSTANT:
        return np.asarray(rng.choice([2.0, 0.5, 3.0])).astype(dtype)
    if layout == FLAT:
        return _values(rng, dtype, _SHAPE)
    if layout == LINES:
        return _values(rng, dtype, lines_of(_SHAPE, axis or 0))
    if layout == SAME:
        return np.broadcast_to(_values(rng, dtype, (rows, 1)), _SHAPE)
    if layout == ANY:
        return _values(rng, dtype, (rows, 2 * row))[:, ::2]
    return _values(rng, dtype, (rows, row + 3))[:, :row]


def difference(spec: KernelSpec, loops: Sequence[int], scratch: int, function: Any) -> str | None:
    """Return how the results of a kernel differ from those of NumPy's functions, or None."""
    rng = np.random.default_rng(len(spec.dtypes))
    steps = tuple([  # of any axis: the kernel gets its lengths
        step._replace(op=step.op._replace(axis=max(step.op.axis, -2)))
        if step in scans_of(spec.steps) else step
        for step in spec.steps
    ])
    carries = carries_of(steps)
    with np.errstate(all="ignore"):
        blocks = [
            _with_layout(rng, dtype, layout, carries.get(at))
            for at, (dtype, layout) in enumerate(spec.sources)
        ]
    axes = (0,) if spec.in_columns else (1,)
    lasts = {step.results[0]: (step.op.axis % 2,) for step in scans_of(steps)}
    outputs = tuple(
        Output(value, Reduction(kind, own, spec.dtypes[value], mask) if kind else None, mask)
        for value, kind, mask in spec.outputs
        for own in [lasts[value] if kind == "last" else axes]
    )
    lowered = Lowered(len(spec.sources), steps, outputs, spec.dtypes)
    plan = make_plan(lowered, [x.shape for x in blocks])._replace(why_whole="")
    values = [*blocks, *[None] * (len(spec.dtypes) - len(blocks))]
    with np.errstate(all="ignore"), FloatReports() as reports:
        with config.set(kernels="numpy"):  # not by a kernel that would have to be compiled now
            plain = list(map(made, blocks))
        expected = run_whole(plan, plain, reports, {})
        for some in plan.passes:
            sources = source_layouts(plan, some, values, {})
            if sources.layouts != tuple(layout for _, layout in spec.sources):
                return "it could not be checked"
            call = PassCall(function, plan, some, sources, loops, scratch)
            written, _ = call(sources.arrays, sources.outs)
            for at, own in zip(some.outputs, written, strict=True):
                got = finish_output(plan, at, own)
                wrong = _differing(expected[at], got)
                if wrong:
                    return f"output {at} has other bits than NumPy's in {wrong} elements"
    return None


def _differing(a: Any, b: Any) -> int:
    same = a == b
    if a.dtype.kind == "f":
        same = (same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return int(a.size - np.count_nonzero(same))
