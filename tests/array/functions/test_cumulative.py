"""Cumulative sums and products, against NumPy."""

import contextlib

import numpy as np
import pytest
from array_checks import check
from array_strategies import arrays, axis_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow import config

RNG = np.random.default_rng(7)

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


KERNELS = ["numpy", "native"]
USES = {
    "max": lambda xp, s, x: s.max(axis=0),
    "both axes": lambda xp, s, x: (s * 2 + 1).sum(),
    "moments": lambda xp, s, x: s.std(axis=1),
    "two readers": lambda xp, s, x: s / s.max(),
    "with what it reads": lambda xp, s, x: s - x,
    "diff": lambda xp, s, x: xp.diff(s, axis=0),
    "twice": lambda xp, s, x: s.cumsum(1).cumsum(0),
    "of a sum": lambda xp, s, x: (s - s.mean(axis=0)).cumsum(0),
    "kept and reduced": lambda xp, s, x: xp.concatenate([s, s.sum(axis=0, keepdims=True)]),
    "turned": lambda xp, s, x: (s.T + x.T)[1:, ::-2],
    "mean of a column": lambda xp, s, x: s[:, 1].mean(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("name", "kernels"), [
    *((name, kernels) for name in ("cumsum", "cumprod", "maximum") for kernels in KERNELS),
    ("hypot", "auto"),
])
def test_scans_are_fused_with_what_reads_them(name, use, kernels):
    """Whatever the chunks, and those of the other operands, are; the array in either order."""
    x = RNG.random((20, 9)) + 0.5

    def scanned(xp, x, axis):
        if name.startswith("cum"):
            return getattr(xp, name)(x, axis=axis)
        return getattr(np, name).accumulate(x, axis=axis)

    with config.set(kernels=kernels):
        for order, chunks in ("C", -1), ("F", -1), ("F", (7, 9)), ("C", (20, 4)), ("C", 3):
            a = la.from_array(np.asarray(x, order=order), chunks=chunks)
            other = la.from_array(x, chunks=(11, 5))
            for axis in (0, 1):
                wanted = USES[use](np, scanned(np, x * 2, axis), x)
                found = USES[use](la, scanned(la, a * 2, axis), other)
                size = np.abs(scanned(np, x * 2, axis)).sum()
                np.testing.assert_allclose(found.compute(), wanted, atol=1e-12 * size)


def test_sums_of_what_is_not_negative_never_fall():
    """Each block goes on with the bits that the one before it ends with."""
    x = RNG.random(100_000)
    for chunks in (-1, 99, 1000, 33_333):
        assert (np.diff(la.cumsum(la.from_array(x, chunks=chunks)).compute()) >= 0).all()


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


def test_scan_of_all_elements():
    x = RNG.integers(0, 9, (5, 4))
    check(la.from_array(x, chunks=2).cumsum(), x.cumsum())


def test_scan_by_the_names_of_the_array_api():
    x = RNG.integers(0, 9, 7)
    a = la.from_array(x, chunks=2)
    check(np.cumulative_sum(a), np.cumulative_sum(x))
    with pytest.raises(ValueError, match="more than one dimension"):
        la.cumulative_prod(la.ones((2, 2)))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_scans_of_one_number(name):
    a = np.asarray(3)
    for options in ({}, {"axis": 0}, {"axis": -1, "include_initial": True}, {"dtype": "f4"}):
        check(getattr(np, name)(la.asarray(3), **options), getattr(np, name)(a, **options))
