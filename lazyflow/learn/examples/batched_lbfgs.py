"""L-BFGS over batches: SciPy's optimiser here, the data and the sums where the workers are.

Batches are put once, so no evaluation sends them again. Parameters are put once per evaluation,
so they travel once to each worker and not once to each task. Loss and gradient are first
computed apart, by SciPy's oldest interface, then together in one pass, which reads each batch half
as often. Sums are made in the same order as in the plain loop at the end: all three agree.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import fmin_l_bfgs_b

import lazyflow
from lazyflow.learn.kernels.losses import SOFTMAX
from lazyflow.learn.kernels.sums import loss_sums

BATCHES, ROWS, FEATURES, CLASSES = 16, 200, 20, 3
MAX_ITER = 60  # steps
GOAL = 1e-10  # largest entry of a gradient

Batch = tuple[np.ndarray, np.ndarray]
Found = tuple[np.ndarray, float, int]


def made_batches(seed: int = 0) -> list[Batch]:
    """Return batches of rows around three centres that overlap, and the centres' numbers."""
    random = np.random.default_rng(seed)
    centres = 0.3 * random.normal(size=(CLASSES, FEATURES))
    labels = random.integers(CLASSES, size=(BATCHES, ROWS))
    X = centres[labels] + random.normal(size=(BATCHES, ROWS, FEATURES))
    return list(zip(X, labels, strict=True))


def pair(theta: np.ndarray, batch: Batch) -> np.ndarray:
    """Return loss and gradient of one batch in one vector, the loss first."""
    X, labels = batch
    theta = theta.reshape(CLASSES, FEATURES + 1)
    loss, gradient = loss_sums(SOFTMAX, theta, X, labels[:, None], None)
    return np.concatenate([[loss], gradient.ravel()])


def loss(theta: np.ndarray, batch: Batch) -> float:
    """Return the loss of one batch."""
    return float(pair(theta, batch)[0])


def grad(theta: np.ndarray, batch: Batch) -> np.ndarray:
    """Return the gradient of one batch."""
    return pair(theta, batch)[1:]


class Objective:
    """The mean loss of batches that are with the workers."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = [lazyflow.put(batch) for batch in batches]  # once
        self.rows = sum(len(labels) for _, labels in batches)

    def _sum(self, function: Callable[..., Any], theta: np.ndarray) -> Any:
        here = lazyflow.put(theta)  # once per evaluation
        parts = [lazyflow.delayed(function)(here, batch) for batch in self.batches]
        return lazyflow.tree_reduce(add, parts, split_every=BATCHES).compute() / self.rows

    def full_loss(self, theta: np.ndarray) -> float:
        """Return the loss over all batches."""
        return float(self._sum(loss, theta))

    def full_grad(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient over all batches."""
        gradient: np.ndarray = self._sum(grad, theta)
        return gradient

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return loss and gradient in one pass over the batches."""
        total = self._sum(pair, theta)
        return float(total[0]), total[1:]


def serial_objective(batches: list[Batch]) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return the same function as a plain loop: no tasks."""
    rows = sum(len(labels) for _, labels in batches)

    def both(theta: np.ndarray) -> tuple[float, np.ndarray]:
        total = pair(theta, batches[0])
        for batch in batches[1:]:
            total = total + pair(theta, batch)
        return float(total[0] / rows), total[1:] / rows

    return both


class Minimum(NamedTuple):
    """The minimum, and how far two ways to it are from that of the plain loop."""

    theta: np.ndarray
    loss: float
    apart: float
    one_pass: float

    @property
    def reached(self) -> bool:
        """Whether all agree."""
        return max(self.apart, self.one_pass) <= GOAL


def minimised(name: str, function: Callable[..., Any], **options: Any) -> Found:
    """Run SciPy's optimiser from zero and print what it did."""
    began = perf_counter()
    start = np.zeros(CLASSES * (FEATURES + 1))
    theta, value, info = fmin_l_bfgs_b(function, start, maxiter=MAX_ITER, **options)
    seconds = perf_counter() - began
    print(
        f"  {name:<26}  loss {value:.12f}  {info['nit']:>3} iterations  "
        f"{info['funcalls']:>3} evaluations  {seconds:6.2f} s"
    )
    return theta, float(value), int(info["nit"])


def main(scheduler: str = "threads") -> Minimum:
    """Minimise in three ways and print how far they are apart."""
    print(
        f"L-BFGS over {BATCHES} batches of {ROWS} rows x {FEATURES} features, {CLASSES} classes, "
        f"scheduler {scheduler}"
    )
    batches = made_batches()
    with lazyflow.config.set(scheduler=scheduler):
        objective = Objective(batches)
        apart = minimised(
            "loss and gradient apart", objective.full_loss, fprime=objective.full_grad
        )
        one_pass = minimised("in one pass", objective.both)
    serial = minimised("a plain loop", serial_objective(batches))
    theta, least, _ = one_pass
    outcome = Minimum(theta, least, _distance(apart, serial), _distance(one_pass, serial))
    verdict = "ok" if outcome.reached else "MISSED"
    print(
        f"  largest difference from the plain loop: {outcome.apart:.1e} apart, "
        f"{outcome.one_pass:.1e} in one pass; goal <= {GOAL:g}  {verdict}"
    )
    return outcome


def _distance(one: Found, other: Found) -> float:
    return max(float(abs(one[0] - other[0]).max()), abs(one[1] - other[1]))
