"""Users' functions of blocks: map_blocks, blockwise, reduction, overlap, gufuncs and the like."""

import operator
import threading
from itertools import product

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la

SCHEDULERS = ["sync", "threads", "processes"]


def check(x, expected, scheduler=None):
    """Compare an array with NumPy's, and each block with what the array says of it."""
    found = x.compute(scheduler=scheduler)
    expected = np.asarray(expected)
    assert x.shape == expected.shape
    assert np.asarray(found).dtype == x.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    for at, block in zip(np.ndindex(*x.numblocks), blocks_of(x, scheduler), strict=True):
        assert block.shape == tuple(sizes[i] for sizes, i in zip(x.chunks, at, strict=True))
        assert block.dtype == x.dtype


def blocks_of(x, scheduler=None):
    return lazyflow.compute(list(x.to_delayed().ravel()), scheduler=scheduler)[0]


def tasks_of(x):
    """Return all tasks below an array."""
    seen = {}
    stack = list(x.__lazyflow_tasks__())
    while stack:
        task = stack.pop()
        if id(task) not in seen:
            seen[id(task)] = task
            stack.extend(task._inputs)
    return list(seen.values())


def chunkings(shape):
    """Chunks of each axis, with chunks of length 0 among them."""
    return st.tuples(*[
        st.lists(st.integers(0, n), max_size=3).map(
            lambda cuts, n=n: tuple(np.diff([0, *sorted(cuts), n]).tolist())
        )
        for n in shape
    ])


@st.composite
def arrays(draw, low=0, ndim=3):
    shape = tuple(draw(st.lists(st.integers(low, 7), min_size=1, max_size=ndim)))
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 3 % 17
    return values, la.from_array(values, chunks=draw(chunkings(shape)))


class Calls:
    """A function that notes the shapes that it is called with."""

    __name__ = "calls"

    def __init__(self):
        self.shapes = []

    def __call__(self, *blocks):
        self.shapes.append(tuple(block.shape for block in blocks))
        return blocks[0]


# -- map_blocks -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(arrays())
def test_map_blocks_calls_the_function_for_each_block(pair):
    values, x = pair
    check(x.map_blocks(lambda block: block * 2 + 1), values * 2 + 1)
    check(la.map_blocks(operator.add, x, x + 1, dtype=values.dtype), values * 2 + 1)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_map_blocks_takes_literals_lazy_values_and_keywords(scheduler):
    x = la.arange(6, chunks=4)
    made = lazyflow.delayed(list)([1, 2])
    found = x.map_blocks(
        lambda block, a, pair, k, table: block * a + sum(pair) + k + table.sum(),
        10, made, k=lazyflow.delayed(int)(5), table=np.ones(200_000), dtype=float,
    )
    check(found, np.arange(6) * 10 + 8 + 200_000.0, scheduler)


def test_map_blocks_broadcasts_by_blocks():
    x, y = la.arange(12, chunks=4).map_blocks(np.sort), la.arange(5, chunks=5)
    found = la.map_blocks(lambda a, b: np.array([a.max(), b.max()]), x, y, chunks=2, dtype=int)
    check(found, [3, 4, 7, 4, 11, 4])
    z = la.ones((3, 12), chunks=(1, 4))
    check(la.map_blocks(operator.add, z, x), np.ones((3, 12)) + np.arange(12))


def test_blocks_that_do_not_fit_are_refused():
    x, y = la.ones(6, chunks=2), la.ones(6, chunks=3)
    with pytest.raises(ValueError, match=r"blocks do not fit: the arrays have \(3,\) and \(2,\)"):
        la.map_blocks(operator.add, x, y)


def test_axes_go_and_come():
    values = np.arange(24.0).reshape(4, 6)
    x = la.from_array(values, chunks=(2, 3))
    check(x.map_blocks(lambda b: b.sum(1), drop_axis=1), values.sum(1))
    check(x.map_blocks(lambda b: b.sum(0), drop_axis=[-2]), values.sum(0))
    check(x.map_blocks(lambda b: b[:, None], new_axis=1), values[:, None])
    check(x.map_blocks(lambda b: b[..., None], new_axis=-1), values[..., None])
    check(
        x.map_blocks(lambda b: np.stack([b, b]), chunks=(2, 2, 3)), np.stack([values, values])
    )
    check(
        x.map_blocks(lambda b: b.sum(1, keepdims=True)[None], chunks=((1,), (2, 2), (1, 1))),
        np.stack([values[:, :3].sum(1), values[:, 3:].sum(1)], 1)[None],
    )
    check(
        x.map_blocks(lambda b: np.ones((2, 5)), drop_axis=0, new_axis=0, chunks=(2, 5)),
        np.ones((2, 10)),
    )


def test_chunks_as_a_length_as_lengths_or_unknown():
    x = la.arange(18, chunks=6)
    head = lambda b, block_id: b[: 1 + block_id[0]]  # noqa: E731
    wanted = [0, 6, 7, 12, 13, 14]
    check(x.map_blocks(head, chunks=((1, 2, 3),), dtype=int), wanted)
    for unknown in (None, np.nan):
        found = x.map_blocks(head, chunks=(unknown,), dtype=int)
        assert found.shape == (None,)
        np.testing.assert_array_equal(found.compute(), wanted)
        np.testing.assert_array_equal(found[-2:].compute(), [13, 14])
        assert found.chunks == ((1, 2, 3),)
    check(x.map_blocks(lambda b: b[:3], chunks=3, dtype=int), [0, 1, 2, 6, 7, 8, 12, 13, 14])


@pytest.mark.parametrize("arguments, words", [
    ({"chunks": (1, 2)}, None),  # a new axis on the left
    ({"chunks": ((1, 2),)}, r"Dimension 0 has 3 blocks, chunks specified with 2 blocks"),
    ({"chunks": (1, 2), "new_axis": [0, 1]}, r"are for 2 axes, but the result has 3"),
    ({"drop_axis": 1}, r"drop_axis=1 is out of range: there are 1 axes"),
    ({"new_axis": 3}, r"new_axis=3 is out of range"),
    ({"chunks": -1}, r"a chunk can't have length -1"),
])
def test_chunks_and_axes_that_do_not_fit_are_refused(arguments, words):
    x = la.arange(6, chunks=2)
    if words is None:
        assert x.map_blocks(np.sort, **arguments).chunks == ((1,), (2, 2, 2))
        return
    with pytest.raises(ValueError, match=words):
        x.map_blocks(np.sort, **arguments)


def test_block_id_and_block_info_say_where_a_block_is(here):
    x, y = la.ones((4, 6), chunks=(2, 3)), la.ones(6, chunks=3)
    told = {}

    def note(a, k, b, block_id=None, block_info=None):
        told[block_id] = block_info
        return a[:1]

    la.map_blocks(note, x, 5, y, chunks=(1, 3), dtype="f8").compute()
    assert sorted(told) == list(product(range(2), range(2)))
    assert told[1, 0] == {
        0: {"shape": (4, 6), "num-chunks": (2, 2), "array-location": [(2, 4), (0, 3)],
            "chunk-location": (1, 0)},
        2: {"shape": (6,), "num-chunks": (2,), "array-location": [(0, 3)],
            "chunk-location": (0,)},
        None: {"shape": (2, 6), "num-chunks": (2, 2), "array-location": [(1, 2), (0, 3)],
               "chunk-location": (1, 0), "chunk-shape": (1, 3), "dtype": np.dtype("f8")},
    }


def test_block_info_of_dropped_axes_is_the_whole_axis(here):
    x = la.ones((4, 6), chunks=(2, 3))
    told = []

    def note(a, block_info=None):
        told.append(block_info[0]["array-location"])
        return a.sum(1)

    x.map_blocks(note, drop_axis=1, dtype=float).compute()
    assert sorted(told) == [[(0, 2), (0, 6)], [(2, 4), (0, 6)]]


def test_arrays_are_made_of_nothing():
    def place(block_info=None):
        ((start, stop),) = block_info[None]["array-location"]
        return np.arange(start, stop, dtype=float)

    check(la.map_blocks(place, chunks=((4, 0, 3),), dtype=float), np.arange(7.0))
    check(la.map_blocks(place, chunks=((4, 3),)), np.arange(7.0))


def test_a_keyword_of_the_users_own_is_his():
    x = la.zeros(3, chunks=1)
    check(x.map_blocks(lambda b, block_id: b + block_id, block_id=7.0), [7.0] * 3)


def test_the_function_sees_the_blocks_of_the_array_whatever_is_fused(here):
    shapes = Calls()
    x = (la.ones((6, 8), chunks=(2, 3)) + 1) * 2
    shapes_wanted = sorted([((a, b),) for a in (2, 2, 2) for b in (3, 3, 2)])
    total = x.map_blocks(shapes, dtype=float).sum()
    assert total.compute() == 192
    assert sorted(shapes.shapes) == shapes_wanted
    shapes.shapes.clear()
    (x.persist() - 1).map_blocks(shapes, dtype=float).compute()
    assert sorted(shapes.shapes) == shapes_wanted
    assert [block.shape for block in blocks_of(x)] == [each for (each,) in
                                                       product(product((2, 2, 2), (3, 3, 2)))]


def test_only_blocks_that_are_needed_are_made(here):
    shapes = Calls()
    x = la.arange(10, chunks=(1, 2, 3, 4)).map_blocks(shapes, dtype=int)
    check_only = x[4:7]
    np.testing.assert_array_equal(check_only.compute(), [4, 5, 6])
    assert sorted(shapes.shapes) == [((3,),), ((4,),)]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_blocks_are_read_only_on_every_scheduler(scheduler):
    def edit(block):
        block += 1
        return block

    x = la.ones(4, chunks=2).persist(scheduler="threads")
    with pytest.raises(ValueError, match="read-only"):
        x.map_blocks(edit, dtype=float).compute(scheduler=scheduler)
    with pytest.raises(ValueError, match="read-only"):
        x.map_overlap(edit, 1, dtype=float).compute(scheduler=scheduler)
    with pytest.raises(ValueError, match="read-only"):
        x.map_blocks(edit, drop_axis=0, chunks=(), dtype=float).compute(scheduler=scheduler)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_functions_compiled_by_numba(scheduler):
    numba = pytest.importorskip("numba")

    @numba.njit
    def scaled(block, factor):
        out = np.empty_like(block)
        for i in range(block.size):
            out[i] = block[i] * factor
        return out

    check(la.arange(5.0, chunks=2).map_blocks(scaled, 3.0), np.arange(5.0) * 3, scheduler)


def test_a_chain_of_functions_needs_no_recursion():
    x = la.arange(4, chunks=2)
    for _ in range(2001):
        x = x.map_blocks(np.negative)
    assert x.dtype == int
    np.testing.assert_array_equal(x.compute(), [0, -1, -2, -3])


def test_tasks_are_made_only_for_blocks_that_are_needed():
    x = la.ones(10**8, chunks=1000)
    y = x.map_blocks(np.negative, dtype=float).map_overlap(np.negative, 1, dtype=float)
    found = y[:3].map_blocks(np.sort)
    assert found.compute().tolist() == [1, 1, 1]
    assert len(tasks_of(found)) < 12


# -- the dtype ------------------------------------------------------------------------------------


def test_a_function_is_never_tried_when_the_dtype_is_given(here):
    shapes = Calls()
    x = la.arange(4, chunks=2)
    for said in ({"dtype": int}, {"meta": np.empty(0, int)}, {"meta": x}):
        for made in (
            x.map_blocks(shapes, **said),
            la.blockwise(shapes, "i", x, "i", **said),
            x.map_overlap(shapes, 1, **said),
        ):
            assert made.dtype == int
            made.compute()
    assert {length for ((length,),) in shapes.shapes} == {2, 3}
    assert len(shapes.shapes) == 18


def test_a_dtype_is_found_out_only_when_it_is_asked_for(here):
    shapes = Calls()
    x = la.arange(4, chunks=2).map_blocks(shapes)
    y = x.map_blocks(np.sort)[1:].rechunk(3)
    assert "dtype=?" in repr(y)
    assert y.compute().dtype == int
    assert y.persist().compute().dtype == int
    assert set(shapes.shapes) == {((2,),)}
    assert y.dtype == x.dtype == int
    assert shapes.shapes[-1] == ((1,),)
    count = len(shapes.shapes)
    assert (y + 1.5).dtype == float
    assert len(shapes.shapes) == count
    assert "dtype=int64" in repr(y)


def test_a_function_that_cannot_be_tried_says_so():
    x = la.ones((4, 4), chunks=2)
    bad = x.map_blocks(lambda block: block[1], drop_axis=0, chunks=(2,))
    with pytest.raises(TypeError) as caught:
        bad.dtype
    assert str(caught.value) == (
        "the dtype of map_blocks(<lambda>, ...) is not known: <lambda> was tried on made-up blocks "
        "of ones (shape (1, 1), float64), not on your data, and raised IndexError: index 1 is out "
        "of bounds for axis 0 with size 1. Pass dtype= to map_blocks(), then it is not tried."
    )
    assert isinstance(caught.value.__cause__, IndexError)
    none = x.map_blocks(lambda block: None)
    with pytest.raises(TypeError, match=r"returned None instead of an array. Pass dtype="):
        none.dtype
    lazy = x.map_blocks(operator.add, lazyflow.delayed(int)(1))
    with pytest.raises(TypeError, match=r"add gets lazy values, so that it can't be tried"):
        lazy.dtype
    assert lazy.compute().dtype == float
    gufunc = la.apply_gufunc(lambda a: a.nothing, "(i)->()", x, allow_rechunk=True)
    with pytest.raises(TypeError, match=r"Pass output_dtypes= to apply_gufunc\(\)"):
        gufunc.dtype


@pytest.mark.parametrize("arguments, words", [
    ({"meta": 5}, r"meta must be an array like the result, of any length; got 5"),
    ({"dtype": str}, r"says nothing of the length of the strings; give it, as in 'U10'"),
])
def test_dtypes_that_are_none_are_refused(arguments, words):
    with pytest.raises(TypeError, match=words):
        la.ones(3).map_blocks(np.sort, **arguments)


def test_what_is_not_called_is_refused():
    with pytest.raises(TypeError, match=r"map_blocks\(\) calls a function for each block; got a"):
        la.map_blocks(la.ones(3), np.sort)


# -- functions that lie, and that fail ------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_block_of_another_shape_is_named(scheduler):
    def lies(block, block_id):
        return block if block_id != (1, 0) else block[:2]

    x = la.ones((8, 4), chunks=4)
    with pytest.raises(ValueError) as caught:
        x.map_blocks(lies, dtype=float).compute(scheduler=scheduler)
    assert str(caught.value) == (
        "lies returned an array of shape (2, 4) for block (1, 0), but (4, 4) was expected. Say "
        "what it returns by chunks= (and drop_axis=, new_axis= where axes go or come) of "
        "map_blocks()."
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_block_of_another_dtype_is_named(scheduler):
    x = la.ones((4, 4), chunks=(2, 4))
    with pytest.raises(TypeError) as caught:
        x.map_blocks(lambda b: b.astype("i1"), dtype=float)[2:].compute(scheduler=scheduler)
    assert str(caught.value) == (
        "<lambda> returned int8 for block (1, 0), but float64 was expected. Pass dtype='int8' to "
        "map_blocks(), or have <lambda> return .astype('float64')."
    )


@pytest.mark.parametrize("found, words", [
    ([1, 2], r"<lambda> returned a list for block \(0,\), but an array was expected"),
    (None, r"returned a NoneType for block \(0,\)"),
    ("text", r"returned a str for block \(0,\)"),
])
def test_what_is_no_array_is_named(found, words):
    x = la.ones(2, chunks=2)
    with pytest.raises(TypeError, match=words):
        x.map_blocks(lambda b: found, dtype=float).compute()


def test_numbers_are_blocks_without_axes():
    x = la.ones(4, chunks=2)
    for kind in (float, np.float64, np.asarray):
        found = x.map_blocks(lambda b, kind=kind: kind(b.sum()), drop_axis=0, dtype=float)
        check(found, 4.0)


def test_what_changes_no_value_is_no_lie(here):
    x = la.arange(3, chunks=2)
    check(x.map_blocks(lambda b: b.astype(">i8"), dtype=int), np.arange(3))
    names = np.array(["0", "1", "2"], "U5")
    check(x.map_blocks(lambda b: b.astype("U1"), dtype="U5"), names)
    with pytest.raises(TypeError, match=r"returned <U5 for block \(0,\), but <U2 was expected"):
        x.map_blocks(lambda b: b.astype("U5"), dtype="U2").compute()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_function_that_fails_keeps_its_error_and_names_the_block(scheduler):
    def fails(block, block_id):
        if block_id == (0, 1):
            raise KeyError("lost")
        return block

    x = la.ones((2, 4), chunks=2).map_blocks(fails, dtype=float)
    with pytest.raises(KeyError, match="lost") as caught:
        x.compute(scheduler=scheduler)
    notes = "\n".join(caught.value.__notes__)
    assert "lazyflow: fails was called for block (0, 1)" in notes
    assert "in lazyflow task fails(" in notes
    assert "test_array_blocks.py" in notes


def test_names_for_tasks():
    x = la.ones(2, chunks=1)
    for said in ({"name": "mine"}, {"token": "mine"}):
        made = x.map_blocks(np.sort, **said)
        assert repr(made).startswith("lazyflow.Array<mine, ")


# -- blockwise ------------------------------------------------------------------------------------


def test_blockwise_puts_blocks_together_by_labels():
    a, b = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    x, y = la.from_array(a, chunks=(2, 3)), la.from_array(b, chunks=2)
    check(la.blockwise(operator.add, "ij", x, "ij", y, "j"), a + b)  # chunks are made to fit
    check(la.blockwise(np.transpose, "ji", x, "ij", dtype=float), a.T)
    check(la.blockwise(lambda u, v: u + v.T, "ij", x, "ij", x.T, "ji"), a + a)
    check(la.blockwise(np.multiply.outer, "kij", y, "k", x, "ij"), np.multiply.outer(b, a))
    check(la.blockwise(operator.add, (1, 0), x, (1, 0), 10, None, dtype=float), a + 10)
    check(la.blockwise(operator.add, "ij", x, "ij", a[:1], "ij"), a + a[:1])


def test_blockwise_contracts_labels_that_the_result_does_not_have(here):
    a, b = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(4, 5)
    x, y = la.from_array(a, chunks=(2, 3)), la.from_array(b, chunks=(3, 2))

    def dot(us, vs):
        assert isinstance(us, list) and isinstance(vs, list)
        return sum(u @ v for u, v in zip(us, vs, strict=True))

    check(la.blockwise(dot, "ik", x, "ij", y, "jk"), a @ b)
    check(la.blockwise(operator.matmul, "ik", x, "ij", y, "jk", concatenate=True), a @ b)
    check(la.blockwise(lambda u: u.sum(), "", x, "ij", concatenate=True, dtype=float), a.sum())
    shapes = []

    def nested(lists):
        shapes.append([[block.shape for block in row] for row in lists])
        return sum(block.sum() for row in lists for block in row)

    check(la.blockwise(nested, (), x, "ij", dtype=float), a.sum())
    assert shapes == [[[(2, 3), (2, 1)], [(1, 3), (1, 1)]]] * 2


def test_blockwise_new_axes_and_adjusted_chunks():
    a = np.arange(5)
    x = la.from_array(a, chunks=2)
    wide = lambda b: b[:, None] * np.ones((1, 3), int)  # noqa: E731
    check(la.blockwise(wide, "az", x, "a", new_axes={"z": 3}), a[:, None] * np.ones((1, 3), int))
    found = la.blockwise(wide, "az", x, "a", new_axes={"z": (3, 3)}, dtype=int)
    check(found, a[:, None] * np.ones((1, 6), int))
    twice = lambda b: np.concatenate([b, b])  # noqa: E731
    found = la.blockwise(twice, "i", x, "i", adjust_chunks={"i": lambda n: 2 * n})
    assert found.chunks == ((4, 4, 2),)
    check(found, [0, 1, 0, 1, 2, 3, 2, 3, 4, 4])
    check(la.blockwise(lambda b: b[:1], "i", x, "i", adjust_chunks={"i": 1}), [0, 2, 4])
    check(la.blockwise(lambda b: b[:1], "i", x, "i", adjust_chunks={"i": (1, 1, 1)}), [0, 2, 4])


@pytest.mark.parametrize("call, words", [
    (lambda f, x: la.blockwise(f, "i", x), r"takes arrays each followed by the labels"),
    (lambda f, x: la.blockwise(f, "ij", x, "ij"),
     r"Index string ij does not match array dimension 1"),
    (lambda f, x: la.blockwise(f, "ij", x, "i"), r"axis 'j' is in no array; give its length by"),
    (lambda f, x: la.blockwise(f, "ii", x, "i"), r"Repeated elements not allowed in output"),
    (lambda f, x: la.blockwise(f, "i", x, "i", new_axes={"i": 2}), r"which an array has already"),
    (lambda f, x: la.blockwise(f, "i", x, "i", adjust_chunks={"j": 2}), r"adjust_chunks has 'j'"),
    (lambda f, x: la.blockwise(f, "i", x, "i", x[:3], "i"), r"Shapes do not align \{'i': \{3, 6\}"),
    (lambda f, x: la.blockwise(f, "i", x, "i", x.rechunk(3), "i", align_arrays=False),
     r"blocks do not fit"),
])
def test_labels_that_do_not_fit_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(operator.add, la.arange(6, chunks=2))


def test_blockwise_of_unknown_lengths():
    x = la.arange(10, chunks=4)
    odd = x.map_blocks(lambda b: b[b % 2 == 1], chunks=(None,), dtype=int)
    check_values = la.blockwise(operator.add, "i", odd, "i", odd, "i", dtype=int)
    np.testing.assert_array_equal(check_values.compute(), [2, 6, 10, 14, 18])
    other = la.arange(5, chunks=5)
    found = la.blockwise(operator.add, "i", odd, "i", other, "i", dtype=int)  # computes lengths
    check(found, [1, 4, 7, 10, 13])


# -- reduction ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(arrays(low=1), st.data())
def test_reductions_equal_numpys(pair, data):
    values, x = pair
    axes = data.draw(st.sets(st.integers(0, x.ndim - 1)).map(tuple) | st.none())
    keepdims = data.draw(st.booleans())
    split_every = data.draw(st.sampled_from([None, 2, 3, 100, {0: 2}]))
    found = la.reduction(
        x, np.max, np.max, axis=axes, keepdims=keepdims, dtype=int, split_every=split_every
    )
    check(found, values.max(axis=axes, keepdims=keepdims))


def test_a_reduction_of_what_is_no_array():
    values = np.arange(30.0).reshape(5, 6)
    x = la.from_array(values, chunks=2)

    def flat(parts):
        return [y for x in parts for y in flat(x)] if isinstance(parts, list) else [parts]

    def chunk(block, axis, keepdims):
        return {"n": block.size, "sum": block.sum(axis=axis, keepdims=keepdims)}

    def combine(parts, axis, keepdims):
        parts = flat(parts)
        return {"n": sum(p["n"] for p in parts), "sum": sum(p["sum"] for p in parts)}

    def aggregate(parts, axis, keepdims):
        whole = combine(parts, axis, keepdims)
        return (whole["sum"] / whole["n"]).reshape((1, 1) if keepdims else ())

    for keepdims in (False, True):
        found = la.reduction(
            x, chunk, aggregate, combine=combine, concatenate=False, dtype=float, split_every=2,
            keepdims=keepdims,
        )
        check(found, values.mean(keepdims=keepdims))


def test_a_reduction_puts_together_no_more_than_it_should(here):
    sizes = []

    def note(parts, axis, keepdims):
        sizes.append(parts.size)
        return parts.sum(axis=axis, keepdims=keepdims)

    x = la.ones(100, chunks=1)
    found = la.reduction(x, np.sum, note, dtype=float)
    assert found.compute() == 100
    assert sorted(sizes) == [4, 7, 16, 16, 16, 16, 16, 16]
    sizes.clear()
    assert la.reduction(x, np.sum, note, dtype=float, split_every=100).compute() == 100
    assert sizes == [100]
    sizes.clear()
    assert la.reduction(x[:17], np.sum, note, dtype=float).compute() == 17
    assert sorted(sizes) == [1, 2, 16]


def test_a_reduction_with_weights_output_size_and_out():
    values = np.arange(12.0).reshape(3, 4)
    x = la.from_array(values, chunks=2)

    def weighted(block, weights, axis, keepdims):
        assert block.shape == weights.shape
        return (block * weights).sum(axis=axis, keepdims=keepdims)

    for weights in (np.arange(4.0), np.arange(3.0)[:, None], 2.0):
        found = la.reduction(x, weighted, np.sum, axis=1, dtype=float, weights=weights)
        check(found, (values * weights).sum(1))

    def two(block, axis, keepdims):
        (k,) = axis
        return np.concatenate([block.min(k, keepdims=True), block.max(k, keepdims=True)], k)

    found = la.reduction(x, two, two, axis=0, keepdims=True, dtype=float, output_size=2)
    check(found, np.stack([values.min(0), values.max(0)]))
    out = la.zeros(4)
    assert la.reduction(x, np.sum, np.sum, axis=0, dtype=float, out=out) is out
    check(out, values.sum(0))


def test_reductions_that_can_not_be_are_refused():
    x = la.ones(3)
    with pytest.raises(ValueError, match="must be told the dtype of the result: pass dtype="):
        la.reduction(x, np.sum, np.sum)
    with pytest.raises(ValueError, match="split_every must be 2 or more; got 1"):
        la.reduction(x, np.sum, np.sum, dtype=float, split_every=1)
    with pytest.raises(np.exceptions.AxisError):
        la.reduction(x, np.sum, np.sum, dtype=float, axis=2)


# -- overlap --------------------------------------------------------------------------------------

MODES = {"reflect": "symmetric", "nearest": "edge", "periodic": "wrap"}


def padded(values, depth, boundary):
    """Return what an array looks like with what stands beyond its edges."""
    for axis in range(values.ndim):
        width = [(0, 0)] * values.ndim
        width[axis] = depth[axis]
        if boundary[axis] in MODES:
            values = np.pad(values, width, MODES[boundary[axis]])
        elif boundary[axis] != "none":
            values = np.pad(values, width, constant_values=boundary[axis])
    return values


@settings(deadline=None, max_examples=60)
@given(arrays(low=3), st.data())
def test_overlapping_blocks_are_parts_of_the_padded_array(pair, data):
    values, x = pair
    sides = st.integers(0, 3)
    depth = {k: data.draw(st.tuples(sides, sides)) for k in range(x.ndim)}
    kinds = st.sampled_from(["none", "reflect", "nearest", "periodic", 7])
    boundary = {k: data.draw(kinds) for k in range(x.ndim)}
    whole = padded(values, depth, boundary)
    seen = {}

    def note(block, block_id):
        seen[block_id] = block
        return block

    found = x.map_overlap(note, depth, boundary, dtype=int)
    assert found.chunks == x.chunks
    check(found, values)
    bounds = [np.cumsum([0, *sizes]) for sizes in x.chunks]
    for at, block in seen.items():
        spans = []
        for axis, i in enumerate(at):
            before, after = depth[axis]
            beyond = before if boundary[axis] != "none" else 0
            start, stop = bounds[axis][i] - before + beyond, bounds[axis][i + 1] + after + beyond
            spans.append(slice(max(start, 0), stop))
        np.testing.assert_array_equal(block, whole[tuple(spans)])


@settings(deadline=None, max_examples=40)
@given(arrays(low=3), st.data())
def test_overlap_and_trim_are_inverse(pair, data):
    values, x = pair
    depth = data.draw(st.integers(0, 3) | st.tuples(*[st.integers(0, 3)] * x.ndim))
    boundary = data.draw(st.sampled_from(["none", "reflect", "nearest", "periodic", 7, None]))
    wide = la.overlap.overlap(x, depth, boundary)
    wide.compute()
    check(la.overlap.trim_internal(wide, depth, boundary), values)
    check(la.overlap.trim_overlap(wide, depth, boundary), values)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_map_overlap_sees_the_neighbours(scheduler):
    values = np.random.default_rng(0).random((9, 11))
    x = la.from_array(values, chunks=(3, 4)) + 0

    def smooth(block):
        around = sum(np.roll(block, s, a) for s in (-1, 1) for a in (0, 1))
        return around / 4

    check(x.map_overlap(smooth, 1, "periodic"), smooth(values), scheduler)


def test_map_overlap_of_several_arrays():
    a, b = np.arange(16.0).reshape(4, 4), np.arange(4.0)
    x, y = la.from_array(a, chunks=2), la.from_array(b, chunks=(1, 3))
    add = lambda u, v: u + v  # noqa: E731
    check(la.map_overlap(add, x, y, depth=1, boundary="reflect"), a + b)
    check(
        la.map_overlap(lambda u, v: u + v.sum(), x, y, depth=[1, 0], boundary=["nearest", "none"],
                       align_arrays=False),
        a + np.repeat([0, 6], 2),
    )


def test_map_overlap_without_trim_and_with_other_axes(here):
    values = np.arange(12).reshape(3, 4)
    x = la.from_array(values, chunks=(3, 2))
    kept = x.map_overlap(lambda b: b, {1: 1}, trim=False, dtype=int)
    check(kept, values[:, [0, 1, 2, 1, 2, 3]])
    check(x.map_overlap(lambda b: b.sum(0), (0, 1), drop_axis=0), values.sum(0))
    check(x.map_overlap(lambda b: b[None], 1, new_axis=0), values[None])
    shapes = Calls()
    la.map_overlap(shapes, x, dtype=int).compute()
    assert shapes.shapes == [((3, 2),)] * 2


@pytest.mark.parametrize(("boundary", "mode"), [
    ("reflect", "symmetric"), ("periodic", "wrap"), ("nearest", "edge"), (0, "constant"),
])
@pytest.mark.parametrize("depth", [1, 4, 5, 7, 13, (9, 2), (0, 11)])
@pytest.mark.parametrize("chunks", [1, 2, (3, 2)])
def test_what_stands_beyond_is_the_array_again(chunks, depth, boundary, mode):
    a = np.arange(10).reshape(5, 2)
    x = la.from_array(a, chunks=(chunks, 2))
    both = depth if isinstance(depth, tuple) else (depth, depth)
    padded = np.pad(a, (both, (0, 0)), mode=mode)
    found = la.overlap.overlap(x.rechunk(-1), {0: depth}, boundary)
    check(found, padded)

    def windows(block):  # of whole length, so that the margins are trimmed away
        rows = len(block) - sum(both)
        inner = [block[i:i + 1 + sum(both)].sum(axis=0) for i in range(rows)]
        return np.concatenate([np.zeros((both[0], 2), int), inner, np.zeros((both[1], 2), int)])

    expected = np.array([padded[i:i + 1 + sum(both)].sum(axis=0) for i in range(5)])
    check(x.map_overlap(windows, {0: depth}, boundary, dtype=int), expected)


def test_nothing_stands_beyond_an_axis_without_elements():
    with pytest.raises(ValueError, match="axis 0 has no elements, of which nothing can stand"):
        la.zeros((0, 2)).map_overlap(np.negative, {0: 1}, "reflect")


@pytest.mark.parametrize("arguments, error, words", [
    ({"depth": 3, "allow_rechunk": False}, ValueError, r"down to 2 long, shorter than the"),
    ({"depth": -1}, ValueError, r"the depth of axis 0 must be a length of 0 or more"),
    ({"depth": {1: 1}}, ValueError, r"depth names axis 1, but the array has 1 axes"),
    ({"depth": (1, 1)}, ValueError, r"depth=\(1, 1\) is for 2 axes, not for 1"),
    ({"depth": [1, 1]}, ValueError, r"depth is a list for 2 arrays; there are 1"),
    ({"depth": 1, "boundary": "perodic"}, ValueError, r"boundary 'perodic' is not one of .*period"),
])
def test_overlaps_that_can_not_be_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        la.map_overlap(np.sort, la.arange(6, chunks=2), **arguments)


def test_map_overlap_needs_a_function_and_arrays():
    x = la.ones(3)
    with pytest.raises(TypeError, match=r"takes the function first, then arrays; got a Array"):
        la.map_overlap(x, np.sort, depth=1)
    with pytest.raises(TypeError, match=r"takes chunked arrays after the function; got a int"):
        la.map_overlap(np.sort, x, 1)
    with pytest.raises(TypeError, match=r"needs an array after the function"):
        la.map_overlap(np.sort, depth=1)


def test_an_overlap_is_one_task_for_each_block():
    x = la.from_array(np.arange(1000.0).reshape(10, 100), chunks=1)
    tasks = tasks_of(x.map_overlap(np.sin, 1, "reflect", dtype=float))
    assert len(tasks) <= 4 * 1000  # sources, their neighbourhoods, the function, the trimming


def test_overlaps_read_only_what_they_need(here):
    read = []

    class Store:
        shape, dtype = (100,), np.dtype(int)

        def __getitem__(self, key):
            read.append(key[0].start)
            return np.arange(*key[0].indices(100))

    x = la.from_array(Store(), chunks=10).map_overlap(lambda b: b, 1, dtype=int)
    np.testing.assert_array_equal(x[35:38].compute(), [35, 36, 37])
    assert sorted(read) == [20, 30, 40]


# -- windows --------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(arrays(low=1), st.data())
def test_windows_equal_numpys(pair, data):
    values, x = pair
    axes = data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3,
                              unique_by=lambda axis: axis % x.ndim))
    window = tuple(data.draw(st.integers(1, x.shape[axis])) for axis in axes)
    expected = np.lib.stride_tricks.sliding_window_view(values, window, tuple(axes))
    check(la.sliding_window_view(x, window, tuple(axes)), expected)
    found = np.lib.stride_tricks.sliding_window_view(x, window, tuple(axes))
    check(found.sum(-1), expected.sum(-1))


def test_blocks_of_windows_stay_small():
    x = la.ones(4_000_000, chunks=-1)
    with lazyflow.config.set(chunk_bytes=1 << 20):
        many = la.sliding_window_view(x, 1000)
        assert max(many.chunks[0]) * 1000 * 8 <= 4_000_000 * 8
        assert sum(many.chunks[0]) == 4_000_000 - 999
        assert la.sliding_window_view(x, 1000, automatic_rechunk=False).numblocks == (1, 1)


@pytest.mark.parametrize("window, axis", [(7, None), ((2, 2), None), (-1, None), ((2, 2), 0)])
def test_windows_that_do_not_fit_are_refused_as_by_numpy(window, axis):
    values = np.arange(6)
    with pytest.raises(ValueError) as theirs:
        np.lib.stride_tricks.sliding_window_view(values, window, axis)
    with pytest.raises(ValueError) as ours:
        la.sliding_window_view(la.from_array(values, chunks=2), window, axis)
    assert str(ours.value) == str(theirs.value)


# -- generalised ufuncs ---------------------------------------------------------------------------


def test_apply_gufunc_works_on_core_dimensions():
    a, b = np.random.default_rng(0).random((4, 3, 5)), np.random.default_rng(1).random((5, 2))
    x, y = la.from_array(a, chunks=(2, 3, 5)), la.from_array(b, chunks=-1)
    check(la.apply_gufunc(np.matmul, "(i,j),(j,k)->(i,k)", x, y), a @ b)
    check(la.apply_gufunc(np.matmul, "(i,j),(j,k)->(i,k)", x, b, output_dtypes=float), a @ b)
    mean = lambda u: u.mean(-1)  # noqa: E731
    check(la.apply_gufunc(mean, "(i)->()", x), a.mean(-1))
    check(la.apply_gufunc(mean, "(i)->()", x, axis=1), np.moveaxis(a, 1, -1).mean(-1))
    kept = la.apply_gufunc(mean, "(i)->()", x, axis=0, keepdims=True, allow_rechunk=True)
    check(kept, np.moveaxis(np.moveaxis(a, 0, -1).mean(-1)[..., None], -1, 0))
    flipped = la.apply_gufunc(
        lambda u: u[..., ::-1], "(i)->(i)", x, axis=0, allow_rechunk=True
    )
    check(flipped, a[::-1])
    check(
        la.apply_gufunc(lambda u: u[..., :2], "(i)->(n)", x, output_sizes={"n": 2},
                        axes=[2, 0]),
        np.moveaxis(a[..., :2], -1, 0),
    )
    check(
        la.apply_gufunc(np.cross, "(3),(3)->(3)", la.ones((4, 3), chunks=(2, 3)), [1.0, 2.0, 3.0]),
        np.cross(np.ones((4, 3)), [1.0, 2.0, 3.0]),
    )


def test_apply_gufunc_broadcasts_loops_and_makes_chunks_fit():
    a, b = np.arange(24).reshape(4, 3, 2), np.arange(6).reshape(3, 2)
    x, y = la.from_array(a, chunks=(3, 2, 2)), la.from_array(b, chunks=(1, 2))
    check(la.apply_gufunc(np.vecdot, "(i),(i)->()", x, y), np.vecdot(a, b))
    check(la.apply_gufunc(np.add, "(),()->()", x, y), a + b)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_apply_gufunc_of_several_results(scheduler):
    values = np.arange(12).reshape(3, 4)
    x = la.from_array(values, chunks=(2, 4))
    both = lambda u: (u.mean(-1), u[..., :2])  # noqa: E731
    for said in ({}, {"output_dtypes": [float, int]}, {"meta": (np.ones(0), np.ones(0, int))}):
        mean, head = la.apply_gufunc(both, "(i)->(),(n)", x, output_sizes={"n": 2}, **said)
        check(mean, values.mean(-1), scheduler)
        check(head, values[:, :2], scheduler)


def test_several_results_are_made_by_one_call(here):
    calls = Calls()

    def both(block):
        calls(block)
        return block + 1, block + 2

    x = la.arange(4, chunks=2)
    one, two = la.apply_gufunc(both, "()->(),()", x, output_dtypes=[int, int])
    check_both = (one + two).compute()
    np.testing.assert_array_equal(check_both, 2 * np.arange(4) + 3)
    assert len(calls.shapes) == 2


@pytest.mark.parametrize("arguments, options, words", [
    (("(i)->(", la.ones(3)), {}, r"Not a valid gufunc signature: '\(i\)->\('"),
    (("(i),(i)->()", la.ones(3)), {}, r"requires 2 arguments, but 1 are given"),
    (("(i),(i)->()", la.ones(3), la.ones(4)), {}, r"`'i'` with different lengths in arrays: 3 and"),
    (("(i)->()", la.ones(4, chunks=2)), {}, r"consists of multiple chunks. To fix, rechunk into"),
    (("(i)->(n)", la.ones(3)), {}, r"`'n'` of a result is in no input; give its length by output_"),
    (("(i,j)->()", la.ones(3)), {}, r"has 1 axes, fewer than its core dimensions \(i,j\)"),
    (("(i)->()", la.ones(3)), {"axis": 0, "axes": [0]}, r"Only one of `axis` or `axes`"),
    (("(i)->()", la.ones(3)), {"axes": [(0, 1), ()]}, r"does not fit the core dimensions \(i\)"),
    (("(i)->(i)", la.ones(3)), {"keepdims": True}, r"`keepdims` needs inputs with equal"),
    (("(i)->()", la.ones(3)), {"output_dtypes": [int, int]}, r"output_dtypes must be for 1 "),
    (("(2)->()", la.ones(3)), {}, r"core dimension 2 has length 3"),
])
def test_gufuncs_that_can_not_be_are_refused(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        la.apply_gufunc(np.sum, *arguments, **options)


def test_results_that_are_not_as_the_signature_says(here):
    x = la.ones((2, 3), chunks=(1, 3))
    same = lambda u: u  # noqa: E731
    found = la.apply_gufunc(same, "(i)->()", x, output_dtypes=float)
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for block \(0,\), but \(1,\) was exp.*by "
                                         r"the signature and output_sizes= of apply_gufunc"):
        found.compute()
    found, _ = la.apply_gufunc(same, "(i)->(),()", x, output_dtypes=[float, float])
    with pytest.raises(ValueError, match=r"returned a ndarray for block \(0,\), but the signature "
                                         r"says a tuple of 2"):
        found.compute()
    found = la.apply_gufunc(lambda u: u.sum(-1), "(i)->()", x, output_dtypes=int)
    with pytest.raises(TypeError, match=r"Pass output_dtypes='float64' to apply_gufunc\(\)"):
        found.compute()


def test_gufuncs_as_objects():
    values = np.arange(6.0).reshape(2, 3)
    x = la.from_array(values, chunks=(1, 3))
    length = la.gufunc(np.linalg.norm, signature="(i)->()", vectorize=True, output_dtypes=float)
    check(length(x), np.sqrt((values**2).sum(1)))

    @la.as_gufunc("(i)->()", output_dtypes=float, allow_rechunk=True)
    def middle(u):
        """Half the way."""
        return (u.min(-1) + u.max(-1)) / 2

    assert middle.__doc__ == "Half the way."
    check(middle(x.rechunk(1)), [1.0, 4.0])
    with pytest.raises(ValueError, match="multiple chunks"):
        middle(x.rechunk(1), allow_rechunk=False)
    with pytest.raises(TypeError, match="needs signature="):
        la.gufunc(np.sum)


# -- slices and elements --------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("func", [np.sum, np.sort, np.diag, lambda v: v[:2]])
def test_apply_along_axis(axis, func):
    values = np.arange(24).reshape(2, 3, 4) % 7
    x = la.from_array(values, chunks=(1, 2, 3))
    check(la.apply_along_axis(func, axis, x), np.apply_along_axis(func, axis, values))
    check(np.apply_along_axis(func, axis, x), np.apply_along_axis(func, axis, values))


def test_apply_along_axis_tries_the_function_only_when_it_has_to():
    shapes = Calls()
    x = la.from_array(np.arange(6).reshape(2, 3), chunks=(1, 3))
    found = la.apply_along_axis(shapes, 1, x, dtype=int, shape=(3,))
    assert shapes.shapes == []
    check(found, np.arange(6).reshape(2, 3))
    empty = la.zeros((0, 3), chunks=(1, 3), dtype=int)
    check(la.apply_along_axis(np.sum, 1, empty), np.zeros(0, int))
    with pytest.raises(TypeError, match=r"the dtype of apply_along_axis\(<lambda>, ...\) is not"):
        la.apply_along_axis(lambda v: v.nothing, 0, x)


def test_apply_over_axes():
    values = np.arange(24.0).reshape(2, 3, 4)
    x = la.from_array(values, chunks=2)
    check(la.apply_over_axes(np.sum, x, [0, 2]), np.apply_over_axes(np.sum, values, [0, 2]))
    check(np.apply_over_axes(np.max, x, -1), np.apply_over_axes(np.max, values, -1))
    with pytest.raises(ValueError, match="not returning an array of the correct shape"):
        la.apply_over_axes(lambda a, axis: a[0, 0], x, 0)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_frompyfunc_and_vectorize(scheduler):
    x = la.arange(7, chunks=3)
    check(la.frompyfunc(oct, 1, 1)(x), np.frompyfunc(oct, 1, 1)(np.arange(7)), scheduler)
    for found, expected in zip(la.frompyfunc(divmod, 2, 2)(x, 3),
                               np.frompyfunc(divmod, 2, 2)(np.arange(7), 3), strict=True):
        check(found, expected, scheduler)
    check(la.vectorize(lambda a, b: a + b)(x, 0.5), np.arange(7) + 0.5, scheduler)
    check(la.vectorize(str, otypes=["U2"])(x), np.arange(7).astype("U2"), scheduler)


def test_piecewise():
    values = np.arange(-5.0, 5)
    x = la.from_array(values, chunks=3)
    for conditions, functions in (
        ([values < 0, values >= 0], [-1, 1]),
        ([values < 0], [np.abs, lambda v: v * 2]),
        (values < 0, [np.abs]),
    ):
        expected = np.piecewise(values, conditions, functions)
        check(la.piecewise(x, conditions, functions), expected)
        check(np.piecewise(x, conditions, functions), expected)
    check(la.piecewise(x, [x < 0, x > 2], [lambda v, k: v * k, 0], k=3),
          np.piecewise(values, [values < 0, values > 2], [lambda v, k: v * k, 0], k=3))
    with pytest.raises(ValueError, match="either 1 or 2 functions are expected"):
        la.piecewise(x, [x < 0], [1, 2, 3])


# -- blocks as lazy values ------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_from_delayed(scheduler):
    load = lazyflow.delayed(np.arange)
    check(la.from_delayed(load(4), (4,), dtype=int) + 1, np.arange(4) + 1, scheduler)
    check(la.from_delayed(load(4), 4, meta=np.empty(0, int)), np.arange(4), scheduler)
    unknown = la.from_delayed(load(4), (None,), dtype=int)
    assert unknown.shape == (None,)
    assert len(unknown) == 4
    back = la.from_delayed(la.ones(3, chunks=3).to_delayed()[0], (3,), float)
    check(back, np.ones(3), scheduler)


@pytest.mark.parametrize("said, error, words", [
    ({"shape": (5,), "dtype": int}, ValueError,
     r"arange returned an array of shape \(4,\) for block \(0,\), but \(5,\) was expected. Say "
     r"what it returns by shape= of from_delayed\(\)"),
    ({"shape": (4,), "dtype": float}, TypeError, r"arange returned int64 for block \(0,\), but"),
])
def test_lazy_values_that_are_not_what_was_said(said, error, words):
    found = la.from_delayed(lazyflow.delayed(np.arange)(4), **said)
    with pytest.raises(error, match=words):
        found.compute()


def test_from_delayed_needs_a_lazy_value_and_a_dtype():
    with pytest.raises(TypeError, match=r"takes a lazy value; got a ndarray"):
        la.from_delayed(np.ones(3), (3,), float)
    with pytest.raises(TypeError, match=r"must be told the dtype of the value: pass dtype= or"):
        la.from_delayed(lazyflow.delayed(np.ones)(3), (3,))


def test_blocks_go_out_as_lazy_values_and_come_back():
    x = la.from_array(np.arange(12).reshape(3, 4), chunks=(2, 3)) * 2
    blocks = x.to_delayed()
    assert blocks.shape == (2, 2)
    total = lazyflow.delayed(sum)([block.sum() for block in blocks.ravel()])
    assert total.compute() == 132


# -- odd values: as NumPy does --------------------------------------------------------------------


def _structured():
    made = np.zeros(6, dtype=[("a", "i4"), ("b", "f8")])
    made["a"] = np.arange(6)
    return made


ODD = {
    "nan": np.array([1.0, np.nan, 3.0, np.nan, np.nan, 6.0]),  # the second chunk is all NaN
    "object": np.array([1, 2.5, 3, 10**30, 5, 6], dtype=object),
    "big-endian": np.arange(6, dtype=">f8"),
    "int8": np.full(6, 100, dtype="i1"),
    "uint8": np.full(6, 200, dtype="u1"),
    "bool": np.array([True, False, True, True, False, True]),
    "complex": np.arange(6) * (1 + 2j),
    "empty": np.empty(0),
    "dates": np.arange("2020-01-01", "2020-01-07", dtype="M8[D]"),
    "text": np.array(["b", "a", "c", "f", "e", "d"]),
    "structured": _structured(),
}
CHUNKS = [(6,), (1, 3, 2), (0, 1, 0, 2, 2, 1, 0)]
FUNCTIONS = [
    lambda x: x.sum(), lambda x: x.max(), lambda x: x.min(), lambda x: x.mean(),
    lambda x: x.prod(), lambda x: x.any(), lambda x: x + x, lambda x: x == x, lambda x: x[::-2],
    lambda x: np.nansum(x), lambda x: -x, lambda x: x.var(),
]


COMPARISON = 7


def outcome(function, x):
    with np.errstate(all="ignore"):
        try:
            found = function(x)
            return found.compute() if isinstance(found, la.Array) else found
        except Exception as error:
            return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_odd_values_give_what_numpy_gives(kind, number):
    values = ODD[kind]
    if kind == "structured" and number == COMPARISON:
        return  # only ndarray's own operator compares these, no ufunc does
    expected = outcome(FUNCTIONS[number], values)
    for chunks in CHUNKS if values.size else [(0,), (0, 0)]:
        found = outcome(FUNCTIONS[number], la.from_array(values, chunks=(chunks,)))
        if isinstance(expected, type):
            assert isinstance(found, type) and issubclass(found, expected), found
            continue
        assert not isinstance(found, type), found
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        if values.dtype.kind in "fc":
            np.testing.assert_allclose(found, expected)
        else:
            np.testing.assert_array_equal(found, expected)


def test_odd_values_reach_functions_of_blocks_as_they_are():
    for values in ODD.values():
        x = la.from_array(values, chunks=4)
        check(x.map_blocks(lambda b: b, dtype=values.dtype), values)
        check(x.map_blocks(lambda b: b), values)
        if values.size:
            check(x.map_overlap(lambda b: b, 1, "nearest"), values)


def test_masked_blocks_stay_masked():
    x = la.arange(6, chunks=3)
    masked = x.map_blocks(lambda b: np.ma.masked_greater(b, 1), dtype=int)
    count = masked.map_blocks(lambda b: np.asarray([b.count()]), chunks=1, dtype=int)
    check(count, [2, 0])
    wide = masked.map_overlap(lambda b: b, 1, trim=False, dtype=int)
    assert [type(b) for b in blocks_of(wide)] == [np.ma.MaskedArray] * 2


@pytest.mark.parametrize("chunks, words", [
    ((2, 3), r"chunks of axis 0, \(2, 3\), add up to 5, but the axis has length 6"),
    (0, r"chunks of axis 0 have length 0; it must be 1 or more, or -1 for one chunk"),
    (-2, r"chunks of axis 0 have length -2; it must be 1 or more"),
    ((7, -1), r"chunks of axis 0, \(7, -1\), add up to 6"),
])
def test_bad_chunks_are_one_sentence(chunks, words):
    given = (chunks,) if isinstance(chunks, tuple) else chunks
    for make in (
        lambda: la.ones(6, chunks=given),
        lambda: la.from_array(np.arange(6), chunks=given),
        lambda: la.arange(6, chunks=2).rechunk(given),
    ):
        with pytest.raises(ValueError, match=words):
            make()


# -- threads --------------------------------------------------------------------------------------


def test_a_dtype_is_asked_for_by_several_threads():
    x = la.ones(4, chunks=2)
    for _ in range(100):
        x = x.map_blocks(np.negative)
    found = []
    threads = [threading.Thread(target=lambda: found.append(x.dtype)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [np.dtype(float)] * 4


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_arrays_without_a_known_dtype_travel_and_are_arguments(scheduler):
    x = la.arange(6, chunks=2).map_blocks(lambda b: b / 2)
    total = lazyflow.delayed(np.sum)(x)
    assert total.compute(scheduler=scheduler) == 7.5
    back = cloudpickle.loads(cloudpickle.dumps(x))
    check(back, np.arange(6) / 2, scheduler)


def test_a_function_that_two_arrays_need_runs_once_for_each_block(here):
    calls = Calls()
    x = la.arange(6, chunks=2).map_blocks(calls, dtype=int)
    lazyflow.compute(x + 1, x.sum(), x.map_blocks(np.sort, dtype=int))
    assert len(calls.shapes) == 3
