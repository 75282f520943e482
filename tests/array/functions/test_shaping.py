"""Joining and shaping arrays, against NumPy."""

from math import prod

import numpy as np
import pytest
from array_checks import check
from array_examples import Store
from array_strategies import lengths
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lazyflow as lf
import lazyflow.array as la
from lazyflow.array.chunks import parse_bytes
from lazyflow.array.nodes.expr import below
from lazyflow.array.nodes.reshaped import Reshape
from lazyflow.array.passes.rewrites import explain_passes, optimize


def chunked(draw, a, source=None):
    chunks = tuple(draw(lengths(n)) for n in a.shape)
    x = la.from_array(a, chunks=chunks)
    kind = source or draw(st.sampled_from(["memory", "step", "tasks"]))
    if kind == "step":
        x = x + 0 if a.dtype != bool else x | False
    elif kind == "tasks":
        x = x.persist()
    return x


@st.composite
def keys(draw, shape):
    found = []
    for n in shape:
        kind = draw(st.integers(0, 3))
        if kind == 0 and n:
            found.append(draw(st.integers(-n, n - 1)))
        elif kind == 1:
            found.append(slice(None))
        else:
            bound = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
            found.append(slice(draw(bound), draw(bound), step))
    return tuple(found)


# -- reshape --------------------------------------------------------------------------------------


@st.composite
def two_shapes(draw):
    """Two shapes of one size, made of groups of axes."""
    old, new = [], []
    for _ in range(draw(st.integers(1, 3))):
        factors = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=4))
        other = draw(st.permutations(factors))
        for shape, one in ((old, factors), (new, other)):
            cuts = sorted(draw(st.lists(st.integers(0, len(one)), max_size=2)))
            bounds = zip([0, *cuts], [*cuts, len(one)], strict=True)
            shape.extend(prod(one[a:b]) for a, b in bounds)
    return tuple(old), tuple(new)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_reshape_of_any_shape_and_chunks(data):
    old, new = data.draw(two_shapes())
    assume(prod(old) <= 200)
    a = np.arange(prod(old)).reshape(old)
    x = chunked(data.draw, a)
    y = x.reshape(new)
    check(y, a.reshape(new))
    assert prod(y.chunksize) <= max(prod(x.chunksize), 1)
    key = data.draw(keys(new))
    check(y[key], a.reshape(new)[key])
    check((y * 2).reshape(old), a * 2)
    for options in ({"merge_chunks": False}, {"limit": 10 * 8}):
        check(x.reshape(new, **options), a.reshape(new))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_operations_on_both_sides_of_reshapes(data):
    """Also where what is reshaped has other users, or an operand of another shape."""
    old, new = data.draw(two_shapes())
    assume(0 < prod(old) <= 200)
    a = np.arange(prod(old)).reshape(old)
    x = chunked(data.draw, a)
    other = chunked(data.draw, a * 3)

    which = [data.draw(st.integers(0, n)) for n in (5, 1, 2)]

    def program(a, other):
        operand = (1, a, other, a.sum(), a[:1], a[..., :1])[which[0]]
        inner = a * 2 + operand
        outer = inner.reshape(new) - (7, a.reshape(new))[which[1]]
        return outer * 3 + (inner, a, outer)[which[2]].reshape(new)

    check(program(x, other), program(a, a * 3))


def test_reshapes_stay_where_nothing_is_fused():
    x = (la.ones(12, chunks=6).persist(scheduler="sync") + 1).reshape(4, 3) * 2
    (made,) = optimize([x.expr], True, False)
    assert sum(isinstance(node, Reshape) for node in below([made.inputs[0]])) == 1
    assert "stays above add (96 bytes in 2 blocks): fusion is off" in (
        explain_passes([x.expr], True, False)
    )


@pytest.mark.parametrize("keep", [True, False])
def test_reshapes_move_only_where_that_saves_tasks(keep):
    p, q, r = [la.ones(12, chunks=6).persist(scheduler="sync") for _ in range(3)]
    for x, moves in [
        ((p + 1).reshape(4, 3), False),
        ((p + 1).reshape(4, 3) * 2, True),
        ((p + q).reshape(4, 3).sum(axis=1), True),
        ((p + q * r).reshape(4, 3) * 2, False),
        ((p + q * la.arange(12, chunks=6)).reshape(4, 3) * 2, True),
    ]:
        said = explain_passes([x.expr], keep).splitlines()[3]
        assert said.startswith("reshapes down: goes below") == moves, (x, said)


def test_reshape_never_makes_chunks_larger():  # dask#8110
    x = la.ones((100, 200, 300), chunks=(10, 20, 30))
    for shape in ((20_000, 300), (-1,), (300, 200, 100), (100, 60_000), (10, 10, 200, 300)):
        assert prod(x.reshape(shape).chunksize) <= 6_000, shape
        assert x.reshape(shape).npartitions <= 4_000, shape


def test_reshape_keeps_chunks_that_are_runs():
    x = la.ones((12, 10), chunks=(3, 10)) + 1
    assert x.reshape(120).chunks == ((30,) * 4,)
    assert x.reshape(4, 3, 10).chunks == ((1,) * 4, (3,), (10,))
    assert (la.ones(12, chunks=6) + 1).reshape(4, 3).chunks == ((2, 2), (3,))
    assert (la.ones((4, 6, 5), chunks=(1, 3, 5)) + 1).reshape(24, 5).chunks == ((3,) * 8, (5,))
    assert (la.ones((6, 5), chunks=(2, 2)) + 1).reshape(2, 3, 5).chunks[2] == (2, 2, 1)


def test_reshape_options_for_chunks():
    x = la.ones((6, 8), chunks=(6, 2)) + 1
    assert x.reshape(48, merge_chunks=False).chunks == ((2,) * 24,)
    assert x.reshape(48).chunks == ((8,) * 6,)
    assert max(x.reshape(48, limit=4 * 8).chunks[0]) == 4
    assert max(x.reshape(48, limit="128 B").chunks[0]) == 16


def test_reshape_of_memory_is_a_view():
    a = np.arange(24.0)
    x = la.from_array(a, chunks=6).reshape(4, 6)
    assert x.expr.free and np.shares_memory(x.expr.array, a)


SOURCES = {
    "arange": (lambda n, chunks: la.arange(2, n + 2, chunks=chunks)),
    "arange of floats": (lambda n, chunks: la.arange(n, dtype="f4", chunks=chunks) / 3),
    "arange of complex": (lambda n, chunks: la.arange(n, dtype="c8", chunks=chunks)),
    "linspace": (lambda n, chunks: la.linspace(-1, 2, n, chunks=chunks)),
    "geomspace": (lambda n, chunks: la.geomspace(1, 9, n, chunks=chunks)),
    "full": (lambda n, chunks: la.full(n, "ab", chunks=chunks)),
    "of objects": (lambda n, chunks: la.full(n, None, dtype=object, chunks=chunks)),
    "random": (lambda n, chunks: la.random.default_rng(1).random(n, chunks=chunks)),
    "integers": (lambda n, chunks: la.random.default_rng(1).integers(9, size=n, chunks=chunks)),
    "normal": (lambda n, chunks: la.random.default_rng(1).normal(size=n, chunks=chunks)),
    "poisson": (lambda n, chunks: la.random.default_rng(1).poisson(5.0, size=n, chunks=chunks)),
}


@pytest.mark.parametrize("shape", [(6, 1000), (2, 3, 10, 100), (60, 1, 100), (6000, 1)])
@pytest.mark.parametrize("source", SOURCES)
def test_reshape_of_a_formula(source, shape):
    """In any chunks afterwards, and of any part."""
    x = SOURCES[source](6000, 700)
    right = x.compute().reshape(shape)
    y = x.reshape(shape)
    assert prod(y.chunksize) <= 700
    check(y, right)
    check(y.reshape(x.shape), right.ravel())
    check(y.rechunk((4,) + (7,) * (len(shape) - 1)), right)
    check(y.T, right.T)
    check(y[1:5:2, ..., -1:], right[1:5:2, ..., -1:])
    check(y[..., ::-3], right[..., ::-3])


@pytest.mark.parametrize("make", [la.ones, la.arange, la.random.default_rng(0).random])
def test_a_formula_stays_one_when_it_is_reshaped(make):
    """So that operations on it read no memory."""
    x = make(1_000_000, chunks=100_000).reshape(1000, 1000)
    assert x.expr.free
    assert "fuse: 2 operations run as 1 group" in la.report((x + 1).sum(), explain=True)


def test_reshape_in_its_forms():
    a = np.arange(24)
    x = la.from_array(a, chunks=5)
    for found in (x.reshape(2, 3, 4), x.reshape((2, 3, 4)), x.reshape(2, -1, 4),
                  np.reshape(x, (2, 3, 4)), la.reshape(x, (2, 3, 4)), x.reshape([2, 3, -1])):
        check(found, a.reshape(2, 3, 4))
    check(x.reshape(24, 1).ravel(), a)
    check(x.reshape(4, 6).flatten(), a)
    check(np.ravel(x.reshape(4, 6).T), a.reshape(4, 6).T.ravel())
    check(la.ones((), chunks=()).reshape(1, 1), np.ones((1, 1)))
    check(x[:1].reshape(()), np.array(0))
    check(x[:0].reshape(3, 0, 2), np.zeros((3, 0, 2), int))
    check(la.ones((2, 0), chunks=1).reshape(-1), np.ones(0))
    check(la.reshape([[1, 2], [3, 4]], 4), np.arange(1, 5))
    for element in (np.array("", "U3"), np.array(None)):  # which know less than their arrays
        check(la.from_array(element).reshape(1, 1), element.reshape(1, 1))


def test_slices_of_what_was_reshaped_reach_the_source(here):
    store = Store(np.arange(1200.0))
    x = la.from_array(store, chunks=100).reshape(12, 100)
    check(x[3:5].sum(1), np.arange(1200.0).reshape(12, 100)[3:5].sum(1))
    assert {(key[0].start, key[0].stop) for key in store.read} == {(300, 400), (400, 500)}


@pytest.mark.parametrize(("shape", "words"), [
    ((5, 5), r"cannot reshape array of size 24 into shape \(5,5\): its shape is \(24,\)"),
    ((-1, -1), "can only specify one unknown dimension"),
    ((-1, 7), r"cannot reshape array of size 24 into shape \(-1,7\)"),
    ((-2, -12), "cannot reshape"),
])
def test_reshape_errors(shape, words):
    with pytest.raises(ValueError, match=words):
        la.arange(24, chunks=5).reshape(shape)


def test_reshape_refuses_other_orders():
    x = la.ones(4)
    with pytest.raises(ValueError, match=r"one of 'C', 'F', or 'A' \(got 'K'\)"):
        x.reshape(2, 2, order="K")


def test_reshape_with_a_copy_or_without():
    x = la.arange(4, chunks=3)
    copied, seen = x.reshape(2, 2, copy=True), x.reshape(2, 2, copy=False)
    x[0] = 9
    assert copied[0, 0] == 0
    assert seen[0, 0] == 9
    with pytest.raises(ValueError, match="Unable to avoid creating a copy"):
        seen.T.reshape(4, copy=False)


@pytest.mark.parametrize("shape", [(2, 3, 4), (4, 6), (24,), (1, 24), (2, 12, 1)], ids=str)
@pytest.mark.parametrize("given", [np.asarray, np.asfortranarray, lambda a: a[::-1, ...].T], ids=[
    "C", "F", "reversed"])
@pytest.mark.parametrize("seen", [
    lambda x: x, lambda x: x.T, lambda x: x.T + 1, lambda x: x[..., ::-1], lambda x: x[::2].T,
    lambda x: x.T[::2], lambda x: x.T[::3] + 1, lambda x: (x.T + 1)[::2], lambda x: x.T[::2] * 2,
    lambda x: x.T[::-1].astype(float), lambda x: x[None].T, lambda x: x.T.copy(),
    lambda x: x.transpose((*range(1, x.ndim), 0)), lambda x: x.reshape(2, -1, 2).T,
])  # fmt: skip
def test_orders_are_those_of_numpys_memory_after_the_same_operations(seen, given, shape):
    memory = given(np.arange(24).reshape(shape))
    a, x = seen(memory), seen(la.from_array(memory, chunks=2))
    check(x.ravel("K"), a.ravel("K"))
    for order in ("F", "A"):
        check(x.flatten(order=order), a.flatten(order=order))
        check(np.reshape(x, (-1, 1), order), np.reshape(a, (-1, 1), order))


def test_orders_see_the_gaps_of_the_array_that_was_given():
    whole = np.asfortranarray(np.arange(48).reshape(8, 6))
    for memory in (whole[::2], whole[1:], whole[:, ::2], whole[::-1], whole[:, 2:]):
        x = la.from_array(memory, chunks=2)
        for order in ("A", "K"):
            check(x.ravel(order), memory.ravel(order))
            check(x.T.ravel(order), memory.T.ravel(order))


# -- concatenate ----------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_concatenate_of_any_arrays(data):
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts, arrays = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        shape[axis] = data.draw(st.integers(0, 6))
        dtype = data.draw(st.sampled_from(["f8", "i4", "i8", "f4", "?"]))
        a = (np.arange(prod(shape)) % 100).reshape(shape).astype(dtype)
        arrays.append(a)
        parts.append(a if data.draw(st.booleans()) else chunked(data.draw, a))
    expected = np.concatenate(arrays, axis)
    found = la.concatenate(parts, axis)
    check(found, expected)
    key = data.draw(keys(expected.shape))
    check(found[key], expected[key])
    check((found + 1)[key].T, np.transpose((expected + 1)[key]))


CASES = [
    ("stack", [(3, 4)] * 3, {}),
    ("stack", [(3, 4)] * 3, {"axis": 1}),
    ("stack", [(3, 4)] * 2, {"axis": -1}),
    ("stack", [()] * 3, {}),
    ("hstack", [(3,), (4,)], {}),
    ("hstack", [(3, 2), (3, 5)], {}),
    ("hstack", [(), (3,)], {}),
    ("vstack", [(3,), (3,)], {}),
    ("vstack", [(2, 3), (3,), (1, 3)], {}),
    ("dstack", [(3,), (3,)], {}),
    ("dstack", [(3, 2), (3, 2)], {}),
    ("dstack", [(3, 2, 2), (3, 2)], {}),
    ("column_stack", [(3,), (3, 2), (3,)], {}),
    ("concatenate", [(3, 2), (2, 2)], {"axis": 0}),
    ("concatenate", [(3, 2), (5,), ()], {"axis": None}),
    ("concatenate", [(3, 2), (2, 2)], {"dtype": "f4", "casting": "unsafe"}),
]


@pytest.mark.parametrize(("name", "shapes", "options"), CASES)
@pytest.mark.parametrize("module", [np, la])
def test_joining(module, name, shapes, options):
    arrays = [np.arange(prod(s), dtype=float).reshape(s) + 10 * i for i, s in enumerate(shapes)]
    parts = [la.from_array(a, chunks=2) if a.ndim else la.asarray(a) for a in arrays]
    check(getattr(module, name)(parts, **options), getattr(np, name)(arrays, **options))
    mixed = [parts[0], *arrays[1:]]
    check(getattr(module, name)(mixed, **options), getattr(np, name)(arrays, **options))


def test_append_and_concat():
    a, b = np.arange(6).reshape(2, 3), np.arange(3.0).reshape(1, 3)
    x = la.from_array(a, chunks=2)
    check(np.append(x, b), np.append(a, b))
    check(la.append(x, b, axis=0), np.append(a, b, axis=0))
    check(la.concat([x, x], axis=1), np.concatenate([a, a], 1))
    check(la.concatenate(x), np.concatenate(a))


@pytest.mark.parametrize("nested", [
    lambda x: x[:2, :3],
    lambda x: [x[:2, :3], x[:2, 3:]],
    lambda x: [[x[:2], x[:2, :1]], [x[2:], x[2:, :1]]],
    lambda x: [[x[0]], [x[1]]],
    lambda x: [[x[0, 0], 1.0], [2.0, x[1, 1]]],
    lambda x: [[[x[:2]]], [[x[2:4]]]],
    lambda x: [x[0], 5.0],
])
def test_block(nested):
    a = np.arange(20.0).reshape(4, 5)
    x = la.from_array(a, chunks=(2, 2))
    check(la.block(nested(x)), np.block(nested(a)))
    check(np.block(nested(x)), np.block(nested(a)))


def test_joining_unknown_lengths():
    a = np.arange(10)
    x = la.from_array(a, chunks=4)
    odd = la.Array(x.expr)
    blocks = [lf.delayed(np.flatnonzero)(a[i:i + 5] % 2) for i in (0, 5)]
    unknown = [la.from_delayed(block, (None,), np.int64) for block in blocks]
    found = la.concatenate([unknown[0], odd, unknown[1]])
    assert found.shape == (None,)
    expected = np.concatenate([np.flatnonzero(a[:5] % 2), a, np.flatnonzero(a[5:] % 2)])
    np.testing.assert_array_equal(found.compute(), expected)
    np.testing.assert_array_equal(found[2:-1].compute(), expected[2:-1])
    np.testing.assert_array_equal(found.reshape(-1).compute(), expected)
    np.testing.assert_array_equal((unknown[0].reshape(1, -1)).compute(), [[1, 3]])
    np.testing.assert_array_equal(
        la.stack(unknown[:1] * 2).compute(), [np.flatnonzero(a[:5] % 2)] * 2
    )


def test_out_and_casting():
    x, out = la.ones(2), la.zeros(4)
    assert np.concatenate([x, x], out=out) is out
    check(out, np.ones(4))
    with pytest.raises(TypeError, match="Cannot cast array data"):
        la.concatenate([x, x], dtype=int, casting="safe")


@pytest.mark.parametrize(("call", "words"), [
    (lambda: la.concatenate([]), "need at least one array to concatenate"),
    (lambda: la.stack([]), "need at least one array to stack"),
    (lambda: la.concatenate([la.ones(3), la.ones((3, 3))]), "the array at index 1 has 2 dim"),
    (lambda: la.concatenate([la.ones((2, 3)), la.ones((2, 4))]),
     "along dimension 1, the array at index 0 has size 3 and the array at index 1 has size 4"),
    (lambda: la.concatenate([la.asarray(1), la.asarray(2)]), "zero-dimensional arrays"),
    (lambda: la.stack([la.ones(3), la.ones(4)]), "all input arrays must have the same shape"),
    (lambda: la.block([[la.ones(1)], la.ones(1)]), "List depths are mismatched"),
    (lambda: la.block([1, []]), "List depths are mismatched"),
    (lambda: la.block([]), "List at arrays cannot be empty"),
    (lambda: la.block([[1], []]), r"List at arrays\[1\] cannot be empty"),
    (lambda: la.concatenate([la.ones(3)], axis=1), "axis 1 is out of bounds"),
])
def test_joining_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_joining_wants_sequences():
    with pytest.raises(TypeError, match="as a list or tuple"):
        la.concatenate(3)
    with pytest.raises(TypeError, match="arrays is a tuple"):
        la.block((la.ones(1), la.ones(1)))
    with pytest.raises(TypeError, match="from_delayed"):
        la.concatenate([lf.delayed(np.ones)(3), la.ones(3)])


def test_a_concatenation_has_no_tasks_of_its_own():
    x = la.ones(6, chunks=2).persist()
    y = la.concatenate([x, x])
    assert [t is u for t, u in zip(y.__lazyflow_tasks__(), [*x.__lazyflow_tasks__()] * 2,
                                   strict=True)] == [True] * 6


def test_only_what_is_needed_of_a_concatenation_is_computed():
    def fails():
        raise AssertionError("computed")

    bad = la.from_delayed(lf.delayed(fails)(), (5,), float)
    x = la.concatenate([la.ones(4), bad, la.zeros(3)])
    check(x[:3], np.ones(3))
    check(x[-1:-3:-1], np.zeros(2))
    check(x[-1], np.zeros(()))
    check((x * 2)[10:], np.zeros(2))


@pytest.mark.parametrize(("chunks", "shape", "limit"), [
    ((10, 8, 1000, 400), (400, 1000, 400), "8M"),
    ((10, 8, 1000, 400), (50, 8, 400_000), "8M"),
    ((50, 8, 1000, 400), (50, 8, 400_000), 80),
    ((50, 8, 1, 400), (400, 400_000), 800),
    ((50, 8, 1000, 400), (25, 2, 8, 400_000), "1M"),
])
def test_the_limit_of_reshape_counts_axes_that_stay(chunks, shape, limit):
    found = la.zeros((50, 8, 1000, 400), chunks=chunks).reshape(shape, limit=limit)
    limit = parse_bytes(limit) if isinstance(limit, str) else limit
    assert limit / 4 < 8 * prod(found.chunksize) <= limit


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_chunk_of_a_reshape_is_over_the_limit(data):
    lengths = st.sampled_from([1, 2, 3, 4, 6, 12])
    groups = data.draw(st.lists(st.lists(lengths, min_size=1, max_size=3), min_size=1, max_size=3))
    old = tuple(n for group in groups for n in group)
    new = tuple(n for group in groups for n in data.draw(
        st.sampled_from([group, [int(np.prod(group))], group[::-1], [1, *group]])
    ))
    chunks = tuple(data.draw(st.integers(1, n)) for n in old)
    limit = data.draw(st.sampled_from([1, 2, 5, 16, 100]))
    assume(prod(old) <= 500 * limit)  # else there are too many blocks
    x = la.arange(np.prod(old)).reshape(old).rechunk(chunks)
    found = x.reshape(new, limit=limit * 8, merge_chunks=data.draw(st.booleans()))
    assert new == old or np.prod(found.chunksize) <= limit
    np.testing.assert_array_equal(found.compute(), np.arange(np.prod(old)).reshape(new))
