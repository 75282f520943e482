"""Newton's method: a tree of tasks adds up value, gradient and Hessian in one pass over the rows.

For few coefficients, since the Hessian has their square, and is solved by the caller. It does not
mind scales of features, which stop the others.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lazyflow.learn.solvers.history import History, Solution, StopRule
from lazyflow.learn.solvers.problem import Problem

__all__ = ["newton"]

_SUFFICIENT = 1e-4  # Armijo's part of the decrease that the gradient promises
_SHORTEST = 1e-10


def newton(problem: Problem, start: np.ndarray, rule: StopRule) -> Solution:
    """Minimise a problem without l1 penalty; `start` is theta (K, d + 1).

    Where the tolerance is reached it takes one step more: that squares the error.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> rows = kept_rows([RowChunk(np.array([[1.0], [-1.0]]), [2, 0], None)], NumberTargets(1), {})
    >>> newton(Problem(rows, SQUARES, 0.0, 1.0, True), np.zeros((1, 2)), StopRule()).theta
    array([[0.5, 1. ]])
    """
    history = History(problem, rule)
    theta, length = start, 0.0
    value, gradient, hessian = _evaluated(history, theta)
    advice = "raise max_iter or tol"
    for iteration in range(rule.max_iter + 1):
        last = history.record(iteration, theta, value, gradient, length)
        if (last and not history.converged) or iteration == rule.max_iter:
            break
        if not np.isfinite(hessian).all():
            advice = "squares of the rows overflow, so scale the features"
            break
        direction = -_solved(problem, hessian, gradient)
        slope = float((gradient * direction).sum())
        if last and -slope <= np.finfo(float).eps * abs(value):
            break  # as good as float64 tells
        length = 1.0
        while True:
            to = theta + length * direction
            found = _evaluated(history, to)
            if found[0] <= value + _SUFFICIENT * length * slope or length < _SHORTEST:
                break
            if _is_rounding(found, value, gradient):
                break
            length /= 2
        if not (found[0] < value or _is_rounding(found, value, gradient)):
            advice = "the objective can't be lowered any further in float64, so raise tol"
            break
        theta, (value, gradient, hessian) = to, found
        if last:
            history.record(iteration + 1, theta, value, gradient, length)
            break
    return history.solution(advice)


def _is_rounding(found: tuple[Any, ...], value: float, gradient: np.ndarray) -> bool:
    """Whether a step halves the gradient, and changes the value by no more than rounding does."""
    near = abs(found[0] - value) <= 8 * np.finfo(float).eps * abs(value)
    return bool(near and abs(found[1]).max() < abs(gradient).max() / 2)


def _evaluated(history: History, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    history.passes += 1
    return history.problem.second_order(theta)


def _solved(problem: Problem, hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the Hessian's inverse times the gradient."""
    K, p = gradient.shape
    chosen = np.ones((K, p), bool)
    if not problem.free:
        chosen[:, -1] = False
    if K > 1 and problem.loss.kind == problem.loss.kind.SOFTMAX:
        hessian = _without_common_shift(problem, hessian)
    matrix = hessian.reshape(K * p, K * p)[np.ix_(chosen.ravel(), chosen.ravel())]
    out = np.zeros((K, p))
    try:
        out[chosen] = cho_solve(cho_factor(matrix), gradient[chosen])
    except LinAlgError:  # constant features without penalty, classes that a plane parts
        out[chosen] = np.linalg.lstsq(matrix, gradient[chosen], rcond=1e-12)[0]
    return out


def _without_common_shift(problem: Problem, hessian: np.ndarray) -> np.ndarray:
    """Return a Hessian of softmax that is not flat where all classes move together.

    What has no penalty can be shifted in all classes at once and nothing changes; the gradient has
    no part along that, so a curvature of its own there keeps such steps at 0.
    """
    K, p = hessian.shape[:2]
    hessian = hessian.copy()
    for j in range(p) if not problem.l2 else [p - 1]:
        scale = float(np.trace(hessian[:, j, :, j])) / K or 1.0
        hessian[:, j, :, j] += scale / K
    return hessian
