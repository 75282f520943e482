"""Files by format: zarr, read and written chunk by chunk, HDF5 by h5py, and folders of NumPy files.

A folder has a file for each chunk along an axis, as dask writes them.
"""

from __future__ import annotations

import os
import pickle
from bisect import bisect_right
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from lazyflow.array.chunks import Chunks, length
from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ChunksLike, as_array
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.array.functions.storage.storing import StoreTarget, identity, store
from lazyflow.array.nodes.block_kinds import check_is_numpy
from lazyflow.array.nodes.expr import below
from lazyflow.array.nodes.reductions import axis_of
from lazyflow.array.nodes.sources import Stored

# -- folders of .npy files ---------------------------------------------------------------------


class NpyStack:
    """The files of a folder as one array, that is read and written by slices.

    A file has a chunk along the axis, and all of the other axes. Writes are of whole files.
    """

    def __init__(
        self, folder: str, chunks: Chunks, dtype: np.dtype[Any], axis: int, mmap_mode: Any = None
    ) -> None:
        self.folder = folder
        self.chunks = chunks
        self.dtype = dtype
        self.axis = axis
        self.mmap_mode = mmap_mode
        self.shape = tuple(map(length, chunks))
        self._ends = list(accumulate(chunks[axis]))

    def _file(self, number: int) -> str:
        return os.path.join(self.folder, f"{number}.npy")

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        axis, span = self.axis, key[self.axis]
        number = bisect_right(self._ends, span.start)
        parts, start = [], span.start
        while start < span.stop:
            before = self._ends[number] - self.chunks[axis][number]
            stop = min(span.stop, self._ends[number])
            inner = (*key[:axis], slice(start - before, stop - before), *key[axis + 1:])
            pickled = self.dtype.hasobject
            parts.append(np.load(self._file(number), self.mmap_mode, allow_pickle=pickled)[inner])
            start, number = stop, number + 1
        if not parts:
            return np.empty([each.stop - each.start for each in key], self.dtype)
        return np.concatenate(parts, axis) if len(parts) > 1 else np.array(parts[0])

    def __setitem__(self, key: tuple[slice, ...], block: Any) -> None:
        start = key[self.axis].start
        starts = [end - n for end, n in zip(self._ends, self.chunks[self.axis], strict=True)]
        np.save(self._file(starts.index(start)), block)


def to_npy_stack(dirname: Any, x: Any, axis: int = 0) -> None:
    """Write an array to a folder of NumPy files, one for each chunk along an axis.

    Parameters
    ----------
    dirname
        The folder; it is created if missing.
    x
        The array. Each task writes one chunk along `axis`, with all of the other axes.
    axis
        The axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     la.to_npy_stack(folder, la.arange(6, chunks=4))
    ...     la.from_npy_stack(folder).compute()
    array([0, 1, 2, 3, 4, 5])
    """
    x = as_array(x).with_known_sizes()
    check_is_numpy(x.expr, "to_npy_stack()")
    axis, folder = axis_of(axis, x.ndim), os.fspath(dirname)
    sizes = tuple([n for n in x.chunks[axis] if n]) or (0,)
    chunks = tuple([sizes if k == axis else (n,) for k, n in enumerate(x.shape)])
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "info"), "wb") as file:
        pickle.dump({"chunks": chunks, "dtype": x.dtype, "axis": axis}, file)
    store(x.rechunk(chunks), NpyStack(os.path.abspath(folder), chunks, x.dtype, axis), lock=False)


def from_npy_stack(dirname: Any, mmap_mode: str | None = "r") -> Array:
    """Return an array of a folder that `to_npy_stack` wrote, here or in dask.

    Parameters
    ----------
    dirname
        The folder. Its file ``info`` is a pickle, so it must be one that you trust.
    mmap_mode
        Of ``np.load``: files are mapped, so that a part of one is read without the rest.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     la.to_npy_stack(folder, la.ones((5, 3), chunks=2))
    ...     la.from_npy_stack(folder)
    lazyflow.Array<from_array, shape=(5, 3), dtype=float64, chunksize=(2, 3)>
    """
    folder = os.path.abspath(os.fspath(dirname))
    with open(os.path.join(folder, "info"), "rb") as file:
        info = pickle.load(file)
    axis, dtype = info["axis"], np.dtype(info["dtype"])
    if dtype.hasobject:
        mmap_mode = None
    chunks = tuple([tuple(map(int, sizes)) for sizes in info["chunks"]])
    return from_array(NpyStack(folder, chunks, dtype, axis, mmap_mode), chunks)


# -- HDF5 --------------------------------------------------------------------------------------


def to_hdf5(filename: Any, *args: Any, chunks: Any = True, **kwargs: Any) -> None:
    """Write arrays to datasets of an HDF5 file, chunk by chunk, in one compute.

    Parameters
    ----------
    filename
        Of the file, which is made if it is not there.
    *args
        The path of a dataset in it and an array, or a dict of arrays by path. A dataset that is
        there must have the shape and dtype of the array, and is written over.
    chunks
        Of new datasets; True: the first chunk of the array along each axis; None: in one piece.
    **kwargs
        Of ``h5py.File.create_dataset``, such as ``compression="gzip"``.

    Raises
    ------
    ImportError
        h5py is not installed.
    ValueError
        Neither a path and an array, nor a dict of arrays is given.
    TypeError
        A dataset that is there has another shape or dtype.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import h5py, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     la.to_hdf5(f"{folder}/numbers.h5", "/x", la.arange(6, chunks=4))
    ...     with h5py.File(f"{folder}/numbers.h5") as file:
    ...         la.from_array(file["x"]).sum().compute()
    np.int64(15)
    """
    if len(args) == 1 and isinstance(args[0], dict):
        data = args[0]
    elif len(args) == 2 and isinstance(args[0], str) and isinstance(args[1], Array):
        data = {args[0]: args[1]}
    else:
        raise ValueError(
            "to_hdf5() takes a path in the file and a chunked array, to_hdf5('a.h5', '/x', x), or "
            "a dict of them, to_hdf5('a.h5', {'/x': x})"
        )
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            "to_hdf5() needs h5py, which is not installed: pip install h5py"
        ) from error
    arrays = list(data.values())
    for x in arrays:
        check_is_numpy(x.expr, "to_hdf5()")
    resolve_lengths(*arrays)
    with h5py.File(filename, mode="a") as file:
        targets = [
            file.require_dataset(
                path, shape=x.shape, dtype=x.dtype, chunks=_chunks(x) if chunks is True else chunks,
                **kwargs,
            )
            for path, x in data.items()
        ]
        store(arrays, targets)


def _chunks(x: Array) -> Any:
    """Return the chunks of a dataset; of no axes or no elements it has none."""
    return tuple([sizes[0] for sizes in x.chunks]) if x.ndim and x.size else None


def to_hdf5_method(x: Array, filename: Any, datapath: str, **kwargs: Any) -> None:
    """Write the array to a dataset of an HDF5 file, as ``la.to_hdf5(filename, datapath, x)``."""
    to_hdf5(filename, datapath, x, **kwargs)


# -- zarr --------------------------------------------------------------------------------------


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "from_zarr() and to_zarr() need zarr, which is not installed: pip install zarr"
        ) from error
    return zarr


def from_zarr(
    url: Any, component: str | None = None, chunks: ChunksLike = "auto", **kwargs: Any
) -> Array:
    """Return a chunked array of one that zarr stores.

    Parameters
    ----------
    url
        A zarr array or group; or a path, a URL of fsspec's, or a store of zarr's.
    component
        Path of the array in a group.
    chunks
        As of `normalize_chunks`; automatic ones are multiples of the stored ones.
    **kwargs
        Of ``zarr.open_array``.

    Raises
    ------
    ImportError
        zarr is not installed.
    ValueError
        `url` is a group, and `component` names no array of it.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import tempfile, zarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = la.to_zarr(la.arange(6, chunks=3), f"{folder}/numbers.zarr")
    ...     la.from_zarr(f"{folder}/numbers.zarr").sum().compute()
    np.int64(15)
    """
    zarr = _zarr()
    if isinstance(url, zarr.Array):
        found = url
    else:
        url, component = _in_group(_path_of(url, kwargs), component)
        found = zarr.open_array(url, path=component or "", mode="r", **kwargs)
    return from_array(found, chunks)


def to_zarr(
    arr: Array, url: Any, component: str | None = None, region: Any = None, compute: bool = True,
    return_stored: bool = False, **kwargs: Any,
) -> Any:
    """Write an array to one that zarr stores, chunk by chunk.

    Parameters
    ----------
    arr
        A chunked array.
    url
        A zarr array to write to; or a group, a path, a URL of fsspec's, or a store of zarr's, where
        one is made. The array is rechunked before so that its chunks end where the shards of the
        zarr array do, or its chunks where it has no shards.
    component
        Path of the array in a group.
    region
        The part of the zarr array to write to, as of `store`; only if `url` is a zarr array.
    compute, return_stored
        As of `store`.
    **kwargs
        Of ``zarr.create_array``, such as ``overwrite=True``, ``shards=(4, 4)``, `compressors`,
        `attributes` or `zarr_format`. Defaults: ``chunks`` is the largest chunk of `arr`, ``dtype``
        that of `arr`.

    Raises
    ------
    ImportError
        zarr is not installed.
    ValueError
        `region` is given with a path, shapes differ, or ``overwrite=True`` would erase data that
        `arr` is read from.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import tempfile, zarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     la.ones((4, 6), chunks=(2, 6)).to_zarr(f"{folder}/ones.zarr")
    ...     zarr.open_array(f"{folder}/ones.zarr", mode="r").chunks
    (2, 6)
    """
    zarr = _zarr()
    check_is_numpy(arr.expr, "to_zarr()")
    arr = arr.with_known_sizes()
    if isinstance(url, zarr.Array):
        target = url
    elif region is not None:
        raise ValueError(
            "to_zarr() writes a region of an existing array: open it by zarr.open_array(url) "
            "and pass it as url"
        )
    else:
        url, component = _in_group(_path_of(url, kwargs), component)
        if kwargs.get("overwrite"):
            _refuse_to_erase(arr, url, component)
        kwargs.setdefault("chunks", tuple([max(n, 1) for n in arr.chunksize]))
        kwargs.setdefault("dtype", arr.dtype)
        target = zarr.create_array(url, name=component, shape=arr.shape, **kwargs)
    part = StoreTarget.of(target, region, None)
    part.check(arr)
    arr = arr.rechunk(part.chunks_for(arr.chunks))
    return store(arr, target, False, region, compute, return_stored)


def _path_of(url: Any, options: dict[str, Any]) -> Any:
    """Return the path of a URL of a local file: by fsspec's, zarr 3.1 makes no folders."""
    if isinstance(url, str) and url.startswith("file:") and "storage_options" not in options:
        from urllib.request import url2pathname  # which imports http, for 0.1 s

        return url2pathname(urlsplit(url).path)
    return url


def _in_group(url: Any, component: str | None) -> tuple[Any, str | None]:
    """Return the store of a group, and the path of an array of it; others as they are."""
    if not isinstance(url, _zarr().Group):
        return url, component
    if not component:
        raise ValueError(
            f"{url.store_path} is a group, which holds {sorted(url.array_keys())}: name an array "
            "of it by component="
        )
    return url.store, f"{url.path}/{component}".lstrip("/")


def _refuse_to_erase(arr: Array, url: Any, component: str | None) -> None:
    """Raise where an array is read from what is erased before it is written."""
    read = [identity(x.store) for x in below([arr.expr]) if isinstance(x, Stored)]
    if not read:
        return
    try:
        erased = identity(_zarr().open(url, path=component or "", mode="r"))
    except FileNotFoundError:  # nothing is there
        return
    for place in read:
        if place == erased or str(place).startswith(f"{str(erased).rstrip('/')}/"):
            raise ValueError(
                f"to_zarr(overwrite=True) would erase {erased}, from which the array is read, "
                "before it is written. Write to another path; or write the values back where "
                "they were: to_zarr(x, zarr.open_array(path))"
            )
