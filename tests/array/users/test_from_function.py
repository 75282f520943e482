"""Arrays of a user's function of the indices."""

import numpy as np
import pytest
from array_checks import check

import lazyflow.array as la


def test_functions_of_indices(here):
    shapes = []

    def f(i, j, scale=1):
        shapes.append((i.shape, j.shape))
        return i * scale + j

    found = la.fromfunction(f, (3, 4), chunks=2, dtype=int, scale=10)
    assert found.chunks == ((2, 1), (2, 2))
    assert shapes == []
    check(found, np.fromfunction(f, (3, 4), dtype=int, scale=10))
    assert ((2, 2), (2, 2)) in shapes
    check(la.fromfunction(lambda i: i / 2, (5,), chunks=2), np.arange(5) / 2)
    check(la.fromfunction(f, (3, 4), dtype=None), np.fromfunction(f, (3, 4), dtype=None))
    with pytest.raises(TypeError, match="pass shape="):
        la.fromfunction(f)
