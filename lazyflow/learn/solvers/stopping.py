"""When a solver stops (`StopRule`), and its result: Newton step, duality gap, trace.

`History.record` takes value and gradient over all rows after each iteration, adds a `Progress` to
the trace, and tells whether to stop. `certificate` computes the duality gap, an upper bound of the
objective minus its minimum, if there is an l2 or l1 penalty; `half_decrement` estimates it if not.

State: a `History` per fit: the passes so far, the trace, and whether it converged. The solver that
made it changes it, in one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lazyflow import compute, delayed, persist, trace
from lazyflow.api.progress_events import went_on
from lazyflow.learn.data.rows import tree_sum
from lazyflow.learn.kernels.sums import dual_sum, intercept_sums, scores_of, smallest_margin
from lazyflow.learn.solvers.problem import Problem, soft_threshold

# -- the step of Newton's method, also where the Hessian is singular, and what it promises

_MOST = 500  # coefficients: with more, the decrement costs more than it tells; a guess


def half_decrement(problem: Problem, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Return half the squared Newton decrement, g'H⁻¹g / 2: one pass; NaN for many coefficients.

    Near the minimum it estimates how far the objective is above it. Unlike a duality gap it is not
    a bound, but without penalty there is no gap.

    Examples
    --------
    >>> problem = Problem.of_squares([[1.0], [-1.0]], [1, -1], l2=0.0, free=False)
    >>> theta = np.zeros((1, 2))
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
    >>> problem = Problem.of_squares([[1.0], [-1.0]], [2, 0])
    >>> _, gradient, hessian = problem.second_order(np.zeros((1, 2)))
    >>> newton_step(problem, hessian, gradient)
    array([[-0.5, -1. ]])
    """
    K, p = gradient.shape
    chosen = np.ones((K, p), bool)
    if not problem.free:
        chosen[:, -1] = False
    if K > 1 and not problem.loss.separate:
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


# -- certificate --------------------------------------------------------------------------
#
# How far an objective is above its minimum at most: the duality gap of a penalised loss.
#
# The dual point is minus the derivatives of the losses at theta, for which the sum of the
# conjugates is known by Fenchel and Young's equality: the mean loss less the product of theta and
# its gradient. With g the gradient of the mean loss by the weights w, the gap is
#
#     w.g + l2/2 |w|^2 + l1 |w|_1 + |soft_threshold(g, l1)|^2 / (2 l2),
#
# which is |g + l2 w|^2 / (2 l2) without l1. A dual point must leave out intercepts: the derivative
# by them must be 0, so the exact gap is that with the best intercepts for w. Those are found on
# kept scores by Newton's method, which reads no features. Without l2 the dual point is shrunk into
# the box that l1 allows (as scikit-learn's Lasso does it), and its conjugates are added up.

# All are guessed.
_STEPS = 100  # of Newton for intercepts; near the minimum each squares the error
_SHORTEST, _FIRST = 1e-9, 8.0  # steps that are tried, and the length of the first one at most
_ROUNDING = 1e-14  # of a sum, relatively
_FLAT = 1e-12  # derivatives by the intercepts up to this change no gap
_STEEP = 1e-8  # above this the formula of the gap does not hold


def gradient_norm(problem: Problem, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Return the largest component of the gradient of the smooth part.

    With an l1 penalty: of the change by a proximal gradient step of length 1.
    """
    if problem.l1:
        gradient = gradient.copy()
        weights = theta[:, :-1]
        gradient[:, :-1] = weights - soft_threshold(weights - gradient[:, :-1], problem.l1)
    return float(abs(gradient).max())


def gap_at(problem: Problem, theta: np.ndarray, gradient: np.ndarray) -> float:
    """Return the duality gap, from the gradient of the smooth part; exact for optimal intercepts.

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
    """A duality gap, and the point that it belongs to.

    theta
        The point, with the best intercepts for its weights.
    smooth
        Value and gradient of the smooth part there; None if the point is the given one.

    Examples
    --------
    >>> Certificate(0.5, np.zeros((1, 2)), None).gap
    0.5
    """

    gap: float
    theta: np.ndarray
    smooth: tuple[float, np.ndarray] | None


def certificate(
    problem: Problem, theta: np.ndarray, known: tuple[float, np.ndarray] | None = None
) -> Certificate:
    """Return the duality gap, NaN without any penalty.

    `known`, value and gradient of the smooth part at theta, saves a pass.

    Examples
    --------
    >>> problem = Problem.of_squares([[1.0], [-1.0]], [2, 0])
    >>> gap, theta, _ = certificate(problem, np.array([[0.5, 0.0]]))
    >>> round(gap, 12), theta
    (0.0, array([[0.5, 1. ]]))
    """
    value, gradient = known or problem.value_and_gradient(theta)
    if not (problem.l1 or problem.l2):
        return Certificate(math.nan, theta, None)
    smooth = None
    if problem.free and abs(gradient[:, -1]).max() > _FLAT:
        shift, theta = _best_shift(problem, theta), theta.copy()
        theta[:, -1] += shift
        smooth = problem.value_and_gradient(theta)
        value, gradient = smooth
        steep = float(abs(gradient[:, -1]).max())
        if not problem.loss.steep and not steep <= _STEEP:
            return Certificate(math.inf, theta, smooth)  # nothing is known
    if problem.l2:
        return Certificate(max(gap_at(problem, theta, gradient), 0.0), theta, smooth)
    return Certificate(_gap_of_box(problem, theta, value, gradient), theta, smooth)


def is_separated(problem: Problem, theta: np.ndarray) -> bool:
    """Return whether the scores at theta separate the classes: then larger ones lower the loss.

    Examples
    --------
    >>> from lazyflow.learn.data.inputs import RowChunk
    >>> from lazyflow.learn.data.rows import kept_rows
    >>> from lazyflow.learn.data.rows import ClassTargets
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


def _best_shift(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """Return what to add to the intercepts, by Newton's method on scores that are kept.

    Steps are held short by a curvature of their own, in proportion to the gradient: where all
    scores are large the loss is straight, and plain steps would lead anywhere.
    """
    part, score, chunks = delayed(intercept_sums), delayed(scores_of), problem.rows.chunks
    (scores,) = persist([score(theta, chunk.X) for chunk in chunks], **problem.run)
    pairs = list(zip(scores, chunks, strict=True))
    total = trace(
        lambda shift: tree_sum(
            [part(problem.loss, shift, kept, chunk.y, chunk.weight) for kept, chunk in pairs]
        ),
        **problem.run,
    )
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
        if not problem.loss.separate:
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
    part, score = delayed(dual_sum), delayed(scores_of)
    sums = compute(*[
        part(problem.loss, factor, score(theta, chunk.X), chunk.y, chunk.weight)
        for chunk in problem.rows.chunks
    ], **problem.run)
    primal = value + problem.l1 * float(abs(theta[:, :-1]).sum())
    return max(primal - sum(sums) / problem.rows.total, 0.0)


# -- the trace of a solver, its tests for stopping, and what it returns -------------------
# A solver stops by the gradient or the duality gap over all rows. That coefficients moved little is
# no sign: small steps cause it, too.


class Progress(NamedTuple):
    """The state of a solver at a point of the trace.

    iteration
        Counted from 0, the start; epochs and rounds for SAGA and SVRG.
    passes
        How often all rows were read.
    seconds
        The time since the solver was called.
    objective, gradient_norm
        Exact, over all rows. The norm is the largest component of the gradient; with an l1
        penalty, of the change by a gradient step of length 1.
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
        """Return gradient norm and gap as text.

        Examples
        --------
        >>> Progress(0, 1, 0.01, 0.69, 0.5, 1.0, 0.0, np.ones((1, 3))).text()
        'gradient norm 0.5, gap 1'
        """
        gap = "" if math.isnan(self.gap) else f", gap {self.gap:.2g}"
        return f"gradient norm {self.gradient_norm:.2g}{gap}"


Callback = Callable[[Progress], Any]
"""A function that is called with each `Progress`; a true result or StopIteration stops."""


def trace_arrays(trace: Sequence[Progress]) -> dict[str, np.ndarray]:
    """Return an array for each field of some `Progress`, except theta.

    Examples
    --------
    >>> sorted(trace_arrays([]))[:3]
    ['gap', 'gradient_norm', 'iteration']
    """
    names = Progress._fields[:-1]
    return {name: np.array([getattr(each, name) for each in trace]) for name in names}


class StopRule(NamedTuple):
    """When a solver stops.

    tol
        When the gradient's norm is at most this.
    gap_tol
        Or when the exact duality gap is at most this times the objective, if given.
    max_iter
        Or after this many iterations.
    callback
        Or when this returns a true value.

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
    """The result of a solver.

    Attributes
    ----------
    theta : ndarray, shape (K, d + 1)
        Coefficients and, last, intercepts.
    history : dict of ndarray
        The trace: the fields of `Progress` except theta.
    converged : bool
        Whether the stop rule's tolerance, or its gap, was reached.
    gap : float
        The exact duality gap, an upper bound of F minus its minimum. NaN without penalty.
    decrement : float
        Without penalty half the squared Newton decrement: near the minimum, F minus its minimum.
        NaN with a penalty, and for more than 500 coefficients.
    n_iter, n_passes : int, float
    message : str
        Why it stopped, with figures, if it did not converge.

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
        """Return value and gradient of the problem, and count the pass."""
        self.passes += 1
        return self.problem.value_and_gradient(theta)

    def record(
        self, iteration: int, theta: np.ndarray, value: float, gradient: np.ndarray, step: float
    ) -> bool:
        """Add a point by the smooth part's value and gradient; return whether it is the last."""
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
        if rule.gap_tol is not None and not self.converged:
            most = rule.gap_tol * objective
            if not gap > most:
                self.converged = certificate(problem, theta, self.smooth).gap <= most
        if rule.callback is not None:
            try:
                self.stopped = bool(rule.callback(point))
            except StopIteration:
                self.stopped = True
        return self.converged or self.stopped or not math.isfinite(norm)

    def solution(self, advice: str) -> Solution:
        """Return the last point, with its best intercepts, as the result.

        `advice`: what to do if the solver did not converge.
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
            theta, trace_arrays(self.trace), self.converged, gap, decrement, last.iteration,
            self.passes, message,
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
