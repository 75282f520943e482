"""Newton's method: value and gradient of all rows, and the Hessian of a sample or of all rows.

It is for few coefficients: the Hessian has their square, and the caller solves it. Unlike the other
solvers it is not slowed down by features of different scales.

The Hessian of some thousand rows costs a part of a pass, that of all rows several passes. Far from
the minimum both lead equally far, because the change of curvature along the step decides how much
of the gradient is left. As soon as a step leaves more than a part of it, Hessians are computed from
all rows.

F. Roosta-Khorasani, M. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
"""

from typing import NamedTuple

import numpy as np

from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.stopping import History, Solution, StopRule, newton_step

_SUFFICIENT = 1e-4  # Armijo's part of the decrease that the gradient promises
_SHORTEST = 1e-10  # part of a whole step, below which none is tried; guessed, as the next are
_SAMPLE, _PER_COEFFICIENT = 8192, 64  # rows of a sample at least, and for each coefficient
_LEFT = 0.25  # part of the gradient's norm: a step that leaves less shows a sample good enough


class _Point(NamedTuple):
    """Where a search ended; `hessian` is None where it was not made with the rest."""

    theta: np.ndarray
    length: float
    value: float
    gradient: np.ndarray
    hessian: np.ndarray | None


def newton(problem: Problem, start: np.ndarray, rule: StopRule) -> Solution:
    """Minimise a problem without l1 penalty; `start` is theta (K, d + 1).

    After the tolerance is reached it takes one more step, which squares the error.

    Examples
    --------
    >>> newton(Problem.of_squares([[1.0], [-1.0]], [2, 0]), np.zeros((1, 2)), StopRule()).theta
    array([[0.5, 1. ]])
    """
    history = History(problem, rule)
    every = problem.every(max(_SAMPLE, _PER_COEFFICIENT * start.shape[1]))
    at = _evaluated(history, start, 0.0, every)
    advice = "raise max_iter or tol"
    for iteration in range(rule.max_iter + 1):
        last = history.record(iteration, at.theta, at.value, at.gradient, at.length)
        if (last and not history.converged) or iteration == rule.max_iter:
            break
        if last and every > 1:
            every, at = 1, at._replace(hessian=None)
        stepped = _stepped(history, at, every, last)
        if stepped is None and every > 1:
            every = 1
            stepped = _stepped(history, at._replace(hessian=None), every, last)
        if stepped is None:
            advice = "the objective can't be lowered any further in float64, so raise tol"
            break
        if not np.isfinite(stepped.value):
            advice = "squares of the rows overflow, so scale the features"
            break
        if stepped is at:
            break  # as good as float64 tells
        if every > 1 and (stepped.length < 1 or _largest(stepped) > _LEFT * _largest(at)):
            every, stepped = 1, stepped._replace(hessian=None)
        at = stepped
        if last:
            history.record(iteration + 1, at.theta, at.value, at.gradient, at.length)
            break
    return history.solution(advice)


def _largest(at: _Point) -> float:
    return float(abs(at.gradient).max())


def _stepped(history: History, at: _Point, every: int, last: bool) -> _Point | None:
    """Return the point that a step leads to: None if to none that is lower.

    It is the same point where nothing is left to be gained by the `last` step, and one without a
    finite value where the Hessian has none.
    """
    problem = history.problem
    hessian = at.hessian
    if hessian is None:
        history.passes += 1 / every
        hessian = problem.hessian(at.theta, every)
    if not np.isfinite(hessian).all():
        return at._replace(value=np.inf)
    direction = -newton_step(problem, hessian, at.gradient)
    slope = float((at.gradient * direction).sum())
    if last and -slope <= np.finfo(float).eps * abs(at.value):
        return at
    length = 1.0
    while True:
        found = _evaluated(history, at.theta + length * direction, length, every)
        if _is_rounding(found, at):
            return found
        if found.value <= at.value + _SUFFICIENT * length * slope or length < _SHORTEST:
            return found if found.value < at.value else None
        length /= 2


def _is_rounding(stepped: _Point, at: _Point) -> bool:
    """Whether a step halves the gradient, and changes the value by no more than rounding does."""
    near = abs(stepped.value - at.value) <= 8 * np.finfo(float).eps * abs(at.value)
    return bool(near and _largest(stepped) < _largest(at) / 2)


def _evaluated(history: History, theta: np.ndarray, length: float, every: int) -> _Point:
    """Return a point; with its Hessian where rows would be made once more for that."""
    if history.problem.rows.kept:
        return _Point(theta, length, *history.evaluate(theta), None)
    history.passes += 1
    return _Point(theta, length, *history.problem.second_order(theta, every))
