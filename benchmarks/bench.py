"""What a case is given: the sizes, the sides that are there, and fresh processes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.measure import Goal, Label, Row, Table, Turn, rows_of, take_turns

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 300  # seconds for a fresh process


@dataclass(frozen=True)
class Turns:
    """How often each side has its turn; a benchmark's `Size` adds how much is measured."""

    repeat: int
    at_least: int  # turns also of a side that is slow


class Bench:
    """The sides that are there, the sizes, and the turns that the cases share."""

    def __init__(self, size: Any, full: Any, repeat: int | None) -> None:
        self.size = size
        self.full = full
        self.repeat = repeat or size.repeat
        self.at_least = min(self.repeat, size.at_least)
        self.missing: dict[str, str] = {}
        self.lazyflow: Any = importlib.import_module("lazyflow")
        self._bytecode = tempfile.TemporaryDirectory(prefix="lazyflow-bench-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bytecode.cleanup()

    def peer(self, name: str) -> Any:
        """Return a library; where it is missing, None, and the table will say so."""
        return importlib.import_module(name) if self.there(name) else None

    def there(self, name: str, install: str = "'lazyflow[bench]'") -> bool:
        if importlib.util.find_spec(name) is not None:
            return True
        self.missing[name] = f"not installed; pip install {install}"
        return False

    def child(self, *arguments: str) -> str:
        """Run a fresh interpreter and return what it prints; RuntimeError when it fails.

        Compiled code of all sides is kept in one folder of this run, whatever the caller's
        PYTHONDONTWRITEBYTECODE says: without that a checkout would compile at every start
        and an installed peer would not.
        """
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        path = [os.path.abspath(p) for p in given] + [str(ROOT)]
        here = self._bytecode.name
        env = kept | {"PYTHONPATH": os.pathsep.join(path), "PYTHONPYCACHEPREFIX": here}
        command = [sys.executable, *arguments]
        try:
            done = subprocess.run(
                command,
                env=env,
                cwd=here,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"not done after {LIMIT} s") from None
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise RuntimeError(said[-1] if said else f"ended with status {done.returncode}")
        return done.stdout

    def measure(
        self, turns: dict[Label, Turn], unit: str, scale: float, patience: float | None = None
    ) -> tuple[list[Row], dict[str, str]]:
        """Run `turns`; return a row per label, in order, and the sides that failed.

        `patience`: where turns are long, the seconds after which one of a side is enough.
        """
        limits = (self.at_least,) if patience is None else (1, patience)
        samples, failed = take_turns(turns, self.repeat, *limits)
        labels = list(dict.fromkeys(row for row, _ in turns))
        rows = rows_of(samples, labels, unit, scale)
        for row in rows:
            row.broken = "lazyflow" in failed
        return rows, failed

    def table(
        self, case: Callable[[Any], Table], rows: list[Row], *reasons: dict[str, str], **more: Any
    ) -> Table:
        """Put a case's rows under its title; of two reasons for one side the last one counts."""
        absent: dict[str, str] = {}
        for some in (*reasons, self.missing):
            absent.update(some)
        return Table(case.__name__, title_of(case), rows, absent=absent, **more)

    def judged(self, row: Row, goal: Goal, *sizes: str) -> None:
        """Give `row` a goal, which counts where these sizes are the full ones."""
        row.goal = goal
        if any(getattr(self.size, name) != getattr(self.full, name) for name in sizes):
            row.why_unjudged = "(for --size full)"

    def judged_gain(self, rows: Sequence[Row], least: float) -> str:
        """Set the result of two workers to their gain over one; return the gains in words."""
        one, two = rows
        gains = {s: one.median(s) / two.median(s) for s in two.samples if s in one.samples}
        two.result = gains.get("lazyflow")
        self.judged(two, Goal(">=", least), "calls")
        if not two.why_unjudged and not two.met and gains.get("futures", 0.0) < least:
            two.why_unjudged = "(two cores were not idle)"  # a bare executor had no more of them
        return "gain of each: " + ", ".join(f"{side} {gain:.2f}" for side, gain in gains.items())


def title_of(case: Callable[[Any], Table]) -> str:
    return (case.__doc__ or "").strip().splitlines()[0]
