"""How far an objective is above its minimum at most: the duality gap of a penalised loss.

The dual point is minus the derivatives of the losses at theta, for which the sum of the conjugates
is known by Fenchel and Young's equality: the mean loss less the product of theta and its gradient.
With g the gradient of the mean loss by the weights w, the gap is

    w.g + l2/2 |w|^2 + l1 |w|_1 + |soft_threshold(g, l1)|^2 / (2 l2),

which is |g + l2 w|^2 / (2 l2) without l1. A dual point must leave out intercepts: the derivative by
them must be 0, so the exact gap is that with the best intercepts for w. Those are found on kept
scores by Newton's method, which reads no features. Without l2 the dual point is shrunk into the
box that l1 allows (as scikit-learn's Lasso does it), and its conjugates are added up.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lazyflow import compute, delayed, persist, trace
from lazyflow.learn.data.rows import tree_sum
from lazyflow.learn.kernels.slopes import LossKind
from lazyflow.learn.kernels.sums import dual_sum, intercept_sums, scores_of, smallest_margin
from lazyflow.learn.solvers.problem import Problem, soft_threshold

__all__ = ["Certificate", "certificate", "exact_gap", "gap_at", "gradient_norm", "is_separated"]

_STEPS = 100  # of Newton for intercepts; near the minimum each squares the error
_SHORTEST, _FIRST = 1e-9, 8.0  # steps that are tried, and the length of the first one at most
_ROUNDING = 1e-14  # of a sum, relatively
_FLAT = 1e-12  # a derivative by the intercepts that changes no gap
_STEEP = 1e-8  # and one with which the formula is none


def gradient_norm(problem: Problem, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Return the largest component of the gradient of the smooth part.

    With an l1 penalty: of what a step along it and the penalty's part would change.
    """
    if problem.l1:
        gradient = gradient.copy()
        weights = theta[:, :-1]
        gradient[:, :-1] = weights - soft_threshold(weights - gradient[:, :-1], problem.l1)
    return float(abs(gradient).max())


def gap_at(problem: Problem, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Return the gap by the gradient of the smooth part; exact where the intercepts are optimal.

    NaN without an l2 penalty.
    """
    if not problem.l2:
        return math.nan
    slope = gradient[:, :-1]
    if not problem.l1:
        return float((slope**2).sum()) / (2 * problem.l2)
    weights = theta[:, :-1]
    data = slope - problem.l2 * weights
    return float(
        (weights * data).sum() + problem.l2 / 2 * (weights**2).sum()
        + problem.l1 * abs(weights).sum()
        + (soft_threshold(data, problem.l1) ** 2).sum() / (2 * problem.l2)
    )


class Certificate(NamedTuple):
    """A duality gap, and what it is the gap of.

    theta
        With the best intercepts for its weights.
    smooth
        Value and gradient of the smooth part there, if it is not where it was asked for.

    Examples
    --------
    >>> Certificate(0.5, np.zeros((1, 2)), None).gap
    0.5
    """

    gap: float
    theta: np.ndarray
    smooth: tuple[float, np.ndarray] | None


def exact_gap(
    problem: Problem, theta: np.ndarray, known: tuple[float, np.ndarray] | None = None
) -> tuple[float, np.ndarray]:
    """Return (duality gap, theta with the best intercepts for its weights).

    NaN without any penalty. `known`, value and gradient of the smooth part at theta, saves a pass.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> rows = kept_rows([RowChunk(np.array([[1.0], [-1.0]]), [2, 0], None)], NumberTargets(1), {})
    >>> gap, theta = exact_gap(Problem(rows, SQUARES, 0.0, 1.0, free=True), np.array([[0.5, 0.0]]))
    >>> round(gap, 12), theta
    (0.0, array([[0.5, 1. ]]))
    """
    return certificate(problem, theta, known)[:2]


def certificate(
    problem: Problem, theta: np.ndarray, known: tuple[float, np.ndarray] | None = None
) -> Certificate:
    """Return the gap as `exact_gap`, and what was computed on the way.
    """
    value, gradient = known or problem.value_and_gradient(theta)
    if not (problem.l1 or problem.l2):
        return Certificate(math.nan, theta, None)
    smooth = None
    if problem.free and abs(gradient[:, -1]).max() > _FLAT:
        scores = _kept_scores(problem, theta)
        theta = theta.copy()
        theta[:, -1] += _best_shift(problem, scores)
        smooth = problem.value_and_gradient(theta)
        value, gradient = smooth
        steep = float(abs(gradient[:, -1]).max())
        if problem.loss.kind != LossKind.SQUARES and not steep <= _STEEP:
            return Certificate(math.inf, theta, smooth)  # nothing is known
    if problem.l2:
        return Certificate(max(gap_at(problem, theta, gradient), 0.0), theta, smooth)
    return Certificate(_gap_of_box(problem, theta, value, gradient), theta, smooth)


def is_separated(problem: Problem, theta: np.ndarray) -> bool:
    """Return whether the scores at theta tell all classes apart: then larger ones lower the loss.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.targets import ClassTargets
    >>> from lazyflow.learn.kernels.losses import LOGISTIC
    >>> part = RowChunk(np.array([[1.0], [2.0]]), np.array([0, 1]), None)
    >>> rows = kept_rows([part], ClassTargets(np.arange(2)), {})
    >>> is_separated(Problem(rows, LOGISTIC, 0.0, 0.0, True), np.array([[2.0, -3.0]]))
    True
    """
    margin = delayed(smallest_margin)
    found = compute(
        *[margin(problem.loss, theta, *chunk) for chunk in problem.rows.chunks], **problem.run
    )
    return min(found) > 0


def _kept_scores(problem: Problem, theta: np.ndarray) -> list[Any]:
    score = delayed(scores_of)
    (kept,) = persist([score(theta, chunk.X) for chunk in problem.rows.chunks], **problem.run)
    return list(kept)


def _summed(problem: Problem, scores: list[Any], function: Callable[..., Any]) -> Any:
    """Return a function of leaves that sums another over kept scores, targets and weights."""
    part = delayed(function)
    pairs = list(zip(scores, problem.rows.chunks, strict=True))
    return trace(
        lambda shift: tree_sum(
            [part(problem.loss, shift, kept, chunk.y, chunk.weight) for kept, chunk in pairs]
        ),
        **problem.run,
    )


def _best_shift(problem: Problem, scores: list[Any]) -> np.ndarray:
    """Return what to add to the intercepts, by Newton's method.

    Steps are held short by a curvature of their own, in proportion to the gradient: where all
    scores are large the loss is straight, and plain steps would lead anywhere.
    """
    total = _summed(problem, scores, intercept_sums)
    shift = np.zeros(problem.shape[0])
    value, gradient, hessian = total(shift)
    radius = _FIRST
    for _ in range(_STEPS):
        largest = float(abs(gradient).max())
        if not largest > _FLAT * problem.rows.total or radius < _SHORTEST:
            break
        held = hessian + largest / radius * np.eye(len(shift))
        # The shortest step: moving all classes together changes nothing, so `held` may be singular.
        move = np.linalg.lstsq(held, gradient, rcond=None)[0]
        if problem.loss.kind == LossKind.SOFTMAX:
            move -= move.mean()  # what rounding has left of that
        to = shift - move
        found = total(to)
        flat = abs(found[0] - value) <= _ROUNDING * abs(value)
        if found[0] < value if not flat else abs(found[1]).max() < largest / 2:
            shift, (value, gradient, hessian) = to, found
            radius *= 8
        else:
            radius /= 8
    return shift


def _gap_of_box(
    problem: Problem, theta: np.ndarray, value: float, gradient: np.ndarray
) -> float:
    """Return the gap of an l1 penalty alone, by a dual point inside of what it allows."""
    largest = float(abs(gradient[:, :-1]).max())
    factor = min(1.0, problem.l1 / largest) if largest else 1.0
    zero = np.zeros(problem.shape[0])
    part, score = delayed(dual_sum), delayed(scores_of)
    sums = compute(*[
        part(problem.loss, zero, factor, score(theta, chunk.X), chunk.y, chunk.weight)
        for chunk in problem.rows.chunks
    ], **problem.run)
    primal = value + problem.l1 * float(abs(theta[:, :-1]).sum())
    return max(primal - sum(sums) / problem.rows.total, 0.0)
