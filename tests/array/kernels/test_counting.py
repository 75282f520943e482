"""Elements counted by kernels and by NumPy's functions: the same numbers as NumPy's."""

import warnings

import numpy as np
import pytest
from array_checks import check
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow import config
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.counting import EvenBins, Numbers, count

NUMBERS = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e300]

needs_kernels = pytest.mark.skipif(bool(compiler.unavailable()), reason="there are no kernels here")


@pytest.fixture(params=["numpy", pytest.param("auto", marks=needs_kernels)])
def mode(request, monkeypatch):
    monkeypatch.setattr(compiler, "PAYS", 0)
    monkeypatch.setattr(compiler, "request", compiler.compile_now)
    with config.set(kernels=request.param):
        yield request.param


def near_edges(rng, edges):
    """Values on edges and beside them, and some that have no bin."""
    beside = [np.nextafter(edges, end) for end in (-np.inf, np.inf)]
    inside = rng.uniform(edges[0] - 1, edges[-1] + 1, 50)
    return rng.permutation(np.concatenate([edges, *beside, inside, SPECIAL]))


@needs_kernels
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30), bins=st.integers(1, 400),
       low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), dtype=st.sampled_from(["f8", "f4"]))
def test_values_at_edges_are_in_the_bins_that_numpy_puts_them_in(seed, bins, low, width, dtype):
    rng = np.random.default_rng(seed)
    limits = np.array([low, low + width], dtype)
    if limits[0] >= limits[1]:
        return
    try:
        edges = np.histogram_bin_edges(limits, bins)
    except ValueError:  # too many for so small a range
        return
    with np.errstate(over="ignore"):
        x = near_edges(rng, edges).astype(dtype)
    with config.set(kernels="native"):
        found = count([x], [EvenBins(edges)])
    if found is not None:  # else edges are rounded too much to be guessed
        assert found[0].tolist() == np.histogram(x, bins, (edges[0], edges[-1]))[0].tolist()
    assert found or width / bins < 1e-9 * max(1, abs(low)) or dtype == "f4"


@pytest.mark.parametrize("dtype", [*NUMBERS, "f2", "f4", "f8", ">f8", ">i4", "?"])
def test_histograms(mode, dtype):
    rng = np.random.default_rng(1)
    x = (rng.random(500) * 100).astype(dtype)
    y = rng.random(500)
    chunked, other = la.from_array(x, chunks=90), la.from_array(y, chunks=90)
    for bins, limits in ((10, (0, 50)), (7, (3.3, 90.1)), (np.linspace(0, 99, 12), None),
                         ([0, 1, 1, 5, 80], None)):
        check(la.histogram(chunked, bins, limits)[0],
              np.histogram(x.view("u1") if dtype == "?" else x, bins, limits)[0])
    for weights in (None, y):
        kw = {"bins": [8, [0, 0.1, 0.5, 1]], "range": [(0, 50), None], "weights": weights}
        expected = np.histogram2d(x, y, **kw)[0]
        np.testing.assert_allclose(la.histogram2d(chunked, other, **kw)[0].compute(), expected)


def test_histograms_of_the_least_numbers(mode):
    x = np.arange(9) * 5e-321
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(la.histogram(la.from_array(x, chunks=4), 3, (0, 4e-320))[0],
              np.histogram(x, 3, (0, 4e-320))[0])


@pytest.mark.parametrize("dtype", [*NUMBERS[:-1], ">i4", "?"])
def test_counts_of_numbers(mode, dtype):
    x = np.random.default_rng(2).integers(0, 2 if dtype == "?" else 100, 400).astype(dtype)
    w = np.arange(400) * 0.1
    chunked = la.from_array(x, chunks=77)
    for least in (0, 5, 100, 150):
        check(la.bincount(chunked, minlength=least), np.bincount(x, minlength=least))
        found = la.bincount(chunked, la.from_array(w, chunks=77), minlength=least).compute()
        np.testing.assert_allclose(found, np.bincount(x, w, minlength=least), rtol=1e-14)
    for weights in (None, w[:0]):
        found = la.bincount(la.from_array(x[:0], chunks=3), weights, minlength=4)
        check(found, np.bincount(x[:0], weights, minlength=4))
    if "i" in dtype:
        with pytest.raises(ValueError, match="must not be negative|must have no negative"):
            la.bincount(la.from_array(-x - 1, chunks=77), minlength=5).compute()


@pytest.mark.parametrize("dtype", [*NUMBERS, ">i8", "f8", "M8[s]", "U3"])
@pytest.mark.parametrize("at", ["lowest", "zero", "highest", "apart"])
def test_different_numbers(mode, dtype, at):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 100, 300)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        x = x.astype(dtype)
        if at == "lowest":
            x += np.dtype(dtype).type(limits.min)
        elif at == "highest":
            x = np.dtype(dtype).type(limits.max) - x
        elif at == "apart":
            x = rng.integers(limits.min, limits.max, 300, dtype=np.dtype(dtype).newbyteorder("="),
                             endpoint=True).astype(dtype)
    else:
        x = x.astype(dtype)
    chunked = la.from_array(x, chunks=90)
    check(la.unique(chunked), np.unique(x))
    for a, b in zip(la.unique(chunked, return_counts=True), np.unique(x, return_counts=True),
                    strict=True):
        check(a, b)
    for a, b in zip(la.unique(chunked, True, True, True), np.unique(x, True, True, True),
                    strict=True):
        check(a, b)


@needs_kernels
def test_elements_without_a_bin_are_told():
    with config.set(kernels="native"):
        for dtype in NUMBERS:
            x = np.array([3, 4, 4, 5], dtype)
            found, every = count([x], [Numbers(3, 3)])
            assert found.tolist() == [1, 2, 1] and every
            found, every = count([x], [Numbers(2, 4)], [1, 0.5, 0.25, 8])
            assert found.tolist() == [0.75, 8] and not every
    with config.set(kernels="numpy"):
        assert count([x], [Numbers(3)]) is None
