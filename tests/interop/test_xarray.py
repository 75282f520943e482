"""xarray's objects hold lazyflow's arrays: laziness, equality with NumPy, files."""

import warnings

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la

xr = pytest.importorskip("xarray", reason="xarray is not installed")
for module in "flox", "bottleneck", "h5netcdf", "zarr", "dask":
    pytest.importorskip(module, reason=f"{module} is not installed")
with warnings.catch_warnings():  # flox 0.11 makes units that NumPy 2.5 deprecates
    warnings.simplefilter("ignore")
    import flox.xarray
from xarray.namedarray import parallelcompat  # noqa: E402
from xarray_operations import EAGER, FLOAT32, OPERATIONS, example  # noqa: E402

from lazyflow.interop.xarray import LazyflowManager  # noqa: E402


@pytest.fixture(autouse=True)
def manager(monkeypatch):
    """The manager, as xarray finds it where lazyflow is installed."""
    made = LazyflowManager()
    found = {**parallelcompat.list_chunkmanagers(), "lazyflow": made}
    monkeypatch.setattr(parallelcompat, "list_chunkmanagers", lambda: found)
    with xr.set_options(chunk_manager="lazyflow"):
        yield made


class Store:
    """Something with slices that counts how often it is read."""

    def __init__(self, values, reads):
        self.values, self.shape, self.dtype, self.reads = values, values.shape, values.dtype, reads

    def __getitem__(self, key):
        self.reads.append(key)
        return self.values[key]


def on_disk(reads):
    found = example()
    for name, x in found.data_vars.items():
        store = Store(x.variable.values, reads)
        found[name] = x.dims, la.from_array(store, chunks=(15, 2, 3)[:x.ndim])
    return found


def variables(x):
    return [x.variable] if isinstance(x, xr.DataArray) else [v.variable for v in x.values()]


def is_right(name, made, want):
    types = [[v.dtype for v in variables(each)] for each in (made, want)]
    atol = 2e-7 if name in FLOAT32 else 1e-9  # of values up to 1: a unit of float32
    try:
        xr.testing.assert_allclose(made.compute(), want, rtol=1e-6, atol=atol)
    except AssertionError:
        return False
    return types[0] == types[1] or name in FLOAT32


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use_flox", [True, False])
def test_operations_of_the_documentation_stay_lazy_and_are_right(use_flox):
    memory, eager, wrong = example(), [], []
    names = [name for name in OPERATIONS if use_flox or "groupby" in name or "sample" in name]
    with xr.set_options(use_flox=use_flox):
        for name in names:
            want, reads = OPERATIONS[name](memory), []
            made = OPERATIONS[name](on_disk(reads))
            if reads or not all(isinstance(v._data, la.Array) for v in variables(made)):
                eager.append(name)
            if not is_right(name, made, want):
                wrong.append(name)
    count = len(names)
    print(f"{count - len(eager)} of {count} operations stay lazy; "
          f"{count - len(wrong)} equal those of xarray on NumPy's arrays")
    assert (eager, wrong) == ([name for name in EAGER if name in names], [])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("func", ["nanmean", "count", "nanvar", "argmax", "nanmedian", "nanfirst"])
def test_flox_groups_by_arrays_of_several_axes(func):
    labels = xr.DataArray(np.arange(30).reshape(6, 5) % 4, dims=("lat", "lon"), name="g")
    ds = example()[["t"]]
    ds = ds.fillna(0.5) if func == "argmax" else ds
    dim = "lat" if func in ("argmax", "nanfirst") else ("lat", "lon")
    kwargs = {"func": func, "dim": dim, "expected_groups": np.arange(4),
              "fill_value": None if func == "argmax" else np.nan}
    want = flox.xarray.xarray_reduce(ds, labels, **kwargs)
    made = flox.xarray.xarray_reduce(ds.chunk(time=7, lat=2, lon=2), labels, **kwargs)
    assert isinstance(made.t.data, la.Array)
    xr.testing.assert_allclose(made.compute(), want)


def test_scans_and_reductions_by_functions(manager):
    x = la.from_array(np.arange(24.0).reshape(4, 6), chunks=(2, 2))
    scanned = manager.scan(np.cumsum, np.add, 0, x, axis=1, dtype=float)
    np.testing.assert_array_equal(scanned.compute(), np.cumsum(x.compute(), axis=1))
    total = manager.reduction(x, np.sum, aggregate_func=np.sum, axis=0, dtype=float)
    np.testing.assert_array_equal(total.compute(), x.compute().sum(axis=0))
    with pytest.raises(TypeError, match="Mixing chunked array types"):
        parallelcompat.get_chunked_array_type(x, pytest.importorskip("dask.array").ones(3))


def test_groups_are_shuffled_to_chunks_of_their_own(manager):
    x = la.arange(9, chunks=3)
    made = manager.shuffle(x, [[0, 5, 7], [1, 2], [3, 4, 6, 8]], 0, "auto")
    assert made.chunks == ((3, 2, 4),)
    assert made.compute().tolist() == [0, 5, 7, 1, 2, 3, 4, 6, 8]


def test_what_comes_out_of_compute_are_arrays_and_others_pass(manager):
    lists = la.from_array(np.array([None], object), chunks=1)
    lists[0] = [1, 2]
    total, other, item = manager.compute(la.ones(3).sum(), "other", lists[0])
    assert isinstance(total, np.ndarray) and total == 3 and other == "other"
    assert item.shape == () and item[()] == [1, 2]
    (kept, other) = manager.persist(la.ones(3), 5)
    assert isinstance(kept, la.Array) and other == 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_there_and_back(tmp_path, zarr_format):
    ds, path = example().drop_vars("zone"), tmp_path / "a.zarr"
    lazy = ds.chunk(time=15, lat=2, chunked_array_type="lazyflow")
    assert isinstance(lazy.t.data, la.Array) and lazy.t.chunks[0] == (15, 15, 10)
    options = {"zarr_format": zarr_format, "consolidated": False}
    write = lazy.to_zarr(path, compute=False, **options)
    assert np.isnan(xr.open_zarr(path, chunks=None, consolidated=False).t).all()
    write.compute()
    for chunks in ({}, "auto", {"time": 30}):
        back = xr.open_zarr(
            path, chunks=chunks, chunked_array_type="lazyflow", consolidated=False)
        assert isinstance(back.t.data, la.Array)
        xr.testing.assert_identical(back.compute(), ds)
    part = {"time": slice(15, 30)}
    (lazy[["t"]].isel(part) * 0 + 1).drop_vars(["lat", "lon"]).to_zarr(
        path, region=part, consolidated=False)
    assert (xr.open_zarr(path, chunks=None, consolidated=False).t[part].fillna(1) == 1).all()


@pytest.mark.filterwarnings("ignore")
def test_netcdf_has_one_writer_and_many_readers(tmp_path):
    ds, path = example()[["t", "rain"]], tmp_path / "a.nc"
    lazy = ds.chunk(time=15)
    lazy.to_netcdf(path, engine="h5netcdf")
    back = xr.open_mfdataset([path], engine="h5netcdf", chunks={"time": 10})
    assert isinstance(back.t.data, la.Array)
    xr.testing.assert_identical(back.compute(), ds)
    with lazyflow.config.set(scheduler="processes"), pytest.raises(
        lazyflow.SerializationError, match="one writer"
    ):
        lazy.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
