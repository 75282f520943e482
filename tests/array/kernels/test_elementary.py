"""Elementary functions: near the true value, special values and reports as NumPy's, one answer."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from array_checks import same_values

import lazyflow.array as la
from lazyflow import config
from lazyflow.array.kernels import run
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.compiler import wait_compiled
from lazyflow.array.kernels.native.elementary import formulas, ufuncs
from lazyflow.array.kernels.native.elementary.formulas import FORMULAS
from lazyflow.recent import Recent

UFUNCS = sorted(FORMULAS, key=lambda f: f.__name__)
FLOATS = [np.dtype("f8"), np.dtype("f4")]
CASES = [
    pytest.param(ufunc, dtype, id=f"{ufunc.__name__} {dtype}")
    for ufunc in UFUNCS
    for dtype in FLOATS
    if f"{dtype.char * ufunc.nin}->{dtype.char}" in ufunc.types
]
EXACT = [np.floor_divide, np.fmod, np.remainder]
SPECIAL = [
    *(0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 1e-310, -1e-310),
    *(5e-324, 1e-40, -1e-40, 1e300, -1e300, 1e22, 1e10, -1e10, 710.0, -745.0, 88.8, -104.0),
    *(1.7e308, -1.7e308, -np.nan),
]


@pytest.fixture(autouse=True)
def folder(tmp_path_factory):
    with config.set(kernel_cache=str(tmp_path_factory.getbasetemp() / "kernels")):
        yield
    assert wait_compiled(60)


def values(ufunc, dtype, count=100_000):
    """Return operands all over the numbers, and near those where functions are sensitive."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    bits = rng.integers(0, 1 << 63, count, dtype="u8") >> (0 if dtype == "f8" else 32)
    signs = rng.choice([-1.0, 1.0], (6, count))
    parts = [
        bits.astype(f"u{dtype.itemsize}").view(dtype),
        rng.uniform(-1, 1, count),
        rng.uniform(-20, 20, count),
        signs[0] * 2.0 ** rng.uniform(-30, 12, count),
        1 + rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-20, -1, count),
        signs[1] * rng.integers(1, 100, count) * np.pi / 4 * (1 + rng.normal(size=count) * 1e-9),
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate([np.where(np.isnan(p), 1, p).astype(dtype) for p in parts])
    assert info.dtype == dtype
    return [x, rng.permutation(x)][: ufunc.nin]


def own(ufunc, dtype):
    """Return the ufunc that arrays go through."""
    with config.set(kernel_cache=False):
        made = ufuncs.own_ufunc(ufunc, (dtype,) * ufunc.nargs, ufunc.__name__)
    assert made is not ufunc
    return made


def distance(found, ufunc, given):
    """Return how far numbers are from the true values, in units in the last place."""
    with np.errstate(all="ignore"):
        if ufunc in EXACT:
            same_values(found, ufunc(*given))
            return 0
        exact = ufunc(*[x.astype("g") for x in given])
        true = exact.astype(found.dtype)
        assert np.array_equal(np.isnan(found), np.isnan(true))
        size = abs(true)
        if ufunc is np.logaddexp:  # of operands that cancel there are fewer digits
            size = np.maximum(size, np.minimum(0.125, np.max(np.abs(given), axis=0)))
        error = abs(found.astype("g") - exact) / np.spacing(size.astype(found.dtype)).astype("g")
    infinite = np.isinf(found) | np.isinf(true)
    near = np.isfinite(true) | (abs(exact) > np.finfo(found.dtype).max)
    assert np.all((found == true)[infinite] | near[infinite])
    return np.max(error[~infinite & ~np.isnan(true)])


@pytest.mark.parametrize(("ufunc", "dtype"), CASES)
@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_functions_are_within_a_unit_in_the_last_place(ufunc, dtype, count):
    given = values(ufunc, dtype, count)
    with np.errstate(all="ignore"):
        found = own(ufunc, dtype)(*given)
    assert distance(found, ufunc, given) < 0.95


@pytest.mark.parametrize(("ufunc", "dtype"), CASES)
def test_processors_that_round_twice_are_as_near(ufunc, dtype, monkeypatch):
    monkeypatch.setattr(formulas, "multiplies_and_adds", lambda: False)
    with config.set(kernel_cache=False):
        made = ufuncs._make(ufunc, (dtype,) * ufunc.nargs, ufunc.__name__)
    given = values(ufunc, dtype, 20_000)
    with np.errstate(all="ignore"):
        found = made(*given)
    assert distance(found, ufunc, given) < 0.95


@pytest.mark.parametrize(("ufunc", "dtype"), CASES)
def test_special_values_and_reports_are_numpys(ufunc, dtype):
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(dtype)
    made = own(ufunc, dtype)
    for given in np.array(np.meshgrid(*[special] * ufunc.nin)).reshape(ufunc.nin, -1).T:
        said = []
        for each in (ufunc, made):
            with np.errstate(all="warn", under="ignore"), warnings.catch_warnings(record=True) as w:
                warnings.simplefilter("always")
                found = each(*[np.full(5, x) for x in given])  # NumPy's power of one is another
                said.append((found[3], [str(x.message) for x in w]))
        (wanted, wanted_words), (found, words) = said
        # NumPy's loops for two numbers differ where one is infinite
        if ufunc.nin == 1 or not np.isinf(given).any():
            assert words == wanted_words, given
        if np.isfinite(wanted) and wanted:
            assert abs(found - wanted) <= 4 * np.spacing(abs(wanted)), given
        else:
            same_values(found, wanted)


@pytest.mark.parametrize(("ufunc", "dtype"), [
    case for case in CASES
    if case.values[0] not in (np.floor_divide, np.fmod, np.hypot, np.remainder)  # their ratios do
])
def test_no_underflow_is_reported_of_results_that_are_normal(ufunc, dtype):
    given, made = values(ufunc, dtype, 20_000), own(ufunc, dtype)
    with np.errstate(all="ignore"):
        found = made(*given)
        normal = np.isfinite(found) & (abs(found) >= 2 * np.finfo(dtype).tiny)
        with np.errstate(under="raise"):
            made(*[x[normal] for x in given])


def ways(ufunc, x, y):
    """Return what a function gives of whole arrays, in kernels, in small and odd pieces."""
    given = [la.from_array(a, chunks=30_000) for a in (x, y)][: ufunc.nin]
    found = []
    with np.errstate(all="ignore"):
        for kernels in ("numpy", "native", "auto"):
            with config.set(kernels=kernels):
                found.append(ufunc(*given).compute())
        found.append(ufunc(*[a.rechunk(77) for a in given]).compute())
        found.append(-(-ufunc(*given)).compute(scheduler="processes"))
        turned = [la.from_array(a[::-1].copy(), chunks=9000)[::-1] for a in (x, y)][: ufunc.nin]
        found.append(ufunc(*turned).compute())
    return found


@pytest.mark.parametrize(("ufunc", "dtype"), CASES)
def test_all_ways_give_the_same_bits(ufunc, dtype):
    x, y = (values(ufunc, dtype, 20_000) * 2)[:2]
    first, *others = ways(ufunc, x[:50_001], y[:50_001])
    for other in others:
        same_values(other, first)


@pytest.mark.parametrize(
    ("exponent", "ufunc"), [(2, np.square), (2.0, np.square), (0.5, np.sqrt), (-1, np.reciprocal)]
)
def test_powers_of_one_exponent_are_those_of_its_own_function(exponent, ufunc):
    x = np.random.default_rng(0).uniform(0.1, 5, 100_000)
    same_values(np.power(la.from_array(x), exponent).compute(), ufunc(x))
    same_values(np.power(x, exponent), ufunc(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_small_whole_powers_are_right_beside_others(dtype):
    x = values(np.exp, dtype, 20_000)[0]
    y = np.random.default_rng(0).choice(np.array([3.0, 4.0, 2.5, -3.0], dtype), x.size)
    with np.errstate(all="ignore"):
        assert distance(own(np.power, dtype)(x, y), np.power, [x, y]) < 0.95
        for n in (3, 4):
            cubes = own(np.power, dtype)(x, dtype.type(n))
            assert distance(cubes, np.power, [x, np.full_like(x, n)]) < 0.95
            beside = own(np.power, dtype)(x, np.where(y == n, y, dtype.type(n) + 1))
            same_values(beside[y == n], cubes[y == n])
            same_values((la.from_array(x, chunks=9000) ** n).compute(), cubes)


@pytest.mark.parametrize("ufunc", [u for u in UFUNCS if u.nin == 2], ids=lambda f: f.__name__)
def test_one_number_for_all_elements_gives_the_same_bits(ufunc):
    x, y = values(ufunc, FLOATS[0], 100)
    made = own(ufunc, FLOATS[0])
    with np.errstate(all="ignore"):
        for one in y[:50]:
            same_values(made(x, one), made(x, np.full_like(x, one)))
            same_values(made(one, x[::3]), made(np.full_like(x, one), x)[::3])


def test_numpys_functions_are_used_where_they_are_asked_for():
    x = np.linspace(0.1, 10, 100_000)
    with config.set(math="numpy"):
        for ufunc in UFUNCS:
            given = [x, x[::-1].copy()][: ufunc.nin]
            same_values(ufunc(*map(la.from_array, given)).compute(), ufunc(*given))


def test_numpys_functions_are_used_where_nothing_can_be_compiled(monkeypatch):
    monkeypatch.setattr(ufuncs, "_made", {})
    monkeypatch.setattr(run, "_known", Recent(9))
    monkeypatch.setattr(compiler, "unavailable", lambda: "a reason")
    x = np.linspace(0.1, 10, 1000)
    same_values(la.exp(la.from_array(x)).compute(), np.exp(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kernels", ["native", "numpy"])
def test_whole_quotients_are_numpys(dtype, kernels):
    rng = np.random.default_rng(0)
    b = rng.choice(values(np.exp, dtype, 20_000)[0], 200_000)
    with np.errstate(all="ignore"):
        near = b * rng.integers(-1000, 1000, b.size).astype(dtype)  # the quotient is nearly whole
    for a in rng.permutation(b), near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf):
        with config.set(kernels=kernels), np.errstate(all="ignore"):
            x, y = la.from_array(a.astype(dtype)), la.from_array(b)
            found = *la.divmod(x, y), x // y, la.divmod(x, y)[1] + x % y, np.fmod(x, y)
            wanted = *np.divmod(a, b), a // b, a % b + a % b, np.fmod(a, b)
            for each, true in zip(found, wanted, strict=True):
                same_values(each.compute(), true)


def test_math_is_one_of_two():
    with pytest.raises(ValueError, match='math must be "own" or "numpy"; got 3'):
        config.set(math=3)


@pytest.mark.slow
@pytest.mark.parametrize("ufunc", [f for f in UFUNCS if f.nin == 1], ids=lambda f: f.__name__)
def test_every_number_of_single_precision(ufunc):
    with ThreadPoolExecutor(2) as pool:  # NumPy's functions and kernels let go of the lock
        for wrong in pool.map(partial(_wrong_floats, ufunc), range(0, 1 << 32, 1 << 24)):
            assert not len(wrong), wrong[:3]


def _wrong_floats(ufunc, low, step=1 << 16):
    """Return which of 2^24 bit patterns from `low` on are not within 1 ulp."""
    made, wrong = own(ufunc, np.dtype("f4")), []
    with np.errstate(all="ignore"):
        for first in range(low, low + (1 << 24), step):
            x = np.arange(first, first + step, dtype="u4").view("f4")
            found, true = made(x), ufunc(x.astype("f8"))
            differ = found != true.astype("f4")  # NaN, or not rounded to the nearest
            x, found, true = x[differ], found[differ], true[differ]
            fine = np.isnan(found) & np.isnan(true)
            fine |= abs(found - true) < np.spacing(abs(true.astype("f4")))
            wrong.append(x[~fine])
    return np.concatenate(wrong)
