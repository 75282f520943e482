"""The result of a solver: coefficients, and the trace of its convergence."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from lazyflow.errors import LazyflowWarning

__all__ = ["Callback", "History", "Point", "Result", "SolverResult"]


class Point(NamedTuple):
    """One line of a convergence trace.

    `step` counts iterations (L-BFGS) or epochs (SAGA) from 0, the start; `objective` and
    `gradient_norm`, the largest absolute component of its gradient, are exact values over all
    rows; `seconds` have passed since the solver was called.

    Examples
    --------
    >>> Point(step=0, objective=0.69, gradient_norm=0.5, seconds=0.01).objective
    0.69
    """

    step: int
    objective: float
    gradient_norm: float
    seconds: float


Callback = Callable[[Point], Any]
"""A function that is called with every point of the trace; a true result stops the solver."""


@dataclass(frozen=True, repr=False)
class SolverResult:
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

    Examples
    --------
    >>> model = SolverResult(
    ...     np.array(["no", "yes"]), np.array([[-1.0], [1.0]]), np.array([0.5, -0.5]), True,
    ...     [Point(9, 0.3, 1e-9, 0.1)],
    ... )
    >>> model
    <Result: 2 classes, 1 features, converged at step 9, objective 0.3, max|gradient| 1e-09>
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
        """Return the score of each class for each row of `X` (n, d): shape (n, K).

        Examples
        --------
        >>> model = SolverResult(
        ...     np.array(["a", "b"]), np.array([[1.0], [2.0]]), np.zeros(2), True, []
        ... )
        >>> model.decision_function([[3.0]])
        array([[3., 6.]])
        """
        return np.asarray(X) @ self.coef.T + self.intercept

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the highest score for each row of `X` (n, d): shape (n,).

        Examples
        --------
        >>> model = SolverResult(
        ...     np.array(["a", "b"]), np.array([[1.0], [2.0]]), np.zeros(2), True, []
        ... )
        >>> model.predict([[3.0], [-3.0]]).tolist()
        ['b', 'a']
        """
        return self.classes[self.decision_function(X).argmax(axis=1)]


Result = SolverResult


class History:
    """Collects the trace of one run of a solver and decides when to stop.

    Examples
    --------
    >>> history = History(tol=0.1, callback=None)
    >>> history.record(0, 0.69, np.array([0.5])), history.record(1, 0.3, np.array([0.05]))
    (False, True)
    """

    def __init__(self, tol: float, callback: Callback | None) -> None:
        self.began = perf_counter()
        self.tol = tol
        self.callback = callback
        self.points: list[Point] = []
        self.asked_to_stop = False

    def record(self, step: int, objective: float, gradient: np.ndarray) -> bool:
        """Add a point; return whether it is the last: converged, not finite, or stopped.

        Examples
        --------
        >>> History(tol=0.1, callback=lambda point: point.step == 3).record(3, 0.7, np.ones(2))
        True
        """
        norm = float(abs(gradient).max())
        self.points.append(Point(step, float(objective), norm, perf_counter() - self.began))
        if self.callback is not None and self.callback(self.points[-1]):
            self.asked_to_stop = True
        return self.asked_to_stop or norm <= self.tol or not math.isfinite(norm)

    def result(self, classes: np.ndarray, theta: np.ndarray, advice: str) -> SolverResult:
        """Return the model `theta` (K, d + 1), intercepts last; warn when it did not converge.

        Examples
        --------
        >>> history = History(tol=0.1, callback=None)
        >>> history.record(1, 0.3, np.array([0.05]))
        True
        >>> history.result(np.array([0, 1]), np.eye(2), "raise max_iter").converged
        True
        """
        last = self.points[-1]
        converged = last.gradient_norm <= self.tol
        if not converged and not self.asked_to_stop:
            warnings.warn(
                f"no convergence: after {last.step} steps the gradient norm is "
                f"{last.gradient_norm:.2g}, above tol={self.tol:g}; {advice}",
                LazyflowWarning,
                stacklevel=3,
            )
        return SolverResult(classes, theta[:, :-1], theta[:, -1], converged, self.points)
