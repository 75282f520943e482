"""The trace of a solver, its tests for stopping, and what it returns.

A solver stops for what is certain, the gradient or the duality gap over all rows, and never since
its coefficients moved little: that is what small steps do, too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from lazyflow.api.works import went_on
from lazyflow.learn.solvers.certificate import certificate, exact_gap, gap_at, gradient_norm
from lazyflow.learn.solvers.newton_step import half_decrement
from lazyflow.learn.solvers.problem import Problem

__all__ = ["Callback", "History", "Progress", "Solution", "StopRule"]


class Progress(NamedTuple):
    """Where a solver is.

    iteration
        From 0, the start; of SAGA and SVRG epochs and rounds.
    passes
        How often all rows were read.
    seconds
        Since the solver was called.
    objective, gradient_norm
        Exact, over all rows; the norm is the largest component of the gradient, with an l1
        penalty of what a gradient step of length 1 would change.
    gap
        The duality gap; an estimate while the intercepts are not optimal, NaN without l2 penalty.
    step
        The length of the last step.
    theta
        Coefficients and, last, intercepts: (K, d + 1).

    Examples
    --------
    >>> Progress(0, 1, 0.01, 0.69, 0.5, 1.0, 0.0, np.zeros((1, 3))).coef
    array([[0., 0.]])
    """

    iteration: int
    passes: float
    seconds: float
    objective: float
    gradient_norm: float
    gap: float
    step: float
    theta: np.ndarray

    @property
    def coef(self) -> np.ndarray:
        """The coefficients (K, d).

        Examples
        --------
        >>> Progress(0, 1, 0.01, 0.69, 0.5, 1.0, 0.0, np.ones((1, 3))).coef
        array([[1., 1.]])
        """
        return self.theta[:, :-1]

    @property
    def intercept(self) -> np.ndarray:
        """The intercepts (K,).

        Examples
        --------
        >>> Progress(0, 1, 0.01, 0.69, 0.5, 1.0, 0.0, np.ones((1, 3))).intercept
        array([1.])
        """
        return self.theta[:, -1]

    def text(self) -> str:
        """Return how near the solver is, in words.

        Examples
        --------
        >>> Progress(0, 1, 0.01, 0.69, 0.5, 1.0, 0.0, np.ones((1, 3))).text()
        'gradient norm 0.5, gap 1'
        """
        gap = "" if math.isnan(self.gap) else f", gap {self.gap:.2g}"
        return f"gradient norm {self.gradient_norm:.2g}{gap}"


Callback = Callable[[Progress], Any]
"""A function that is called with each `Progress`; a true result or StopIteration stops."""


class StopRule(NamedTuple):
    """When a solver stops.

    tol
        When the gradient's norm is at most this.
    gap_tol
        Or when the exact duality gap is at most this times the objective, if given.
    max_iter
        Or after so many iterations.
    callback
        Or when this says so.

    Examples
    --------
    >>> StopRule(tol=1e-6).max_iter
    1000
    """

    tol: float = 1e-4
    gap_tol: float | None = None
    max_iter: int = 1000
    callback: Callback | None = None


@dataclass(frozen=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    theta : ndarray, shape (K, d + 1)
        Coefficients and, last, intercepts.
    history : dict of ndarray
        The trace: what `Progress` has, without theta.
    converged : bool
        Whether the stop rule's tolerance, or its gap, was reached.
    gap : float
        The exact duality gap: F is not further above its minimum. NaN without penalty.
    decrement : float
        Without penalty half the squared Newton decrement: near the minimum, how far F is above it.
        NaN with a penalty, and for more than 500 coefficients.
    n_iter, n_passes : int, float
    message : str
        Why it stopped, with figures, where it did not converge.

    Examples
    --------
    >>> Solution(np.zeros((1, 2)), {}, True, 0.0, math.nan, 3, 4.0, "").converged
    True
    """

    theta: np.ndarray
    history: dict[str, np.ndarray]
    converged: bool
    gap: float
    decrement: float
    n_iter: int
    n_passes: float
    message: str


class History:
    """Collects the trace of one run of a solver and decides when to stop.

    Examples
    --------
    >>> History(None, StopRule()).passes
    0
    """

    def __init__(self, problem: Problem, rule: StopRule) -> None:
        self.problem = problem
        self.rule = rule
        self.began = perf_counter()
        self.passes: float = 0
        self.trace: list[Progress] = []
        self.smooth: tuple[float, np.ndarray] | None = None  # value and gradient at the last point
        self.converged = False
        self.stopped = False

    def evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient of the problem, and count the pass.
        """
        self.passes += 1
        return self.problem.value_and_gradient(theta)

    def record(
        self, iteration: int, theta: np.ndarray, value: float, gradient: np.ndarray, step: float
    ) -> bool:
        """Add a point by the smooth part's value and gradient; return whether it is the last.
        """
        problem, rule = self.problem, self.rule
        norm = gradient_norm(problem, theta, gradient)
        objective = value + problem.l1 * float(abs(theta[:, :-1]).sum())
        gap = gap_at(problem, theta, gradient)
        seconds = perf_counter() - self.began
        point = Progress(
            iteration, self.passes, seconds, objective, norm, gap, step, theta.copy()
        )
        self.trace.append(point)
        went_on(self.passes, point.text)
        self.smooth = value, gradient.copy()
        self.converged = norm <= rule.tol
        if rule.gap_tol is not None and not self.converged and not gap > rule.gap_tol * objective:
            self.converged = exact_gap(problem, theta, self.smooth)[0] <= rule.gap_tol * objective
        if rule.callback is not None:
            try:
                self.stopped = bool(rule.callback(point))
            except StopIteration:
                self.stopped = True
        return self.converged or self.stopped or not math.isfinite(norm)

    def solution(self, advice: str) -> Solution:
        """Return the last point, with its best intercepts, as what was found.

        `advice` is what to do if it is not good.
        """
        last = self._best()
        gap, theta, norm, decrement = math.nan, last.theta, last.gradient_norm, math.nan
        if math.isfinite(norm):
            known = self.smooth if last is self.trace[-1] else None
            if not (self.problem.l1 or self.problem.l2):
                if known is None:
                    known = self.problem.value_and_gradient(theta)
                decrement = half_decrement(self.problem, theta, known[1])
            gap, theta, smooth = certificate(self.problem, last.theta, known)
            if smooth is not None:
                gap, theta, norm = self._chosen(last, gap, theta, smooth)
        # Without penalty, and where nothing is finite, there is none.
        words = "" if math.isnan(gap) else f" and the duality gap {gap:.2g}"
        if not math.isnan(decrement):
            words = f" and half the squared Newton decrement {decrement:.2g}"
        message = "" if self.converged or self.stopped else (
            f"no convergence: after {last.iteration} iterations and {last.passes:g} passes over "
            f"the rows the gradient's norm is {norm:.2g} (tol={self.rule.tol:g})"
            f"{words}, of an objective of {last.objective:.6g}; {advice}"
        )
        return Solution(
            theta, self.arrays(), self.converged, gap, decrement, last.iteration, self.passes,
            message,
        )

    def _chosen(
        self, last: Progress, gap: float, theta: np.ndarray, smooth: tuple[float, np.ndarray]
    ) -> tuple[float, np.ndarray, float]:
        """Return gap, theta and norm: with the best intercepts, or as the last point has them.

        They may be all that it lacked. But if it converged, and they would be beyond the tolerance
        again, it stays, and its gap is larger by how much higher it is.
        """
        norm = gradient_norm(self.problem, theta, smooth[1])
        if self.converged and last.gradient_norm <= self.rule.tol < norm:
            l1 = self.problem.l1 * float(abs(theta[:, :-1]).sum())
            return gap + max(last.objective - smooth[0] - l1, 0.0), last.theta, last.gradient_norm
        if not self.stopped:
            self.converged = self.converged or norm <= self.rule.tol
        return gap, theta, norm

    def _best(self) -> Progress:
        """Return the last point, or the best before it if that is not finite."""
        last = self.trace[-1]
        if math.isfinite(last.gradient_norm) and math.isfinite(last.objective):
            return last
        finite = [each for each in self.trace if math.isfinite(each.objective)]
        return min(finite, key=lambda each: each.objective) if finite else last

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the trace as an array for each field of `Progress` but theta.

        Examples
        --------
        >>> sorted(History(None, StopRule()).arrays())[:3]
        ['gap', 'gradient_norm', 'iteration']
        """
        names = Progress._fields[:-1]
        return {name: np.array([getattr(each, name) for each in self.trace]) for name in names}
