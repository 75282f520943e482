"""How much memory ordinary array operations need: ours and dask's, each in a process of its own.

Measured is what the code of a library takes, and by how much the process grows at most in a first
and a second compute. The arrays are in memory before, dask's copies of them too; the result counts.
What a library loads counts on both sides: ours loads its compiler with the first kernel, dask all
with its import. What the first compute leaves (the compiler, memory of the allocator) is counted
in the second, too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.command import check_options
from benchmarks.footprint import give_back_freed
from benchmarks.memory import peak_bytes, resident_bytes
from benchmarks.survey import LIBRARIES, MB, SIZES, value_of
from benchmarks.survey_cases import arrays, namespace

CASES = """
    x.sum() | x.max(axis=1) | x.std() | (c - c.mean(0)).std(0) | la.median(x, axis=1)
    la.percentile(v, 50) | x + y | ((x * 3 + 2) * x + 1) * x + 0.5 | la.where(x > 0.5, x, y)
    x - x.mean(0) | (t - t.mean(0)) / t.std(0)
    ((t - t.mean(0)) / t.std(0)).max() | x[x > 0.5].sum() | la.roll(v, 1000)
    x.rechunk((-1, 100)).max(axis=0) | la.concatenate([x, y]) | v.cumsum(axis=0)
    la.topk(v, 10) | la.unique(i) | la.histogram(v, bins=100, range=(0, 1))
    x.T @ x | la.tensordot(x, y, axes=((0, 1), (0, 1))) | rng.uniform(-1, 1, S, **kw).mean()
    (lambda r: (r - r.mean(0)).std(0))(rng.normal(size=S, **kw))
    la.map_overlap(lambda a: a * 2 + 1, x, depth=1, boundary="reflect", dtype="f8")
"""


def expressions() -> list[str]:
    """Return the expressions that are measured."""
    return [piece.strip() for line in CASES.strip().splitlines() for piece in line.split(" | ")]


def growth(side: str, expression: str, size: int, chunks: int) -> list[int]:
    """Return the bytes that the library's code took, and those of the first and second compute."""
    wanted = {"small", *re.findall(r"\w+", expression), *("x" if "S" in expression else "")}
    given = arrays(size, wanted)
    found = [-resident_bytes()]
    la = import_module(LIBRARIES[side])
    value_of(la.ones(10, chunks=5).sum(), "threads")
    found[0] += resident_bytes()
    names = namespace(la, given, chunks)  # dask copies the arrays here
    give_back_freed()
    before = resident_bytes()
    for _ in range(2):
        give_back_freed()
        Path("/proc/self/clear_refs").write_text("5")  # the most so far is forgotten
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value_of(eval(expression, names), "threads")
        found.append(peak_bytes() - before)
        if side == "lazyflow":
            la.wait_compiled()
    return found


def measured(side: str, expression: str, size: int, chunks: int) -> list[float]:
    """Return the growths of a fresh process in MB."""
    command = [sys.executable, "-m", "benchmarks.survey_memory"]
    command += [side, expression, str(size), str(chunks)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [number / MB for number in json.loads(text)]


def main(argv: Sequence[str]) -> int:
    """Print the growths of each case, code included in the first; return 1 where ours is larger."""
    given = _options(argv)
    columns = "".join(f"{name:>7}{'dask':>7}{'/':>6}" for name in ("first", "again"))
    print(f"{'most memory above that before, MB':64}{'code':>6}{'dask':>6}{columns}")
    above = 0
    for expression in expressions():
        if given.only not in expression:
            continue
        ours, theirs = (
            measured(side, expression, SIZES[given.size], given.chunks) for side in LIBRARIES
        )
        firsts = ours[0] + ours[1], theirs[0] + theirs[1]
        pairs = (firsts, (ours[2], theirs[2]))
        above += firsts[0] > firsts[1]
        cells = "".join(f"{a:>7.0f}{b:>7.0f}{a / max(b, 1):>6.2f}" for a, b in pairs)
        print(f"{expression[:63]:64}{ours[0]:>6.0f}{theirs[0]:>6.0f}{cells}", flush=True)
    print(f"above dask's: {above}")
    return int(above > 0)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks survey-memory", description=__doc__)
    add = parser.add_argument
    add("--size", choices=SIZES, default="400", help="of one array, in MB")
    add("--chunks", type=int, default=16, metavar="N", help="blocks of an array")
    add("--only", default="", metavar="TEXT", help="expressions with this text")
    given = parser.parse_args(argv)
    check_options(parser, given, expressions())
    return given


if __name__ == "__main__":
    side, expression, size, chunks = sys.argv[1:]
    print(json.dumps(growth(side, expression, int(size), int(chunks))))
