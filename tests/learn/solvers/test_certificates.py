"""Duality gaps: never below what is missing, exact, and true of what solvers find."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from learn_tools import (
    LOSS_NAMES,
    LOSSES,
    labelled,
    numbered,
    objective_of,
    problem_of,
    quiet,
    some_rows,
)
from scipy.optimize import minimize

from lazyflow.learn.kernels.losses import LOGISTIC, SOFTMAX, SQUARES
from lazyflow.learn.solvers.least_squares import elastic_net
from lazyflow.learn.solvers.newton import newton
from lazyflow.learn.solvers.stochastic import saga
from lazyflow.learn.solvers.stopping import (
    StopRule,
    certificate,
    gap_at,
    gradient_norm,
    is_separated,
)

TIGHT = StopRule(1e-13, None, 300)


def data_of(loss, n=12, d=3, seed=0):
    if loss is SQUARES:
        return numbered(n, d, 2, seed)
    return labelled(n, d, 2 if loss is LOGISTIC else 3, seed)


def random_theta(problem, seed, scale=1.0):
    theta = scale * np.random.default_rng(seed).normal(size=problem.shape)
    if not problem.free:
        theta[:, -1] = 0.0
    return theta


@settings(max_examples=40)
@given(
    st.sampled_from(LOSSES), st.integers(0, 99), st.floats(1e-3, 3), st.sampled_from([0, 0.2, 1]),
    st.booleans(), st.booleans(), st.sampled_from([0.0, 0.1, 1.0, 10.0, 100.0]),
)
@example(LOGISTIC, 14, 1.0, 0, True, False, 10.0)  # scores so large that the loss is straight
def test_no_point_is_above_the_minimum_by_more_than_the_gap(
    loss, seed, strength, ratio, free, weighted, scale
):
    X, y = data_of(loss, seed=seed)
    weight = np.random.default_rng(seed).integers(0, 4, len(X)) + 0.5 if weighted else None
    penalties = {"l1": ratio * strength, "l2": (1 - ratio) * strength}
    problem = problem_of(loss, X, y, weight=weight, free=free, sizes=[5, 7], **penalties)
    gap, theta, _ = certificate(problem, random_theta(problem, seed, scale))
    assert gap < np.inf or scale == 100
    value = objective_of(loss, theta, X, y, weight=weight, **penalties)
    other = random_theta(problem, seed + 1, 0.3)
    points = [np.zeros(problem.shape), other]
    points.append(quiet(saga, problem, np.zeros(problem.shape), StopRule(1e-5, None, 20)).theta)
    for point in points:
        below = objective_of(loss, point, X, y, weight=weight, **penalties)
        assert value - below <= gap + 1e-9 * (1 + abs(value))


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_is_the_squared_gradient(loss, free, weighted):
    """P - D with D written out, at the best intercepts: |gradient|^2 / (2 l2)."""
    X, y = data_of(loss)
    weight = np.linspace(0.1, 2, len(X)) if weighted else None
    problem = problem_of(loss, X, y, weight=weight, l2=0.3, free=free)
    gap, theta, _ = certificate(problem, random_theta(problem, 3))
    value, gradient = problem.value_and_gradient(theta)
    assert abs(gradient[:, -1]).max() < 1e-10
    np.testing.assert_allclose(gap, (gradient[:, :-1] ** 2).sum() / 0.6, rtol=1e-9)
    (chunk,) = [tuple(map(_made, part)) for part in problem.rows.chunks]
    scores = X @ theta[:, :-1].T + theta[:, -1]
    slopes = loss.residuals(scores, chunk[1])[1]
    s = np.ones(len(X)) if weight is None else weight
    s = s / s.sum()
    conjugates = loss.dual(scores, chunk[1], 1.0)
    dual = s @ conjugates - ((slopes * s[:, None]).T @ X).ravel() @ (
        (slopes * s[:, None]).T @ X
    ).ravel() / 0.6
    assert value - dual == pytest.approx(gap, rel=1e-8, abs=1e-12)


def _made(value):
    return value if value is None else value.compute(scheduler="sync")


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_gaps_close_at_the_minimum(loss, ratio):
    X, y = data_of(loss, n=40)
    problem = problem_of(loss, X, y, l1=0.1 * ratio, l2=0.1 * (1 - ratio), sizes=[13, 27])
    found = saga(problem, np.zeros(problem.shape), StopRule(1e-9, None, 3000))
    assert found.converged and 0 <= found.gap <= 1e-6
    assert certificate(problem, found.theta).gap == pytest.approx(found.gap, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
def test_what_is_certified_is_true_of_a_plain_computation(loss):
    X, y = data_of(loss, n=40)
    problem = problem_of(loss, X, y, l2=0.05, sizes=[13, 27])
    found = newton(problem, np.zeros(problem.shape), StopRule(1e-3))
    best = minimize(
        lambda flat: objective_of(loss, flat.reshape(problem.shape), X, y, l2=0.05),
        found.theta.ravel(), method="BFGS", options={"gtol": 1e-8},
    )
    value = objective_of(loss, found.theta, X, y, l2=0.05)
    assert value - best.fun <= found.gap + 1e-10
    distance = np.linalg.norm(found.theta[:, :-1] - best.x.reshape(problem.shape)[:, :-1])
    assert distance <= math.sqrt(2 * found.gap / 0.05) + 1e-5


def test_without_penalty_there_is_no_gap():
    problem = problem_of(LOGISTIC, *labelled(), l2=0.0)
    theta = random_theta(problem, 0)
    gap, same, _ = certificate(problem, theta)
    assert math.isnan(gap) and same is theta
    assert math.isnan(gap_at(problem, theta, np.zeros(problem.shape)))


def test_the_norm_with_an_l1_penalty_is_that_of_a_proximal_step():
    problem = problem_of(SQUARES, *numbered(d=2), l1=1.0, l2=0.0)
    theta, gradient = np.array([[0.0, 2.0, 0.0]]), np.array([[0.7, -1.0, 0.25]])
    assert gradient_norm(problem, theta, gradient) == 0.25  # |0.7| < l1 at 0; -1 + l1 at 2
    assert gradient_norm(problem, theta, 3 * gradient) == pytest.approx(2.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_planes_that_part_the_classes_are_seen(weighted):
    X, _ = some_rows()
    weight = np.ones(60) if weighted else None
    for y, loss in [((X[:, 0] > 0.1).astype(int), LOGISTIC), (np.digitize(X[:, 1], [1]), LOGISTIC)]:
        theta = np.zeros((1, 5))
        problem = problem_of(loss, X, y, weight=weight, l2=0.0)
        assert not is_separated(problem, theta)
        assert is_separated(problem, quiet(newton, problem, theta, StopRule(1e-3)).theta)
    X, y = labelled(K=3)
    problem = problem_of(SOFTMAX, X, y, l2=0.0, weight=weight)
    assert not is_separated(problem, newton(problem, np.zeros(problem.shape), StopRule()).theta)


@settings(max_examples=60)
@given(
    st.integers(0, 99), st.floats(1e-4, 10), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 30),
    st.booleans(),
)
def test_the_gap_of_coordinate_descent_is_an_upper_bound_that_closes(
    seed, strength, ratio, passes, positive
):
    X, y = numbered(12, 4, seed=seed)
    l1, l2 = strength * ratio, strength * (1 - ratio)

    def value(w):
        return 0.5 * ((y - X @ w) ** 2).sum() + l1 * abs(w).sum() + l2 / 2 * (w**2).sum()

    given_ = X.T @ X, X.T @ y, float(y @ y), l1, l2
    w, gap, _ = elastic_net(*given_, np.ones(4), -1.0, passes, positive)
    best, least, _ = elastic_net(
        *given_, np.zeros(4), 1e-12 * float(y @ y), 100_000, positive
    )
    assert not positive or (w.min() >= 0 and best.min() >= 0)
    assert value(w) - value(best) <= gap + 1e-9 * float(y @ y)
    assert least <= 1e-12 * float(y @ y)


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
@pytest.mark.parametrize("free", [False, True])
def test_without_penalty_the_decrement_says_how_far_the_minimum_is(loss, free):
    X, y = data_of(loss, n=60)
    problem = problem_of(loss, X, y, l2=0.0, free=free)
    exact = newton(problem, np.zeros(problem.shape), TIGHT)
    least = problem.value_and_gradient(exact.theta)[0]
    assert math.isnan(exact.gap) and 0 <= exact.decrement < 1e-15
    start = exact.theta + 0.01 * random_theta(problem, 0)
    near = quiet(newton, problem, start, StopRule(1e-13, None, 0))
    above = problem.value_and_gradient(start)[0] - least
    assert near.decrement == pytest.approx(above, rel=0.05)
    assert f"half the squared Newton decrement {near.decrement:.2g}, of" in near.message
    penalised = newton(problem_of(loss, X, y, l2=0.1, free=free), start, TIGHT)
    assert math.isnan(penalised.decrement)


def test_of_many_coefficients_no_decrement_is_computed():
    X, _ = some_rows(n=30, d=501)
    problem = problem_of(LOGISTIC, X, np.arange(30) % 2, l2=0.0)
    found = quiet(saga, problem, np.zeros(problem.shape), StopRule(0.0, None, 1))
    assert math.isnan(found.decrement)
