"""What two arrays have in common, against NumPy."""

import numpy as np
import pytest
from array_checks import check, check_all

import lazyflow.array as la

KINDS = ("i8", "u1", "f8", "c16", "?", "M8[D]", "U3", "O")


def two(kind):
    rng = np.random.default_rng(3)
    a, b = [rng.integers(low, high, n) for low, high, n in ((0, 12, 25), (5, 20, 30))]
    a, b = a.astype(kind), b.astype(kind)
    if kind in ("f8", "M8[D]"):
        a[3:5] = b[3] = np.nan if kind == "f8" else "NaT"
    return a, la.from_array(a, chunks=7), b, la.from_array(b, chunks=11)


@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d", "union1d"])
@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_two_arrays(name, kind):
    a, x, b, y = two(kind)
    function = getattr(np, name)
    check(function(x, y), function(a, b))
    check(function(x, la.from_array(b[:0], chunks=1)), function(a, b[:0]))


@pytest.mark.parametrize("kinds", [("i8", "M8[D]"), ("M8[D]", "f8"), ("U3", "M8[D]"), ("O", "i8")])
@pytest.mark.parametrize("count", [1, 30])  # NumPy compares with few one by one, and sorts many
def test_what_is_not_in_an_array_of_another_type(kinds, count):
    a, x, *_ = two(kinds[0])
    b = two(kinds[1])[2][:count]
    try:
        expected = np.setdiff1d(a, b)
    except TypeError:
        with pytest.raises(TypeError):
            np.setdiff1d(x, la.from_array(b, chunks=11)).compute()
    else:
        check(np.setdiff1d(x, la.from_array(b, chunks=11)), expected)
        check(np.setdiff1d(x, b), expected)


def test_places_and_order_in_sets():
    a, x, b, y = two("f8")
    check_all(np.intersect1d(x, y, return_indices=True),
              np.intersect1d(a, b, return_indices=True))
    a = np.array([5, 3, 9, 1, 4])
    found = np.setdiff1d(la.from_array(a, chunks=2), np.array([9, 1]), assume_unique=True)
    check(found, np.array([5, 3, 4]))


def test_sets_of_unknown_lengths_are_lazy():
    def refuse(block):
        raise AssertionError("computed at the call")

    x = la.arange(9, chunks=4).map_blocks(refuse, dtype=int)
    for function in (np.intersect1d, np.setdiff1d, np.setxor1d, np.union1d, la.isin):
        function(x[x > 3], la.unique(x))


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse"])
def test_parts_of_unique(name):
    a = two("f8")[0]
    a[3] = 0  # which of two NaN comes first is not said
    a = a.reshape(5, 5)
    found, expected = [getattr(np, name)(x) for x in (la.from_array(a, chunks=2), a)]
    assert found._fields == expected._fields
    for one, other in zip(found, expected, strict=True):
        check(one, other)


def test_values_of_unique():
    a = two("f8")[0]
    check(np.unique_values(la.from_array(a, chunks=4)), np.unique(a, equal_nan=False))
