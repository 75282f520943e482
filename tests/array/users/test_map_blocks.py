"""`map_blocks`: a function is called for each block, and its results are checked."""

import operator
import threading
from itertools import product

import cloudpickle
import numpy as np
import pytest
from array_checks import blocks_of, check, tasks_of
from array_examples import Calls
from array_strategies import arrays
from hypothesis import given, settings

import lazyflow
import lazyflow.array as la

SCHEDULERS = ["sync", "threads", "processes"]


# -- map_blocks -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(arrays(dtypes=["i8"]))
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
        told.append((block_info[0]["array-location"], block_info[0]["num-chunks"]))
        return a.sum(1)

    x.map_blocks(note, drop_axis=1, dtype=float).compute()
    assert sorted(told) == [([(0, 2), (0, 6)], (2, 1)), ([(2, 4), (0, 6)], (2, 1))]


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
    assert tasks_of(found) < 12


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
    with pytest.raises(TypeError, match=r"add gets lazy values, so it can't be tried"):
        lazy.dtype
    assert lazy.compute().dtype == float
    gufunc = la.apply_gufunc(lambda a: a.nothing, "(i)->()", x, allow_rechunk=True)
    with pytest.raises(TypeError, match=r"Pass output_dtypes= to apply_gufunc\(\)"):
        gufunc.dtype


@pytest.mark.parametrize("arguments, words", [
    ({"meta": 5}, r"meta must be an array like the result, of any length; got 5"),
    ({"dtype": str}, r"does not say how long the strings are; give the length, as in 'U10'"),
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
        "lies returned an array of shape (2, 4) for block (1, 0), but (4, 4) was expected. "
        "Declare the shape by chunks= (and drop_axis=, new_axis= where axes go or come) of "
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
    (None, r"<lambda> returned None for block \(0,\), but an array was expected. Is its return"),
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
    assert "test_map_blocks.py" in notes


def test_names_for_tasks():
    x = la.ones(2, chunks=1)
    for said in ({"name": "mine"}, {"token": "mine"}):
        made = x.map_blocks(np.sort, **said)
        assert repr(made).startswith("lazyflow.Array<mine, ")


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
