"""How much faster more workers are: arrays, solvers and small tasks on 1, 2, 4, ... threads.

Beside it loops by hand, on as many threads as there are cores, and dask; beside processes, a pool
of `multiprocessing` of as many, which is given one task at a time. The share of the ideal is
the time of one worker, divided by that of the most and by their number. All numbers of workers
have to give the same bits, and all sides the same answer.

``--oversubscribe 16`` shows on a machine of two cores what holds back sixteen: 1, 2, 8 and 16
workers of two cores, and the time of 16 divided by that of two. What releases the lock often, and
takes it again, queues for it there as it does on sixteen cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import lazyflow
import lazyflow.array as la
from benchmarks import measure, shapes

_CHUNKS = 64
_COLUMNS = 100
_GOAL = 1.25  # of the time of more workers than cores, beside as many as cores
_SIZES = {"tiny": 6_400, "small": 400_000, "full": 800_000}  # rows


class Work(NamedTuple):
    """A row of the table: work of ours, and the same by hand and by dask.

    answers
        The sides have an answer that is the same.
    naps
        Its tasks sleep, in processes: more of these than cores are as fast as on as many cores, as
        long as the process that serves them is. By hand is a pool of as many.
    """

    ours: Callable[[Data], Any]
    hand: Callable[[Data, Any], Any] | None = None
    dask: Callable[[Any, Data], Any] | None = None
    answers: bool = True
    naps: bool = False


class Data:
    """What the works read, made when the first of them asks for it."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.random = np.random.default_rng(0)

    @cached_property
    def x(self) -> Any:
        return self.random.random((self.rows, _COLUMNS))

    @cached_property
    def y(self) -> Any:
        return self.random.random((self.rows, _COLUMNS))

    @cached_property
    def square(self) -> Any:
        side = int((self.rows * _COLUMNS) ** 0.5) // 8 * 8
        return self.random.random((side, side))

    def lazy(self, x: Any, lib: Any = la) -> Any:
        """Return an array of one of the libraries, in chunks of rows."""
        return lib.from_array(x, chunks=(-(-len(x) // _CHUNKS), x.shape[1]))

    def in_squares(self, lib: Any = la) -> Any:
        side = len(self.square) // 8
        return lib.from_array(self.square, chunks=(side, side))

    def chunks(self, *arrays: Any) -> list[tuple[Any, ...]]:
        size = -(-self.rows // _CHUNKS)
        return [
            tuple(x[at : at + size] for x in arrays) for at in range(0, self.rows, size)
        ]

    @cached_property
    def problem(self) -> tuple[Any, Any]:
        """Rows of 50 features, and labels of two classes."""
        x = self.random.standard_normal((self.rows, 50))
        y = x @ self.random.standard_normal(50) + self.random.standard_normal(self.rows) > 0
        return x, np.where(y, 1.0, -1.0)


# -- by hand: each chunk in one call without the GIL ----------------------------------------


@njit(nogil=True, fastmath=True)
def _moments(x: Any, mean: Any, square: Any) -> None:  # pragma: no cover
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            mean[j] += x[i, j]
            square[j] += x[i, j] * x[i, j]


@njit(nogil=True, fastmath=True)
def _total(x: Any) -> float:  # pragma: no cover
    found = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found += x[i, j]
    return found


@njit(nogil=True, fastmath=True)
def _distance(x: Any, y: Any) -> float:  # pragma: no cover
    found = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found += (x[i, j] - y[i, j]) ** 2
    return found


@njit(nogil=True, fastmath=True)
def _largest(x: Any, mean: Any, spread: Any) -> float:  # pragma: no cover
    found = -np.inf
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found = max(found, (x[i, j] - mean[j]) / spread[j])
    return found


@njit(nogil=True)
def _added(x: Any, y: Any, out: Any) -> None:  # pragma: no cover
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + y[i, j]


def _hand_sum(data: Data, pool: Any) -> Any:
    return sum(pool.map(lambda one: _total(*one), data.chunks(data.x)))


def _hand_moments(data: Data, pool: Any) -> tuple[Any, Any]:
    def of(one: tuple[Any, ...]) -> Any:
        found = np.zeros((2, _COLUMNS))
        _moments(one[0], *found)
        return found

    mean, square = sum(pool.map(of, data.chunks(data.x))) / data.rows
    return mean, np.sqrt(square - mean * mean)


def _hand_standardise(data: Data, pool: Any) -> Any:
    mean, spread = _hand_moments(data, pool)
    return max(pool.map(lambda one: _largest(one[0], mean, spread), data.chunks(data.x)))


def _hand_distance(data: Data, pool: Any) -> Any:
    return sum(pool.map(lambda one: _distance(*one), data.chunks(data.x, data.y)))


@njit(nogil=True)
def _columns(x: Any, sums: Any) -> None:  # pragma: no cover
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            sums[j] += x[i, j]


@njit(nogil=True)
def _largest_sum(x: Any, sums: Any) -> float:  # pragma: no cover
    found = -np.inf
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            sums[j] += x[i, j]
            found = max(found, sums[j])
    return found


@njit(nogil=True)
def _sum_of_large(x: Any) -> float:  # pragma: no cover
    found = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0.9:
                found += x[i, j]
    return found


def _hand_scan(data: Data, pool: Any) -> Any:
    chunks = [one[0] for one in data.chunks(data.x)]
    sums = np.zeros((len(chunks) + 1, _COLUMNS))
    list(pool.map(_columns, chunks, sums[1:]))
    return max(pool.map(_largest_sum, chunks, np.cumsum(sums[:-1], axis=0)))


def _hand_mask(data: Data, pool: Any) -> Any:
    return sum(pool.map(lambda one: _sum_of_large(*one), data.chunks(data.x)))


def _hand_products(data: Data, pool: Any) -> Any:
    return sum(pool.map(lambda one: one[0].T @ one[0], data.chunks(data.x)))


def _hand_sorted(data: Data, pool: Any) -> Any:
    out = np.empty_like(data.x)

    def work(one: tuple[Any, Any]) -> None:
        one[1][...] = one[0]
        one[1].sort(axis=1)

    list(pool.map(work, data.chunks(data.x, out)))
    return out


def _hand_added(data: Data, pool: Any) -> Any:
    out = np.empty_like(data.x)
    list(pool.map(lambda one: _added(*one), data.chunks(data.x, data.y, out)))
    return out


# -- the rows -------------------------------------------------------------------------------


def _standardised(x: Any) -> Any:
    return ((x - x.mean(0)) / x.std(0)).max()


def _of(function: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the works of a function of one array, for us and for dask."""
    return {
        "ours": lambda data: function(data.lazy(data.x)).compute(),
        "dask": lambda lib, data: function(data.lazy(data.x, lib)).compute(),
    }


def _of_two(function: Callable[[Any, Any], Any]) -> dict[str, Any]:
    return {
        "ours": lambda data: function(data.lazy(data.x), data.lazy(data.y)).compute(),
        "dask": lambda lib, data: function(
            data.lazy(data.x, lib), data.lazy(data.y, lib)).compute(),
    }


def _of_square(function: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "ours": lambda data: function(data.in_squares()).compute(),
        "dask": lambda lib, data: function(data.in_squares(lib)).compute(),
    }


def _sorted_rows(block: Any) -> Any:
    return np.sort(block, axis=1)


def _fit(solver: str, iterations: int) -> Callable[[Data], Any]:
    def ours(data: Data) -> Any:
        from lazyflow.learn import LogisticRegression

        model = LogisticRegression(
            solver=solver, max_iter=iterations, tol=0.0, random_state=0,  # type: ignore[arg-type]
        )
        return model.fit(*data.problem).coef_

    return ours


def _tree(data: Data) -> Any:
    return shapes.lazy_tree(lazyflow, data.rows // 100).compute()


@njit(nogil=True)
def _spin(turns: int) -> float:  # pragma: no cover
    found = 0.0
    for i in range(turns):
        found += 1.0 / (1.0 + found * i)
    return found


def _turns_of(seconds: float) -> int:
    """Return how many turns of `_spin` take so long here."""
    _spin(1)
    start = time.perf_counter()
    _spin(2_000_000)
    return max(1, int(2_000_000 * seconds / (time.perf_counter() - start)))


def _spins(seconds: float) -> dict[str, Any]:
    """Return the works of tasks without the GIL that take so long each, 0.4 s of them together."""
    turns: list[int] = []

    def count(data: Data) -> int:
        if not turns:
            turns.append(_turns_of(seconds))
        return int(min(0.4, data.rows * 1e-6) / seconds)

    def ours(data: Data) -> Any:
        count_ = count(data)
        spin = lazyflow.delayed(_spin)
        return lazyflow.compute([spin(turns[0]) for _ in range(count_)])

    def hand(data: Data, pool: Any) -> Any:
        many = count(data)
        left = turns * many

        def work() -> None:
            while True:
                try:
                    _spin(left.pop())
                except IndexError:
                    return

        for done in [pool.submit(work) for _ in range(pool._max_workers)]:
            done.result()

    return {"ours": ours, "hand": hand, "answers": False}


def _nap(seconds: float) -> None:
    time.sleep(seconds)


def _naps(seconds: float) -> dict[str, Any]:
    """Return the works of tasks that sleep so long each, 5 s of them together."""

    def count(data: Data) -> int:
        return int(min(5.0, data.rows * 12.5e-6) / seconds)

    def ours(data: Data) -> Any:
        nap = lazyflow.delayed(_nap)
        return lazyflow.compute([nap(seconds) for _ in range(count(data))])

    def hand(data: Data, pool: Any) -> Any:
        pool.map(_nap, [seconds] * count(data), chunksize=1)

    return {"ours": ours, "hand": hand, "answers": False, "naps": True}


WORKS = {
    "x.sum()": Work(**_of(lambda x: x.sum()), hand=_hand_sum),
    "x.mean(0)": Work(**_of(lambda x: x.mean(0)), hand=lambda d, p: _hand_moments(d, p)[0]),
    "x.std(0)": Work(**_of(lambda x: x.std(0)), hand=lambda d, p: _hand_moments(d, p)[1]),
    "x.std()": Work(**_of(lambda x: x.std())),
    "((x - x.mean(0)) / x.std(0)).max()": Work(**_of(_standardised), hand=_hand_standardise),
    "((x - y)**2).sum()": Work(**_of_two(lambda x, y: ((x - y) ** 2).sum()), hand=_hand_distance),
    "x + y": Work(**_of_two(lambda x, y: x + y), hand=_hand_added),
    "(s + s.T).sum(0)": Work(**_of_square(lambda s: (s + s.T).sum(0))),
    "v[v > .9].sum()": Work(
        **_of(lambda x: (v := x.ravel())[v > 0.9].sum()), hand=_hand_mask),
    "s[:1024] @ s": Work(**_of_square(lambda s: s[:1024] @ s)),
    "x.T @ x": Work(**_of(lambda x: x.T @ x), hand=_hand_products),
    "sort along an axis": Work(
        **_of(lambda x: x.map_blocks(_sorted_rows)), hand=_hand_sorted),
    "x.cumsum(0).max()": Work(**_of(lambda x: x.cumsum(0).max()), hand=_hand_scan),
    "logistic, L-BFGS": Work(_fit("lbfgs", 15)),
    "logistic, Newton": Work(_fit("newton-cholesky", 5)),
    "logistic, SVRG": Work(_fit("svrg", 5)),
    "logistic, SAGA": Work(_fit("saga", 5)),
    "a tree of trivial tasks": Work(_tree),
    "tasks of 1 ms": Work(**_spins(1e-3)),
    "tasks of 0.1 ms": Work(**_spins(1e-4)),
    "tasks of 0.02 ms": Work(**_spins(2e-5)),
    "naps of 1 ms, in processes": Work(**_naps(1e-3)),
    "naps of 5 ms, in processes": Work(**_naps(5e-3)),
}


# -- the command ----------------------------------------------------------------------------


class Timed(NamedTuple):
    """The least milliseconds of some work, and what it gives."""

    least: float
    answer: Any


def timed(work: Callable[[], Any], repeat: int) -> Timed:
    """Return the least milliseconds that work takes, of `repeat` turns after two, and its answer.

    Each side is warmed alike: in the first turn kernels of lazyflow and of Numba are compiled.
    """
    found = []
    for _ in range(repeat + 2):
        start = time.perf_counter()
        answer = work()
        found.append(time.perf_counter() - start)
    return Timed(min(found[2:]) * 1e3, answer)


def compare(name: str, ours: Sequence[Timed], others: Sequence[Timed | None]) -> None:
    """Raise AssertionError where numbers of workers give other bits, or others another answer."""
    first = ours[0].answer
    for each in ours[1:]:
        np.testing.assert_array_equal(each.answer, first, f"{name}: by other workers")
    for other in others:
        if other is not None:
            np.testing.assert_allclose(other.answer, first, 1e-6, 1e-9, err_msg=name)


def measured(work: Work, data: Data, workers: int, repeat: int) -> Timed:
    scheduler = "processes" if work.naps else "threads"
    with lazyflow.config.set(scheduler=scheduler, num_workers=workers):
        return timed(lambda: work.ours(data), repeat)


def by_dask(work: Work, data: Data, workers: int, repeat: int) -> Timed | None:
    if work.dask is None:
        return None
    import dask
    import dask.array as da

    with dask.config.set(scheduler="threads", num_workers=workers):
        return timed(lambda: work.dask(da, data), repeat)  # type: ignore[misc]


def by_hand(work: Work, data: Data, workers: int, repeat: int) -> Timed | None:
    if work.hand is None:
        return None
    pools: Any = multiprocessing.get_context("spawn").Pool if work.naps else ThreadPoolExecutor
    with pools(workers) as pool:
        return timed(lambda: work.hand(data, pool), repeat)  # type: ignore[misc]


def counts(cores: int, most: int) -> list[int]:
    """Return the numbers of workers: powers of two, and in the end the cores.

    >>> counts(12, 0), counts(2, 16)
    ([1, 2, 4, 8, 12], [1, 2, 8, 16])
    """
    if most:
        return sorted({1, cores, max(1, most // 2), most})
    return sorted({1 << k for k in range(cores.bit_length()) if 1 << k <= cores} | {cores})


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks scale", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("--size", choices=_SIZES, default="small")
    add("--repeat", type=int, default=4, metavar="N", help="turns, of which the least counts")
    add("--oversubscribe", type=int, default=0, metavar="W", help="workers, more than cores")
    add("--only", choices=WORKS, nargs="*", metavar="WORK", help="rows of the table")
    add("--json", metavar="FILE", help="write the results that have a goal to FILE")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Print a row for each work as soon as it is measured."""
    import threadpoolctl

    given = options(argv)
    cores = lazyflow.config.cpu_count()
    numbers = counts(cores, given.oversubscribe)
    data = Data(_SIZES[given.size])
    facts = measure.machine(("numpy", "numba", "dask"))
    print(measure.machine_line(facts))
    print(f"size {given.size}, least ms of {given.repeat} turns, BLAS on one thread")
    last = f"{numbers[-1]} / {cores}" if given.oversubscribe else "share"
    head = [*map(str, numbers), last, "by hand", "dask"]
    print(f"{'workers':36}" + "".join(f"{word:>9}" for word in head), flush=True)
    judged: list[dict[str, Any]] = []
    with threadpoolctl.threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that few iterations do not converge
        for name in given.only or WORKS:
            work = WORKS[name]
            ours = [measured(work, data, n, given.repeat) for n in numbers]
            by = numbers[-1] if work.naps else cores
            others = [side(work, data, by, given.repeat) for side in (by_hand, by_dask)]
            if work.answers:
                compare(name, ours, others)
            times = [each.least for each in ours]
            if given.oversubscribe:
                result = times[-1] / times[numbers.index(cores)]
                judged.append({
                    "label": name, "result": result, "goal": f"≤ {_GOAL}",
                    "met": result <= _GOAL, "why_unjudged": "",
                })
            else:
                result = times[0] / times[-1] / numbers[-1]
            cells = [f"{each:.3g}" for each in times] + [f"{result:.2f}"]
            cells += ["" if each is None else f"{each.least:.3g}" for each in others]
            mark = " *" if given.oversubscribe and result > _GOAL else ""
            print(f"{name:36}" + "".join(f"{cell:>9}" for cell in cells) + mark, flush=True)
    if given.oversubscribe:
        print(f"* above the goal of {_GOAL}")
    if given.json:
        cases = [{"name": f"{numbers[-1]} of {cores}", "rows": judged}]
        Path(given.json).write_text(json.dumps({"cases": cases}), encoding="utf-8")
    return 0
