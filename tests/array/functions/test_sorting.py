"""Sorted elements and the largest of them, against NumPy."""

import numpy as np
import pytest
from array_checks import check
from array_strategies import arrays, axis_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

RNG = np.random.default_rng(7)


@settings(max_examples=60, deadline=None)
@given(arrays(dtypes=("f8", "i8")), st.data())
def test_sorting(pair, data):
    x, a = pair
    axis = axis_of(data, x, none=x.ndim == 1)
    check(np.sort(a, axis=axis), np.sort(x, axis=axis))
    check(np.argsort(a, axis=axis, stable=True), np.argsort(x, axis=axis, stable=True))


def test_partition():
    x = RNG.permutation(40).reshape(5, 8)
    a = la.from_array(x, chunks=3)
    check(np.partition(a, 3)[:, 3], np.sort(x)[:, 3])
    check(np.partition(a, [1, -2], axis=0)[[1][0]], np.sort(x, 0)[1])
    places = la.argpartition(a, 2).compute()
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1)[:, 2], np.sort(x)[:, 2])
    with pytest.raises(ValueError, match=r"kth\(=8\) out of bounds \(8\)"):
        la.partition(a, 8)


@settings(max_examples=60, deadline=None)
@given(arrays(least=1, dtypes=("i8", "f8"), nan=False), st.integers(1, 5), st.data())
def test_largest_and_smallest(pair, k, data):
    x, a = pair
    axis = axis_of(data, x, none=False)
    ascending = np.sort(x, axis=axis)
    smallest = np.take(ascending, range(min(k, x.shape[axis])), axis)
    largest = np.take(np.flip(ascending, axis), range(min(k, x.shape[axis])), axis)
    every = data.draw(st.sampled_from([None, 2, 3]))
    check(la.topk(a, k, axis, split_every=every), largest)
    check(la.topk(a, -k, axis), smallest)
    for sign, expected in ((1, largest), (-1, smallest)):
        places = la.argtopk(a, sign * k, axis, split_every=every).compute()
        np.testing.assert_array_equal(np.take_along_axis(x, places, axis), expected)


def test_none_of_the_largest():
    with pytest.raises(ValueError, match="k must be positive"):
        la.topk(la.ones(3), 0)
