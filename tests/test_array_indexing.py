"""Indexing of chunked arrays, against NumPy: what is taken, what is written, what is searched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow.array.array import Array
from lazyflow.graph.plan import make_plan

SYNC = {"scheduler": "sync"}


def value(x):
    return x.compute(**SYNC)


def check(x, wanted):
    """The array is NumPy's: dtype, shape, values; and its blocks are what its chunks say."""
    wanted = np.asarray(wanted)
    assert isinstance(x, Array)
    found = np.asarray(value(x))
    assert found.dtype == wanted.dtype == x.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)
    assert all(n is None or n == m for n, m in zip(x.shape, wanted.shape, strict=True))
    blocks = lazyflow.compute(list(la.functions["to_delayed"](x).flat), **SYNC)[0]
    for index, block in zip(np.ndindex(*x.numblocks), blocks, strict=True):
        assert block.dtype == x.dtype
        sizes = [c[i] for c, i in zip(x.chunks, index, strict=True)]
        assert all(n is None or n == m for n, m in zip(sizes, block.shape, strict=True))


def raised(function):
    try:
        function()
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("nothing was raised")


def tasks_of(x):
    return make_plan(x.__lazyflow_tasks__()).end


class Store:
    """Something that is read by slices, and says which were read."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.read = []

    def __getitem__(self, key):
        self.read.append(key)
        return self.array[key]


def kinds(a, chunks):
    """The same array in memory, of tasks, and computed of others."""
    x = la.from_array(a, chunks=chunks)
    return {"memory": x, "computed": x + np.zeros((), a.dtype), "tasks": x.persist(**SYNC)}


# -- taking -------------------------------------------------------------------------------------

A = np.arange(24.0).reshape(4, 6)
KEYS = {
    "list": [0, 2],
    "negative, twice": [-1, 0, 0, 3],
    "columns": (slice(None), [5, 0, 0, 2]),
    "empty": [],
    "empty columns": (slice(None), []),
    "points": ([0, 1, 3], [1, 1, 2]),
    "points, broadcast": ([[0], [3]], [1, 5, 2]),
    "crossed": np.ix_([3, 0, 0], [1, 4]),
    "crossed, turned": (np.array([[3, 0, 1]]), np.array([[1], [4]])),
    "two axes of one": ([[0, 1], [2, 3]],),
    "an integer beside": (2, [1, 2]),
    "a slice beside": ([[0, 1], [2, 3]], slice(None, None, -2)),
    "a slice before": (slice(3, 0, -1), [4, 1]),
    "a new axis between": ([1, 2], None, [1, 0]),
    "a new axis before": (None, [1, 2], [1, 0]),
    "integer, new axis, array": (0, None, [1, 0]),
    "array and ellipsis": (Ellipsis, [1, 0]),
    "mask of rows": np.array([True, False, True, True]),
    "mask of columns": (slice(None), np.array([True, False, False, True, True, False])),
    "mask and integer": (np.array([True, False, True, True]), 2),
    "mask and array": (np.array([True, False, True, True]), [1, 2, 0]),
    "mask and slice": (np.array([True, False, True, True]), slice(1, 5, 2)),
    "mask of all": A % 5 < 2,
    "true": True,
    "false": False,
    "true and array": (True, [1, 2]),
    "a 0-d array": (np.array(1), slice(None)),
}
CHUNKS = [(2, 3), (4, 1), (1, 6), ((1, 0, 3), (2, 4)), (-1, -1)]


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_keys_take_what_they_take_of_numpy(name, chunks):
    key = KEYS[name]
    for x in kinds(A, chunks).values():
        check(x[key], A[key])


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_lazy_keys(chunks):
    x = la.from_array(A, chunks=chunks)
    rows = la.from_array(np.array([3, -1, 0]), chunks=2)
    check(x[rows], A[[3, -1, 0]])
    check(x[rows, rows], A[[3, -1, 0], [3, -1, 0]])
    check(x[rows.max()], A[3])
    check(x[x > 7], A[A > 7])
    check((x + 1)[x % 5 < 2], (A + 1)[A % 5 < 2])
    check(x[x[:, 0] > 5], A[A[:, 0] > 5])
    check(x[:, x[1] > 8], A[:, A[1] > 8])
    check(x[1, x[1] > 8], A[1, A[1] > 8])
    check(x[x[:, 0] > 5, 1:3], A[A[:, 0] > 5, 1:3])
    check(x[x[:, 0] > 5, [1]], A[A[:, 0] > 5, [1]])
    check(x[(x > 3).any()], A[(A > 3).any()])
    check(x[x > 100], A[A > 100])


def test_masks_of_some_axes_of_many():
    a = np.arange(3 * 4 * 5 * 2).reshape(3, 4, 5, 2)
    for chunks in [(2, 2, 2, 1), (1, 2, 5, 2), (3, 1, 3, 2)]:
        x = la.from_array(a, chunks=chunks)
        for lazy in (True, False):
            for cut in (np.s_[..., 0], np.s_[:, :, 0, 0], np.s_[:, 0, 0, 0]):
                mask = a[cut] % 7 < 3
                given = (x % 7 < 3)[cut] if lazy else mask
                check(x[given], a[mask])
            inner = a[0, :, :, 0] % 7 < 3
            given = (x % 7 < 3)[0, :, :, 0] if lazy else inner
            check(x[:, given], a[:, inner])
            check(x[1:, given, 0], a[1:, inner, 0])
            check(x[0, :, inner.any(0)], a[0, :, inner.any(0)])


@st.composite
def chunked(draw, most=3, longest=7):
    shape = tuple(draw(st.lists(st.integers(0, longest), min_size=1, max_size=most)))
    chunks = []
    for n in shape:
        cuts = draw(st.lists(st.integers(0, n), max_size=3))
        chunks.append(tuple(np.diff([0, *sorted(cuts), n]).tolist()))
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(draw(st.sampled_from("fiu")))
    return a, tuple(chunks)


@st.composite
def keys(draw, shape, duplicates=True):
    """Draw a key of any kind for an array of a shape."""
    found = []
    together = draw(st.integers(0, 4))
    for n in shape:
        kind = draw(st.sampled_from(["slice", "slice", "int", "array", "mask", "new"]))
        if kind == "new":
            found.append(None)
            kind = "slice"
        if kind == "int" and n:
            found.append(draw(st.integers(-n, n - 1)))
        elif kind == "array" and (n or not together):
            at = draw(st.lists(st.integers(-n, n - 1), min_size=together, max_size=together,
                               unique_by=None if duplicates else lambda i, n=n: i % n))\
                if duplicates or together <= n else None
            found.append(slice(None) if at is None else np.array(at, dtype=int))
        elif kind == "mask" and n >= together:
            mask = np.zeros(n, dtype=bool)
            mask[draw(st.permutations(range(n)))[:together]] = True
            found.append(mask)
        else:
            ends = st.none() | st.integers(-n - 1, n + 1)
            step = draw(st.sampled_from([None, 1, 2, -1, -3]))
            found.append(slice(draw(ends), draw(ends), step))
    while found and found[-1] == slice(None):
        found.pop()
    return tuple(found)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_keys(data):
    a, chunks = data.draw(chunked())
    key = data.draw(keys(a.shape))
    x = la.from_array(a, chunks=chunks)
    if data.draw(st.booleans()):
        x = x * 1
    lazy = data.draw(st.booleans())
    given_key = tuple([
        la.from_array(each, chunks=2) if lazy and isinstance(each, np.ndarray) else each
        for each in key
    ])
    found = x[given_key]
    wanted = a[key]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(value(found), wanted, strict=True)
    assert value((found + 1).sum()) == (wanted + 1).sum()
    again = tuple([slice(None, None, -1)] * wanted.ndim)
    np.testing.assert_array_equal(value(found[again]), wanted[again], strict=True)
    np.testing.assert_array_equal(value(found.T[1:2] if wanted.ndim else found),
                                  wanted.T[1:2] if wanted.ndim else wanted, strict=True)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_permutations_of_many_chunks(data):
    """Every block needs points of every other: they are exchanged in groups."""
    n = data.draw(st.integers(30, 80))
    size = data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    at = rng.integers(0, n * size, data.draw(st.sampled_from([n * size, 2 * n * size + 1])))
    a = rng.random((n * size, 3))
    x = la.from_array(a, chunks=(size, 2))
    for y in (x * 1.0, (x * 1.0).persist(**SYNC)):
        np.testing.assert_array_equal(value(y[at]), a[at], strict=True)
        np.testing.assert_array_equal(value(y.T[:, at]), a.T[:, at], strict=True)
        some = at[: len(at) // 6 * 6].reshape(-1, 6)
        np.testing.assert_array_equal(value(y[some]), a[some], strict=True)
        np.testing.assert_array_equal(value(y[at, at % 3]), a[at, at % 3], strict=True)


def test_a_permutation_costs_tasks_by_the_square_root_of_chunks():
    n = 400
    at = np.random.default_rng(0).permutation(n * 25)
    a = np.arange(n * 25.0)
    x = la.from_array(a, chunks=25)
    tasks = (x + 0).persist(**SYNC)
    np.testing.assert_array_equal(value(tasks[at]), a[at])
    assert tasks_of(tasks[at]) <= 2 * n + 2 * 21  # blocks, groups, groups of blocks, blocks
    assert tasks_of(x[at]) <= n + 1
    assert tasks[at].chunks == x.chunks


def test_only_blocks_that_are_needed_are_read():
    store = Store(np.arange(100).reshape(10, 10))
    x = la.from_array(store, chunks=(2, 5))
    check_value = value(x[[0, 1, 8], 6:8])
    np.testing.assert_array_equal(check_value, store.array[[0, 1, 8], 6:8])
    assert {key[0].start for key in store.read} == {0, 8}
    assert all(key[1] == slice(6, 8) for key in store.read)
    store.read.clear()
    np.testing.assert_array_equal(value(x[[0, 5, 8]][2]), store.array[8])
    assert {key[0].start for key in store.read} == {8}
    store.read.clear()
    x[[0, 5, 8]], x[x[0] > 3], x.vindex[[1], [1]]
    x[3] = 1
    assert not store.read


def test_chunks_of_what_is_taken():
    x = la.from_array(np.arange(100), chunks=10)
    assert x[np.arange(100)[::-1]].chunks == x.chunks
    assert x[[1, 2, 50, 51]].chunks == ((4,),)
    assert x[np.arange(0, 100, 2)].chunks == ((10,) * 5,)
    assert max(x[np.zeros(35, int)].chunks[0]) == 10
    assert max(x[np.zeros((7, 7), int)].chunks[0]) * 7 <= 10


def test_what_a_key_was_does_not_change_with_the_callers_arrays():
    x = la.from_array(np.arange(6), chunks=2) + 0
    at, mask = np.array([1, 2]), np.arange(6) > 3
    taken, chosen = x[at], x[mask]
    wide = x[None][mask[None]]
    at[:] = 0
    mask[:] = False
    assert value(taken).tolist() == [1, 2]
    assert value(chosen).tolist() == value(wide).tolist() == [4, 5]


ERRORS = {
    "too large": ([4],),
    "too small": ([0, -5],),
    "columns": (slice(None), [1, 6]),
    "mask too long": (np.ones(5, bool),),
    "mask of columns": (slice(None), np.ones(5, bool)),
    "mask of all": (np.ones((4, 5), bool),),
    "shapes": ([0, 1], [0, 1, 2]),
    "too many": (1, 2, [0]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_keys_are_wrong_in_numpys_words(name):
    key = ERRORS[name]
    x = la.from_array(A, chunks=2)
    kind, words = raised(lambda: A[key])
    found_kind, found_words = raised(lambda: x[key])
    assert found_kind is kind is IndexError
    assert found_words == words.strip()
    kind, words = raised(lambda: x.__setitem__(key, 1))
    assert (kind, words) == (found_kind, found_words)


def test_what_is_no_index():
    x = la.from_array(A, chunks=2)
    with pytest.raises(IndexError, match="must be of integer .or boolean. type; got float64"):
        x[[1.5]]
    with pytest.raises(IndexError, match="must be of integer .or boolean. type; got float64"):
        x[x]


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler):
    a = np.random.default_rng(0).random((60, 4))
    x = la.from_array(a, chunks=(1, 2))
    at = np.random.default_rng(1).permutation(60)
    y = (x + 1)[at]
    mask = x[:, 0] > 0.5
    z = x[mask]
    w = x.copy()
    w[at[:9], 1:] = x[:9, :3]
    w[w > 0.9] = 0
    wanted = a.copy()
    wanted[at[:9], 1:] = a[:9, :3]
    wanted[wanted > 0.9] = 0
    values = la.unique(la.from_array(at % 7, chunks=9), return_counts=True)
    np.testing.assert_array_equal(y.compute(scheduler=scheduler), (a + 1)[at])
    np.testing.assert_array_equal(x[at].compute(scheduler=scheduler), a[at])
    np.testing.assert_array_equal(z.compute(scheduler=scheduler), a[a[:, 0] > 0.5])
    np.testing.assert_array_equal(w.compute(scheduler=scheduler), wanted)
    np.testing.assert_array_equal(values[1].compute(scheduler=scheduler), np.bincount(at % 7))


# -- lengths that only a computation tells --------------------------------------------------------


def test_lengths_of_what_a_mask_chooses():
    x = la.from_array(np.arange(20).reshape(10, 2), chunks=(3, 2))
    y = x[x[:, 0] % 4 == 0]
    assert y.shape == (None, 2)
    assert y.chunks == ((None,) * 4, (2,))
    assert len(y) == 5
    assert y.shape == (5, 2)
    assert y.chunks[0] == (2, 1, 1, 1)
    assert value(y[:2]).tolist() == [[0, 1], [4, 5]]
    assert value(y[-1]).tolist() == [16, 17]
    assert value(x[x > 3][[0, -1]]).tolist() == [4, 19]
    assert value((y + y)[y[:, 0] > 4]).tolist() == [[16, 18], [24, 26], [32, 34]]


def test_lengths_are_found_by_the_mask_alone_and_once():
    data, keep = Store(np.arange(20)), Store(np.arange(20) % 3 == 0)
    x, mask = la.from_array(data, chunks=6), la.from_array(keep, chunks=6)
    y = x[mask]
    z = y * 2
    assert len(z) == 7
    assert not data.read
    assert len(keep.read) == 4
    assert len(y) == len(x[mask] + 1) == 7
    assert len(keep.read) == 4
    assert value(y[2:3]).tolist() == [6]
    assert len(data.read) == 1


def test_a_mask_in_memory_has_been_counted():
    x = la.from_array(np.arange(20).reshape(4, 5), chunks=2)
    y = x[np.arange(20).reshape(4, 5) > 11]
    assert y.shape == (8,)


# -- points and blocks --------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [(2, 3, 2), (1, 4, 1), -1], ids=str)
def test_vindex(chunks):
    a = np.arange(60).reshape(3, 4, 5)
    for x in kinds(a, chunks).values():
        check(x.vindex[[0, 1, 2], [3, 2, 1]], a[[0, 1, 2], [3, 2, 1]])
        check(x.vindex[[0, 1], :, [3, 2]], a[[0, 1], :, [3, 2]])
        check(x.vindex[:, [0, 1], [3, 2]], np.moveaxis(a[:, [0, 1], [3, 2]], 1, 0))
        check(x.vindex[[[0], [2]], [1, 3], 0], a[[[0], [2]], [1, 3], 0])
        check(x.vindex[..., [4, 0]], np.moveaxis(a[..., [4, 0]], -1, 0))
        check(x.vindex[1, 2, 3], a[1, 2, 3])
        check(x.vindex[a[:, :, 0] > 20], a[a[:, :, 0] > 20])


def test_vindex_refuses():
    x = la.from_array(A, chunks=2)
    with pytest.raises(IndexError, match="None"):
        x.vindex[None, [1], [2]]
    with pytest.raises(IndexError, match="slice first"):
        x.vindex[1:, [1]]
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 1 with size 6"):
        x.vindex[[1], [7]]


def test_blocks():
    x = la.from_array(A, chunks=((1, 3), (2, 2, 2))) + 0
    assert x.blocks.shape == (2, 3)
    assert x.blocks.size == 6
    assert len(x.blocks) == 2
    for key, wanted in (
        ((0, 0), A[:1, :2]),
        (0, A[:1]),
        (-1, A[1:]),
        ((slice(None), 1), A[:, 2:4]),
        ((Ellipsis, [2, 0]), A[:, [4, 5, 0, 1]]),
        ([1, 0], np.concatenate([A[1:], A[:1]])),
        ((slice(None), np.array([True, False, True])), A[:, [0, 1, 4, 5]]),
        ((slice(None), slice(None, None, -1)), A[:, [4, 5, 2, 3, 0, 1]]),
        (slice(0, 0), A[:0]),
    ):
        np.testing.assert_array_equal(value(x.blocks[key]), wanted, strict=True)
    assert [value(b).tolist() for b in x.blocks.ravel()] == [
        A[r, c].tolist() for r in (np.s_[:1], np.s_[1:]) for c in (np.s_[:2], np.s_[2:4], np.s_[4:])
    ]
    assert [b.shape for b in x.blocks] == [(1, 6), (3, 6)]


def test_blocks_refuse():
    x = la.from_array(A, chunks=2)
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
        x.blocks[0, 3]
    with pytest.raises(IndexError, match="one list at most"):
        x.blocks[[0], [1]]
    with pytest.raises(IndexError, match="newaxis"):
        x.blocks[None]
    with pytest.raises(IndexError, match="too many indices for blocks"):
        x.blocks[0, 0, 0]


# -- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_writing(name, chunks):
    key = KEYS[name]
    shape = A[key].shape
    rng = np.random.default_rng(0)
    values = [7, np.array(2.5), rng.random(shape), rng.random(shape)[..., :1]]
    if not (isinstance(key, np.ndarray) and key.ndim > 1 and key.dtype == bool):
        values += [rng.random((1, *shape)), rng.random((1,) * len(shape))]
    for new in values:
        wanted = A.copy()
        try:
            wanted[key] = new
        except ValueError:  # [..., :1] of nothing
            continue
        for x in kinds(A, chunks).values():
            for given_value in (new, la.from_array(new, chunks=2) if np.ndim(new) else new):
                y = x.copy()
                y[key] = given_value
                assert y.chunks == x.chunks
                check(y, wanted)
                check(x, A)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_writing_by_random_keys(data):
    a, chunks = data.draw(chunked())
    key = data.draw(keys(a.shape))
    x = la.from_array(a, chunks=chunks)
    if data.draw(st.booleans()):
        x = x * 1
    taken = a[key]
    shape = tuple([n if data.draw(st.booleans()) else 1 for n in taken.shape])
    new = np.arange(100, 100 + np.prod(shape, dtype=int)).reshape(shape)
    wanted = a.copy()
    wanted[key] = new
    old = x.copy()
    lazy = data.draw(st.booleans())
    x[key] = la.from_array(new, chunks=2) if lazy and new.ndim else new
    np.testing.assert_array_equal(value(x), wanted, strict=True)
    np.testing.assert_array_equal(value(old), a, strict=True)
    np.testing.assert_array_equal(value(x[key]), wanted[key], strict=True)


def test_writing_by_lazy_masks():
    for chunks in CHUNKS:
        for lazy_value in (False, True):
            def given_value(new, lazy=lazy_value):
                return la.from_array(new, chunks=2) if lazy else new

            x, a = la.from_array(A, chunks=chunks), A.copy()
            x[x > 20] = 0
            a[a > 20] = 0
            x[x[:, 1] > 8] = given_value(np.arange(6))
            a[a[:, 1] > 8] = np.arange(6)
            x[:, x[0] == 2] = given_value(np.arange(4)[:, None])
            a[:, a[0] == 2] = np.arange(4)[:, None]
            new = np.arange(np.count_nonzero(a < 4)) * 10.0
            x[x < 4] = given_value(new)
            a[a < 4] = new
            x[x[:, 1] > 8, 2] = -1
            a[a[:, 1] > 8, 2] = -1
            check(x, a)


def test_what_was_made_before_keeps_its_values():
    x = la.from_array(np.arange(6), chunks=2)
    y, z = x + 1, x
    x[1:3] = 0
    assert value(y).tolist() == [1, 2, 3, 4, 5, 6]
    assert value(x).tolist() == value(z).tolist() == [0, 0, 0, 3, 4, 5]
    x[:-1] = x[1:]
    assert value(x).tolist() == [0, 0, 3, 4, 5, 5]
    x[[0, 1]] += 5
    assert value(x).tolist() == [5, 5, 3, 4, 5, 5]


def test_the_callers_arrays_stay_and_may_change():
    a, new = np.arange(6), np.array([9, 9])
    x = la.from_array(a, chunks=3)
    x[1:3] = new
    new[:] = 0
    assert value(x).tolist() == [0, 9, 9, 3, 4, 5]
    assert a.tolist() == [0, 1, 2, 3, 4, 5]


def test_only_blocks_that_change_are_written():
    x = (la.from_array(np.arange(1000), chunks=10) + 0).persist(**SYNC)
    before = tasks_of(x)
    x[15:25] = 0
    assert tasks_of(x) <= before + 2 + 1  # two blocks, and perhaps the value
    x[[500, 501, 700]] = 1
    assert tasks_of(x) <= before + 4 + 2
    store = Store(np.arange(100))
    y = la.from_array(store, chunks=10)
    y[10:95] = la.from_array(np.arange(85), chunks=9)
    value(y)
    assert sorted(key[0].start for key in store.read) == [0, 90]  # the others are written over


def test_many_writes_one_after_the_other():
    x, a = la.from_array(np.zeros(3000), chunks=500) + 0, np.zeros(3000)
    for i in range(0, 3000, 2):
        x[i] = i
    a[::2] = np.arange(0, 3000, 2)
    np.testing.assert_array_equal(value(x), a)


WRONG_VALUES = {
    "basic": (slice(0, 2), np.zeros(3)),
    "more axes": (0, np.zeros((2, 6))),
    "arrays": ([0, 1], np.zeros(3)),
    "arrays, more axes": ([0], np.zeros((2, 2, 2))),
    "mask of rows": (np.ones(4, bool), np.zeros((3, 6))),
    "mask, integer": ((np.ones(4, bool), 1), np.zeros(2)),
    "mask of all": (A > 10, np.zeros(3)),
    "mask of all, more axes": (A > 10, np.zeros((4, 6))),
    "text": (0, "a"),
    "complex": (0, 1j),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_do_not_fit_are_wrong_in_numpys_words(name):
    key, new = WRONG_VALUES[name]
    wanted = raised(lambda: A.copy().__setitem__(key, new))
    x = la.from_array(A, chunks=2)
    assert raised(lambda: x.__setitem__(key, new)) == wanted
    if isinstance(new, np.ndarray):
        assert raised(lambda: x.__setitem__(key, la.from_array(new, chunks=2))) == wanted
    check(x, A)


def test_casts_of_values():
    x = la.from_array(np.zeros(4, "i1"), chunks=2)
    wanted = raised(lambda: np.zeros(4, "i1").__setitem__(0, 300))
    assert raised(lambda: x.__setitem__(0, 300)) == wanted
    wanted = raised(lambda: np.zeros(4, "i1").__setitem__(0, float("nan")))
    assert raised(lambda: x.__setitem__(0, float("nan"))) == wanted
    x[:2] = np.array([1.9, -1.9])
    x[2:] = la.from_array(np.array([300, 2.5]), chunks=1).astype(int)
    check(x, np.array([1, -1, 44, 2], "i1"))


# -- functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_take(chunks):
    x = la.from_array(A, chunks=chunks)
    for at in ([0, 3, 1], [[1, -1], [0, 2]], 2, -1, [], np.array([3, 3], "u1")):
        for axis in (0, 1, -1, None):
            check(la.take(x, at, axis), np.take(A, np.asarray(at, dtype=int), axis))
    check(np.take(x, [1, 2], axis=1), np.take(A, [1, 2], axis=1))
    check(x.take([9, -9], 0, mode="wrap"), A.take([9, -9], 0, mode="wrap"))
    check(x.take([9, -9], mode="clip"), A.take([9, -9], mode="clip"))
    check(x.take(la.arange(3, chunks=2), 0), A[:3])
    out = la.zeros((2, 6), chunks=2)
    assert la.take(x, [1, 0], 0, out) is out
    check(out, A[[1, 0]])


def test_wrong_takes():
    x = la.from_array(A, chunks=2)
    for args in (([9],), ([9], 1), ([1], 5), ([1], 0, None, "x"), ([1.5], 0)):
        wanted = raised(lambda args=args: A.take(*args))
        if args == ([9],):  # numpy names axis 0 of the flat array
            wanted = wanted[0], "index 9 is out of bounds for axis 0 with size 24"
            assert raised(lambda: x[:, :0].take([9])) == (
                IndexError, "index 9 is out of bounds for axis 0 with size 0")
            continue
        assert raised(lambda args=args: x.take(*args)) == wanted


def test_compress_and_extract():
    x = la.from_array(A, chunks=(3, 2))
    for condition, axis in (([1, 0, 1], 0), ([0, 1, 1, 0, 0, 1], 1), ([True] * 9, None)):
        for lazy in (condition, la.from_array(np.array(condition), chunks=2)):
            check(la.compress(lazy, x, axis), np.compress(condition, A, axis))
    check(la.extract(x % 3 == 0, x), np.extract(A % 3 == 0, A))
    check(la.extract(A[0] > 2, x), np.extract(A[0] > 2, A))
    with pytest.raises(ValueError, match="condition must be a 1-d array"):
        la.compress(A > 2, x)
    wanted = raised(lambda: np.compress([1] * 5, A, 0))
    assert raised(lambda: la.compress([1] * 5, x, 0)) == (
        wanted[0], wanted[1].replace("index 3 is", "index 4 is").replace("size 3", "size 4"))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_nonzero(chunks):
    a = A % 5 * (A % 3 > 0)
    x = la.from_array(a, chunks=chunks)
    for found in (la.nonzero(x), la.where(x), np.nonzero(x), x.nonzero()):
        assert len(found) == 2
        for each, wanted in zip(found, a.nonzero(), strict=True):
            check(each, wanted)
    check(la.argwhere(x), np.argwhere(a))
    check(la.flatnonzero(x), np.flatnonzero(a))
    check(la.flatnonzero(x[0]), np.flatnonzero(a[0]))
    assert raised(lambda: la.nonzero(x[0, 0])) == raised(lambda: np.nonzero(a[0, 0]))
    check(la.argwhere(x[0, 1]), np.argwhere(a[0, 1]))
    np.testing.assert_array_equal(value(x[la.nonzero(x)]), a[a.nonzero()])


def test_choose():
    at = np.array([[0, 2, 1], [1, 0, 2]])
    options = [np.arange(3), np.full((2, 1), 7.5), 100]
    x = la.from_array(at, chunks=(1, 2))
    check(la.choose(x, options), np.choose(at, options))
    check(x.choose([la.from_array(options[0], chunks=1), 1, 2]), np.choose(at, [options[0], 1, 2]))
    check(la.choose(x + 5, options, mode="wrap"), np.choose(at + 5, options, mode="wrap"))
    check(la.choose(x - 1, options, mode="clip"), np.choose(at - 1, options, mode="clip"))
    assert raised(lambda: value(la.choose(x + 1, options)))[0] is ValueError
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        value(la.choose(x + 1, options))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_take_along_axis(chunks):
    x = la.from_array(A, chunks=chunks)
    for axis in (0, 1, -1):
        at = np.argsort(-A % 7, axis=axis)
        check(la.take_along_axis(x, la.from_array(at, chunks=2), axis),
              np.take_along_axis(A, at, axis))
        at = at[:1, :1]
        check(la.take_along_axis(x, at, axis), np.take_along_axis(A, at, axis))
    check(la.take_along_axis(x, np.array([5, 0, 23]), None), A.ravel()[[5, 0, 23]])
    assert raised(lambda: la.take_along_axis(x, np.zeros(3, int), 0)) == raised(
        lambda: np.take_along_axis(A, np.zeros(3, int), 0))


def test_searchsorted():
    a = np.sort(np.random.default_rng(0).integers(0, 30, 20))
    v = np.arange(-3, 36).reshape(3, 13)
    x = la.from_array(a, chunks=6)
    for side in ("left", "right"):
        lazy = la.from_array(v, chunks=(2, 5))
        check(la.searchsorted(x, lazy, side), np.searchsorted(a, v, side))
        check(la.searchsorted(x, v, side), np.searchsorted(a, v, side))
        check(la.searchsorted(x, 7, side), np.asarray(np.searchsorted(a, 7, side)))
    check(np.searchsorted(x[::-1], v, sorter=np.arange(20)[::-1]), np.searchsorted(a, v))
    with pytest.raises(ValueError, match="side must be 'left' or 'right' .got 'up'."):
        la.searchsorted(x, v, "up")


@pytest.mark.parametrize("k", [0, 2, -1, -3, 9, -9])
def test_diagonals_and_triangles(k):
    a = np.arange(120.0).reshape(4, 6, 5)
    for chunks in (2, (1, 6, 3), -1):
        x = la.from_array(a, chunks=chunks)
        check(la.diagonal(x, k), np.diagonal(a, k))
        check(x.diagonal(k, 2, 1), a.diagonal(k, 2, 1))
        check(la.tril(x, k), np.tril(a, k))
        check(la.triu(x, k), np.triu(a, k))
        check(la.diag(x[0], k), np.diag(a[0], k))
        check(la.diag(x[0, 0], k), np.diag(a[0, 0], k))
        check(la.diag(x[0, 0, :0], k), np.diag(a[0, 0, :0], k))


def test_wrong_diagonals():
    x = la.from_array(A, chunks=2)
    assert raised(lambda: x.diagonal(0, 0, 0)) == raised(lambda: A.diagonal(0, 0, 0))
    assert raised(lambda: x[0].diagonal()) == raised(lambda: A[0].diagonal())


@pytest.mark.parametrize("place", [
    0, -1, 3, [0, 2], [1, 1], slice(0, 3, 2), slice(None, None, -1), [],
    np.array([True, False, True, False]),
], ids=str)
@pytest.mark.parametrize("chunks", [(2, 3), (4, 1), -1], ids=str)
def test_delete_and_insert(place, chunks):
    x = la.from_array(A, chunks=chunks)
    empty = isinstance(place, list) and not place
    at = np.array(place, dtype=int) if empty else place
    check(la.delete(x, at, 0), np.delete(A, at, 0))
    check(la.delete(x.T, at, 1), np.delete(A.T, at, 1))
    if not isinstance(place, np.ndarray):
        check(la.delete(x, at), np.delete(A, at))
        check(la.insert(x, at, 5), np.insert(A, at, 5))
    check(la.insert(x, at, 5, 0), np.insert(A, at, 5, 0))
    check(la.insert(x, at, np.arange(6), 0), np.insert(A, at, np.arange(6), 0))
    check(la.insert(x.T, at, la.from_array(np.arange(6)[:, None], chunks=2), 1),
          np.insert(A.T, at, np.arange(6)[:, None], 1))


def test_insert_of_blocks():
    x = la.from_array(A, chunks=2)
    for at, new, axis in (
        (1, np.arange(12).reshape(2, 6), 0), (2, np.arange(4), 1),
        (2, np.arange(8).reshape(2, 4), 1),
        ([1, 3], np.arange(8).reshape(4, 2), 1), ([0], np.arange(12).reshape(2, 6), 0),
    ):
        check(la.insert(x, at, new, axis), np.insert(A, at, new, axis))
    assert raised(lambda: la.delete(x, 9, 1)) == raised(lambda: np.delete(A, 9, 1))
    assert raised(lambda: la.insert(x, 9, 1, 1)) == raised(lambda: np.insert(A, 9, 1, 1))
    check(la.insert(x[:0], 0, 7, 0), np.insert(A[:0], 0, 7, 0))


@pytest.mark.parametrize("chunks", [(2, 3), (4, 1), (1, 6), -1], ids=str)
def test_unique(chunks):
    a = np.array([[3, 1, 3, 2, 0, 1], [0, 0, 3, 3, 7, 1], [5, 3, 1, 0, 1, 2], [2, 2, 2, 2, 2, 9]])
    with_nan = np.where(a == 3, np.nan, a)
    for each in (a, with_nan, a > 2, a[:0], a[0], a.astype("S1"), a * 1j):
        x = la.from_array(each, chunks=chunks if each.ndim == 2 else 2)
        check(la.unique(x), np.unique(each))
        found = la.unique(x, return_index=True, return_inverse=True, return_counts=True)
        wanted = np.unique(each, return_index=True, return_inverse=True, return_counts=True)
        assert len(found) == 4
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
    x = la.from_array(with_nan, chunks=chunks)
    wanted = {"return_index": True, "return_inverse": True, "equal_nan": False}
    for one, other in zip(np.unique(x, **wanted), np.unique(with_nan, **wanted), strict=True):
        check(one, other)
    wanted = {"return_index": True, "return_counts": True, "equal_nan": False}
    for one, other in zip(np.unique(x, **wanted), np.unique(with_nan, **wanted), strict=True):
        check(one, other)
    for axis in (0, 1):
        x = la.from_array(a[[0, 1, 0]], chunks=chunks)
        for one, other in zip(
            la.unique(x, return_index=True, return_inverse=True, axis=axis),
            np.unique(a[[0, 1, 0]], return_index=True, return_inverse=True, axis=axis), strict=True,
        ):
            np.testing.assert_array_equal(value(one), other.reshape(np.shape(value(one))))
    check(la.unique(la.from_array(a, chunks=1)[0, 0]), np.unique(a[0, 0]))
    assert len(la.unique(la.from_array(a, chunks=chunks))) == 7


@pytest.mark.parametrize("name", ["put", "place", "putmask", "copyto", "fill_diagonal"])
def test_writing_functions_are_refused(name):
    x = la.from_array(A, chunks=2)
    args = {"put": ([0], 1), "fill_diagonal": (0,), "copyto": (x,)}.get(name, (x > 1, 1))
    with pytest.raises(TypeError, match=rf"np\.{name} writes into its argument"):
        getattr(np, name)(x, *args)
