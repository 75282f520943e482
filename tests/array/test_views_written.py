"""What is written into a view is in what it is a view of, and the other way round, as in NumPy."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow.array.nodes.expr import below


def matrix():
    return np.arange(12.0).reshape(3, 4)


#: Views of a matrix of NumPy or of ours.
VIEWS = {
    "slice": lambda x: x[1:3],
    "step": lambda x: x[::-2, 1:],
    "row": lambda x: x[-1],
    "element": lambda x: x[1, 2, ...],
    "whole": lambda x: x[...],
    "all": lambda x: x[:],
    "element of a row": lambda x: x[1][2:3],
    "new axis": lambda x: x[None, :, 0],
    "slice of a slice": lambda x: x[1:][:, ::2],
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "row of T": lambda x: x.T[1],
    "transpose": lambda x: x.transpose(1, 0),
    "np.transpose": lambda x: np.transpose(x, (-1, 0)),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "reshape": lambda x: x.reshape(2, -1),
    "np.reshape": lambda x: np.reshape(x, (4, 3)),
    "ravel": lambda x: x.ravel(),
    "part of ravel": lambda x: x.ravel()[3:9:2],
    "reshape of a slice": lambda x: x[1:].reshape(-1),
    "reshape that copies": lambda x: x[:, 1:].reshape(-1),
    "ravel of flip, which copies": lambda x: np.flip(x).ravel(),
    "reshape of flip": lambda x: np.flip(x).reshape(-1),
    "ravel of one axis, which copies": lambda x: x[0, ::2].ravel(),
    "ravel K of T": lambda x: x.T.ravel("K"),
    "ravel A of T": lambda x: x.T.ravel("A"),
    "ravel of T, which copies": lambda x: x.T.ravel(),
    "ravel of T that does not": lambda x: x.T.ravel("F"),
    "reshape F": lambda x: x.T.reshape(-1, order="F"),
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze axis": lambda x: np.squeeze(x[None], axis=0),
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)),
    "atleast_3d": np.atleast_3d,
    "flip": np.flip,
    "flipud": np.flipud,
    "rot90": np.rot90,
    "split": lambda x: np.split(x, 2, axis=1)[1],
    "vsplit": lambda x: np.vsplit(x, [1])[0],
    "real": lambda x: x.real,
    "np.real": lambda x: np.real(x),
    "view": lambda x: x.view("i8").view("f8"),
    "iteration": lambda x: list(x)[1],
    "copy": lambda x: x.copy(),
    "flatten": lambda x: x.flatten(),
    "astype": lambda x: x.astype("f8"),
    "indices": lambda x: x[[0, 2]],
    "mask": lambda x: x[np.array([True, False, True])],
    "take": lambda x: x.take([0, 1], 0),
    "sum": lambda x: x.sum(axis=0),
    "arithmetic": lambda x: x + 0,
}


def _fill(y):
    y[...] = 50


def _first(y):
    y.T[(Ellipsis, slice(1))[: y.ndim + 1 if y.ndim else 1]] = -1


def _add(y):
    y += 7


def _out(y):
    np.multiply(y, 3, out=y)


def _item(y):
    y[(0,) * y.ndim] *= -9


def _mask(y):
    y[y > 5] = 0


WRITES = {f.__name__: f for f in (_fill, _first, _add, _out, _item, _mask)}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", VIEWS)
def test_a_write_into_a_view_is_a_write_into_its_base(name, write):
    ours, theirs = la.from_array(matrix(), chunks=2) + 0, matrix()
    for x in ours, theirs:
        WRITES[write](VIEWS[name](x))
    np.testing.assert_array_equal(ours.compute(), theirs)


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_copies_that_are_kept(name):
    found = []
    for x in la.from_array(matrix(), chunks=2) + 0, matrix():
        y, z = VIEWS[name](x), VIEWS[name](x)
        x[1] = 30
        _item(y)
        x += 1
        after = VIEWS[name](x)
        _add(z)
        found.append([x, y, z, after])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours.compute(), theirs)


def _steps():
    bound = st.one_of(st.none(), st.integers(-4, 4))
    step = st.one_of(st.none(), st.sampled_from([1, 2, -1, -2]))
    pick = st.builds(slice, bound, bound, step)
    return st.lists(st.tuples(
        st.sampled_from(["slice", "row", "T", "reshape", "ravel", "new", "flip", "copy",
                         "set", "set", "fill", "add", "from"]),
        st.integers(0, 99), st.integers(0, 99), pick, pick,
    ), min_size=2, max_size=12)


def _run(x, steps):
    pool = [x]
    for name, one, other, pick, last in steps:
        x, y = pool[one % len(pool)], pool[other % len(pool)]
        if name == "slice":
            pool.append(x[(..., last) if x.ndim else ...])
        elif name == "row":
            pool.append(x[other % x.shape[0], ...] if x.ndim and x.shape[0] else x[...])
        elif name == "T":
            pool.append(x.transpose(np.roll(range(x.ndim), other).tolist()))
        elif name == "reshape":
            pool.append(x.reshape((2, x.size // 2) if x.size % 2 == 0 else (1, x.size)))
        elif name == "ravel":
            pool.append(x.ravel())
        elif name == "new":
            pool.append(x[None, ..., None])
        elif name == "flip":
            pool.append(np.flip(x) if x.ndim else x[...])
        elif name == "copy":
            pool.append(x.copy())
        elif name == "set":
            x[(pick,) if x.ndim else ...] = other
        elif name == "fill":
            x[...] = other
        elif name == "add":
            x += other
        elif name == "from" and x.shape == y.shape:
            x[...] = y + 1
    return pool


@settings(max_examples=60, deadline=None)
@given(_steps())
def test_programs_of_views_and_writes(steps):
    theirs = _run(np.arange(24.0).reshape(2, 3, 4), steps)
    ours = _run(la.arange(24.0, chunks=5).reshape(2, 3, 4).rechunk((1, 2, 3)), steps)
    for x, y in zip(la.compute(*ours), theirs, strict=True):
        assert x.shape == y.shape
        np.testing.assert_array_equal(x, y)


def test_one_element_is_a_copy():
    found = []
    for x in la.arange(5.0, chunks=2), np.arange(5.0):
        total = x[0]
        for y in x[1:]:
            total += y
        kept = x[1]
        x[1] = 70
        x[2] += 5
        found.append([total, kept, x])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours.compute(), theirs)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_complex_numbers(part):
    ours, theirs = la.arange(6, chunks=4) * (1 + 2j), np.arange(6) * (1 + 2j)
    for x in ours, theirs:
        getattr(x, part)[1:3] = [np.inf, 5]
        operator.attrgetter(part)(x[::2])[...] += 1
    np.testing.assert_array_equal(ours.compute(), theirs)


def test_another_type_of_the_same_bytes():
    ours, theirs = la.arange(8, dtype="i4", chunks=4), np.arange(8, dtype="i4")
    for x in ours, theirs:
        x.view("u1")[::4] = 9
        x.reshape(2, 4)[1].view("i8")[0] = -1
    np.testing.assert_array_equal(ours.compute(), theirs)


def test_views_of_what_has_unknown_lengths():
    base = la.arange(10, chunks=3)
    x = base[base > 3]
    y, z = x[1:3], x[::-1]
    y[:] = 0
    x[-1] = 70
    z[1] += 1
    assert y.compute().tolist() == [0, 0]
    assert x.compute().tolist() == [4, 0, 0, 7, 9, 70]
    assert z.compute().tolist() == [70, 9, 7, 0, 0, 4]
    assert base.compute().tolist() == list(range(10))


def test_what_was_computed_of_a_view_stays():
    x = la.zeros(4, chunks=2)
    y = x[1:]
    z, kept = y + 1, y.persist()
    x[:] = 9
    assert z.compute().tolist() == [1, 1, 1]
    assert kept.compute().tolist() == [0, 0, 0]
    kept[:] = 5
    assert x.compute().tolist() == [9, 9, 9, 9]


def test_an_in_place_operation_on_an_item_writes_once():
    x = la.zeros((8, 8), chunks=4)
    x[1:3] += 1
    assert sum(node.name == "setitem" for node in below([x.expr])) == 1
    x[::2][1:] *= 3
    x[0:1] = x[1:2]
    assert x[:, 0].compute().tolist() == [1, 1, 3, 0, 0, 0, 0, 0]


def test_the_flat_iterator_of_what_was_computed_refuses_writes():
    x = la.zeros((2, 2))
    with pytest.raises(ValueError, match="read-only"):
        x.flat[1] = 9
    x.ravel()[1] = 9
    assert x.flat[1] == 9.0


def test_a_long_chain_of_views():
    x = y = la.zeros(3)
    for _ in range(60):
        y = y[::-1][None][0]
    y[0] = 1
    x[1] = 2
    assert x.compute().tolist() == [1, 2, 0]
    assert y.compute().tolist() == [1, 2, 0]


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_on_schedulers(scheduler):
    x = la.zeros((4, 4), chunks=2)
    x[1:3][:, 0] = 9
    x.T[1] += x[0] + 1
    expected = np.zeros((4, 4))
    expected[1:3, 0] = 9
    expected[:, 1] += 1
    np.testing.assert_array_equal(x.compute(scheduler=scheduler), expected)
