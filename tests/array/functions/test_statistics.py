"""Covariances and correlations, against NumPy."""

import numpy as np
import pytest
from array_checks import check, check_near

import lazyflow.array as la
from lazyflow import config

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("options", [
    {}, {"rowvar": False}, {"bias": True}, {"ddof": 2}, {"fweights": [1, 2, 3, 1, 2]},
    {"aweights": [1.0, 2, 0.5, 1, 1]}, {"fweights": [1, 2, 3, 1, 2], "aweights": [1.0, 2, 3, 1, 1]},
    {"dtype": "f4"}, {"aweights": [1.0, 2, 3, 4, 5], "ddof": 0},
])
@pytest.mark.parametrize("dtype", ["f8", "i8", "c16"])
def test_covariances(options, dtype):
    shape = (5, 4) if options.get("rowvar") is False else (4, 5)
    x = (RNG.random(shape) * 10).astype(dtype)
    if dtype == "c16":
        x = x + 1j * RNG.random(shape)
        if "dtype" in options:
            return
    a = la.from_array(x, chunks=2)
    expected = np.cov(x, **options)
    np.testing.assert_allclose(np.cov(a, **options).compute(), expected, rtol=1e-5)
    assert np.cov(a, **options).dtype == expected.dtype


def test_correlations():
    x = RNG.random((4, 6))
    a = la.from_array(x, chunks=2)
    check_near(np.corrcoef(a), np.corrcoef(x))
    check_near(np.corrcoef(a, rowvar=False), np.corrcoef(x, rowvar=False))
    check_near(np.corrcoef(a + 1j * a[::-1]), np.corrcoef(x + 1j * x[::-1]))
    check_near(np.cov(a[0]), np.cov(x[0]))


def test_covariances_of_two():
    x = RNG.random((4, 6))
    a = la.from_array(x, chunks=2)
    check_near(np.cov(a, a[1] * 2), np.cov(x, x[1] * 2))


@pytest.mark.parametrize("options, error, words", [
    ({"fweights": [1.5, 1]}, TypeError, "fweights must be integer"),
    ({"aweights": [-1.0, 1]}, ValueError, "aweights cannot be negative"),
    ({"aweights": [1.0]}, RuntimeError, "incompatible numbers of samples and aweights"),
    ({"ddof": 0.5}, ValueError, "ddof must be integer"),
])
def test_covariances_that_are_none(options, error, words):
    with pytest.raises(error, match=words):
        la.cov(la.ones((2, 2)), **options)


@pytest.mark.parametrize("dtype", ["f8", "c16", "i4"])
def test_covariances_of_no_variables_are_floats(dtype):
    x = np.zeros((0, 3), dtype)
    check(la.cov(la.from_array(x)), np.cov(x))
    check(la.cov(la.from_array(x), la.ones((2, 3))), np.cov(x, np.ones((2, 3))))


@pytest.mark.parametrize("fusion", [True, False])
@pytest.mark.parametrize("chunks", [((1, 1, 1), (2, 3), (0,)), (3, 5, 1), (2, 1, 1)])
@pytest.mark.parametrize("axis", [0, -2, (0, 1)])
def test_moments_of_arrays_with_an_axis_of_length_0(axis, chunks, fusion):
    x = np.ones((3, 5, 0))
    with config.set(array_fusion=fusion):
        for name in ("mean", "var", "std"):
            check(getattr(la.from_array(x, chunks), name)(axis), getattr(x, name)(axis))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("weights", [{}, {"aweights": np.arange(1.0, 41)}])
def test_covariances_of_transposed_variables_are_symmetric(dtype, weights):
    x = np.random.default_rng(4).random((40, 5)).astype(dtype)
    x = x * (1 + 2j) if dtype == "c16" else x
    chunked = la.from_array(x, chunks=(7, 3))
    for key in (np.s_[:], np.s_[::-1], np.s_[:, :1]):
        found = la.cov(chunked[key].T, **weights).compute()
        np.testing.assert_allclose(found, np.cov(x[key].T, **weights), rtol=1e-6)
    whole = la.cov(la.from_array(x, chunks=(7, 5)).T).compute()
    if dtype != "c16":
        assert np.array_equal(whole, whole.T)
