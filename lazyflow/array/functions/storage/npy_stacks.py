"""Folders of NumPy files, one for each chunk along an axis, as dask writes them."""

from __future__ import annotations

import os
import pickle
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, length
from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import as_array
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.array.functions.storage.storing import store
from lazyflow.array.nodes.block_kinds import check_is_numpy
from lazyflow.array.nodes.reductions import axis_of


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
        The folder, which is made if it is not there.
    x
        The array. What a task writes is a chunk along the axis, and all of the other axes.
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
