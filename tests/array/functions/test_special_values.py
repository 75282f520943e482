"""NaN, infinities, zeros of both signs, overflow: where order or type decides, NumPy's does."""

import math

import numpy as np
import pytest
from array_checks import check, raised

import lazyflow.array as la
from lazyflow import config

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0]
PARTS = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL])
QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def complex_numbers(rng, shape, share):
    """Small numbers, a share of them with infinite parts or NaN."""
    usual = rng.integers(-3, 3, shape)
    return np.where(rng.random(shape) < share, rng.choice(PARTS, shape), usual)


# -- reductions ---------------------------------------------------------------------------------


@QUIET
@pytest.mark.parametrize("name", ["min", "max", "nanmin", "nanmax", "ptp", "prod", "nanprod"])
def test_parts_of_complex_numbers_are_those_of_numpy(name):
    rng = np.random.default_rng(3)
    for shape, axis, chunks in [
        (60, None, -1), (60, None, 7), ((4, 5, 6), None, 3), ((4, 5, 6), (0, 2), 2),
        ((4, 5, 6), -1, 4),
    ]:
        for share in (0.05, 1):
            a = complex_numbers(rng, shape, share).astype("c8" if share == 1 else "c16")
            x = la.from_array(a, chunks=chunks)
            check(getattr(la, name)(x, axis=axis), getattr(np, name)(a, axis=axis))


@QUIET
@pytest.mark.parametrize("name", ["min", "max", "nanmin", "nanmax", "prod", "nanprod"])
@pytest.mark.parametrize("dtype", ["c16", "f8", "f2"])
def test_start_and_choice_of_reductions_with_nan(name, dtype):
    rng = np.random.default_rng(4)
    a = rng.choice([*SPECIAL[:3], 1.0, 2.0], (4, 6)).astype(dtype)
    mask = rng.random(a.shape) < 0.6
    mask[1] = False
    x = la.from_array(a, chunks=(2, 3))
    for start in (2, -np.inf, np.nan):
        for options in ({"initial": start}, {"initial": start, "where": mask}):
            found = getattr(la, name)(x, axis=1, **options)
            check(found, getattr(np, name)(a, axis=1, **options))


def test_the_largest_number_of_what_a_mask_chooses_needs_a_start():
    a = np.array([1.0, np.nan, 2.0])
    mask = np.array([True, False, True])
    for name in ("nanmin", "nanmax", "max"):
        wanted = raised(lambda name=name: getattr(np, name)(a, where=mask))
        x = la.from_array(a, chunks=2)
        assert raised(lambda name=name, x=x: getattr(la, name)(x, where=mask)) == wanted


@QUIET
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_spreads_overflow_in_the_type_that_is_asked_for(name):
    a = np.array([60000, -60000, 1, 2, 60000.0])
    for given, options in [(a, {"dtype": "f2"}), (a.astype("f2"), {}), (a * 1e15, {"dtype": "f4"})]:
        found = getattr(la, name)(la.from_array(given, chunks=2), **options)
        check(found, getattr(np, name)(given, **options))
    assert found.compute() == np.inf


@pytest.mark.parametrize("ddof", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_spreads_without_degrees_of_freedom_are_nan(name, ddof, noticed):
    a = np.array([[1.0, np.nan, np.nan], [np.nan] * 3, [1.0, 2.0, 3.0], [1.0, 2.0, np.nan]])
    x = la.from_array(a, chunks=2)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0"):
        wanted = getattr(np, name)(a, axis=1, ddof=ddof)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0"):
        check(getattr(la, name)(x, axis=1, ddof=ddof), wanted)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_spreads_of_a_complex_type():
    a = np.arange(5.0)
    for name in ("var", "std", "nanvar", "nanstd"):
        check(getattr(la, name)(la.from_array(a, chunks=2), dtype="c16"),
              getattr(np, name)(a, dtype="c16"))


@QUIET
def test_spreads_of_nothing_are_nan_in_both_parts():
    a, none = np.arange(4), np.zeros(4, bool)
    for name in ("var", "nanvar"):
        x = la.from_array(a, chunks=2)
        check(getattr(la, name)(x, dtype="c16", where=none),
                    getattr(np, name)(a, dtype="c16", where=none))


def test_sums_over_no_axes_have_no_negative_zeros():
    a = np.array([-0.0, complex(1, -0.0)])
    for name in ("sum", "nansum"):
        x = la.from_array(a, chunks=1)
        check(getattr(la, name)(x, axis=()), getattr(np, name)(a, axis=()))
        check(getattr(la, name)(x[0]), getattr(np, name)(a[0]))


def test_slopes_of_booleans_are_refused():
    a = np.array([True, False, True])
    kind, _ = raised(lambda: np.gradient(a))
    assert raised(lambda: la.gradient(la.from_array(a)))[0] is kind


def test_means_of_inexact_numbers_have_no_whole_type():
    a = np.array([1.5, np.nan])
    for name in ("nanmean", "nanvar", "nanstd"):
        wanted = raised(lambda name=name: getattr(np, name)(a, dtype="i8"))
        x = la.from_array(a)
        assert raised(lambda name=name, x=x: getattr(la, name)(x, dtype="i8")) == wanted


# -- histograms ---------------------------------------------------------------------------------


@QUIET
@pytest.mark.parametrize("bins", [2, [0, 3.5, 8]])
@pytest.mark.parametrize("weights", [
    np.array([100, 100, 100, 1, 1, 1, 1], "i1"), np.array([2**31 - 1, 5, 1, 1, 1, 1, 1], "i4"),
    np.array([2**62, 2**62, 2**62, 1, 1, 1, 1]), np.array([2**63, 2**63, 1, 1, 1, 1, 1], "u8"),
    np.array([1, np.nan, 1, 2, 3, 4, 5], "g"), np.array([np.nan, 1, 1, 2, 3, 4, 5], "f4"),
    np.array([6e4, 6e4, 1, 2, 3, 4, 5], "f2"), np.array([np.nan, 1, 1j, 2, 3, 4, 5]),
    np.array([1, 2, 3, 4, 5, 6, 7], ">f8"),
], ids=lambda w: w.dtype.str if isinstance(w, np.ndarray) else None)
def test_weights_that_overflow_or_are_nan(weights, bins):
    a = np.arange(1.0, 8)
    for density in (None, True):
        wanted = np.histogram(a, bins, weights=weights, density=density)
        for chunks in (-1, 2):
            x, w = la.from_array(a, chunks=chunks), la.from_array(weights, chunks=chunks)
            found = la.histogram(x, bins, weights=w, density=density)
            check(found[1], wanted[1])
            if density:
                np.testing.assert_allclose(found[0].compute(), wanted[0], rtol=1e-15)
            else:
                check(found[0], wanted[0])


@pytest.mark.parametrize("dtype", ["f2", "f4", "g", "c8", "c16", "i1", "?", ">f4", "O"])
def test_histograms_of_several_axes_have_the_edges_of_numpy(dtype):
    a = np.array([1, 2, 3, 4, 5, 6, 7]).astype(dtype)
    b = np.arange(7.0)[::-1]
    x, y = la.from_array(a, chunks=3), la.from_array(b, chunks=2)
    for limits in (None, [(0, 8), (1, 7)]):
        found, wanted = la.histogram2d(x, y, 3, limits), np.histogram2d(a, b, 3, limits)
        for each, other in zip(found, wanted, strict=True):
            check(each, other)
        found, wanted = la.histogramdd([x, x], 2, limits), np.histogramdd([a, a], 2, limits)
        for each, other in zip([found[0], *found[1]], [wanted[0], *wanted[1]], strict=True):
            check(each, other)


def test_weights_of_several_axes_must_be_doubles():
    x = np.arange(3.0)
    weights = np.ones(3, "c16")
    wanted = raised(lambda: np.histogramdd([x, x], 2, weights=weights))
    assert raised(lambda: la.histogramdd([la.from_array(x)] * 2, 2, weights=weights)) == wanted


def test_counts_of_nothing_are_whole_numbers():
    x = np.zeros(0, "i8")
    for least in (0, 3):
        for weights in (np.zeros(0), np.zeros(2, "u1"), np.zeros(0, "M8[s]")):
            found = la.bincount(la.from_array(x), weights, least)
            check(found, np.bincount(x, weights, least))


@pytest.mark.parametrize("dtype", ["?", "f8", "g", "c16", "M8[s]", "m8[s]"])
@pytest.mark.parametrize("density", [False, True])
def test_histograms_of_nothing_take_any_weights(dtype, density):
    x, weights, edges = np.zeros(0), np.zeros(0, dtype), [1.0, 2, 5]
    with np.errstate(all="ignore"):
        for call in (lambda m, x: m.histogram(x, edges, None, density, weights)[0],
                     lambda m, x: m.histogram2d(x, x, edges, None, density, weights)[0]):
            check(call(la, la.from_array(x)), call(np, x))


def test_bins_may_be_an_array_without_axes_or_none_at_all():
    a = np.arange(6.0)
    x = la.from_array(a, chunks=4)
    check(la.histogram2d(x, x, np.array(3))[0], np.histogram2d(a, a, np.array(3))[0])
    for density in (None, True):
        check(la.histogram(x, [], density=density)[0], np.histogram(a, [], density=density)[0])


def test_numbers_that_cannot_be_counted_are_told_before_weights_of_another_length():
    wanted = raised(lambda: np.bincount(np.zeros(3), np.zeros(2)))
    assert raised(lambda: la.bincount(la.from_array(np.zeros(3)), np.zeros(2))) == wanted


# -- one of two results -------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", ["numpy", "native"])
@pytest.mark.parametrize("ufunc", [np.divmod, np.modf, np.frexp], ids=lambda ufunc: ufunc.__name__)
def test_one_result_of_a_ufunc_of_two_in_large_blocks(ufunc, kernels):
    a = np.random.default_rng(0).standard_normal(100_000) * 100
    given = (2.5,) if ufunc is np.divmod else ()
    x = la.from_array(a, chunks=-1)
    with config.set(kernels=kernels):
        for number in (0, 1):
            wanted = ufunc(a, *given)[number] + 1
            check(ufunc(x, *given)[number] + 1, wanted)
            check(la.max(ufunc(x, *given)[number]), wanted.max() - 1)


# -- what the list of exceptions promises -------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("layout", ["rows", "every other", "columns"])
def test_sums_and_spreads_are_within_their_bounds(dtype, layout):
    rng = np.random.default_rng(5)
    eps = float(np.finfo(dtype).eps)
    for scale, shift in [(1.0, 0.0), (1e-3, 1e3), (1e3, 1.0), (1.0, 1e6 * (dtype == "f8"))]:
        a = (rng.standard_normal((151, 130)) * scale + shift).astype(dtype)
        a = {"rows": a, "every other": np.repeat(a, 2, 1)[:, ::2], "columns": a.T}[layout]
        x = la.from_array(a, chunks=(40, 33))
        exact = [float(v) for v in a.flat]
        size, total, weight = a.size, math.fsum(exact), math.fsum(map(abs, exact))
        mean = total / size
        spread = math.fsum((v - mean) ** 2 for v in exact) / size
        ratio = 8 + abs(mean) / spread**0.5
        for name, wanted, bound in [
            ("sum", total, 4 * weight), ("nansum", total, 4 * weight),
            ("mean", mean, 4 * weight / size), ("nanmean", mean, 4 * weight / size),
            ("var", spread, ratio * spread), ("nanvar", spread, ratio * spread),
            ("std", spread**0.5, ratio * spread**0.5),
        ]:
            assert abs(float(getattr(la, name)(x).compute()) - wanted) <= eps * bound, name


def test_zeros_of_both_signs_are_different_replacements():
    x = la.from_array(np.array([np.nan, 1.0]))
    plus, minus = la.compute(la.nan_to_num(x, nan=0.0), la.nan_to_num(x, nan=-0.0))
    assert not np.signbit(plus[0]) and np.signbit(minus[0])
