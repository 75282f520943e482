"""L-BFGS: SciPy's optimiser around one graph that is planned once.

From top to bottom: a function of one chunk (`lazyflow.learn.kernels.sums.loss_sums`), a tree of
tasks over all chunks (`Problem.value_and_gradient`), and the loop of SciPy that runs this graph
again and again.

SciPy sees the coordinates that the first part of this module makes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import OptimizeResult, minimize

from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.stopping import History, Solution, StopRule

# -- coordinates --------------------------------------------------------------------------
# Coordinates along which the curvature of a loss is about equal, for solvers that see gradients.
# They come from the Hessian of a sample of the rows, up to as many features as it is cheap for. On
# 100,000 rows whose features have scales from 1 to 0.01, L-BFGS takes 7 passes to a millionth of
# the minimum, and 155 in the coordinates of the features.

# All are guessed.
_SAMPLE, _PER_FEATURE = 8192, 16  # rows of a sample at least, and for each feature
_MOST = 500  # features, at most
_DOUBT = 4  # so many times what a sample leaves uncertain of a diagonal is added to it
_LEAST = 1e-8  # this part of a diagonal is added to it where all rows were seen


class Coordinates(NamedTuple):
    """Coordinates u = scale * R theta, where R'R is about the Hessian; None is 1.

    The objective is multiplied by scale²: the first step of SciPy, which has the length 1, is then
    that of Newton.

    Examples
    --------
    >>> there = Coordinates(np.array([[2.0, 0.0], [0.0, 1.0]]), 1.0)
    >>> u = there.of(np.array([[3.0, 1.0]]))
    >>> u, there.theta(u), there.gradient(np.array([[4.0, 1.0]]))
    (array([[6., 1.]]), array([[3., 1.]]), array([[2., 1.]]))
    """

    factor: np.ndarray | None
    scale: float

    def of(self, theta: np.ndarray) -> np.ndarray:
        """Return u for theta (K, d + 1)."""
        return self.scale * (theta if self.factor is None else theta @ self.factor.T)

    def theta(self, u: np.ndarray) -> np.ndarray:
        """Return theta for u."""
        if self.factor is not None:
            u = solve_triangular(self.factor, u.T, check_finite=False).T
        found: np.ndarray = u / self.scale
        return found

    def gradient(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient by u, given that by theta."""
        if self.factor is not None:
            gradient = solve_triangular(self.factor, gradient.T, trans=1, check_finite=False).T
        return self.scale * gradient

    def from_here(self, gradient: np.ndarray) -> Coordinates:
        """Return coordinates with the scale for a start with this gradient."""
        if self.factor is None:
            return self
        length = float(np.linalg.norm(self._replace(scale=1.0).gradient(gradient)))
        return self._replace(scale=1 / length if 0 < length < math.inf else 1.0)


def coordinates_at(problem: Problem, theta: np.ndarray) -> tuple[Coordinates, float]:
    """Return coordinates by a sample's curvature at theta, and the passes that this took.

    Examples
    --------
    >>> problem = Problem.of_squares([[1.0], [-1.0]], [2, 0], free=False)
    >>> there, _ = coordinates_at(problem, np.zeros((1, 2)))
    >>> there.factor.round(3)
    array([[1.414, 0.   ],
           [0.   , 1.   ]])
    """
    plain = Coordinates(None, 1.0)
    p = problem.shape[1]
    if p > _MOST:
        return plain, 0.0
    every = problem.every(max(_SAMPLE, _PER_FEATURE * p))
    matrix, uncertain = problem.mean_curvature(theta, every)
    each = np.arange(p)
    diagonal = matrix[each, each]
    # A feature that no row of the sample has may be in one of as many other rows, and be as large
    # there as a mean row is as a whole.
    unseen = diagonal.sum() / max(problem.rows.n // every, 1) or 1.0
    # All rows leave nothing uncertain, and a row of weight 2 must be as good as two rows.
    doubt = _DOUBT * uncertain if every > 1 else _LEAST
    matrix[each, each] += np.where(diagonal > 0, doubt * diagonal, unseen)
    matrix[each[:-1], each[:-1]] += problem.l2
    if not problem.free:
        matrix[-1], matrix[:, -1] = 0.0, 0.0
        matrix[-1, -1] = 1.0
    try:
        return Coordinates(cholesky(matrix), 1.0), 1 / every
    except (LinAlgError, ValueError):  # not finite, or hidden by rounding
        return plain, 1 / every


_NO_BETTER = "the objective can't be lowered any further in float64, so raise tol"
_ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a value


class _Near(NamedTuple):
    """A point so close to the minimum that differences of values are rounding errors."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray


# -- the solver ---------------------------------------------------------------------------


def lbfgs(problem: Problem, start: np.ndarray, rule: StopRule) -> Solution:
    """Minimise a problem without l1 penalty; `start` is theta (K, d + 1).

    The result has the same bits on every scheduler and for any number of workers.

    Notes
    -----
    R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, "A limited memory algorithm for bound constrained
    optimization", SIAM J. Sci. Comput. 16 (1995), as in `scipy.optimize`.

    Examples
    --------
    >>> found = lbfgs(Problem.of_squares([[1.0], [-1.0]], [2, 0]), np.zeros((1, 2)), StopRule(1e-9))
    >>> found.theta.round(6), found.converged, round(found.gap, 12)
    (array([[0.5, 1. ]]), True, 0.0)
    """
    history = History(problem, rule)
    value, gradient = history.evaluate(start)
    if history.record(0, start, value, gradient, 0.0):
        return history.solution(_NO_BETTER)
    return finished_by_lbfgs(history, gradient)


def finished_by_lbfgs(history: History, gradient: np.ndarray) -> Solution:
    """Go on by L-BFGS from the last point of a trace, whose gradient is given.

    Where rounding errors hide the change of the value by a step, the change is computed from the
    gradients (the trapezoidal rule), which keep their digits.
    """
    rule, shape = history.rule, gradient.shape
    value = history.trace[-1].objective
    coordinates, passes = coordinates_at(history.problem, history.trace[-1].theta)
    history.passes += passes
    known = True  # value and gradient are those of where SciPy begins
    near: _Near | None = None  # from where changes count

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal gradient, value, known
        theta = coordinates.theta(flat.reshape(shape))
        if not known:
            value, gradient = history.evaluate(theta)
        known = False
        height = value
        if near is not None:
            height = 0.5 * float(((gradient + near.gradient) * (theta - near.theta)).sum())
        return coordinates.scale**2 * height, coordinates.gradient(gradient).ravel()

    def iteration_ended(intermediate_result: OptimizeResult) -> None:
        # The last evaluation of a line search is the point it accepts: `gradient` belongs to it.
        theta = coordinates.theta(intermediate_result.x.reshape(shape))
        if near is not None and value > near.value + _ROUNDING * abs(near.value):
            raise StopIteration  # too far for the rule
        last = history.trace[-1]
        length = float(np.linalg.norm(theta - last.theta))
        if history.record(last.iteration + 1, theta, value, gradient, length):
            raise StopIteration

    while True:
        before = history.trace[-1]
        coordinates = coordinates.from_here(gradient)
        minimize(
            objective, coordinates.of(before.theta).ravel(), jac=True, method="L-BFGS-B",
            callback=iteration_ended,
            options={
                "gtol": 0.0, "ftol": 0.0, "maxls": 50, "maxfun": np.inf,
                "maxiter": rule.max_iter - before.iteration,
            },
        )
        last = history.trace[-1]
        if last.iteration >= rule.max_iter:
            return history.solution("raise max_iter or tol")
        if history.converged or history.stopped or not np.isfinite(last.objective):
            return history.solution(_NO_BETTER)
        if near is not None and not last.gradient_norm < before.gradient_norm / 2:
            return history.solution(_NO_BETTER)
        value, gradient = history.evaluate(last.theta)
        known, near = True, _Near(last.theta, value, gradient)
