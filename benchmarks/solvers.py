"""What solvers cost: lazyflow, scikit-learn, dask.array and loops by hand, to the same objective.

Problem A is 200,000 standardised rows of 50 features, no intercept, C = 1. Times are seconds of
CPU, of all threads, with one BLAS thread each, until the objective is within a part of its minimum:
lazyflow checks that as it goes and stops; scikit-learn is given the fewest iterations that reach
it. What takes two cores is said.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks import solver_sides as sides
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Table, Turn
from benchmarks.solver_sides import Problem

SIDES = ("lazyflow", "sklearn", "by hand", "dask")


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured."""

    rows: int
    features: int
    sparse_rows: int
    sparse_features: int
    visits: int


SIZES = {
    "tiny": Size(1, 1, 2_000, 10, 1_000, 200, 100),
    "small": Size(3, 1, 40_000, 50, 20_000, 5_000, 400),
    "full": Size(5, 2, 200_000, 50, 100_000, 10_000, 1_000),
}


def cpu(work: Callable[[], Any]) -> float:
    """Return the seconds of CPU that `work` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def wall(work: Callable[[], Any]) -> float:
    """Return the seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Bench(common.Bench):
    """The problems, and one thread of BLAS."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        import threadpoolctl

        super().__init__(size, SIZES["full"], repeat)
        self._limits = threadpoolctl.threadpool_limits(1, user_api="blas")
        warnings.simplefilter("ignore")  # that few iterations do not converge

    def __exit__(self, *given: object) -> None:
        self._limits.unregister()
        super().__exit__(*given)

    @cached_property
    def dense(self) -> Problem:
        return sides.dense(self.size.rows, self.size.features)

    @cached_property
    def lasso(self) -> Problem:
        return sides.dense(
            self.size.rows, self.size.features, C=1000 / self.size.rows, l1_ratio=1.0
        )

    @cached_property
    def sparse(self) -> Problem:
        return sides.sparse(self.size.sparse_rows, self.size.sparse_features)


def target_of(problem: Problem, solver: str, within: float) -> float:
    """Return an objective that is within a part of the minimum."""
    from lazyflow.learn import LogisticRegression

    model = LogisticRegression(
        problem.C, l1_ratio=problem.l1_ratio, solver=solver, tol=1e-9, fit_intercept=False,  # type: ignore[arg-type]
        random_state=1, max_iter=300,
    ).fit(problem.X, problem.y)
    return float(model.history_["objective"].min()) * (1 + within)


def ours(problem: Problem, solver: str, target: float, X: Any = None) -> None:
    """Fit until the objective is reached."""
    from lazyflow.learn import LogisticRegression

    model = LogisticRegression(
        problem.C, l1_ratio=problem.l1_ratio, solver=solver, tol=0.0, fit_intercept=False,  # type: ignore[arg-type]
        random_state=0, callback=lambda progress: progress.objective <= target,
    ).fit(problem.X if X is None else X, problem.y)
    assert model.history_["objective"][-1] <= target


def theirs(problem: Problem, solver: str, iterations: int) -> np.ndarray:
    """Return scikit-learn's coefficients after so many iterations."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=problem.C, l1_ratio=problem.l1_ratio, solver=solver, tol=0.0, fit_intercept=False,
        random_state=0, max_iter=iterations,
    ).fit(problem.X, problem.y)
    return np.asarray(model.coef_[0])


def contest(
    bench: Bench, case: Callable[[Bench], Table], problem: Problem, solver: str, rival: str,
    within: float, goals: Mapping[str, float], others: dict[str, Callable[[float], Any]],
) -> Table:
    """Measure the time to an objective; a row for each rival that has a goal."""
    best = solver if solver != "lbfgs" else "newton-cholesky"
    target = target_of(problem, best, within)
    count = sides.fewest_iterations(
        lambda k: problem.objective(theirs(problem, rival, k)) <= target
    )
    works: dict[str, Callable[[], Any]] = {
        "lazyflow": partial(ours, problem, solver, target),
        "sklearn": partial(theirs, problem, rival, count),
        **{side: partial(work, target) for side, work in others.items()},
    }
    turns: dict[Label, Turn] = {
        (f"to {within:g}", side): partial(cpu, work) for side, work in works.items()
    }
    rows, failed = bench.measure(turns, "ms", 1e3)
    rows[0].result = rows[0].ratio("sklearn", "lazyflow")
    bench.judged(rows[0], Goal(">=", goals["sklearn"]), "rows", "features")
    notes = [f"scikit-learn's {rival} takes {count} iterations"]
    for side, goal in goals.items():
        ratio = rows[0].ratio(side, "lazyflow")
        if side != "sklearn" and ratio is not None:
            notes.append(f"{side} / lazyflow is {ratio:.1f}, goal >= {goal:g}")
    amount = f"{len(problem.y):,} rows of {problem.X.shape[1]} features"
    return bench.table(case, rows, failed, amount=amount, notes=notes)


def lbfgs(bench: Bench) -> Table:
    """L-BFGS; by hand: loss and gradient apart, dask: expressions; result = sklearn / lazyflow"""
    problem = bench.dense
    others: dict[str, Callable[[float], Any]] = {
        "by hand": lambda target: sides.apart_lbfgs(problem, target),
    }
    if bench.there("dask"):
        objective = sides.dask_objective(problem)
        others["dask"] = lambda target: sides.minimised(objective, None, problem, target)
    goals = {"sklearn": 2, "by hand": 2, "dask": 5}
    return contest(bench, lbfgs, problem, "lbfgs", "lbfgs", 1e-6, goals, others)


def saga(bench: Bench) -> Table:
    """SAGA; by hand: the program of 2017 on one chunk; result = sklearn / lazyflow"""
    problem = bench.dense
    others = {"by hand": lambda target: sides.one_chunk_saga(problem, target)}
    return contest(
        bench, saga, problem, "saga", "saga", 1e-6, {"sklearn": 15, "by hand": 5}, others
    )


def svrg(bench: Bench) -> Table:
    """SVRG, all chunks side by side, beside scikit-learn's SAGA; result = sklearn / lazyflow"""
    return contest(bench, svrg, bench.dense, "svrg", "saga", 1e-6, {"sklearn": 5}, {})


def lasso(bench: Bench) -> Table:
    """SAGA with an l1 penalty; result = sklearn / lazyflow"""
    return contest(bench, lasso, bench.lasso, "saga", "saga", 1e-6, {"sklearn": 10}, {})


def newton(bench: Bench) -> Table:
    """Newton's method; result = sklearn / lazyflow"""
    names = "newton-cholesky", "newton-cholesky"
    return contest(bench, newton, bench.dense, *names, 1e-10, {"sklearn": 1.5}, {})


def sparse_saga(bench: Bench) -> Table:
    """SAGA on sparse rows; result = sklearn / lazyflow"""
    return contest(bench, sparse_saga, bench.sparse, "saga", "saga", 1e-6, {"sklearn": 2}, {})


def one_pass(bench: Bench) -> Table:
    """loss and gradient once, CPU, beside np.sum of the rows; and two cores beside one, wall"""
    import lazyflow
    from lazyflow.learn.data.inputs import parts_of
    from lazyflow.learn.data.rows import ClassTargets, kept_rows
    from lazyflow.learn.kernels.losses import LOGISTIC
    from lazyflow.learn.solvers.problem import Problem as Kept

    problem = bench.dense
    theta = np.zeros((1, bench.size.features + 1))
    targets = ClassTargets(np.array([-1.0, 1.0]))
    rows_kept = kept_rows(parts_of(problem.X, problem.y), targets, {})
    kept = {
        workers: Kept(rows_kept, LOGISTIC, 0.0, problem.penalties[1], False,
                      {"num_workers": workers})
        for workers in (1, 2)
    }
    turns: dict[Label, Turn] = {
        ("a pass", "lazyflow"): lambda: cpu(lambda: kept[1].value_and_gradient(theta)),
        ("a pass", "by hand"): lambda: cpu(problem.X.sum),
        ("two cores", "lazyflow"): lambda: wall(lambda: kept[2].value_and_gradient(theta)),
        ("two cores", "by hand"): lambda: wall(lambda: kept[1].value_and_gradient(theta)),
    }
    repeat, bench.repeat = bench.repeat, 10 * bench.repeat
    with lazyflow.config.set(num_workers=2):
        rows, failed = bench.measure(turns, "ms", 1e3)
    bench.repeat = repeat
    rows[0].result = rows[0].ratio("lazyflow", "by hand")
    bench.judged(rows[0], Goal("<=", 1.7), "rows", "features")
    rows[1].result = rows[1].ratio("by hand", "lazyflow")
    bench.judged(rows[1], Goal(">=", 1.6), "rows", "features")
    notes = ["by hand: np.sum of the rows; of two cores, lazyflow on one"]
    return bench.table(one_pass, rows, failed, amount=f"{problem.X.nbytes / 1e6:g} MB", notes=notes)


def chunk_sizes(bench: Bench) -> Table:
    """L-BFGS to 1e-6 on chunked arrays of several chunk sizes; result = time / the least"""
    import lazyflow.array as la

    problem = bench.dense
    target = target_of(problem, "newton-cholesky", 1e-6)
    n = len(problem.y)
    turns: dict[Label, Turn] = {}
    for size in sorted({min(size, n) for size in (1_000, 10_000, 50_000, n)}):
        X = la.from_array(problem.X, chunks=(size, -1))
        work = partial(ours, problem, "lbfgs", target, X)
        turns[f"{size:,} rows", "lazyflow"] = partial(cpu, work)
    rows, failed = bench.measure(turns, "ms", 1e3)
    least = min(min(row.samples["lazyflow"]) for row in rows)
    for row in rows:
        row.result = min(row.samples["lazyflow"]) / least
        bench.judged(row, Goal("<=", 1.3), "rows", "features")
    return bench.table(chunk_sizes, rows, failed, amount=f"{n:,} rows")


def visits(bench: Bench) -> Table:
    """a chain of visits that do nothing, three results each; wall, result = lazyflow's µs"""
    import lazyflow

    count = bench.size.visits
    visit = lazyflow.delayed(lambda theta, table, average: (theta, table, average), nout=3)

    def chain() -> None:
        theta: Any = 0.0
        average: Any = 0.0
        tables: list[Any] = [0.0] * 20
        for k in range(count):
            theta, tables[k % 20], average = visit(theta, tables[k % 20], average)
        state = lazyflow.persist(theta, *tables, average, scheduler="threads", num_workers=2)
        lazyflow.wait(state)  # as dask does: it persists what has been computed

    turns: dict[Label, Turn] = {("a visit", "lazyflow"): partial(wall, chain)}
    if bench.there("dask"):
        turns["a visit", "dask"] = partial(wall, partial(sides.dask_visits, count))
    rows, failed = bench.measure(turns, "µs", 1e6 / count)
    rows[0].result = min(rows[0].samples["lazyflow"])
    bench.judged(rows[0], Goal("<=", 20), "visits")
    return bench.table(visits, rows, failed, amount=f"{count:,} visits")


def beyond_memory(bench: Bench) -> Table:
    """L-BFGS, 10 iterations, on chunks read from disk, four times what the store may hold; wall"""
    import lazyflow
    from lazyflow.learn import LogisticRegression

    problem = bench.dense
    with tempfile.TemporaryDirectory() as folder:
        Xs, ys = [], []
        for k, (X, y) in enumerate(problem.chunks):
            path = str(Path(folder) / f"{k}.npy")
            np.save(path, X)
            Xs.append(lazyflow.delayed(np.load)(path))
            ys.append(lazyflow.delayed(y))
        limit = problem.X.nbytes // 4

        def fit(**settings: Any) -> None:
            with lazyflow.config.set(**settings):
                LogisticRegression(tol=0.0, solver="lbfgs", max_iter=10).fit(Xs, ys)

        turns: dict[Label, Turn] = {
            ("all in memory", "lazyflow"): lambda: wall(fit),
            ("a quarter", "lazyflow"): lambda: wall(lambda: fit(store_limit=limit)),
        }
        rows, failed = bench.measure(turns, "ms", 1e3)
    rows[1].result = min(rows[1].samples["lazyflow"]) / min(rows[0].samples["lazyflow"])
    amount = f"{problem.X.nbytes / 1e6:g} MB of rows, {limit / 1e6:g} MB of store"
    return bench.table(beyond_memory, rows, failed, amount=amount)


CASES = {
    case.__name__: case
    for case in (
        one_pass, lbfgs, saga, svrg, lasso, newton, sparse_saga, chunk_sizes, visits, beyond_memory,
    )
}

main = Suite(
    name="solvers",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "scikit-learn", "dask", "numba", "scipy"),
    make=Bench,
    alike="one BLAS thread on every side",
    durations="tiny takes seconds, small a minute, full five minutes; goals are for full",
).main
