"""Medians and quantiles, against NumPy."""

import warnings
from unittest import mock

import numpy as np
import pytest
from array_checks import check, check_near
from array_strategies import arrays, axis_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow as lf
import lazyflow.array as la
from lazyflow.array.functions.reductions import ranks

RNG = np.random.default_rng(7)


@settings(max_examples=60, deadline=None)
@given(arrays(least=1, dtypes=("f8", "i8", "f4"), nan=False), st.booleans(), st.data())
def test_medians(pair, keepdims, data):
    x, a = pair
    axis = axis_of(data, x)
    check(np.median(a, axis=axis, keepdims=keepdims), np.median(x, axis=axis, keepdims=keepdims))
    q = data.draw(st.sampled_from([0.3, [0.1, 0.9], np.float64(0.5), (0, 1)]))
    check(np.quantile(a, q, axis=axis, keepdims=keepdims),
          np.quantile(x, q, axis=axis, keepdims=keepdims))


METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_of_quantiles(method):
    x = RNG.random((6, 5, 4))
    a = la.from_array(x, chunks=(4, 2, 3))
    for axis in (None, 1, (0, 2)):
        check(la.quantile(a, [0.2, 0.7], axis, method=method),
              np.quantile(x, [0.2, 0.7], axis, method=method))
        check(la.percentile(a, 40, axis, method=method), np.percentile(x, 40, axis, method=method))


def test_quantiles_that_leave_nan_out():
    x = RNG.random((6, 5, 4))
    x[x > 0.7] = np.nan
    a = la.from_array(x, chunks=2)
    check(np.nanmedian(a, axis=(0, 2)), np.nanmedian(x, axis=(0, 2)))
    check(np.nanquantile(a, [0.2, 0.5], axis=(0, 1)), np.nanquantile(x, [0.2, 0.5], axis=(0, 1)))
    check(np.nanpercentile(a, 30, axis=1), np.nanpercentile(x, 30, axis=1))
    places = [[0.1], [0.5]]  # here NumPy mixes axes up
    found = la.nanquantile(a, places, axis=1).compute()
    np.testing.assert_array_equal(found[:, 0], np.nanquantile(x, [0.1, 0.5], axis=1))


@pytest.mark.parametrize("dtype", ["f4", ">f4", "f2", "i4"])
@pytest.mark.parametrize("q", [50, [10, 50], np.float32(50)], ids=str)
def test_quantiles_beside_blocks_without_elements(dtype, q):
    x = np.arange(8.0).astype(dtype).reshape(2, 4)
    a = la.from_array(x, chunks=(2, (1, 3, 0)))
    check(la.median(a, axis=()), np.median(x, axis=()))
    check(la.quantile(a, 0.5, axis=()), np.quantile(x, 0.5, axis=()))
    check(la.nanpercentile(a, q, axis=0), np.nanpercentile(x, q, axis=0))
    check(divmod(la.nanpercentile(a, q, axis=0), 3)[1], np.nanpercentile(x, q, axis=0) % 3)


@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("dtype", ["?", "f2", ">f4", "i4", "m8[s]", "O"])
@pytest.mark.parametrize("q", [50, [10, 50], np.float32(50)], ids=str)
def test_quantiles_without_nan_of_no_elements_are_the_mean_of_them(dtype, q):
    for shape in [(0, 3), (2, 0, 3)]:
        x = np.ones(shape, dtype)
        for keepdims in [False, True]:
            options = {"axis": 1, "keepdims": keepdims}
            if dtype != "O" or len(shape) == 2:
                check(la.nanpercentile(la.from_array(x, chunks=2), q, **options),
                      np.nanpercentile(x, q, **options))
                check(la.nanmedian(la.from_array(x, chunks=2), **options),
                      np.nanmedian(x, **options))
    with pytest.raises(ValueError, match="in the range"):
        la.nanpercentile(la.zeros((0, 3)), 101)


def test_quantiles_with_weights():
    x, w = RNG.random((6, 5)), RNG.random((6, 5))
    a, b = la.from_array(x, chunks=2), la.from_array(w, chunks=3)
    options = {"axis": 0, "method": "inverted_cdf"}
    check(la.quantile(a, [0.3, 0.6], weights=b, **options),
          np.quantile(x, [0.3, 0.6], weights=w, **options))
    check(la.percentile(a, 30, weights=w[:, 0], **options),
          np.percentile(x, 30, weights=w[:, 0], **options))
    cube = RNG.random((6, 6, 3))
    for axis in [(0, 1), (1, 0)]:  # in the order of the weights' own
        options["axis"] = axis
        c = la.from_array(cube, chunks=4)
        places = RNG.random((6, 6))
        check(la.quantile(c, 0.3, weights=places, **options),
              np.quantile(cube, 0.3, weights=places, **options))
        check_near(la.average(c, axis, places), np.average(cube, axis, places))
    options["axis"] = 0
    with pytest.raises(ValueError, match="Only method 'inverted_cdf' supports weights"):
        la.quantile(a, 0.3, weights=b)
    with pytest.raises(ValueError, match="Shape of weights must be consistent"):
        la.quantile(a, 0.3, weights=w[0], **options)


def test_quantiles_that_are_none():
    a = la.ones(4)
    with pytest.raises(ValueError, match="Quantiles must be in the range"):
        la.quantile(a, 1.5)
    with pytest.raises(ValueError, match="is not a valid method"):
        la.quantile(a, 0.5, method="near")
    with pytest.raises(TypeError, match="compute it first"):
        la.quantile(a, la.ones(2) / 2)


def test_a_whole_axis_makes_other_chunks_shorter():
    x = la.ones((4_000, 40_000), chunks=(4_000, 40))
    found = la.median(x, axis=1)
    assert len(found.chunks[0]) > 10
    assert sum(found.chunks[0]) == 4_000


def _shared(func):
    """Return what a function of NumPy gives for an array, and its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = func()
    return np.asarray(found), {str(w.message) for w in seen}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_quantiles_of_all_elements_have_numpys_bits(data):
    draw = data.draw
    dtype = draw(st.sampled_from(["f8", ">f8", "f4", "f2", "i8", "i1", "u2", "u8"]))
    shape = draw(st.sampled_from([(40,), (7, 6), (2, 3, 5), (2,)]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = (rng.standard_normal(shape) * 10 ** draw(st.integers(0, 3))).astype(dtype)
    if x.dtype.kind == "f" and draw(st.booleans()):
        odd = draw(st.sampled_from([np.nan, np.inf, -np.inf, x.flat[0]]))
        x[rng.random(shape) < draw(st.sampled_from([0.05, 0.5, 1.0]))] = odd
    a = la.from_array(x, chunks=draw(st.integers(1, 4)))
    name = draw(st.sampled_from(["median", "quantile", "percentile"]))
    args, options = [], {"keepdims": draw(st.booleans())}
    if name != "median":
        q = draw(st.sampled_from([
            0, 1, 0.5, 0.31, [0.2, 0.21], np.float64(0.9), [[0.0], [1.0]], (0, 1), np.float32(0.4),
        ]))
        args = [q if name == "quantile" else q * 100 if isinstance(q, int | float)
                else np.multiply(q, 100)]
        options["method"] = draw(st.sampled_from(METHODS))
    name = draw(st.sampled_from(["", "nan"])) + name
    if name[:3] == "nan" and np.ndim(args[0] if args else 0) > 1:  # here NumPy mixes axes up
        args = [np.ravel(args[0])]
    with mock.patch.multiple(ranks, _PAYS=1, _SAMPLE=draw(st.sampled_from([1, 4, 100])),
                             _FAR=draw(st.sampled_from([0.0, 3.0]))):
        made = getattr(la, name)
        found, warned = _shared(lambda: made(a, *args, **options).compute(scheduler="threads"))
    expected, warns = _shared(lambda: getattr(np, name)(x, *args, **options))
    if (x != x).all():  # of which NumPy's functions that leave NaN out give another type
        expected = expected.astype(found.dtype)
    np.testing.assert_array_equal(found, expected, strict=True)
    assert warned == warns


def lengths_partitioned(monkeypatch):
    """Return the list to which each call of ``np.partition`` from now on adds a length."""
    found, partition = [], np.partition
    monkeypatch.setattr(np, "partition", lambda x, *at: found.append(len(x)) or partition(x, *at))
    return found


def test_an_element_that_is_there_many_times_is_only_counted(monkeypatch):
    x = RNG.integers(0, 3, 1 << 20) * RNG.integers(0, 2, 1 << 20)  # two of three are 0
    a = la.from_array(x, chunks=1 << 17)
    sorted_here = lengths_partitioned(monkeypatch)
    found = la.percentile(a, [10, 50, 75]).compute(scheduler="threads")
    monkeypatch.undo()
    np.testing.assert_array_equal(found, np.percentile(x, [10, 50, 75]))
    assert not sorted_here


def test_quantiles_of_large_arrays_sort_little(monkeypatch):
    x = RNG.standard_normal(1 << 20)
    a = la.from_array(x, chunks=1 << 17)
    sorted_here = lengths_partitioned(monkeypatch)
    found = la.percentile(a, [1, 50, 99.99]).compute(scheduler="threads")
    assert sorted_here and max(sorted_here) < x.size / 10
    monkeypatch.undo()
    np.testing.assert_array_equal(found, np.percentile(x, [1, 50, 99.99]))


LONG = ["f8", ">f8", "f4", "f2", "i8", "i1", "u8", "?", "c16", "M8[s]", "m8[D]"]


@pytest.mark.filterwarnings("ignore:a task of .* needs")  # of limits of 8 kB
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_quantiles_along_axes_that_no_task_sees_whole_have_numpys_bits(data):
    draw = data.draw
    dtype = draw(st.sampled_from(LONG))
    shape, axis = draw(st.sampled_from([
        ((60,), 0), ((2, 30), 1), ((30, 2), 0), ((3, 2, 10), (0, 2)), ((1, 2, 30), -1),
        ((3, 20), None),
    ]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    numbers = rng.standard_normal(shape) * 10 ** draw(st.integers(0, 2))
    x = numbers.astype("i8" if dtype[0] in "Mm" else dtype).astype(dtype)
    if x.dtype.kind in "fcMm" and draw(st.booleans()):
        x[rng.random(shape) < draw(st.sampled_from([0.02, 0.5]))] = (
            "NaT" if x.dtype.kind in "Mm" else np.nan
        )
    discrete = ["lower", "nearest", "inverted_cdf", "closest_observation", "higher"]
    name, args, options = "median", [], {"axis": axis, "keepdims": draw(st.booleans())}
    if x.dtype.kind in "?bM" or (x.dtype.kind != "c" and draw(st.booleans())):
        name = "quantile"
        args = [draw(st.sampled_from([
            0.31, np.float64(0.9), np.float32(0.4), [0.2, 0.6], np.linspace(0, 1, 11),
            np.linspace(0, 1, 10).astype("f4"),
        ]))]
        ordered = x.dtype.kind in "bM" or x.dtype.char == "?"
        options["method"] = draw(st.sampled_from(discrete if ordered else METHODS))
    if x.dtype.kind in "fiu":
        name = draw(st.sampled_from(["", "nan"])) + name
    expected, warns = _shared(lambda: getattr(np, name)(x, *args, **options))
    with lf.config.set(chunk_bytes=draw(st.sampled_from([8, 24])), scheduler="sync",
                       memory_limit=draw(st.sampled_from([None, 8000]))):
        a = la.from_array(x, chunks=draw(st.integers(2, 20))).map_blocks(np.array, dtype=dtype)
        with mock.patch.multiple(ranks, _SAMPLE=1, _FAR=draw(st.sampled_from([0.0, 3.0]))):
            made = getattr(la, name)(a, *args, **options)
            found, warned = _shared(made.compute)
    if (x != x).all(axis=axis).any():  # of which NumPy makes another type
        expected = expected.astype(found.dtype)
    np.testing.assert_array_equal(found, expected, strict=True)
    assert warned == warns
