"""Programs of dask that run on lazyflow's workers by one line, beside the same on dask's own.

Every case is a function of one `Bench` and gives one `Table`. The work of a row is the same on all
sides and is made with the neighbour's own functions; "lazyflow" is that work on lazyflow's workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

from benchmarks import bench as common
from benchmarks import shapes
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Table, Turn, clock

SIDES = ("lazyflow", "dask")


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    leaves: int


SIZES = {
    "tiny": Size(2, 1, 200),
    "small": Size(5, 3, 5_000),
    "full": Size(9, 5, 5_000),
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


CASES: dict[str, Callable[[Bench], Table]] = {case.__name__: case for case in (tasks_of_dask,)}


main = Suite(
    name="neighbours",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask"),
    make=Bench,
    alike=f"{shapes.WORKERS} workers on every side",
    durations="tiny takes seconds, small and full half a minute; goals are for full",
).main
