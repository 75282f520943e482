"""Functions of sequences: sliding sums, jumps, gaps, bits, polynomials, coarser arrays."""

import warnings

import numpy as np
import pytest
from array_checks import check, check_all, check_near
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

rng = np.random.default_rng(5)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.sampled_from(["i4", "c16"]),
       st.sampled_from(["full", "same", "valid"]))
@settings(max_examples=40, deadline=None)
def test_sliding_sums(n, m, chunk, kind, mode):
    a, b = [rng.integers(-9, 9, k).astype(kind) * (1 + 1j if kind == "c16" else 1) for k in (n, m)]
    x, y = la.from_array(a, chunks=chunk), la.from_array(b, chunks=2)
    for function in (np.convolve, np.correlate):
        expected = function(a, b, mode)
        found = function(x, y, mode)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)


def test_sums_at_ends_have_no_zeros_times_infinity():
    a, b = np.array([1.0, 2, 3, 4]), np.array([1.0, np.inf])
    check(np.convolve(la.from_array(a, chunks=2), b), np.convolve(a, b))


@pytest.mark.parametrize(("a", "b", "mode"), [
    (np.ones(0), np.ones(2), "full"), (np.ones((2, 2)), np.ones(2), "full"),
    (np.ones(3), np.ones(2), "some"),
])
def test_what_can_not_be_convolved(a, b, mode):
    for function in (np.convolve, np.correlate):
        with pytest.raises(ValueError, match=r"empty|deep|mode"):
            function(la.from_array(a, chunks=2), b, mode)


@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"period": 5}, {"period": 4, "discont": 6}])
@pytest.mark.parametrize("kind", ["i8", "f8"])
def test_jumps_are_taken_out(options, kind):
    a = (rng.normal(size=(4, 9)) * 20).astype(kind)
    check_near(np.unwrap(la.from_array(a, chunks=(2, 4)), **options), np.unwrap(a, **options))


@pytest.mark.parametrize("n", [None, 0, 1, 3])
def test_gaps_are_filled_with_what_is_before(n):
    a = rng.random((3, 30))
    a[a < 0.6] = np.nan
    expected = a.copy()
    for row in expected:
        gap = 0
        for k in range(1, len(row)):
            gap = gap + 1 if np.isnan(row[k]) else 0
            if gap and (n is None or gap <= n):
                row[k] = row[k - 1]
    check(la.push(la.from_array(a, chunks=(2, 7)), n), expected)
    check(la.push(la.from_array(a.T, chunks=(1, 2)), n, 0), expected.T)
    check(la.push(la.from_array(np.array(["NaT", "2020", "NaT"], "M8[D]"), chunks=1)),
          np.array(["NaT", "2020", "2020"], "M8[D]"))


@pytest.mark.parametrize("function", [np.sum, np.median, lambda x, axis: np.ptp(x, axis=axis)])
def test_coarser_arrays(function):
    a = rng.integers(0, 9, (9, 14))
    expected = function(a[:8, :12].reshape(4, 2, 4, 3), axis=(1, 3))
    for chunks in (2, 5, 14):
        x = la.from_array(a, chunks=chunks)
        check(la.coarsen(function, x, {0: 2, -1: 3}, trim_excess=True), expected)
    with pytest.raises(ValueError, match="trim_excess=True"):
        la.coarsen(function, x, {0: 2})


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("order", ["big", "little"])
def test_bits(axis, order):
    a = rng.integers(0, 255, (5, 19)).astype("u1")
    for chunks in (1, 3, 8):
        x = la.from_array(a, chunks=chunks)
        check(np.packbits(x, axis, order), np.packbits(a, axis, order))
    for count in (None, 0, 30, 1000, -2):
        check(np.unpackbits(x, axis, count, order), np.unpackbits(a, axis, count, order))
    with pytest.raises(TypeError):
        np.packbits(x * 1.0)


# -- polynomials ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [[1, 2, 3], [1.5, 0], [0, 0, 1], [1j, 2]])
def test_coefficients(p):
    a, x = np.array(p), la.from_array(np.array(p), chunks=2)
    for function, others in (
        (np.polyval, (np.arange(4.0).reshape(2, 2),)), (np.polyval, (np.arange(4),)),
        (np.polyadd, ([1, 2],)), (np.polysub, ([1, 2.0, 3, 4],)), (np.polymul, ([0, 2, 1],)),
        (np.polydiv, ([2, 1],)), (np.polyder, ()), (np.polyder, (4,)), (np.polyint, (2,)),
        (np.polyint, (1, 5)), (np.vander, ()), (np.vander, (2, True)),
    ):
        lazy = [la.from_array(y, chunks=1) if isinstance(y, np.ndarray) else y for y in others]
        check_all(function(x, *lazy), function(a, *others))


def near(found, expected):
    for one, other in zip(found, expected, strict=True):
        value = one.compute() if isinstance(one, la.Array) else one
        assert np.asarray(value).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("right", [lambda y: y, lambda y: np.stack([y, -y], 1), lambda y: y + 1j])
@pytest.mark.parametrize("options", [
    {"full": True}, {"cov": True}, {"cov": "unscaled"}, {"w": rng.random(50), "cov": True},
])
def test_the_polynomial_that_fits_best(right, options):
    a = rng.normal(size=50)
    b = right(3 * a**2 - a + 2 + rng.normal(size=50))
    x, y = la.from_array(a, chunks=13), la.from_array(b, chunks=7)
    for degree in (0, 3):
        near(np.polyfit(x, y, degree, **options), np.polyfit(a, b, degree, **options))
    near([np.polyfit(x, y, 2)], [np.polyfit(a, b, 2)])


def test_what_can_not_be_fitted_well():
    x = la.from_array(np.ones(5), chunks=2)
    with pytest.warns(np.exceptions.RankWarning):
        np.polyfit(x, x, 1).compute()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, left, rank, *_ = np.polyfit(x, x, 1, full=True)
        assert left.compute().shape == (0,) and rank.compute() == 1
    for error, args in ((ValueError, (x, x, -1)), (TypeError, (x, x[1:], 1)),
                        (TypeError, (x[:, None], x, 1)), (TypeError, (x[:0], x[:0], 1))):
        with pytest.raises(error, match="expected"):
            np.polyfit(*args)
