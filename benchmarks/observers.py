"""What it costs a task to be watched: by a counter, by ProgressBar, by profile, or not at all.

``profile(sample=None)`` has no thread that looks where tasks are; the row after it says what such
a thread adds.

The graph is a binary tree of tasks that do next to nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
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
    "small": Size(7, 3, 2_000),
    "full": Size(15, 5, 5_000),
}


class Bench(common.Bench):
    """lazyflow, and dask with its own bar and profiler."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self.dask = self.peer("dask")


def _counting(tasks: int) -> AbstractContextManager[Any]:
    """Return a block in which an observer counts what it hears, and must hear of all tasks."""
    from lazyflow.api.evaluate import observers
    from lazyflow.schedulers.core.base import Observer

    class Counter(Observer):
        started = ended = 0

        def task_started(self, run: Any, i: int) -> None:
            self.started += 1

        def task_ended(self, run: Any, i: int) -> None:
            self.ended += 1

        def __enter__(self) -> None:
            self.token = observers.set((self,))

        def __exit__(self, *_: object) -> None:
            observers.reset(self.token)
            if (self.started, self.ended) != (tasks, tasks):
                raise AssertionError(f"of {tasks} tasks {self.started}, {self.ended} were heard")

    return Counter()


def _counting_by_dask() -> AbstractContextManager[Any]:
    from dask.callbacks import Callback

    heard = [0, 0]

    def before(*_: Any) -> None:
        heard[0] += 1

    def after(*_: Any) -> None:
        heard[1] += 1

    found: AbstractContextManager[Any] = Callback(pretask=before, posttask=after)
    return found


def _watchers(bench: Bench, tasks: int) -> dict[Label, Callable[[], AbstractContextManager[Any]]]:
    """Return what makes the block of each row and side."""
    lib = bench.lazyflow
    found: dict[Label, Callable[[], AbstractContextManager[Any]]] = {
        ("unobserved", "lazyflow"): nullcontext,
        ("a counter", "lazyflow"): partial(_counting, tasks),
        ("ProgressBar", "lazyflow"): lambda: lib.ProgressBar(file=io.StringIO()),
        ("profile(sample=None)", "lazyflow"): lambda: lib.profile(sample=None),
        ("profile", "lazyflow"): lib.profile,
    }
    if bench.dask:
        from dask.diagnostics import Profiler
        from dask.diagnostics import ProgressBar as Bar

        found["unobserved", "dask"] = nullcontext
        found["a counter", "dask"] = _counting_by_dask
        found["ProgressBar", "dask"] = lambda: Bar(out=io.StringIO())
        found["profile", "dask"] = Profiler
    return found


def _table(
    bench: Bench, case: Callable[[Bench], Table], scheduler: str, goal: Goal | None = None
) -> Table:
    leaves = bench.size.leaves
    tasks, right = 2 * leaves - 1, leaves * (leaves + 1) // 2

    def watched(watcher: Callable[[], AbstractContextManager[Any]], side: str) -> float:
        lib = bench.lazyflow if side == "lazyflow" else bench.dask

        def work() -> Any:
            with watcher():
                graph = shapes.lazy_tree(lib, leaves)
                return lib.compute(graph, scheduler=scheduler, num_workers=shapes.WORKERS)[0]

        return clock(work, right)

    turns: dict[Label, Turn] = {
        label: partial(watched, watcher, label[1])
        for label, watcher in _watchers(bench, tasks).items()
    }
    rows, failed = bench.measure(turns, "µs/task", 1e6 / tasks)
    unobserved, *others = rows
    for row in others:
        if not row.broken:
            row.result = row.median("lazyflow") - unobserved.median("lazyflow")
    if goal is not None:
        for row in others[0], others[-1]:
            bench.judged(row, goal, "leaves")
    return bench.table(case, rows, failed, amount=f"{tasks:,} tasks")


def sync(bench: Bench) -> Table:
    """in the caller's thread; result = µs that each adds to a lazyflow task"""
    return _table(bench, sync, "sync", Goal("<=", 1.5))


def threads(bench: Bench) -> Table:
    """on two threads; result = µs that each adds to a lazyflow task"""
    return _table(bench, threads, "threads", Goal("<=", 1.5))


def processes(bench: Bench) -> Table:
    """on two processes; result = µs that each adds to a lazyflow task"""
    return _table(bench, processes, "processes")


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case for case in (sync, threads, processes)
}


main = Suite(
    name="observers",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask"),
    make=Bench,
    alike=f"{shapes.WORKERS} workers on every side",
    durations="tiny takes seconds, small half a minute, full minutes; goals are for full",
).main
