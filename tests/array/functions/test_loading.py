"""Arrays and datasets that lie in files, as arguments and sources on processes and engines."""

import mmap
import os

import numpy as np
import pytest
from weaker_systems import maps_by_path

import lazyflow.array as la
from lazyflow import SerializationError, compute, delayed
from lazyflow.schedulers.processes.scheduler import processes

ON = {"scheduler": "processes", "num_workers": 1}


@pytest.fixture
def written(monkeypatch):
    """The bytes that the caller has put into shared memory, one entry a buffer."""
    compute(delayed(abs)(1), **ON)
    arenas = processes._driver.memory.arenas
    found, write = [], arenas.write

    def counted(buffer):
        found.append(memoryview(buffer).nbytes)
        return write(buffer)

    monkeypatch.setattr(arenas, "write", counted)
    return found


@pytest.fixture
def path(tmp_path):
    np.arange(200_003, dtype="u1").tofile(tmp_path / "data")
    return str(tmp_path / "data")


def seen(x):
    return type(x), x.dtype, x.shape, x.strides, x.flags.writeable, x.copy()


VIEWS = {
    "whole": lambda m: m,
    "part": lambda m: m[5:],
    "backwards": lambda m: m[::-1],
    "strided": lambda m: m[3:, ::2],
    "transposed": lambda m: m.T,
    "plain": lambda m: np.asarray(m)[7:],
    "bytes": lambda m: m.view("u1"),
    "other type": lambda m: np.asarray(m).view("<u2")[::-2],
}


@maps_by_path
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_mapped_file_is_mapped_and_not_copied(path, written, name, mode):
    offset = mmap.ALLOCATIONGRANULARITY + 3
    order = "F" if name == "transposed" else "C"
    view = VIEWS[name](np.memmap(path, ">i4", mode, offset, (300, 120), order))
    kind, dtype, shape, strides, writeable, values = delayed(seen)(view).compute(**ON)
    assert (kind, dtype, shape, strides) == (type(view), view.dtype, view.shape, view.strides)
    assert not writeable
    np.testing.assert_array_equal(values, view)
    assert sum(written) < 10_000


@maps_by_path
def test_edits_of_a_shared_map_are_seen(path, written):
    shared = np.memmap(path, "u1", "r+")
    shared[:5] = 77
    assert delayed(lambda x: x[:6].tolist())(shared).compute(**ON) == [77] * 5 + [5]
    assert not written


@pytest.mark.parametrize("name", VIEWS)
def test_a_copy_of_a_mapped_array_has_its_type(path, name):
    view = VIEWS[name](np.memmap(path, ">i4", "r", 3, (300, 120)))
    os.remove(path)
    kind, dtype, shape, _, writeable, values = delayed(seen)(view).compute(**ON)
    assert (kind, dtype, shape, writeable) == (type(view), view.dtype, view.shape, False)
    assert values.dtype == view.dtype
    np.testing.assert_array_equal(values, view)


@maps_by_path
def test_what_is_not_in_the_file_is_copied(path, written):
    private = np.memmap(path, "u1", "c")
    private[0] = 77
    first = delayed(lambda x: int(x[0]))
    assert first(private).compute(**ON) == 77
    replaced = np.memmap(path, "u1", "r")
    os.rename(path, path + ".old")
    np.full(200_003, 9, "u1").tofile(path)
    assert first(replaced).compute(**ON) == 0
    os.remove(path + ".old")
    assert first(replaced).compute(**ON) == 0
    assert first(np.memmap(path, "u1", "r")).compute(**ON) == 9
    assert [size // 1000 for size in written] == [200] * 3


@maps_by_path
def test_a_memmap_as_a_source_of_an_array(path, written):
    mapped = np.memmap(path, "u1", "r", shape=(400, 500))
    x = la.from_array(mapped, chunks=(200, 500))
    np.testing.assert_array_equal((x + 1).compute(**ON), mapped + 1)
    assert sum(written) < 10_000
    result = delayed(lambda m: m[2:])(mapped).compute(**ON)  # the caller's own
    result[:] = 0
    assert mapped[3, 0] == (3 * 500) % 256


@pytest.fixture
def h5(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["group/x"] = np.arange(40_000.0).reshape(200, 200)
    return h5py, str(tmp_path / "data.h5")


def total(x):
    return float(x[:].sum())


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_dataset_is_opened_again(h5, written, mode):
    h5py, path = h5
    with h5py.File(path, mode) as file:
        x = file["group/x"]
        if mode == "r+":
            x[0] = 5  # not flushed
        expected = total(x)
        assert delayed(total)(x).compute(**ON) == expected
        assert delayed(lambda g: total(g["x"]))(file["group"]).compute(**ON) == expected
        assert delayed(lambda f: total(f["group/x"]))(file).compute(**ON) == expected
        lazy = la.from_array(x, chunks=(100, 200))
        np.testing.assert_array_equal((lazy * 2).compute(**ON), x[:] * 2)
    assert not written
    with h5py.File(path, "r+") as file:  # nobody has it open still
        file["group/x"][0] = 0


def test_a_dataset_that_is_in_no_file(h5, tmp_path):
    h5py, _ = h5
    with h5py.File(tmp_path / "none", "w", driver="core", backing_store=False) as file:
        file["x"] = np.arange(3)
        with pytest.raises(SerializationError, match="another process can't open"):
            delayed(total)(file["x"]).compute(**ON)
