"""SVRG: each chunk takes a pass of its own from the same point, and a line search joins them.

A round: the gradient of the whole at theta; from there, in all chunks at once, a pass of steps
whose slopes at theta are kept fixed, so that they correct the gradient of the whole by what changes
in their rows; the mean of where the chunks ended, less theta, is a direction down, along which the
objective is searched. One round reads the rows three times, on all workers side by side.

R. Johnson, T. Zhang, "Accelerating stochastic gradient descent using predictive variance
reduction" (2013). Where chunks are too different the direction is poor: then it ends by L-BFGS.
"""

import numpy as np

from lazyflow import compute, delayed
from lazyflow.learn.data.rows import tree_sum
from lazyflow.learn.kernels.losses import Loss
from lazyflow.learn.kernels.steps import StepSizes, take_steps
from lazyflow.learn.kernels.sums import slopes_of
from lazyflow.learn.solvers.lbfgs import finished_by_lbfgs
from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.schedule import (
    BLOCK,
    centred,
    curvature,
    epoch_order,
    step_length,
    uncentred,
)
from lazyflow.learn.solvers.stopping import History, Solution, StopRule

__all__ = ["svrg"]

_SUFFICIENT = 1e-4  # Armijo's part of the decrease that the gradient promises
_SHORTEST = 1e-3
_ROUNDS, _SLOW = 3, 0.5  # where so many rounds leave more than this of the gradient, it is given up


def svrg(
    problem: Problem, start: np.ndarray, rule: StopRule, *, seed: int = 0, block: int = BLOCK
) -> Solution:
    """Minimise a problem of dense rows without l1 penalty; `start` is theta (K, d + 1).

    Same seed, same bits: on every scheduler and for any number of workers. Other chunks lead to the
    same minimum by other points.

    Examples
    --------
    >>> found = svrg(Problem.of_squares([[1.0], [-1.0]], [2, 0]), np.zeros((1, 2)), StopRule(1e-9))
    >>> found.theta.round(6), found.converged
    (array([[0.5, 1. ]]), True)
    """
    history = History(problem, rule)
    mean = problem.rows.mean if problem.free else np.zeros(problem.rows.n_features)
    bounds = curvature(problem, block, mean)
    history.passes += 1
    step = step_length(problem, bounds)
    theta, length = start, 0.0
    value, gradient = history.evaluate(theta)
    for iteration in range(rule.max_iter + 1):
        if history.record(iteration, theta, value, gradient, length) or iteration == rule.max_iter:
            break
        if not step:  # squares of the rows overflow
            break
        if _is_slow(history):
            return finished_by_lbfgs(history, gradient)
        to = _joined_passes(problem, theta, gradient, (step, block, mean), (seed, iteration))
        history.passes += 2
        direction = to - theta
        slope = float((gradient * direction).sum())
        length = 1.0
        while np.isfinite(slope) and slope < 0 and length >= _SHORTEST:
            found = history.evaluate(theta + length * direction)
            if found[0] <= value + _SUFFICIENT * length * slope:
                break
            length /= 2
        else:
            return finished_by_lbfgs(history, gradient)
        theta, (value, gradient) = theta + length * direction, found
    return history.solution("raise max_iter or tol, or scale the features")


def _is_slow(history: History) -> bool:
    """Whether the last rounds left most of the gradient."""
    norms = [each.gradient_norm for each in history.trace]
    return len(norms) > _ROUNDS and norms[-1] > _SLOW * norms[-1 - _ROUNDS]


@delayed
def _pass(
    loss: Loss, theta: np.ndarray, gradient: np.ndarray, X: np.ndarray, y: np.ndarray,
    weight: np.ndarray | None, how: tuple[StepSizes, int, np.ndarray], key: tuple[int, int, int],
) -> tuple[np.ndarray]:
    """Return the total weight of one chunk times where a pass through it ends."""
    sizes, block, mean = how
    total = float(len(X) if weight is None else weight.sum())
    if not total:
        return (np.zeros_like(theta),)
    seed, iteration, number = key
    starts = epoch_order(len(X), block, (seed, (iteration << 32) + number))
    sizes = sizes._replace(per_block=len(starts) / total)
    table = slopes_of(loss, theta, X, y)
    ended, _, _ = take_steps(
        loss, centred(theta, mean), table, gradient, [(X, y, weight)], starts, block, mean, sizes,
        fixed=True,
    )
    return (total * ended,)


def _joined_passes(
    problem: Problem, theta: np.ndarray, gradient: np.ndarray,
    how: tuple[float, int, np.ndarray], key: tuple[int, int],
) -> np.ndarray:
    """Return the mean of where the chunks' passes end."""
    step, block, mean = how
    rows = problem.rows
    sizes = StepSizes(step, 0.0, float(problem.l2), 0.0, 0.0, float(problem.free))
    fixed = gradient.copy()
    fixed[:, :-1] -= problem.l2 * theta[:, :-1]  # the penalty's is added where the step is
    fixed[:, :-1] -= np.outer(gradient[:, -1], mean)  # as of rows less their mean
    (total,) = compute(tree_sum([
        _pass(problem.loss, theta, fixed, *chunk, (sizes, block, mean), (*key, number))
        for number, chunk in enumerate(rows.chunks)
    ]), **problem.run)[0]
    return uncentred(np.asarray(total) / rows.total, mean)
