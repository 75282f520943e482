"""Sums over the rows of a chunk: values, gradients and curvatures of the three losses."""

import numpy as np
import pytest
from learn_tools import LOSS_NAMES, LOSSES, targets_for
from scipy.sparse import csr_array

from lazyflow.learn.kernels.losses import LOGISTIC, SOFTMAX, SQUARES, logistic_sums, write_slopes
from lazyflow.learn.kernels.primitives import exponential
from lazyflow.learn.kernels.sums import (
    ALL_ROWS,
    RowSample,
    dual_sum,
    hessian_sums,
    intercept_sums,
    loss_sums,
    mean_curvature,
    scores_of,
    slopes_of,
    smallest_margin,
)

N, D = 150, 4  # some tiles of 16 rows, and a part of one


def case(loss, weighted=False, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, D)) * (random.random((N, D)) < 0.7)
    y, K = targets_for(loss, N, random)
    weight = random.uniform(0, 3, N) if weighted else None
    return random.normal(size=(K, D + 1)), X, y, weight


def differences(function, x, h=1e-6):
    """The gradient by central differences, in the shape of x."""
    out = np.empty(x.shape + np.shape(function(x)))
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        out[at] = (function(x + step) - function(x - step)) / (2 * h)
    return out


@pytest.fixture(params=LOSSES, ids=LOSS_NAMES)
def loss(request):
    return request.param


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_gradients_are_central_differences(loss, form, weighted):
    theta, X, y, weight = case(loss, weighted)
    X = form(X)
    gradient = loss_sums(loss, theta, X, y, weight)[1]
    found = differences(lambda at: loss_sums(loss, at, X, y, weight)[0], theta)
    np.testing.assert_allclose(gradient, found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_hessians_are_differences_of_gradients(loss, form, weighted):
    theta, X, y, weight = case(loss, weighted)
    X = form(X)
    total, hessian = hessian_sums(loss, theta, X, y, weight)
    found = differences(lambda at: loss_sums(loss, at, X, y, weight)[1], theta)
    np.testing.assert_allclose(hessian, found, rtol=1e-6, atol=1e-6)
    assert total == pytest.approx(N if weight is None else weight.sum())
    _, mean, fourth = mean_curvature(loss, theta, X, y, weight, ALL_ROWS)
    each = [hessian[k, :, k] for k in range(len(theta))]
    np.testing.assert_allclose(mean, np.mean(each, axis=0), rtol=1e-12, atol=1e-12)
    assert (fourth <= np.diag(mean) ** 2 * (1 + 1e-12)).all()


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_samples_are_one_row_of_each_so_many(loss, form):
    theta, X, y, weight = case(loss, weighted=True)
    X = form(X)
    rows = RowSample(7, 3).rows_of(N)
    assert (rows[:-1] // 7 == np.arange(N // 7)).all() and rows[-1] < N
    assert (rows != RowSample(7, 4).rows_of(N)).any()
    total, hessian = hessian_sums(loss, theta, X, y, weight, RowSample(7, 3))
    exact, other = hessian_sums(loss, theta, X[rows], y[rows], weight[rows])
    assert total == exact
    np.testing.assert_array_equal(hessian, other)


def test_single_precision_rows_give_sums_of_double_precision(loss):
    theta, X, y, weight = case(loss, weighted=True)
    single = X.astype(np.float32)
    value, gradient = loss_sums(loss, theta, single, y, weight)
    exact, slopes = loss_sums(loss, theta, single.astype(float), y, weight)
    assert gradient.dtype == np.float64
    assert value == pytest.approx(exact, rel=1e-6)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-4)


def test_weights_are_repeated_rows(loss):
    theta, X, y, _ = case(loss)
    times = np.random.default_rng(3).integers(0, 4, N)
    one, other = (X, y, times.astype(float)), (X.repeat(times, 0), y.repeat(times, 0), None)
    weighted = *loss_sums(loss, theta, *one), *hessian_sums(loss, theta, *one)
    repeated = *loss_sums(loss, theta, *other), *hessian_sums(loss, theta, *other)
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [800.0, -800.0])
@pytest.mark.parametrize("weight", [None, np.ones(1)], ids=["no weight", "weight"])
def test_logistic_loss_is_exact_where_exp_overflows(size, weight):
    theta, X, y = np.array([[size, 0.0]]), np.ones((1, 1)), np.ones((1, 1))
    for value, gradient in (
        loss_sums(LOGISTIC, theta, X, y, weight),
        loss_sums(LOGISTIC, theta, csr_array(X), y, weight),
        logistic_sums(theta[0], X, y[:, 0], weight),
    ):
        assert value == max(-size, 0.0)
        np.testing.assert_array_equal(np.ravel(gradient), [0.0, 0.0] if size > 0 else [-1.0, -1.0])


@pytest.mark.parametrize("own", [0, 1])
def test_softmax_is_exact_where_exp_overflows(own):
    theta = np.array([[800.0, 0.0], [-800.0, 0.0]])
    value, gradient = loss_sums(SOFTMAX, theta, np.ones((1, 1)), np.array([[float(own)]]), None)
    assert value == 1600.0 * own
    np.testing.assert_array_equal(gradient[:, 0], [own, -own])


@pytest.mark.parametrize("size", [800.0, -800.0, 0.0, 3.7])
def test_slopes_in_steps_are_those_of_sums(loss, size):
    y, K = targets_for(loss, 1, np.random.default_rng(0))
    scores = size * np.linspace(1, -1, K) if K > 1 else np.array([size])
    out = np.empty(K)
    write_slopes(loss.kind, scores, y, 0, out)
    theta = np.column_stack([np.zeros(K), scores])
    np.testing.assert_allclose(out, slopes_of(loss, theta, np.ones((1, 1)), y)[0], rtol=1e-14)


def test_what_is_not_finite_is_not_hidden(loss):
    theta, X, y, _ = case(loss)
    X[70, 2] = np.nan
    value, gradient = loss_sums(loss, theta, X, y, None)
    assert np.isnan(value) and np.isnan(gradient).any()


def test_sums_of_no_rows_are_zero(loss):
    theta, X, y, _ = case(loss)
    for weight in None, np.empty(0):
        value, gradient = loss_sums(loss, theta, X[:0], y[:0], weight)
        assert value == 0 and not gradient.any()
        for sample in ALL_ROWS, RowSample(3, 0):
            total, hessian = hessian_sums(loss, theta, X[:0], y[:0], weight, sample)
            assert total == 0 and not hessian.any()
    assert smallest_margin(loss, theta, X[:0], y[:0], None) == np.inf


@pytest.mark.parametrize("weighted", [False, True])
def test_shifts_of_kept_scores_are_other_intercepts(loss, weighted):
    theta, X, y, weight = case(loss, weighted)
    shift = np.linspace(-1, 1, len(theta))
    value, gradient, hessian = intercept_sums(loss, shift, scores_of(theta, X), y, weight)
    theta[:, -1] += shift
    whole, slopes = loss_sums(loss, theta, X, y, weight)
    _, curved = hessian_sums(loss, theta, X, y, weight)
    assert value == pytest.approx(whole, rel=1e-12)
    np.testing.assert_allclose(gradient, slopes[:, -1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(hessian, curved[:, -1, :, -1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_fenchel_and_young_are_equal_at_the_derivatives(loss, weighted):
    """loss(z) + conjugate(slope) = z * slope, which is what gaps are made of."""
    theta, X, y, weight = case(loss, weighted)
    scores = scores_of(theta, X)
    losses, slopes = loss.residuals(scores, y)
    s = np.ones(N) if weight is None else weight
    found = dual_sum(loss, 1.0, scores, y, weight)
    assert found == pytest.approx(s @ losses - s @ (scores * slopes).sum(axis=1), rel=1e-10)


@pytest.mark.parametrize("factor", [0.0, 0.3, 0.99])
def test_other_dual_points_are_below(loss, factor):
    theta, X, y, _ = case(loss)
    scores = scores_of(theta, X)
    losses, slopes = loss.residuals(scores, y)
    found = dual_sum(loss, factor, scores, y, None)
    assert found <= (losses - factor * (scores * slopes).sum(axis=1)).sum() + 1e-9


def test_margins_are_of_rows_with_weight():
    scores, y = np.array([[3.0, 1.0, 0.0], [0.0, 5.0, 4.5], [1.0, 0.0, 0.0]]), np.array([0, 1, 1])
    theta = np.column_stack([np.eye(3), np.zeros(3)])
    y = y[:, None].astype(float)
    assert smallest_margin(SOFTMAX, theta, scores, y, None) == -1.0
    assert smallest_margin(SOFTMAX, theta, scores, y, np.array([1.0, 1.0, 0.0])) == 0.5


def test_curvatures_are_within_their_bound(loss):
    theta, X, y, _ = case(loss)
    largest = np.linalg.eigvalsh(loss.curvatures(scores_of(5 * theta, X), y)).max()
    assert largest <= loss.bound + 1e-12
    if loss is not SQUARES:
        middle = np.linalg.eigvalsh(loss.curvatures(np.zeros((1, len(theta))), y[:1])).max()
        assert middle > 0.6 * loss.bound  # and the bound is not far


def test_exponentials_are_right_to_two_units_in_the_last_place():
    values = np.append(np.linspace(-708, 708, 2001), [0.0, 1.0, -1.0])
    found = [exponential(value) for value in values.tolist()]
    np.testing.assert_allclose(found, np.exp(values), rtol=3 * 2**-52)  # one is NumPy's
    assert np.isnan(exponential(np.nan))
    assert exponential(-np.inf) == 0.0
    assert exponential(np.inf) == exponential(708.0)
