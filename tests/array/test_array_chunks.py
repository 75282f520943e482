"""Chunks: moved where they belong, and cut to fit."""

import itertools
import math

import numpy as np
import pytest
from array_checks import tasks_of
from array_examples import Store
from array_strategies import lengths
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow.array.chunks import coalesced
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.passes.rewrites import wide_blocks


@settings(max_examples=30)
@given(st.data())
def test_rechunk_moves_everything_where_it_belongs(draw):
    n, m = draw.draw(st.integers(0, 30)), draw.draw(st.integers(0, 30))
    a = np.arange(n * m).reshape(n, m)
    before = (draw.draw(lengths(n)), draw.draw(lengths(m)))
    after = (draw.draw(lengths(n)), draw.draw(lengths(m)))
    x = la.from_array(a, chunks=before).persist()
    y = x.rechunk(after)
    assert y.chunks == after
    np.testing.assert_array_equal(y.compute(), a)


def test_many_pieces_go_by_chunks_in_between():
    from lazyflow.array.nodes.rechunking import Rechunk, staged

    x = la.ones((1000, 1000), chunks=(1, 1000)).persist()
    middle = staged(x.expr, ((1000,), (1,) * 1000))
    assert isinstance(middle, Rechunk)
    assert max(middle.chunks[0]) * max(middle.chunks[1]) <= 1100


def bytes_of_largest(chunks):
    return int(np.prod([max(sizes) for sizes in chunks])) * 8


@pytest.mark.parametrize("chunks", [
    {0: -1, 1: "auto", 2: "auto"}, (-1, "auto", 100), "auto", {0: "auto"}, {1: "8 MiB", 0: -1},
    (1000, 1000, "auto"), ("auto", None, 1000),
])
@pytest.mark.parametrize("before", [100, (1000, 500, 300), ((1, 999), 1000, 7)])
def test_automatic_axes_are_cut_until_a_chunk_fits(before, chunks):
    x = la.zeros((1000,) * 3, chunks=before)
    found = x.rechunk(chunks).chunks
    assert bytes_of_largest(found) <= 8 << 20 or chunks == {0: "auto"}  # the others are too long
    assert [sum(sizes) for sizes in found] == [1000] * 3
    if chunks not in ("auto", {0: "auto"}) and chunks[0] == -1:
        assert found[0] == (1000,)


def test_automatic_chunks_are_parts_or_multiples_of_those_before():
    x = la.zeros((1000,) * 3, chunks=100)
    assert x.rechunk({0: -1, 1: "auto", 2: "auto"}).chunks == (
        (1000,), (10,) * 100, (100,) * 10
    )
    assert x.rechunk({0: -1, 1: 10, 2: "auto"}).chunks[2] == (100,) * 10
    assert la.zeros((7, 101), chunks=-1).rechunk({1: "auto"}, limit=7 * 50 * 8).chunks == (
        (7,), (34, 34, 33)
    )


@pytest.mark.parametrize("make", [
    lambda c: la.zeros((1000,) * 3, chunks=c), lambda c: la.full((1000,) * 3, 2.0, chunks=c),
    lambda c: la.random.default_rng(0).normal(size=(1000,) * 3, chunks=c),
    lambda c: la.from_array(np.broadcast_to(1.0, (1000,) * 3), chunks=c),
    lambda c: la.zeros((1000,) * 3, chunks=-1).rechunk(c),
])
def test_chunks_may_be_so_many_bytes_along_some_axes(make):
    assert make(("64 MB", None, None)).chunks == ((8,) * 125, (1000,), (1000,))
    assert make((None, "8 MiB", "8 MiB")).numblocks[0] == 1
    assert bytes_of_largest(make(("auto", "1 MB", -1)).chunks) <= 10**6
    with pytest.raises(ValueError, match="one number of bytes only; got 1 MB, 2 MB"):
        make(("1 MB", "2 MB", -1))
    for text in "lots", "inf", "nan", "-5 MB", "0 B", "1e999 GB", "0.2":
        with pytest.raises(ValueError, match=f"'{text}' does not say how many bytes, 1 or more"):
            make((text, -1, -1))


def test_chunks_of_files_are_not_cut_but_when_asked():
    store = Store(np.zeros((1000, 4000)), chunks=(500, 4000))
    assert la.from_array(store).chunks == ((500, 500), (4000,))
    assert la.from_array(store, chunks=("auto", -1)).chunks == ((250,) * 4, (4000,))


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    *[st.none() | st.integers(-20, 20)] * 2,
    st.none() | st.integers(-6, 6).filter(bool),
)
def test_a_slice_has_the_chunks_that_it_takes_places_of(sizes, start, stop, step):
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    x = la.from_array(numbers, chunks=(tuple(sizes),))
    taken = numbers[start:stop:step]
    expected = tuple(np.unique(taken, return_counts=True)[1].tolist())
    if len(taken) > 1 and taken[0] > taken[-1]:
        expected = expected[::-1]
    found = x[start:stop:step]
    if len(taken) < len(numbers) or (step or 1) < 0:  # else it is the array itself
        assert found.chunks == (expected or (0,),)
    np.testing.assert_array_equal(found.compute(), taken)


@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=60), st.integers(1, 5))
def test_joined_chunks_are_neighbours_of_about_a_size(sizes, rows):
    chunks = ((1,) * rows, tuple(sizes))
    joined = coalesced(chunks)
    for before, after in zip(chunks, joined, strict=True):
        assert set(np.cumsum(after)) <= set(np.cumsum(before))
        assert sum(after) == sum(before)
    largest = max(map(math.prod, itertools.product(*joined)))
    assert largest <= max(1 << 20, *sizes)


def test_large_work_has_three_tasks_for_each_of_sixteen_workers():
    """Whatever the number of workers here is: the bits of a result must not depend on it."""
    x = la.ones((400_000, 100), chunks=(6250, 100))
    square = la.ones((6320, 6320), chunks=790)
    assert min(la.sort(x, axis=0).npartitions, la.median(x, axis=0).npartitions) >= 48
    assert la.sort(square, axis=0).npartitions >= 48
    assert la.sort(la.ones((300, 300), chunks=100), axis=0).npartitions < 4  # is not worth it
    (wide,) = wide_blocks([(square[:1024] @ square).expr])
    assert 48 <= np.prod(wide.numblocks) <= 96
    vector = la.ones(6320, chunks=790)
    for product in (square @ vector, vector @ square):  # 40 million numbers: four tasks do
        (wide,) = wide_blocks([product.expr])
        assert np.prod(wide.numblocks) <= 8
    assert tasks_of(x.T @ x) >= 48
    places = np.random.default_rng(0).permutation(400_000)
    (taken,) = Lowering().lower([x.persist(scheduler="sync")[places].expr])
    assert len(taken) >= 48
