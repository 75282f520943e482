"""Sums, variances and extremes: their digits, types and errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyflow.array as la


@given(
    st.integers(1, 400), st.integers(1, 40), st.integers(0, 100), st.sampled_from(["f8", "f4"]),
    st.sampled_from([None, 0, 1]),
)
def test_sums_are_as_exact_as_numpy(rows, chunk, seed, dtype, axis):
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal((rows, 7)) * 10.0 ** rng.integers(-3, 4, (rows, 7))).astype(dtype)
    x = la.from_array(a, chunks=(chunk, 3))
    one = np.asarray(x.sum(axis).compute(num_workers=1))
    four = np.asarray(x.sum(axis).compute(num_workers=4))
    assert one.tobytes() == four.tobytes()
    columns = {None: [a.ravel()], 0: list(a.T), 1: list(a)}[axis]
    for value, column in zip(one.ravel(), columns, strict=True):
        exact = math.fsum(column.tolist())
        bound = 16 * np.finfo(dtype).eps * math.fsum(np.abs(column).tolist())
        assert abs(float(value) - exact) <= bound


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("ddof", [0, 1])
def test_variances_keep_their_digits_far_from_zero(shift, axis, ddof):
    a = np.random.default_rng(0).standard_normal((300, 20)) + shift
    x = la.from_array(a, chunks=(70, 6))
    exact = (a - shift).var(axis, ddof=ddof)
    np.testing.assert_allclose(x.var(axis, ddof=ddof).compute(), exact, rtol=1e-6)
    np.testing.assert_allclose(x.std(axis, ddof=ddof).compute(), np.sqrt(exact), rtol=1e-6)


REDUCTIONS = [
    "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "nansum", "nanprod",
    "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "ptp", "count_nonzero",
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "u1", "bool", "c16"])
def test_reductions_have_numpys_types_and_shapes(name, dtype):
    rng = np.random.default_rng(1)
    a = (rng.random((7, 5, 4)) * 3).astype(dtype)
    if dtype in ("f8", "f4") and name.startswith("nan"):
        a[a > 2] = np.nan
    x = la.from_array(a, chunks=(3, 2, 4))
    func = getattr(np, name)
    for axis in (None, 0, -1, (0, 2), ()):
        for keep in (False, True):
            try:
                expected = func(a, axis=axis, keepdims=keep)
            except TypeError as error:
                with pytest.raises(TypeError) as refused:
                    func(x, axis=axis, keepdims=keep)
                assert str(refused.value) == str(error)
                continue
            found = func(x, axis=axis, keepdims=keep)
            assert found.shape == np.shape(expected), (axis, keep)
            assert found.dtype == np.asarray(expected).dtype, (axis, keep)
            eps = 2e-2 if dtype == "f2" else 1e-5 if dtype == "f4" else 1e-12
            np.testing.assert_allclose(found.compute(), expected, rtol=eps, atol=eps)


@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "any"])
def test_where_says_what_counts(name):
    a = np.random.default_rng(2).random((20, 6))
    mask = a > 0.4
    x = la.from_array(a, chunks=(6, 4))
    more = {"initial": -1.0} if name == "max" else {}
    for axis in (None, 0, 1):
        expected = getattr(np, name)(a, axis=axis, where=mask, **more)
        found = getattr(x, name)(axis=axis, where=x > 0.4, **more)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


def test_what_has_no_smallest_element_is_an_error_in_numpys_words():
    for shape, axis in (((0,), None), ((3, 0), 1)):
        a = np.zeros(shape)
        with pytest.raises(ValueError) as expected:
            a.min(axis)
        with pytest.raises(ValueError) as found:
            la.from_array(a).min(axis)
        assert str(found.value) == str(expected.value)
    np.testing.assert_array_equal(la.zeros((3, 0)).min(0).compute(), np.zeros((3, 0)).min(0))


@pytest.mark.parametrize("call", [
    lambda x: x.sum(2), lambda x: x.mean((0, 0)), lambda x: x[0, 0, 0], lambda x: x[5],
    lambda x: x.transpose(0, 0), lambda x: x + np.ones(3), lambda x: x["a":],
    lambda x: x[1.5], lambda x: x.rechunk((3, 3, 3)),
])  # fmt: skip
def test_errors_are_of_numpys_types(call):
    a = np.ones((4, 5))
    try:
        call(a)
    except AttributeError:  # NumPy has no chunks
        kind: type[Exception] = ValueError
    except Exception as error:
        kind = type(error)
    else:
        raise AssertionError("NumPy takes it")
    with pytest.raises(kind):
        call(la.from_array(a, chunks=2))
