"""Arrays of records (structured dtypes): made of tuples, read and written by field, as in NumPy."""

import pickle

import numpy as np
import pytest
from array_checks import check, raised

import lazyflow.array as la

NESTED = np.dtype([
    ("a", "i4"), ("c", "f4", 3), ("t", "U3"), ("n", [("p", "i2"), ("q", "f8", (2, 2))]), ("o", "O"),
])
ONE = (9, [1, 2, 3], "long", (1, [[1, 2], [3, 4]]), [5])


def nested():
    a = np.zeros(5, NESTED)
    a["a"], a["t"], a["o"] = range(5), ["a", "bb", "ccc", "", "e"], [1, None, "x", (2,), 3.5]
    a["c"] = np.arange(15).reshape(5, 3)
    a["n"]["p"], a["n"]["q"] = range(5), np.arange(20).reshape(5, 2, 2)
    return a


def grid():
    a = np.zeros((4, 2), "i4,f8")
    a["f0"] = np.arange(8).reshape(4, 2)
    a["f1"] = a["f0"] / 2
    return a


READ = {
    "arrays": lambda m, x: x["c"],
    "arrays of nested records": lambda m, x: x["n"]["q"],
    "a nested field": lambda m, x: x["n"]["p"],
    "records": lambda m, x: x["n"],
    "texts": lambda m, x: x["t"],
    "objects": lambda m, x: x["o"],
    "several": lambda m, x: x[["t", "a"]],
    "one of several": lambda m, x: x[["a", "c"]]["c"],
    "one element": lambda m, x: x["c"][1],
    "of one element": lambda m, x: x[1]["c"],
    "parts": lambda m, x: x["c"][1:, ::-1],
    "of a part": lambda m, x: x[3:0:-1]["n"]["q"][:, 0],
    "where a mask holds": lambda m, x: x[x["a"] > 1]["c"],
    "by indices": lambda m, x: x[[3, 0]]["c"],
    "sums": lambda m, x: x["c"].sum(axis=0),
    "arithmetic": lambda m, x: x["c"] * 2 + x["a"][:, None],
    "transposed": lambda m, x: m.swapaxes(x["n"]["q"], 0, 2),
    "raveled": lambda m, x: x["n"]["q"].ravel(),
    "after reshape": lambda m, x: x[None].reshape(5, 1)["c"],
    "concatenated": lambda m, x: m.concatenate([x, x[:1]])["c"],
}


@pytest.mark.parametrize("chunks", [1, 2, -1])
@pytest.mark.parametrize("name", READ)
def test_fields(name, chunks):
    a = nested()
    wanted = READ[name](np, a)
    check(READ[name](la, la.from_array(a, chunks=chunks)), wanted)


WRITTEN = [
    ("a", 5), ("a", 2.7), ("a", [9, 8, 7, 6, 5]), ("a", np.arange(5.0)), ("a", np.ones((1, 1))),
    ("a", lambda x: x["a"][::-1] + 1), ("a", lambda x: x["a"][:1]), ("t", "wxyz"), ("o", "text"),
    ("o", lambda x: x["o"][::-1]), ("c", 1), ("c", [1, 2, 3]), ("c", [[1], [2], [3], [4], [5]]),
    ("c", np.arange(15).reshape(5, 3)), ("c", lambda x: x["c"][::-1] * 2),
    ("c", lambda x: x["c"][0]), ("c", lambda x: x["a"][:, None]), ("n", (7, 1.5)),
    ("n", lambda x: x["n"][::-1]), ("n", lambda x: x["n"][0]), (["a", "t"], (1, "z")),
    (["a", "t"], [(1, "z")] * 5), (["a", "t"], 3), (["t", "a"], lambda x: x[["t", "a"]][::-1]),
    (0, ONE), (slice(2), ONE), (slice(2), [ONE] * 2), ([4, 0], [ONE] * 2), (..., ONE),
    (slice(None), lambda x: x[::-1]), (slice(1, 3), lambda x: x[0]), (1, lambda x: x[0]),
    (lambda x: x["a"] > 2, ONE), (lambda x: x["a"] > 2, [ONE] * 2),
    (lambda x: x["a"] > 2, lambda x: x[:2]),
    ("a", [1, 2]), ("c", [1, 2, 3, 4]), ("c", np.arange(5)), ("a", "text"), ("none", 1),
    (["a", "none"], 1), (slice(2), [ONE] * 3),
]
WRITTEN_TO_A_GRID = [
    ("f0", 5), ("f0", [1, 2]), ("f1", lambda x: x["f0"]), (slice(2), (1, 2)), (1, (1, 2)),
    (1, [(1, 2), (3, 4)]), (slice(2), [(1, 2), (3, 4)]), ((1, 1), (3, 4)),
    (slice(2), [[(1, 2), (3, 4)], [(5, 6), (7, 8)]]), ((slice(None), 0), [(1, 2)] * 4),
    ([0, 1], [[(1, 2), (3, 4)], [(5, 6), (7, 8)]]), (lambda x: x["f0"] > 3, (1, 2)),
    (lambda x: x["f0"] > 3, [(1, 2)] * 4), (["f1", "f0"], lambda x: x[["f0", "f1"]]),
    (["f0"], 3), (["f0"], (3,)), ("f0", [1, 2, 3]), (slice(2), 7), (slice(2), [7, 8]),
]


@pytest.mark.parametrize("chunks", [1, 3, -1])
@pytest.mark.parametrize(("make", "key", "value"), [
    *[(nested, *each) for each in WRITTEN], *[(grid, *each) for each in WRITTEN_TO_A_GRID],
])
def test_what_is_written(make, key, value, chunks):
    def write(x):
        x[key(x) if callable(key) else key] = value(x) if callable(value) else value

    a = make()
    x = la.from_array(a.copy(), chunks=chunks)
    before = x.copy()
    try:
        write(a)
    except Exception as error:
        assert raised(lambda: write(x)) == (type(error), str(error))
    else:
        write(x)
        check(x, a)
    check(before, make())


def test_fields_change_in_place():
    a = nested()
    x = la.from_array(a.copy(), chunks=2)
    for each in a, x:
        each["a"] += 1
        each["c"] *= 2
    check(x, a)


def test_a_list_of_names_is_read_when_it_is_given():
    a = grid()
    x, names = la.from_array(a.copy(), chunks=2), ["f0"]
    x[names] = 3
    names[0] = "f1"
    a[["f0"]] = 3
    check(x, a)


def test_fields_of_unknown_length():
    a = nested()
    x = la.from_array(a, chunks=2)
    few, wanted = x[x["a"] > 1], a[a["a"] > 1]
    few["c"] = few["c"] + 1
    wanted["c"] += 1
    check(few, wanted)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_fields_on_schedulers(scheduler):
    a = grid()
    x = la.from_array(np.repeat(a, 3, axis=0), chunks=2).persist(scheduler=scheduler)
    x["f0"] = x["f1"][:, ::-1]
    wanted = np.repeat(a, 3, axis=0)
    wanted["f0"] = wanted["f1"][:, ::-1]
    check(pickle.loads(pickle.dumps(x)), wanted, scheduler)


@pytest.mark.parametrize(("value", "dtype"), [
    ([(1, 2), (3, 4)], "i4,i4"), ((1, 2), "i4,i4"), ([[(1, 2), (3, 4)]], "i4,f8"),
    ([1, 2], "i4,f8"),
    ([ONE, ONE], NESTED), ([((1, 2), 3)], [("a", "i4,i4"), ("b", "f8")]), ([(1, (2, 3))], "i4,2i4"),
    (np.array([1, 2]), "i4,f8"), (np.array([(1, 2)], "i8,i8"), "f4,i4"), ([], "i4,i4"),
])
@pytest.mark.parametrize("function", ["asarray", "array"])
def test_records_of_values(function, value, dtype):
    wanted = getattr(np, function)(value, dtype=dtype)
    x = getattr(la, function)(value, dtype=dtype)
    check(x[...] if x.ndim else x[None], wanted if wanted.ndim else wanted[None])
    for name in wanted.dtype.names:
        check(x[name], wanted[name])
