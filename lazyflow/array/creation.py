"""Arrays of other things: of memory and files, of tasks, of numbers, of formulas."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.array import Array, as_node, plain
from lazyflow.array.blockcalls import BlockCalls
from lazyflow.array.call import Call, declared
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.dispatch import implements
from lazyflow.array.sources import Const, Made, Memory, Region, Stored
from lazyflow.collection import Collection
from lazyflow.graph.task import Task, task_name

# -- of what is there ---------------------------------------------------------------------------


@implements()
def from_array(
    x: Any, chunks: Any = "auto", lock: Any = False, asarray: bool | None = None
) -> Array:
    """Return a chunked array of something with ``shape``, ``dtype`` and slices.

    Parameters
    ----------
    x
        A NumPy array or memmap, a zarr array, an h5py dataset, or anything that gives a part of
        itself by ``x[slices]``. It must not change until what is made of it was computed.
    chunks
        As of `normalize_chunks`; automatic ones follow the chunks of `x` if it has any.
    lock
        True: one read at a time; or a lock to hold while reading.
    asarray
        Whether what slices give is made a NumPy array: yes, unless it takes part in NumPy's
        protocols itself.

    Raises
    ------
    TypeError
        `x` has no shape or dtype.
    """
    if isinstance(x, Array):
        raise TypeError("from_array() got a chunked array; x.rechunk(chunks) changes its chunks")
    if isinstance(x, list | tuple | int | float | complex | memoryview | np.generic):
        x = np.asarray(x)
    for attribute in ("shape", "dtype", "__getitem__"):
        if not hasattr(x, attribute):
            raise TypeError(
                f"from_array() needs something with shape, dtype and slices; a {type(x).__name__} "
                f"has no {attribute}. For a lazy value use from_delayed, for numbers asarray."
            )
    if isinstance(x, np.ndarray):
        x = plain(x)
    shape = tuple(map(operator.index, x.shape))
    dtype = np.dtype(x.dtype)
    found = normalize_chunks(chunks, shape, None, dtype, _own_chunks(x))
    if isinstance(x, np.ndarray) and not lock and asarray is not False:
        return Array(Const(x)) if not shape else Array(Memory(x, found))
    if asarray is None:
        asarray = not hasattr(x, "__array_function__")
    return Array(Stored(x, Reader(asarray, _lock(lock)), dtype, found))


def _own_chunks(x: Any) -> Any:
    sizes = getattr(x, "chunks", None)
    if not sizes or len(sizes) != len(x.shape):
        return None
    return [(n,) if isinstance(n, int | np.integer) else tuple(n) for n in sizes]


def _lock(lock: Any) -> Any:
    if lock is True:
        from threading import Lock

        return Lock()
    return lock or None


class Reader:
    """Reads a region of a store."""

    __name__ = "from_array"

    def __init__(self, asarray: bool, lock: Any) -> None:
        self.asarray = asarray
        self.lock = lock

    def __eq__(self, other: Any) -> bool:
        return (
            type(other) is Reader and other.asarray == self.asarray and other.lock is self.lock
        )

    def __hash__(self) -> int:
        return hash((self.asarray, id(self.lock)))

    def __call__(self, store: Any, region: Region) -> Any:
        if self.lock is None:
            found = store[region]
        else:
            with self.lock:
                found = store[region]
        return np.asarray(found) if self.asarray else found

    def __reduce__(self) -> Any:
        from threading import Lock

        if self.lock is None or type(self.lock) is type(Lock()):  # it guards this process only
            return _reader, (self.asarray, self.lock is not None)
        return Reader, (self.asarray, self.lock)


def _reader(asarray: bool, locked: bool) -> Reader:
    return Reader(asarray, _lock(locked))


@implements()
def from_delayed(
    value: Any, shape: Sequence[int], dtype: Any = None, meta: Any = None, name: Any = None
) -> Array:
    """Return an array of one block that a lazy value or a future will give.

    Parameters
    ----------
    value
        What `delayed` functions, `submit`, actors, ... return; its result must be an array.
    shape
        Of that array; a length may be None: not known.
    dtype, meta
        Type of its elements, or an array that has it.
    name
        What the task is called; else as the function that gives the value.

    Raises
    ------
    TypeError
        `value` is not lazy, or no dtype is given; when computed: it is no array of that dtype.
    ValueError
        When computed: it has another shape.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if isinstance(value, Task):
        task: Any = value
    elif isinstance(value, Collection):
        task = value.__lazyflow_value__()
    else:
        raise TypeError(
            f"from_delayed() takes a lazy value; got a {type(value).__name__}. For an array that "
            "is there use from_array."
        )
    found = declared(dtype, meta)
    if found is None:
        raise TypeError("from_delayed() must be told the dtype of the value: pass dtype= or meta=")
    call = Call(_same, [task], {}, "from_delayed", name or task_name(task))
    return Array(BlockCalls(call, (), (), found, tuple([(n,) for n in shape])))


def _same(value: Any) -> Any:
    return value


@implements()
def to_delayed(x: Array) -> np.ndarray[Any, Any]:
    """Return the blocks of an array as lazy values, in an object array of ``x.numblocks``."""
    tasks = x.__lazyflow_tasks__()
    out = np.empty(x.numblocks, dtype=object)
    for at, task in zip(np.ndindex(*x.numblocks), tasks, strict=True):
        out[at] = task
    return out


@implements(np.asarray)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, like: Any = None) -> Array:
    """Return a chunked array of anything that NumPy makes an array of; arrays as they are."""
    if order not in (None, "C", "A", "K"):
        raise ValueError(f"chunked arrays have C order; got order={order!r}")
    found = a if isinstance(a, Array) else _of(a)
    return found if dtype is None else found.astype(dtype)


@implements(np.asanyarray)
def asanyarray(a: Any, dtype: Any = None, order: Any = None, *, like: Any = None) -> Array:
    """As `asarray`."""
    return asarray(a, dtype, order)


@implements(np.array)
def array(
    a: Any, dtype: Any = None, ndmin: int = 0, *, copy: Any = True, like: Any = None
) -> Array:
    """Return a chunked array of a copy of `a`."""
    if not isinstance(a, Array):
        a = np.array(a, dtype=dtype, ndmin=ndmin)
    found = asarray(a, dtype)
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def _of(a: Any) -> Array:
    if isinstance(a, list | tuple) and _holds_arrays(a):
        from lazyflow.array.dispatch import functions

        found: Array = functions["stack"]([_of(x) if not isinstance(x, Array) else x for x in a])
        return found
    if hasattr(a, "shape") and hasattr(a, "dtype") and not isinstance(a, np.ndarray | np.generic):
        return from_array(a)
    found_node = as_node(a)
    if isinstance(found_node, Memory):
        return from_array(found_node.array)
    return Array(found_node)


def _holds_arrays(a: Any) -> bool:
    return any(
        isinstance(x, Array) or (isinstance(x, list | tuple) and _holds_arrays(x)) for x in a
    )


# -- of formulas --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filled:
    """One value everywhere, as the bytes of an element."""

    value: bytes
    dtype: np.dtype[Any]
    __name__ = "full"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        value = np.frombuffer(self.value, self.dtype).reshape(())  # an element has another dtype
        return np.broadcast_to(value, [s.stop - s.start for s in region])


@dataclass(frozen=True)
class FilledObject:
    """One object everywhere."""

    value: Any
    __name__ = "full"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        out = np.empty([s.stop - s.start for s in region], dtype=object)
        out.fill(self.value)
        return out


@dataclass(frozen=True)
class Range:
    """``start + step * i``, rounded as NumPy does."""

    start: Any
    step: Any
    dtype: np.dtype[Any]
    __name__ = "arange"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        (span,) = region
        at = np.arange(span.start, span.stop)
        if self.dtype.kind in "iu":
            with np.errstate(over="ignore"):
                return (at * self.step + self.start).astype(self.dtype)
        first = np.asarray(self.start, self.dtype)[()]
        delta = np.asarray(self.start + self.step, self.dtype)[()] - first
        return (first + at * delta).astype(self.dtype)


@dataclass(frozen=True)
class Linear:
    """``num`` numbers evenly from `start` to `stop`."""

    start: Any
    stop: Any
    num: int
    endpoint: bool
    dtype: np.dtype[Any]
    __name__ = "linspace"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        (span,) = region
        kind = np.result_type(self.start, self.stop, float(self.num))
        parts = self.num - 1 if self.endpoint else self.num
        at = np.arange(span.start, span.stop).astype(kind)
        width = np.subtract(self.stop, self.start, dtype=kind)
        if parts > 0:
            step = width / parts
            found = at / parts * width if step == 0 else at * step
        else:
            found = at * width
        found = found + self.start
        if self.endpoint and self.num > 1 and span.stop == self.num:
            found[-1] = self.stop
        if self.dtype.kind in "iu":
            np.floor(found, out=found)
        return found.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Diagonal:
    """Ones on a diagonal."""

    k: int
    dtype: np.dtype[Any]
    __name__ = "eye"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        rows, columns = region
        shape = rows.stop - rows.start, columns.stop - columns.start
        return np.eye(*shape, k=self.k + rows.start - columns.start, dtype=self.dtype)


@dataclass(frozen=True)
class Tri:
    """Ones on and below a diagonal."""

    k: int
    dtype: np.dtype[Any]
    __name__ = "tri"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        rows, columns = region
        shape = rows.stop - rows.start, columns.stop - columns.start
        return np.tri(*shape, k=self.k + rows.start - columns.start, dtype=self.dtype)


def _shape(shape: Any) -> tuple[int, ...]:
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    found = tuple([operator.index(n) for n in given])
    if any(n < 0 for n in found):
        raise ValueError("negative dimensions are not allowed")
    return found


def made(formula: Any, shape: tuple[int, ...], dtype: Any, chunks: Any) -> Array:
    """Return an array of a formula."""
    dtype = np.dtype(dtype)
    return Array(Made(formula, dtype, normalize_chunks(chunks, shape, None, dtype)))


@implements()
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, chunks: Any = "auto"
) -> Array:
    """Return an array with one value everywhere."""
    _check_order(order)
    value = np.asarray(fill_value, dtype=dtype)
    if value.ndim:
        raise ValueError(
            f"fill_value must be one value; got an array of shape {value.shape}. Use broadcast_to."
        )
    if value.dtype.hasobject:
        return made(FilledObject(value[()]), _shape(shape), value.dtype, chunks)
    return made(Filled(value.tobytes(), value.dtype), _shape(shape), value.dtype, chunks)


def _check_order(order: Any) -> None:
    if order not in ("C", "K", "A", None):
        raise ValueError(f"chunked arrays have C order; got order={order!r}")


@implements()
def zeros(shape: Any, dtype: Any = float, order: str = "C", *, chunks: Any = "auto") -> Array:
    """Return an array of zeros."""
    dtype = np.dtype(float if dtype is None else dtype)
    return full(shape, np.zeros((), dtype)[()], dtype, order, chunks=chunks)


@implements()
def ones(shape: Any, dtype: Any = float, order: str = "C", *, chunks: Any = "auto") -> Array:
    """Return an array of ones."""
    dtype = np.dtype(float if dtype is None else dtype)
    return full(shape, np.ones((), dtype)[()], dtype, order, chunks=chunks)


@implements()
def empty(shape: Any, dtype: Any = float, order: str = "C", *, chunks: Any = "auto") -> Array:
    """Return an array whose values don't matter: zeros."""
    return zeros(shape, dtype, order, chunks=chunks)


def _like(a: Any, dtype: Any, shape: Any, chunks: Any) -> tuple[Any, Any, Any]:
    a = asarray(a)
    if chunks is None:
        chunks = a.with_known_sizes().chunks if shape is None else "auto"
    return a.shape if shape is None else shape, a.dtype if dtype is None else dtype, chunks


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, chunks: Any = None,
) -> Array:
    """Return an array with one value everywhere, else like `a`."""
    shape, dtype, chunks = _like(a, dtype, shape, chunks)
    return full(shape, fill_value, dtype, order, chunks=chunks)


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    chunks: Any = None,
) -> Array:
    """Return an array of zeros like `a`."""
    shape, dtype, chunks = _like(a, dtype, shape, chunks)
    return zeros(shape, dtype, order, chunks=chunks)


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    chunks: Any = None,
) -> Array:
    """Return an array of ones like `a`."""
    shape, dtype, chunks = _like(a, dtype, shape, chunks)
    return ones(shape, dtype, order, chunks=chunks)


@implements(np.empty_like)
def empty_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    chunks: Any = None,
) -> Array:
    """Return an array like `a` whose values don't matter."""
    return zeros_like(a, dtype, order, subok, shape, chunks=chunks)


@implements()
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, chunks: Any = "auto"
) -> Array:
    """Return numbers from `start` (0) up to, without, `stop`, `step` apart."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("arange() needs a step other than 0")
    dtype = np.arange(start * 0, stop * 0, step).dtype if dtype is None else np.dtype(dtype)
    if dtype.kind not in "iufc":
        raise TypeError(f"arange() makes numbers; got dtype {dtype}")
    count = max(int(np.ceil((stop - start) / step)), 0)
    return made(Range(start, step, dtype), (count,), dtype, chunks)


@implements()
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, *, chunks: Any = "auto",
) -> Any:
    """Return `num` numbers evenly from `start` to `stop`."""
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = np.result_type(start, stop, float(num))
    formula = Linear(start, stop, num, endpoint, np.dtype(kind if dtype is None else dtype))
    found = made(formula, (num,), formula.dtype, chunks)
    parts = num - 1 if endpoint else num
    return (found, (stop - start) / parts if parts > 0 else np.nan) if retstep else found


@implements()
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, chunks: Any = "auto"
) -> Array:
    """Return a matrix with ones on a diagonal."""
    shape = _shape((N, N if M is None else M))
    return made(Diagonal(int(k), np.dtype(dtype)), shape, dtype, chunks)


@implements()
def tri(
    N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, chunks: Any = "auto"
) -> Array:
    """Return a matrix with ones on and below a diagonal."""
    return made(Tri(int(k), np.dtype(dtype)), _shape((N, N if M is None else M)), dtype, chunks)
