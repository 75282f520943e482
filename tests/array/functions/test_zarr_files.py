"""Arrays that zarr stores."""

import numpy as np
import pytest
from array_checks import check

import lazyflow
import lazyflow.array as la


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_zarr_files(tmp_path, scheduler):
    pytest.importorskip("zarr")
    a = np.arange(35.0).reshape(5, 7)
    path = str(tmp_path / "a.zarr")
    x = la.from_array(a, chunks=((1, 3, 1), (4, 3)))
    with lazyflow.config.set(scheduler=scheduler):
        assert x.to_zarr(path) is None
        found = la.from_zarr(path)
        np.testing.assert_array_equal(found.compute(), a)
        assert la.from_zarr(path, chunks=2).chunks == ((2, 2, 1), (2, 2, 2, 1))
        np.testing.assert_array_equal(la.from_zarr(path)[1:3, ::-2].compute(), a[1:3, ::-2])


def test_zarr_arrays_that_are_there(tmp_path):
    zarr = pytest.importorskip("zarr")
    a = np.arange(35).reshape(5, 7)
    target = zarr.create_array(str(tmp_path / "b"), shape=(5, 7), chunks=(2, 3), dtype=int)
    la.to_zarr(la.from_array(a, chunks=((1, 3, 1), (4, 3))), target)
    np.testing.assert_array_equal(target[:], a)
    la.to_zarr(la.full((2, 2), -1, chunks=1), target, region=(slice(1, 3), slice(2, 4)))
    a[1:3, 2:4] = -1
    np.testing.assert_array_equal(target[:], a)
    check(la.from_zarr(target), a)
    with pytest.raises(ValueError, match="pass it as url"):
        la.to_zarr(la.ones(3), str(tmp_path / "c"), region=(slice(0, 3),))
    lazy = la.to_zarr(la.zeros((5, 7), dtype=int), target, compute=False)
    np.testing.assert_array_equal(target[:], a)
    lazy.compute()
    assert not target[:].any()
    kept = la.to_zarr(la.ones((0, 3)), str(tmp_path / "d"), "inner", return_stored=True)
    check(kept, np.ones((0, 3)))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("where", ["file", "memory", "group"])
def test_places_and_options_of_zarr(tmp_path, where, zarr_format):
    zarr = pytest.importorskip("zarr")
    a = np.arange(48.0).reshape(8, 6)
    url = {
        "file": (tmp_path / "a.zarr").as_uri(), "memory": f"memory://{tmp_path}/a.zarr",
        "group": zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=zarr_format),
    }[where]
    options = {"shards": (8, 6), "chunks": (4, 3)} if zarr_format == 3 else {}
    la.to_zarr(
        la.from_array(a, chunks=3), url, "inner/x", zarr_format=zarr_format,
        attributes={"units": "m"}, compressors=None, **options,
    )
    check(la.from_zarr(url, "inner/x"), a)
    group = url if where == "group" else zarr.open_group(url, mode="r")
    assert group["inner/x"].attrs["units"] == "m" and not group["inner/x"].compressors
    with pytest.raises(ValueError, match=r"holds \['x'\]: name an array of it by component="):
        la.from_zarr(group["inner"])


def test_shards_are_read_whole():
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array({}, shape=(100, 90), chunks=(5, 3), shards=(20, 9), dtype="u1")
    with lazyflow.config.set(chunk_bytes=500):
        rows, columns = la.from_array(stored).chunks
    assert not any(n % 20 for n in rows[:-1]) and not any(n % 9 for n in columns[:-1])
    assert len(rows) * len(columns) > 10
