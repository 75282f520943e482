"""In words: by what a program would run over blocks, and why not by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.native import kernels
from lazyflow.array.kernels.native.compiler import QUEUED, READY, REFUSED
from lazyflow.array.kernels.planning import WHOLE, Pass, Plan
from lazyflow.array.kernels.reports import Collected
from lazyflow.array.kernels.tiles import compute_small
from lazyflow.store.sizes import format_bytes


def _read(plan: Plan, values: Sequence[Any], sources: Sequence[int]) -> int:
    return sum(values[n].nbytes for n in sources if values[n].size > 1)


def _work(plan: Plan, calls: int, outputs: Sequence[int]) -> str:
    sinks = [plan.lowered.sinks[at] for at in outputs]
    kinds = [sink.reduction.kind for sink in sinks if sink.reduction is not None]
    words = f"{calls} operation{'s' * (calls != 1)}"
    for kind in dict.fromkeys(kinds):
        words += f" and {kind}" if kind == kinds[-1] else f", {kind}"
    return f"{words} over {plan.size:,} elements"


def describe(plan: Plan, blocks: Sequence[Any], mode: str) -> str:
    """Return a line for each way over the inputs."""
    if plan.whole:
        count = _read(plan, blocks, range(len(blocks)))
        work = _work(plan, len(plan.lowered.calls), range(len(plan.lowered.sinks)))
        return (
            f"{work}, {format_bytes(count)} read: whole, by ufuncs: kernels gain from "
            f"{WHOLE:,} elements on"
        )
    with np.errstate(all="ignore"), Collected() as reports:
        values = compute_small(plan, blocks, reports)
    lines = []
    for some in plan.passes:
        work = _work(plan, len(some.calls), some.outputs)
        how = _by(plan, some, values, mode)
        lines.append(f"{work}, {format_bytes(_read(plan, values, some.sources))} read: {how}")
    return "\n".join(lines)


def _by(plan: Plan, some: Pass, values: Sequence[Any], mode: str) -> str:
    if mode == "tiles":
        return 'by tiles: kernels="tiles" is set'
    if some.panels is not None:
        return "by tiles: moments along so long rows are computed in panels"
    why = kernels.refusal(plan, some)
    if not why:
        laid = kernels.lay(plan, some, values)
        prepared = kernels.prepare(plan, some, laid.ways)
        kernel = prepared.kernel
        why = prepared.gain or kernels.short_runs(some, laid)
        if kernel is not None and kernel.state == REFUSED:
            why = kernel.why
        if kernel is not None and (not why or kernel.state == READY):
            if kernel.state == READY:
                how = "read from disk" if kernel.from_disk else "compiled"
                return f"by a kernel, {how} in {kernel.milliseconds:.0f} ms"
            why = "no kernel yet: it has not been run over enough elements"
            if kernel.state == QUEUED:
                why = "no kernel yet: it is being compiled"
    return f"by tiles: {why}"
