"""The indices of grids and triangles, against NumPy."""

import numpy as np
import pytest
from array_checks import check

import lazyflow.array as la


def test_grids():
    check(la.identity(5, chunks=2), np.identity(5))
    check(la.identity(3, int), np.identity(3, int))
    check(la.logspace(0, 2, 7, chunks=3), np.logspace(0, 2, 7))
    check(la.logspace(0, 3, 4, endpoint=False, base=2, dtype=int, chunks=3),
          np.logspace(0, 3, 4, endpoint=False, base=2, dtype=int))
    for n, m, k in ((4, 4, 0), (3, 5, 1), (5, 3, -1), (0, 2, 0)):
        for name in ("tril_indices", "triu_indices"):
            expected = getattr(np, name)(n, k, m)
            for one, other in zip(getattr(la, name)(n, k, m, chunks=2), expected, strict=True):
                check(one, other)
            x = la.ones((n, m), chunks=2)
            for one, other in zip(getattr(np, f"{name}_from")(x, k), expected, strict=True):
                check(one, other)
    with pytest.raises(ValueError, match="input array must be 2-d"):
        la.tril_indices_from(la.ones(3))


@pytest.mark.parametrize("order", ["C", "F"])
def test_flat_indices_and_coordinates(order):
    a = np.array([[0, 23, 5], [7, 11, 2]])
    x = la.from_array(a, chunks=2)
    expected = np.unravel_index(a, (2, 3, 4), order)
    for module in (la, np):
        found = module.unravel_index(x, (2, 3, 4), order)
        for one, other in zip(found, expected, strict=True):
            check(one, other)
        check(module.ravel_multi_index(found, (2, 3, 4), order=order), a)
    wrapped = la.ravel_multi_index([x, x[:1]], (3, 4), mode=("wrap", "clip"), order=order)
    check(wrapped, np.ravel_multi_index([a, np.broadcast_to(a[:1], a.shape)], (3, 4),
                                        mode=("wrap", "clip"), order=order))
    assert la.unravel_index(la.asarray(0), (), order) == np.unravel_index(np.array(0), (), order)
    with pytest.raises(ValueError, match="index 23 is out of bounds for array with size 6"):
        la.unravel_index(x, (2, 3), order)[0].compute()
    with pytest.raises(ValueError, match="invalid entry in coordinates array"):
        la.ravel_multi_index([x, x], (2, 3), order=order).compute()
    with pytest.raises(TypeError):
        la.unravel_index(la.ones(3), (2, 3))
