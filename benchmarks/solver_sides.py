"""The problems that solvers are measured on, and how others solve them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import csr_matrix
from scipy.special import expit

CHUNK = 10_000  # rows of a chunk, where there are chunks


@dataclass(frozen=True)
class Problem:
    """Rows X, labels y of -1 and 1, and the inverse strength C of scikit-learn's penalty."""

    X: Any
    y: np.ndarray
    C: float = 1.0
    l1_ratio: float = 0.0

    @property
    def penalties(self) -> tuple[float, float]:
        """The factors of |w|_1 and |w|²/2 beside the mean loss."""
        strength = 1 / (self.C * len(self.y))
        return self.l1_ratio * strength, (1 - self.l1_ratio) * strength

    def objective(self, w: np.ndarray) -> float:
        l1, l2 = self.penalties
        losses = np.logaddexp(0.0, -self.y * (self.X @ w))
        return float(losses.mean() + l1 * abs(w).sum() + l2 / 2 * (w @ w))

    @cached_property
    def chunks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [
            (self.X[a:a + CHUNK], self.y[a:a + CHUNK]) for a in range(0, len(self.y), CHUNK)
        ]


def dense(rows: int, features: int, **options: float) -> Problem:
    """Return standardised rows of two classes, a third of whose features carry something."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        rows, features, n_informative=2 * features // 5, n_redundant=features // 5, flip_y=0.05,
        random_state=0,
    )
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Problem(np.ascontiguousarray(X), np.where(y == 1, 1.0, -1.0), **options)


def sparse(rows: int, features: int, each: int = 35) -> Problem:
    """Return normalised sparse rows whose features are the rarer the later they come."""
    random = np.random.default_rng(0)
    ranks = (features ** random.random((rows, each))).astype(np.int64) - 1
    rows_of = np.repeat(np.arange(rows), each)
    X = csr_matrix((random.random(rows * each), (rows_of, ranks.ravel())), (rows, features))
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)).A1, np.diff(X.indptr))
    normal = random.normal(size=features)
    y = np.where(X @ normal + 0.3 * random.normal(size=rows) > 0, 1.0, -1.0)
    return Problem(X, y)


def fewest_iterations(reached: Callable[[int], bool], most: int = 1 << 12) -> int:
    """Return the least number of iterations that reach something, up to `most`."""
    high = 1
    while not reached(high):
        high *= 2
        if high > most:
            raise RuntimeError(f"not reached in {most} iterations")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


# -- as scripts have it ---------------------------------------------------------------------------


def loss_apart(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.logaddexp(0.0, -y * (X @ w)).sum())


def gradient_apart(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return X.T @ (-y * expit(-y * (X @ w)))


def apart_lbfgs(problem: Problem, target: float) -> int:
    """Minimise by loss and gradient computed apart, chunk after chunk, to an objective."""
    _, l2 = problem.penalties
    n = len(problem.y)

    def loss(w: np.ndarray) -> float:
        return sum(loss_apart(w, X, y) for X, y in problem.chunks) / n + l2 / 2 * float(w @ w)

    def gradient(w: np.ndarray) -> np.ndarray:
        return sum(gradient_apart(w, X, y) for X, y in problem.chunks) / n + l2 * w

    return minimised(loss, gradient, problem, target)


def minimised(
    loss: Callable[..., Any], gradient: Callable[..., Any] | None, problem: Problem, target: float
) -> int:
    """Run SciPy's L-BFGS until the objective is reached; return the evaluations."""
    count = 0
    least = math.inf

    def counted(w: np.ndarray) -> Any:
        nonlocal count, least
        count += 1
        value = loss(w)
        least = min(least, value if gradient else value[0])
        return value

    def ended(_: np.ndarray) -> None:
        if least <= target:
            raise StopIteration

    start = np.zeros(problem.X.shape[1])
    fmin_l_bfgs_b(counted, start, gradient, callback=ended, factr=0.0, pgtol=0.0, maxiter=200)
    if least > target:
        raise RuntimeError(f"{least} is above {target}")
    return count


@njit(nogil=True)
def saga_epoch(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, table: np.ndarray, average: np.ndarray,
    step: float, l2: float,
) -> None:
    """The 2017 program's pass through one chunk, with a penalty."""
    order = np.random.permutation(len(X))
    for i in order:
        slope = -y[i] / (1 + np.exp(y[i] * np.dot(X[i], w)))
        change = (slope - table[i]) * X[i]
        w -= step * (change + average + l2 * w)
        average += change / len(X)
        table[i] = slope


def one_chunk_saga(problem: Problem, target: float) -> int:
    """Run the 2017 program on one chunk to an objective; return the epochs."""
    _, l2 = problem.penalties
    w, average = np.zeros((2, problem.X.shape[1]))
    table = np.zeros(len(problem.y))
    step = 0.3 / (0.25 * float((problem.X**2).sum(axis=1).max()))
    for epoch in range(1, 200):
        saga_epoch(problem.X, problem.y, w, table, average, step, l2)
        if problem.objective(w) <= target:
            return epoch
    raise RuntimeError("not reached in 200 epochs")


# -- as dask.array's users have it ----------------------------------------------------------------


def dask_objective(problem: Problem) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return loss and gradient as expressions of dask.array, computed together."""
    import dask
    import dask.array as da

    X = da.from_array(problem.X, chunks=(CHUNK, -1))
    y = da.from_array(problem.y, chunks=CHUNK)
    _, l2 = problem.penalties
    n = len(problem.y)

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = y * X.dot(w)
        loss = da.log1p(da.exp(-margin)).sum()
        gradient = X.T.dot(-y / (1 + da.exp(margin)))
        value, slope = dask.compute(loss, gradient, scheduler="threads", num_workers=2)
        return float(value) / n + l2 / 2 * float(w @ w), slope / n + l2 * w

    return objective


def dask_visits(count: int) -> Sequence[Any]:
    """Persist a chain of visits that do nothing, as `dask.delayed` has them."""
    import dask

    visit = dask.delayed(lambda theta, table, average: (theta, table, average), nout=3)
    theta, average, tables = 0.0, 0.0, [0.0] * 20
    for k in range(count):
        theta, tables[k % 20], average = visit(theta, tables[k % 20], average)
    return dask.persist(theta, tables, average, scheduler="threads", num_workers=2)
