"""Take turns, keep time, and show the result: as a table, as JSON.

Policy: every side of a comparison does the same warm-up, then the sides take turns (ours, theirs,
ours, theirs), so that a machine that slows down slows all of them. The clock runs over making the
graph, running it and freeing it. Garbage is collected before each turn, outside the clock, so that
no side pays for another's; the collector stays on inside. Wrong answers are failures.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

#: Who is compared, in the order of the columns; a benchmark shows those that it names.
SIDES = ("lazyflow", "dask", "dask pool=", "joblib", "ray", "futures")

Turn = Callable[[], float]  # does the work once and returns the seconds
Label = tuple[str, str]  # (row, side)


@dataclass(frozen=True)
class Goal:
    """A bound on a row's result, such as ``Goal(">=", 40)``."""

    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{'≥' if self.sign == '>=' else '≤'} {self.bound:g}"

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.sign == ">=" else value <= self.bound


@dataclass
class Row:
    """One line of the table: a quantity, its samples on each side, and what comes of them.

    `result` is what the goal is about (mostly a ratio). `why_unjudged` says why the goal does not
    apply to this run, and is empty when it does. `broken`: lazyflow was asked and failed, which
    meets no goal. `counted`: what else a side did, by name and side.
    """

    label: str
    unit: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    result: float | None = None
    goal: Goal | None = None
    why_unjudged: str = ""
    broken: bool = False
    counted: dict[str, dict[str, float]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        return median(self.samples[side])

    def ratio(self, above: str, below: str) -> float | None:
        """Return median over median, or None where a side is missing."""
        if above in self.samples and below in self.samples:
            return self.median(above) / self.median(below)
        return None

    @property
    def met(self) -> bool | None:
        if self.broken and self.goal is not None:
            return False
        if self.goal is None or self.result is None or self.why_unjudged:
            return None
        return self.goal.met_by(self.result)


@dataclass
class Table:
    """What one case measured. `absent` says by side why there is no figure."""

    name: str
    title: str
    rows: list[Row]
    amount: str = ""  # such as "9,999 tasks"
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def clock(work: Callable[[], Any], right: Any = None) -> float:
    """Return the seconds `work` takes; an answer other than `right` is an AssertionError."""
    start = time.perf_counter()
    answer = work()
    seconds = time.perf_counter() - start
    if right is not None and answer != right:
        raise AssertionError(f"wrong answer: {str(answer)[:80]}")
    return seconds


def take_turns(
    turns: dict[Label, Turn], repeat: int, at_least: int, seconds: float = 6.0
) -> tuple[dict[Label, list[float]], dict[str, str]]:
    """Warm every side once, then let them take turns `repeat` times.

    A side that has used up `seconds` stops early, but never before `at_least` turns. A side that
    raises is dropped.

    Returns
    -------
    samples : seconds per turn, by (row, side)
    failed : why a side was dropped, by side
    """
    samples: dict[Label, list[float]] = {label: [] for label in turns}
    failed: dict[str, str] = {}
    for round_ in range(-1, repeat):
        for label, turn in turns.items():
            side = label[1]
            spent = samples[label]
            if side in failed or (len(spent) >= at_least and sum(spent) > seconds):
                continue
            gc.collect()
            try:
                taken = turn()
            except Exception as error:  # a peer's failure is a finding, not the end of the run
                failed[side] = f"failed: {type(error).__name__}: {str(error)[:120]}"
                continue
            if round_ >= 0:
                spent.append(taken)
    return {k: v for k, v in samples.items() if v and k[1] not in failed}, failed


def rows_of(
    samples: dict[Label, list[float]], labels: Sequence[str], unit: str, scale: float
) -> list[Row]:
    """Make a row of each label; `scale` turns seconds into the unit."""
    return [
        Row(
            label,
            unit,
            {side: [s * scale for s in v] for (row, side), v in samples.items() if row == label},
        )
        for label in labels
    ]


# The machine.


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load() -> float:
    """Return the load average of the last minute; not a number where the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def idle_cores(window: float = 0.3) -> float | None:
    """Measure how many cores are idle now. None where /proc/stat is not there.

    The load average can't say: a minute later it still holds the cases that ran before.
    """

    def idle_ticks() -> int:
        with open("/proc/stat") as lines:
            return int(lines.readline().split()[4])

    try:
        before, start = idle_ticks(), time.perf_counter()
        time.sleep(window)
        ticks, seconds = idle_ticks() - before, time.perf_counter() - start
    except OSError:
        return None
    return ticks / os.sysconf("SC_CLK_TCK") / seconds


def idle_words() -> str:
    """Return the load and the idle cores of now in words."""
    idle = idle_cores()
    free = "unknown" if idle is None else f"{idle:.2f}"
    return f"before it: load {load():.2f}, {free} of {cores()} cores idle"


def version(package: str) -> str:
    """Return a package's version, or "not installed"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", "not installed"))


def machine(packages: Iterable[str] = ("lazyflow", "dask", "joblib")) -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": cores(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "load": round(load(), 2),
    }


def machine_line(facts: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {v}" for name, v in facts["packages"].items())
    return (
        f"{facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, "
        f"Python {facts['python']}, {packages}; load {facts['load']}"
    )


# Showing.

LABEL, CELL = 28, 16


def cell_width(sides: Sequence[str]) -> int:
    return CELL if len(sides) < 5 else CELL - 2


def number(value: float) -> str:
    """Write three digits: 0.412, 41.2, 4120.

    >>> number(0.41234), number(41.234), number(4123.4)
    ('0.412', '41.2', '4123')
    """
    if not value:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, 3 - whole)}f}"


def cell(row: Row, side: str) -> str:
    samples = row.samples.get(side)
    return f"{number(median(samples))} ({number(min(samples))})" if samples else "-"


def verdict(row: Row) -> str:
    """Say what came of the goal; without a goal, nothing."""
    if row.goal is None:
        return ""
    if row.met is None:
        return f"{row.goal}  {row.why_unjudged or 'not measured'}"
    return f"{row.goal}  {'met' if row.met else 'NOT MET'}"


def counts(row: Row, sides: Sequence[str]) -> str:
    """Write what else was counted, for the sides that have figures, in the order of the columns."""
    seen = [side for side in sides if side in row.samples]
    return ", ".join(
        f"{what} " + " | ".join(number(by[side]) if side in by else "-" for side in seen)
        for what, by in row.counted.items() if any(by.values())
    )


def heading(sides: Sequence[str] = SIDES) -> str:
    columns = "".join(f"{side:>{cell_width(sides)}}" for side in sides)
    return f"{'median (min)':{LABEL}}{columns}{'result':>9}  goal"


def table_lines(table: Table, sides: Sequence[str] = SIDES) -> list[str]:
    """Write a case: its title, a line per row, its notes."""
    lines = [f"{table.name}{table.amount and f' ({table.amount})'}: {table.title}"]
    for row in table.rows:
        cells = "".join(f"{cell(row, side):>{cell_width(sides)}}" for side in sides)
        result = "" if row.result is None else number(row.result)
        label = f"  {row.label}, {row.unit}"
        lines.append(f"{label:{LABEL}}{cells}{result:>9}  {verdict(row)}".rstrip())
        if row.counted:
            lines.append(f"      {counts(row, sides)}")
    return lines + [f"  {note}" for note in table.notes]


def absence_lines(tables: Iterable[Table]) -> list[str]:
    """Write why there is a "-", each reason once with the cases it is for."""
    cases: dict[tuple[str, str], list[str]] = {}
    for table in tables:
        for side, why in table.absent.items():
            cases.setdefault((side, why), []).append(table.name)
    return [f"- {side} ({', '.join(names)}): {why}" for (side, why), names in cases.items()]


def write_json(path: str, facts: dict[str, Any], tables: Iterable[Table], **more: Any) -> None:
    """Write everything that was measured, every sample included."""
    cases = [
        {
            "name": table.name,
            "title": table.title,
            "amount": table.amount,
            "rows": [
                {
                    "label": row.label,
                    "unit": row.unit,
                    "sides": {
                        side: {"median": median(v), "min": min(v), "samples": v}
                        for side, v in row.samples.items()
                    },
                    "result": row.result,
                    "goal": str(row.goal) if row.goal else None,
                    "met": row.met,
                    "why_unjudged": row.why_unjudged,
                    "counted": row.counted,
                }
                for row in table.rows
            ],
            "absent": table.absent,
            "notes": table.notes,
        }
        for table in tables
    ]
    text = json.dumps({"machine": facts, **more, "cases": cases}, indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")
