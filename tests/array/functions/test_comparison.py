"""Whether arrays are equal, against NumPy."""

import operator

import numpy as np
import pytest

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


@pytest.mark.parametrize("compare", [
    operator.eq, operator.ne, la.array_equal, la.array_equiv,
])
@pytest.mark.parametrize("other", [[None, 1], None])
def test_records_are_not_compared_with_objects(compare, other):
    """As in NumPy, where the operators of records say so, and those of objects do not."""
    records = np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")])
    objects = np.array(other, object)
    x, y = la.from_array(records, chunks=1), la.asarray(objects)
    if compare is la.array_equal and not y.ndim:
        assert not compare(x, y).compute()
        return
    with pytest.raises(TypeError, match="Cannot compare structured or void to non-void arrays"):
        compare(x, y)
    assert not la.equal(x, y).compute().any()
    assert not (y == x).compute().any()
