"""``out=`` and ``dtype=`` of reductions and scans: what NumPy computes in, and casts to."""

import numpy as np
import pytest
from array_checks import check, check_near, raised, same_values, told_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazyflow.array as la

DATA = np.array([[1.75, 2.5, 0], [3.5, -1.25, 5.5], [0.5, 7, 2]])
TYPES = ["?", "i1", "i8", "u8", "f2", "f4", "f8", "c16", ">f8"]
REDUCED = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "ptp", "median",
           "argmax", "argmin", "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar",
           "nanstd", "nanmedian"]
SCANNED = ["cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum", "cumulative_prod"]
WITH_DTYPE = {"sum", "prod", "mean", "var", "std", "nanmean", "nanvar", "cumsum"}


def agree(call, a, shape, kind, chunks=2):
    """Compare a call with ``out=`` of a type: what is in it, or the type of the error."""
    x, out = la.from_array(a, chunks=chunks), la.zeros(shape, dtype=kind, chunks=2)
    try:
        expected = call(np, a, np.zeros(shape, kind))
    except TypeError:
        with pytest.raises(TypeError):
            call(la, x, out)
        return
    assert call(la, x, out) is out
    single = np.dtype(kind).itemsize <= 4
    check(out, expected, rtol=2e-3 if single or a.dtype.itemsize < 4 else 1e-6)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", [
    0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)
])
@pytest.mark.parametrize("given", TYPES)
@pytest.mark.parametrize("name", [*REDUCED, *SCANNED])
def test_what_is_in_out_is_numpys(name, given, part):
    """Each name and each type given meet three types of `out` in a part, three names all pairs."""
    a = (abs(DATA) if given in ("?", "u8") else DATA).astype(given)
    first = [*REDUCED, *SCANNED].index(name) + TYPES.index(given) + part
    for kind in TYPES[first % 3::3]:
        for dtype in (None, "i8", "f4") if name in WITH_DTYPE else (None,):
            options = {} if dtype is None else {"dtype": dtype}
            def call(xp, x, out, options=options):
                return getattr(xp, name)(x, axis=0, out=out, **options)

            agree(call, a, (3, 3) if name in SCANNED else (3,), kind)


def test_sums_are_made_in_the_type_of_out():
    a = np.array([1e8, 1], "f4")
    for call in (
        lambda xp, x, out: xp.sum(x, out=out), lambda xp, x, out: xp.add.reduce(x, out=out),
        lambda xp, x, out: xp.mean(x, out=out), lambda xp, x, out: xp.ptp(x, out=out),
    ):
        agree(call, a, (), "f8", chunks=1)
    agree(lambda xp, x, out: xp.cumsum(x, out=out), a, (2,), "f8", chunks=1)
    whole = np.array([100, 100], "i1")
    for kind in ("i1", "f8", "?"):
        agree(lambda xp, x, out: xp.sum(x, out=out), whole, (), kind, chunks=1)
    agree(lambda xp, x, out: xp.add.accumulate(x, out=out), whole, (2,), "i8", chunks=1)


@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd"])
@pytest.mark.parametrize("dtype", [int, "i2", "u1", bool])
@pytest.mark.parametrize("given", ["i8", "f8", "?", "c16"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_whole_numbers_as_dtype(name, dtype, given):
    a = abs(DATA).astype(given)
    x = la.from_array(a, chunks=2)
    masked = {"where": DATA != 2}
    for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": 0, **masked}):
        try:
            expected = getattr(np, name)(a, dtype=dtype, **options)
        except TypeError as error:
            found = raised(lambda o=options: getattr(la, name)(x, dtype=dtype, **o).compute())
            assert found[0] in (type(error), TypeError)
        else:
            check_near(getattr(la, name)(x, dtype=dtype, **options), expected)


def test_means_of_lengths_that_are_not_known_are_in_out_too():
    a = np.arange(1, 8)
    for name in ("mean", "var"):
        x = la.from_array(a, chunks=2)
        found = getattr(la, name)(x[x > 3], dtype=int, out=la.zeros(()))
        check(found, getattr(np, name)(a[a > 3], dtype=int, out=np.zeros(())))
        check(getattr(la, name)(x[x > 4], dtype=int), getattr(np, name)(a[a > 4], dtype=int))


@pytest.mark.usefixtures("noticed")
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_where_and_initial_of_what_may_be_nan(data):
    name = data.draw(st.sampled_from(["nanmax", "nanmin", "max", "min", "nansum", "sum", "prod"]))
    shape = data.draw(st.sampled_from([(), (3,), (0,), (3, 4), (2, 0)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a = rng.integers(0, 9, shape).astype(data.draw(st.sampled_from(["f8", "f4", "i8", "i1"])))
    if a.dtype.kind == "f" and a.ndim:
        a[rng.random(shape) < 0.5] = np.nan
    axes = [None, *range(a.ndim)]
    masks = [True, False, rng.random(shape) < 0.5, np.zeros(shape, bool)]
    options = {"axis": data.draw(st.sampled_from(axes)), "where": data.draw(st.sampled_from(masks))}
    if data.draw(st.booleans()):
        options["initial"] = data.draw(st.sampled_from([0, 5, None, -1]))
    x = la.from_array(a, chunks=2)
    expected, words = told_of(lambda: getattr(np, name)(a, **options))
    found, ours = told_of(lambda: getattr(la, name)(x, **options).compute())
    assert {each if isinstance(each, str) else each[0] for each in ours} == {
        each if isinstance(each, str) else each[0] for each in words
    }
    if expected is not None:
        same_values(found, expected)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "add", "logical_or", "bitwise_or"])
@pytest.mark.parametrize("given", ["i8", "f8", "?"])
def test_reduce_in_another_type(name, given):
    a = np.array([[1, 0, 7], [3, 200, 2], [2, 5, 0]]).astype(given)
    x = la.from_array(a, chunks=2)
    for options in (
        {"dtype": "f4"}, {"dtype": int, "keepdims": True}, {"dtype": "u1", "initial": 3},
        {"dtype": None}, {"axis": None, "dtype": "c8"}, {"dtype": bool, "axis": 1},
        {"dtype": "f8", "where": np.eye(3, dtype=bool), "initial": 1},
    ):
        try:
            expected = getattr(np, name).reduce(a, **options)
        except TypeError:
            with pytest.raises(TypeError):
                getattr(np, name).reduce(x, **options)
        else:
            check(getattr(np, name).reduce(x, **options), expected)
            check(getattr(la, name).reduce(x, **options), expected)
