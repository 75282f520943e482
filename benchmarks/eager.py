"""The eager half on processes: values put once, gradients of kept batches."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from functools import cache, partial
from operator import add
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.measure import Goal, Label, Table, Turn, clock
from benchmarks.shapes import WORKERS

MB = 1e6


# -- put ------------------------------------------------------------------------------------


def first_and_size(array: np.ndarray) -> tuple[float, int]:
    return float(array[0]), array.size


def put(bench: Any) -> Table:
    """one array given to the workers, and tasks that read it; result = lazyflow / Ray"""
    size, readers = bench.size.put, 50
    array = np.ones(size // 8)
    lib = bench.lazyflow
    right = [(1.0, array.size)] * readers

    def read_by_lazyflow(reference: Any) -> Any:
        futures = lib.map(first_and_size, [reference] * readers, scheduler="processes",
                          num_workers=WORKERS)
        return [f.result() for f in futures]

    turns: dict[Label, Turn] = {
        ("put", "lazyflow"): lambda: clock(
            lambda: lib.put(array, scheduler="processes") is not None, True
        ),
    }
    ours = lib.put(array, scheduler="processes")
    turns["50 readers", "lazyflow"] = lambda: clock(lambda: read_by_lazyflow(ours), right)
    if ray := bench.ray:
        remote = ray().remote(first_and_size)
        theirs = ray().put(array)
        turns["put", "ray"] = lambda: clock(lambda: ray().put(array) is not None, True)
        turns["50 readers", "ray"] = lambda: clock(
            lambda: ray().get([remote.remote(theirs) for _ in range(readers)]), right
        )
    rows, failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        row.result = row.ratio("lazyflow", "ray")
        bench.judged(row, Goal("<=", 1), "put")
    return bench.table(put, rows, failed, amount=f"{size / MB:,.0f} MB, {readers} readers")


# -- gradients ------------------------------------------------------------------------------


def batch(i: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(i)
    return rng.standard_normal((rows, columns)), rng.integers(0, 2, rows) * 2.0 - 1


def gradient_of(theta: np.ndarray, data: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the gradient of the logistic loss of one batch."""
    x, y = data
    margins = y * (x @ theta)
    return -(x.T @ (y / (1 + np.exp(margins))))


def holding(connection: Any, numbers: list[int], rows: int, columns: int) -> None:
    """Be one of the hand-written workers: hold batches, answer a parameter by their gradient."""
    batches = [batch(i, rows, columns) for i in numbers]
    while (theta := connection.recv()) is not None:
        connection.send(sum(gradient_of(theta, data) for data in batches))


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class ByHand:
    """Two processes that hold half of the batches each, with as many BLAS threads as ours have.

    With a pool of all cores in each they are 2 to 20 times as slow on a machine that is not quiet.
    """

    def __init__(self, count: int, rows: int, columns: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends = []
        self._processes = []
        for worker in range(WORKERS):
            mine, theirs = context.Pipe()
            numbers = list(range(worker, count, WORKERS))
            process = context.Process(
                target=holding, args=(theirs, numbers, rows, columns), daemon=True
            )
            with patch.dict(os.environ, ONE_THREAD):
                process.start()
            theirs.close()
            self._ends.append(mine)
            self._processes.append(process)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        for end in self._ends:
            end.send(theta)
        found: np.ndarray = sum(end.recv() for end in self._ends)
        return found

    def close(self) -> None:
        for end, process in zip(self._ends, self._processes, strict=True):
            end.send(None)
            process.join()
            end.close()


def summed_by_ray(ray: Any, theta: np.ndarray, parts: list[Any]) -> Callable[[], np.ndarray]:
    """Return what sums the gradients of batches that Ray keeps."""
    remote = ray().remote(gradient_of)
    held = cache(lambda: [ray().put(data) for data in parts])

    def work() -> np.ndarray:
        point = ray().put(theta)
        found: np.ndarray = sum(ray().get([remote.remote(point, data) for data in held()]))
        return found

    return work


def gradient(bench: Any) -> Table:
    """one L-BFGS gradient of kept batches, parameters put once; result = lazyflow / by hand"""
    count, (rows_each, columns), times = 16, bench.size.batch, 10
    lib = bench.lazyflow
    theta = np.linspace(-1, 1, columns) / columns
    parts = [batch(i, rows_each, columns) for i in range(count)]
    right = sum(gradient_of(theta, data) for data in parts)

    @cache
    def kept() -> list[Any]:
        return [lib.put(data, scheduler="processes") for data in parts]

    part_of = lib.delayed(gradient_of)

    def parts_of_it() -> list[Any]:
        point = lib.put(theta, scheduler="processes")
        return [part_of(point, data) for data in kept()]

    def summed_here() -> np.ndarray:
        (found,) = lib.compute(parts_of_it(), scheduler="processes", num_workers=WORKERS)
        whole: np.ndarray = sum(found)
        return whole

    def summed_there() -> np.ndarray:
        whole = lib.tree_reduce(add, parts_of_it())
        found: np.ndarray = whole.compute(scheduler="processes", num_workers=WORKERS)
        return found

    def turn(work: Callable[[], np.ndarray]) -> float:
        return clock(lambda: all(np.allclose(work(), right) for _ in range(times)), True) / times

    by_hand = ByHand(count, rows_each, columns)
    turns: dict[Label, Turn] = {
        ("whole", "lazyflow"): partial(turn, summed_here),
        ("by tree_reduce", "lazyflow"): partial(turn, summed_there),
        ("whole", "by hand"): partial(turn, lambda: by_hand(theta)),
    }
    if bench.ray:
        turns["whole", "ray"] = partial(turn, summed_by_ray(bench.ray, theta, parts))
    try:
        rows, failed = bench.measure(turns, "ms", 1e3)
    finally:
        by_hand.close()
    rows[0].result = rows[0].ratio("lazyflow", "by hand")
    bench.judged(rows[0], Goal("<=", 1.2), "batch")
    return bench.table(gradient, rows, failed, amount=f"{count} x {rows_each} x {columns}")
