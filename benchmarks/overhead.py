"""What a task costs beyond its work: lazyflow, dask, joblib and a plain executor side by side.

Every case is a function of one `Bench` and gives one `Table`; the first line of its docstring is
the title. Goals are for ``--size full`` and are shown as met or not, never asserted: this measures,
the tests judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks import bench as common
from benchmarks import measure, shapes
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Row, Table, Turn, clock
from benchmarks.shapes import compute

SIDES = ("lazyflow", "dask", "joblib", "futures")
NO_GRAPH = "builds no graph before it runs"
TOO_LARGE = "not run at this size; see chain and flat"


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    leaves: int
    flat: int
    chain: int
    million: int
    build: int
    calls: int
    traced: int
    steps: int


SIZES = {
    "tiny": Size(2, 1, 200, 200, 100, 10_000, 1_000, 16, 100, 100),
    "small": Size(5, 3, 1_000, 1_000, 500, 100_000, 10_000, 64, 500, 1_000),
    "full": Size(7, 3, 5_000, 10_000, 2_000, 1_000_000, 10_000, 64, 500, 1_000),
}


class Bench(common.Bench):
    """The libraries that are there, each on threads."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self.dask = self.peer("dask")
        self.joblib = self.peer("joblib")
        self.pool = ThreadPoolExecutor(shapes.WORKERS)
        self.lazy = {"lazyflow": self.lazyflow} | ({"dask": self.dask} if self.dask else {})

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()
        super().__exit__()


def from_scratch(lib: Any, build: Callable[[Any, int], Any], n: int, right: Any) -> Turn:
    """Time building, computing and freeing ``build(lib, n)``."""
    return partial(clock, lambda: compute(lib, build(lib, n))[0], right)


def tree(bench: Bench) -> Table:
    """binary tree, inc of every leaf, then added two by two; result = dask / lazyflow"""
    leaves = bench.size.leaves
    tasks, right = 2 * leaves - 1, leaves * (leaves + 1) // 2

    def built(lib: Any) -> float:
        graph = shapes.lazy_tree(lib, leaves)
        return clock(lambda: compute(lib, graph)[0], right)

    turns: dict[Label, Turn] = {}
    for side, lib in bench.lazy.items():
        turns["whole", side] = from_scratch(lib, shapes.lazy_tree, leaves, right)
        turns["building only", side] = partial(clock, partial(shapes.lazy_tree, lib, leaves))
        turns["plan and run", side] = partial(built, lib)
    if bench.joblib:
        work = partial(shapes.joblib_tree, bench.joblib, leaves)
        turns["whole", "joblib"] = partial(clock, work, right)
    work = partial(shapes.futures_tree, bench.pool, leaves)
    turns["whole", "futures"] = partial(clock, work, right)
    rows, failed = bench.measure(turns, "µs/task", 1e6 / tasks)
    for row in rows:
        row.result = row.ratio("dask", "lazyflow")
    bench.judged(rows[0], Goal(">=", 40), "leaves")
    return bench.table(tree, rows, {"joblib": NO_GRAPH, "futures": NO_GRAPH}, failed,
                       amount=f"{tasks:,} tasks")  # fmt: skip


def flat(bench: Bench) -> Table:
    """separate outputs, delayed(inc)(i) in a loop, compute(*outputs); result = dask / lazyflow"""
    width = bench.size.flat
    right = list(range(1, width + 1))
    turns: dict[Label, Turn] = {}

    def outputs(lib: Any) -> list[int]:
        return list(compute(lib, *shapes.lazy_flat(lib, width)))

    for side, lib in bench.lazy.items():
        turns["whole", side] = partial(clock, partial(outputs, lib), right)
    if bench.joblib:
        work = partial(shapes.joblib_flat, bench.joblib, shapes.inc, range(width))
        turns["whole", "joblib"] = partial(clock, work, right)
    work = partial(shapes.futures_flat, bench.pool, width)
    turns["whole", "futures"] = partial(clock, work, right)
    rows, failed = bench.measure(turns, "µs/task", 1e6 / width)
    rows[0].result = rows[0].ratio("dask", "lazyflow")
    bench.judged(rows[0], Goal(">=", 200), "flat")
    return bench.table(flat, rows, failed, amount=f"{width:,} outputs")


def chain(bench: Bench) -> Table:
    """each call takes the last one's result; result = dask / lazyflow"""
    length = bench.size.chain
    turns: dict[Label, Turn] = {
        ("whole", side): from_scratch(lib, shapes.lazy_chain, length, length)
        for side, lib in bench.lazy.items()
    }
    work = partial(shapes.futures_chain, bench.pool, length)
    turns["whole", "futures"] = partial(clock, work, length)
    rows, failed = bench.measure(turns, "µs/task", 1e6 / length)
    rows[0].result = rows[0].ratio("dask", "lazyflow")
    bench.judged(rows[0], Goal(">=", 80), "chain")
    why = {"joblib": "a chain has no two calls that could run at once"}
    return bench.table(chain, rows, why, failed, amount=f"{length:,} tasks")


def million(bench: Bench) -> Table:
    """a chain, and one sum of as many; each in a fresh process; result = µs/task, peak GiB"""
    tasks = bench.size.million
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for shape in ("chain", "sum"):
        seconds: list[float] = []
        peaks: list[float] = []
        try:
            for _ in range(min(bench.repeat, bench.at_least)):
                took, peak, right = bench.child(
                    "-m", "benchmarks.shapes", shape, str(tasks)
                ).split()
                if right != "True":
                    raise RuntimeError("wrong answer")
                seconds.append(float(took) / tasks * 1e6)
                peaks.append(int(peak) / 2**30)
        except RuntimeError as error:
            failed["lazyflow"] = f"{shape} failed: {error}"
            seconds, peaks = [], []
        for label, unit, figures, bound in (
            (shape, "µs/task", seconds, 10),
            (f"{shape}, peak", "GiB", peaks, 1.5),
        ):
            row = Row(label, unit, {"lazyflow": figures} if figures else {}, broken=not figures)
            row.result = row.median("lazyflow") if figures else None
            bench.judged(row, Goal("<=", bound), "million")
            rows.append(row)
    why = {"dask": TOO_LARGE, "joblib": TOO_LARGE, "futures": TOO_LARGE}
    return bench.table(million, rows, why, failed, amount=f"{tasks:,} tasks")


def build(bench: Bench) -> Table:
    """building only, in a fresh process, ten times as many tasks; result = the times' ratio"""
    few, many = bench.size.build, bench.size.build * 10
    rows: list[Row] = []
    failed: dict[str, str] = {}
    notes: list[str] = []
    for shape in ("chain", "list"):
        turns: dict[Label, Turn] = {
            (f"{shape} of {n:,}", "lazyflow"): partial(built_apart, bench, shape, n)
            for n in (few, many)
        }
        both, some = bench.measure(turns, "µs/task", 1e6)
        failed.update(some)
        small, large = both
        if not large.broken:
            large.result = large.median("lazyflow") * many / (small.median("lazyflow") * few)
            without = [built_apart(bench, shape, n, "without-gc") * n for n in (few, many)]
            notes.append(f"{shape}: ratio {without[1] / without[0]:.1f} with the collector off")
        bench.judged(large, Goal("<=", 12), "build")
        rows += both
    why = {"dask": "not run at this size; see tree", "joblib": NO_GRAPH, "futures": NO_GRAPH}
    return bench.table(build, rows, why, failed, notes=notes)


def built_apart(bench: Bench, shape: str, n: int, gc: str = "with-gc") -> float:
    """Return seconds a task to build a graph, in a fresh process that has lazyflow only."""
    return float(bench.child("-m", "benchmarks.shapes", "build", shape, str(n), gc))


STARTS = {
    "import": {
        "lazyflow": "import lazyflow",
        "dask": "import dask",
        "joblib": "import joblib",
        "futures": "import concurrent.futures",
    },
    "import, one result": {
        "lazyflow": "import lazyflow; lazyflow.compute(lazyflow.delayed(abs)(-1))",
        "dask": "import dask; dask.compute(dask.delayed(abs)(-1), scheduler='threads')",
        "joblib": "from joblib import Parallel, delayed;"
        "Parallel(n_jobs=2, backend='threading')([delayed(abs)(-1)])",
        "futures": "from concurrent.futures import ThreadPoolExecutor;"
        "ThreadPoolExecutor(2).submit(abs, -1).result()",
    },
}


def starting(bench: Bench) -> Table:
    """a fresh `python -c`, start to end; result = lazyflow / dask"""

    def start(code: str) -> float:
        return clock(lambda: bench.child("-c", code))

    turns: dict[Label, Turn] = {("pass", "python"): partial(start, "pass")}
    for label, codes in STARTS.items():
        for side, code in codes.items():
            if side not in bench.missing:
                turns[label, side] = partial(start, code)
    (bare, *rows), failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        row.result = row.ratio("lazyflow", "dask")
    bench.judged(rows[0], Goal("<=", 0.5))
    times = bare.samples["python"]
    note = f"of each of these, `python -c pass` is {measure.number(median(times))} ms"
    return bench.table(starting, rows, failed, notes=[note])


def cores(bench: Bench) -> Table:
    """calls of 1 ms that let go of the GIL (sha256); result = time on 1 thread / on 2"""
    calls, size = bench.size.calls, shapes.size_for(1e-3)
    right = [shapes.digest(size)] * calls

    def lazily(lib: Any, workers: int) -> list[bytes]:
        digest = lib.delayed(shapes.digest)
        return list(compute(lib, *[digest(size) for _ in range(calls)], workers=workers))

    def by_joblib(joblib: Any, workers: int) -> Any:
        return shapes.joblib_flat(joblib, shapes.digest, [size] * calls, workers)

    def by_futures(workers: int) -> list[bytes]:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(shapes.digest, [size] * calls))

    idle = measure.idle_words()
    turns: dict[Label, Turn] = {}
    for n, label in ((1, "1 thread"), (2, "2 threads")):
        for side, lib in bench.lazy.items():
            turns[label, side] = partial(clock, partial(lazily, lib, n), right)
        if bench.joblib:
            turns[label, "joblib"] = partial(clock, partial(by_joblib, bench.joblib, n), right)
        turns[label, "futures"] = partial(clock, partial(by_futures, n), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    notes = [idle, bench.judged_gain(rows, 1.8)]
    return bench.table(cores, rows, failed, amount=f"{calls} calls", notes=notes)


def trace(bench: Bench) -> Table:
    """a tree run again on another leaf, by lazyflow.trace; result = later call / built anew"""
    lib, leaves = bench.lazyflow, bench.size.traced
    fixed = leaves * (leaves - 1) // 2
    grow = partial(shapes.lazy_tree_above, lib, leaves=leaves)
    traced = partial(lib.trace, grow, scheduler="threads", num_workers=shapes.WORKERS)
    kept = traced()

    def anew() -> float:
        return clock(lambda: compute(lib, grow(lib.delayed(1)))[0], fixed + leaves)

    turns: dict[Label, Turn] = {
        ("built anew by compute", "lazyflow"): anew,
        ("first call", "lazyflow"): lambda: clock(lambda: traced()(2), fixed + 2 * leaves),
        ("later calls", "lazyflow"): lambda: clock(lambda: kept(3), fixed + 3 * leaves),
    }
    rows, failed = bench.measure(turns, "µs/task", 1e6 / (2 * leaves))
    if not rows[2].broken:
        rows[2].result = rows[2].median("lazyflow") / rows[0].median("lazyflow")
    bench.judged(rows[2], Goal("<=", 0.5), "traced")
    why = dict.fromkeys(("dask", "joblib", "futures"), "keeps no plan to run again on other leaves")
    return bench.table(trace, rows, why, failed, amount=f"{2 * leaves:,} tasks")


class PersistLoop:
    """Persist a value made of the one before, again and again; keep the first and last tenth."""

    def __init__(self, lib: Any, steps: int) -> None:
        self.lib, self.steps, self.window = lib, steps, steps // 10
        self.first: list[float] = []  # µs per step, one figure per turn
        self.last: list[float] = []

    def __call__(self) -> float:
        now, times = time.perf_counter, []
        step = self.lib.delayed(shapes.inc)
        x = step(0)
        for _ in range(self.steps):
            start = now()
            (x,) = self.lib.persist(step(x), scheduler="threads", num_workers=shapes.WORKERS)
            times.append(now() - start)
        value = compute(self.lib, x)[0]
        if value != self.steps + 1:
            raise AssertionError(f"wrong answer: {value}")
        scale = 1e6 / self.window
        self.first.append(sum(times[: self.window]) * scale)
        self.last.append(sum(times[-self.window :]) * scale)
        return sum(times)


def persist(bench: Bench) -> Table:
    """x = persist(f(x))[0] in a loop; result = time per step at the end / at the start"""
    loops = {side: PersistLoop(lib, bench.size.steps) for side, lib in bench.lazy.items()}
    turns: dict[Label, Turn] = {("loop", side): loop for side, loop in loops.items()}
    (whole,), failed = bench.measure(turns, "µs/step", 1e6 / bench.size.steps)
    ran = {side: loop for side, loop in loops.items() if side in whole.samples}
    window = bench.size.steps // 10
    first = Row(f"first {window}", "µs/step", {s: loop.first[1:] for s, loop in ran.items()})
    last = Row(f"last {window}", "µs/step", {s: loop.last[1:] for s, loop in ran.items()})
    last.broken = whole.broken
    if "lazyflow" in ran:
        last.result = last.median("lazyflow") / first.median("lazyflow")
    bench.judged(last, Goal("<=", 1.5), "steps")
    why = dict.fromkeys(("joblib", "futures"), "has no persist: results are values at once")
    return bench.table(persist, [first, last], why, failed, amount=f"{bench.size.steps:,} steps")


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case
    for case in (tree, flat, chain, million, build, starting, cores, trace, persist)
}


main = Suite(
    name="overhead",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask", "joblib"),
    make=Bench,
    alike=f"{shapes.WORKERS} threads on every side",
    durations="tiny takes seconds, small half a minute, full minutes; goals are for full",
).main
