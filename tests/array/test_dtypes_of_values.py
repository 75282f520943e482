"""Dtypes without a length (str, "S", "V") or a unit ("M8"): NumPy's, before they are used."""

import pickle
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from array_checks import check, check_call

import lazyflow.array as la
from lazyflow import delayed

# NumPy 2.5 deprecates spans of no unit.
pytestmark = pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")

OBJECTS = {
    "str": ["a", "bb", "", "cccc", "é"],
    "S": ["a", b"bb", 12345, None, 1.25],
    "V": [b"ab", b"cd", b"ef", b"gh", b"\0\0"],
    "M8": ["2020", date(2021, 1, 2), "NaT", datetime(2020, 1, 1, 0, 0, 0, 7), "2020-01-01T05"],
    "m8": [np.timedelta64(3, "s"), timedelta(1), 7, None, np.timedelta64(1, "ms")],
}

OPERATIONS = {
    "as it is": lambda m, x: x,
    "slices": lambda m, x: x[:1],
    "take": lambda m, x: x[[4, 3, 0, 1]],
    "take by an array": lambda m, x: m.take(x, [[3, 0], [1, 1]]),
    "masks": lambda m, x: x[x == x[1]],
    "where": lambda m, x: m.where(x == x[3], x[:1], x[3:4]),
    "concatenate": lambda m, x: m.concatenate([x[:1], x[2:], x]),
    "stack": lambda m, x: m.stack([x, x[::-1]]),
    "roll": lambda m, x: m.roll(x, 2),
    "pad": lambda m, x: m.pad(x, 2, "edge"),
    "repeat": lambda m, x: m.repeat(x, 2),
    "reshape": lambda m, x: x[:4].reshape(2, 2).T,
    "setitem": lambda m, x: with_item(m, x),
    "setitem by a mask": lambda m, x: with_item(m, x, x == x[0]),
    "unique": lambda m, x: m.unique(x),
    "sort": lambda m, x: m.sort(x),
}


def with_item(m, x, key=1):
    y = x.copy()
    y[key] = x[3]
    return y


def objects(kind):
    """Return an array in memory, and one that has to be computed."""
    a = np.array(OBJECTS[kind], object)
    return a, la.from_array(a, chunks=2).map_blocks(np.copy, dtype=object)


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_keep_what_is_longest(name, kind):
    call = OPERATIONS[name]
    a, lazy = objects(kind)
    try:
        wanted = call(np, a.astype(kind))
    except TypeError:  # void bytes have no order
        with pytest.raises(TypeError):
            call(la, lazy.astype(kind)).compute()
        return
    check(call(la, lazy.astype(kind)), wanted)
    check(call(la, la.from_array(a, chunks=2).astype(kind)), wanted)


@pytest.fixture(params=["sync", "threads", "processes"])
def scheduler(request):
    return request.param


@pytest.mark.parametrize("kind", OBJECTS)
def test_texts_and_dates_of_objects_are_whole_everywhere(kind, scheduler):
    a, lazy = objects(kind)
    wanted = a.astype(kind)
    x = lazy.astype(kind)
    assert x.nbytes == wanted.nbytes
    check(x[[3, 0]], wanted[[3, 0]], scheduler)
    kept = x.persist(scheduler=scheduler)
    check(la.roll(kept, 1), np.roll(wanted, 1), scheduler)
    check(pickle.loads(pickle.dumps(x))[::-1], wanted[::-1], scheduler)


SOURCES = [
    np.array([True, False]), np.array([1, -22]), np.array([1, 2], "u1"), np.array([0.5, 2e100]),
    np.array([1, 2], "f4"), np.array([1j, 2]), np.array(["2020", "2020-02-03T04"]),
    np.array([b"2020", b"NaT"]), np.array(["2020-01-01", "NaT"], "M8[ms]"),
    np.array([3, 4], "m8[s]"), np.array([3, 4], ">m8[s]"), np.array(["1", "22"], ">U2"),
    np.array([b"ab", b"c"], "V3"), np.array([(1, 2.0)], "i4,f8"), np.array([], object),
    np.array([None, 2], object),
    np.array(["2020", "NaT"], object), np.array("text", object), np.array([b"ab", b"cde"], object),
    np.array(["a", "bbb"], np.dtypes.StringDType()), np.array([["a", "bb"], ["ccc", ""]], object),
]
OPEN = [str, bytes, "V", "M8", "m8", ">U", ">M8", np.str_, ("U", 0), [("a", str)]]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", OPEN, ids=str)
@pytest.mark.parametrize("a", SOURCES, ids=lambda a: f"{a.dtype}-{a.size}")
def test_casts_are_those_of_numpy(a, dtype):
    wanted = outcome(lambda: a.astype(dtype))
    for chunks in (-1, 1):
        x = la.from_array(a, chunks=chunks)
        if isinstance(wanted, type):
            assert outcome(lambda x=x: x.astype(dtype).compute()) is wanted
        else:
            check(x.astype(dtype), wanted)
            check(la.asarray(x, dtype), wanted)


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error)


def test_the_unit_is_known_to_arithmetic():
    a = np.array(["2020", "2020-01-01T01:02:03.004"], object)
    x = la.from_array(a, chunks=1).astype("M8") + np.timedelta64(1, "s")
    check(x, a.astype("M8") + np.timedelta64(1, "s"))


def test_lengths_of_masked_and_summed_objects():
    a = np.array([["a", "bb", "c"], ["dddd", "", "ee"]], object)
    x = la.from_array(a, chunks=1)
    check(x.sum(axis=0).astype(str), a.sum(axis=0).astype(str))
    check(x[x != "a"].astype(str), a[a != "a"].astype(str))
    check(x.sum().astype(str)[None], np.array([a.sum()]))


@pytest.mark.parametrize("call", [
    lambda m: m.asarray([1, "abc"], dtype=str), lambda m: m.asarray([1, 2.5], dtype="S"),
    lambda m: m.asarray([1, 300], dtype="u1"), lambda m: m.asarray(300, dtype="u1"),
    lambda m: m.asarray(["2020", "2020-01-01"], dtype="M8"), lambda m: m.asarray(1.5, dtype=str),
    lambda m: m.asarray([[1, 2], [3]], dtype=object), lambda m: m.asarray([None, 1], dtype=float),
    lambda m: m.zeros(3, str), lambda m: m.ones(3, "S"), lambda m: m.zeros(2, "V"),
    lambda m: m.full(3, "abc", str), lambda m: m.full(2, "abc", "V"), lambda m: m.eye(2, dtype=str),
    lambda m: m.tri(2, dtype=str), lambda m: m.identity(2, "S"), lambda m: m.zeros_like([1], str),
    lambda m: m.linspace(0, 1, 3, dtype=str), lambda m: m.logspace(0, 1, 3, dtype="S"),
    lambda m: m.zeros(3, "M8"), lambda m: m.arange(3, dtype=str),
])
def test_new_arrays_have_the_types_of_numpy(call):
    check_call(call)


@pytest.mark.parametrize("call", [
    lambda m, x, y: m.concatenate([x, y], dtype=str),
    lambda m, x, y: m.stack([x, y], dtype="S", casting="unsafe"),
    lambda m, x, y: m.hstack([x, x], dtype="M8", casting="unsafe"),
    lambda m, x, y: m.concatenate([x.astype(object), y], dtype=str, casting="unsafe"),
    lambda m, x, y: m.add(y, y, dtype="U"),
    lambda m, x, y: x.view("V"), lambda m, x, y: x.view("S"),
    lambda m, x, y: m.einsum("i->", x, dtype=str),
])
def test_functions_give_texts_a_length(call):
    check_call(call, np.array([1, 22]), np.array(["abc", "d"]))


def texts(block):
    return block.astype(str)


def halves(block):
    return block / 2 if block[0] > 1 else block


def test_what_is_kept_has_the_dtype_of_its_blocks(scheduler):
    """Where nobody said it: a function was tried on ones, which are shorter than the values."""
    a = np.array(["a", "bb", "cccc"], object)
    x = la.from_array(a, chunks=1).map_blocks(texts).persist(scheduler=scheduler)
    found = x[[2, 0, 1]].compute(scheduler=scheduler)
    assert found.dtype == x.dtype == "<U4"
    assert found.tolist() == ["cccc", "a", "bb"]
    n = la.vectorize(str)(la.from_array(np.array([1, 22]), chunks=-1)).persist(scheduler=scheduler)
    check(n[::-1], np.array(["22", "1"]), scheduler)
    again = n.persist(scheduler=scheduler)
    check(again.repeat(2), np.array(["1", "1", "22", "22"]), scheduler)


def test_kept_blocks_of_several_types_are_refused():
    x = la.from_array(np.array([1, 3, 5]), chunks=1).map_blocks(halves).persist()
    for _ in range(2):
        with pytest.raises(TypeError, match=r"dtypes: float64, int64. Pass dtype= to the func"):
            x[[2, 0]]
    assert x.compute().tolist() == [1, 1.5, 2.5]


def test_what_is_pickled_is_held_to_its_dtype():
    x = la.from_array(np.array(["a", "bb"], object), chunks=1).map_blocks(texts)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == "<U1"
    with pytest.raises(TypeError, match=r"returned <U2 for block \(1,\), but <U1 was expected"):
        y[[1, 0]].compute()


class Stored:
    shape = (2,)

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)

    def __getitem__(self, key):
        raise AssertionError("nothing is read")


@pytest.mark.parametrize("dtype", [str, "S", "V"])
def test_who_says_a_dtype_says_its_length(dtype):
    x = la.ones(3, dtype=object, chunks=1)
    for call in (
        lambda: x.map_blocks(texts, dtype=dtype), lambda: la.from_array(Stored(dtype)),
        lambda: la.from_delayed(delayed(texts)(1), (1,), dtype),
        lambda: la.apply_along_axis(texts, 0, x, dtype=dtype, shape=(3,)),
    ):
        with pytest.raises(TypeError, match="does not say how long the strings are; give the len"):
            call()
