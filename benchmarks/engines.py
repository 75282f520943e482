"""What work on engines costs: lazyflow on distributed and on Ray, and each engine alone.

Every case is a function of one `Bench` and gives one `Table`, as in `processes`. The engine alone
and lazyflow on it take turns on the same cluster, of two workers with a thread each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import bench as common
from benchmarks import eager, shapes
from benchmarks import process_shapes as programs
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Row, Table, Turn, clock
from benchmarks.shapes import WORKERS
from benchmarks.sides import Distributed, Ray

SIDES = ("lazyflow", "dask", "ray", "by hand")


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    leaves: int
    calls: int  # of a millisecond
    put: int  # bytes
    batch: tuple[int, int]  # rows and columns


SIZES = {
    "tiny": Size(1, 1, 100, 100, 2**20, (50, 20)),
    "small": Size(3, 1, 1_000, 2_000, 10_000_000, (500, 200)),
    "full": Size(5, 1, 1_000, 20_000, 80_000_000, (500, 2_000)),
}


class Bench(common.Bench):
    """The engines that are there, each started on first use."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        there = self.there("distributed") and self.there("dask")
        self.distributed = Distributed() if there else None
        if not there:
            self.missing["dask"] = self.missing.pop("distributed", "not installed")
        self.ray = Ray() if self.there("ray", "'lazyflow[ray]'") else None

    def compute(self, graph: Any, scheduler: str) -> Any:
        """Compute on lazyflow, on an engine that is there."""
        return self.lazyflow.compute(graph, scheduler=scheduler)[0]

    def __exit__(self, *_: object) -> None:
        self.lazyflow.shutdown()
        for engine in (self.distributed, self.ray):
            if engine:
                engine.shutdown()
        super().__exit__()


Works = dict[Label, Callable[[], Any]]


def works_of(bench: Bench, graph: Callable[[Any], Any], ray_alone: Callable[[Ray], Any]) -> Works:
    """Return what lazyflow and each engine do: `graph` makes a lazy value of a library."""
    works: Works = {}
    if bench.distributed:
        import dask

        distributed = bench.distributed
        works["on distributed", "lazyflow"] = lambda: (
            distributed() and bench.compute(graph(bench.lazyflow), "distributed"))
        works["on distributed", "dask"] = lambda: distributed().compute(graph(dask)).result()
    if ray := bench.ray:
        works["on Ray", "lazyflow"] = lambda: (
            ray() and bench.compute(graph(bench.lazyflow), "ray"))
        works["on Ray", "ray"] = lambda: ray_alone(ray)
    return works


def compared(bench: Bench, works: Works, right: Any, unit: str, scale: float) -> Any:
    """Let the sides take turns; the result of a row is the engine alone over lazyflow on it."""
    turns: dict[Label, Turn] = {k: partial(clock, work, right) for k, work in works.items()}
    rows, failed = bench.measure(turns, unit, scale, patience=3.0)
    for row in rows:
        engine = "dask" if row.label == "on distributed" else "ray"
        row.result = row.ratio(engine, "lazyflow")
    return rows, failed


def tree(bench: Bench) -> Table:
    """binary tree, inc of every leaf, then added two by two; result = engine alone / lazyflow"""
    leaves = bench.size.leaves
    tasks = 2 * leaves - 1
    works = works_of(
        bench,
        lambda lib: shapes.lazy_tree(lib, leaves),
        lambda ray: programs.ray_tree(ray, leaves),
    )
    rows, failed = compared(bench, works, leaves * (leaves + 1) // 2, "µs/task", 1e6 / tasks)
    goals = {"on distributed": 10, "on Ray": 5}
    for row in rows:
        bench.judged(row, Goal(">=", goals[row.label]), "leaves")
    return bench.table(tree, rows, failed, amount=f"{tasks:,} tasks")


def busy(bench: Bench) -> Table:
    """calls of 1 ms that hold the GIL, and their sum; result = engine alone / lazyflow"""
    calls, loops = bench.size.calls, programs.loops_for(1e-3)
    right = programs.spin(loops) * calls

    def graph(lib: Any) -> Any:
        spin = lib.delayed(programs.spin)
        return lib.delayed(sum)([spin(loops) for _ in range(calls)])

    def ray_alone(ray: Ray) -> Any:
        return sum(programs.ray_map(ray, programs.spin, [loops] * calls))

    works = works_of(bench, graph, ray_alone)
    rows, failed = compared(bench, works, right, "s", 1)
    goals = {"on distributed": 3, "on Ray": 1.2}
    one = clock(lambda: [programs.spin(loops) for _ in range(100)]) / 100
    for row in list(rows):
        bench.judged(row, Goal(">=", goals[row.label]), "calls")
        share = Row(f"{row.label}, both busy", "of 1", broken=row.broken)
        share.samples = {
            side: [one * calls / WORKERS / seconds for seconds in times]
            for side, times in row.samples.items()
        }
        rows.append(share)
    return bench.table(busy, rows, failed, amount=f"{calls:,} calls")


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case for case in (tree, busy, eager.put, eager.gradient)
}

main = Suite(
    name="engines",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask", "distributed", "ray"),
    make=Bench,
    alike=f"one cluster of each engine, {WORKERS} workers with a thread each",
    durations="tiny takes half a minute, small one, full a quarter of an hour; goals are for full",
).main
