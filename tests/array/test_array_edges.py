"""Chunked arrays where NumPy's own rules are odd: 0-d, empty, objects, text, byte orders."""

import asyncio
import pickle
import sys

import numpy as np
import pytest
from array_checks import check, check_call
from array_examples import Broken
from oldest_versions import numpy_24

import lazyflow
import lazyflow.array as la
from lazyflow.array.functions import arguments
from lazyflow.errors import LazyflowWarning

ARRAYS = {
    "f8": (np.array([[0.5, -0.0, np.nan], [3.0, -2.5, 1.0], [0.0, 4.0, np.nan]]), (2, 2)),
    "0-d": (np.array(3.5), ()),
    "empty": (np.zeros((0, 4)), (2, 2)),
    "bool": (np.array([True, False, True]), (2,)),
    "big-endian": (np.arange(20.0).reshape(5, 4).astype(">f8"), (2, 3)),
    "big-endian integers": (np.arange(6).astype(">i2"), (4,)),
    "objects": (np.array([[1, 2.5], [3, 7]], object), (1, 2)),
    "complex objects": (np.array([1j, 2, 3.5, np.float32(2)], object), (2,)),
    "bytes": (np.array([b"ab", b"c", b"abc"]), (2,)),
    "text": (np.array(["ab", "", "c", "abc"]), (3,)),
    "dates": (np.array(["2020-01-01", "NaT", "2019-05-05"], "M8[D]"), (2,)),
    "spans": (np.array([5, -3, "NaT", 7], "m8[s]"), (3,)),
    "fields": (np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")]), (1,)),
    "complex": (np.array([1 + 2j, complex(np.nan, 1), -3j]), (2,)),
}
#: What is done, and for which of the arrays.
CASES = [
    (lambda m, x: m.sum(x, keepdims=1), "f8 0-d empty bool objects"),
    (lambda m, x: m.max(x, axis=0, keepdims=1), "f8 bool objects"),
    (lambda m, x: m.argmax(x, axis=0, keepdims=1), "f8 bool"),
    (lambda m, x: m.median(x, axis=0, keepdims=1), "f8"),
    (lambda m, x: m.logaddexp.reduce(x, axis=0, keepdims=1), "f8"),
    (lambda m, x: m.sum(x, axis=0), "0-d big-endian big-endian_integers objects spans"),
    (lambda m, x: m.mean(x, axis=-1), "big-endian spans"),
    (lambda m, x: m.argmin(x, axis=0), "0-d bool"),
    (lambda m, x: m.any(x, axis=0, keepdims=True), "0-d"),
    (lambda m, x: m.add.reduce(x), "0-d big-endian"),
    (lambda m, x: m.max(x), "big-endian big-endian_integers objects"),
    (lambda m, x: m.ptp(x), "big-endian big-endian_integers objects spans"),
    (lambda m, x: m.max(x, initial=2), "big-endian big-endian_integers objects"),
    (lambda m, x: m.sum(x, initial=3), "big-endian objects"),
    (lambda m, x: m.histogram(x, bins=3)[0], "big-endian big-endian_integers"),
    (lambda m, x: m.pad(x, 1), "bytes text big-endian big-endian_integers"),
    (lambda m, x: m.pad(x, 2, mode="edge"), "bytes text big-endian"),
    (lambda m, x: m.repeat(x, 0), "bytes text"),
    (lambda m, x: x[None, ..., 0], "bytes text objects f8"),
    (lambda m, x: m.imag(x), "f8 bool big-endian spans complex complex_objects objects"),
    (lambda m, x: m.real(x), "f8 complex complex_objects objects"),
    (lambda m, x: x**2, "bool f8"),
    (lambda m, x: m.clip(x, 0, 1), "f8"),
    (lambda m, x: m.clip(x, 1, 0), "f8 bool"),
    (lambda m, x: m.clip(x, -(10**9), 3), "big-endian_integers"),
    (lambda m, x: m.clip(x, -(10**9), None), "big-endian_integers big-endian"),
    (lambda m, x: m.clip(x, -(10**9), 10**9, dtype="f8"), "big-endian_integers"),
    (lambda m, x: m.array(x, ndmin=3), "f8 0-d bytes"),
    (lambda m, x: x == x, "fields dates text f8"),
    (lambda m, x: x != x, "fields dates"),
    (lambda m, x: x == 1, "bytes text dates f8"),
    (lambda m, x: x != 1, "bytes text dates"),
    (lambda m, x: x == "ab", "text f8"),
    (lambda m, x: m.cumsum(x), "spans"),
    (lambda m, x: m.maximum.accumulate(x), "spans dates"),
    (lambda m, x: m.nanmax(x), "dates spans complex f8"),
    (lambda m, x: m.nanmin(x, axis=0), "dates spans complex f8"),
    (lambda m, x: m.mean(x, where=x > x[..., :1]), "spans"),
    (lambda m, x: m.nanmean(x, axis=0), "f8 complex"),
    (lambda m, x: m.average(x, weights=x), "big-endian"),
]


def names(text):
    return [name.replace("_", " ") for name in text.split()]


PAIRS = [(case, name) for case, (_, text) in enumerate(CASES) for name in names(text)]


def chunked(name):
    array, chunks = ARRAYS[name]
    return array, la.from_array(array, chunks=chunks)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("case", "name"), PAIRS)
def test_as_numpy(case, name):
    array, x = chunked(name)
    check(CASES[case][0](la, x), CASES[case][0](np, array))


@pytest.mark.parametrize("dtype", [">f8", ">i2", ">c16", ">U3"])
def test_blocks_have_the_byte_order_that_is_said(dtype):
    array = np.arange(20).reshape(5, 4).astype(dtype)
    x = la.from_array(array, chunks=(2, 3))
    for made in (x[::-1], la.roll(x, 1, 0), la.pad(x, 1), x.rechunk(5), la.full_like(x, 1),
                 la.concatenate([x, x]), la.repeat(x, 2, 0), x.reshape(-1)):
        for block in lazyflow.compute(list(made.to_delayed().flat))[0]:
            assert block.dtype == made.dtype
    check(x[1, 2].reshape(1, 1), array[1:2, 2:3])
    check(la.from_array(array[1, 2:3].reshape(())).reshape(-1), array[1, 2:3])


def test_weighted_means_do_not_overflow():
    array = np.array([200, 100, 250], "u1")
    x = la.from_array(array, chunks=2)
    assert la.average(x, weights=x).compute() == np.average(array, weights=array)


def test_weights_that_sum_to_zero():
    with pytest.raises(ZeroDivisionError, match="^Weights sum to zero, can't be normalized"):
        la.average(la.ones(3, chunks=2), weights=[1, -1, 0]).compute()


MASKED = np.ma.array([1.0, 2.0], mask=[True, False])


@pytest.mark.parametrize("use", [
    lambda: la.asarray(MASKED),
    lambda: la.array(MASKED),
    lambda: la.ones(2) @ MASKED,
    lambda: la.ones(2).__setitem__(0, MASKED[0]),
    lambda: la.sort(MASKED),
])
def test_masks_are_not_lost_silently(use):
    with pytest.raises(TypeError, match=r"(?i)masks? .*Fill (it|them)"):
        use()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_become_arrays():
    matrix = np.matrix([[1, 2], [3, 4]])
    x = la.from_array(matrix, chunks=1)
    assert type((x * matrix).compute()) is np.ndarray
    assert np.array_equal((x * matrix).compute(), [[1, 4], [9, 16]])
    assert x[0].compute().shape == (2,)


@numpy_24("takes the element, and warns")
def test_numbers_of_arrays_with_axes_are_numpys():
    for convert in (float, int, complex):
        told = []
        for one in (np.array([2.0]), la.ones(1) + 1):
            try:
                told.append(convert(one))
            except TypeError as error:
                told.append(str(error))
        assert told[0] == told[1]


def test_await_gives_an_array_that_may_be_changed():
    async def main():
        x = la.arange(6, chunks=2)
        found = await x
        found += 1
        return found, await (x * 2).sum(), await x

    found, total, again = asyncio.run(main())
    assert found.tolist() == [1, 2, 3, 4, 5, 6]
    assert total == 30
    assert again.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("use", [
    lambda x: (x + 1).sum(), lambda x: x.std(0), lambda x: (x - x.mean()).max(),
    lambda x: x[::2] @ x.T,
])
def test_tasks_name_the_users_line(use):
    x = la.from_array(Broken(), chunks=(2, 3))
    with pytest.raises(OSError, match="disk is gone") as raised:
        use(x).compute()
    assert "test_array_edges.py" in raised.value.__notes__[-1]


def test_planning_a_chain_of_reductions_costs_what_it_is_long():
    def lines(n):
        x = la.ones(4, chunks=2)
        for _ in range(n):
            x = x - x.mean()
        count = 0

        def trace(frame, event, arg):
            nonlocal count
            count += event in ("line", "call")
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            type(x).__lazyflow_optimize__([x])
        finally:
            sys.settrace(before)
        return count

    assert lines(160) < 2.5 * lines(80)


def test_others_get_only_what_is_taken_of_an_array_in_memory():
    x = la.from_array(np.arange(1_000_000.0).reshape(1000, 1000), chunks=(100, 1000))
    parts = [x[5:9, ::-2], x[7], x[-1:3:-200, None, 4], x[3:3], x[::10].T + 1]
    for part in parts:
        there = pickle.loads(pickle.dumps(part))
        assert len(pickle.dumps(part)) < 1_000_000
        np.testing.assert_array_equal(there.compute(), part.compute())
    windows = la.stack([x[i : i + 200].sum() for i in range(0, 800, 10)])
    assert len(pickle.dumps(windows)) < 17_000_000  # the array twice, not once for each


def test_pickled_arrays_hold_what_their_blocks_share_once():
    x = la.from_array(np.arange(10_000.0), chunks=100)
    y = (x - x.mean()).map_blocks(np.sin, dtype=float)
    data = pickle.dumps(y)
    assert len(data) < 200_000  # the array is 80,000 bytes
    there = pickle.loads(data)
    assert there.chunks == y.chunks
    np.testing.assert_array_equal(there.compute(), y.compute())


def test_types_are_promoted_without_computing():
    x = la.from_array(Broken(), chunks=2).astype("f4")
    assert np.result_type(x, np.float32) == np.float32
    assert np.result_type(x, la.ones(2, dtype="i8"), 1j) == np.complex128


def test_no_option_is_taken_and_forgotten(monkeypatch):
    a = np.array([1.0, np.nan])
    x = la.from_array(a)
    np.nan_to_num(x, copy=False)
    np.testing.assert_array_equal(x.compute(), [1.0, 0.0])
    monkeypatch.setattr(arguments, "_told", set())
    with pytest.warns(LazyflowWarning, match="order='F' changes nothing here"):
        x.astype("f4", order="F")
    with pytest.raises(TypeError, match=r"add\(\) of chunked .* not signature=.*map_blocks"):
        np.add(x, x, signature="dd->d")
    with pytest.raises(TypeError, match=r"add\(\) of chunked .* not sig="):
        la.add(x, x, sig="dd->d")
    with pytest.raises(ValueError, match="device='gpu'"):
        x.astype("f4", device="gpu")
    with pytest.raises(ValueError, match="copy"):
        la.array([1, 2], copy=False)
    kept = la.array(a, copy=False)
    a[0] = 5.0
    assert kept[0].compute() == 5.0
    assert la.array(a)[0].compute() == 5.0
    pair = la.array([x, x])
    assert isinstance(pair, la.Array)
    assert pair.shape == (2, 2)
    assert isinstance(np.asarray([1, 2], like=x), la.Array)


def test_what_is_rounded_by_python():
    x = la.from_array(np.array([1.26, 2.5]), chunks=1)
    assert round(x[0], 1).compute() == 1.3
    assert round(x[1]) == 2
    assert type(round(x[1])) is int
    assert round(la.from_array(np.array([1.26], object))[0], 1) == 1.3
    assert f"{x[0]:.2f}, {x[1]:5}" == f"{x[0].compute():.2f}, {x[1].compute():5}"
    assert f"{x[0]}" == str(x[0])
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{x:.2f}"
    with pytest.raises(TypeError, match=r"__round__.*x\.round\(n\)"):
        round(x, 1)
    with pytest.raises(TypeError, match="__round__"):
        round(x[0] * 1j, 1)


@pytest.mark.parametrize("kind", ["?", "M8[s]", "U1", "f8", "i2", "c8", "m8[s]", "O"])
@pytest.mark.parametrize("call", [
    lambda m, x: m.clip(x, None, None), lambda m, x: x.clip(), lambda m, x: m.clip(x, 0, 1, min=0),
])
def test_bounds_that_are_none_or_given_twice(call, kind):
    check_call(call, np.zeros(3, kind))


@pytest.mark.parametrize("call", [
    lambda m, x: m.delete(x, []), lambda m, x: m.partition(x, 3, axis=0),
    lambda m, x: m.histogramdd(m.repeat(m.reshape(x, (-1, 1)), 1, 0), 3)[0],
])
def test_functions_of_nothing(call):
    check_call(call, np.zeros((0, 1)))


@pytest.mark.parametrize("axis", [2, -3, 5, (0, 2)])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("name", [
    "sum", "max", "any", "mean", "std", "nansum", "ptp", "median", "flip", "count_nonzero",
    "squeeze", "cumsum", "sort", "argmax", "diff", "gradient", "argsort", "nanmax", "average",
    "trim_zeros",
])
def test_axes_that_are_not_there_of_arrays_without_elements(name, shape, axis):
    x = la.zeros(shape, chunks=2)
    with pytest.raises((np.exceptions.AxisError, TypeError)):
        getattr(la, name)(x, axis=axis)


def test_vectorize_makes_what_otypes_say():
    a = np.arange(-2, 4)
    for otypes in ([float], ["i2"], [">f8"], ["O"], "d", [bool]):
        for part in (a, a[:0], a.reshape(2, 3), np.array(7)):
            wanted = np.vectorize(abs, otypes=otypes)(part)
            found = la.vectorize(abs, otypes=otypes)(la.from_array(part, chunks=2))
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.compute(), wanted)


@pytest.mark.parametrize("kind", [">f8", ">f4", "f4", "?", "i2", ">c16"])
def test_slopes_have_the_order_of_bytes_of_their_array(kind):
    check_call(lambda m, x: m.gradient(x), np.arange(5).astype(kind))
    check_call(lambda m, x: m.gradient(x, np.float64(2)), np.arange(5).astype(kind))
    check_call(lambda m, x: m.clip(x, None, None), np.arange(5).astype(kind))


@pytest.mark.parametrize(("choice", "default"), [(1, -1), (-1, 7), (2, 300), (0.5, 1), (2, -5)])
def test_choices_and_defaults_that_the_type_does_not_have(choice, default):
    for a in np.arange(4, dtype="u1"), np.arange(4), np.arange(4, dtype="f4"):
        check_call(lambda m, x: m.select([x > 2, x > 1], [x, choice], default), a)
        check_call(lambda m, x: m.select([x > 2], [x], default), a)


#: Functions that in NumPy take axis 0 or -1 of an array without axes, or refuse them.
WITHOUT_AXES = {
    "sum nansum prod max nanmin min any all count_nonzero ptp argmax nanargmax cumsum nancumprod "
    "mean nanmean var nanstd median nanmedian cumulative_sum cumulative_prod argsort sort squeeze "
    "average diff flip unique expand_dims gradient trapezoid": lambda f, x, axis: f(x, axis=axis),
    "quantile nanpercentile repeat partition argpartition roll delete array_split":
        lambda f, x, axis: f(x, 0, axis=axis),
    "take": lambda f, x, axis: f(x, [0, 0], axis=axis),
    "compress": lambda f, x, axis: f([True], x, axis=axis),
    "average": lambda f, x, axis: f(x, axis=axis, weights=x),
    "mean var": lambda f, x, axis: f(x, axis=axis, where=np.array(True)),
    "apply_over_axes": lambda f, x, axis: f(np.sum, x, [axis]),
}


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Degrees of freedom")
@pytest.mark.parametrize(("name", "call"), [
    (name, call) for names, call in WITHOUT_AXES.items() for name in names.split()
])
@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_axes_of_arrays_without_axes(name, call, dtype):
    a = np.array(3).astype(dtype)
    for axis in (0, -1, 1):
        try:
            expected = call(getattr(np, name), a, axis)
        except Exception as error:
            with pytest.raises(type(error)):
                call(getattr(la, name), la.from_array(a), axis)
            continue
        found = call(getattr(la, name), la.from_array(a), axis)
        assert found.shape == np.shape(expected)
        np.testing.assert_array_equal(found.compute(), expected)


@pytest.mark.parametrize("name", ["min", "max", "nanmin", "argmax", "nanargmin", "ptp"])
@pytest.mark.parametrize("shape", [(), (0,), (3,)])
def test_records_have_no_extremes(name, shape):
    a = np.zeros(shape, [("a", "i4"), ("b", "f8")])
    for xp, x in ((np, a), (la, la.from_array(a))):
        with pytest.raises(TypeError, match="not contain a loop|not ordered"):
            getattr(xp, name)(x)


def test_ranges_end_where_a_block_without_elements_does():
    x = la.linspace(0, 5, 3, chunks=((3, 0),))
    np.testing.assert_array_equal(x.compute(), [0, 2.5, 5])


def test_single_objects_are_items_and_lists():
    x = la.from_array(np.array(-1.5, object))
    assert (x.item(), x.item(0), x.tolist()) == (-1.5, -1.5, -1.5)


@pytest.mark.parametrize("mask", [True, False])
def test_masks_of_one_object_that_is_left(mask):
    a = np.array([5.5], object)
    for x in [la.from_array(a)[0:1].squeeze(axis=0), la.from_array(a).squeeze(axis=0)]:
        np.testing.assert_array_equal(
            x[np.array(mask)].compute(), a.squeeze(axis=0)[np.array(mask)]
        )
