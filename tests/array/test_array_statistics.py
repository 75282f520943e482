"""Reductions beyond sums, scans, order statistics and histograms, against NumPy."""

import contextlib

import numpy as np
import pytest
from array_checks import check, check_near, same_values
from array_examples import Store
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow.array.dispatch import functions

RNG = np.random.default_rng(7)


def needs(*names):
    """Mark a test that needs functions of modules that are built elsewhere."""
    missing = [name for name in names if name not in functions]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)} yet")


def cut(rng, n):
    """Chunks of an axis, some of them empty or of one element."""
    cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 5)))
    return tuple(np.diff([0, *cuts, n]).tolist())


@st.composite
def arrays(draw, least=0, dtypes=("f8", "i8", "i1", "?"), ndim=(1, 3), nan=True):
    """An ndarray with repeated values and the same in chunks."""
    count = draw(st.integers(*ndim))
    shape = tuple(draw(st.lists(st.integers(least, 6), min_size=count, max_size=count)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    x = rng.integers(-3, 4, shape).astype(dtype)
    if nan and dtype.kind == "f" and draw(st.booleans()):
        x[rng.random(shape) < 0.3] = np.nan
    return x, la.from_array(x, chunks=tuple([cut(rng, n) for n in shape]))


def axis_of(data, x, none=True):
    options = list(range(-x.ndim, x.ndim))
    return data.draw(st.sampled_from([None, *options] if none else options))


# -- argmin and its like ------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(arrays(), st.sampled_from(["argmin", "argmax", "nanargmin", "nanargmax"]),
       st.booleans(), st.data())
def test_places_of_extremes(pair, name, keepdims, data):
    x, a = pair
    axis = axis_of(data, x)
    try:
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    except ValueError as error:
        with pytest.raises(ValueError) as caught:
            getattr(la, name)(a, axis=axis, keepdims=keepdims).compute()
        assert str(caught.value) == str(error)
        return
    check(getattr(la, name)(a, axis=axis, keepdims=keepdims), expected)


def test_place_of_a_complex_or_text_extreme():
    x = np.array([1 + 2j, 1 - 1j, 0 + 5j, 1 + 2j])
    check(la.from_array(x, chunks=2).argmax(), x.argmax())
    dates = np.array(["2020-01-03", "2020-01-01", "NaT"], "M8[D]")
    check(la.from_array(dates, chunks=1).argmin(), dates.argmin())


def test_argmax_into_out():
    x = RNG.random((4, 6))
    out = la.zeros(6, dtype=int)
    assert np.argmax(la.from_array(x, chunks=2), 0, out) is out
    check(out, x.argmax(0))


def test_argmax_of_a_slice_reads_the_slice_only(here):
    store = Store(np.ones((4, 6)), chunks=(2, 2))
    a = la.from_array(store, chunks=2)
    same_values(a.argmax(0)[1:3].compute(), np.zeros(2, int))
    assert {key[1].start for key in store.read} == {1, 2}
    assert len(store.read) == 4


# -- any ufunc ----------------------------------------------------------------------------------

REDUCED = ["bitwise_xor", "gcd", "subtract", "logical_xor", "fmax", "hypot", "bitwise_or"]


@settings(max_examples=80, deadline=None)
@given(arrays(least=1, dtypes=("i8", "i1")), st.sampled_from(REDUCED), st.booleans(), st.data())
def test_reduce_by_any_ufunc(pair, name, keepdims, data):
    x, a = pair
    ufunc = getattr(np, name)
    axis = axis_of(data, x, none=name != "subtract" or x.ndim == 1)
    if name == "hypot":  # of short integers it has few digits
        x, a = x.astype("i8"), a.astype("i8")
    compare = check_near if name == "hypot" else check
    compare(ufunc.reduce(a, axis=axis, keepdims=keepdims),
            ufunc.reduce(x, axis=axis, keepdims=keepdims))


def test_reduce_with_a_mask_and_an_initial_value():
    x = RNG.integers(0, 100, (6, 5))
    a = la.from_array(x, chunks=2)
    mask = x > 30
    lazy = la.from_array(mask, chunks=3)
    check(np.bitwise_or.reduce(a, axis=1, where=lazy), np.bitwise_or.reduce(x, axis=1, where=mask))
    check(np.bitwise_xor.reduce(a, axis=0, initial=5), np.bitwise_xor.reduce(x, axis=0, initial=5))
    check(np.fmax.reduce(a, initial=50, where=lazy), np.fmax.reduce(x, initial=50, where=mask))
    with pytest.raises(ValueError, match="to use a where mask one has to specify 'initial'"):
        np.fmax.reduce(a, where=lazy)
    with pytest.raises(ValueError, match="not reorderable"):
        np.subtract.reduce(a, axis=(0, 1))


def test_reduce_of_nothing():
    a = la.zeros((0, 3), chunks=2)
    check(np.hypot.reduce(a, axis=0), np.hypot.reduce(np.zeros((0, 3)), axis=0))
    with pytest.raises(ValueError, match="zero-size array to reduction operation fmax"):
        np.fmax.reduce(a, axis=0)


# -- scans --------------------------------------------------------------------------------------

SCANS = ["cumsum", "cumprod", "nancumsum", "nancumprod"]


@settings(max_examples=100, deadline=None)
@given(arrays(), st.sampled_from(SCANS), st.sampled_from(["sequential", "blelloch"]), st.data())
def test_scans(pair, name, method, data):
    x, a = pair
    axis = axis_of(data, x, none=x.ndim == 1)
    check(getattr(la, name)(a, axis=axis, method=method), getattr(np, name)(x, axis=axis))


@settings(max_examples=60, deadline=None)
@given(arrays(least=1, dtypes=("i8",)), st.data())
def test_accumulate_by_any_ufunc(pair, data):
    x, a = pair
    axis = axis_of(data, x, none=False)
    ufunc = getattr(np, data.draw(st.sampled_from(["maximum", "bitwise_xor", "subtract"])))
    check(ufunc.accumulate(a, axis=axis), ufunc.accumulate(x, axis=axis))


@pytest.mark.parametrize("method", ["sequential", "blelloch"])
@pytest.mark.parametrize("count", range(1, 20))
def test_scan_of_any_number_of_chunks(method, count):
    x = RNG.integers(0, 9, count * 2)
    check(la.cumsum(la.from_array(x, chunks=2), method=method), np.cumsum(x))


@pytest.mark.parametrize("dtype", ["m8[s]", "m8[ms]", ">m8[s]", "i8", "?", ">f4"])
@pytest.mark.parametrize("wanted", ["m8[s]", ">m8[s]", "m8", ">f8"])
def test_scans_take_of_a_dtype_neither_unit_nor_order_of_bytes(dtype, wanted):
    x = np.array([1, 0, 1, 1]).astype(dtype)
    a = la.from_array(x, chunks=3)
    for name in ("cumsum", "nancumsum", "cumprod"):
        try:
            expected = getattr(np, name)(x, dtype=wanted)
        except TypeError:
            with pytest.raises(TypeError):
                getattr(la, name)(a, dtype=wanted)
        else:
            check(getattr(la, name)(a, dtype=wanted), expected)
    with pytest.raises(TypeError, match="only select the general DType") if wanted != "m8" else (
        contextlib.nullcontext()
    ):
        la.cumulative_sum(a, dtype=wanted)


def test_scan_types():
    x = RNG.integers(0, 5, (5, 4)).astype("i2")
    a = la.from_array(x, chunks=2)
    check(a.cumsum(0, dtype="f4"), x.cumsum(0, dtype="f4"))
    check(np.cumprod(a, axis=1), np.cumprod(x, axis=1))
    check(np.cumsum(a > 2, axis=1), np.cumsum(x > 2, axis=1))
    out = la.zeros((5, 4), dtype=int)
    assert a.cumsum(1, out=out) is out
    check(out, x.cumsum(1))


def test_dates_and_times():
    x = np.array(["2020-01-03", "2020-01-01", "NaT", "2020-02-01", "2021-01-01"], "M8[D]")
    a = la.from_array(x, chunks=2)
    steps = np.diff(x)
    check(np.diff(a), steps)
    check(la.diff(a)[2:].cumsum(0), steps[2:].cumsum())
    check(np.maximum.accumulate(a), np.maximum.accumulate(x))
    check(np.fmax.reduce(a), np.fmax.reduce(x))
    check(la.sort(a), np.sort(x))
    check(la.median(la.diff(a)[:1]), np.median(steps[:1]))
    check(la.topk(a[3:], 1), x[-1:])


def test_slices_of_scans():
    x = RNG.integers(0, 9, (7, 6))
    a = la.from_array(x, chunks=(2, 3))
    check(a.cumsum(0)[::-2, 1], x.cumsum(0)[::-2, 1])
    check(a.cumsum(1)[3, -1], x.cumsum(1)[3, -1])
    check(a.cumsum(1).T[2:4], x.cumsum(1).T[2:4])


def test_a_scan_has_the_same_bits_on_all_schedulers():
    a = la.from_array(RNG.random(10_000), chunks=77)
    for method in ("sequential", "blelloch"):
        scan = la.cumsum(a, method=method)
        expected = scan.compute()
        np.testing.assert_array_equal(scan.compute(scheduler="threads"), expected)
    np.testing.assert_allclose(expected, np.cumsum(a.compute()))


def test_scan_by_an_unknown_method():
    with pytest.raises(ValueError, match="'sequential' or 'blelloch'; got 'quick'"):
        la.cumsum(la.ones(3), method="quick")


@needs("ravel")
def test_scan_of_all_elements():
    x = RNG.integers(0, 9, (5, 4))
    check(la.from_array(x, chunks=2).cumsum(), x.cumsum())


def test_scan_by_the_names_of_the_array_api():
    x = RNG.integers(0, 9, 7)
    a = la.from_array(x, chunks=2)
    check(np.cumulative_sum(a), np.cumulative_sum(x))
    with pytest.raises(ValueError, match="more than one dimension"):
        la.cumulative_prod(la.ones((2, 2)))


# -- order statistics ---------------------------------------------------------------------------


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


@settings(max_examples=60, deadline=None)
@given(arrays(dtypes=("f8", "i8")), st.data())
def test_sorting(pair, data):
    x, a = pair
    axis = axis_of(data, x, none=x.ndim == 1)
    check(np.sort(a, axis=axis), np.sort(x, axis=axis))
    check(np.argsort(a, axis=axis, stable=True), np.argsort(x, axis=axis, stable=True))


def test_partition():
    x = RNG.permutation(40).reshape(5, 8)
    a = la.from_array(x, chunks=3)
    check(np.partition(a, 3)[:, 3], np.sort(x)[:, 3])
    check(np.partition(a, [1, -2], axis=0)[[1][0]], np.sort(x, 0)[1])
    places = la.argpartition(a, 2).compute()
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1)[:, 2], np.sort(x)[:, 2])
    with pytest.raises(ValueError, match=r"kth\(=8\) out of bounds \(8\)"):
        la.partition(a, 8)


@settings(max_examples=60, deadline=None)
@given(arrays(least=1, dtypes=("i8", "f8"), nan=False), st.integers(1, 5), st.data())
def test_largest_and_smallest(pair, k, data):
    x, a = pair
    axis = axis_of(data, x, none=False)
    ascending = np.sort(x, axis=axis)
    smallest = np.take(ascending, range(min(k, x.shape[axis])), axis)
    largest = np.take(np.flip(ascending, axis), range(min(k, x.shape[axis])), axis)
    every = data.draw(st.sampled_from([None, 2, 3]))
    check(la.topk(a, k, axis, split_every=every), largest)
    check(la.topk(a, -k, axis), smallest)
    for sign, expected in ((1, largest), (-1, smallest)):
        places = la.argtopk(a, sign * k, axis, split_every=every).compute()
        np.testing.assert_array_equal(np.take_along_axis(x, places, axis), expected)


def test_none_of_the_largest():
    with pytest.raises(ValueError, match="k must be a positive number"):
        la.topk(la.ones(3), 0)


# -- histograms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins, limits", [
    (10, None), (5, (2, 7)), ([0, 1, 2.5, 7], None), (np.array([3, 3, 4]), None),
])
def test_histograms(dtype, density, bins, limits):
    if density and len(np.atleast_1d(bins)) == 3:
        bins = [3, 4, 5]
    x = (RNG.random((9, 7)) * 10).astype(dtype)
    a = la.from_array(x, chunks=(4, 3))
    for weights in (None, x * 0.5, x.astype(int)):
        counts, edges = np.histogram(a, bins, limits, density=density, weights=weights)
        expected = np.histogram(x, bins, limits, density=density, weights=weights)
        check(counts, expected[0], rtol=1e-6 if dtype == "f4" else 1e-12)
        check(edges, expected[1])
    check(np.histogram_bin_edges(a, bins, limits), np.histogram_bin_edges(x, bins, limits))


def test_histogram_of_little():
    for x in (np.ones(3), np.zeros(0)):
        found = la.histogram(la.from_array(x, chunks=-1), 4)
        for one, other in zip(found, np.histogram(x, 4), strict=True):
            check(one, other)


def test_histogram_with_lazy_edges():
    x = RNG.random(20)
    edges = la.linspace(0, 1, 5)
    counts, same = la.histogram(la.from_array(x, chunks=6), edges)
    check(counts, np.histogram(x, np.linspace(0, 1, 5))[0])
    assert same.expr is edges.expr


@pytest.mark.parametrize("bins, limits, error, words", [
    ("auto", None, TypeError, "look at all values"),
    (0, None, ValueError, "`bins` must be positive"),
    (3, (2, 1), ValueError, "max must be larger than min"),
    ([3, 1], None, ValueError, "`bins` must increase monotonically"),
])
def test_bins_that_are_none(bins, limits, error, words):
    with pytest.raises(error, match=words):
        la.histogram(la.ones(3), bins, limits)


def test_histogram_of_infinite_range():
    with pytest.raises(ValueError, match="is not finite"):
        la.histogram(la.from_array(np.array([1.0, np.inf])))[0].compute()


def test_histograms_in_two_and_more_dimensions():
    x, y, w = RNG.random((3, 50))
    a, b = la.from_array(x, chunks=20), la.from_array(y, chunks=17)
    for options in ({}, {"bins": 4}, {"bins": [3, [0, 0.2, 1]]}, {"bins": [0, 0.5, 1]},
                    {"density": True}, {"weights": w}, {"range": [[0, 0.5], [0.1, 0.9]]}):
        for one, other in zip(
            np.histogram2d(a, b, **options), np.histogram2d(x, y, **options), strict=True
        ):
            check_near(one, other)
    points = RNG.random((50, 3))
    found, edges = np.histogramdd(la.from_array(points, chunks=(7, 2)), bins=(2, 3, 4))
    expected, others = np.histogramdd(points, bins=(2, 3, 4))
    check(found, expected)
    for one, other in zip(edges, others, strict=True):
        check(one, other)
    with pytest.raises(ValueError, match="dimension of bins"):
        la.histogramdd((a, b), bins=(2, 3, 4))


def test_counts_of_integers():
    x = RNG.integers(0, 9, 30)
    a = la.from_array(x, chunks=7)
    check(np.bincount(a), np.bincount(x))
    check(np.bincount(a, minlength=20), np.bincount(x, minlength=20))
    check(la.bincount(a, weights=a * 0.5), np.bincount(x, weights=x * 0.5))
    check(la.bincount(a)[2:4], np.bincount(x)[2:4])
    assert la.bincount(a).shape == (None,)
    small = la.from_array(x.astype("u1"), chunks=7)
    assert la.bincount(small, minlength=256).shape == (256,)
    check(la.bincount(small, minlength=256), np.bincount(x, minlength=256))


@pytest.mark.parametrize("x, options, error, words", [
    (np.ones(3), {}, TypeError, "Cannot cast"),
    (np.ones((2, 2), int), {}, ValueError, "object too deep"),
    (np.ones(3, int), {"weights": [1.0]}, ValueError, "same length"),
    (np.ones(3, int), {"minlength": -1}, ValueError, "must not be negative"),
    (np.array([-1]), {}, ValueError, "no negative elements"),
])
def test_counts_of_what_cannot_be_counted(x, options, error, words):
    with pytest.raises(error, match=words):
        la.bincount(la.from_array(x), **options).compute()


def test_tables():
    x = RNG.random((5, 6)) * 4
    a = la.from_array(x, chunks=2)
    check(np.digitize(a, [1, 2, 3]), np.digitize(x, [1, 2, 3]))
    check(np.digitize(a, [3, 2, 1], right=True), np.digitize(x, [3, 2, 1], right=True))
    check(np.interp(a, [1, 2, 3], la.asarray([5, 1, 2])), np.interp(x, [1, 2, 3], [5, 1, 2]))
    check(np.interp(a, [1, 2], [0, 1], left=-1, period=3),
          np.interp(x, [1, 2], [0, 1], left=-1, period=3))
    with pytest.raises(ValueError, match="monotonically"):
        la.digitize(a, [1, 3, 2])


# -- differences --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(arrays(), st.integers(0, 3), st.data())
def test_differences(pair, n, data):
    x, a = pair
    axis = axis_of(data, x, none=False)
    check(np.diff(a, n=n, axis=axis), np.diff(x, n=n, axis=axis))


def test_differences_keep_the_chunks():
    x = la.from_array(RNG.random(100), chunks=10) * 2
    assert la.diff(x, 3).numblocks == (10,)
    with pytest.raises(ValueError, match="order must be non-negative but got -1"):
        la.diff(x, -1)


@needs("concatenate")
def test_differences_with_ends():
    x = RNG.random((4, 5))
    a = la.from_array(x, chunks=2)
    check(np.diff(a, prepend=0.0, append=x[:, :2]), np.diff(x, prepend=0.0, append=x[:, :2]))
    flat = la.from_array(x[0], chunks=2)
    check(np.ediff1d(flat), np.ediff1d(x[0]))
    check(la.ediff1d(flat, [7.0], [1.0, 2]), np.ediff1d(x[0], [7.0], [1.0, 2]))
    with pytest.raises(TypeError, match="`to_end` must be compatible"):
        la.ediff1d(la.arange(5), to_end=1.5)


@needs("concatenate")
@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spaces, axis", [
    ((), None), ((2.5,), None), ((2, [0, 1, 3, 4, 7]), None), (([0, 1, 3, 4, 7],), 1),
    (([0, 2, 4, 6],), 0), ((), (1, 0)),
])
def test_slopes(edge_order, spaces, axis):
    x = RNG.random((4, 5))
    a = la.from_array(x, chunks=(3, 2))
    found = np.gradient(a, *spaces, axis=axis, edge_order=edge_order)
    expected = np.gradient(x, *spaces, axis=axis, edge_order=edge_order)
    if not isinstance(expected, tuple | list):
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        check_near(one, other)
        assert one.chunks == a.chunks


@needs("concatenate")
@pytest.mark.parametrize("x, spaces, error, words", [
    (np.ones(1), (), ValueError, "too small to calculate"),
    (np.ones((2, 2)), (1, 2, 3), TypeError, "invalid number of arguments"),
    (np.ones(3), ([1, 2],), ValueError, "distances must match"),
])
def test_slopes_that_are_none(x, spaces, error, words):
    with pytest.raises(error, match=words):
        la.gradient(la.from_array(x), *spaces)


def test_areas():
    x = RNG.random((4, 5))
    a = la.from_array(x, chunks=2)
    places = np.array([0, 1, 3, 4, 7.0])
    check_near(la.trapezoid(a), np.trapezoid(x))
    check_near(np.trapezoid(a, dx=2, axis=0), np.trapezoid(x, dx=2, axis=0))
    check_near(np.trapezoid(a, places), np.trapezoid(x, places))
    check_near(np.trapezoid(a, a * 2, axis=0), np.trapezoid(x, x * 2, axis=0))


# -- how things vary together, and equality -----------------------------------------------------


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


@needs("concatenate")
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


# -- what is taken of results -------------------------------------------------------------------

X = np.random.default_rng(3).random((5, 6, 4))
A = la.from_array(X, chunks=(2, (3, 0, 3), 2))

RESULTS = {
    "argmax": (A.argmax(1), X.argmax(1)),
    "argmax kept": (A.argmax(0, keepdims=True), X.argmax(0, keepdims=True)),
    "cumsum": (A.cumsum(2), X.cumsum(2)),
    "quantile": (la.quantile(A, [0.2, 0.4], 1), np.quantile(X, [0.2, 0.4], 1)),
    "sort": (la.sort(A, 0), np.sort(X, 0)),
    "topk": (la.topk(A, 2, 1), -np.sort(-X, 1)[:, :2]),
    "diff": (la.diff(A, axis=1), np.diff(X, axis=1)),
    "digitize": (la.digitize(A, [0.3, 0.6]), np.digitize(X, [0.3, 0.6])),
    "tensordot": (la.tensordot(A, A, ((1,), (1,))), np.tensordot(X, X, ((1,), (1,)))),
    "matmul": (A[:, :4] @ A[:, 1:5], X[:, :4] @ X[:, 1:5]),
    "fmax": (np.fmax.reduce(A, 2), X.max(2)),
}


@st.composite
def index_of(draw, shape):
    """Integers, slices with any step, new axes."""
    found = []
    for n in shape:
        if draw(st.booleans()):
            found.append(None)
        found.append(draw(st.one_of(
            st.just(slice(None)), st.slices(n),
            st.integers(-n, n - 1) if n else st.just(slice(None)),
        )))
    return tuple(found)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(sorted(RESULTS)), st.data())
def test_what_is_taken_of_results(name, data):
    found, expected = RESULTS[name]
    key = data.draw(index_of(expected.shape))
    order = data.draw(st.permutations(range(expected[key].ndim)))
    check_near(found[key].transpose(order), expected[key].transpose(order))
    key = data.draw(index_of(expected.shape))
    check_near((found + 1)[key], (expected + 1)[key])


UNKNOWN = {
    "argmax": lambda x: np.argmax(x), "cumsum": lambda x: np.cumsum(x, axis=0),
    "median": lambda x: np.median(x), "diff": lambda x: np.diff(x), "sort": lambda x: np.sort(x),
    "histogram": lambda x: np.histogram(x, 3)[0], "bincount": lambda x: np.bincount(x),
    "digitize": lambda x: np.digitize(x, [2, 4]), "equal": lambda x: np.array_equal(x, x),
    "xor": lambda x: np.bitwise_xor.reduce(x), "trapezoid": lambda x: np.trapezoid(x),
    "covariance": lambda x: np.cov(x),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_lengths_that_are_not_known(name):
    x = np.bincount([1, 5, 5, 3, 9, 9, 9])
    a = la.bincount(la.from_array(np.array([1, 5, 5, 3, 9, 9, 9]), chunks=3))
    assert a.shape == (None,)
    found = UNKNOWN[name](a).compute()
    np.testing.assert_allclose(found, UNKNOWN[name](x))


def test_methods():
    assert RESULTS["topk"][0].shape == A.topk(2, 1).shape
    check(A.argsort(1), X.argsort(1))
    check(A.argtopk(1, 0)[0], X.argmax(0))
    check_near(A.cumprod(1), X.cumprod(1))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8"])
def test_sums_of_a_short_type(dtype):
    x = RNG.integers(0, 100, (40, 50)).astype(dtype)
    for chunks in (7, -1):
        a = la.from_array(x, chunks=chunks)
        check(a.sum(dtype=dtype), x.sum(dtype=dtype))
        check(a.prod(axis=0, dtype=dtype), x.prod(axis=0, dtype=dtype))


def test_on_processes():
    x = RNG.random((6, 5))
    a = la.from_array(x, chunks=2)
    wanted = [
        a.argmax(0), a.cumsum(1), la.median(a, 0), la.histogram(a, 3)[0], la.topk(a, 2),
        la.bincount(la.arange(5, chunks=2)),
    ]
    expected = [
        x.argmax(0), x.cumsum(1), np.median(x, 0), np.histogram(x, 3)[0],
        -np.sort(-x)[:, :2], np.bincount(range(5)),
    ]
    import lazyflow

    found = lazyflow.compute(*wanted, scheduler="processes")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other)


WHERE_OF = ["sum", "prod", "mean", "std", "var", "any", "all", "nansum", "nanmean", "nanvar"]


@pytest.mark.parametrize("name", [*WHERE_OF, "max", "min", "nanmax"])
@pytest.mark.parametrize(("where", "error"), [
    (np.ones((4, 2, 3), bool), ValueError), (np.ones((1, 2, 3), bool), ValueError),
    (np.ones((5, 3), bool), ValueError), (np.ones((2, 3), int), TypeError),
    ([[True, True, True], [True, False, True]], None), (True, None),
])
def test_what_counts_fits_what_is_reduced(name, where, error):
    a = np.arange(6.0).reshape(2, 3)
    x = la.from_array(a, chunks=2)
    options = {"initial": 0.0} if name in ("max", "min", "nanmax") else {}
    if error is None:
        expected = getattr(np, name)(a, axis=0, where=where, **options)
        check(getattr(la, name)(x, axis=0, where=where, **options), expected)
        return
    with pytest.raises(error):
        getattr(np, name)(a, where=where, **options)
    with pytest.raises(error, match="where="):
        getattr(la, name)(x, where=where, **options)
    if not name.startswith("nan") and name in ("sum", "max"):
        with pytest.raises(error, match="where="):
            getattr(la, name)(x, axis=0, where=la.asarray(where), **options)


@pytest.mark.parametrize("ufunc", [np.logical_and, np.logical_or, np.logical_xor, np.add])
@pytest.mark.parametrize("initial", [True, False, 0, 3])
@pytest.mark.parametrize("options", [{}, {"axis": None, "keepdims": True}, {"axis": 1}])
def test_reductions_by_ufuncs_begin_with_a_value(ufunc, initial, options):
    for a in np.array([[True, False], [True, True], [True, False]]), np.zeros((0, 2), int):
        x = la.from_array(a, chunks=2)
        check(ufunc.reduce(x, initial=initial, **options),
              ufunc.reduce(a, initial=initial, **options))


@pytest.mark.parametrize("dtype", ["f8", "c16", "i4"])
def test_covariances_of_no_variables_are_floats(dtype):
    x = np.zeros((0, 3), dtype)
    check(la.cov(la.from_array(x)), np.cov(x))
    check(la.cov(la.from_array(x), la.ones((2, 3))), np.cov(x, np.ones((2, 3))))
