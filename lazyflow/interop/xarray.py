"""xarray's chunk manager: objects of xarray hold lazyflow's arrays.

``chunked_array_type="lazyflow"``, or ``xr.set_options(chunk_manager="lazyflow")`` for a program,
makes `xr.open_zarr`, `xr.open_dataset` and `.chunk` use it; xarray finds it by the entry point of
the group ``xarray.chunkmanagers``, and so by its own import, not by lazyflow's.

Its methods have the names and parameters of
``xarray.namedarray.parallelcompat.ChunkManagerEntrypoint``, which documents them. dask's keywords
for names of tasks and forms of graphs (`name`, `inline_array`) are accepted without effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any
from uuid import uuid4

import numpy as np
from xarray.computation import fit, weighted
from xarray.core import accessor_dt, duck_array_ops, groupby, indexing
from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint

import lazyflow.array as la
from lazyflow import config
from lazyflow.array.core import Array


class LazyflowManager(ChunkManagerEntrypoint[Array]):
    """How xarray makes, computes and stores chunked arrays of lazyflow."""

    def __init__(self) -> None:
        self.array_cls = Array
        _taken_for_lazy()
        _tell_flox()

    # -- chunks -------------------------------------------------------------------------------

    def chunks(self, data: Array) -> Any:
        return data.chunks

    def normalize_chunks(
        self, chunks: Any, shape: Any = None, limit: Any = None, dtype: Any = None,
        previous_chunks: Any = None,
    ) -> Any:
        return la.normalize_chunks(chunks, shape, limit, dtype, previous_chunks)

    def get_auto_chunk_size(self) -> int:
        most: int = config.get("chunk_bytes")
        return most

    def unify_chunks(self, *args: Any, **kwargs: Any) -> Any:
        return la.unify_chunks(*args, **kwargs)

    def shuffle(self, x: Array, indexer: Any, axis: int, chunks: Any) -> Array:
        """Return the elements of each list in a chunk of their own, or with other whole lists."""
        most = max(x.chunks[axis], default=1)
        sizes = [0]
        for places in indexer:
            if sizes[-1] and sizes[-1] + len(places) > most:
                sizes.append(0)
            sizes[-1] += len(places)
        taken = la.take(x, np.concatenate([np.asarray(each, int) for each in indexer]), axis)
        return taken.rechunk({axis: tuple(sizes)})

    # -- from and to memory and files ---------------------------------------------------------

    def from_array(self, data: Any, chunks: Any, **kwargs: Any) -> Array:
        known = {key: kwargs[key] for key in ("lock", "asarray") if key in kwargs}
        _tell_flox()
        return la.from_array(data, chunks, **known)

    def compute(self, *data: Any, **kwargs: Any) -> Any:
        values = iter(la.compute(*[x for x in data if isinstance(x, Array)], **kwargs))
        return tuple([
            _as_array(next(values), x.dtype) if isinstance(x, Array) else x for x in data
        ])

    def persist(self, *data: Any, **kwargs: Any) -> Any:
        kept = iter(la.persist(*[x for x in data if isinstance(x, Array)], **kwargs))
        return tuple([next(kept) if isinstance(x, Array) else x for x in data])

    def store(self, sources: Any, targets: Any, **kwargs: Any) -> Any:
        """Write arrays; ``compute=False`` gives a lazy value of dask, which xarray works on."""
        kwargs.pop("flush", None)
        written = la.store(sources, targets, **kwargs)
        if written is None:
            return None
        import dask

        name = f"store-{uuid4()}"  # else dask would pickle the value for a name
        write = dask.delayed(_Computed(written), name=f"write-{name}", traverse=False)
        return write(dask_key_name=name)

    # -- functions of arrays ------------------------------------------------------------------

    @property
    def array_api(self) -> Any:
        return la

    def apply_gufunc(
        self, func: Any, signature: str, *args: Any, output_dtypes: Any = None,
        vectorize: bool | None = None, **kwargs: Any,
    ) -> Any:
        if output_dtypes is not None and not vectorize:
            func = Declared(func, output_dtypes)
        return la.apply_gufunc(
            func, signature, *args, output_dtypes=output_dtypes, vectorize=vectorize, **kwargs
        )

    def map_blocks(self, func: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if dtype is not None:
            func = Declared(func, dtype)
        return la.map_blocks(func, *args, dtype=dtype, **kwargs)

    def blockwise(self, func: Any, out_ind: Any, *args: Any, **kwargs: Any) -> Any:
        return la.blockwise(func, out_ind, *args, **kwargs)

    def reduction(
        self, arr: Array, func: Any, combine_func: Any = None, aggregate_func: Any = None,
        axis: Any = None, dtype: Any = None, keepdims: bool = False,
    ) -> Array:
        return la.reduction(
            arr, func, aggregate_func or combine_func or func, axis, keepdims, dtype,
            combine=combine_func,
        )

    def scan(
        self, func: Any, binop: Any, ident: Any, arr: Array, axis: Any = None, dtype: Any = None,
        **kwargs: Any,
    ) -> Array:
        """Return a scan by functions: each block is scanned, then combined with those before it.

        The keyword `preop` makes the end of a block of it; without one it is the last element of
        the scanned block. `method` is taken: the ends are small, and are combined in one task.
        """
        if axis is None:
            arr, axis = la.ravel(arr), 0
        axis %= arr.ndim
        dtype = np.dtype(arr.dtype if dtype is None else dtype)
        scanned = la.map_blocks(func, arr, axis=axis, dtype=dtype)
        preop = kwargs.get("preop")
        ones = {axis: 1}
        chunks = tuple([
            (1,) * len(sizes) if k == axis else sizes for k, sizes in enumerate(arr.chunks)
        ])
        ends = la.map_blocks(
            _end, arr if preop else scanned, preop, axis, chunks=chunks, dtype=dtype
        )
        before = la.map_blocks(
            _carries, ends.rechunk({axis: -1}), binop, ident, axis, dtype=dtype
        ).rechunk(ones)
        return la.map_blocks(binop, before, scanned, chunks=scanned.chunks, dtype=dtype)


#: Modules of xarray that test for dask's arrays and mean any lazy array. `xarray.namedarray`, which
#: wants dask's graph, is not among them.
_MODULES: tuple[Any, ...] = (fit, weighted, accessor_dt, duck_array_ops, indexing)


def _taken_for_lazy() -> None:
    """Have xarray ask chunked arrays of lazyflow where else it would compute them.

    xarray 2026.9 knows by type, dask's, which arrays `ffill`, `.dt`, `idxmax`, `polyfit` and points
    by coordinates must leave lazy; another manager's would be computed or refused. Nothing changes
    for arrays of other libraries.
    """
    for module in _MODULES:
        theirs = getattr(module, "is_duck_dask_array", None)
        if theirs is not None and not isinstance(theirs, _IsLazy):
            module.is_duck_dask_array = _IsLazy(theirs)
    of_dask = getattr(indexing, "DaskIndexingAdapter", None)
    if of_dask is not None and not isinstance(of_dask, _AdapterOf):
        indexing.DaskIndexingAdapter = _AdapterOf(of_dask)
    groups = groupby.GroupBy
    for name in ("_flox_reduce", "_flox_scan"):
        by_flox = getattr(groups, name, None)
        if by_flox is not None and not hasattr(by_flox, "__wrapped__"):
            setattr(groups, name, _with_flox(by_flox))


def _tell_flox() -> None:
    """Have flox reduce lazily where the program calls it itself, and not by `groupby`."""
    if "flox.core" in sys.modules:
        from lazyflow.interop import flox

        flox.register()


def _with_flox(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that uses flox, which is imported, for a second, when it is called."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        from lazyflow.interop import flox

        flox.register()
        return method(*args, **kwargs)

    return call


@dataclass(frozen=True)
class _IsLazy:
    """Tells whether an array is lazy: lazyflow's, or one that xarray takes for lazy."""

    theirs: Callable[[Any], bool]

    def __call__(self, x: Any) -> bool:
        return isinstance(x, Array) or self.theirs(x)


@dataclass(frozen=True)
class _AdapterOf:
    """Gives lazyflow's arrays an adapter by NumPy's rules of indexing; dask's has others."""

    theirs: Any

    def __call__(self, array: Any) -> Any:
        return _Indexed(array) if isinstance(array, Array) else self.theirs(array)


class _Indexed(indexing.NdArrayLikeIndexingAdapter):
    """An array indexed as NumPy's, also by chunked arrays of places in it: `idxmax`."""

    __slots__ = ()

    def _vindex_get(self, indexer: Any) -> Any:
        places = indexer.tuple
        if len(places) == self.array.ndim == 1 and isinstance(places[0], Array):
            dtype = self.array.dtype
            return la.apply_gufunc(_picked, "(n),()->()", self.array, *places, output_dtypes=dtype)
        return super()._vindex_get(indexer)


def _picked(values: Any, places: Any) -> Any:
    return values[places]


class Declared:
    """A function whose results are cast to the declared dtypes.

    dask passes on results as they are. Here an array has its declared dtype, and xarray declares
    some that its functions do not return, such as float32 of `interp`.
    """

    def __init__(self, func: Callable[..., Any], dtypes: Any) -> None:
        update_wrapper(self, func)  # so that its parameters, such as block_info, are seen
        self.func = func
        self.dtypes = dtypes if isinstance(dtypes, list | tuple) else [dtypes]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self.func(*args, **kwargs)
        if isinstance(made, tuple):
            return tuple([_cast(*each) for each in zip(made, self.dtypes, strict=True)])
        return _cast(made, self.dtypes[0])


def _cast(x: Any, dtype: Any) -> Any:
    x = np.asanyarray(x)
    return x.astype(dtype, copy=False) if np.can_cast(x.dtype, dtype, "same_kind") else x


class _Computed:
    """A lazy value of lazyflow as a function, which dask calls."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value.compute()


def _as_array(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, np.ndarray):
        return value
    found = np.empty((), dtype)  # an object that is a list is no array of its elements
    found[()] = value
    return found


def _end(block: Any, preop: Callable[..., Any] | None, axis: int) -> Any:
    if preop is not None:
        return preop(block, axis=axis, keepdims=True)
    return block.take([-1], axis)


def _carries(ends: Any, binop: Callable[..., Any], ident: Any, axis: int) -> Any:
    """Return for each block the accumulated values before it."""
    first = np.full_like(ends.take([0], axis), ident)
    found = [first]
    for k in range(ends.shape[axis] - 1):
        found.append(binop(found[-1], ends.take([k], axis)))
    return np.concatenate(found, axis)
