"""What a solver returns: the coefficients and how it got there."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from lazyflow.errors import LazyflowWarning

__all__ = ["Callback", "History", "Point", "Result"]


class Point(NamedTuple):
    """One line of a convergence trace.

    `step` counts iterations (L-BFGS) or epochs (SAGA) from 0, the start; `objective` and
    `gradient_norm`, the largest absolute component of its gradient, are exact values over all
    rows; `seconds` have passed since the solver was called.
    """

    step: int
    objective: float
    gradient_norm: float
    seconds: float


Callback = Callable[[Point], Any]
"""Called in the driver with every point of the trace; a true answer stops the solver."""


@dataclass(frozen=True, repr=False)
class Result:
    """A linear model of K classes and d features, with its convergence trace.

    Attributes
    ----------
    classes : ndarray, shape (K,)
        The labels; row k of `coef` belongs to ``classes[k]``.
    coef : ndarray, shape (K, d)
    intercept : ndarray, shape (K,)
    converged : bool
        Whether the gradient norm of the last point of `trace` is at most the tolerance.
    trace : list of Point
    """

    classes: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    converged: bool
    trace: list[Point] = field(repr=False)

    def __repr__(self) -> str:
        classes, features = self.coef.shape
        done = "converged" if self.converged else "not converged"
        last = self.trace[-1]
        return (
            f"<Result: {classes} classes, {features} features, {done} at step {last.step}, "
            f"objective {last.objective:.6g}, max|gradient| {last.gradient_norm:.2g}>"
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """Score each class for each row of `X` (n, d): shape (n, K)."""
        return np.asarray(X) @ self.coef.T + self.intercept

    def predict(self, X: Any) -> np.ndarray:
        """Label each row of `X` (n, d) with the class of the highest score: shape (n,)."""
        return self.classes[self.decision_function(X).argmax(axis=1)]


class History:
    """Collects the trace of one run of a solver and says when to stop."""

    def __init__(self, tol: float, callback: Callback | None) -> None:
        self.began = perf_counter()
        self.tol = tol
        self.callback = callback
        self.points: list[Point] = []
        self.asked_to_stop = False

    def record(self, step: int, objective: float, gradient: np.ndarray) -> bool:
        """Add a point; return whether it is the last: converged, not finite, or stopped."""
        norm = float(abs(gradient).max())
        self.points.append(Point(step, float(objective), norm, perf_counter() - self.began))
        if self.callback is not None and self.callback(self.points[-1]):
            self.asked_to_stop = True
        return self.asked_to_stop or norm <= self.tol or not math.isfinite(norm)

    def result(self, classes: np.ndarray, theta: np.ndarray, advice: str) -> Result:
        """Return the model `theta` (K, d + 1), intercepts last; warn when it did not converge."""
        last = self.points[-1]
        converged = last.gradient_norm <= self.tol
        if not converged and not self.asked_to_stop:
            warnings.warn(
                f"no convergence: after {last.step} steps the gradient norm is "
                f"{last.gradient_norm:.2g}, above tol={self.tol:g}; {advice}",
                LazyflowWarning,
                stacklevel=3,
            )
        return Result(classes, theta[:, :-1], theta[:, -1], converged, self.points)
