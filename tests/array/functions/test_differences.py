"""Differences, slopes and areas, against NumPy."""

import numpy as np
import pytest
from array_checks import check, check_near
from array_strategies import arrays, axis_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

RNG = np.random.default_rng(7)


@settings(max_examples=60, deadline=None)
@given(arrays(), st.integers(0, 3), st.data())
def test_differences(pair, n, data):
    x, a = pair
    axis = axis_of(data, x, none=False)
    check(np.diff(a, n=n, axis=axis), np.diff(x, n=n, axis=axis))


def test_differences_keep_the_chunks():
    x = la.from_array(RNG.random(100), chunks=10) * 2
    assert la.diff(x, 3).numblocks == (10,)
    with pytest.raises(ValueError, match="order must be non-negative but got -1"):
        la.diff(x, -1)


def test_differences_with_ends():
    x = RNG.random((4, 5))
    a = la.from_array(x, chunks=2)
    check(np.diff(a, prepend=0.0, append=x[:, :2]), np.diff(x, prepend=0.0, append=x[:, :2]))
    flat = la.from_array(x[0], chunks=2)
    check(np.ediff1d(flat), np.ediff1d(x[0]))
    check(la.ediff1d(flat, [7.0], [1.0, 2]), np.ediff1d(x[0], [7.0], [1.0, 2]))
    with pytest.raises(TypeError, match="`to_end` must be compatible"):
        la.ediff1d(la.arange(5), to_end=1.5)


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spaces, axis", [
    ((), None), ((2.5,), None), ((2, [0, 1, 3, 4, 7]), None), (([0, 1, 3, 4, 7],), 1),
    (([0, 2, 4, 6],), 0), ((), (1, 0)),
])
def test_slopes(edge_order, spaces, axis):
    x = RNG.random((4, 5))
    a = la.from_array(x, chunks=(3, 2))
    found = np.gradient(a, *spaces, axis=axis, edge_order=edge_order)
    expected = np.gradient(x, *spaces, axis=axis, edge_order=edge_order)
    if not isinstance(expected, tuple | list):
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        check_near(one, other)
        assert one.chunks == a.chunks


@pytest.mark.parametrize("x, spaces, error, words", [
    (np.ones(1), (), ValueError, "too small to calculate"),
    (np.ones((2, 2)), (1, 2, 3), TypeError, "invalid number of arguments"),
    (np.ones(3), ([1, 2],), ValueError, "distances must match"),
])
def test_slopes_that_are_none(x, spaces, error, words):
    with pytest.raises(error, match=words):
        la.gradient(la.from_array(x), *spaces)


def test_areas():
    x = RNG.random((4, 5))
    a = la.from_array(x, chunks=2)
    places = np.array([0, 1, 3, 4, 7.0])
    check_near(la.trapezoid(a), np.trapezoid(x))
    check_near(np.trapezoid(a, dx=2, axis=0), np.trapezoid(x, dx=2, axis=0))
    check_near(np.trapezoid(a, places), np.trapezoid(x, places))
    check_near(np.trapezoid(a, a * 2, axis=0), np.trapezoid(x, x * 2, axis=0))
