"""L-BFGS: SciPy's optimiser around one graph that is planned once.

From top to bottom: a function of one chunk (`lazyflow.learn.kernels.sums.loss_sums`), a tree of
tasks over all chunks (`Problem.value_and_gradient`), and the loop of SciPy that runs this graph
again and again.

SciPy sees the coordinates of `lazyflow.learn.solvers.coordinates`.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from lazyflow.learn.solvers.coordinates import coordinates_at
from lazyflow.learn.solvers.history import History, Solution, StopRule
from lazyflow.learn.solvers.problem import Problem

__all__ = ["finished_by_lbfgs", "lbfgs"]

_NO_BETTER = "the objective can't be lowered any further in float64, so raise tol"
_ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a value


class _Near(NamedTuple):
    """A point so near to the minimum that values don't tell any more."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray


def lbfgs(problem: Problem, start: np.ndarray, rule: StopRule) -> Solution:
    """Minimise a problem without l1 penalty; `start` is theta (K, d + 1).

    The result has the same bits on every scheduler and for any number of workers.

    Notes
    -----
    R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, "A limited memory algorithm for bound constrained
    optimization", SIAM J. Sci. Comput. 16 (1995), as `scipy.optimize` has it.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> rows = kept_rows([RowChunk(np.array([[1.0], [-1.0]]), [2, 0], None)], NumberTargets(1), {})
    >>> found = lbfgs(Problem(rows, SQUARES, 0.0, 1.0, True), np.zeros((1, 2)), StopRule(1e-9))
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

    Where rounding hides what a step changes in the value, it goes on by changes that are computed
    of the gradients (the trapezoidal rule), which have as many digits as those.
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
