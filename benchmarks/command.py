"""The command line that the benchmarks share: options, turns of the cases, what is written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.bench import title_of
from benchmarks.measure import Table


def check_options(
    parser: argparse.ArgumentParser, given: argparse.Namespace, expressions: Iterable[str] = ()
) -> None:
    """Refuse numbers below 1, a file in no folder, and `--only` what none of `expressions` has."""
    for name in ("repeat", "chunks", "limit"):
        number = getattr(given, name, None)
        if number is not None and number < 1:
            parser.error(f"--{name} {number}: at least 1")
    path = getattr(given, "json", None)
    if path and not Path(path).resolve().parent.is_dir():
        parser.error(f"the folder of {path} does not exist")
    expressions = tuple(expressions)
    if expressions and not any(given.only in each for each in expressions):
        parser.error(f"--only {given.only}: no expression has this text")


@dataclass(frozen=True)
class Suite:
    """A benchmark: its cases, its sizes, and who is compared.

    `make` gives the `Bench` of a size and a number of turns; every case is a function of it.
    `alike` says what all sides have in common, such as "2 threads on every side".
    """

    name: str
    about: str
    cases: Mapping[str, Callable[[Any], Table]]
    sizes: Mapping[str, Any]
    sides: Sequence[str]
    packages: Sequence[str]
    make: Callable[[Any, int | None], Any]
    alike: str
    durations: str

    def options(self, argv: Sequence[str]) -> argparse.Namespace:
        width = max(map(len, self.cases))
        cases = "\n".join(f"  {n:{width}} {title_of(case)}" for n, case in self.cases.items())
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks {self.name}",
            description=self.about,
            epilog=f"cases:\n{cases}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add = parser.add_argument
        add("--size", choices=self.sizes, default="small", help=self.durations)
        add("--repeat", type=int, metavar="N", help="turns of each side")
        add("--json", metavar="FILE", help="write every sample to FILE")
        add("--only", choices=self.cases, action="append", metavar="CASE",
            help="may be given several times")  # fmt: skip
        given = parser.parse_args(argv)
        check_options(parser, given)
        return given

    def main(self, argv: Sequence[str]) -> int:
        """Run the cases asked for, print each as soon as it is measured, return 0."""
        given = self.options(argv)
        tables = []
        with self.make(self.sizes[given.size], given.repeat) as bench:
            facts = measure.machine(self.packages)
            print(measure.machine_line(facts))
            print(f"size {given.size}; {self.alike}\n\n{measure.heading(self.sides)}", flush=True)
            for name in given.only or self.cases:
                tables.append(self.cases[name](bench))
                print("\n".join(measure.table_lines(tables[-1], self.sides)), flush=True)
        print("\n" + "\n".join(measure.absence_lines(tables)))
        if given.json:
            measure.write_json(given.json, facts, tables, size=given.size)
        return 0
