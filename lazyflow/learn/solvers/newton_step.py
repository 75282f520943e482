"""The step of Newton's method, also where the Hessian is singular, and what it promises."""

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lazyflow.learn.solvers.problem import Problem

__all__ = ["half_decrement", "newton_step"]

_MOST = 500  # coefficients: more cost more than they tell


def half_decrement(problem: Problem, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Return half the squared Newton decrement, g'H⁻¹g / 2: one pass; NaN for many coefficients.

    Near the minimum it is how far the objective is above it. It is no bound, as a duality gap is,
    but without penalty there is none.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> rows = kept_rows([RowChunk(np.array([[1.0], [-1.0]]), [1, -1], None)], NumberTargets(1), {})
    >>> problem, theta = Problem(rows, SQUARES, 0.0, 0.0, free=False), np.zeros((1, 2))
    >>> value, gradient = problem.value_and_gradient(theta)
    >>> value, half_decrement(problem, theta, gradient)
    (0.5, 0.5)
    """
    if gradient.size > _MOST:
        return math.nan
    hessian = problem.hessian(theta)
    if not np.isfinite(hessian).all():
        return math.nan
    return max(float((gradient * newton_step(problem, hessian, gradient)).sum()) / 2, 0.0)


def newton_step(problem: Problem, hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the Hessian's inverse times the gradient; intercepts that are not free stay.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> rows = kept_rows([RowChunk(np.array([[1.0], [-1.0]]), [2, 0], None)], NumberTargets(1), {})
    >>> problem = Problem(rows, SQUARES, 0.0, 1.0, free=True)
    >>> _, gradient, hessian = problem.second_order(np.zeros((1, 2)))
    >>> newton_step(problem, hessian, gradient)
    array([[-0.5, -1. ]])
    """
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
