"""Other libraries' lazy objects: `dask` has those of dask, and futures of engines.

`joblib` registers lazyflow as a backend of joblib; `dask_graphs` has schedulers for dask,
`dask_collections` turns lazyflow's values and arrays into dask's, and back.

`xarray` and `flox` are above arrays: objects of xarray hold them, and are grouped by flox.
"""
