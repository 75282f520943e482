"""Whether a new kernel gives the bits of tiles, on values made up for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.lowering import Lowered, Sink
from lazyflow.array.kernels.native import kernels
from lazyflow.array.kernels.native.staging import ANY, CONSTANT, FLAT, SAME, Spec
from lazyflow.array.kernels.planning import make_plan
from lazyflow.array.kernels.program import Reduction
from lazyflow.array.kernels.reports import Collected
from lazyflow.array.kernels.tiles import run_pass

_SHAPE = (37, 531)  # blocks of lanes that are full and not, vectors that are


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
    chosen = rng.choice(special, shape)
    return np.where(rng.random(shape) < 0.2, chosen, usual).astype(dtype)


def _laid(rng: np.random.Generator, dtype: np.dtype[Any], way: str) -> Any:
    rows, row = _SHAPE
    if way == CONSTANT:
        return np.asarray(rng.choice([2.0, 0.5, 3.0])).astype(dtype)
    if way == FLAT:
        return _values(rng, dtype, _SHAPE)
    if way == SAME:
        return np.broadcast_to(_values(rng, dtype, (rows, 1)), _SHAPE)
    if way == ANY:
        return _values(rng, dtype, (rows, 2 * row))[:, ::2]
    return _values(rng, dtype, (rows, row + 3))[:, :row]


def difference(spec: Spec, loops: Sequence[int], scratch: int, function: Any) -> str | None:
    """Return what a kernel gives that tiles don't, or None."""
    rng = np.random.default_rng(len(spec.dtypes))
    with np.errstate(all="ignore"):
        blocks = [_laid(rng, dtype, way) for dtype, way in spec.sources]
    sinks = tuple(
        Sink(value, Reduction(kind, (0,), spec.dtypes[value], mask) if kind else None, mask)
        for value, kind, mask in spec.sinks
    )
    last = (len(spec.calls),) * len(spec.dtypes)
    lowered = Lowered(len(spec.sources), spec.calls, sinks, spec.dtypes, last)
    plan = make_plan(lowered, [x.shape for x in blocks], small=0)
    values = [*blocks, *[None] * len(spec.calls)]
    with np.errstate(all="ignore"), Collected() as reports:
        for some in plan.passes:
            laid = kernels.lay(plan, some, values)
            if laid.ways != tuple(way for _, way in spec.sources):
                return "it could not be checked"
            expected = run_pass(plan, some, values, reports)
            got, _ = kernels.call_kernel(function, plan, some, laid, loops, scratch)
            for at, (a, sink) in enumerate(zip(expected, got, strict=True)):
                wrong = _differing(a, sink.finish())
                if wrong:
                    return (
                        f"output {at} has other bits than NumPy's in {wrong} of {a.size} elements"
                    )
    return None


def _differing(a: Any, b: Any) -> int:
    same = a == b
    if a.dtype.kind == "f":
        same = (same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return int(a.size - np.count_nonzero(same))
