"""What searches of hyperparameters cost: lazyflow.tune, Ray Tune, Optuna and scikit-learn.

Every case is a function of one `Bench` and gives one `Table`, as in `overhead`. All sides have two
workers, which are warm, and one thread of BLAS in each.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Row, Table, Turn, clock
from benchmarks.shapes import WORKERS
from benchmarks.sides import Ray

SIDES = ("lazyflow", "optuna", "ray", "sklearn")
REPORTS = 3  # of a trivial trial
CURVE = 27  # reports of a trial that is not stopped


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    trials: int
    curves: int
    data: int  # bytes that trials share
    rows: int  # of the data of a pipeline
    features: int
    candidates: int


SIZES = {
    "tiny": Size(1, 1, 4, 9, 1 << 20, 200, 10, 2),
    "small": Size(3, 1, 12, 27, 1 << 23, 2_000, 40, 8),
    "full": Size(5, 2, 12, 81, 80 << 20, 3_000, 60, 8),
}


def falling(x: float, report: Callable[[float], Any], reports: int = REPORTS) -> None:
    """Report a loss that falls towards `x`."""
    for step in range(1, reports + 1):
        report(x + 1 / step)


def trial(config: dict[str, float]) -> None:
    """Report three times to lazyflow."""
    from lazyflow import tune

    falling(config["x"], lambda loss: tune.report(loss=loss))


def trial_of_ray(config: dict[str, float]) -> None:
    """Report three times to Ray Tune."""
    from ray import tune

    falling(config["x"], lambda loss: tune.report({"loss": loss}))


def long_trial(config: dict[str, float]) -> None:
    """Report as often as a trial may."""
    from lazyflow import tune

    falling(config["x"], lambda loss: tune.report(loss=loss), CURVE)


def reader(config: dict[str, float], data: Any) -> float:
    """Read shared data; return by how much the memory has grown that is this process's alone."""
    before = anonymous()
    if float(data.sum()) != len(data):
        raise AssertionError("these are not the numbers that were put")
    return anonymous() - before


def anonymous() -> float:
    """Return the bytes of this process that no other can have."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024.0


class Bench(common.Bench):
    """The libraries that are there; one thread of BLAS, here and in processes."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        import threadpoolctl

        super().__init__(size, SIZES["full"], repeat)
        self._limits = threadpoolctl.threadpool_limits(1, user_api="blas")
        self._before = os.environ.get("OPENBLAS_NUM_THREADS")
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        self._folder = tempfile.TemporaryDirectory(prefix="tune-", ignore_cleanup_errors=True)
        self._ray = Ray() if self.there("ray", "'ray[tune]'") else None

    def __exit__(self, *given: object) -> None:
        del os.environ["OPENBLAS_NUM_THREADS"]
        if self._before is not None:
            os.environ["OPENBLAS_NUM_THREADS"] = self._before
        self._limits.unregister()
        self.lazyflow.shutdown()
        if self._ray is not None:
            self._ray.shutdown()
        self._folder.cleanup()
        super().__exit__(*given)

    def search(self, function: Callable[..., Any], trials: int, scheduler: str, **more: Any) -> Any:
        """Run a search of ours over one number."""
        from lazyflow import tune

        return tune.run(
            function, {"x": tune.uniform(0, 1)}, metric="loss", num_samples=trials, seed=0,
            scheduler=scheduler, max_concurrent=WORKERS, verbose=0, **more,
        )

    def trivial(self, scheduler: str) -> int:
        """Run the trivial trials."""
        return len(self.search(trial, self.size.trials, scheduler).trials)

    def by_optuna(self) -> int:
        """Run the trivial trials by Optuna, in two threads."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

        def objective(trial: Any) -> float:
            x = trial.suggest_float("x", 0, 1)
            found: list[float] = []

            def report(loss: float) -> None:
                found.append(loss)
                trial.report(loss, len(found))

            falling(x, report)
            return found[-1]

        study.optimize(objective, self.size.trials, n_jobs=WORKERS)
        return len(study.trials)

    def by_ray(self) -> int:
        """Run the trivial trials by Ray Tune."""
        assert self._ray is not None
        self._ray()
        from ray import tune

        tuner = tune.Tuner(
            trial_of_ray, param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", num_samples=self.size.trials,
                max_concurrent_trials=WORKERS,
            ),
            run_config=tune.RunConfig(verbose=0, storage_path=self._folder.name),
        )
        with contextlib.redirect_stdout(io.StringIO()):
            return len(tuner.fit())


def trivial(bench: Bench) -> Table:
    """trials that report three times and do nothing; result = ms a trial, and ray / lazyflow"""
    count = bench.size.trials
    turns: dict[Label, Turn] = {}
    for scheduler in ("threads", "processes"):
        turns[scheduler, "lazyflow"] = partial(clock, partial(bench.trivial, scheduler), count)
    if bench.there("optuna", "optuna"):
        turns["threads", "optuna"] = partial(clock, bench.by_optuna, count)
    if bench._ray is not None and bench.there("pyarrow", "'ray[tune]'"):
        turns["processes", "ray"] = partial(clock, bench.by_ray, count)
    rows, failed = bench.measure(turns, "ms/trial", 1e3 / count, patience=3.0)
    for row, most in zip(rows, (5, 10), strict=True):
        if not row.broken:
            row.result = row.median("lazyflow")
        bench.judged(row, Goal("<=", most), "trials")
    against = Row("processes, against Ray", "ms/trial", broken=rows[1].broken)
    against.samples = dict(rows[1].samples)
    if "ray" in against.samples and not against.broken:
        against.result = against.ratio("ray", "lazyflow")
        bench.judged(against, Goal(">=", 100), "trials")
    rows.append(against)
    return bench.table(trivial, rows, failed, amount=f"{count} trials of {REPORTS} reports")


def early(bench: Bench) -> Table:
    """successive halving on curves that never cross; result = reports saved, of 1"""
    from lazyflow import tune

    count = bench.size.curves
    saved: list[float] = []

    def work() -> bool:
        result = bench.search(long_trial, count, "threads", pruner=tune.ASHA(CURVE, 1, 3))
        saved.append(1 - sum(len(t.history) for t in result.trials) / (count * CURVE))
        best = min(result.trials, key=lambda t: t.config["x"])
        return result.best is best and len(best.history) == CURVE

    rows, failed = bench.measure(
        {("a search", "lazyflow"): partial(clock, work, True)}, "ms/trial", 1e3 / count
    )
    if not rows[0].broken:
        rows[0].result = min(saved)
    bench.judged(rows[0], Goal(">=", 0.6), "curves")
    return bench.table(early, rows, failed, amount=f"{count} trials of up to {CURVE} reports")


def shared(bench: Bench) -> Table:
    """eight trials that read the same array, on processes; result = copies of it beside the one"""
    data = np.ones(bench.size.data // 8)
    grown: list[float] = []

    def work() -> int:
        result = bench.search(reader, 8, "processes", data={"data": data})
        grown.extend(t.metrics["loss"] for t in result.trials)
        return len(result.errors)

    rows, failed = bench.measure(
        {("a search", "lazyflow"): partial(clock, work, 0)}, "ms", 1e3, patience=3.0
    )
    if not rows[0].broken:
        rows[0].result = max(grown) / data.nbytes
    bench.judged(rows[0], Goal("<=", 0.1), "data")
    return bench.table(shared, rows, failed, amount=f"{data.nbytes / 1e6:,.0f} MB")


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
    first = FastICA(max_iter=100, tol=1e-12, random_state=0)
    grid = {"ridgeclassifier__alpha": np.logspace(-3, 3, size.candidates)}
    given = make_pipeline(first, RidgeClassifier()), grid
    options: dict[str, Any] = {"refit": False, "cv": 5}
    theirs = model_selection.GridSearchCV(*given, n_jobs=WORKERS, **options)
    right = theirs.fit(X, y).cv_results_["mean_test_score"].tolist()

    def turn(search: Any) -> float:
        return clock(lambda: search.fit(X, y).cv_results_["mean_test_score"].tolist(), right)

    turns: dict[Label, Turn] = {}
    for scheduler in ("threads", "processes"):
        ours = tune.GridSearchCV(*given, scheduler=scheduler, num_workers=WORKERS, **options)
        turns[scheduler, "lazyflow"] = partial(turn, ours)
        turns[scheduler, "sklearn"] = partial(turn, theirs)
    rows, failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        row.result = row.ratio("sklearn", "lazyflow")
        bench.judged(row, Goal(">=", 2), "rows", "features", "candidates")
    amount = f"{size.candidates} candidates, {size.rows:,} rows of {size.features} features"
    return bench.table(costly_step, rows, failed, amount=amount)


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case for case in (trivial, early, shared, costly_step)
}

main = Suite(
    name="tune",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "optuna", "ray", "scikit-learn", "joblib"),
    make=Bench,
    alike=f"{WORKERS} workers on every side",
    durations="tiny takes seconds, full some minutes with Ray Tune; goals are for full",
).main
