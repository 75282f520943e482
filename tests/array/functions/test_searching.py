"""Functions that take, find and search elements of chunked arrays, against NumPy."""

import numpy as np
import pytest
from array_checks import check, raised
from array_examples import CHUNKS, A
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la


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
    for args in (([99],), ([9], 1), ([1], 5), ([1], 0, None, "x"), (np.array([1.5]),)):
        wanted = raised(lambda args=args: A.take(*args))
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
    check(x[x > 1][:, None][:, :0], a[a > 1][:, None][:, :0])
    check(la.broadcast_to(x[x > 1], (2, np.sum(a > 1))), np.stack([a[a > 1]] * 2))
    np.testing.assert_array_equal(x[la.nonzero(x)].compute(), a[a.nonzero()])


@pytest.mark.parametrize("a", [
    np.array([(0, 0.0), (1, 0.0), (0, -0.0), (0, 2.0)], [("a", "i4"), ("b", ">f8")]).reshape(2, 2),
    np.array([b"\0\0", b"\0\1", b"ab"], "V2"),
])
def test_structured_elements_are_zero_where_all_fields_are(a):
    x = la.from_array(a, chunks=1)
    check(la.flatnonzero(x), np.flatnonzero(a))
    check(la.argwhere(x), np.argwhere(a))
    for found in (la.nonzero(x), la.where(x)):
        for each, wanted in zip(found, a.nonzero(), strict=True):
            check(each, wanted)
    check(la.count_nonzero(x), np.count_nonzero(a))
    check(la.trim_zeros(x), np.trim_zeros(a))
    chosen = np.arange(a.size).reshape(a.shape)
    check(la.extract(x, chosen), np.extract(a, chosen))
    check(la.compress(x[0] if a.ndim > 1 else x, chosen, axis=-1),
          np.compress(a[0] if a.ndim > 1 else a, chosen, axis=-1))


def test_choose():
    at = np.array([[0, 2, 1], [1, 0, 2]])
    options = [np.arange(3), np.full((2, 1), 7.5), 100]
    x = la.from_array(at, chunks=(1, 2))
    check(la.choose(x, options), np.choose(at, options))
    check(x.choose([la.from_array(options[0], chunks=1), 1, 2]), np.choose(at, [options[0], 1, 2]))
    check(la.choose(x + 5, options, mode="wrap"), np.choose(at + 5, options, mode="wrap"))
    check(la.choose(x - 1, options, mode="clip"), np.choose(at - 1, options, mode="clip"))

    wanted = raised(lambda: np.choose(A, options))
    assert raised(lambda: la.choose(la.from_array(A, chunks=2), options)) == wanted
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        la.choose(x + 1, options).compute()


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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 90), st.integers(1, 40), st.integers(0, 10_000))
def test_deleting_many_and_inserting_one(n, chunk, seed):
    rng = np.random.default_rng(seed)
    a = rng.random((n, 2))
    x = la.from_array(a, chunks=(chunk, 1))
    gone = rng.integers(-n, n, rng.integers(0, 3 * n + 1)) if n else np.zeros(0, int)
    check(la.delete(x, gone, 0), np.delete(a, gone, 0))
    check(la.delete(x, gone), np.delete(a, gone))
    place = int(rng.integers(-n, n + 1))
    for value, axis in ((1, 0), ([[3, 4]], 0), (True, None)):
        check(la.insert(x, place, value, axis), np.insert(a, place, value, axis))
    new = la.from_array(rng.random(2), chunks=1)
    check(la.insert(x, place, new, 0), np.insert(a, place, new.compute(), 0))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)], ids=str)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_of_axes_without_elements(shape, mode):
    a = np.zeros(shape)
    x = la.from_array(a, chunks=2)
    for axis in (None, *range(a.ndim)):
        for at in (0, 5, [], [0], [[]], [1, -1], [5]):
            try:
                expected = np.take(a, at, axis, mode=mode)
            except IndexError as error:
                assert raised(lambda at=at, k=axis: la.take(x, at, k, mode=mode)) == (
                    IndexError, str(error)
                )
            else:
                check(la.take(x, at, axis, mode=mode), expected)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_inserted_values_are_in_the_order_of_their_indices(data):
    shape = data.draw(st.sampled_from([(0,), (5,), (4, 3), (0, 3)]))
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    a = np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["i8", "f4"]))).reshape(shape)
    n = a.size if axis is None else shape[axis]
    indices = st.lists(st.integers(-n, n), max_size=4)
    ends = st.none() | st.integers(-n - 1, n + 1)
    at = data.draw(st.one_of(
        indices, indices.map(lambda x: np.array(x, int)), st.just([]), st.just(np.array([])),
        st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, -1, -2])),
        st.lists(st.booleans(), min_size=n, max_size=n).map(lambda x: np.array(x, bool)),
    ))
    count = len(range(n)[at]) if isinstance(at, slice) else np.size(at)
    if np.asarray(at).dtype == bool:
        count = int(at.sum())
    new = data.draw(st.sampled_from([
        9, np.arange(100, 100 + count), np.arange(100, 100 + 3 * count).reshape(count, 3),
    ]))
    x = la.from_array(a, chunks=2)
    try:
        expected = np.insert(a, at, new, axis)
    except (ValueError, IndexError) as error:
        assert raised(lambda: la.insert(x, at, new, axis))[0] is type(error)
    else:
        check(la.insert(x, at, new, axis), expected)


def test_insert_of_blocks():
    x = la.from_array(A, chunks=2)
    for at, new, axis in (
        (1, np.arange(12).reshape(2, 6), 0), (2, np.arange(4), 1),
        (2, np.arange(8).reshape(2, 4), 1),
        ([1, 3], np.arange(8).reshape(4, 2), 1), ([0], np.arange(12).reshape(2, 6), 0),
    ):
        check(la.insert(x, at, new, axis), np.insert(A, at, new, axis))
    assert raised(lambda: la.delete(x, 9, 1)) == raised(lambda: np.delete(A, 9, 1))
    assert raised(lambda: la.delete(x, 2.0)) == raised(lambda: np.delete(A, 2.0))
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
    for axis in (0, 1):
        x = la.from_array(a[[0, 1, 0]], chunks=chunks)
        for one, other in zip(
            la.unique(x, return_index=True, return_inverse=True, axis=axis),
            np.unique(a[[0, 1, 0]], return_index=True, return_inverse=True, axis=axis), strict=True,
        ):
            np.testing.assert_array_equal(one.compute(), other.reshape(np.shape(one.compute())))
    check(la.unique(la.from_array(a, chunks=1)[0, 0]), np.unique(a[0, 0]))
    assert len(la.unique(la.from_array(a, chunks=chunks))) == 7


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "M8[s]", "m8[D]"])
def test_what_equals_nothing_is_in_the_order_of_its_places(dtype, equal_nan):
    rng = np.random.default_rng(0)
    for shape in ((7,), (3, 5), (8, 7), (2, 3, 4)):
        a = rng.integers(0, 4, shape).astype(dtype)
        a[rng.random(shape) < 0.3] = np.array("NaT" if dtype[0] in "Mm" else "nan", dtype)
        x = la.from_array(a, chunks=(3, 2, 3)[:a.ndim]).map_blocks(np.copy)
        for more in ({}, {"return_inverse": True}, {"return_counts": True}):
            asked = {"return_index": True, "equal_nan": equal_nan, **more}
            for one, other in zip(np.unique(x, **asked), np.unique(a, **asked), strict=True):
                check(one, other)


@pytest.mark.parametrize("name", ["put", "place", "putmask", "copyto", "fill_diagonal"])
def test_writing_functions_are_refused(name):
    x = la.from_array(A, chunks=2)
    args = {"put": ([0], 1), "fill_diagonal": (0,), "copyto": (x,)}.get(name, (x > 1, 1))
    with pytest.raises(TypeError, match=rf"np\.{name} writes into its argument"):
        getattr(np, name)(x, *args)
