"""Arrays of files, and arrays that are stored."""

import os
import re
from itertools import product

import numpy as np
import pytest
from array_examples import Broken
from hypothesis import assume, given
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la


def test_store_writes_by_chunks_where_it_is_told(tmp_path, here):
    a = np.random.default_rng(4).random((10, 6))
    x = la.from_array(a, chunks=(4, 3))
    out, part = np.zeros((10, 6)), np.zeros((12, 6))
    la.store([x, x * 2], [out, part], regions=[(slice(None),), (slice(1, 11), slice(None))])
    np.testing.assert_array_equal(out, a)
    np.testing.assert_array_equal(part[1:11], a * 2)
    lazy = la.store(x + 1, out, compute=False)
    np.testing.assert_array_equal(out, a)
    assert lazy.compute() is None
    np.testing.assert_array_equal(out, a + 1)
    whole = np.zeros(4, int)
    later = la.store([la.arange(4, chunks=2)], [whole], compute=False, return_stored=True)
    assert not whole.any()
    np.testing.assert_array_equal(later[0].compute(), np.arange(4))
    np.testing.assert_array_equal(whole, np.arange(4))
    back = la.store(x, out, return_stored=True)
    np.testing.assert_array_equal(back.compute(), a)
    memory = np.memmap(tmp_path / "m", "f8", "w+", shape=(10, 6))
    la.store(x, memory, scheduler="processes")
    np.testing.assert_array_equal(memory, a)


def test_store_refuses_what_it_can_not_write():
    x = la.ones(4, chunks=2)
    with pytest.raises(ValueError, match=r"shape \(4,\), but what it is stored to has \(5,\)"):
        la.store(x, np.zeros(5))
    with pytest.raises(TypeError, match="can't be stored to"):
        la.store(x, object())
    with pytest.raises(lazyflow.SerializationError, match="other processes can't write into"):
        la.store(x, np.zeros(4), scheduler="processes")


def test_zarr_and_hdf5_are_read_and_written(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    a = np.random.default_rng(5).random((20, 8))
    target = zarr.create_array(str(tmp_path / "z"), shape=a.shape, chunks=(5, 4), dtype=a.dtype)
    la.store(la.from_array(a, chunks=(5, 4)), target, lock=False)
    x = la.from_array(zarr.open_array(str(tmp_path / "z"), mode="r"))
    assert all(size % 5 == 0 for size in x.chunks[0])
    np.testing.assert_array_equal((x + 1)[3:9].compute(), a[3:9] + 1)
    np.testing.assert_array_equal(x.compute(scheduler="processes"), a)
    with h5py.File(tmp_path / "h", "w") as file:
        dataset = file.create_dataset("d", data=a, chunks=(5, 8))
        np.testing.assert_array_equal(la.from_array(dataset, lock=True).compute(), a)


def test_a_source_that_fails_names_itself_and_the_chunk():
    with pytest.raises(OSError, match="disk is gone") as found:
        la.from_array(Broken(), chunks=2).sum().compute()
    notes = "\n".join(found.value.__notes__)
    assert "while reading [" in notes
    assert "'winds.h5'" in notes


class Chunked:
    """Memory that is written as zarr does: who writes a part of a chunk writes all of it."""

    def __init__(self, shape, chunks):
        self.values = np.zeros(shape)
        self.shape, self.chunks = shape, chunks
        self.open = set()

    def __setitem__(self, at, block):
        places = [np.atleast_1d(np.arange(n)[each]) for n, each in zip(self.shape, at, strict=True)]
        units = set(product(*[np.unique(p // n) for p, n in zip(places, self.chunks, strict=True)]))
        assert not units & self.open, "two write into one chunk at once"
        self.open |= units
        os.sched_yield()  # as for a file: others may run meanwhile
        self.values[at] = block
        self.open -= units


@st.composite
def _stores(draw):
    lengths = st.integers(1, 9)
    ndim = draw(st.integers(1, 2))
    shape = tuple(draw(st.lists(lengths, min_size=ndim, max_size=ndim)))
    target = Chunked(shape, tuple(draw(st.lists(lengths, min_size=ndim, max_size=ndim))))
    index = st.one_of(
        st.slices(9), st.integers(0, 8), st.lists(st.integers(0, 8), unique=True, max_size=4)
    )
    regions = []
    for _ in range(draw(st.integers(1, 3))):
        region = tuple(draw(index) for _ in shape)
        assume(all(
            isinstance(r, slice) or np.all(np.asarray(r) < n)
            for r, n in zip(region, shape, strict=True)
        ))
        assume(sum(isinstance(r, list) for r in region) < 2)
        regions.append(tuple([
            slice(*r.indices(n)) if isinstance(r, slice) and (r.step or 1) > 0 else r
            for r, n in zip(region, shape, strict=True)
        ]))
    return target, regions, draw(lengths)


@given(_stores())
def test_writes_into_one_chunk_come_one_after_the_other(case):
    target, regions, size = case
    expected = np.zeros(target.shape)
    sources = []
    for k, region in enumerate(regions, 1):
        lists = [np.atleast_1d(np.arange(n)[r]) for n, r in zip(target.shape, region, strict=True)]
        part = np.full([
            len(p) for p, r in zip(lists, region, strict=True) if not isinstance(r, int)
        ], float(k))
        expected[np.ix_(*lists)] += 1
        sources.append(la.from_array(part, chunks=size))
    options = {"lock": False, "regions": regions, "scheduler": "threads"}
    if (expected > 1).any():  # the order of writes is not defined
        with pytest.raises(ValueError, match="written to the same elements of one target"):
            la.store(sources, [target] * len(regions), **options)
        assert not target.values.any()
        return
    la.store(sources, [target] * len(regions), **options)
    assert ((target.values > 0) == (expected > 0)).all()
    for k, region in enumerate(regions, 1):
        mine = np.zeros(target.shape, bool)
        lists = [np.atleast_1d(np.arange(n)[r]) for n, r in zip(target.shape, region, strict=True)]
        mine[np.ix_(*lists)] = True
        assert (target.values[mine] == k).all()


@pytest.mark.parametrize("scheduler", ["threads", "processes", "distributed"])
@pytest.mark.parametrize("into", ["path", "sharded", "region", "store", "two"])
def test_what_zarr_writes_as_a_whole_is_not_written_by_two(tmp_path, scheduler, into):
    zarr = pytest.importorskip("zarr")
    a = np.arange(144.0).reshape(12, 12)
    x = la.from_array(a, chunks=2)
    path = str(tmp_path / "z")
    with lazyflow.config.set(scheduler=scheduler):
        if into == "path":
            la.to_zarr(x, path, shards=(4, 4))
        else:
            target = zarr.create_array(
                path, shape=(13, 14), chunks=(2, 2), dtype=float,
                shards=(4, 4) if into == "sharded" else None,
            )
            part = (slice(1, None), slice(1, 13))
            if into == "two":
                halves = [(part[0], slice(1, 7)), (part[0], slice(7, 13))]
                la.store([x[:, :6], x[:, 6:]], [target, target], regions=halves)
            elif into == "store":
                la.store(x, target, regions=part, lock=False)
            else:
                la.to_zarr(x, target, region=part)
    found = zarr.open_array(path, mode="r")[:]
    np.testing.assert_array_equal(found if into == "path" else found[1:, 1:13], a)


def test_chunks_that_are_written_end_where_those_of_the_target_do(tmp_path):
    zarr = pytest.importorskip("zarr")
    x = la.ones((20,), chunks=3)
    cases = [(0, 4, (4, 4, 4, 4, 4)), (3, 4, (1, 4, 4, 4, 4, 3)), (0, 20, (20,))]
    for start, unit, chunks in cases:
        target = zarr.create_array(
            zarr.storage.MemoryStore(), shape=(start + 20,), chunks=(unit,), dtype=float
        )
        back = la.to_zarr(x, target, region=(slice(start, None),), return_stored=True)
        assert back.chunks == (chunks,)
    made = zarr.open_array(str(tmp_path / "a"), mode="w", shape=(6,), chunks=(3,), dtype="i2")
    la.to_zarr(la.arange(6), made)
    la.to_zarr(la.arange(6.0), str(tmp_path / "b"), chunks=(3,), dtype="f4")
    found = zarr.open_array(str(tmp_path / "b"), mode="r")
    assert found.chunks == (3,) and found.dtype == np.float32 and found[-1] == 5


@pytest.mark.parametrize("change", [
    lambda x: x, lambda x: x + 1, lambda x: x[::-1] * 1, lambda x: x - x.sum(0), lambda x: x + x.T,
])
@pytest.mark.parametrize("where", ["zarr", "memory"])
def test_what_is_written_to_may_be_what_is_read(tmp_path, here, change, where):
    a = np.arange(64.0).reshape(8, 8)
    if where == "zarr":
        zarr = pytest.importorskip("zarr")
        target = zarr.create_array(
            str(tmp_path / "z"), shape=a.shape, chunks=(2, 8), dtype=float
        )
        target[:] = a
        read = la.from_zarr(str(tmp_path / "z"), chunks=(2, 4))
    else:
        target = a.copy()
        read = la.from_array(target, chunks=(2, 4))
    la.store(change(read), target, lock=False)
    np.testing.assert_array_equal(target[:], change(a))


def test_overwriting_what_is_read_is_refused(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "group")
    la.to_zarr(la.arange(6), path, "inner/one")
    x = la.from_zarr(path, "inner/one") + 1
    for url, component in [(path, "inner/one"), (path, "inner"), (path, None)]:
        with pytest.raises(ValueError, match=r"would erase .*group"):
            la.to_zarr(x, url, component, overwrite=True)
    np.testing.assert_array_equal(la.from_zarr(path, "inner/one").compute(), np.arange(6))
    la.to_zarr(x, str(tmp_path / "other"), overwrite=True)
    la.to_zarr(x, zarr.open_array(path, path="inner/one"))
    np.testing.assert_array_equal(la.from_zarr(path, "inner/one").compute(), np.arange(1, 7))


@pytest.mark.parametrize("region", [
    (slice(1, 6, 2), slice(None)), (slice(None, None, -2), 1), ([4, 0, 2],), (..., [-1, 0]),
    (np.array([True, False, True, False, False, True]), slice(0, 3)), (-1,), slice(2, 4),
])
def test_regions_are_what_numpy_takes(here, region):
    out = np.zeros((6, 4))
    expected = out.copy()
    part = np.arange(1.0, out[region].size + 1).reshape(out[region].shape)
    expected[region] = part
    la.store(la.from_array(part, chunks=2), out, regions=region)
    np.testing.assert_array_equal(out, expected)
    again = np.zeros((6, 4))
    la.store([la.from_array(part, chunks=2)], [again], regions=[
        region if isinstance(region, tuple) else (region,)
    ])
    np.testing.assert_array_equal(again, expected)


def test_regions_that_are_refused_say_why():
    out, x = np.zeros((4, 4)), la.ones((2, 2), chunks=1)
    for region, kind, words in [
        (([0, 1], [0, 1]), ValueError, "lists for more than one axis"),
        ((slice(0, 2), slice(0, 2), 0), IndexError, "3 indices for a target of shape"),
        (([0, 9],), IndexError, "along an axis of length 4"),
        ((slice(0, 2), "a"), IndexError, "slices, numbers and lists of numbers"),
    ]:
        with pytest.raises(kind, match=words):
            la.store(x, out, regions=region)


def test_an_hdf5_file_has_one_writer(tmp_path, here):
    h5py = pytest.importorskip("h5py")
    a = np.arange(36.0).reshape(6, 6)
    with h5py.File(tmp_path / "h", "w") as file:
        target = file.create_dataset("d", shape=a.shape, chunks=(4, 4), dtype=float)
        for lock in (True, False):
            la.store(la.from_array(a, chunks=3) + lock, target, lock=lock)
            np.testing.assert_array_equal(target[:], a + lock)
        with pytest.raises(lazyflow.SerializationError, match="has one writer"):
            la.store(la.from_array(a, chunks=3), target, scheduler="processes")


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_a_write_that_fails_says_which_chunks_are_there(tmp_path, scheduler):
    zarr = pytest.importorskip("zarr")

    def fails_last(block, block_id):
        if block_id == (2, 1):
            raise OSError("the disk is full")
        return block

    x = la.ones((6, 4), chunks=2).map_blocks(fails_last, dtype=float)
    target = zarr.create_array(tmp_path / "a", shape=(6, 4), chunks=(2, 2), dtype=float)
    with pytest.raises(OSError, match="the disk is full") as caught:
        la.store(x, target, scheduler=scheduler)
    (note,) = [note for note in caught.value.__notes__ if "chunks were written" in note]
    places = re.findall(r"target 0 at \[(\d):(\d), (\d):(\d)\]", note)
    assert f"{len(places)} of 6 chunks were written before that" in note
    there = zarr.open_array(tmp_path / "a", mode="r")[:]
    for a, b, c, d in np.array(places, int).reshape(-1, 4):
        assert (there[a:b, c:d] == 1).all()
    assert scheduler != "sync" or len(places) == 5
    la.store(la.ones((6, 4), chunks=2), target, scheduler=scheduler)  # and it can be written again
    assert (zarr.open_array(tmp_path / "a", mode="r")[:] == 1).all()


def test_a_list_of_regions_may_have_whole_targets():
    first, second = np.zeros((2, 2)), np.zeros((4, 2))
    la.store([la.ones((2, 2))] * 2, [first, second], regions=[None, (slice(2, 4),)])
    assert (first == 1).all() and second.sum(axis=1).tolist() == [0, 0, 2, 2]
