"""What arrays are written to, and where in it: the part of a target that a region takes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.core import Array
from lazyflow.array.functions.storage.loading import guards_one_process
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.selection import Index
from lazyflow.array.nodes.sources import InMemory, Stored
from lazyflow.graph.kinds import ATOM

#: What writes HDF5: h5py, and xarray's handles of NetCDF files; those of zarr are zarr's own.
_ONE_WRITER = ("h5py", "netCDF4", "xarray")


class StoreTarget:
    """What is written to, and where in it; an argument of tasks that is not searched.

    parts
        What is written to along each axis of the store: one place, a range, or an array of places;
        None: all of it, as the blocks lie.
    """

    _lazyflow_kind = ATOM

    def __init__(self, store: Any, parts: Any, guard: Any) -> None:
        self.store = store
        self.parts = parts
        self.guard = guard

    @classmethod
    def of(cls, store: Any, region: Any, guard: Any) -> StoreTarget:
        """Return the part of a store that a region takes.

        Raises
        ------
        TypeError
            The store can't be written to, or has no shape to take a region of.
        IndexError, ValueError
            The region is none of the store.
        """
        if not hasattr(store, "__setitem__"):
            raise TypeError(
                f"a {type(store).__name__} can't be stored to: it takes no target[slices] = block"
            )
        if region is None:
            return cls(store, None, guard)
        shape = getattr(store, "shape", None)
        if shape is None:
            raise TypeError(
                f"regions= needs a target with a shape; a {type(store).__name__} has none"
            )
        return cls(store, parts_of(region, tuple(shape)), guard)

    def check(self, source: Array) -> None:
        """Raise where the source does not fit."""
        shape = getattr(self.store, "shape", None)
        if shape is None:
            return
        source_shape = source.with_known_sizes().shape
        if self.parts is not None:
            shape = [len(each) for each in self.parts if not isinstance(each, int)]
        if tuple(shape) != source_shape:
            raise ValueError(
                f"the array has shape {source_shape}, but what it is stored to has {tuple(shape)}"
                + ("" if self.parts is not None else "; pass regions= to write to a part of it")
            )

    @property
    def same(self) -> Any:
        """What is equal for targets that are one thing."""
        return identity(self.store)

    @property
    def unit(self) -> tuple[int, ...] | None:
        """What is written as a whole along each axis, shards or chunks; None if nothing is."""
        found = getattr(self.store, "shards", None) or getattr(self.store, "chunks", None)
        shape = getattr(self.store, "shape", None)
        if not isinstance(found, tuple) or shape is None or len(found) != len(shape):
            return None
        if not all(isinstance(n, int | np.integer) for n in found):
            return None
        return tuple([max(int(n), 1) for n in found])

    def along_axes(self) -> Sequence[Any]:
        """Return what is written to along each axis: one place, a range, or an array."""
        return [range(n) for n in self.store.shape] if self.parts is None else self.parts

    def ends(self, bounds: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
        """Return the first and the last place of each block along each axis of the store."""
        left = iter(bounds)
        found: list[list[tuple[int, int]]] = []
        for each in self.along_axes():
            if isinstance(each, int):
                found.append([(each, each)])
                continue
            blocks = [each[low:high] for low, high in pairwise(next(left))]
            found.append([(int(min(at)), int(max(at))) if len(at) else (0, -1) for at in blocks])
        return found

    def own(self, index: Index) -> Index:
        """Return which of `ends` are those of a block, along each axis of the store."""
        left = iter(index)
        return tuple([0 if isinstance(each, int) else next(left) for each in self.along_axes()])

    def chunks_for(self, chunks: Chunks) -> Chunks:
        """Return chunks near some of the source, no two of which share a `unit`."""
        unit, left = self.unit, iter(chunks)
        if unit is None:
            return chunks
        found = []
        for each, whole in zip(self.along_axes(), unit, strict=True):
            if isinstance(each, int):
                continue
            sizes = next(left)
            if isinstance(each, range) and each.step == 1 and sizes:
                places = accumulate(sizes, initial=each.start)
                near = {(place + whole // 2) // whole * whole for place in places}
                kept = [at for at in near if each.start < at < each.stop]
                sizes = tuple([b - a for a, b in pairwise([each.start, *sorted(kept), each.stop])])
            found.append(sizes)
        return tuple(found)

    def is_read_by(self, node: Expr) -> bool:
        """Tell whether a node reads the target."""
        if isinstance(node, InMemory):
            mine = isinstance(self.store, np.ndarray)
            return mine and np.may_share_memory(self.store, node.array)
        return isinstance(node, Stored) and identity(node.store) == self.same

    def place(self, slices: tuple[slice, ...]) -> Any:
        """Return where in the store a part of the source is."""
        if self.parts is None:
            return slices
        left = iter(slices)
        return tuple([
            each if isinstance(each, int) else _index(each[next(left)]) for each in self.parts
        ])

    def __reduce__(self) -> Any:
        if isinstance(self.store, np.memmap) and self.store.filename is not None:
            if self.store.mode == "c":
                raise TypeError("a memmap of mode 'c' is private to its process; open it by 'r+'")
            store = self.store
            details = (str(store.filename), store.dtype, store.offset, store.shape)
            return _memmap_target, (*details, self.parts)
        if isinstance(self.store, np.ndarray):
            raise TypeError(
                "an array in the memory of this process can't be written to by others: store with "
                'scheduler="threads", or to a file, such as np.memmap or zarr'
            )
        if type(self.store).__module__.partition(".")[0] in _ONE_WRITER:
            raise TypeError(
                "an HDF5 or NetCDF file has one writer, the process that has it open: store with "
                'scheduler="threads", or to zarr, into which many processes write'
            )
        if guards_one_process(self.guard):
            return _target, (self.store, self.parts)
        return StoreTarget, (self.store, self.parts, self.guard)


def identity(store: Any) -> Any:
    """Return what is equal for handles of one store: the place of a zarr array."""
    place = getattr(store, "store_path", None)
    return id(store) if place is None else str(place)


def parts_of(region: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the places that a region takes along each axis: a number, a range, or an array.

    >>> parts_of((slice(1, None), -1), (4, 3))
    (range(1, 4), 2)
    """
    each = list(region) if isinstance(region, tuple) else [region]
    if (dots := [k for k, one in enumerate(each) if one is Ellipsis]):
        each[dots[0]:dots[0] + 1] = [slice(None)] * (len(shape) - len(each) + 1)
    each += [slice(None)] * (len(shape) - len(each))
    if len(each) != len(shape):
        raise IndexError(f"a region of {len(each)} indices for a target of shape {shape}")
    parts = tuple([_part(one, n) for one, n in zip(each, shape, strict=True)])
    if sum(isinstance(part, np.ndarray) for part in parts) > 1:
        raise ValueError(
            f"the region {region!r} has lists for more than one axis; write with a list for one "
            "axis, and slices or numbers for the others"
        )
    return parts


def _part(one: Any, n: int) -> Any:
    if isinstance(one, slice):
        return range(n)[one]
    found = np.asarray(one)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    if found.ndim > 1 or (found.size and found.dtype.kind not in "iu"):
        raise IndexError(f"regions= takes slices, numbers and lists of numbers; got {one!r}")
    places = found.astype(np.intp)
    if places.size and not (-n <= places.min() and places.max() < n):
        raise IndexError(f"the region has {one!r} along an axis of length {n}")
    places = np.where(places < 0, places + n, places)
    return places if found.ndim else int(places)


def _index(part: Any) -> Any:
    if not isinstance(part, range):
        return part
    if not part:  # of some the ends, read as a slice, take elements
        return slice(0, 0)
    return slice(part.start, None if part.stop < 0 else part.stop, part.step)


def _target(store: Any, parts: Any) -> StoreTarget:
    return StoreTarget(store, parts, Lock())


def _memmap_target(name: str, dtype: Any, offset: int, shape: Any, parts: Any) -> StoreTarget:
    return StoreTarget(np.memmap(name, dtype, "r+", offset, shape), parts, None)
