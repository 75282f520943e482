"""Functions of single elements, missing values and choices by conditions, against NumPy."""

import numpy as np
import pytest
from array_checks import check, told_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow import config

FLOATS = np.array([[-2.5, -0.0, 0.0, np.inf], [np.nan, -np.inf, 1.5, 3.0]])

INTS = np.arange(-4, 4).reshape(2, 4)

COMPLEX = FLOATS[1:] + 1j * np.array([0, 1, -1, 0])


@pytest.mark.parametrize("name", ["sinc", "i0", "fix", "isreal", "iscomplex", "isneginf",
                                  "isposinf"])
@pytest.mark.parametrize("a", [FLOATS, FLOATS.astype("f4"), INTS, COMPLEX, INTS > 0, INTS[:0]],
                         ids=["f8", "f4", "int", "complex", "bool", "empty"])
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
def test_functions_of_elements(name, a):
    x = la.from_array(a, chunks=(1, 3))
    with np.errstate(all="ignore"):
        try:
            expected = getattr(np, name)(a)
        except TypeError as error:
            with pytest.raises(TypeError) as found:
                getattr(la, name)(x)
            assert str(found.value) == str(error)
            return
        check(getattr(la, name)(x), expected)
        check(getattr(np, name)(x), expected)


ROUNDED = [("round", (n,), {}) for n in (0, 1, 3, -1, 20, -20, 310)]
REPLACED = [("nan_to_num", (), words) for words in (
    {}, {"nan": 1}, {"nan": 1.5, "posinf": 7, "neginf": -0.0}, {"posinf": np.nan},
)]


@pytest.mark.parametrize("kernels", ["numpy", "native"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f8"])
@pytest.mark.parametrize(("name", "args", "words"), [*ROUNDED, *REPLACED])
def test_rounded_and_replaced_numbers_are_numpys(name, args, words, dtype, kernels):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(3000) * 10.0 ** rng.integers(-4, 5, 3000)
    with np.errstate(all="ignore"):
        a[::50] = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 0.125, 2.5, 1e308], 60)
        a = a.astype(dtype)
        expected = getattr(np, name)(a, *args, **words)
        made = getattr(la, name)(la.from_array(a, chunks=1000), *args, **words)
        with config.set(kernels=kernels if dtype in ("f8", "f4") and args != (310,) else "auto"):
            check(made, expected)


@pytest.mark.parametrize("words", [
    {}, {"rtol": 0}, {"atol": 0.0}, {"equal_nan": True}, {"rtol": 1e-3, "atol": 1},
    {"rtol": np.inf}, {"rtol": np.float64(0.1)}, {"rtol": 1e250},
], ids=str)
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "f8"), ("f4", "f4"), ("f8", "i8")])
@pytest.mark.filterwarnings("ignore:One of rtol")
def test_close_numbers_are_numpys(words, dtypes):
    rng = np.random.default_rng(0)
    a = rng.choice([0, -0.0, 1, 1 + 1e-9, 1 + 1e-5, 1.1, 2, np.inf, -np.inf, np.nan, 1e-8], 3000)
    b = rng.permutation(a)
    with np.errstate(invalid="ignore"):
        a, b = a.astype(dtypes[0]), b.astype(dtypes[1])
    made = la.isclose(la.from_array(a, chunks=1000), la.from_array(b, chunks=1000), **words)
    with np.errstate(over="ignore"):
        check(made, np.isclose(a, b, **words))


def test_functions_of_elements_write_into_out():
    x, out = la.from_array(FLOATS, chunks=2), la.zeros((2, 4), dtype=bool, chunks=2)
    assert la.isposinf(x, out) is out
    check(out, np.isposinf(FLOATS))


def test_fix_is_as_deprecated_as_numpys():
    wanted, words = told_of(lambda: np.fix(FLOATS))
    found, ours = told_of(lambda: la.fix(la.from_array(FLOATS, chunks=2)))
    assert ours == words
    check(found, wanted)
    out = la.zeros(2)
    assert told_of(lambda: np.fix(la.ones(2), out=out)) == (out, words)


def test_missing_values():
    check(la.isnull(la.from_array(FLOATS, chunks=3)), np.isnan(FLOATS))
    check(la.notnull(la.from_array(INTS, chunks=3)), np.ones((2, 4), bool))
    dates = np.array(["2020-01-01", "NaT"], dtype="M8[D]")
    check(la.isnull(la.from_array(dates, chunks=1)), [False, True])
    objects = np.array([None, "a", float("nan"), 1], dtype=object)
    check(la.isnull(la.from_array(objects, chunks=3)), [True, False, True, False])


@settings(max_examples=40)
@given(st.data())
def test_select(data):
    a = np.arange(12).reshape(3, 4)
    x = la.from_array(a, chunks=(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))))
    choices = [a * 2, a.astype("f4"), a[0], a[:, :1] / 3, 7, 2.5, np.int8(3)]
    count = data.draw(st.integers(1, 4))
    picked = [data.draw(st.sampled_from(choices)) for _ in range(count)]
    limits = [data.draw(st.integers(0, 12)) for _ in range(count)]
    default = data.draw(st.sampled_from([0, -1.5, np.float32(2)]))
    expected = np.select([a > n for n in limits], picked, default)
    lazy = [la.from_array(p, chunks=2) if isinstance(p, np.ndarray) else p for p in picked]
    check(la.select([x > n for n in limits], lazy, default), expected)
    check(np.select([x > n for n in limits], lazy, default), expected)


def test_select_refuses_what_numpy_refuses():
    x = la.arange(3)
    with pytest.raises(ValueError, match="same length as list of conditions"):
        la.select([x > 1], [x, x])
    with pytest.raises(ValueError, match="empty condition list"):
        la.select([], [])
    with pytest.raises(TypeError, match="invalid entry 1 in condlist: should be boolean ndarray"):
        la.select([x > 1, x], [x, x])
