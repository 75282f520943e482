"""In words: by what a program would run over blocks, and why not by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.compiler import QUEUED, READY, REFUSED
from lazyflow.array.kernels.native.kernels import Decision, PlanKernels
from lazyflow.array.kernels.planning import BlockPlan
from lazyflow.array.kernels.reports import FloatReports
from lazyflow.array.kernels.whole import run_before
from lazyflow.store.sizes import format_bytes


def describe(kernels: PlanKernels, blocks: Sequence[Any], mode: str) -> str:
    """Return a line for each pass over the inputs."""
    plan = kernels.plan
    with np.errstate(all="ignore"), FloatReports() as reports:
        values = run_before(plan, blocks, reports)
    lines = []
    for some in plan.passes:
        work = _work(plan, len(some.steps), some.outputs)
        how = _how(kernels.decide(some, values, mode, {}), mode)
        lines.append(f"{work}, {_read(values, some.sources)} read: {how}")
    return "\n".join(lines)


def _read(values: Sequence[Any], sources: Sequence[int]) -> str:
    return format_bytes(sum(values[n].nbytes for n in sources if values[n].size > 1))


def _work(plan: BlockPlan, steps: int, positions: Sequence[int]) -> str:
    outputs = [plan.lowered.outputs[at] for at in positions]
    kinds = [output.reduction.kind for output in outputs if output.reduction is not None]
    words = f"{steps} operation{'s' * (steps != 1)}"
    for kind in dict.fromkeys(kinds):
        words += f" and {kind}" if kind == kinds[-1] else f", {kind}"
    return f"{words} over {plan.size:,} elements"


def _how(decision: Decision, mode: str) -> str:
    kernel = decision.kernel
    if kernel is None:
        return f"by NumPy's functions: {decision.why_whole}"
    if kernel.state == READY:
        made = "read from disk" if kernel.from_disk else "compiled"
        return f"by a kernel, {made} in {kernel.milliseconds:.0f} ms"
    if kernel.state == REFUSED:
        return f"by NumPy's functions: {kernel.why}"
    if mode == "native":
        return "by a kernel, which the first run compiles"
    if kernel.state == QUEUED:
        return "by NumPy's functions: no kernel yet: it is being compiled"
    return "by NumPy's functions: no kernel yet: it has not been run over enough elements"
