"""The losses of linear models.

A new loss is a section of this module, a branch in each function of its part "which loss a kernel
computes", and a `Loss` at its end; the solvers and SAGA's steps take it from there. An estimator
has to choose it (estimators/logistic_regression.py is one), data/rows.py to make its targets, and
tests/helpers/learn_tools.py to list it in `LOSSES`, so that it is tested as the others are.

A loss gets scores (rows, K) and targets (rows, columns): -1 or 1 in one column (logistic, K = 1),
the number of a class in one column (softmax), or K numbers (squares).

Kernels get the kind of a loss as a plain number: a class would be named in Numba's files, which
could not be read once it moves, and a compiled function as an argument would not be found there.
"""

from collections.abc import Callable
from math import exp, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from lazyflow.learn.kernels.primitives import (
    add_rows,
    compiled,
    exponential,
    inlined,
    kernel,
    write_scores,
)

_LOGISTIC, _SOFTMAX, _SQUARES = range(3)

_TINY = np.finfo(float).tiny  # its product with 0, as 0 log 0, is 0
_TILE = 16  # rows whose scores are there at once; their losses take one logarithm


class Loss(NamedTuple):
    """One loss.

    kind
        The number by which kernels choose their code.
    bound
        An upper bound of the curvature of one row's loss by its scores.
    separate
        Whether each score counts by itself. If not, only their differences count (softmax).
    steep
        Whether derivatives by a score can be above 1.
    residuals
        Function of scores and targets that returns (loss of each row, derivatives (rows, K)).
    curvatures
        Function of scores and targets that returns the second derivatives (rows, K, K).
    dual
        Function of scores, targets and a factor that returns minus the convex conjugate of each
        row's loss, at its derivatives times the factor.
    margins
        Function of scores and targets that returns by how much the score of each row's own class
        exceeds the others; infinity for regression.
    dense_sums
        The kernel that returns loss and gradient of dense rows with one score in one pass; None:
        they are computed from `residuals`.

    Examples
    --------
    >>> LOGISTIC.bound, SQUARES.residuals(np.array([[3.0]]), np.array([[1.0]]))
    (0.25, (array([2.]), array([[2.]])))
    """

    kind: int
    bound: float
    separate: bool
    steep: bool
    residuals: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    curvatures: Callable[[np.ndarray, np.ndarray], np.ndarray]
    dual: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    margins: Callable[[np.ndarray, np.ndarray], np.ndarray]
    dense_sums: Callable[..., tuple[float, np.ndarray]] | None = None


# -- logistic: log(1 + exp(-y z)) -----------------------------------------------------------------


def _logistic(scores: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    margin = scores * target
    e = np.exp(-abs(margin))  # cannot overflow
    losses = np.log1p(e) + np.maximum(-margin, 0.0)
    return losses[:, 0], -target * np.where(margin >= 0, e, 1.0) / (1.0 + e)


def _logistic_curvatures(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    probability = expit(scores)
    return (probability * (1.0 - probability))[:, :, None]


def _logistic_margins(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    margins: np.ndarray = (scores * target)[:, 0]
    return margins


def _logistic_dual(scores: np.ndarray, target: np.ndarray, factor: float) -> np.ndarray:
    margin = (scores * target)[:, 0]
    e = np.exp(-abs(margin))
    a = factor * np.where(margin >= 0, e, 1.0) / (1.0 + e)
    rest = 1.0 - a
    return -a * np.log(np.maximum(a, _TINY)) - rest * np.log(np.maximum(rest, _TINY))


@kernel
def logistic_sums(
    theta: np.ndarray, X: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the logistic loss of rows and its gradient, both summed; rows are read once.

    `theta` is (d + 1,), the intercept last; `y` (rows,) is -1 or 1; `weight` (rows,) or None.
    Without weights a tile needs one logarithm: that of the product of its numbers, which are from 1
    to 2.

    Examples
    --------
    >>> loss, gradient = logistic_sums(np.zeros(2), np.array([[3.0]]), np.array([1.0]), None)
    >>> print(round(loss, 4), gradient)
    0.6931 [-1.5 -0.5]
    """
    gradient = np.zeros(len(theta))
    return _add_logistic(theta, X, y, weight, gradient, np.zeros(_TILE)), gradient


@compiled
def _add_logistic(
    theta: np.ndarray, X: np.ndarray, y: np.ndarray, weight: np.ndarray, gradient: np.ndarray,
    tile: np.ndarray,
) -> float:
    rows, d = X.shape
    loss = 0.0
    for low in range(0, rows, _TILE):
        high = min(low + _TILE, rows)
        write_scores(theta, theta[d], X, low, high, tile)
        product = 1.0
        for i in range(high - low):
            margin = tile[i] * y[low + i]
            e = exponential(-abs(margin))  # cannot overflow
            above = max(-margin, 0.0)
            slope = -y[low + i] * (e if margin >= 0 else 1.0) / (1.0 + e)
            if len(weight):
                loss += weight[low + i] * (above + log1p(e))
                slope *= weight[low + i]
            else:
                loss += above
                product *= 1.0 + e
            tile[i] = slope
        loss += log(product)
        add_rows(tile, X, low, high, gradient)
    return loss


# -- softmax: log(sum exp(z)) - z_y ---------------------------------------------------------------


def _probabilities(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores less their largest, probabilities, and the logarithm of their total."""
    shifted = scores - scores.max(axis=1, keepdims=True)  # exp cannot overflow
    probability = np.exp(shifted)
    total = probability.sum(axis=1, keepdims=True)
    probability /= total
    return shifted, probability, np.log(total[:, 0])


def _softmax(scores: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shifted, residual, log_total = _probabilities(scores)
    own = np.arange(len(scores)), target[:, 0].astype(np.intp)
    loss = log_total - shifted[own]
    residual[own] -= 1.0
    return loss, residual


def _softmax_curvatures(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    _, probability, _ = _probabilities(scores)
    found = -probability[:, :, None] * probability[:, None, :]
    each = np.arange(scores.shape[1])
    found[:, each, each] += probability
    return found


def _softmax_margins(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    own = np.arange(len(scores)), target[:, 0].astype(np.intp)
    others = scores.copy()
    others[own] = -np.inf
    margins: np.ndarray = scores[own] - others.max(axis=1)
    return margins


@compiled
def _write_softmax(scores: np.ndarray, target: int, out: np.ndarray) -> None:
    largest = scores[0]
    for k in range(1, len(scores)):
        largest = max(largest, scores[k])
    total = 0.0
    for k in range(len(scores)):
        out[k] = exp(scores[k] - largest)  # cannot overflow
        total += out[k]
    for k in range(len(scores)):
        out[k] /= total
    out[target] -= 1.0


def _softmax_dual(scores: np.ndarray, target: np.ndarray, factor: float) -> np.ndarray:
    _, probability, _ = _probabilities(scores)
    q = factor * probability
    q[np.arange(len(q)), target[:, 0].astype(np.intp)] += 1.0 - factor
    found: np.ndarray = -xlogy(q, q).sum(axis=1)
    return found


# -- squares: (z - y)^2 / 2 -----------------------------------------------------------------------


def _squares(scores: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    residual = scores - target
    return 0.5 * (residual**2).sum(axis=1), residual


def _squares_curvatures(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    K = scores.shape[1]
    return np.broadcast_to(np.eye(K), (len(scores), K, K))


def _squares_margins(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.full(len(scores), np.inf)


def _squares_dual(scores: np.ndarray, target: np.ndarray, factor: float) -> np.ndarray:
    a = factor * (scores - target)
    found: np.ndarray = -(0.5 * a**2 + a * target).sum(axis=1)
    return found


# -- which loss a kernel computes ------------------------------------------------------------------


@compiled
def _require_separate(kind: int) -> None:
    if kind != _LOGISTIC and kind != _SQUARES:
        raise ValueError("this kernel knows the logistic loss and squares only")


@compiled
def _slope(kind: int, score: float, target: float) -> float:
    """Return the derivative of the loss of one score."""
    if kind == _LOGISTIC:
        return -target / (1.0 + exp(target * score))
    return score - target


@inlined
def write_slopes(kind: int, scores: np.ndarray, y: np.ndarray, i: int, out: np.ndarray) -> None:
    """Write the derivatives of the loss of row `i` by its scores.

    ``y[i]`` is one number -1 or 1 (logistic), the number of a class (softmax), or a number for
    each score (squares). The row is passed as array and index: a view for each row would cost as
    much as the row. Inlining saves an eighth of the time of a step.

    Examples
    --------
    >>> out = np.empty(1)
    >>> write_slopes(SQUARES.kind, np.array([3.0]), np.array([[1.0]]), 0, out)
    >>> out
    array([2.])
    """
    if kind == _SOFTMAX:
        _write_softmax(scores, int(y[i, 0]), out)
    else:
        _require_separate(kind)
        for k in range(len(scores)):
            out[k] = _slope(kind, scores[k], y[i, k])


@compiled
def write_slopes_of_one(kind: int, tile: np.ndarray, y: np.ndarray, low: int, count: int) -> None:
    """Replace the scores of rows with one score each by their derivatives; `y` is (rows,).

    Examples
    --------
    >>> tile = np.array([3.0])
    >>> write_slopes_of_one(SQUARES.kind, tile, np.array([1.0]), 0, 1)
    >>> tile
    array([2.])
    """
    _require_separate(kind)
    if kind == _LOGISTIC:
        for i in range(count):
            tile[i] = -y[low + i] / (1.0 + exponential(tile[i] * y[low + i]))
    else:
        for i in range(count):
            tile[i] -= y[low + i]


@kernel
def curved_rows(
    kind: int, theta: np.ndarray, X: np.ndarray, weight: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the total weight, the rows scaled by roots of curvatures, and sums of fourth powers.

    The rows get a last column of ones before. The sums are those of the columns.

    For the logistic loss and squares with one score: `theta` is (d + 1,), the intercept last;
    `weight` (rows,) or None.

    Examples
    --------
    >>> curved_rows(LOGISTIC.kind, np.zeros(2), np.array([[3.0]]), None)
    (1.0, array([[1.5, 0.5]]), array([5.0625, 0.0625]))
    """
    _require_separate(kind)
    rows, d = X.shape
    tile, total = np.zeros(_TILE), 0.0
    out, fourth = np.empty((rows, d + 1)), np.zeros(d + 1)
    for low in range(0, rows, _TILE):
        high = min(low + _TILE, rows)
        if kind == _LOGISTIC:
            write_scores(theta, theta[d], X, low, high, tile)
        for i in range(high - low):
            curvature = 1.0
            if kind == _LOGISTIC:
                e = exponential(-abs(tile[i]))  # cannot overflow
                curvature = e / ((1.0 + e) * (1.0 + e))
            if len(weight):
                curvature *= weight[low + i]
                total += weight[low + i]
            root = sqrt(curvature)
            for j in range(d):
                out[low + i, j] = root * X[low + i, j]
            out[low + i, d] = root
        for i in range(low, high):
            for j in range(d + 1):
                square = out[i, j] * out[i, j]
                fourth[j] += square * square
    return total if len(weight) else float(rows), out, fourth


@kernel
def moved_sums(
    kind: int, shift: float, scores: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> tuple[float, float, float]:
    """Return the loss of scores (rows,) plus a shift, and its derivatives by it, summed over rows.

    For the logistic loss and squares; `weight` (rows,) or None.

    Examples
    --------
    >>> moved_sums(SQUARES.kind, 0.0, np.array([3.0]), np.array([1.0]), None)
    (2.0, 2.0, 1.0)
    """
    _require_separate(kind)
    loss, gradient, curvature = 0.0, 0.0, 0.0
    for i in range(len(scores)):
        score, factor = scores[i] + shift, weight[i] if len(weight) else 1.0
        if kind == _LOGISTIC:
            margin = score * y[i]
            e = exponential(-abs(margin))  # cannot overflow
            loss += factor * (max(-margin, 0.0) + log1p(e))
            gradient -= factor * y[i] * (e if margin >= 0 else 1.0) / (1.0 + e)
            curvature += factor * e / ((1.0 + e) * (1.0 + e))
        else:
            far = score - y[i]
            loss += factor * 0.5 * far * far
            gradient += factor * far
            curvature += factor
    return loss, gradient, curvature


LOGISTIC = Loss(
    _LOGISTIC, 0.25, True, False, _logistic, _logistic_curvatures, _logistic_dual,
    _logistic_margins, logistic_sums,
)
SOFTMAX = Loss(
    _SOFTMAX, 0.5, False, False, _softmax, _softmax_curvatures, _softmax_dual, _softmax_margins
)
SQUARES = Loss(
    _SQUARES, 1.0, True, True, _squares, _squares_curvatures, _squares_dual, _squares_margins
)
