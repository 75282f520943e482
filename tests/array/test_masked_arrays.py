"""Arrays with masks against ``numpy.ma``."""

import operator
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la

RNG = np.random.default_rng(3)
MASKS = {
    "none": np.zeros((5, 4), bool), "some": RNG.random((5, 4)) < 0.4, "all": np.ones((5, 4), bool),
}
MASKS["some"][:, 1] = True  # a column without values
DATA = {
    "f8": RNG.integers(-3, 4, (5, 4)) / 2, "f4": RNG.integers(-3, 4, (5, 4)).astype("f4"),
    "i8": RNG.integers(-3, 4, (5, 4)), "u1": RNG.integers(0, 9, (5, 4)).astype("u1"),
    "bool": RNG.random((5, 4)) < 0.5, "c16": RNG.integers(-3, 4, (5, 4)) * (1 + 0.5j),
}


def case(dtype, kind, fill=None):
    want = np.ma.MaskedArray(DATA[dtype].copy(), MASKS[kind].copy(), fill_value=fill)
    return want, la.from_array(want.copy(), chunks=(2, 3))


def check(found, want, fill=False, dtype=True):
    """Compare values that are not masked, masks, and types."""
    if isinstance(want, tuple | list):
        assert len(found) == len(want)
        for pair in zip(found, want, strict=True):
            check(*pair, fill=fill)
        return
    declared = found.dtype
    found = found.compute()
    if want is np.ma.masked or found is np.ma.masked:
        assert found is want
        return
    assert np.shape(found) == np.shape(want)
    if dtype:
        assert declared == found.dtype == np.asarray(want).dtype
    if isinstance(want, np.ma.MaskedArray) and want.shape:
        assert isinstance(found, np.ma.MaskedArray)
        assert np.array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(want))
        if fill:
            assert found.fill_value == want.fill_value
    np.testing.assert_allclose(np.ma.filled(found, 0), np.ma.filled(want, 0), 1e-6, 1e-6)


ELEMENTWISE = [
    lambda x: x + x, lambda x: 2 * x, lambda x: x - np.ones(4, "u1"), lambda x: abs(x),
    lambda x: x > 0, lambda x: x == 1, lambda x: x != x.T[0, 0], lambda x: np.multiply(x, 3),
    lambda x: x / x, lambda x: x / 2, lambda x: 1 / x, lambda x: x // 2, lambda x: x % 2,
    lambda x: x ** 2, lambda x: 2.0 ** x, lambda x: np.log(x), lambda x: np.sqrt(x),
    lambda x: np.arcsin(x), lambda x: np.isnan(x), lambda x: divmod(x, 2),
    lambda x: np.divide(x, x), lambda x: x / 0, lambda x: np.hypot(x, [1, 2, 3, 4]),
]


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")  # NumPy's, of its whole arrays
@pytest.mark.filterwarnings("ignore:Casting complex:numpy.exceptions.ComplexWarning")  # its fills
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", DATA)
def test_operations_on_elements(dtype, kind):
    want, x = case(dtype, kind, fill=None if dtype == "c16" else 1)
    for op in ELEMENTWISE:
        try:
            expected = op(want)
        except TypeError:
            with pytest.raises(TypeError):
                op(x).compute()
        else:
            check(op(x), expected, dtype=dtype not in ("f4", "u1"))


@pytest.mark.filterwarnings("error")
def test_masked_places_and_those_outside_of_a_domain_do_not_warn():
    x = la.ma.masked_less(la.asarray([-1.0, 0.0, 1.0]), 0)
    assert np.log(x).compute().tolist() == [None, None, 0]
    assert (1 / x).compute().tolist() == [None, None, 1]
    assert x[:1].mean().compute() is x[:1].std().compute() is np.ma.masked


SHAPES = [
    lambda x: x.T, lambda x: x[1:, 2], lambda x: x[0], lambda x: x[0, 1], lambda x: x[::-2, None],
    lambda x: x[[3, 0]], lambda x: x.reshape(2, 10), lambda x: x.ravel(), lambda x: np.flip(x, 0),
    lambda x: np.moveaxis(x, 0, 1), lambda x: np.expand_dims(x, 1),
    lambda x: np.repeat(x, 2, 1), lambda x: x.copy(),
    lambda x: x.diagonal(),
    lambda x: x.astype("c8"), lambda x: x.round(1),
    lambda x: np.split(x, 2, 1), lambda x: np.zeros_like(x), lambda x: x[MASKS["some"]],
]


@pytest.mark.parametrize("kind", MASKS)
def test_shapes(kind):
    want, x = case("f8", kind, fill=7)
    for op in SHAPES:
        check(op(x), op(want), fill=True)
    check(x.take([1, 1], 0), want.take([1, 1], 0))  # NumPy's have no fill value of their own
    check(x.real, want.real)
    check(np.roll(x, 1, 0), np.roll(want, 1, 0))
    wide = np.ma.MaskedArray(*[np.broadcast_to(x, (2, 5, 4)) for x in (want.data, want.mask)])
    check(np.broadcast_to(x, (2, 5, 4)), wide)  # NumPy's would lose the mask
    for op in "concatenate", "stack", "vstack", "dstack":
        parts = [la.ones((5, 4)), x]
        check(getattr(la, op)(parts), getattr(np.ma, op)([np.ones((5, 4)), want]))


REDUCTIONS = (
    "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax", "ptp",
    "cumsum", "cumprod",
)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", DATA)
def test_reductions(dtype, kind):
    want, x = case(dtype, kind)
    for name in REDUCTIONS:
        if dtype in ("c16", "bool") and name in ("min", "max", "argmin", "argmax", "ptp"):
            continue
        for axis in None, 0, 1, -1:
            options = {} if axis is None and "cum" not in name else {"axis": axis or 0}
            expected = getattr(np.ma if name == "ptp" else np, name)(want, **options)
            wider = dtype == "f4" and name in ("mean", "var", "std")  # with a mask only
            check(getattr(la, name)(x, **options), expected, dtype=not wider)
    check(x.sum((0, 1), keepdims=True), want.sum((0, 1), keepdims=True))
    check(x.var(0, ddof=3), want.var(0, ddof=3), dtype=False)
    check(la.ma.count(x, 1), want.count(1))


def test_averages_and_products():
    want, x = case("f8", "some")
    weights = np.arange(5.0)
    for axis, w in (0, weights), (1, None), (None, np.ones((5, 4)) * 2), (0, want):
        ours = la.from_array(w, chunks=2) if w is want else w
        check(la.ma.average(x, axis, ours, returned=True), np.ma.average(want, axis, w, True))
    check(x.dot(x.T), np.ma.dot(want, want.T))
    check(x.dot(np.ones(4)), np.ma.dot(want, np.ones(4)))


NAMES = ["greater", "less", "greater_equal", "less_equal", "equal", "not_equal"]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_masks_are_made_as_numpy_makes_them(dtype, kind):
    want, x = case(dtype, kind)
    plain = DATA[dtype]
    for ours, theirs in (x, want), (la.from_array(plain, chunks=2), plain):
        for name in NAMES:
            name = f"masked_{name}"
            check(getattr(la.ma, name)(ours, 1), getattr(np.ma, name)(theirs, 1), fill=True)
        for name in "masked_inside", "masked_outside":
            check(getattr(la.ma, name)(ours, 1, -1), getattr(np.ma, name)(theirs, 1, -1))
        check(la.ma.masked_values(ours, 1), np.ma.masked_values(theirs, 1), fill=True)
        check(la.ma.masked_where(ours > 0, ours), np.ma.masked_where(theirs > 0, theirs))
        check(la.ma.where(ours > 0, ours, 9), np.ma.where(theirs > 0, theirs, 9))
        hidden = np.ma.masked
        check(la.ma.where(ours > 0, hidden, ours), np.ma.where(theirs > 0, hidden, theirs))
        check(la.ma.nonzero(ours), np.ma.nonzero(theirs))
        check(la.ma.filled(ours), np.ma.filled(theirs))
        check(la.ma.getmaskarray(ours), np.ma.getmaskarray(theirs))
        check(la.ma.getdata(ours), np.ma.getdata(theirs))
    bad = np.ma.array([1.0, np.nan, np.inf, 2], mask=[1, 0, 0, 0])
    check(la.ma.masked_invalid(la.from_array(bad)), np.ma.masked_invalid(bad))
    check(la.ma.fix_invalid(la.from_array(bad)), np.ma.fix_invalid(bad))


def test_writes():
    want, x = case("f8", "some")
    row = want[4].copy()
    for each in want, x:
        each[0] = np.ma.masked
        each[1, :2] = 5
        view = each[2:]
        view[0] = row
        each += 1
    check(x, want)
    with pytest.raises(TypeError, match="Cannot cast"):
        la.ma.masked_array([1, 2]).__iadd__(0.5)


@pytest.mark.parametrize("use", [
    lambda x: np.sort(x), lambda x: la.median(x), lambda x: x @ x.T, lambda x: np.linalg.norm(x),
    lambda x: np.add.reduce(x), lambda x: la.linalg.inv(x), lambda x: la.fft.fft(x),
    lambda x: np.asarray(x), lambda x: la.ones((5, 4))[x > 0], lambda x: x[x > 0],
    lambda x: x.sum(where=[True]), lambda x: la.asarray(x), lambda x: np.interp(x, [1], [1]),
    lambda x: la.random.default_rng(1).normal(x), lambda x: la.where(la.ones(4), x), la.unique,
    lambda x: la.nansum(x), lambda x: la.apply_gufunc(np.sum, "(i)->()", x), la.count_nonzero,
    lambda x: la.ones((5, 4)).__setitem__(0, x[0]), lambda x: la.einsum("ij->i", x),
    lambda x: la.histogram(x, bins=2, range=(0, 1)), lambda x: la.ones((5, 4)).__iadd__(x),
    lambda x: la.blockwise(np.negative, "ij", x, "ij"), lambda x: la.map_overlap(np.abs, x, 1),
    lambda x: la.apply_along_axis(np.sum, 0, x), lambda x: la.vectorize(abs)(x),
    lambda x: la.reduction(x, np.sum, np.sum, dtype=float), lambda x: la.store(x, np.zeros((5, 4))),
    lambda x: la.sum(la.ones((5, 4)), where=x > 0), lambda x: np.take(la.ones(9), x.astype(int)),
    lambda x: la.select([x > 0], [x]), lambda x: la.block([x]),
    lambda x: x.sum(where=np.ones((5, 4), bool)), lambda x: x.mean(where=la.ones((5, 4)) > 0),
    lambda x: x.max(initial=la.asarray(3.0)), lambda x: x.min(initial=0), lambda x: x.all(where=0),
    lambda x: la.dot(x[0], x[0], out=la.zeros(())), lambda x: la.stack([x], out=la.ones((1, 5, 4))),
])
def test_what_has_no_rule_is_refused(use):
    with pytest.raises((TypeError, ValueError), match="[mM]ask|neither"):
        use(case("f8", "some")[1])


@pytest.mark.parametrize("kind", sorted(MASKS))
@pytest.mark.parametrize("dtype", ["f8", "i8", "c16"])
def test_corrections_of_variances(dtype, kind):
    want, x = case(dtype, kind)
    for name in "var", "std":
        for less in 0, 1, 2.5:
            wanted = getattr(want, name)(0, ddof=less)
            check(getattr(x, name)(0, correction=less), wanted)
            check(getattr(la, name)(x, 0, correction=less), wanted)
            check(getattr(np, name)(x, 0, correction=less), wanted)
        with pytest.raises(ValueError, match="simultaneously"):
            getattr(x, name)(ddof=1, correction=1)
        assert f"<{name}," in repr(getattr(x, name)())


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u2", "?"])
@pytest.mark.parametrize("kind", ["i8", "u1", "f4"])
@pytest.mark.parametrize("axis", [None, 0])
def test_means_divide_the_sum_in_the_dtype_that_is_asked_for(dtype, kind, axis):
    values = (np.arange(12) * (1.75 if kind == "f4" else 1)).astype(kind).reshape(4, 3)
    want = np.ma.masked_array(values, values.astype(int) % 5 == 1)
    x = la.ma.masked_array(la.from_array(values, chunks=2), want.mask)
    mean = np.mean(x, axis, dtype=dtype).compute()
    wanted = np.mean(want, axis, dtype=dtype)
    np.testing.assert_allclose(np.ma.filled(mean, -1), np.ma.filled(wanted, -1), rtol=1e-6)
    assert mean.dtype.kind == wanted.dtype.kind == "f"
    if np.dtype(dtype).kind != "f":
        for name in "var", "std":
            with pytest.raises(TypeError, match=rf"la.{name} of {x.dtype} with dtype="):
                getattr(x, name)(dtype=dtype)


@pytest.mark.parametrize("name", [
    "sum", "prod", "max", "min", "all", "any", "mean", "var", "std", "argmax", "argmin",
    "cumsum", "cumprod", "round",
])
def test_a_place_for_the_result_is_refused(name):
    with pytest.raises(TypeError, match="out"):
        getattr(case("f8", "some")[1], name)(out=la.zeros((5, 4)))


def test_nothing_is_computed_to_refuse_an_argument():
    never = la.zeros((), chunks=-1).map_blocks(lambda block: pytest.fail("computed"), dtype=float)
    x = case("f8", "some")[1]
    for key in "out", "initial", "where":
        with pytest.raises(TypeError, match=f"{key}="):
            x.sum(**{key: never})


def in_first_rows(block, block_id, block_info=None):
    assert block_info[0]["chunk-location"] == block_id
    return block * (block_id[0] == 0)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_every_scheduler_computes_and_keeps_them(scheduler):
    want, x = case("i8", "some", fill=7)
    with lazyflow.config.set(scheduler=scheduler):
        check(x + 1, want + 1, fill=True)
        check((x * 2).persist().sum(0), (want * 2).sum(0))
        check(x.map_blocks(np.ma.masked_greater, 2), np.ma.masked_greater(want, 2))
        check(x.map_blocks(in_first_rows, dtype=x.dtype)[:1], want[:1])
        length = lazyflow.delayed(np.ma.count)(x).compute()
    assert length == want.count()
    check(pickle.loads(pickle.dumps(x)), want, fill=True)


STEPS = {
    "add": lambda x: x + 1, "reverse": lambda x: x[::-1], "divide": lambda x: 1 / x,
    "log": np.log, "square": lambda x: x * x, "turn": lambda x: x.T, "flat": lambda x: x.ravel(),
    "cumsum": lambda x: x.cumsum(0), "mean": lambda x: x - x.mean(0),
    "greater": lambda x: (np if isinstance(x, np.ma.MaskedArray) else la).ma.masked_greater(x, 1),
}


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=6), st.sampled_from(sorted(MASKS)))
def test_chains(steps, kind):
    want, x = case("f8", kind)
    for step in steps:
        want, x = STEPS[step](want), STEPS[step](x)
    check(x, want)
    check(operator.methodcaller("sum")(x), want.sum())


def test_lengths_that_are_not_known():
    want = np.arange(9.0)[np.arange(9) % 2 == 0]
    x = la.arange(9.0, chunks=4)
    x = x[x % 2 == 0]
    ours, theirs = la.ma.masked_greater(x, 5), np.ma.masked_greater(want, 5)
    assert ours.shape == (None,)
    check(ours.sum(), theirs.sum())
    check(ours + x, theirs + want)
    check(ours[ours.mask], theirs[theirs.mask])
    check(ours.filled(), theirs.filled())


def test_other_functions_of_numpy_ma_refuse():
    with pytest.raises(TypeError, match="mask"):
        np.ma.median(case("f8", "some")[1])


@pytest.mark.parametrize("name", ["getdata", "getmaskarray", "filled"])
def test_functions_of_numpy_ma_come_here(name):
    want, x = case("f8", "some")
    found = getattr(np.ma, name)(x)
    assert isinstance(found, la.Array | la.ma.MaskedArray)
    check(found, getattr(np.ma, name)(want))


def test_arguments_of_delayed_functions_have_the_axes_of_the_array():
    x = la.asarray(np.arange(6).reshape(2, 3)).T
    assert lazyflow.delayed(np.array)(x).compute().tolist() == [[0, 3], [1, 4], [2, 5]]
    masks = lazyflow.delayed(np.ma.getmaskarray)(la.ma.masked_equal(x, 4)).compute()
    assert masks.tolist() == [[False, False], [False, True], [False, False]]


def test_errors_of_arguments():
    x = la.ones(3, chunks=2)
    with pytest.raises(np.ma.MaskError, match="Mask and data not compatible"):
        la.ma.masked_array(x, mask=[True, False])
    with pytest.raises(IndexError, match="Inconsistent shape"):
        la.ma.masked_where([True], x)
    with pytest.raises(ValueError, match="one value"):
        la.ma.masked_equal(x, x)
    with pytest.raises(TypeError, match="each field"):
        la.ma.masked_array(np.zeros(2, "i4,i4"))
    made = la.ma.masked_array(la.asarray([1, 2]), mask=[True, False])
    with pytest.raises(TypeError):
        la.ma.set_fill_value(made, 1e20)
    la.ma.set_fill_value(made, 5)
    assert made.filled().compute().tolist() == [5, 2]
