"""How the sources of a pass lie in memory: the layouts and strides that a kernel gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.planning import (
    ANY,
    FLAT,
    SAME,
    UNIT,
    BlockPass,
    BlockPlan,
    source_layout,
)

HUGE = 1 << 62  # elements: without an end


class SourceLayouts(NamedTuple):
    """The layouts of a pass's sources (see planning.py), and the arrays that have them.

    row
        Elements of a row, for sources that lie in rows.
    strides
        Bytes between rows and within them, for each of those.
    """

    layouts: tuple[str, ...]
    arrays: tuple[Any, ...]
    row: int
    strides: tuple[int, ...]


def source_layouts(plan: BlockPlan, some: BlockPass, values: Sequence[Any]) -> SourceLayouts:
    """Return the layouts of a pass's sources; a source that doesn't lie in rows is copied."""
    layouts, arrays, views = [], [], {}
    for at, number in enumerate(some.sources):
        value = values[number]
        if not value.flags.aligned:
            value = value.copy()
        layout = source_layout(plan, some, number, value)
        layouts.append(layout)
        if layout == ANY:
            views[at] = value = np.broadcast_to(value, plan.shape)
        arrays.append(value)
    row, found = _rows(plan.shape, [view.strides for view in views.values()])
    while found is None:
        at = next(iter(views))
        arrays[at], layouts[at] = np.array(views.pop(at), order="C"), FLAT
        row, found = _rows(plan.shape, [view.strides for view in views.values()])
    strides = []
    for at, (across, along) in zip(views, found, strict=True):
        size = arrays[at].itemsize
        layouts[at] = UNIT if along == size else SAME if along == 0 else ANY
        strides += [across, along]
    return SourceLayouts(tuple(layouts), tuple(arrays), row, tuple(strides))


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
