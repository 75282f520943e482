"""Reductions by any ufunc, against NumPy."""

import numpy as np
import pytest
from array_checks import check, check_near
from array_strategies import arrays, axis_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

RNG = np.random.default_rng(7)

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


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8"])
def test_sums_of_a_short_type(dtype):
    x = RNG.integers(0, 100, (40, 50)).astype(dtype)
    for chunks in (7, -1):
        a = la.from_array(x, chunks=chunks)
        check(a.sum(dtype=dtype), x.sum(dtype=dtype))
        check(a.prod(axis=0, dtype=dtype), x.prod(axis=0, dtype=dtype))


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
