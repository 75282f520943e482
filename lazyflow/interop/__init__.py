"""Other libraries' lazy objects: `dask` has those of dask, and futures of engines.

`xarray` and `flox` are above arrays: objects of xarray hold them, and are grouped by flox.
"""
