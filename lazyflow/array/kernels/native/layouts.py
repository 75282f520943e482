"""How the sources of a pass lie in memory: the layouts and strides that a kernel gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.draws.block import DrawnBlock, made
from lazyflow.array.kernels.planning import (
    ANY,
    DRAWN,
    FLAT,
    LINES,
    SAME,
    UNIT,
    BlockPass,
    BlockPlan,
    carries_of,
    fits,
    lines_of,
    source_layout,
)

HUGE = 1 << 62  # elements: without an end


class SourceLayouts(NamedTuple):
    """The layouts of a pass's sources (see planning.py), and the arrays that have them.

    row
        Elements of a row, for sources that lie in rows.
    outs
        For outputs, by number, the arrays that they are written into; no others lie in rows.
    strides
        Bytes between rows and within them, for each source that lies in rows and for each output
        that is not reduced.
    """

    layouts: tuple[str, ...]
    arrays: tuple[Any, ...]
    row: int
    outs: Mapping[int, Any]
    strides: tuple[int, ...]


def source_layouts(
    plan: BlockPlan, some: BlockPass, values: Sequence[Any], outs: Mapping[int, Any]
) -> SourceLayouts:
    """Return the layouts of a pass's sources; a source that doesn't lie in rows is copied."""
    layouts, arrays = [], []
    views: dict[int, Any] = {}
    carries = carries_of(some.scans)
    for at, number in enumerate(some.sources):
        value = values[number]
        if type(value) is DrawnBlock:
            layout, views[at] = DRAWN + value.draw.formula, value
        elif number in carries:
            layout, lines = LINES, lines_of(plan.shape, carries[number])
            value = np.require(np.broadcast_to(value, lines), requirements=["C", "A"])
        else:
            if not value.flags.aligned:
                value = value.copy()
            layout = source_layout(plan, some, number, value)
            if layout == ANY:
                views[at] = value = np.broadcast_to(value, plan.shape)
        layouts.append(layout)
        arrays.append(value)
    into = {at: outs[at] for at in some.outputs if _is_writable(plan, at, outs.get(at))}
    out_strides = [out.strides for out in into.values()]
    row, found = _rows(plan.shape, [*[view.strides for view in views.values()], *out_strides])
    while found is None:
        at = next(iter(views))
        arrays[at], layouts[at] = np.array(made(views.pop(at)), order="C"), FLAT
        row, found = _rows(plan.shape, [*[view.strides for view in views.values()], *out_strides])
    strides = []
    for at, (across, along) in zip(views, found, strict=False):
        if layouts[at] == ANY:
            size = arrays[at].itemsize
            layouts[at] = UNIT if along == size else SAME if along == 0 else ANY
        strides += [across, along]
    steps = dict(zip(into, found[len(views) :], strict=True))
    for at in some.outputs:
        value, reduction, _ = plan.lowered.outputs[at]
        if reduction is None:
            size = plan.lowered.dtypes[value].itemsize
            strides += [steps[at][0] if at in steps else 0 if row == HUGE else row * size, size]
    return SourceLayouts(tuple(layouts), tuple(arrays), row, into, tuple(strides))


def _is_writable(plan: BlockPlan, at: int, out: Any) -> bool:
    """Tell whether a kernel can write an output into an array: rows of neighbours."""
    if not fits(plan, at, out):
        return False
    row, found = _rows(plan.shape, [out.strides])
    return found is not None and (row == HUGE or found[0][1] == out.itemsize)


def _rows(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[int, list[tuple[int, int]] | None]:
    """Return the length of the rows that all arrays have in common, and their strides.

    None: the arrays have no such rows.
    """
    if not strides:
        return HUGE, []
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
        return HUGE, [(0, 0)] * len(strides)
    across = runs[0][1] if len(runs) == 2 else [0] * len(strides)
    return runs[-1][0], list(zip(across, runs[-1][1], strict=True))
