"""Which steps of a kernel are done in registers together, and which values go through memory.

A kernel goes over runs of elements, and over each run in stages: some steps in one loop, in
registers; then NumPy's own loops on the values that this loop left in scratch memory; then the
next stage. A step is done as late as its users allow, so that few values go through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.native.elementary.formulas import OWN
from lazyflow.array.kernels.native.operations import is_inline
from lazyflow.array.kernels.order import CHOSEN, LAST, Kind, reduces
from lazyflow.array.kernels.planning import (
    CONSTANT,
    DRAWN,
    FLAT,
    UNIT,
    BlockPass,
    carries_of,
    scans_of,
)
from lazyflow.array.kernels.program import Lowered, LoweredStep, ScanOperation

_WHOLE_ROWS = (CONSTANT, FLAT, DRAWN)  # layouts that NumPy's loops read as they would tiles


class KernelSpec(NamedTuple):
    """A pass without shapes: everything that the code of a kernel depends on.

    sources
        Values 0, 1, ...: their dtypes and layouts (see planning.py).
    steps
        Their results are numbered after the sources.
    outputs
        A value, the kind of its reduction, or None, and the number of its mask, or None.
    in_columns
        Reductions are of columns (see order.py), not of rows.
    in_place
        What the outputs reduce is read, or computed in registers, where the sources lie.
    """

    sources: tuple[tuple[np.dtype[Any], str], ...]
    steps: tuple[LoweredStep, ...]
    outputs: tuple[tuple[int, Kind | None, int | None], ...]
    dtypes: tuple[np.dtype[Any], ...]
    in_columns: bool
    in_place: bool

    @property
    def reduced(self) -> list[tuple[int, Kind, bool]]:
        """The outputs that are reduced: their places, kinds, and whether they have masks."""
        outputs = enumerate(self.outputs)
        return [
            (at, kind, mask is not None) for at, (_, kind, mask) in outputs
            if kind is not None and reduces(kind)
        ]

    @property
    def chosen(self) -> list[tuple[int, int, int]]:
        """Of outputs of chosen elements the places, and the numbers of values and of masks."""
        return [
            (at, value, mask) for at, (value, kind, mask) in enumerate(self.outputs)
            if kind is CHOSEN and mask is not None
        ]

    @property
    def straight(self) -> dict[int, int | None]:
        """The scans that write an output while they go on: values and places of outputs.

        None: nothing reads more of them than the ends.
        """
        read = {n for step in self.steps for n in step.operands}
        read |= {mask for _, _, mask in self.outputs if mask is not None}
        found: dict[int, int | None] = {}
        for step in scans_of(self.steps):
            (n,) = step.results
            ends = [at for at, (value, kind, _) in enumerate(self.outputs)
                    if value == n and kind is not LAST]
            chosen = any(self.outputs[at][1] is CHOSEN for at in ends)
            if n not in read and len(ends) < 2 and not chosen:
                found[n] = ends[0] if ends else None
        return found

    @property
    def merged(self) -> list[tuple[int, Kind, bool]]:
        """Those whose blocks the kernel merges in a tree: all of columns, of rows moments."""
        return [each for each in self.reduced if self.in_columns or each[1].rows_in_tree]


def make_spec(
    lowered: Lowered, some: BlockPass, layouts: Sequence[str], in_place: bool = False
) -> KernelSpec:
    """Return the specification of the kernel for a pass whose sources have these layouts."""
    new = {old: at for at, old in enumerate(some.sources)}
    dtypes = [lowered.dtypes[old] for old in some.sources]
    steps = []
    for step in some.steps:
        for old in step.results:
            new[old] = len(dtypes)
            dtypes.append(lowered.dtypes[old])
        operands, results = (tuple(new[n] for n in x) for x in (step.operands, step.results))
        steps.append(step._replace(operands=operands, results=results))
    outputs = []
    for at in some.outputs:
        value, reduction, mask = lowered.outputs[at]
        kind = None if reduction is None else reduction.kind
        outputs.append((new[value], kind, None if mask is None else new[mask]))
    sources = tuple(zip(dtypes[: len(some.sources)], layouts, strict=True))
    in_columns = some.form is not None and some.form.inner > 1
    return KernelSpec(
        sources, tuple(steps), tuple(outputs), tuple(dtypes), in_columns, in_place
    )


def reads_in_place(lowered: Lowered, some: BlockPass, layouts: Sequence[str], row: int) -> bool:
    """Return whether what a pass reduces needs no scratch memory: its rows are those of sources.

    What several outputs, or moments, read again is computed once; so are own functions, which are
    faster in wide vectors.
    """
    form = some.form
    if form is None or not {FLAT, UNIT, CONSTANT}.issuperset(layouts):
        return False
    if UNIT in layouts and row != (form.inner if form.inner > 1 else form.length):
        return False
    outputs = [lowered.outputs[at] for at in some.outputs]
    kinds = [each.reduction.kind for each in outputs if each.reduction is not None]
    if len(kinds) < len(outputs) or any(each.mask is not None for each in outputs):
        return False
    if not some.steps:
        return CONSTANT not in layouts
    if len(kinds) > 1 or kinds[0].parts:
        return False
    return all(is_inline(step.op, step.loop) and step.op not in OWN for step in some.steps)


class Stage(NamedTuple):
    """One loop over a run.

    inline
        Steps that are done in registers.
    kept
        Values that the loop leaves in scratch memory.
    loops
        Steps that NumPy's own loops do after it, and scans.
    """

    inline: tuple[LoweredStep, ...]
    kept: tuple[int, ...]
    loops: tuple[LoweredStep, ...]


class Staging(NamedTuple):
    """All stages, the outputs being written in the last one; `scratch` values go through memory."""

    stages: tuple[Stage, ...]
    scratch: tuple[int, ...]


def stages_of(spec: KernelSpec) -> Staging:
    """Return the stages of a kernel."""
    inline = [is_inline(step.op, step.loop) for step in spec.steps]
    ready = _earliest(spec, inline)
    final = max(ready, default=0)
    used = [final] * len(spec.dtypes)  # the first stage that reads a value
    stage_of = [0] * len(spec.steps)
    for at in range(len(spec.steps) - 1, -1, -1):
        step = spec.steps[at]
        late = min(used[n] for n in step.results)
        stage_of[at] = late if inline[at] else ready[step.results[0]] - 1
        for n in step.operands:
            used[n] = min(used[n], stage_of[at])
    kept = _kept(spec, inline, stage_of, final)
    return Staging(
        tuple(_stage(spec, number, inline, stage_of, kept, used) for number in range(final + 1)),
        tuple(sorted(kept)),
    )


def _earliest(spec: KernelSpec, inline: Sequence[bool]) -> list[int]:
    """Return the first stage in which each value is there: the one after a loop that gives it."""
    ready = [0] * len(spec.dtypes)
    for step, here in zip(spec.steps, inline, strict=True):
        number = max((ready[n] for n in step.operands), default=0) + (not here)
        for n in step.results:
            ready[n] = number
    return ready


def _kept(
    spec: KernelSpec, inline: Sequence[bool], stage_of: Sequence[int], final: int
) -> set[int]:
    """Return the values that a later stage or a loop needs in memory."""
    kept: set[int] = set()
    carries, straight = carries_of(spec.steps), spec.straight
    home = dict(zip((step.results[0] for step in spec.steps), stage_of, strict=True))
    for step, here, number in zip(spec.steps, inline, stage_of, strict=True):
        if not here:
            kept.update(n for n in step.results if n not in straight)
            kept.update(n for n in step.operands if n not in carries and _must_keep(spec, n, step))
        else:
            kept.update(n for n in step.operands if home.get(n, number) < number)
    ends = [n for value, _, mask in spec.outputs for n in (value, mask) if n is not None]
    kept.update(n for n in ends if home.get(n, final) < final and n not in straight)
    return kept


def _must_keep(spec: KernelSpec, value: int, step: LoweredStep) -> bool:
    """Return whether a loop can't read a value where it lies: strides change what loops give."""
    readable = _WHOLE_ROWS
    if isinstance(step.op, ScanOperation):
        readable = (FLAT, DRAWN, UNIT)
    return value >= len(spec.sources) or spec.sources[value][1][0] not in readable


def _stage(
    spec: KernelSpec,
    number: int,
    inline: Sequence[bool],
    stage_of: Sequence[int],
    kept: set[int],
    used: Sequence[int],
) -> Stage:
    here = [at for at, own in enumerate(stage_of) if own == number]
    steps = tuple(spec.steps[at] for at in here if inline[at])
    left = [n for n in range(len(spec.sources)) if n in kept and used[n] == number]
    left += [n for step in steps for n in step.results if n in kept]
    return Stage(steps, tuple(left), tuple(spec.steps[at] for at in here if not inline[at]))
