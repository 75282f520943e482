"""Memory and CPU use as bars below the lanes of a timeline, in their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyflow.diagnostics.profiling.records import UsageRecord
from lazyflow.store.sizes import format_bytes

HEIGHT = 3  # lanes that one of them takes

_OWN, _WORKERS, _CPU = "memory of this process", "memory of workers", "CPU"
_COLORS = {_OWN: "#8899bb", _WORKERS: "#bbccee", _CPU: "#88aa77"}


class UsageBar(NamedTuple):
    """A bar; what follows its colour is for the mouse, as in a `Bar`."""

    left: float
    right: float
    top: float
    bottom: float
    color: str
    what: str
    function: str
    time: str
    cpu: str
    place: str


def usage_bars(
    usage: Sequence[UsageRecord], lane: int
) -> tuple[dict[float, str], dict[str, list[UsageBar]]]:
    """Return names by where they stand, and bars by their entry in the legend.

    They begin at the number of a lane. Memory of this process and of workers is stacked.
    """
    names: dict[float, str] = {}
    groups: dict[str, list[UsageBar]] = {_OWN: [], _WORKERS: [], _CPU: []}
    most = max((each.total for each in usage), default=0)
    cores = max((each.cpu for each in usage), default=0.0)
    if most:
        names[lane + (HEIGHT - 1) / 2] = f"memory, to {format_bytes(most)}"
        floor, lane = lane + HEIGHT - 0.6, lane + HEIGHT
    if cores:
        names[lane + (HEIGHT - 1) / 2] = f"CPU, to {cores:.2g} cores"
    left = 0.0
    for each in usage:
        words = f"{format_bytes(each.memory or 0)} here, {format_bytes(each.worker_memory)} in workers"
        if most:
            own = _share(each.memory or 0, most)
            whole = _share(each.total, most)
            for label, low, high in ((_OWN, 0.0, own), (_WORKERS, own, whole)):
                groups[label].append(_bar(label, left, each.time, floor - high, floor - low, words))
        if cores:
            high, words = _share(each.cpu, cores), f"{each.cpu:.2g} cores in use"
            base = lane + HEIGHT - 0.6
            groups[_CPU].append(_bar(_CPU, left, each.time, base - high, base, words))
        left = each.time
    shown = {label: [bar for bar in bars if bar.top < bar.bottom] for label, bars in groups.items()}
    return names, {label: bars for label, bars in shown.items() if bars}


def _share(value: float, most: float) -> float:
    return (HEIGHT - 0.2) * value / most


def _bar(
    label: str, left: float, right: float, top: float, bottom: float, words: str
) -> UsageBar:
    what = f"{label.partition(' ')[0]}: {words}"
    return UsageBar(left, right, top, bottom, _COLORS[label], what, "", "", "", "")
