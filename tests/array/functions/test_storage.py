"""Arrays of files, and arrays that are stored."""

import numpy as np
import pytest
from array_examples import Broken

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
    with pytest.raises(lazyflow.SerializationError, match="can't be written to by others"):
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
