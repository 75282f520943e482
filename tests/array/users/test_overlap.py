"""`overlap` and `map_overlap`: blocks and what is around them."""

import numpy as np
import pytest
from array_checks import check, kept_inputs, tasks_of
from array_examples import Calls, Store
from array_strategies import arrays
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

SCHEDULERS = ["sync", "threads", "processes"]


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
@given(arrays(dtypes=["i8"], least=3), st.data())
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
@given(arrays(dtypes=["i8"], least=3), st.data())
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


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "nearest", 0, "none"])
def test_functions_that_trim_what_they_get(boundary):
    a = np.arange(24.0).reshape(4, 6)
    x = la.from_array(a, chunks=(2, 3))
    found = x.map_overlap(lambda b: b[1:-1, 1:-1], 1, boundary, trim=False)
    assert found.shape == (None, None)
    check(found, a if boundary != "none" else a[1:-1, 1:-1])
    ways = {"depth": {0: (1, 0)}, "boundary": "none", "trim": False}
    check(x.map_overlap(lambda b: np.diff(b, axis=0), **ways), np.diff(a, axis=0))
    check(x.map_overlap(lambda b: b.sum(1)[1:], drop_axis=1, **ways).sum(), a[1:].sum())
    if boundary != "none":
        kept = x.map_overlap(lambda b: b[1:-1, 1:-1], 1, boundary, trim=False, chunks=x.chunks)
        assert kept.chunks == x.chunks
        check(kept, a)


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
    with pytest.raises(ValueError, match="axis 0 has no elements, so boundary="):
        la.zeros((0, 2)).map_overlap(np.negative, {0: 1}, "reflect")


@pytest.mark.parametrize("arguments, error, words", [
    ({"depth": 3, "allow_rechunk": False}, ValueError,
     r"shortest chunk of axis 0 has length 2, less than the"),
    ({"depth": -1}, ValueError, r"the depth of axis 0 must be a length of 0 or more"),
    ({"depth": {1: 1}}, ValueError, r"depth names axis 1, but the array has 1 axes"),
    ({"depth": (1, 1)}, ValueError, r"depth=\(1, 1\) is for 2 axes, not for 1"),
    ({"depth": [1, 1]}, ValueError, r"depth is a list for 2 arrays, but there are 1"),
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
    assert tasks <= 4 * 1000  # sources, their neighbourhoods, the function, the trimming


def test_overlaps_read_only_what_they_need(here):
    store = Store(np.arange(100))
    x = la.from_array(store, chunks=10).map_overlap(lambda b: b, 1, dtype=int)
    np.testing.assert_array_equal(x[35:38].compute(), [35, 36, 37])
    assert sorted(key[0].start for key in store.read) == [20, 30, 40]


@pytest.mark.parametrize("boundary", [*MODES, "none", 3])
def test_of_large_neighbours_only_the_parts_are_read(boundary):
    """On a cluster blocks would move for a row of each."""
    a = np.random.default_rng(0).integers(0, 99, (12_288, 1024), np.uint8)
    kept = (la.from_array(a, chunks=(4096, 1024)) + np.uint8(0)).persist()
    made = kept.map_overlap(lambda b: np.roll(b, 1, 0) + np.roll(b, -2, 0), {0: (1, 2)}, boundary)
    assert kept_inputs(made) == {1}
    whole = padded(a, {0: (1, 2), 1: (0, 0)}, {0: boundary, 1: "none"})
    found = made.compute()
    if boundary == "none":
        found = found[1:-2]
    np.testing.assert_array_equal(found, whole[:-3] + whole[3:], strict=True)
