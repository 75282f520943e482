"""Searches of hyperparameters: lazyflow.tune and scikit-learn, with the same two workers.

A pipeline's first step is costly to fit, and the candidates differ in the last one. Times are the
wall clock of a fit without the refit, workers warm, one thread of BLAS in each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Table, Turn

SIDES = ("lazyflow", "sklearn")
WORKERS = 2


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured."""

    rows: int
    features: int
    candidates: int


SIZES = {
    "tiny": Size(1, 1, 200, 10, 2),
    "small": Size(3, 1, 2_000, 40, 8),
    "full": Size(3, 2, 3_000, 60, 8),
}


class Bench(common.Bench):
    """One thread of BLAS, here and, by the environment, in processes."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        import threadpoolctl

        super().__init__(size, SIZES["full"], repeat)
        self._limits = threadpoolctl.threadpool_limits(1, user_api="blas")
        self._before = os.environ.get("OPENBLAS_NUM_THREADS")
        os.environ["OPENBLAS_NUM_THREADS"] = "1"

    def __exit__(self, *given: object) -> None:
        del os.environ["OPENBLAS_NUM_THREADS"]
        if self._before is not None:
            os.environ["OPENBLAS_NUM_THREADS"] = self._before
        self._limits.unregister()
        super().__exit__(*given)


def costly_step(bench: Bench) -> Table:
    """GridSearchCV over a pipeline with a costly first step; result = sklearn / lazyflow"""
    from sklearn import model_selection
    from sklearn.decomposition import FastICA
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    from lazyflow import tune

    size = bench.size
    X = np.random.default_rng(0).normal(size=(size.rows, size.features)) ** 3
    y = X[:, 0] > 0
    pipeline = make_pipeline(
        FastICA(max_iter=100, tol=1e-12, random_state=0), RidgeClassifier())
    grid = {"ridgeclassifier__alpha": np.logspace(-3, 3, size.candidates)}
    options: dict[str, Any] = {"refit": False, "cv": 5}
    turns: dict[Label, Turn] = {}
    scores = []

    def timed(search: Any) -> Callable[[], float]:
        def turn() -> float:
            start = time.perf_counter()
            search.fit(X, y)
            seconds = time.perf_counter() - start
            scores.append(search.cv_results_["mean_test_score"])
            assert np.array_equal(scores[-1], scores[0])
            return seconds

        return turn

    theirs = timed(model_selection.GridSearchCV(pipeline, grid, n_jobs=WORKERS, **options))
    for scheduler in ("threads", "processes"):
        turns[scheduler, "lazyflow"] = timed(tune.GridSearchCV(
            pipeline, grid, scheduler=scheduler, num_workers=WORKERS, **options))
        turns[scheduler, "sklearn"] = theirs
    for turn in turns.values():
        turn()  # workers start
    rows, failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        row.result = row.ratio("sklearn", "lazyflow")
        bench.judged(row, Goal(">=", 2), "rows", "features", "candidates")
    amount = f"{size.candidates} candidates, {size.rows:,} rows of {size.features} features"
    return bench.table(costly_step, rows, failed, amount=amount)


CASES = {case.__name__: case for case in (costly_step,)}

main = Suite(
    name="tune-search",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "scikit-learn", "joblib"),
    make=Bench,
    alike=f"{WORKERS} workers on every side",
    durations="tiny takes seconds, full a minute; goals are for full",
).main
