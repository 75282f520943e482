"""Whether arrays are equal, against NumPy."""

import numpy as np

import lazyflow.array as la

RNG = np.random.default_rng(7)


def test_equality():
    x = RNG.random((4, 5))
    y = np.where(x > 0.5, np.nan, x)
    a, b = la.from_array(x, chunks=2), la.from_array(y, chunks=3)
    assert np.array_equal(a, x)
    assert not np.array_equal(a, x[1:])
    assert not np.array_equal(b, y)
    assert np.array_equal(b, y, equal_nan=True)
    assert not np.array_equal(b, x, equal_nan=True)
    assert np.array_equiv(la.ones((3, 2)), [1, 1])
    assert not np.array_equiv(a, [1, 1])
