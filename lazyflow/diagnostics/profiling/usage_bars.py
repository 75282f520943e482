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
    """A bar, in seconds and lanes; what follows its colour is for the mouse."""

    left: float
    right: float
    top: float
    bottom: float
    color: str
    memory: str
    cpu: str


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
        here, workers = each.memory or 0, each.worker_memory
        words = (
            f"{format_bytes(here)} here, {format_bytes(workers)} in workers" if most else "unknown",
            f"{each.cpu:.2g} cores in use",
        )
        span = left, each.time
        if most:
            own, whole = floor - _share(here, most), floor - _share(each.total, most)
            groups[_OWN].append(UsageBar(*span, own, floor, _COLORS[_OWN], *words))
            groups[_WORKERS].append(UsageBar(*span, whole, own, _COLORS[_WORKERS], *words))
        if cores:
            base = lane + HEIGHT - 0.6
            top = base - _share(each.cpu, cores)
            groups[_CPU].append(UsageBar(*span, top, base, _COLORS[_CPU], *words))
        left = each.time
    return names, {
        label: high for label, bars in groups.items()
        if (high := [bar for bar in bars if bar.top < bar.bottom])
    }


def _share(value: float, most: float) -> float:
    return (HEIGHT - 0.2) * value / most
