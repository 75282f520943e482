"""`minimize`: SciPy's results for sums over chunks, with and without gradients."""

from collections import Counter

import numpy as np
import pytest
import scipy.optimize
from learn_tools import labelled
from scipy.optimize import Bounds

import lazyflow.array as la
from lazyflow import delayed
from lazyflow.learn import minimize

SYNC = {"scheduler": "sync"}


def logistic(theta, chunk, l2=0.1):
    X, y = chunk
    margin = (2 * y - 1) * (X @ theta)
    slope = -(2 * y - 1) / (1 + np.exp(margin))
    value = np.logaddexp(0, -margin).sum() + len(X) * l2 / 2 * theta @ theta
    return value, X.T @ slope + len(X) * l2 * theta


def value_of(theta, chunk, l2=0.1):
    return logistic(theta, chunk, l2)[0]


def chunks(count=4):
    X, y = labelled()
    return list(zip(np.array_split(X, count), np.array_split(y, count), strict=True))


@pytest.mark.parametrize("l2", [0.1, 2.0])
@pytest.mark.parametrize("count", [1, 4, 60])
def test_it_is_scipys_of_the_sum(l2, count):
    whole = chunks(1)[0]
    wanted = scipy.optimize.minimize(
        logistic, np.zeros(4), (whole, l2), jac=True, method="L-BFGS-B", tol=1e-12
    )
    found = minimize(logistic, np.zeros(4), chunks(count), args=(l2,), tol=1e-12, **SYNC)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-7)
    assert found.success and found.fun == pytest.approx(wanted.fun, rel=1e-12)
    assert found.jac.shape == (4,)


def test_without_gradients_there_are_differences():
    exact = minimize(logistic, np.zeros(4), chunks(), **SYNC).x
    found = minimize(value_of, np.zeros(4), chunks(), jac=False, check_gradient=True, **SYNC)
    np.testing.assert_allclose(found.x, exact, atol=1e-4)
    with pytest.raises(TypeError, match="returned tuple.*jac=True"):
        minimize(logistic, np.zeros(4), chunks(), jac=False, **SYNC)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 2), (2, 1, 3)])
@pytest.mark.parametrize("jac", [True, False])
def test_x_keeps_its_shape(shape, jac):
    target = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)

    def squares(x, chunk):
        assert x.shape == shape
        value = chunk * ((x - target) ** 2).sum()
        return (value, 2 * chunk * (x - target)) if jac else value

    found = minimize(squares, np.ones(shape, int), [1.0, 2.0], jac=jac, **SYNC)
    assert found.x.shape == found.jac.shape == shape
    np.testing.assert_allclose(found.x, target, atol=1e-4)


def test_wrong_gradients_are_found():
    def wrong(theta, chunk):
        value, gradient = logistic(theta, chunk)
        return value, 1.01 * gradient

    for x0 in np.zeros(4), np.ones(4):
        minimize(logistic, x0, chunks(), check_gradient=True, **SYNC)
        with pytest.raises(ValueError, match="the gradient is wrong: along a random direction"):
            minimize(wrong, x0, chunks(), check_gradient=True, **SYNC)


@pytest.mark.parametrize(("returned", "error", "words"), [
    (lambda x: (0.0, np.zeros(3)), ValueError, r"the gradient has the shape \(3,\), x has \(4,\)"),
    (lambda x: (0.0, np.zeros((4, 1))), ValueError, r"the gradient has the shape \(4, 1\)"),
    (lambda x: 0.0, ValueError, r"the function returned float; needed is \(value, gradient\)"),
    (lambda x: (0.0, x, x), ValueError, "needed is .value, gradient."),
])
def test_what_functions_must_return(returned, error, words):
    with pytest.raises(error, match=words):
        minimize(lambda x, chunk: returned(x), np.zeros(4), [1, 2], **SYNC)


def test_bad_arguments():
    with pytest.raises(ValueError, match="there are no chunks: data is empty"):
        minimize(logistic, np.zeros(4), [])
    with pytest.raises(ValueError, match="method must be \"L-BFGS-B\", not 'CG'"):
        minimize(logistic, np.zeros(4), chunks(), "CG")


def test_bounds_and_options():
    bounds = [(0, None), (None, 0), (-0.1, 0.1), (None, None)]
    whole = chunks(1)[0]
    wanted = scipy.optimize.minimize(
        logistic, np.zeros(4), (whole,), jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-12
    )
    found = minimize(logistic, np.zeros(4), chunks(), bounds=bounds, tol=1e-12, **SYNC)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-7)
    short = minimize(logistic, np.zeros(4), chunks(), options={"maxiter": 2}, **SYNC)
    assert short.nit == 2 and not short.success


def test_callbacks_see_each_iteration_and_may_stop():
    seen = []

    def second(intermediate_result):
        seen.append(intermediate_result.fun)
        if len(seen) == 2:
            raise StopIteration

    found = minimize(logistic, np.zeros(4), chunks(), callback=second, **SYNC)
    assert found.nit == 2 and seen[1] < seen[0]


def test_lazy_chunks_are_made_once():
    calls = Counter()

    def load(k):
        calls[k] += 1
        return chunks()[k]

    found = minimize(logistic, np.zeros(4), [delayed(load)(k) for k in range(4)], **SYNC)
    assert calls == dict.fromkeys(range(4), 1)
    np.testing.assert_array_equal(found.x, minimize(logistic, np.zeros(4), chunks(), **SYNC).x)
    assert found.nfev > 3


def test_arrays_are_taken_by_their_blocks_of_rows():
    X, _ = labelled()
    shapes = []

    def squares(x, rows):
        shapes.append(rows.shape)
        return ((rows - x) ** 2).sum(), -2 * (rows - x).sum(axis=0)

    lazy = la.from_array(X, chunks=(30, 2))
    unknown = la.from_array(X, chunks=(30, -1))[la.from_array(np.ones(60, bool), chunks=30)]
    blocks = la.from_array(X, chunks=(30, -1)).to_delayed().ravel()
    for data in lazy, unknown, blocks, list(blocks):
        shapes.clear()
        found = minimize(squares, np.zeros(4), data, **SYNC).x
        np.testing.assert_allclose(found, X.mean(axis=0), atol=1e-6)
        assert set(shapes) == {(30, 4)}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bits_for_any_number_of_workers(workers):
    exact = minimize(logistic, np.zeros(4), chunks(9), **SYNC)
    found = minimize(logistic, np.zeros(4), chunks(9), scheduler="threads", num_workers=workers)
    np.testing.assert_array_equal(found.x, exact.x)


def test_errors_of_the_function_come_back():
    def fail(x, chunk):
        raise ZeroDivisionError("in the chunk")

    with pytest.raises(ZeroDivisionError, match="in the chunk"):
        minimize(fail, np.zeros(4), chunks(), **SYNC)


class TestBounds:
    """No point that is asked for lies outside, and the optimum is SciPy's."""

    @pytest.mark.parametrize("jac", [True, False])
    @pytest.mark.parametrize("bounds", [
        [(0, 1), (0, 1)], [(0.5, 0.5), (0, None)], [(None, 0.5), (0.25, 1)], [(0, 1e-9), (0, 1)],
        [(0.5, 0.5), (0.25, 0.25)], Bounds(0, 1), Bounds([0, 0.5], [np.inf, 0.5]), None,
    ])
    def test_points_lie_inside(self, bounds, jac):
        low, high = -np.inf, np.inf
        if isinstance(bounds, Bounds):
            low, high = bounds.lb, bounds.ub
        elif bounds is not None:
            low, high = np.array(
                [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds]
            ).T

        def value(x, chunk):
            assert np.all(x >= low) and np.all(x <= high), x
            return ((x - chunk) ** 2).sum() + x[0] * x[1]

        def both(x, chunk):
            return value(x, chunk), 2 * (x - chunk) + x[::-1]

        chunks, x0 = [np.array([-1.0, 2.0]), np.array([-2.0, 3.0])], np.array([0.5, 0.5])
        found = minimize(
            both if jac else value, x0, chunks, jac=jac, bounds=bounds, check_gradient=jac,
            scheduler="sync",
        )
        wanted = scipy.optimize.minimize(
            lambda x: sum(both(x, chunk)[0] for chunk in chunks), x0,
            jac=lambda x: sum(both(x, chunk)[1] for chunk in chunks), bounds=bounds,
        )
        assert found.success
        np.testing.assert_allclose(found.x, wanted.x, atol=1e-5)
        assert found.jac.shape == (2,)

    def test_a_function_that_is_not_defined_outside(self):
        found = minimize(
            lambda x, chunk: float(chunk * np.sqrt(x[0])), [0.5], [1.0], jac=False,
            bounds=[(0, 1)], scheduler="sync",
        )
        assert found.x[0] == 0

    def test_a_wrong_gradient_at_a_bound_is_still_seen(self):
        with pytest.raises(ValueError, match="the gradient is wrong"):
            minimize(
                lambda x, chunk: ((x**2).sum() + x.sum(), 2 * x - 1), np.zeros(2), [1],
                bounds=[(0, 1), (-1, 0)], check_gradient=True, scheduler="sync",
            )
