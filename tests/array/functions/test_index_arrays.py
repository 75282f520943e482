"""What is taken of chunked arrays by index arrays, masks, points and blocks, against NumPy."""

import numpy as np
import pytest
from array_checks import check, kept_inputs, raised, tasks_of
from array_examples import CHUNKS, KEYS, A, Store, kinds
from array_strategies import chunked, keys
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow import config
from lazyflow.graph.plan import make_plan


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
    np.testing.assert_array_equal(found.compute(), wanted, strict=True)
    assert ((found + 1).sum()).compute() == (wanted + 1).sum()
    again = tuple([slice(None, None, -1)] * wanted.ndim)
    np.testing.assert_array_equal(found[again].compute(), wanted[again], strict=True)
    np.testing.assert_array_equal((found.T[1:2] if wanted.ndim else found).compute(),
                                  wanted.T[1:2] if wanted.ndim else wanted, strict=True)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_permutations_of_many_chunks(data):
    """Every block needs points of every other: they are exchanged in groups."""
    n = data.draw(st.integers(2, 50))
    size = data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    at = rng.integers(0, n * size, data.draw(st.sampled_from([n * size, 2 * n * size + 1])))
    a = rng.random((n * size, 3))
    x = la.from_array(a, chunks=(size, 2))
    for y in (x * 1.0, (x * 1.0).persist()):
        np.testing.assert_array_equal(y[at].compute(), a[at], strict=True)
        np.testing.assert_array_equal(y.T[:, at].compute(), a.T[:, at], strict=True)
        some = at[: len(at) // 6 * 6].reshape(-1, 6)
        np.testing.assert_array_equal(y[some].compute(), a[some], strict=True)
        np.testing.assert_array_equal(y[at, at % 3].compute(), a[at, at % 3], strict=True)


def test_a_permutation_costs_tasks_by_the_square_root_of_chunks():
    n = 400
    at = np.random.default_rng(0).permutation(n * 25)
    a = np.arange(n * 25.0)
    x = la.from_array(a, chunks=25)
    tasks = (x + 0).persist()
    np.testing.assert_array_equal(tasks[at].compute(), a[at])
    plan = make_plan(tasks[at].__lazyflow_tasks__())
    assert plan.end <= 2 * n + 2 * 21  # blocks, groups, groups of blocks, blocks
    assert sum(len(made or ()) for made in plan.inputs) <= 4 * n
    assert tasks_of(x[at]) <= n + 1
    assert tasks[at].chunks == x.chunks


def test_points_of_large_blocks_are_taken_where_these_are():
    """On a cluster a task has its inputs on one worker, and most points go elsewhere."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 99, (12_288, 1024), np.uint8)
    x = (la.from_array(a, chunks=(4096, 1024)) + np.uint8(0)).persist()
    order, pairs = rng.permutation(len(a)), rng.integers(0, 1024, (2, 3, 50))
    for made, wanted in (
        (x[order], a[order]),
        (x.T[:, order[:9]], a.T[:, order[:9]]),
        (x[np.delete(order, 5)[::-1] // 2], a[np.delete(order, 5)[::-1] // 2]),
        (x[np.sort(order)[7:-7]], a[7:-7]),
        (x.vindex[pairs[0] * 12, pairs[1]], a[pairs[0] * 12, pairs[1]]),
    ):
        assert kept_inputs(made) == {1}
        np.testing.assert_array_equal(made.compute(), wanted, strict=True)


def test_only_blocks_that_are_needed_are_read(here):
    store = Store(np.arange(100).reshape(10, 10))
    x = la.from_array(store, chunks=(2, 5))
    check_value = x[[0, 1, 8], 6:8].compute()
    np.testing.assert_array_equal(check_value, store.array[[0, 1, 8], 6:8])
    assert {key[0].start for key in store.read} == {0, 8}
    assert all(key[1] == slice(6, 8) for key in store.read)
    store.read.clear()
    np.testing.assert_array_equal(x[[0, 5, 8]][2].compute(), store.array[8])
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
    assert x[np.zeros(35, int)].chunks == ((10, 10, 10, 5),)
    assert max(x[np.zeros((7, 7), int)].chunks[0]) * 7 <= 10


def test_what_a_key_was_does_not_change_with_the_callers_arrays():
    x = la.from_array(np.arange(6), chunks=2) + 0
    at, mask = np.array([1, 2]), np.arange(6) > 3
    taken, chosen = x[at], x[mask]
    wide = x[None][mask[None]]
    at[:] = 0
    mask[:] = False
    assert taken.compute().tolist() == [1, 2]
    assert chosen.compute().tolist() == wide.compute().tolist() == [4, 5]


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
    a = np.random.default_rng(0).random((1200, 4))
    x = la.from_array(a, chunks=(30, 2))
    at = np.random.default_rng(1).permutation(1200)
    y = (x + 1)[at]
    mask = x[:, 0] > 0.5
    z = x[mask]
    w = x.copy()
    w[at[:9], 1:] = x[:9, :3]
    w[w > 0.9] = 0
    wanted = a.copy()
    wanted[at[:9], 1:] = a[:9, :3]
    wanted[wanted > 0.9] = 0
    values = la.unique(la.from_array(at % 7, chunks=50), return_counts=True)
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
    assert y.chunks[0] == (2, 1, 2, 0)
    assert y[:2].compute().tolist() == [[0, 1], [4, 5]]
    assert y[-1].compute().tolist() == [16, 17]
    assert x[x > 3][[0, -1]].compute().tolist() == [4, 19]
    assert ((y + y)[y[:, 0] > 4]).compute().tolist() == [[16, 18], [24, 26], [32, 34]]


def test_lengths_are_found_by_the_mask_alone_and_once(here):
    data, keep = Store(np.arange(20)), Store(np.arange(20) % 3 == 0)
    x, mask = la.from_array(data, chunks=6), la.from_array(keep, chunks=6)
    y = x[mask]
    z = y * 2
    with config.set():
        assert len(z) == 7
        assert not data.read
        assert len(keep.read) == 4
        assert len(y) == len(x[mask] + 1) == 7
        assert len(keep.read) == 4
        assert y[2:3].compute().tolist() == [6]
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
        check(x.vindex[1:, [3, 0], ::-2], np.moveaxis(a[1:, [3, 0], ::-2], 1, 0))
        check(x.vindex[a[:, :, 0] > 20, 1:3], a[a[:, :, 0] > 20, 1:3])
        check(x.vindex[..., [4, 0]], np.moveaxis(a[..., [4, 0]], -1, 0))
        check(x.vindex[1, 2, 3], a[1, 2, 3])
        check(x.vindex[a[:, :, 0] > 20], a[a[:, :, 0] > 20])


def test_vindex_refuses():
    x = la.from_array(A, chunks=2)
    with pytest.raises(IndexError, match="None"):
        x.vindex[None, [1], [2]]
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
        np.testing.assert_array_equal(x.blocks[key].compute(), wanted, strict=True)
    assert [b.compute().tolist() for b in x.blocks.ravel()] == [
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


@pytest.mark.parametrize("chosen", [[0, 0, 0], [1, 0, 0], [1, 1, 1]])
def test_an_ellipsis_of_no_axes_stands_between_index_arrays(chosen):
    a = np.arange(21).reshape(3, 7)
    mask = np.array(chosen, bool)
    x = la.from_array(a, chunks=(2, 3))
    for key in (mask, la.from_array(mask, chunks=1), la.from_array(mask, chunks=1) | False):
        known = np.asarray(key)
        np.testing.assert_array_equal(x[None, key, ..., -7], a[None, known, ..., -7], strict=True)
        np.testing.assert_array_equal(x[None, key, -7, ...], a[None, known, -7, ...], strict=True)
        np.testing.assert_array_equal(x[key, ...], a[known, ...], strict=True)
    check(x[None, [0, 2], ..., [1, 1]], a[None, [0, 2], ..., [1, 1]])
    b = a.copy()
    b[None, mask, ..., -7] = np.arange(sum(chosen))[:, None]
    x[None, mask, ..., -7] = np.arange(sum(chosen))[:, None]
    check(x, b)
