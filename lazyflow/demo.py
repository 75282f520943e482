"""``python -m lazyflow demo``: two solvers on real data, checked against scikit-learn.

The programs to read are `lbfgs` and `stochastic` in `lazyflow.learn.solvers`; this module cuts the
handwritten digits into chunks, fits models, and prints what they reached beside the goals.
``--example`` runs one of the smaller programs in `lazyflow.learn.examples` instead. The exit status
is 0 when every goal holds.
"""

import argparse
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from lazyflow import delayed
from lazyflow.api.evaluate import observers
from lazyflow.diagnostics.profiling.recorder import profile
from lazyflow.schedulers.core.base import Observer

#: Other programs to run, of lazyflow.learn.examples, by name on the command line.
EXAMPLES = (
    "parameter-averaging", "parameter-averaging-actors", "gradient-averaging",
    "gradient-averaging-actors", "parameter-server", "parameter-server-handles", "data-parallel",
    "evolution", "serving", "batched-lbfgs", "block-cyclic-saga",
)

#: What to install for packages that some examples need.
PACKAGES = {
    "sklearn": '"lazyflow[learn]"', "tensorflow": "tensorflow-cpu", "torch": '"lazyflow[torch]"',
    "keras": '"lazyflow[keras]"', "starlette": '"lazyflow[serve]"', "uvicorn": '"lazyflow[serve]"',
}

C = 1.0  # the inverse of the weight of the penalty, as scikit-learn has it
LINES = 10  # of the table of a fit


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits, 8 by 8 pixels from 0 to 1, split 3 to 1."""

    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray

    @classmethod
    def load(cls) -> "Digits":
        """Read the data that comes with scikit-learn; nothing is downloaded."""
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        X, y = load_digits(return_X_y=True)
        return cls(*train_test_split(X / 16, y, test_size=0.25, stratify=y, random_state=0))

    def chunks(self, count: int) -> tuple[list[Any], list[Any]]:
        """Cut the training rows and their digits into `count` lazy chunks of neighbours."""
        return (
            [delayed(rows) for rows in np.array_split(self.X_train, count)],
            [delayed(labels) for labels in np.array_split(self.y_train, count)],
        )

    def accuracy(self, model: Any) -> float:
        """Return the share of test rows whose digit `model` predicts."""
        return float((model.predict(self.X_test) == self.y_test).mean())


class Meter(Observer):
    """Counts tasks, and the time during which at least one task's function was running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._since = 0.0
        self.tasks = 0
        self.busy = 0.0

    def task_started(self, run: Any, i: int) -> None:
        """Start the clock when this is the only running function."""
        with self._lock:
            if not self._running:
                self._since = perf_counter()
            self._running += 1

    def task_ended(self, run: Any, i: int) -> None:
        """Stop the clock when no other function is running."""
        with self._lock:
            self._running -= 1
            self.tasks += 1
            if not self._running:
                self.busy += perf_counter() - self._since

    def task_failed(self, run: Any, i: int, error: BaseException) -> None:
        """Count a failed task like any other."""
        self.task_ended(run, i)


def trained(heading: str, unit: str, model: Any, chunks: tuple[list[Any], list[Any]]) -> str:
    """Fit a model under a meter and print its trace; return a line on its tasks' cost."""
    print(f"\n{heading}")
    meter = Meter()
    token = observers.set((*observers.get(), meter))
    began = perf_counter()
    try:
        model.fit(*chunks)
    finally:
        observers.reset(token)
    wall = perf_counter() - began
    print_trace(model.history_, unit)
    cost = f"  {meter.tasks:,} tasks in {wall:.2f} s"
    if model.scheduler == "processes":  # its tasks are observed only when their results arrive
        return cost
    outside = 1e6 * (wall - meter.busy) / max(1, meter.tasks)
    return (
        f"{cost}; {outside:.1f} µs per task outside their functions"
        f"\n  (wall time in which no task's function ran / tasks: graphs, plans, scheduling, the"
        f"\n  solver's own loop and this clock)"
    )


def print_trace(history: dict[str, np.ndarray], unit: str) -> None:
    """Print about ten points of a trace, closer together at its start."""
    count = len(history["iteration"])
    places = np.unique(np.geomspace(1, count, min(LINES, count)).round().astype(int)) - 1
    print(f"  {unit:>9}  {'objective':>12}  {'max|gradient|':>13}  {'seconds':>8}")
    for at in places:
        step, objective, norm, seconds = (
            history[name][at] for name in ("iteration", "objective", "gradient_norm", "seconds")
        )
        print(f"  {step:>9}  {objective:>12.8f}  {norm:>13.2e}  {seconds:>8.3f}")


def check(what: str, reached: str, goal: str, holds: bool) -> bool:
    """Print a result beside its goal; return whether the goal holds."""
    print(f"  {what:<63} {reached:>7}  {goal:<14}  {'ok' if holds else 'MISSED'}")
    return holds


_FILES = {"lbfgs": "lbfgs", "saga": "stochastic"}  # where solvers are


def run_solver(
    name: str, unit: str, tol: float, digits: Digits, chunks: tuple[list[Any], list[Any]],
    scheduler: str,
) -> list[bool]:
    """Train softmax regression, print its trace, and compare it with scikit-learn's."""
    from sklearn.linear_model import LogisticRegression as Rival

    from lazyflow.learn import LogisticRegression

    model = LogisticRegression(C=C, solver=name, tol=tol, random_state=0, scheduler=scheduler)  # type: ignore[arg-type]
    heading = f"Softmax regression by {name} (lazyflow/learn/solvers/{_FILES[name]}.py)"
    cost = trained(heading, unit, model, chunks)
    exact = Rival(C=C, solver="newton-cholesky", tol=1e-10).fit(digits.X_train, digits.y_train)
    apart = theta(model) - theta(exact)
    apart -= apart.mean(axis=0)  # a shift common to all classes changes no probability
    norm, difference = model.history_["gradient_norm"][-1], float(abs(apart).max())
    accuracy = digits.accuracy(model)
    held = [
        check("max|gradient| at the end", f"{norm:.1e}", f"goal <= {tol:g}", norm <= tol),
        check("accuracy on the test rows", f"{accuracy:.4f}", "goal >= 0.9680", accuracy >= 0.968),
        check(
            "max|coef - scikit-learn's|, both less their mean over classes", f"{difference:.1e}",
            "goal <= 0.001", difference <= 1e-3,
        ),
    ]
    print(cost)
    return held


def theta(model: Any) -> np.ndarray:
    """Return (K, d) coefficients and K intercepts as (K, d + 1)."""
    return np.column_stack([model.coef_, model.intercept_])


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to the calling thread: tasks run side by side already.

    Its own threads wait for each other at every small matrix: on two busy cores they made the
    same 312 evaluations take 2.2 s instead of 0.3, nearly all of it inside SciPy's L-BFGS.
    """
    import threadpoolctl  # scikit-learn brings it

    limits: AbstractContextManager[Any] = threadpoolctl.threadpool_limits(1, user_api="blas")
    return limits


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line; argparse exits with status 2 when it can't be understood."""
    parser = argparse.ArgumentParser(
        prog="python -m lazyflow demo",
        description="Train two models on handwritten digits, as graphs of delayed calls, and "
        "compare them with scikit-learn's. Exit status: 0 when every goal is reached, else 1.",
    )
    parser.add_argument(
        "--scheduler",
        choices=["sync", "threads", "processes", "distributed", "ray"],
        default="threads",
        help="default: threads",
    )
    parser.add_argument(
        "--chunks", type=int, default=20, metavar="N", help="chunks of training rows (default: 20)"
    )
    parser.add_argument(
        "--example",
        choices=EXAMPLES,
        help="run this program of lazyflow/learn/examples instead",
    )
    parser.add_argument(
        "--timeline", metavar="FILE", help="write what ran where and when to this HTML page"
    )
    parser.add_argument(
        "--framework", choices=["numpy", "tensorflow", "torch", "keras"], default="numpy",
        help="what the model of an averaging or parameter-server example is made of",
    )
    options = parser.parse_args(argv)
    if options.framework != "numpy" and not takes_framework(options.example):
        parser.error(f"--framework {options.framework} is for --example parameter-averaging, "
                     "gradient-averaging, parameter-server and their variants")
    if not 1 <= options.chunks <= 1000:
        parser.error(f"--chunks must be from 1 to 1000, not {options.chunks}")
    return options


def takes_framework(name: str | None) -> bool:
    """Tell whether an example has a model in several frameworks."""
    return (name or "").startswith(("parameter-", "gradient-"))


def run_example(name: str, scheduler: str, framework: str) -> int:
    """Run a program of `lazyflow.learn.examples`; returns the exit status."""
    from lazyflow.learn.examples import (
        batched_lbfgs,
        block_cyclic,
        data_parallel,
        evolution,
        gradient_averaging,
        parameter_averaging,
        parameter_server,
        serving,
    )

    mains: dict[str, Callable[..., Any]] = {
        "parameter-averaging": parameter_averaging.main,
        "gradient-averaging": gradient_averaging.main,
        "parameter-server": parameter_server.main,
        "data-parallel": data_parallel.main,
        "evolution": evolution.main,
        "serving": serving.main,
        "batched-lbfgs": batched_lbfgs.main,
        "block-cyclic-saga": block_cyclic.main,
    }
    options: dict[str, Any] = {"framework": framework} if takes_framework(name) else {}
    if name.endswith("-actors"):
        options["with_actors"] = True
    if name.endswith("-handles"):
        options["with_handles"] = True
    program = mains[name.removesuffix("-actors").removesuffix("-handles")]
    try:
        outcome = program(scheduler, **options)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in PACKAGES:
            raise
        print(f"This example needs {missing}: pip install {PACKAGES[missing]}", file=sys.stderr)
        return 1
    return 0 if outcome.reached else 1


def main(argv: list[str]) -> int:
    """Run the demo with the words after ``demo``; return the exit status.

    0 when every goal is reached, 1 when one is missed or scikit-learn is not installed, 2 when the
    words can't be understood or the page can't be written.
    """
    options = parse(argv)
    if not options.timeline:
        return run(options)
    with profile() as p:
        try:
            p.timeline(options.timeline)  # so that what is missing is said now
        except OSError as error:
            text = f"--timeline {options.timeline} can't be written: {error.strerror}"
            print(f"python -m lazyflow demo: error: {text}", file=sys.stderr)
            return 2
        status = run(options)
    print(f"\n{p.summary()}")
    p.timeline(options.timeline)
    print(f"\nwhat ran where and when: {options.timeline}")
    return status


def run(options: argparse.Namespace) -> int:
    """Run the demo or the example that is asked for; return the exit status."""
    if options.example:
        return run_example(options.example, options.scheduler, options.framework)
    began = perf_counter()
    try:
        digits = Digits.load()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        print('The demo needs scikit-learn: pip install "lazyflow[learn]"', file=sys.stderr)
        return 1
    chunks = digits.chunks(options.chunks)
    print(
        f"scikit-learn's handwritten digits: {len(digits.y_train)} training rows in "
        f"{options.chunks} chunks, {len(digits.y_test)} test rows, C = {C:g}, "
        f"scheduler {options.scheduler}"
    )
    with one_blas_thread():
        held = run_solver("lbfgs", "iteration", 1e-8, digits, chunks, options.scheduler)
        held += run_solver("saga", "epoch", 1e-7, digits, chunks, options.scheduler)
    print(f"\n{sum(held)} of {len(held)} goals reached in {perf_counter() - began:.1f} s")
    return 0 if all(held) else 1
