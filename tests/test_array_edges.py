"""Chunked arrays where NumPy's own rules are odd: 0-d, empty, objects, text, dates, byte orders."""

import pickle
import sys
import warnings

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la

ARRAYS = {
    "f8": (np.array([[0.5, -0.0, np.nan], [3.0, -2.5, 1.0], [0.0, 4.0, np.nan]]), (2, 2)),
    "0-d": (np.array(3.5), ()),
    "empty": (np.zeros((0, 4)), (2, 2)),
    "bool": (np.array([True, False, True]), (2,)),
    "big-endian": (np.arange(20.0).reshape(5, 4).astype(">f8"), (2, 3)),
    "big-endian integers": (np.arange(6).astype(">i2"), (4,)),
    "objects": (np.array([[1, 2.5], [3, 7]], object), (1, 2)),
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
    (lambda m, x: m.imag(x), "f8 bool big-endian spans complex"),
    (lambda m, x: x**2, "bool f8"),
    (lambda m, x: m.clip(x, 0, 1), "f8"),
    (lambda m, x: m.clip(x, 1, 0), "f8 bool"),
    (lambda m, x: m.clip(x, -(10**9), 3), "big-endian_integers"),
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
    wanted = np.asarray(CASES[case][0](np, array))
    made = CASES[case][0](la, x)
    found = np.asarray(made.compute(scheduler="sync"))
    assert found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")
    assert made.dtype == found.dtype or (made.dtype.kind in "SUO" and not found.ndim)
    assert found.shape == wanted.shape == made.shape
    np.testing.assert_array_equal(found, wanted)
    if found.dtype.kind == "f":
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("dtype", [">f8", ">i2", ">c16", ">U3"])
def test_blocks_have_the_byte_order_that_is_said(dtype):
    array = np.arange(20).reshape(5, 4).astype(dtype)
    x = la.from_array(array, chunks=(2, 3))
    for made in (x[::-1], la.roll(x, 1, 0), la.pad(x, 1), x.rechunk(5), la.full_like(x, 1),
                 la.concatenate([x, x]), la.repeat(x, 2, 0), x.reshape(-1)):
        for block in lazyflow.compute(list(made.to_delayed().flat), scheduler="sync")[0]:
            assert block.dtype == made.dtype


WARNING = {
    "mean where": lambda m, x: m.mean(x, axis=0, where=x < 0),
    "nanmean": lambda m, x: m.nanmean(x, axis=0),
    "nanmean of infinities": lambda m, x: m.nanmean(x * np.inf, axis=1),
    "var": lambda m, x: m.var(x, axis=0, ddof=9),
    "nanvar": lambda m, x: m.nanvar(x, axis=0, ddof=9),
    "nanmax": lambda m, x: m.nanmax(x, axis=0),
    "nanmin of complex": lambda m, x: m.nanmin(x.astype(complex), axis=0),
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_as_numpys(name):
    array = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, 5.0]])
    told = []
    for m, x in ((np, array), (la, la.from_array(array, chunks=(1, 2)))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = WARNING[name](m, x)
            if m is la:
                found = found.compute(scheduler="sync")
        told.append({(w.category, str(w.message)) for w in caught})
    assert told[0] == told[1]


def test_weighted_means_do_not_overflow():
    array = np.array([200, 100, 250], "u1")
    x = la.from_array(array, chunks=2)
    assert la.average(x, weights=x).compute() == np.average(array, weights=array)


def test_weights_that_sum_to_zero():
    with pytest.raises(ZeroDivisionError, match="^Weights sum to zero, can't be normalized"):
        la.average(la.ones(3, chunks=2), weights=[1, -1, 0]).compute(scheduler="sync")


MASKED = np.ma.array([1.0, 2.0], mask=[True, False])


@pytest.mark.parametrize("use", [
    lambda: la.from_array(MASKED),
    lambda: la.asarray(MASKED),
    lambda: la.ones(2) + MASKED,
    lambda: la.where([True, False], MASKED, 0),
    lambda: la.concatenate([la.ones(2), MASKED]),
])
def test_masks_are_not_lost_silently(use):
    with pytest.raises(TypeError, match=r"the one of this masked array would be lost. Fill it"):
        use()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_become_arrays():
    matrix = np.matrix([[1, 2], [3, 4]])
    x = la.from_array(matrix, chunks=1)
    assert type((x * matrix).compute()) is np.ndarray
    assert np.array_equal((x * matrix).compute(), [[1, 4], [9, 16]])
    assert x[0].compute().shape == (2,)


def test_numbers_of_arrays_with_axes_are_numpys():
    for convert in (float, int, complex):
        told = []
        for one in (np.array([2.0]), la.ones(1) + 1):
            try:
                told.append(convert(one))
            except TypeError as error:
                told.append(str(error))
        assert told[0] == told[1]


def test_functions_of_numpy_that_are_not_there():
    with pytest.raises(TypeError) as raised:
        np.linalg.svd(la.ones((2, 2)))
    assert str(raised.value) == (
        "numpy.linalg.svd does not work on chunked arrays. Compute them first, "
        "numpy.linalg.svd(x.compute()), or apply it to each block by x.map_blocks(...)."
    )


class Failing:
    shape = (4, 6)
    dtype = np.dtype(float)

    def __getitem__(self, key):
        raise OSError("bad sector")


@pytest.mark.parametrize("use", [
    lambda x: (x + 1).sum(), lambda x: x.std(0), lambda x: (x - x.mean()).max(),
    lambda x: x[::2] @ x.T,
])
def test_tasks_name_the_users_line(use):
    x = la.from_array(Failing(), chunks=(2, 3))
    with pytest.raises(OSError, match="bad sector") as raised:
        use(x).compute(scheduler="sync")
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


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("kernels", ["tiles", "native"])
def test_each_line_warns_once_of_each_thing_and_is_named(scheduler, kernels):
    x = la.from_array(np.zeros(400_000), chunks=100_000)
    with warnings.catch_warnings(record=True) as caught, lazyflow.config.set(kernels=kernels):
        warnings.simplefilter("always")
        for _ in range(2):
            line = sys._getframe().f_lineno + 1
            (1 / x + x * np.inf).compute(scheduler=scheduler)
    told = [(str(w.message), w.filename, w.lineno) for w in caught]
    words = ["divide by zero encountered in divide", "invalid value encountered in multiply"]
    assert sorted(told) == sorted([(each, __file__, line) for each in words] * 2)


def test_lines_that_warned_are_quiet_by_pythons_own_filter():
    def at(x):
        return (1 / x).compute(scheduler="sync")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            at(la.zeros(3))
        (1 / la.zeros(3)).compute(scheduler="sync")
    assert len(caught) == 2


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
    x = la.from_array(Failing(), chunks=2).astype("f4")
    assert np.result_type(x, np.float32) == np.float32
    assert np.result_type(x, la.ones(2, dtype="i8"), 1j) == np.complex128


def test_no_option_is_taken_and_forgotten():
    a = np.array([1.0, np.nan])
    x = la.from_array(a)
    np.nan_to_num(x, copy=False)
    np.testing.assert_array_equal(x.compute(), [1.0, 0.0])
    with pytest.raises(ValueError, match="C order; got order='F'"):
        x.astype("f4", order="F")
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
