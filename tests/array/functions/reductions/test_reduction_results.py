"""What is taken of results, lengths that are not known, and other schedulers."""

import numpy as np
import pytest
from array_checks import check, check_near
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

RNG = np.random.default_rng(7)

X = np.random.default_rng(3).random((5, 6, 4))

A = la.from_array(X, chunks=(2, (3, 0, 3), 2))

RESULTS = {
    "argmax": (A.argmax(1), X.argmax(1)),
    "argmax kept": (A.argmax(0, keepdims=True), X.argmax(0, keepdims=True)),
    "cumsum": (A.cumsum(2), X.cumsum(2)),
    "quantile": (la.quantile(A, [0.2, 0.4], 1), np.quantile(X, [0.2, 0.4], 1)),
    "sort": (la.sort(A, 0), np.sort(X, 0)),
    "topk": (la.topk(A, 2, 1), -np.sort(-X, 1)[:, :2]),
    "diff": (la.diff(A, axis=1), np.diff(X, axis=1)),
    "digitize": (la.digitize(A, [0.3, 0.6]), np.digitize(X, [0.3, 0.6])),
    "tensordot": (la.tensordot(A, A, ((1,), (1,))), np.tensordot(X, X, ((1,), (1,)))),
    "matmul": (A[:, :4] @ A[:, 1:5], X[:, :4] @ X[:, 1:5]),
    "fmax": (np.fmax.reduce(A, 2), X.max(2)),
}


@st.composite
def index_of(draw, shape):
    """Integers, slices with any step, new axes."""
    found = []
    for n in shape:
        if draw(st.booleans()):
            found.append(None)
        found.append(draw(st.one_of(
            st.just(slice(None)), st.slices(n),
            st.integers(-n, n - 1) if n else st.just(slice(None)),
        )))
    return tuple(found)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(sorted(RESULTS)), st.data())
def test_what_is_taken_of_results(name, data):
    found, expected = RESULTS[name]
    key = data.draw(index_of(expected.shape))
    order = data.draw(st.permutations(range(expected[key].ndim)))
    check_near(found[key].transpose(order), expected[key].transpose(order))
    key = data.draw(index_of(expected.shape))
    check_near((found + 1)[key], (expected + 1)[key])


UNKNOWN = {
    "argmax": lambda x: np.argmax(x), "cumsum": lambda x: np.cumsum(x, axis=0),
    "median": lambda x: np.median(x), "diff": lambda x: np.diff(x), "sort": lambda x: np.sort(x),
    "histogram": lambda x: np.histogram(x, 3)[0], "bincount": lambda x: np.bincount(x),
    "digitize": lambda x: np.digitize(x, [2, 4]), "equal": lambda x: np.array_equal(x, x),
    "xor": lambda x: np.bitwise_xor.reduce(x), "trapezoid": lambda x: np.trapezoid(x),
    "covariance": lambda x: np.cov(x),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_lengths_that_are_not_known(name):
    x = np.bincount([1, 5, 5, 3, 9, 9, 9])
    a = la.bincount(la.from_array(np.array([1, 5, 5, 3, 9, 9, 9]), chunks=3))
    assert a.shape == (None,)
    found = UNKNOWN[name](a).compute()
    np.testing.assert_allclose(found, UNKNOWN[name](x))


@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
def test_variances_in_objects(axis):
    found, expected = A.var(axis, dtype=object).compute(), X.var(axis, dtype=object)
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float))


def test_methods():
    assert RESULTS["topk"][0].shape == A.topk(2, 1).shape
    check(A.argsort(1), X.argsort(1))
    check(A.argtopk(1, 0)[0], X.argmax(0))
    check_near(A.cumprod(1), X.cumprod(1))


def test_on_processes():
    x = RNG.random((6, 5))
    a = la.from_array(x, chunks=2)
    wanted = [
        a.argmax(0), a.cumsum(1), la.median(a, 0), la.histogram(a, 3)[0], la.topk(a, 2),
        la.bincount(la.arange(5, chunks=2)),
    ]
    expected = [
        x.argmax(0), x.cumsum(1), np.median(x, 0), np.histogram(x, 3)[0],
        -np.sort(-x)[:, :2], np.bincount(range(5)),
    ]
    import lazyflow

    found = lazyflow.compute(*wanted, scheduler="processes")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other)
