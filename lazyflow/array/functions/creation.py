"""Arrays of anything that NumPy makes one of, as by `asarray`, of one value, or with a diagonal.

Arrays of one value or with a diagonal are formulas: whoever reads a region computes it, and a
constant region is a view of one element. `empty` gives zeros. `asarray` reads the memory of a NumPy
array in place, which must not change before the result is computed; `array` copies it. Lists that
hold chunked arrays become a lazy `stack`.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.foreign import refuse_lazy
from lazyflow.array.functions.arguments import (
    ArrayLike,
    ChunksLike,
    DTypeLike,
    ShapeLike,
    as_array,
    check_device,
    check_like,
    check_order,
    new_lengths,
    takes_dasks_keywords,
)
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.array.nodes.sources import Generated, Region
from lazyflow.graph.kinds import FOREIGN, kinds

# -- of anything that NumPy makes an array of --------------------------------------------------


def asarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None, *,
    device: str | None = None, copy: bool | None = None, like: Any = None,
    allow_unknown_chunksizes: bool = True, **keywords: Any,
) -> Array:
    """Return `a` as a chunked array; chunked arrays themselves.

    With ``copy=True`` a later write into `a` changes nothing; with ``copy=False`` ValueError is
    raised if a copy is needed. Other keywords, such as ``chunks=``, are those of `from_array`, for
    data that is not chunked yet. With ``allow_unknown_chunksizes=False`` a list of arrays of
    unknown lengths raises ValueError. Chunks are NumPy's arrays, so `like` may be one, or a chunked
    array.

    Raises
    ------
    TypeError
        `a` is lazy and of unknown shape, or a keyword is not one of `from_array`.
    ValueError
        ``copy=False``, and a copy is needed; lengths that may not be unknown are.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.asarray([[1, 2], [3, 4]])
    >>> x.T.compute()
    array([[1, 3],
           [2, 4]])
    >>> la.asarray(x) is x
    True
    """
    check_order(order)
    check_device(device)
    if keywords:  # of a chunked array none is used, but a wrong one is refused
        try:
            signature(from_array).bind(a, **keywords)
        except TypeError as error:
            raise TypeError(f"asarray() {error}") from None
    check_like(like)
    if copy is not None and isinstance(a, Array):
        _check_copy(copy, a.dtype, dtype)
        made = Array(a.expr) if copy else a
    elif copy is not None and kinds[type(a)] != FOREIGN and not (
        isinstance(a, list | tuple) and _holds_arrays(a)
    ):
        refuse_lazy(a)
        made = _of(np.array(a, dtype, copy=copy), keywords=keywords)
    else:
        made = a if isinstance(a, Array) else _of(a, dtype, allow_unknown_chunksizes, keywords)
    return made if dtype is None else made.astype(dtype)


def _check_copy(copy: bool, given: np.dtype[Any], dtype: Any) -> None:
    if not copy and dtype is not None and np.dtype(dtype) != given:
        raise ValueError(
            f"a cast from {given} to {np.dtype(dtype)} needs a copy, which copy=False forbids. "
            "Leave copy= out"
        )


asanyarray = asarray


def array(
    a: ArrayLike, dtype: DTypeLike | None = None, ndmin: int = 0, *, copy: Any = True,
    **keywords: Any,
) -> Array:
    """Return a chunked array of a copy of `a`.

    With ``copy=False`` it reads the memory of `a`, which must not change then. Other parameters are
    those of `asarray`.

    Raises
    ------
    TypeError
        `a` is lazy and of unknown shape, or a keyword is not one of `asarray`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.array([[1, 2], [3, 4]], dtype=float).sum(axis=0).compute()
    array([4., 6.])
    """
    if isinstance(a, list | tuple) and _holds_arrays(a):
        a = _of(a)
    elif not isinstance(a, Array) and kinds[type(a)] != FOREIGN:
        refuse_lazy(a)
        a = np.array(a, dtype=dtype, ndmin=ndmin, copy=copy)
    found = asarray(a, dtype, **keywords)
    if found is a and copy:
        found = Array(a.expr)  # changed in place, it is not the other that changes
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def from_dlpack(
    x: Any, /, *, device: str | None = None, copy: bool | None = None
) -> Array:
    """Return a chunked array of the memory of an array that has ``__dlpack__``.

    Chunked arrays stay lazy. Parameters are those of ``np.from_dlpack``.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> la.from_dlpack(np.arange(3)).sum().compute()
    np.int64(3)
    """
    if isinstance(x, Array):
        return asarray(x, device=device, copy=copy)
    made: Any = np.from_dlpack
    return from_array(made(x, device=device, copy=copy))


def _of(
    a: Any, dtype: Any = None, unknown: bool = True, keywords: dict[str, Any] | None = None
) -> Array:
    if isinstance(a, list | tuple) and _holds_arrays(a):
        parts = [_of(x) if isinstance(x, list | tuple) else as_array(x) for x in a]
        return stack(parts, allow_unknown_chunksizes=unknown)
    if kinds[type(a)] == FOREIGN:
        return Array(as_node(a))
    refuse_lazy(a)
    has_shape = hasattr(a, "shape") and hasattr(a, "dtype")
    return from_array(a if has_shape else np.asanyarray(a, dtype), **(keywords or {}))


def _holds_arrays(a: Any) -> bool:
    return any(
        isinstance(x, Array) or (isinstance(x, list | tuple) and _holds_arrays(x)) for x in a
    )


# -- of a shape --------------------------------------------------------------------------------


def from_formula(
    formula: Any, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: Any
) -> Array:
    """Return an array of a formula."""
    return Array(Generated(formula, dtype, normalize_chunks(chunks, shape, None, dtype)))


@takes_dasks_keywords
def full(
    shape: ShapeLike, fill_value: Any, dtype: DTypeLike | None = None, order: str = "C", *,
    chunks: ChunksLike = "auto", device: str | None = None,
) -> Array:
    """Return an array with one value everywhere.

    Raises
    ------
    ValueError
        `fill_value` is an array with axes: use `broadcast_to` instead.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.full((2, 3), 7, chunks=2).compute()
    array([[7, 7, 7],
           [7, 7, 7]])
    """
    check_order(order)
    check_device(device)
    value = np.asarray(fill_value)
    if value.ndim == 0 and dtype is not None:
        value = np.full((), fill_value, dtype)  # any value to any type, as NumPy's
    if value.ndim:
        raise ValueError(
            f"fill_value must be one value; got an array of shape {value.shape}. Use broadcast_to."
        )
    formula: Any = Filled(value.tobytes(), value.dtype)
    if value.dtype.hasobject:
        formula = FilledObject(value[()])
    return from_formula(formula, new_lengths(shape), value.dtype, chunks)


@takes_dasks_keywords
def zeros(
    shape: ShapeLike, dtype: DTypeLike = float, order: str = "C", *, chunks: ChunksLike = "auto",
    device: str | None = None,
) -> Array:
    """Return an array of zeros.

    Parameters
    ----------
    shape
        A length or lengths.
    dtype
        Of the elements.
    chunks
        As of `normalize_chunks`; automatic ones hold ``config.chunk_bytes`` at most.
    device
        None or "cpu", as of all functions that make arrays.

    Raises
    ------
    ValueError
        A length is negative, there is no such `order`, or the device is not "cpu".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.zeros(5, dtype=int, chunks=3).compute()
    array([0, 0, 0, 0, 0])
    >>> la.zeros((4, 6), chunks=(2, 3)).chunks
    ((2, 2), (3, 3))
    """
    dtype = np.dtype(float if dtype is None else dtype)
    return full(shape, np.zeros((), dtype)[()], dtype, order, chunks=chunks, device=device)


@takes_dasks_keywords
def ones(
    shape: ShapeLike, dtype: DTypeLike = float, order: str = "C", *, chunks: ChunksLike = "auto",
    device: str | None = None,
) -> Array:
    """Return an array of ones.

    Raises
    ------
    ValueError
        A length is negative, there is no such `order`, or the device is not "cpu".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.ones((1000, 1000), chunks=(500, 1000)).numblocks
    (2, 1)
    >>> la.ones(3, dtype=int).compute()
    array([1, 1, 1])
    """
    dtype = np.dtype(float if dtype is None else dtype)
    return full(shape, np.ones((), dtype)[()], dtype, order, chunks=chunks, device=device)


@takes_dasks_keywords
def empty(
    shape: ShapeLike, dtype: DTypeLike = float, order: str = "C", *, chunks: ChunksLike = "auto",
    device: str | None = None,
) -> Array:
    """Return an array whose values do not matter; here they are zeros.

    >>> import lazyflow.array as la
    >>> la.empty((2, 3), dtype="f4").nbytes
    24
    """
    return zeros(shape, dtype, order, chunks=chunks, device=device)


def _like(a: Any, dtype: Any, shape: Any, chunks: Any) -> tuple[Any, Any, Any]:
    a = asarray(a)
    if chunks is None:
        chunks = a.with_known_sizes().chunks if shape is None else "auto"
    return a.shape if shape is None else shape, a.dtype if dtype is None else dtype, chunks


def full_like(
    a: ArrayLike, fill_value: Any, dtype: DTypeLike | None = None, order: str = "K",
    subok: bool = True, shape: ShapeLike | None = None, *, chunks: ChunksLike | None = None,
    device: str | None = None,
) -> Array:
    """Return an array with one value everywhere, and the shape, dtype and chunks of `a`.

    Raises
    ------
    ValueError
        `fill_value` is an array with axes: use `broadcast_to` instead.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.full_like(la.arange(3), 9).compute()
    array([9, 9, 9])
    """
    shape, dtype, chunks = _like(a, dtype, shape, chunks)
    return full(shape, fill_value, dtype, order, chunks=chunks, device=device)


def zeros_like(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True,
    shape: ShapeLike | None = None, *, chunks: ChunksLike | None = None, device: str | None = None,
) -> Array:
    """Return an array of zeros with the shape, dtype and chunks of `a`.

    >>> import lazyflow.array as la
    >>> la.zeros_like(la.arange(5, chunks=2)).chunks
    ((2, 2, 1),)
    """
    shape, dtype, chunks = _like(a, dtype, shape, chunks)
    return zeros(shape, dtype, order, chunks=chunks, device=device)


def ones_like(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True,
    shape: ShapeLike | None = None, *, chunks: ChunksLike | None = None, device: str | None = None,
) -> Array:
    """Return an array of ones with the shape, dtype and chunks of `a`.

    >>> import lazyflow.array as la
    >>> la.ones_like(la.asarray([[1, 2], [3, 4]])).compute()
    array([[1, 1],
           [1, 1]])
    """
    shape, dtype, chunks = _like(a, dtype, shape, chunks)
    return ones(shape, dtype, order, chunks=chunks, device=device)


def empty_like(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True,
    shape: ShapeLike | None = None, *, chunks: ChunksLike | None = None, device: str | None = None,
) -> Array:
    """Return an array with the shape, dtype and chunks of `a` whose values do not matter.

    >>> import lazyflow.array as la
    >>> la.empty_like(la.ones(6, chunks=4)).chunks
    ((4, 2),)
    """
    return zeros_like(a, dtype, order, subok, shape, chunks=chunks, device=device)


@takes_dasks_keywords
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = float, *,
    chunks: ChunksLike = "auto", device: str | None = None,
) -> Array:
    """Return a matrix with ones on a diagonal: `k` columns above the main one.

    Raises
    ------
    ValueError
        A length is negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.eye(3, k=1, dtype=int, chunks=2).compute()
    array([[0, 1, 0],
           [0, 0, 1],
           [0, 0, 0]])
    """
    check_device(device)
    shape = new_lengths((N, N if M is None else M))
    found = np.eye(0, dtype=dtype).dtype  # with a length, if it is of texts
    return from_formula(Diagonal(int(k), found), shape, found, chunks)


@takes_dasks_keywords
def identity(n: int, dtype: DTypeLike | None = None, *, chunks: ChunksLike = "auto") -> Array:
    """Return a square matrix with ones on the main diagonal.

    >>> import lazyflow.array as la
    >>> la.identity(2, dtype=int).compute()
    array([[1, 0],
           [0, 1]])
    """
    return eye(n, dtype=float if dtype is None else dtype, chunks=chunks)


@takes_dasks_keywords
def tri(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = float,
    chunks: ChunksLike = "auto"
) -> Array:
    """Return a matrix with ones on and below a diagonal: `k` columns above the main one.

    Raises
    ------
    ValueError
        A length is negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.tri(3, dtype=int, chunks=2).compute()
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    shape = new_lengths((N, N if M is None else M))
    found = np.tri(0, dtype=dtype).dtype
    return from_formula(Tri(int(k), found), shape, found, chunks)


# -- the formulas: each gives any region of an array ----------------------------------------------


@dataclass(frozen=True)
class Filled:
    """One value everywhere, as the bytes of an element."""

    value: bytes
    dtype: np.dtype[Any]
    __name__ = "full"
    is_quick = True

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        value = np.ndarray((), self.dtype, self.value)  # an element has another dtype
        return np.broadcast_to(value, [s.stop - s.start for s in region])

    def reshaped(self, shape: tuple[int, ...]) -> Filled:
        """Return this: the shape does not matter."""
        return self


@dataclass(frozen=True)
class FilledObject:
    """One object everywhere."""

    value: Any
    __name__ = "full"
    is_quick = True

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        out = np.empty([s.stop - s.start for s in region], dtype=object)
        out.fill(self.value)
        return out

    def reshaped(self, shape: tuple[int, ...]) -> FilledObject:
        """Return this: the shape does not matter."""
        return self


@dataclass(frozen=True)
class Diagonal:
    """Ones on a diagonal, `k` columns above the main one."""

    k: int
    dtype: np.dtype[Any]
    __name__ = "eye"
    is_quick = True
    takes_out = True

    def __call__(self, region: Region, out: Any = None) -> np.ndarray[Any, Any]:
        rows, columns = region
        if out is None:
            out = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        out[...] = np.zeros((), self.dtype)  # of texts it is "", which 0 is not
        first = max(rows.start, columns.start - self.k)
        at = np.arange(first, max(first, min(rows.stop, columns.stop - self.k)))
        out[at - rows.start, at + self.k - columns.start] = 1
        return out


@dataclass(frozen=True)
class Tri:
    """Ones on and below a diagonal."""

    k: int
    dtype: np.dtype[Any]
    __name__ = "tri"
    is_quick = True

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        rows, columns = region
        shape = rows.stop - rows.start, columns.stop - columns.start
        return np.tri(*shape, k=self.k + rows.start - columns.start, dtype=self.dtype)
