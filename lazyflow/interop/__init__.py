"""Other libraries' lazy objects: `dask` has those of dask, and futures of engines."""
