"""Training data as parts: rows X, targets y and weights, each in memory or lazy.

Data in memory is cut into views. Chunked data stays where it is: its chunks are the parts, and
targets and weights are cut like the rows.

::

    X, y, weights --> `parts_of`: a `RowChunk` each --> `fitting`: are they kept? --> rows.py

    >>> [part] = parts_of(np.ones((3, 2)), np.array([0, 1, 0]), None)
    >>> part.X.shape, part.weight
    ((3, 2), None)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.sparse import issparse, vstack

from lazyflow import compute, config, delayed, is_lazy, persist
from lazyflow.array.core import Array
from lazyflow.array.functions.storage.loading import to_delayed
from lazyflow.errors import LazyflowWarning
from lazyflow.graph.task import users_depth
from lazyflow.store.memory.available import available_memory

# -- small neighbours as one: what a task costs is then small beside what it does ---------

#: Bytes of the rows of one part, if it is ours to choose: a pass over them takes 0.4 ms, beside
#: which a task's cost is small, and there are enough parts for the workers.
PART_BYTES = 1 << 23

_SMALL = PART_BYTES // 4  # bytes; smaller chunks are brought together


def groups_of(nbytes: Sequence[int]) -> list[list[int]]:
    """Return groups of the numbers of chunks, given their bytes; small neighbours share one.

    Examples
    --------
    >>> groups_of([100, 100, 10_000_000, 100])
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = []
    room = 0
    for k, each in enumerate(nbytes):
        if not groups or each > min(room, _SMALL):
            groups.append([])
            room = PART_BYTES
        groups[-1].append(k)
        room -= each
    return groups


def check_dense(values: Any, name: str, where: str = "") -> None:
    """Refuse sparse targets or weights; `where` is what has them.

    Examples
    --------
    >>> check_dense([1, 2], "y")
    """
    if issparse(values):
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required{where}. Use "
            f"{name}.toarray().ravel(), one number for each row"
        )


def together(parts: Sequence[Any]) -> Any:
    """Return several dense or sparse chunks as one; views of one memory are not copied.

    Examples
    --------
    >>> rows = np.arange(6.0).reshape(3, 2)
    >>> together([rows[:1], rows[1:]]).base is not None, together([rows, rows[:1]]).shape
    (True, (4, 2))
    """
    if len(parts) == 1:
        return parts[0]
    if any(map(issparse, parts)):
        return vstack(parts, format="csr")
    arrays = [np.asarray(part) for part in parts]
    if not _are_neighbours(arrays):
        return np.concatenate(arrays)
    shape = sum(map(len, arrays)), *arrays[0].shape[1:]
    # Its own strides may be any, where it has one row.
    strides = [arrays[0].itemsize]
    for length in reversed(shape[1:]):
        strides.insert(0, strides[0] * length)
    return as_strided(arrays[0], shape, strides, writeable=False)


def _are_neighbours(arrays: Sequence[np.ndarray]) -> bool:
    """Whether arrays are views of one array, each beginning where the one before it ends."""
    first = arrays[0]
    owner, end = _owner(first), first.ctypes.data
    if owner is None:
        return False
    for array in arrays:
        alike = array.dtype == first.dtype and array.shape[1:] == first.shape[1:]
        if not alike or not array.flags.c_contiguous or array.ctypes.data != end:
            return False
        if _owner(array) is not owner:
            return False
        end += array.nbytes
    return True


def _owner(array: np.ndarray) -> np.ndarray | None:
    """Return the array that has the memory of another one, and lives as long as that.

    None if no array has it: memory of a store is let go as soon as one of its values is.
    """
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.flags.owndata else None


# -- whether rows are kept where they are made, or read again in every pass ---------------
#
# A fit reads its rows some ten to a hundred times. What fits is kept. What does not is read,
# checked and dropped chunk by chunk in every pass: as slow as the source, in the memory of a few
# chunks. A cluster's workers write to their disks what they can't hold, so there all is kept.

_SHARE = 2  # kept rows take at most half of the free memory, since solvers need some; a guess


@delayed
def _nbytes(X: Any) -> int:
    """Return the bytes of a chunk as numbers of float64, or as a sparse matrix."""
    if issparse(X):
        return int(X.data.nbytes + X.indices.nbytes)
    return int(np.prod(np.shape(X))) * 8


def fitting(
    parts: list[tuple[Any, ...]], run: dict[str, Any], most: float = math.inf
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return (parts, whether their lazy rows fit in memory).

    A part has its rows and what is made with them, such as targets. The limit is
    ``config.get("store_limit")``, or half of the memory that is free. Parts are made and kept, one
    at first and then twice as many each time, while the estimate for all, by the mean of these, is
    below the limit. If all fit, the kept ones are returned, so that the source is read once. `most`
    is an upper bound of their bytes, if known: below the limit, no part has to be made for the
    answer.

    Examples
    --------
    >>> with config.set(store_limit=10_000):
    ...     fitting([(delayed(np.ones)((1000, 10)),)], {})[1]
    False
    """
    limit = room_for_rows(run)
    count = sum(is_lazy(part[0]) for part in parts)
    if not count or limit is None or most <= limit or not is_lazy(parts[0][0]):
        return parts, True
    ready: list[tuple[Any, ...]] = []
    nbytes = 0
    while len(ready) < len(parts):
        some = parts[len(ready):2 * len(ready) + 1]
        (kept,) = persist([tuple(part) for part in some], **run)
        ready += map(tuple, kept)
        nbytes += sum(compute(*[_nbytes(part[0]) for part in kept], **run))
        if nbytes * len(parts) > limit * len(ready):
            return parts, False
    return ready, True


def room_for_rows(run: dict[str, Any]) -> int | None:
    """Return how many bytes of rows may be there at once; None: any number.

    Examples
    --------
    >>> with config.set(store_limit=10_000):
    ...     room_for_rows({"scheduler": "threads"})
    10000
    """
    scheduler = run.get("scheduler") or config.get("scheduler")
    if scheduler not in (None, "sync", "threads", "processes"):
        return None
    own: int | None = config.get("store_limit")
    if own is not None:
        return own * (config.default_workers() if scheduler == "processes" else 1)
    free = available_memory()
    return None if free is None else free // _SHARE


#: Chunks of an array: if it has more, small ones are joined before any is made; a guess.
_MANY = 64
_LARGE = 1e9  # bytes that move without being asked for; a guess


class RowChunk(NamedTuple):
    """Some rows, in memory or lazy; `weight` may be None.

    Examples
    --------
    >>> RowChunk(np.ones((3, 2)), np.zeros(3), None).X.shape
    (3, 2)
    """

    X: Any
    y: Any
    weight: Any


def is_chunked(X: Any) -> bool:
    """Whether X is a chunked array or a sequence of lazy chunks.

    Examples
    --------
    >>> is_chunked([delayed(np.ones)((3, 2))]), is_chunked([[1.0, 2.0]])
    (True, False)
    """
    if isinstance(X, list | tuple):
        return bool(X) and all(is_lazy(chunk) for chunk in X)
    return is_lazy(X)


def check_two_axes(X: Array) -> None:
    """Raise ValueError unless an array has two axes: rows and features.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> check_two_axes(la.ones((3, 2)))
    """
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array of shape {X.shape} instead: rows are samples "
            "and columns features, X.reshape(-1, 1) for one feature"
        )


def parts_of(
    X: Any, y: Any, weight: Any = None, run: dict[str, Any] | None = None
) -> list[RowChunk]:
    """Return the parts of rows X (n, d), targets y (n,) or (n, t), and weights (n,) or None.

    `run` has the keywords of `compute`, for unknown lengths.

    Raises
    ------
    ValueError
        The number of targets or weights differs from that of the rows, or their chunks do.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> X = la.ones((6, 2), chunks=(3, 1))
    >>> [len(part.y) for part in parts_of(X, np.arange(6))]
    [3, 3]
    """
    if not is_chunked(X):
        return _cut(X, y, weight)
    chunks, sizes = _chunks_of_array(X) if isinstance(X, Array) else (listed(X, "X"), None)
    listed_by_chunk = any(is_chunked(x) and not isinstance(x, Array) for x in (y, weight))
    groups = None if listed_by_chunk else groups_of_chunks(X)
    if groups is not None and sizes is not None:
        join = delayed(together)
        chunks = [join([chunks[k] for k in group]) for group in groups]
        sizes = [sum(sizes[k] for k in group) for group in groups]
    if sizes is None and any(x is not None and not is_chunked(x) for x in (y, weight)):
        ones, fit = fitting([(chunk,) for chunk in chunks], run or {})
        chunks = [chunk for (chunk,) in ones]
        if fit:  # or they would be loaded twice
            (chunks,) = persist(chunks, **(run or {}))
        sizes = list(compute(*[_length(chunk) for chunk in chunks], **(run or {})))
    ys = _like_rows(y, "y", len(chunks), sizes)
    weights = [None] * len(chunks) if weight is None else (
        _like_rows(weight, "sample_weight", len(chunks), sizes)
    )
    return [RowChunk(*each) for each in zip(chunks, ys, weights, strict=True)]


def listed(values: Any, name: str) -> list[Any]:
    """Return a list of lazy chunks, and refuse one lazy value; `name` is what it is called.

    Examples
    --------
    >>> listed((1, 2), "X")
    [1, 2]
    """
    if isinstance(values, list | tuple):
        return list(values)
    raise TypeError(
        f"{name} is one lazy value ({type(values).__name__}); needed are rows in memory, a chunked "
        f"array, or a list of lazy chunks: [{name}], or "
        f"lazyflow.array.from_delayed({name}, shape, dtype)"
    )


def loaded(parts: list[RowChunk], run: dict[str, Any], keep: bool) -> list[RowChunk]:
    """Return parts whose lazy values are made and kept, all by one computation.

    What is looked at more than once, as labels are, must not be loaded each time. Without `keep`
    the rows themselves stay lazy: targets and weights only are made.

    Examples
    --------
    >>> (part,) = loaded([RowChunk(delayed(np.ones)((2, 1)), np.zeros(2), None)], {}, keep=True)
    >>> part.y
    array([0., 0.])
    """
    lazy = [(k, i) for k, part in enumerate(parts) for i in range(1, 3) if is_lazy(part[i])]
    if not lazy:
        return parts  # rows alone are made when they are checked
    if keep:  # they may be of one source
        lazy += [(k, 0) for k, part in enumerate(parts) if is_lazy(part.X)]
    (values,) = persist([parts[k][i] for k, i in lazy], **run)
    made = [list(part) for part in parts]
    for (k, i), value in zip(lazy, values, strict=True):
        made[k][i] = value
    return [RowChunk(*part) for part in made]


def _cut(X: Any, y: Any, weight: Any) -> list[RowChunk]:
    """Return parts of rows in memory, as views."""
    rows = X.shape[0]
    size = (X.nnz * 12 if hasattr(X, "nnz") else X.nbytes) / max(rows, 1)
    step = max(int(PART_BYTES / max(size, 1)), 1)
    return [
        RowChunk(X[a:a + step], y[a:a + step], None if weight is None else weight[a:a + step])
        for a in range(0, max(rows, 1), step)
    ]


def groups_of_chunks(X: Any) -> list[list[int]] | None:
    """Return which chunks of full rows an array's parts have, if its own are many and small.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> len(groups_of_chunks(la.ones((300, 2), chunks=(3, 2)))), groups_of_chunks(la.ones((6, 2)))
    (1, None)
    """
    if not isinstance(X, Array) or None in X.shape or X.numblocks[0] <= _MANY:
        return None
    groups = groups_of([size * X.shape[1] * X.dtype.itemsize for size in X.chunks[0]])
    return groups if len(groups) < X.numblocks[0] else None


@delayed
def _length(chunk: Any) -> int:
    """Return the number of rows of one chunk."""
    return int(np.shape(chunk)[0])


def _chunks_of_array(X: Array) -> tuple[list[Any], list[int] | None]:
    """Return the chunks of full rows, and how many rows each has, where that is known."""
    check_two_axes(X)
    if X.numblocks[1] > 1:
        if None not in X.shape and X.nbytes > _LARGE:
            warnings.warn(
                f"X is chunked over its columns, too: {X.nbytes / 1e9:.1f} GB move to bring rows "
                f"together. Make it in chunks of full rows, as chunks=({X.chunks[0][0]}, -1)",
                LazyflowWarning, stacklevel=users_depth(),
            )
        X = X.rechunk({1: -1})
    sizes = X.chunks[0]
    return list(to_delayed(X)[:, 0]), None if None in sizes else list(sizes)


def _like_rows(values: Any, name: str, count: int, sizes: Sequence[int] | None) -> list[Any]:
    """Return targets or weights in the parts of the rows."""
    if isinstance(values, Array):
        known = None not in values.shape
        if known and sizes is not None:
            _check_length(values.shape[0], sum(sizes), name)
            values = values.rechunk({0: tuple(sizes)})
        if values.ndim == 2 and values.numblocks[1] > 1:
            values = values.rechunk({1: -1})
        pieces = list(to_delayed(values).reshape(values.numblocks[0]))
    elif is_chunked(values):
        pieces = listed(values, name)
    else:
        check_dense(values, name)
        values = np.asarray(values)
        assert sizes is not None
        if not values.ndim:
            raise ValueError(f"{name} is one number; needed is one for each of {sum(sizes)} rows")
        _check_length(len(values), sum(sizes), name)
        edges = accumulate(sizes, initial=0)
        pieces = [values[a:b] for a, b in pairwise(edges)]
    if len(pieces) != count:
        raise ValueError(f"{name} has {len(pieces)} chunks, X has {count}: cut both the same way")
    return pieces


def _check_length(length: int, rows: int, name: str) -> None:
    if length != rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {rows} rows, "
            f"{name} has {length}"
        )
