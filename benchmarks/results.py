"""Run every comparison with the peers, one after the other, and write what they print on a page.

``python -m benchmarks all --size full --write benchmarks/RESULTS.rst``. Each benchmark has a
process of its own, so that none finds the memory and the caches of the one before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import cluster
from benchmarks.measure import number
from lazyflow.config import cpu_count

#: Those that compare, in the order of the page.
COMPARED = (
    "overhead", "observers", "processes", "actors", "arrays", "solvers", "scale", "engines",
    "neighbours", "cluster",
)

#: In full these take too long: what is larger than workers' memory goes to their disks and back.
LONG = tuple(case for case in cluster.CASES if case.startswith("larger"))

_WORKERS = 16  # of `scale`; on fewer cores more workers than these

INTRODUCTION = """\
Results
=======

Written by ``python -m benchmarks all --write``; figures of one run on one machine. A cell is the
median of some turns, and the least of them in brackets. Every side does the same warm-up and takes
turns with the others; what is compared, and on what work, is said in each benchmark's module.
"""


@dataclass(frozen=True)
class Report:
    """What one benchmark printed, and the rows of it that have a goal."""

    name: str
    printed: str
    judged: list[dict[str, Any]]


def run(name: str, *options: str) -> Report:
    """Run a benchmark in a new process and show its lines as they come.

    Raises
    ------
    subprocess.CalledProcessError
        The benchmark failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.json"
        command = [sys.executable, "-m", "benchmarks", name, *options, "--json", str(path)]
        lines = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    judged = [{**row, "case": c["name"]} for c in cases for row in c["rows"] if row["goal"]]
    return Report(name, "".join(lines).rstrip(), judged)


def page(reports: Sequence[Report]) -> str:
    """Return the page as reStructuredText: all goals first, then each benchmark's own tables."""
    parts = [INTRODUCTION, "Goals\n-----\n", _goals(reports)]
    for report in reports:
        title = f"python -m benchmarks {report.name}"
        body = "\n".join(f"    {line}".rstrip() for line in report.printed.splitlines())
        parts.append(f"{title}\n{'-' * len(title)}\n\n.. code-block:: text\n\n{body}\n")
    return "\n".join(parts)


def _goals(reports: Sequence[Report]) -> str:
    rows = [("benchmark", "case", "row", "result", "goal", "seen")]
    for report in reports:
        for row in report.judged:
            result = "-" if row["result"] is None else number(row["result"])
            rows.append((report.name, row["case"], row["label"], result, row["goal"], _said(row)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def _said(row: dict[str, Any]) -> str:
    if row["met"] is None:
        return row["why_unjudged"] or "not measured"
    return "met" if row["met"] else "NOT MET"


def main(argv: Sequence[str]) -> int:
    """Run all, and write the page if asked; return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks all", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--size", choices=("tiny", "small", "full"), default="small")
    parser.add_argument("--repeat", metavar="N", help="turns of each side")
    parser.add_argument("--write", metavar="FILE", help="write the page to FILE")
    given = parser.parse_args(argv)
    if given.write and not Path(given.write).resolve().parent.is_dir():
        parser.error(f"the folder of {given.write} does not exist")
    repeat = ["--repeat", given.repeat] if given.repeat else []
    reports = []
    for name in COMPARED:
        print(f"\n== {name}", flush=True)
        if name == "cluster" and given.size == "full":
            rest = [case for case in cluster.CASES if case not in LONG]
            reports.append(run(name, "--size", "full", *repeat, *_only(rest)))
            reports.append(run(name, "--size", "small", *repeat, *_only(LONG)))
        elif name == "scale" and cpu_count() < _WORKERS:
            more = ["--oversubscribe", str(_WORKERS)]
            reports.append(run(name, "--size", given.size, *repeat, *more))
        else:
            reports.append(run(name, "--size", given.size, *repeat))
    if given.write:
        Path(given.write).write_text(page(reports), encoding="utf-8")
    return 0


def _only(cases: Sequence[str]) -> list[str]:
    return [word for case in cases for word in ("--only", case)]
