"""What every ordinary array operation costs: lazyflow, dask, NumPy, and loops by hand.

Each expression of survey_cases.py is one case. The sides take turns; of each the least time
counts. Cases are printed worst first, by the larger of the ratios to dask and to the loop by hand;
with `--scheduler processes` by the ratio to ours on threads, which stands in the place of dask.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from statistics import median
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks import measure
from benchmarks.command import check_options
from benchmarks.shapes import WORKERS
from benchmarks.survey_by_hand import BY_HAND
from benchmarks.survey_cases import LEFT_OUT, arrays, expressions, namespace

MB = 1_000_000
SIZES = {"tiny": MB // 10, "8": 8 * MB, "80": 80 * MB, "400": 400 * MB, "800": 800 * MB}
LIBRARIES = {"lazyflow": "lazyflow.array", "dask": "dask.array"}
PEERS = ("dask", "threads")  # which of them is there: see `--scheduler`
PATIENCE = 1.5  # seconds after which a side has no further turns


class Case(NamedTuple):
    """The least seconds of each side, and why a side has none."""

    group: str
    expression: str
    seconds: dict[str, float]
    failed: dict[str, str]

    def ratio(self, side: str) -> float | None:
        """Return our time divided by another side's."""
        if "lazyflow" in self.seconds and side in self.seconds:
            return self.seconds["lazyflow"] / self.seconds[side]
        return None

    @property
    def worst(self) -> float:
        """The ratio to ours on threads, or the larger of those to dask and to the loop by hand.

        NumPy's without all these.
        """
        sides = ("threads",) if "threads" in self.seconds else ("dask", "by hand")
        found = [r for r in map(self.ratio, sides) if r is not None]
        return max(found, default=self.ratio("numpy") or 0.0)


def value_of(made: Any, scheduler: str) -> Any:
    """Compute what an expression gives, where it is lazy."""
    if isinstance(made, tuple | list):
        lazy = next((x for x in made if hasattr(x, "compute")), None)
        if lazy is None:
            return made
        library = import_module(type(lazy).__module__.partition(".")[0])
        return library.compute(*made, scheduler=scheduler, num_workers=WORKERS)
    if hasattr(made, "compute"):
        return made.compute(scheduler=scheduler, num_workers=WORKERS)
    return made


def turns_of(
    expression: str, names: Mapping[str, Mapping[str, Any]], scheduler: str
) -> dict[str, Callable[[], Any]]:
    """Return what each side does; dask runs on threads always."""
    code: CodeType = compile(expression, "<survey>", "eval")
    turns: dict[str, Callable[[], Any]] = {
        side: lambda side=side: value_of(  # type: ignore[misc]
            eval(code, dict(names[side])), scheduler if side == "lazyflow" else "threads"
        )
        for side in names
        if side != LEFT_OUT.get(expression)
    }
    if expression in BY_HAND:
        given = SimpleNamespace(**names["numpy"])
        turns["by hand"] = lambda: BY_HAND[expression](given)
    return turns


def run_case(
    group: str, expression: str, turns: dict[str, Callable[[], Any]], repeat: int
) -> Case:
    """Warm every side twice, compare values with NumPy's, and let the sides take turns."""
    seconds: dict[str, float] = {}
    found, failed = _warmed(turns)
    if "rng" not in expression and "numpy" in found:
        for side in found.keys() & {"lazyflow", "by hand"}:
            try:
                _compare(found[side], found["numpy"])
            except AssertionError as error:
                failed[side] = "wrong: " + " ".join(str(error).split())[:100]
    found.clear()
    left = {side: turn for side, turn in turns.items() if side not in failed}
    spent = dict.fromkeys(left, 0.0)
    for _ in range(repeat):
        for side, turn in left.items():
            if spent[side] > PATIENCE:
                continue
            gc.collect()
            _settle()
            start = time.perf_counter()
            value = turn()
            taken = time.perf_counter() - start
            del value
            spent[side] += taken
            seconds[side] = min(seconds.get(side, taken), taken)
    return Case(group, expression, seconds, failed)


def _warmed(turns: dict[str, Callable[[], Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the sides give, and why some do not."""
    found: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for side, turn in turns.items():
        try:
            turn()
            if side == "lazyflow":  # compiling in the background is not timed, as Numba's is not
                import_module("lazyflow.array").wait_compiled()
            found[side] = turn()
        except Exception as error:  # what a peer does not have is a finding
            failed[side] = f"{type(error).__name__}: {str(error)[:100]}"
    return found, failed


def _settle() -> None:
    """Wait until no thread of this process runs: OpenBLAS's wait busily, 0.1 s after a product."""
    for _ in range(50):
        before = time.process_time()
        time.sleep(0.005)
        if time.process_time() - before < 1e-3:
            return


def _compare(ours: Any, right: Any) -> None:
    if isinstance(right, tuple | list):
        for a, b in zip(ours, right, strict=True):
            _compare(a, b)
        return
    tolerance = 1e-4 if np.asarray(right).real.dtype.itemsize < 8 else 1e-8
    np.testing.assert_allclose(ours, right, rtol=tolerance, atol=tolerance, equal_nan=True)


def lines(cases: Sequence[Case]) -> list[str]:
    """Write the cases, worst first."""
    others = _others(cases)
    head = "".join(f"{side:>10}" for side in ("lazyflow", *others))
    head += "".join(f"{'/ ' + side.removeprefix('by '):>10}" for side in others)
    found = [f"{'least, ms':74}{head}"]
    for case in sorted(cases, key=lambda c: -c.worst):
        cells = "".join(
            f"{measure.number(case.seconds[side] * 1e3):>10}" if side in case.seconds
            else f"{'failed' if side == 'lazyflow' else '-':>10}"
            for side in ("lazyflow", *others)
        )  # fmt: skip
        ratios = "".join(
            f"{'-' if (r := case.ratio(side)) is None else f'{r:.2f}':>10}" for side in others
        )
        found.append(f"{case.expression[:73]:74}{cells}{ratios}")
    return found


def _others(cases: Sequence[Case]) -> tuple[str, ...]:
    peer = next((p for p in PEERS if any(p in case.seconds for case in cases)), PEERS[0])
    return (peer, "numpy", "by hand")


def summary(cases: Sequence[Case]) -> list[str]:
    """Write the medians, and how many cases are slower than each side."""
    found = []
    for side in _others(cases):
        ratios = [r for case in cases if (r := case.ratio(side)) is not None]
        if ratios:
            slower = sum(r > 1 for r in ratios)
            found.append(
                f"{side}: {len(ratios)} cases, in the median {1 / median(ratios):.2f} times as "
                f"fast; slower in {slower}, the worst {1 / max(ratios):.2f} times as fast"
            )
    return found + [
        f"FAILED {case.expression}, {side}: {case.failed[side]}"
        for case in cases for side in ("lazyflow", "by hand") if side in case.failed
    ]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks survey", description=__doc__)
    add = parser.add_argument
    add("--size", choices=SIZES, default="80", help="MB of an array; tiny: 0.1, once")
    add("--chunks", type=int, default=8, metavar="N", help="chunks of an array")
    add("--order", choices="CF", default="C", help="of arrays in memory")
    add("--repeat", type=int, metavar="N", help="turns of each side (7)")
    add("--only", metavar="TEXT", action="append",
        help="expressions with this text, or of this group; * and ? as in file names")  # fmt: skip
    add("--scheduler", choices=("threads", "processes"), default="threads",
        help="ours; on processes, arrays are persisted first, and ours on threads is the peer")
    add("--json", metavar="FILE", help="write all figures to FILE")
    given = parser.parse_args(argv)
    check_options(parser, given)
    if not _asked_for(given.only):
        groups = ", ".join(dict.fromkeys(group for group, _ in expressions()))
        parser.error(f"no expression has {' or '.join(given.only)} in it; groups are: {groups}")
    return given


def _asked_for(texts: Sequence[str] | None) -> list[tuple[str, str]]:
    return [
        (group, expression)
        for group, expression in expressions()
        if not texts or any(
            text == group or text in expression or fnmatch.fnmatchcase(expression, text)
            for text in texts
        )
    ]


def main(argv: Sequence[str]) -> int:
    """Run the survey, print cases worst first.

    Return 1 where one of ours, or a loop, failed or is wrong, 130 after a Ctrl-C.
    """
    given = _options(argv)
    repeat = given.repeat or (1 if given.size == "tiny" else 7)
    facts = measure.machine(("lazyflow", "dask", "numpy", "numba"))
    print(measure.machine_line(facts))
    what = f"{given.size} MB in {given.chunks} chunks, in {given.order} order"
    print(f"{what}; {WORKERS} threads on every side", flush=True)
    data = {
        name: np.asarray(array, order=given.order)
        for name, array in arrays(SIZES[given.size]).items()
    }
    names = _libraries(data, given.chunks, given.scheduler)
    names["numpy"] = namespace(np, data, given.chunks)
    cases: list[Case] = []
    asked = _asked_for(given.only)
    # A Ctrl-C ends the survey with what was measured.
    with suppress(KeyboardInterrupt), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for group, expression in asked:
            turns = turns_of(expression, names, given.scheduler)
            cases.append(run_case(group, expression, turns, repeat))
    print("\n".join([*lines(cases), "", *summary(cases)]))
    if len(cases) < len(asked):
        print(f"interrupted: {len(cases)} of {len(asked)} cases")
    if given.json:
        text = json.dumps({"machine": facts, "cases": [case._asdict() for case in cases]}, indent=1)
        Path(given.json).write_text(text + "\n", encoding="utf-8")
    if len(cases) < len(asked):
        return 130
    return int(any({"lazyflow", "by hand"} & case.failed.keys() for case in cases))


def _libraries(
    data: Mapping[str, np.ndarray], parts: int, scheduler: str
) -> dict[str, dict[str, Any]]:
    """Return what expressions are read with, for ours and its peer."""
    given, ours = dict(data), import_module(LIBRARIES["lazyflow"])
    names = {"lazyflow": namespace(ours, given, parts)}
    if scheduler != "threads":
        names["threads"] = dict(names["lazyflow"])
        for name in data:
            names["lazyflow"][name] = names["lazyflow"][name].persist(scheduler=scheduler)
        names["lazyflow"]["rng"] = ours.random.default_rng(0)  # each has its own draws
        return names
    try:
        names["dask"] = namespace(import_module(LIBRARIES["dask"]), given, parts)
    except ImportError:
        print("dask is not installed; pip install 'lazyflow[bench]'")
    return names
