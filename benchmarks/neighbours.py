"""Programs of dask, joblib and concurrent.futures on lazyflow's workers, beside their own.

Every case is a function of one `Bench` and gives one `Table`. The work of a row is the same on all
sides and is made with the neighbour's own functions; "lazyflow" is that work on lazyflow's workers,
"joblib" on those of loky, "futures" on the standard library's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks import shapes
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Row, Table, Turn, clock

SIDES = ("lazyflow", "dask", "joblib", "futures")


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    leaves: int
    partitions: int
    rows: int  # of each partition
    days: int  # of which each is a chunk of a file
    calls: int
    megabytes: int  # of the rows of a forest


SIZES = {
    "tiny": Size(2, 1, 200, 5, 100, 10, 100, 1),
    "small": Size(5, 3, 5_000, 100, 2_000, 100, 3_000, 20),
    "full": Size(9, 5, 5_000, 100, 20_000, 1_000, 3_000, 100),
}


class Bench(common.Bench):
    """The neighbours that are there."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self.dask = self.peer("dask")

    def gets(self) -> dict[str, Callable[..., Any]]:
        """Return by side the schedulers on threads that dask's collections can use."""
        if not self.dask:
            return {}
        import dask.threaded

        from lazyflow.interop.dask import get

        return {"lazyflow": get, "dask": dask.threaded.get}


def tasks_of_dask(bench: Bench) -> Table:
    """binary tree of dask's tasks on 2 threads; result = dask / lazyflow"""
    leaves = bench.size.leaves
    tasks, right = 2 * leaves - 1, leaves * (leaves + 1) // 2
    turns: dict[Label, Turn] = {}
    for side, get in bench.gets().items():
        how = {"scheduler": get, "num_workers": shapes.WORKERS}
        graph, root = tree(leaves)
        work = partial(get, graph, root, num_workers=shapes.WORKERS)
        turns["get(graph, key)", side] = partial(clock, work, right)
        lazy = shapes.lazy_tree(bench.dask, leaves)
        turns["compute() of delayed", side] = partial(clock, partial(lazy.compute, **how), right)
    rows, failed = bench.measure(turns, "µs/task", 1e6 / tasks)
    for row in rows:
        row.result = row.ratio("dask", "lazyflow")
        bench.judged(row, Goal(">=", 10), "leaves")
    return bench.table(tasks_of_dask, rows, failed, amount=f"{tasks:,} tasks")


def tree(leaves: int) -> tuple[dict[str, Any], str]:
    """Return a graph of dask's tasks, inc of every leaf, then added two by two, and its root."""
    from dask._task_spec import Task, TaskRef

    graph = {f"inc-{i}": Task(f"inc-{i}", shapes.inc, i) for i in range(leaves)}
    level = list(graph)
    while len(level) > 1:
        above = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            key = f"add-{len(graph)}"
            graph[key] = Task(key, add, TaskRef(left), TaskRef(right))
            above.append(key)
        level = above + level[len(level) // 2 * 2 :]
    return graph, level[0]


def collections_of_dask(bench: Bench) -> Table:
    """collections of dask, and xarray over dask, on 2 threads; result = dask / lazyflow"""
    turns: dict[Label, Turn] = {}
    with tempfile.TemporaryDirectory(prefix="lazyflow-bench-") as folder:
        for label, made in _programs(bench, folder).items():
            right = made.compute(scheduler="sync")
            for side, get in bench.gets().items():
                turn = partial(_computed, made, right, scheduler=get, num_workers=shapes.WORKERS)
                turns[label, side] = turn
        rows, failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        row.result = row.ratio("dask", "lazyflow")
        bench.judged(row, Goal(">=", 1), "partitions", "rows", "days")
    return bench.table(collections_of_dask, rows, failed)


def _computed(made: Any, right: Any, **how: Any) -> float:
    start = time.perf_counter()
    answer = made.compute(**how)
    seconds = time.perf_counter() - start
    if not (answer.equals(right) if hasattr(right, "equals") else np.array_equal(answer, right)):
        raise AssertionError(f"wrong answer: {str(answer)[:80]}")
    return seconds


def _programs(bench: Bench, folder: str) -> dict[str, Any]:
    """Return collections of dask that are not computed yet, by what they do."""
    found: dict[str, Any] = {}
    size = bench.size
    if not bench.dask:
        return found
    if bench.there("pandas") and bench.there("pyarrow"):
        import dask.dataframe as dd
        import pandas as pd

        rows = np.arange(size.partitions * size.rows)
        frame = pd.DataFrame({"key": rows * 7919 % 100, "value": rows * 0.5})
        parts = dd.from_pandas(frame, npartitions=size.partitions)
        found["frame.groupby.agg"] = parts.groupby("key").value.agg(["sum", "max", "count"])
    import dask.array as da
    import dask.bag as db

    bag = db.from_sequence(range(size.partitions * size.rows // 10), npartitions=size.partitions)
    found["bag.map.sum"] = bag.map(shapes.inc).filter(_is_odd).sum()
    x = da.arange(size.days * size.days, chunks=size.days).reshape(size.days, size.days)
    found["array.mean"] = (x + 1).mean(axis=0)
    if bench.there("xarray") and bench.there("zarr"):
        import xarray as xr

        shape = size.days, 120, 180
        data = np.random.default_rng(0).random(shape, dtype="f4")
        field = xr.Dataset({"t": (("time", "y", "x"), data)}).chunk(time=1)
        field.to_zarr(folder, consolidated=False)
        found["xr.open_zarr.mean"] = xr.open_zarr(folder, consolidated=False).t.mean("time")
    return found


def _is_odd(n: int) -> bool:
    return n % 2 == 1


def calls_of_joblib(bench: Bench) -> Table:
    """Parallel of calls that take no time, on 2 processes; result = joblib / lazyflow"""
    calls = bench.size.calls
    right = list(range(calls))
    turns: dict[Label, Turn] = {}
    if bench.peer("joblib"):
        for side, backend in backends().items():
            turns["tiny calls", side] = partial(clock, partial(tiny_calls, backend, calls), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        row.result = row.ratio("joblib", "lazyflow")
        bench.judged(row, Goal(">=", 1), "calls")
    return bench.table(calls_of_joblib, rows, failed, amount=f"{calls:,} calls")


def backends() -> dict[str, str]:
    """Return joblib's names of where it runs calls, by side."""
    import lazyflow.interop.joblib  # noqa: F401  # registers it

    return {"lazyflow": "lazyflow", "joblib": "loky"}


def tiny_calls(backend: str, count: int) -> list[int]:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend=backend, n_jobs=shapes.WORKERS):
        return list(Parallel()(delayed(abs)(-i) for i in range(count)))


def forest(bench: Bench) -> Table:
    """a forest of 8 small trees of scikit-learn; result = joblib / lazyflow"""
    features = 50
    rows_count = bench.size.megabytes * 10**6 // (8 * features)
    turns: dict[Label, Turn] = {}
    if bench.peer("joblib") and bench.there("sklearn", "scikit-learn"):
        random = np.random.default_rng(0)
        x = random.normal(size=(rows_count, features))
        y = (x[:, 0] > 0).astype(int)
        for side, backend in backends().items():
            turns["fit", side] = partial(clock, partial(fitted_trees, backend, x, y), 8)
    rows, failed = bench.measure(turns, "s", 1, patience=20)
    for row in rows:
        row.result = row.ratio("joblib", "lazyflow")
        bench.judged(row, Goal(">=", 1.3), "megabytes")
    return bench.table(forest, rows, failed, amount=f"{bench.size.megabytes} MB of rows")


def fitted_trees(backend: str, x: Any, y: Any) -> int:
    from joblib import parallel_config
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(
        8, max_depth=2, max_features=2, max_samples=0.1, random_state=0, n_jobs=shapes.WORKERS)
    with parallel_config(backend=backend, n_jobs=shapes.WORKERS):
        return len(model.fit(x, y).estimators_)


def executor_on_threads(bench: Bench) -> Table:
    """an Executor's calls that take no time, on 2 threads; result = futures / lazyflow"""
    from concurrent.futures import ThreadPoolExecutor

    with (
        bench.lazyflow.Executor("threads", shapes.WORKERS) as ours,
        ThreadPoolExecutor(shapes.WORKERS) as theirs,
    ):
        return executors(bench, executor_on_threads, {"lazyflow": ours, "futures": theirs}, 1)


def executor_on_processes(bench: Bench) -> Table:
    """an Executor's calls that take no time, on 2 processes; result = futures / lazyflow"""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ExitStack() as ends:
        sides = {
            "lazyflow": bench.lazyflow.Executor("processes", shapes.WORKERS),
            "futures": ProcessPoolExecutor(shapes.WORKERS, get_context("forkserver")),
        }
        if bench.peer("joblib"):
            from joblib.externals.loky import get_reusable_executor

            sides["joblib"] = get_reusable_executor(shapes.WORKERS)  # ended for joblib's own
        for executor in sides.values():
            ends.enter_context(executor)
        return executors(bench, executor_on_processes, sides, 2)


def executors(
    bench: Bench, case: Callable[[Bench], Table], sides: dict[str, Any], least: float
) -> Table:
    """Have executors make calls; the goal is `least` where many are under way together."""
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for label, work, calls, goal in (
        ("submit", submitted, bench.size.calls, least),
        ("map", mapped, bench.size.calls, least),
        ("one by one", one_by_one, bench.size.calls // 10, 1),
    ):
        turns: dict[Label, Turn] = {
            (label, side): partial(clock, partial(work, executor, calls), sum(range(calls)))
            for side, executor in sides.items()
        }
        found, broken = bench.measure(turns, "µs/call", 1e6 / calls)
        for row in found:
            row.result = row.ratio("futures", "lazyflow")
            bench.judged(row, Goal(">=", goal), "calls")
        rows += found
        failed |= broken
    return bench.table(case, rows, failed, amount=f"{bench.size.calls:,} calls")


def submitted(executor: Any, count: int) -> int:
    futures = [executor.submit(abs, -i) for i in range(count)]
    return sum([future.result() for future in futures])


def mapped(executor: Any, count: int) -> int:
    return sum(executor.map(abs, range(0, -count, -1)))


def one_by_one(executor: Any, count: int) -> int:
    return sum([executor.submit(abs, -i).result() for i in range(count)])


ALL = (
    tasks_of_dask, collections_of_dask, calls_of_joblib, forest, executor_on_threads,
    executor_on_processes,
)
CASES: dict[str, Callable[[Bench], Table]] = {case.__name__: case for case in ALL}


main = Suite(
    name="neighbours",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask", "joblib", "scikit-learn"),
    make=Bench,
    alike=f"{shapes.WORKERS} workers on every side",
    durations="tiny takes seconds, small and full a minute; goals are for full",
).main
