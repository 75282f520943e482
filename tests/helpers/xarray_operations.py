"""Operations that xarray's documentation lists, as functions of a DataArray or a Dataset."""

import numpy as np
import pandas as pd
import xarray as xr


def example():
    """Return a Dataset in memory: temperatures of a year with gaps, rain, and a mask."""
    random = np.random.default_rng(0)
    time = pd.date_range("2001-01-01", periods=40, freq="11D")
    values = random.normal(size=(40, 6, 5))
    values[random.random(values.shape) < 0.1] = np.nan
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), values),
            "rain": (("time", "lat", "lon"), random.random((40, 6, 5)).astype("f4")),
            "count": (("time", "lat"), random.integers(0, 9, (40, 6))),
            "when": (("time", "lat"), time.values[:, None] + np.arange(6).astype("m8[D]")),
        },
        {"time": time, "lat": np.linspace(-50, 50, 6), "lon": np.arange(5.0) * 10,
         "zone": ("lat", list("aabbcc"))},
    )


POINTS = {
    "lat": xr.DataArray([0, 3, 5], dims="point"), "lon": xr.DataArray([4, 0, 2], dims="point"),
}


def _whole_lat(x):
    """Return latitudes in one chunk, which xarray asks for in what it hands to NumPy."""
    return x.chunk(lat=-1) if x.chunks else x


def _demeaned(x):
    return x - x.mean()


def _whole(x):
    return np.nan_to_num(x).cumsum(axis=-1)


#: In float64 of NumPy's; of chunked arrays they have the float32 that xarray declares.
FLOAT32 = ("interp", "interp of points", "interp_like")

#: Those of which xarray itself needs values first, whatever holds them: the range of the dates.
EAGER = ["mean of dates"]

#: By the chapter of xarray's API reference that lists them.
OPERATIONS = {
    # computation
    "arithmetic": lambda ds: (ds.t * 2 + ds.rain) / (1 - ds.rain),
    "comparison": lambda ds: (ds.t > ds.rain) & (ds["count"] != 3),
    "ufunc": lambda ds: np.exp(ds.t),
    "broadcasting": lambda ds: ds["count"] * ds.t,
    "align": lambda ds: ds.t[3:] + ds.t[:-5],
    "where": lambda ds: ds.t.where(ds["count"] > 3, -1.0),
    "where drop": lambda ds: ds.t.where(ds.lat > 0, drop=True),
    "xr.where": lambda ds: xr.where(ds.t > 0, ds.rain, np.nan),
    "fillna": lambda ds: ds.t.fillna(0),
    "notnull": lambda ds: ds.t.notnull(),
    "isin": lambda ds: ds["count"].isin([1, 2, 5]),
    "clip": lambda ds: ds.t.clip(-1, 0.5),
    "round": lambda ds: ds.t.round(1),
    "astype": lambda ds: ds.rain.astype("f8"),
    "sum": lambda ds: ds.t.sum("time"),
    "mean of a dataset": lambda ds: ds[["t", "rain"]].mean(),
    "mean of dates": lambda ds: ds.when.mean("time"),
    "median": lambda ds: ds.t.median("time"),
    "std": lambda ds: ds.t.std("lat"),
    "var skipna=False": lambda ds: ds.rain.var(("lat", "lon"), skipna=False, ddof=1),
    "max": lambda ds: ds.t.max("lon"),
    "prod min_count": lambda ds: ds.t.prod("time", min_count=2),
    "all": lambda ds: (ds["count"] >= 0).all(),
    "count": lambda ds: ds.t.count("time"),
    "quantile": lambda ds: ds.t.quantile([0.1, 0.5], "time"),
    "argmax": lambda ds: ds.rain.argmax("time"),
    "idxmin": lambda ds: ds.rain.idxmin("lat"),
    "cumsum": lambda ds: ds.t.cumsum("time"),
    "cumprod": lambda ds: ds.rain.cumprod("lon"),
    "diff": lambda ds: ds.t.diff("time", 2),
    "shift": lambda ds: ds.t.shift(time=3),
    "roll": lambda ds: ds.t.roll(lon=2, roll_coords=True),
    "pad": lambda ds: ds.t.pad(lat=2, mode="reflect"),
    "differentiate": lambda ds: ds.t.differentiate("lat"),
    "integrate": lambda ds: ds.t.integrate("lat"),
    "cumulative_integrate": lambda ds: ds.rain.cumulative_integrate("lat"),
    "dot": lambda ds: xr.dot(ds.rain, ds["count"], dim="lat"),
    "corr": lambda ds: xr.corr(ds.t, ds.rain, dim="time"),
    "cov": lambda ds: xr.cov(ds.t, ds.rain),
    "cross": lambda ds: xr.cross(
        _whole_lat(ds.rain[:, :3]), _whole_lat(ds["count"][:, :3]), dim="lat"),
    "weighted": lambda ds: ds.t.weighted(np.cos(np.deg2rad(ds.lat))).mean(("lat", "lon")),
    "weighted quantile": lambda ds: _whole_lat(ds.t).weighted(np.cos(ds.lat)).quantile(
        0.3, dim="lat"),
    "polyfit": lambda ds: ds.rain.polyfit("time", 2, skipna=False),
    "polyfit of gaps": lambda ds: ds.t.polyfit("time", 2),
    "polyval": lambda ds: xr.polyval(ds.rain, xr.DataArray([1.0, 2, 3], dims="degree",
                                                           coords={"degree": [0, 1, 2]})),
    "rank": lambda ds: _whole_lat(ds.rain).rank("lat"),
    "ffill": lambda ds: ds.t.ffill("time"),
    "bfill limit": lambda ds: ds.t.bfill("time", limit=1),
    "interpolate_na": lambda ds: _whole_lat(ds.t).interpolate_na("lat"),
    "interp": lambda ds: ds.rain.interp(lat=[-20.0, 5, 33]),
    "interp of points": lambda ds: ds.rain.interp(
        lat=xr.DataArray([-20.0, 5], dims="p"), lon=xr.DataArray([3.0, 14], dims="p")),
    "interp_like": lambda ds: ds.rain.interp_like(ds.rain[::2, ::2]),
    "sortby": lambda ds: ds.t.sortby("lat", ascending=False),
    "apply_ufunc": lambda ds: xr.apply_ufunc(
        _whole, ds.t, input_core_dims=[["lat"]], output_core_dims=[["lat"]],
        dask="parallelized", output_dtypes=[float], dask_gufunc_kwargs={"allow_rechunk": True}),
    "apply_ufunc vectorize": lambda ds: xr.apply_ufunc(
        np.mean, _whole_lat(ds.rain), input_core_dims=[["lat"]],
        vectorize=True, dask="parallelized", output_dtypes=[float]),
    "map_blocks": lambda ds: xr.map_blocks(lambda x: x + 1, ds.t, template=ds.t),
    "dt": lambda ds: ds.when.dt.dayofyear,
    "nan_to_num": lambda ds: xr.apply_ufunc(np.nan_to_num, ds.t, dask="allowed"),
    "map": lambda ds: ds[["t", "rain"]].map(np.fabs),
    # groups and windows
    "groupby": lambda ds: ds.t.groupby("time.season").mean(),
    "groupby of a dataset": lambda ds: ds[["t", "count"]].groupby("zone").sum(),
    "groupby anomalies": lambda ds: ds.t.groupby("time.month") - ds.t.groupby("time.month").mean(),
    "groupby first": lambda ds: ds.t.groupby("time.year").first(),
    "groupby map": lambda ds: ds.t.groupby("zone").map(_demeaned),
    "groupby median": lambda ds: ds.t.groupby("time.year").median(),
    "groupby var": lambda ds: ds.t.groupby("zone").var(),
    "groupby cumsum": lambda ds: ds.rain.groupby("zone").cumsum(),
    "groupby two": lambda ds: ds.t.groupby(["time.year", "zone"]).max(),
    "groupby_bins": lambda ds: ds.t.groupby_bins("lat", [-60, -10, 60]).max(),
    "resample": lambda ds: ds.t.resample(time="MS").mean(),
    "resample up": lambda ds: ds.rain.resample(time="5D").nearest(),
    "rolling mean": lambda ds: ds.t.rolling(time=4).mean(),
    "rolling max": lambda ds: ds.t.rolling(time=4, center=True, min_periods=1).max(),
    "rolling construct": lambda ds: ds.rain.rolling(time=3).construct("w").dot(
        xr.DataArray([1.0, 2, 1], dims="w")),
    "rolling two": lambda ds: ds.rain.rolling(lat=2, lon=2).std(),
    "cumulative": lambda ds: ds.rain.cumulative("time").sum(),
    "coarsen": lambda ds: ds.t.drop_vars("zone").coarsen(time=4, lat=2).mean(),
    "coarsen construct": lambda ds: ds.t.coarsen(time=8).construct(time=("year", "step")),
    # selection and structure
    "isel": lambda ds: ds.t.isel(time=slice(2, 30, 3), lat=-1),
    "isel arrays": lambda ds: ds.t.isel(time=[5, 1, 1], lon=[0, 3]),
    "isel points": lambda ds: ds.t.isel(**POINTS),
    "sel": lambda ds: ds.t.sel(time="2001-07", lat=10),
    "sel nearest": lambda ds: ds.t.sel(lat=[12, -44], method="nearest"),
    "mask": lambda ds: ds.t[:, ds.lat.values > 0],
    "thin head tail": lambda ds: ds.t.thin(lat=2).head(time=9).tail(time=3),
    "reindex": lambda ds: ds.rain.reindex(lat=[-50, 3, 50], method="nearest", tolerance=1),
    "concat": lambda ds: xr.concat([ds.t, ds.rain], dim="kind"),
    "concat along": lambda ds: xr.concat([ds.t[:10], ds.t[20:]], dim="time"),
    "merge": lambda ds: xr.merge([ds[["t"]], ds[["rain"]].isel(lat=slice(2, 5))], join="outer"),
    "combine_first": lambda ds: ds.t.combine_first(ds.rain),
    "stack": lambda ds: ds.t.stack(place=("lat", "lon")),
    "unstack": lambda ds: ds.t.stack(place=("lat", "lon")).unstack("place"),
    "to_stacked_array": lambda ds: ds[["t", "count"]].to_stacked_array("z", ["time"]).drop_vars(
        ["z", "variable", "lat"]),
    "to_dataarray": lambda ds: ds[["t", "rain"]].to_dataarray(),
    "transpose": lambda ds: ds.t.transpose("lon", ...),
    "expand_dims": lambda ds: ds.t.expand_dims(run=3),
    "squeeze": lambda ds: ds.t[:, :1].squeeze(),
    "broadcast_like": lambda ds: ds["count"].broadcast_like(ds.t),
    "full_like": lambda ds: xr.full_like(ds.t, 7.0),
    "zeros_like": lambda ds: xr.zeros_like(ds["count"]),
    "chunk": lambda ds: ds.t.chunk(time=7) if ds.chunks else ds.t,
    "assign": lambda ds: ds.assign(f=ds.t * 1.8 + 32)["f"],
    "copy": lambda ds: ds.t.copy(deep=True),
    "real": lambda ds: (ds.rain * 1j).real,
}
