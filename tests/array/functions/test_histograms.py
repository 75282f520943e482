"""Histograms, counts and tables, against NumPy."""

import numpy as np
import pytest
from array_checks import check, check_near

import lazyflow.array as la

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins, limits", [
    (10, None), (5, (2, 7)), ([0, 1, 2.5, 7], None), (np.array([3, 3, 4]), None),
])
def test_histograms(dtype, density, bins, limits):
    if density and len(np.atleast_1d(bins)) == 3:
        bins = [3, 4, 5]
    x = (RNG.random((9, 7)) * 10).astype(dtype)
    a = la.from_array(x, chunks=(4, 3))
    for weights in (None, x * 0.5, x.astype(int)):
        counts, edges = np.histogram(a, bins, limits, density=density, weights=weights)
        expected = np.histogram(x, bins, limits, density=density, weights=weights)
        check(counts, expected[0], rtol=1e-6 if dtype == "f4" else 1e-12)
        check(edges, expected[1])
    check(np.histogram_bin_edges(a, bins, limits), np.histogram_bin_edges(x, bins, limits))


def test_histogram_of_little():
    for x in (np.ones(3), np.zeros(0)):
        found = la.histogram(la.from_array(x, chunks=-1), 4)
        for one, other in zip(found, np.histogram(x, 4), strict=True):
            check(one, other)


def test_histogram_with_lazy_edges():
    x = RNG.random(20)
    edges = la.linspace(0, 1, 5)
    counts, same = la.histogram(la.from_array(x, chunks=6), edges)
    check(counts, np.histogram(x, np.linspace(0, 1, 5))[0])
    assert same.expr is edges.expr


@pytest.mark.parametrize("bins, limits, error, words", [
    ("stone", None, ValueError, "'stone' all values are needed"),
    ("most", None, ValueError, "'most' is not a valid estimator for `bins`"),
    (0, None, ValueError, "`bins` must be positive"),
    (3, (2, 1), ValueError, "max must be larger than min"),
    ([3, 1], None, ValueError, "`bins` must increase monotonically"),
    (3, 4, ValueError, "range= must be a pair of numbers, the lowest and the highest; got 4"),
    ("auto", (1,), ValueError, r"range= must be a pair of numbers.*got \(1,\)"),
])
def test_bins_that_are_none(bins, limits, error, words):
    with pytest.raises(error, match=words):
        la.histogram(la.ones(3), bins, limits)


@pytest.mark.parametrize("rule", ["auto", "doane", "fd", "rice", "scott", "sqrt", "sturges"])
@pytest.mark.parametrize("limits", [None, (-1, 1.5)])
def test_bins_by_rules(rule, limits):
    draws = np.random.default_rng(1)
    for a in draws.normal(size=500), draws.integers(-1, 3, 40), np.ones(3), np.ones(0):
        x = la.from_array(a, chunks=100)
        for found, expected in zip(
            la.histogram(x, rule, limits), np.histogram(a, rule, limits), strict=True
        ):
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-12, atol=1e-15)
    with pytest.raises(TypeError, match="weighted data"):
        la.histogram(x, rule, weights=x)


@pytest.mark.parametrize("bins", [4, "sqrt"])
def test_a_range_may_be_lazy(bins):
    a = np.arange(10.0)
    x = la.from_array(a, chunks=4)
    found = la.histogram(x, bins, (x.min(), x.max()))[0].compute()
    np.testing.assert_array_equal(found, np.histogram(a, bins)[0])


def test_the_number_of_bins_may_be_lazy():
    a = np.arange(10.0)
    for found, expected in zip(
        la.histogram(la.from_array(a, chunks=4), la.asarray(4)), np.histogram(a, 4), strict=True
    ):
        check(found, expected)


def test_histogram_of_infinite_range():
    with pytest.raises(ValueError, match="is not finite"):
        la.histogram(la.from_array(np.array([1.0, np.inf])))[0].compute()


def test_histograms_in_two_and_more_dimensions():
    x, y, w = RNG.random((3, 50))
    a, b = la.from_array(x, chunks=20), la.from_array(y, chunks=17)
    for options in ({}, {"bins": 4}, {"bins": [3, [0, 0.2, 1]]}, {"bins": [0, 0.5, 1]},
                    {"density": True}, {"weights": w}, {"range": [[0, 0.5], [0.1, 0.9]]}):
        for one, other in zip(
            np.histogram2d(a, b, **options), np.histogram2d(x, y, **options), strict=True
        ):
            check_near(one, other)
    points = RNG.random((50, 3))
    found, edges = np.histogramdd(la.from_array(points, chunks=(7, 2)), bins=(2, 3, 4))
    expected, others = np.histogramdd(points, bins=(2, 3, 4))
    check(found, expected)
    for one, other in zip(edges, others, strict=True):
        check(one, other)
    with pytest.raises(ValueError, match="dimension of bins"):
        la.histogramdd((a, b), bins=(2, 3, 4))


def test_counts_of_integers():
    x = RNG.integers(0, 9, 30)
    a = la.from_array(x, chunks=7)
    check(np.bincount(a), np.bincount(x))
    check(np.bincount(a, minlength=20), np.bincount(x, minlength=20))
    check(la.bincount(a, weights=a * 0.5), np.bincount(x, weights=x * 0.5))
    check(la.bincount(a)[2:4], np.bincount(x)[2:4])
    assert la.bincount(a).shape == (None,)
    small = la.from_array(x.astype("u1"), chunks=7)
    assert la.bincount(small, minlength=256).shape == (256,)
    check(la.bincount(small, minlength=256), np.bincount(x, minlength=256))
    for least in (0, 2):
        found = la.bincount(la.zeros(4, bool, chunks=2), minlength=least)
        assert found.shape == ((least or None),)
        check(found, np.bincount(np.zeros(4, bool), minlength=least))


@pytest.mark.parametrize("x, options, error, words", [
    (np.ones(3), {}, TypeError, "Cannot cast"),
    (np.ones((2, 2), int), {}, ValueError, "object too deep"),
    (np.ones(3, int), {"weights": [1.0]}, ValueError, "same length"),
    (np.ones(3, int), {"minlength": -1}, ValueError, "must not be negative"),
    (np.array([-1]), {}, ValueError, "no negative elements"),
])
def test_counts_of_what_cannot_be_counted(x, options, error, words):
    with pytest.raises(error, match=words):
        la.bincount(la.from_array(x), **options).compute()


def test_tables():
    x = RNG.random((5, 6)) * 4
    a = la.from_array(x, chunks=2)
    check(np.digitize(a, [1, 2, 3]), np.digitize(x, [1, 2, 3]))
    check(np.digitize(a, [3, 2, 1], right=True), np.digitize(x, [3, 2, 1], right=True))
    check(np.interp(a, [1, 2, 3], la.asarray([5, 1, 2])), np.interp(x, [1, 2, 3], [5, 1, 2]))
    check(np.interp(a, [1, 2], [0, 1], left=-1, period=3),
          np.interp(x, [1, 2], [0, 1], left=-1, period=3))
    with pytest.raises(ValueError, match="monotonically"):
        la.digitize(a, [1, 3, 2])
