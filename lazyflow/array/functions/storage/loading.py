"""Arrays of what memory, files and lazy values hold, and blocks as lazy values.

NumPy arrays are read in place: no task copies them, and they must not change before the result is
computed. Of anything else with ``shape``, ``dtype`` and slices, tasks read regions, by slices only.
Automatic chunks follow those of the store (or its shards), and one holds at least one of them, as
they are read whole. A lock of threads holds within a process; in other processes each array gets
one of its own. `from_delayed` believes shape and dtype, and raises if the computed value has
others.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.api.collection import Collection
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.foreign import plain, refuse_lazy
from lazyflow.array.functions.arguments import ChunksLike, DTypeLike, changes_nothing
from lazyflow.array.nodes.block_kinds import dense, is_other_kind
from lazyflow.array.nodes.expr import LazyDtype
from lazyflow.array.nodes.sources import Const, InMemory, Region, Stored
from lazyflow.array.nodes.user_calls import BlockCalls, BoundCall, declared
from lazyflow.graph.kinds import FOREIGN, kinds
from lazyflow.graph.task import Task, task_name
from lazyflow.services import service

#: What `from_array` makes an array of first: values without a shape, and scalars of NumPy.
_VALUES = (list, tuple, int, float, complex, memoryview, np.generic)


def from_array(
    x: Any, chunks: ChunksLike = "auto", lock: Any = False, asarray: bool | None = None, *,
    name: Any = None, fancy: bool = True, getitem: Any = None, meta: Any = None,
    inline_array: bool = False,
) -> Array:
    """Return a chunked array of something with ``shape``, ``dtype`` and slices.

    Parameters
    ----------
    x
        A NumPy array or memmap, a zarr array, an h5py dataset, or anything that gives a part of
        itself by ``x[slices]``. It must not change before the results are computed.
    chunks
        As of `normalize_chunks`; automatic ones follow the chunks of `x` if it has any.
    lock
        True: one read at a time in a process; or a lock to hold while reading.
    asarray
        Whether slices are converted to NumPy's arrays. None: yes, unless they take part in NumPy's
        protocols themselves.
    name
        Name of the tasks that read. NumPy arrays need no such tasks.
    getitem
        Called as ``getitem(x, slices)`` instead of ``x[slices]``, the lock held.
    meta
        An array like those that slices give. If it is of another library, `asarray` is False by
        default.
    fancy, inline_array
        Change nothing (dask's keywords): `x` gets slices only, and is held once.

    Raises
    ------
    TypeError
        `x` is chunked or lazy already, or has no shape, dtype or slices.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.from_array(np.arange(6).reshape(2, 3), chunks=(1, 3))
    >>> x.chunks
    ((1, 1), (3,))
    >>> (x + 1).sum().compute()
    np.int64(21)
    """
    if isinstance(x, Array):
        raise TypeError("from_array() got a chunked array; x.rechunk(chunks) changes its chunks")
    refuse_lazy(x)
    if isinstance(x, _VALUES):
        x = np.asarray(x)
    for attribute in ("shape", "dtype", "__getitem__"):
        if not hasattr(x, attribute):
            raise TypeError(
                f"from_array() needs something with shape, dtype and slices; a {type(x).__name__} "
                f"has no {attribute}. For a lazy value use from_delayed, for numbers asarray, for "
                "a sparse matrix x.tocsr()."
            )
    if isinstance(x, np.ndarray):
        x = plain(x)
    shape = tuple(map(operator.index, x.shape))
    dtype: Any = x.dtype if isinstance(x, np.ndarray) else declared(x.dtype, None)
    kind = LazyDtype.like(x[(slice(0, 1),) * len(shape)]) if is_other_kind(x) else None
    own = _own_chunks(x)
    sizes = normalize_chunks(chunks, shape, _limit(chunks, own, dtype), dtype, own)
    if inline_array:
        changes_nothing("inline_array=True", "an array is kept once, however many tasks read it")
    if isinstance(x, np.ndarray) and not (lock or getitem) and asarray is not False:
        return Array(Const(x)) if not shape else Array(InMemory(x, sizes))
    if is_other_kind(meta):
        kind = declared(dtype, meta)
    if asarray is None and (meta is not None or kind is not None):
        asarray = kind is None and (meta is np.ndarray or isinstance(meta, np.ndarray))
    if asarray is None:
        asarray = not hasattr(x, "__array_function__") or kinds[type(x)] == FOREIGN
    called = name if isinstance(name, str) else "from_array"
    reader = Reader(asarray, lock_of(lock), getitem or operator.getitem, called)
    return Array(Stored(x, reader, dtype if asarray else kind or dtype, sizes))


def _own_chunks(x: Any) -> Any:
    sizes = getattr(x, "shards", None) or getattr(x, "chunks", None)  # zarr reads whole shards
    if not sizes or len(sizes) != len(x.shape):
        return None
    return [(n,) if isinstance(n, int | np.integer) else tuple(n) for n in sizes]


def _limit(chunks: Any, own: Any, dtype: np.dtype[Any]) -> int | None:
    """Return bytes that one chunk of a file has at least: what is read once is not cut."""
    if own is None or not isinstance(chunks, str) or chunks != "auto":
        return None
    most: int = config.get("chunk_bytes")
    return max(most, prod(map(max, own)) * dtype.itemsize)


def lock_of(lock: Any) -> Any:
    """Return the lock that ``lock=`` means: a new one, one that is given, or None."""
    return Lock() if lock is True else lock or None


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Hold a lock, if one is given: anything with ``acquire`` and ``release``."""
    if lock:
        lock.acquire()
    try:
        yield
    finally:
        if lock:
            lock.release()


def guards_one_process(lock: Any) -> bool:
    """Tell whether a lock can't go to other processes, which get one of their own."""
    return type(lock) is type(Lock())


@dataclass(frozen=True)
class Reader:
    """Reads a region of a store."""

    asarray: bool
    lock: Any
    getitem: Any = operator.getitem
    __name__: str = "from_array"

    def __call__(self, store: Any, region: Region) -> Any:
        with held(self.lock):
            found = self.getitem(store, region)
        if not self.asarray:
            return found
        return dense(found) if is_other_kind(found) else np.asarray(found)

    def __reduce__(self) -> Any:
        if guards_one_process(self.lock):
            return _locked_reader, (self.asarray, self.getitem, self.__name__)
        return Reader, (self.asarray, self.lock, self.getitem, self.__name__)


def _locked_reader(asarray: bool, getitem: Any, name: str) -> Reader:
    return Reader(asarray, Lock(), getitem, name)


def from_delayed(
    value: Any, shape: Sequence[int], dtype: DTypeLike | None = None, meta: Any = None,
    name: Any = None,
) -> Array:
    """Return an array of one block that a lazy value or a future will give.

    Parameters
    ----------
    value
        A lazy value or a future, as `delayed` functions, `submit` and actors return; its result
        must be an array.
    shape
        Of that array; None or NaN stand for unknown lengths.
    dtype, meta
        Type of its elements, or an example array.
    name
        Name of the task; None: that of the function that gives the value.

    Raises
    ------
    TypeError
        `value` is not lazy, or `dtype` and `meta` are missing; when computed: the result is not an
        array of that dtype.
    ValueError
        When computed: it has another shape.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> from lazyflow import delayed
    >>> load = delayed(np.ones)
    >>> x = la.concatenate([la.from_delayed(load(3), (3,), float) for _ in range(2)])
    >>> x.sum().compute()
    np.float64(6.0)
    """
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if kinds[type(value)] == FOREIGN:
        value = service("dask_task")(value)
    if isinstance(value, Task):
        task: Any = value
    elif isinstance(value, Collection):
        task = value.__lazyflow_value__()
    else:
        raise TypeError(
            f"from_delayed() takes a lazy value; got a {type(value).__name__}. For an array in "
            "memory or in a store use from_array."
        )
    result_dtype = declared(dtype, meta)
    if result_dtype is None:
        raise TypeError("from_delayed() needs the dtype of the value: pass dtype= or meta=")
    call = BoundCall(_same, [task], {}, "from_delayed", name or task_name(task))
    chunks = tuple([(None if n != n else n,) for n in lengths])
    return Array(BlockCalls((), call, (), result_dtype, chunks))


def _same(value: Any) -> Any:
    return value


def to_delayed(x: Array) -> np.ndarray[Any, Any]:
    """Return the blocks of an array as lazy values, in an array of shape ``x.numblocks``.

    >>> import lazyflow.array as la
    >>> blocks = la.to_delayed(la.arange(4, chunks=2))
    >>> blocks.shape, blocks[1].compute()
    ((2,), array([2, 3]))
    """
    tasks = x.__lazyflow_tasks__()
    out = np.empty(x.numblocks, dtype=object)
    for at, task in zip(np.ndindex(*x.numblocks), tasks, strict=True):
        out[at] = task
    return out
