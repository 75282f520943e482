"""Arrays of formulas, against NumPy."""

import numpy as np
import pytest

import lazyflow.array as la


@pytest.mark.parametrize("dtype", [float, bool, "c8", "S3", "U2", "O", "m8[s]"])
def test_ones_on_a_diagonal(dtype):
    for n, m, chunks in ((0, None, 1), (5, 13, 4), (13, 5, 50), (600, 700, 90)):  # large: in place
        for k in (-20, -3, 0, 9):
            found = la.eye(n, m, k, dtype=dtype, chunks=chunks).compute()
            np.testing.assert_array_equal(found, np.eye(n, m, k, dtype=dtype), strict=True)
