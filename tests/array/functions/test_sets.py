"""The different elements of arrays, against NumPy."""

import numpy as np
from array_checks import check

import lazyflow.array as la


def test_union():
    a, b = np.array([[3, 1], [1, 2]]), np.array([5, 3, 0])
    check(la.union1d(la.from_array(a, chunks=1), la.from_array(b, chunks=2)), np.union1d(a, b))
    check(np.union1d(la.from_array(a, chunks=1), b), np.union1d(a, b))
