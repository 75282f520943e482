"""What work on processes costs: lazyflow, dask, joblib, Ray and a plain executor side by side.

Every case is a function of one `Bench` and gives one `Table`, as in `overhead`. Ratios and goals
are against dask as its users call it, ``scheduler="processes"``, which starts a pool for every
compute; what it takes with one that stays (``pool=``) has a column too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks import measure, shapes
from benchmarks import process_shapes as programs
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Row, Table, Turn, clock, number
from benchmarks.memory import half_of_memory
from benchmarks.pool_facts import pool_facts
from benchmarks.process_shapes import MESSAGES
from benchmarks.shapes import WORKERS
from benchmarks.sides import SIDES, Joblib, Lazy, Pools, Ray

TOO_LARGE = "not run at this size; see tree"
CHAIN = "a chain has no two calls that could run at once"
MB = 1e6


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    leaves: int
    singles: int  # round trips in one turn
    arrays: int  # bytes of each
    rows: int  # of each chunk
    sweeps: int
    large: int  # bytes
    larges: int  # of them, one after the other, in a fresh process
    calls: int
    many: int


SIZES = {
    "tiny": Size(1, 1, 200, 50, 2**20, 500, 5, 2**24, 2, 8, 1_000),
    "small": Size(3, 1, 1_000, 200, 10_000_000, 5_000, 20, 250_000_000, 3, 32, 10_000),
    "full": Size(5, 3, 2_000, 500, 80_000_000, 20_000, 50, 2_000_000_000, 6, 64, 50_000),
}


class Bench(common.Bench):
    """The libraries that are there, each on two processes."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        dask, joblib = self.peer("dask"), self.peer("joblib")
        self.futures, self.dask_pools = Pools(), Pools()
        self.lazy = {"lazyflow": Lazy(self.lazyflow)}
        if dask:
            self.lazy |= {"dask": Lazy(dask), "dask pool=": Lazy(dask, self.dask_pools)}
        else:
            self.missing["dask pool="] = self.missing["dask"]
        self.joblib = Joblib(joblib) if joblib else None
        self.ray = Ray(store=8 * size.arrays + 2**28) if self.there("ray", "ray") else None

    def sides(self) -> list[str]:
        return [side for side in SIDES if side not in self.missing]

    def __exit__(self, *_: object) -> None:
        for side in (self.ray, self.joblib, self.dask_pools, self.futures):
            if side:
                side.shutdown()
        super().__exit__()


def against_dask(row: Row) -> list[str]:
    """Set the result to dask over lazyflow; put the ratio to a dask whose pool stays in words."""
    row.result = row.ratio("dask", "lazyflow")
    kept = row.ratio("dask pool=", "lazyflow")
    return [] if kept is None else [f"{row.label}: dask pool= / lazyflow is {number(kept)}"]


def timed(label: str, works: dict[str, Callable[[], Any]], right: Any) -> dict[Label, Turn]:
    """Make turns of what each side does, all with one right answer."""
    return {(label, side): partial(clock, work, right) for side, work in works.items()}


def tree(bench: Bench) -> Table:
    """binary tree, inc of every leaf, then added two by two; result = dask / lazyflow"""
    leaves = bench.size.leaves
    tasks = 2 * leaves - 1
    works = tree_works(bench, leaves)
    turns = timed("whole", works, leaves * (leaves + 1) // 2)
    rows, failed = bench.measure(turns, "µs/task", 1e6 / tasks)
    notes = against_dask(rows[0])
    bench.judged(rows[0], Goal(">=", 40), "leaves")
    return bench.table(tree, rows, failed, amount=f"{tasks:,} tasks", notes=notes)


def tree_works(bench: Bench, leaves: int) -> dict[str, Callable[[], Any]]:
    def built_and_run(lib: Lazy) -> Any:
        return lib.compute(shapes.lazy_tree(lib, leaves))[0]

    works: dict[str, Callable[[], Any]] = {
        side: partial(built_and_run, lib) for side, lib in bench.lazy.items()
    }
    if bench.joblib:
        works["joblib"] = partial(shapes.joblib_tree, bench.joblib.library, leaves, "loky")
    if ray := bench.ray:
        works["ray"] = lambda: programs.ray_tree(ray, leaves)
    works["futures"] = lambda: shapes.futures_tree(bench.futures(), leaves, MESSAGES)
    return works


def single(bench: Bench) -> Table:
    """one trivial task there and back, one after the other; result = ms"""
    times = bench.size.singles

    def trips(once: Callable[[], int], times: int) -> float:
        return clock(lambda: {once() for _ in range(times)}, {1}) / times

    turns: dict[Label, Turn] = {}
    for side, lib in bench.lazy.items():
        once = partial(lambda lib, inc: lib.compute(inc(0))[0], lib, lib.delayed(shapes.inc))
        turns["whole", side] = partial(trips, once, 1 if side == "dask" else times)
    if ray := bench.ray:
        turns["whole", "ray"] = partial(trips, programs.ray_call(ray, shapes.inc, 0), times)

    def by_futures() -> int:
        return bench.futures().submit(shapes.inc, 0).result()

    turns["whole", "futures"] = partial(trips, by_futures, times)
    rows, failed = bench.measure(turns, "ms", 1e3)
    if not rows[0].broken:
        rows[0].result = rows[0].median("lazyflow")
    bench.judged(rows[0], Goal("<=", 0.15), "singles")
    return bench.table(single, rows, {"joblib": "runs a single call in the caller"}, failed)


class Counted:
    """A turn of lazyflow's, with the bytes of values that it sent through this process."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.megabytes: list[float] = []

    def __call__(self) -> float:
        before = pool_facts()
        seconds = self.turn()
        after = pool_facts()
        if not after.pids:
            raise RuntimeError("lazyflow.schedulers.info() knows of no worker process")
        self.megabytes.append((after.through_parent_bytes - before.through_parent_bytes) / MB)
        return seconds


def arrays(bench: Bench) -> Table:
    """four arrays made by tasks, read twice each, then in pairs; result = dask / lazyflow"""
    count, size = 4, bench.size.arrays
    counted: list[Counted] = []
    turns: dict[Label, Turn] = {}
    for label, program in (("two readers", programs.READERS), ("pairs", programs.NEIGHBOURS)):
        works: dict[str, Callable[[], Any]] = {
            side: partial(program.lazy, lib, count, size) for side, lib in bench.lazy.items()
        }
        if bench.joblib:
            works["joblib"] = partial(program.joblib, bench.joblib, count, size)
        if ray := bench.ray:
            works["ray"] = partial(program.ray, ray, count, size)
        works["futures"] = partial(program.futures, bench.futures, count, size)
        of_label = timed(label, works, program.right(count, size))
        counted.append(Counted(of_label[label, "lazyflow"]))
        turns |= of_label | {(label, "lazyflow"): counted[-1]}
    rows, failed = bench.measure(turns, "ms", 1e3, patience=3.0)
    notes = [note for row in rows for note in against_dask(row)]
    bench.judged(rows[0], Goal(">=", 20), "arrays")
    for row, turn in zip(rows[:2], counted, strict=True):
        passed = Row(f"{row.label}, by parent", "MB", broken=row.broken)
        if not row.broken:
            passed.samples["lazyflow"] = turn.megabytes[1:]
            passed.result = max(turn.megabytes)
        bench.judged(passed, Goal("<=", 0.1), "arrays")
        rows.append(passed)
    amount = f"{count} x {size / MB:,.0f} MB"
    return bench.table(arrays, rows, failed, amount=amount, notes=notes)


def sweep(bench: Bench) -> Table:
    """a state handed along four kept chunks by a Numba kernel (SAGA); result = dask / lazyflow"""
    from benchmarks import sweeps

    count, rows_each, many = 4, bench.size.rows, bench.size.sweeps
    chunks = [sweeps.chunk(i, rows_each) for i in range(count)]
    state = sweeps.zeros(count, rows_each)
    lazy_chunks = cache(partial(sweeps.lazy_chunks, count=count, rows=rows_each))
    ray_chunks = cache(partial(sweeps.ray_chunks, count=count, rows=rows_each))

    def by_lazy(lib: Lazy, kernel: Any, times: int) -> np.ndarray:
        return sweeps.lazy_sweeps(lib, kernel, lazy_chunks(lib), state, times)

    def by_ray(ray: Ray, kernel: Any) -> np.ndarray:
        return sweeps.ray_sweeps(ray, kernel, ray_chunks(ray), state, many)

    def by_futures(kernel: Any) -> np.ndarray:
        return sweeps.futures_sweeps(bench.futures, kernel, chunks, state, 1)

    turns: dict[Label, Turn] = {}
    right = {n: sweeps.in_process(sweeps.compiled, chunks, state, n) for n in (1, many)}

    def turn(work: Callable[[], np.ndarray], times: int) -> float:
        return clock(lambda: np.array_equal(work(), right[times]), True) / times

    for label, kernel in (("@njit", sweeps.compiled), ("cached, in a def", sweeps.from_disk)):
        for side, lib in bench.lazy.items():
            times = many if side == "lazyflow" else 1
            turns[label, side] = partial(turn, partial(by_lazy, lib, kernel, times), times)
        if ray := bench.ray:
            turns[label, "ray"] = partial(turn, partial(by_ray, ray, kernel), many)
        turns[label, "futures"] = partial(turn, partial(by_futures, kernel), 1)
    rows, failed = bench.measure(turns, "ms/sweep", 1e3, patience=3.0)
    notes = [note for row in rows for note in against_dask(row)]
    bench.judged(rows[0], Goal(">=", 50), "rows", "sweeps")
    rows.append(compiled(bench, rows[0].broken))
    amount = f"{count} x {rows_each:,} rows, {many} sweeps"
    return bench.table(sweep, rows, {"joblib": CHAIN}, failed, amount=amount, notes=notes)


def compiled(bench: Bench, broken: bool) -> Row:
    """Count how often a worker has compiled the kernel, by tasks that look; at the most."""
    from benchmarks import sweeps

    row = Row("compilations a worker", "times", broken=broken)
    if not broken:
        lib = bench.lazy["lazyflow"]
        look = lib.delayed(sweeps.compilations)
        told = lib.compute([look(0.05) for _ in range(4 * WORKERS)])[0]
        row.result = max(times for _, times in told)
        row.samples["lazyflow"] = [times for _, times in dict(told).items()]
    bench.judged(row, Goal("<=", 1), "sweeps")
    return row


LARGE: dict[tuple[str, str], Callable[[list[dict[str, float]]], list[float]]] = {
    ("first", "s"): lambda turns: [turns[0]["seconds"]],
    ("later", "s"): lambda turns: [turn["seconds"] for turn in turns[1:]],
    ("later, read once", "s"): lambda turns: [turn["with_read"] for turn in turns[1:]],
    ("growth untouched", "MB"): lambda turns: [turns[0]["grown"] / MB],
    ("most at first", "MB"): lambda turns: [turns[0]["peak"] / MB],
}


def large(bench: Bench) -> Table:
    """one array returned to the caller, in a fresh process; result = lazyflow / Ray, or MB"""
    size, times = bench.size.large, bench.size.larges
    found: dict[str, list[dict[str, float]]] = {}
    failed: dict[str, str] = {}
    size_touched = min(4 * size, half_of_memory())
    bench.child("-c", f"from benchmarks.memory import touched; touched({size_touched})")
    for side in bench.sides():
        if side == "dask pool=":
            continue
        turns = times if side in ("lazyflow", "ray") else 1  # of 10 s and more at full size
        try:
            told = bench.child("-m", "benchmarks.large", side, str(size), str(turns))
            found[side] = json.loads(told.splitlines()[-1])
        except RuntimeError as error:
            failed[side] = f"failed: {error}"
    rows = []
    for (label, unit), of in LARGE.items():
        row = Row(label, unit, {side: of(turns) for side, turns in found.items() if of(turns)})
        row.broken = "lazyflow" in failed
        row.result = row.ratio("lazyflow", "ray") if unit == "s" else None
        rows.append(row)
    first, later, _, growth, _ = rows
    bench.judged(first, Goal("<=", 1), "large")
    bench.judged(later, Goal("<=", 1), "large", "larges")
    bench.judged(growth, Goal("<=", 10), "large")
    if "lazyflow" in found:
        growth.result = growth.median("lazyflow")
    amount = f"{size / MB:,.0f} MB, {times} times"
    why = {"dask pool=": "as dask, within the time that a pool takes to start"}
    return bench.table(large, rows, why, failed, amount=amount)


def cores(bench: Bench) -> Table:
    """calls of 5 ms that hold the GIL (plain Python); result = time on 1 worker / on 2"""
    calls, loops = bench.size.calls, programs.loops_for(5e-3)
    given = [loops] * calls

    def by_lazy(lib: Lazy, workers: int) -> list[int]:
        spin = lib.delayed(programs.spin)
        return list(lib.compute(*map(spin, given), workers=workers))

    def by_futures(workers: int) -> list[int]:
        return list(bench.futures(workers).map(programs.spin, given))

    idle = measure.idle_words()
    turns: dict[Label, Turn] = {}
    for n, label in ((1, "1 worker"), (2, "2 workers")):
        works: dict[str, Callable[[], Any]] = {
            side: partial(by_lazy, lib, n) for side, lib in bench.lazy.items()
        }
        if bench.joblib:
            works["joblib"] = partial(bench.joblib.map, programs.spin, given, workers=n)
        if ray := bench.ray:
            cpus = WORKERS // n  # of the two, so that as many calls run as there are workers
            works["ray"] = partial(programs.ray_map, ray, programs.spin, given, cpus=cpus)
        works["futures"] = partial(by_futures, n)
        turns |= timed(label, works, [programs.spin(loops)] * calls)
    rows, failed = bench.measure(turns, "ms", 1e3)
    notes = [idle, bench.judged_gain(rows, 1.85)]
    return bench.table(cores, rows, failed, amount=f"{calls} calls", notes=notes)


#: By side: what is imported before the clock runs, and what computes `FUNC` of `VALUE`.
STARTS = {
    "lazyflow": (
        "import lazyflow",
        "lazyflow.compute(lazyflow.delayed(FUNC)(VALUE), scheduler='processes', num_workers=2)",
    ),
    "dask": (
        "import dask, dask.multiprocessing",
        "dask.compute(dask.delayed(FUNC)(VALUE), scheduler='processes', num_workers=2)",
    ),
    "joblib": (
        "import joblib",
        "joblib.Parallel(n_jobs=2)(joblib.delayed(FUNC)(VALUE) for _ in range(2))",
    ),
    "ray": (
        "import os, ray",
        "ray.init('local', num_cpus=2, include_dashboard=False, logging_level='error',"
        " log_to_driver=False, _temp_dir=os.getcwd());"
        "ray.get(ray.remote(lambda x: FUNC(x)).remote(VALUE))",
    ),
    "futures": (
        "from concurrent.futures import ProcessPoolExecutor; import multiprocessing",
        "ProcessPoolExecutor(2, multiprocessing.get_context('spawn')).submit(FUNC, VALUE).result()",
    ),
}


def starting(bench: Bench) -> Table:
    """a pool's first result, in a fresh `python -c`, counted from the first call; result = s"""
    whole: dict[Label, list[float]] = {}

    def start(label: str, side: str, func: str, value: str) -> float:
        imports, work = STARTS[side]
        call = work.replace("FUNC", func).replace("VALUE", value)
        code = (
            f"import numpy, time; {imports}\nbegun = time.perf_counter()\n{call}\n"
            "print(time.perf_counter() - begun)"
        )
        told: list[str] = []
        seconds = clock(lambda: told.append(bench.child("-c", code)))
        whole.setdefault((label, side), []).append(seconds)
        return float(told[0])

    turns: dict[Label, Turn] = {}
    goals = {"first": Goal("<=", 0.2), "first of NumPy": Goal("<=", 0.35)}
    for label, func, value in (("first", "abs", "-1"), ("first of NumPy", "numpy.ones", "3")):
        for side in STARTS:
            if side not in bench.missing:
                turns[label, side] = partial(start, label, side, func, value)
    rows, failed = bench.measure(turns, "s", 1, patience=3.0)
    for row in list(rows):
        row.result = None if row.broken else row.median("lazyflow")
        bench.judged(row, goals[row.label])
        times = {s: v[1:] for (label, s), v in whole.items() if label == row.label and v[1:]}
        rows.append(Row(f"{row.label}, process", "s", times))
    why = {"dask pool=": "a pool that stays is not started"}
    return bench.table(starting, rows, why, failed)


def many(bench: Bench) -> Table:
    """the tree, large, and once more twice as large; result = s, and how many times the time"""
    leaves = bench.size.many
    works = {n: tree_works(bench, n)["lazyflow"] for n in (leaves // 2, leaves)}
    turns: dict[Label, Turn] = {}
    for n, work in works.items():
        turns |= timed(f"{2 * n:,} tasks", {"lazyflow": work}, n * (n + 1) // 2)
    rows, failed = bench.measure(turns, "s", 1)
    growth = Row("twice as many", "times", broken=rows[0].broken)
    if not growth.broken:
        half, full = (row.samples["lazyflow"] for row in rows)
        growth.samples["lazyflow"] = [b / a for a, b in zip(half, full, strict=False)]
        growth.result = median(growth.samples["lazyflow"])
        rows[1].result = median(full)
    bench.judged(rows[1], Goal("<=", 2), "many")
    bench.judged(growth, Goal("<=", 2.4), "many")
    why = dict.fromkeys(SIDES[1:], TOO_LARGE)
    return bench.table(many, [*rows, growth], why, failed)


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case for case in (tree, single, arrays, sweep, large, cores, starting, many)
}

main = Suite(
    name="processes",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask", "joblib", "ray", "numba"),
    make=Bench,
    alike=f"{WORKERS} worker processes on every side",
    durations="tiny takes half a minute, small two minutes, full five; goals are for full",
).main
