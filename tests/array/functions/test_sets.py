"""The different elements of arrays, against NumPy."""

import numpy as np
import pytest
from array_checks import check

import lazyflow
import lazyflow.array as la

OF_KINDS = (
    np.array([0.0, -0.0, 1, np.nan, np.inf]), np.array([0, 1j, np.nan, complex(1, np.nan)]),
    np.array(["2020", "NaT", "2021"], "M8[s]"), np.array([1, 2**60, -5]), np.array([True, False]),
    np.array(["a", "b", "cc"]),
)  # fmt: skip


def test_union():
    a, b = np.array([[3, 1], [1, 2]]), np.array([5, 3, 0])
    check(la.union1d(la.from_array(a, chunks=1), la.from_array(b, chunks=2)), np.union1d(a, b))
    check(np.union1d(la.from_array(a, chunks=1), b), np.union1d(a, b))


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("values", OF_KINDS, ids=lambda values: values.dtype.str)
def test_tables_of_blocks_are_merged(values, equal_nan):
    for length in (0, 1, 50):
        a = np.random.default_rng(length).choice(values, length)
        x = la.from_array(a, chunks=7)
        for asked in ({"return_counts": True}, {"return_counts": True, "return_index": True}):
            found = lazyflow.compute(*la.unique(x, equal_nan=equal_nan, **asked))
            for ours, right in zip(found, np.unique(a, equal_nan=equal_nan, **asked), strict=True):
                assert ours.dtype == right.dtype
                np.testing.assert_array_equal(ours, right)
