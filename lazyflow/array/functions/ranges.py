"""Numbers at equal distances (ranges and lines), and the indices and coordinates of grids.

An element of a range is a function of its place, so kernels make the elements that they read, and
nothing is kept. Of the dtypes that kernels don't have, blocks are made by NumPy.

    >>> import lazyflow.array as la
    >>> la.arange(2, 12, 3, chunks=2).compute(), la.linspace(0, 1, 3).compute()
    (array([ 2,  5,  8, 11]), array([0. , 0.5, 1. ]))
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    ChunksLike,
    DTypeLike,
    ShapeLike,
    as_array,
    check_device,
    element_of,
    takes_dasks_keywords,
)
from lazyflow.array.functions.creation import from_formula, ones, tri, zeros
from lazyflow.array.functions.indexing.index_arrays import nonzero
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.manipulation.shaping import (
    broadcast_arrays,
    broadcast_to,
    ravel,
    swapaxes,
)
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.sources import Region

_FLOATS = (np.dtype("f4"), np.dtype("f8"))


@takes_dasks_keywords
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, *,
    chunks: ChunksLike = "auto", device: str | None = None,
) -> Array:
    """Return the numbers from `start` (default 0) up to, without, `stop`, `step` apart.

    Each block is made by its own task.

    Raises
    ------
    TypeError
        `dtype` is one of texts or other things that are no numbers.
    ZeroDivisionError
        `step` is 0.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.arange(2, 10, 3).compute()
    array([2, 5, 8])
    >>> la.arange(10, chunks=4).chunks
    ((4, 4, 2),)
    """
    check_device(device)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("arange() needs a step other than 0")
    dtype = np.arange(start * 0, stop * 0, step).dtype if dtype is None else np.dtype(dtype)
    if dtype.kind not in "iufc":
        raise TypeError(f"arange() makes numbers; got dtype {dtype}")
    count = max(int(np.ceil((stop - start) / step)), 0)
    if dtype.kind in "iu":
        for each in (start, start + step)[:count]:  # NumPy refuses these two; others wrap around
            element_of(each, dtype)
    return from_formula(_range(start, step, dtype, count), (count,), dtype, chunks)


@takes_dasks_keywords
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, *, chunks: ChunksLike = "auto", device: str | None = None,
) -> Any:
    """Return `num` numbers evenly from `start` to `stop`; parameters are those of ``np.linspace``.

    With ``retstep=True`` the distance between them is returned, too.

    Raises
    ------
    TypeError
        A bound is an array with axes.
    ValueError
        `num` is negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linspace(0, 1, 5, chunks=2).compute()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    check_device(device)
    num = operator.index(num)
    if np.ndim(start) or np.ndim(stop):
        raise TypeError(
            f"linspace() and logspace() of chunks go from one number to another; got start= of "
            f"shape {np.shape(start)} and stop= of shape {np.shape(stop)}. Write "
            "la.from_array(np.linspace(start, stop, num))"
        )
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    dtype = np.linspace(start, stop, 0, dtype=dtype).dtype
    parts = num - 1 if endpoint else num
    formula = _line(Linear(start, stop, num, endpoint, dtype), parts)
    found = from_formula(formula, (num,), dtype, chunks)
    return (found, (stop - start) / parts if parts > 0 else np.nan) if retstep else found


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0,
    dtype: DTypeLike | None = None, *, chunks: ChunksLike = "auto",
) -> Array:
    """Return `num` powers of `base`, evenly from ``base ** start`` to ``base ** stop``.

    Raises
    ------
    TypeError
        A bound is an array with axes.
    ValueError
        `num` is negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.logspace(0, 3, 4).compute()
    array([   1.,   10.,  100., 1000.])
    """
    found: Any = np.power(base, linspace(start, stop, num, endpoint, chunks=chunks))
    return found if dtype is None else found.astype(dtype)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, *,
    chunks: ChunksLike = "auto",
) -> Array:
    """Return `num` numbers from `start` to `stop` with equal ratios.

    Parameters are those of ``np.geomspace``.

    Raises
    ------
    TypeError
        A bound is an array with axes.
    ValueError
        `num` is negative, or a bound is 0.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.geomspace(1, 1000, num=4, chunks=2).compute()
    array([   1.,   10.,  100., 1000.])
    """
    num = operator.index(num)
    if np.ndim(start) or np.ndim(stop):
        raise TypeError(
            "geomspace() of chunks goes from one number to another; got start= of shape "
            f"{np.shape(start)} and stop= of shape {np.shape(stop)}. Write "
            "la.from_array(np.geomspace(start, stop, num))"
        )
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    found = np.geomspace(start, stop, 0, endpoint, dtype)
    kind = np.result_type(start, stop, float(num), np.zeros((), dtype))
    first, last = np.asarray(start, kind)[()], np.asarray(stop, kind)[()]
    sign = np.sign(first)
    ends = first / sign, last / sign
    line = Linear(np.log10(ends[0]), np.log10(ends[1]), num, bool(endpoint), kind)
    return from_formula(Geometric(line, *ends, sign, found.dtype), (num,), found.dtype, chunks)


def _placed(few: Any, formula: str, count: int, *words: int) -> Any:
    """Return a formula of places that kernels have; `few` is NumPy's way, for few elements."""
    from lazyflow.array.kernels.draws.draw import PlacedDraw  # with the first that is asked for
    from lazyflow.array.kernels.draws.formulas import words_of

    name = few.__name__
    return PlacedDraw(name, formula, few.dtype, (count,), (0, 0, 0), 0, words_of(*words), few)


def _bits(value: Any) -> int:
    return int(np.float64(value).view(np.uint64))


def _range(start: Any, step: Any, dtype: np.dtype[Any], count: int) -> Any:
    few = Range(start, step, dtype)
    if dtype.kind in "iu":
        try:
            words = operator.index(start), operator.index(step)
        except TypeError:
            return few
        return _placed(few, "whole_steps", count, *words)
    if dtype not in _FLOATS or np.result_type(start, step).kind not in "biuf":
        return few
    return _placed(few, "steps", count, *map(_bits, few.first_and_step()))


def _line(few: Linear, parts: int) -> Any:
    kind = np.result_type(few.start, few.stop, float(few.num))
    if kind != np.float64 or few.dtype not in _FLOATS or parts < 1:
        return few
    step = np.subtract(few.stop, few.start, dtype=kind) / parts
    if step == 0 or np.ndim(step):
        return few
    last = few.num - 1 if few.endpoint else few.num  # the end is given as it is
    return _placed(few, "line", few.num, _bits(few.start), _bits(step), last, _bits(few.stop))


@dataclass(frozen=True)
class Range:
    """``start + step * i``, rounded as NumPy does."""

    start: Any
    step: Any
    dtype: np.dtype[Any]
    __name__ = "arange"
    is_quick = True
    takes_out = True

    def __call__(self, region: Region, out: Any = None) -> np.ndarray[Any, Any]:
        (span,) = region
        at = np.arange(span.start, span.stop)
        if out is None:
            out = np.empty(at.shape, self.dtype)
        if self.dtype.kind in "iu":
            start = int(self.start)
            step = int(self.start + self.step) - start  # as NumPy cuts them, and wraps the rest
            steps = at.astype(np.uint64) * np.uint64(step % 2**64)
            np.add(steps, np.uint64(start % 2**64), out=out, casting="unsafe")
            return out
        first, delta = self.first_and_step()
        np.add(first, at * delta, out=out, casting="unsafe")
        if span.start == 0:
            out[:1] = first  # it may be -0.0
        return out

    def first_and_step(self) -> tuple[Any, Any]:
        """Return the first element and the distance to the second, which is rounded."""
        first = np.asarray(self.start, self.dtype)[()]
        return first, np.asarray(self.start + self.step, self.dtype)[()] - first


@dataclass(frozen=True)
class Linear:
    """``num`` numbers evenly from `start` to `stop`."""

    start: Any
    stop: Any
    num: int
    endpoint: bool
    dtype: np.dtype[Any]
    __name__ = "linspace"
    is_quick = True

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
        if self.endpoint and self.num > 1 and span.start < span.stop == self.num:
            found[-1] = self.stop
        if self.dtype.kind in "iu":
            np.floor(found, out=found)
        return found.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Geometric:
    """Powers of 10 from `start` to `stop`, times a sign."""

    line: Linear
    start: Any
    stop: Any
    sign: Any
    dtype: np.dtype[Any]
    __name__ = "geomspace"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        (span,) = region
        found = np.power(10.0, self.line(region)).astype(self.line.dtype, copy=False)
        if span.start == 0:
            found[:1] = self.start  # the ends are given as they are
        if self.line.endpoint and self.line.num > 1 and span.stop == self.line.num:
            found[-1:] = self.stop
        return (found * self.sign).astype(self.dtype, copy=False)


# -- grids -------------------------------------------------------------------------------------


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """Return coordinates of a grid, one array for each axis.

    Parameters are those of ``np.meshgrid``.

    Results are views until they are computed, whatever `copy` says.

    Raises
    ------
    ValueError
        `indexing` is neither "xy" nor "ij".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x, y = la.meshgrid(la.arange(3), la.arange(2))
    >>> (x + 10 * y).compute()
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    count = len(xi)
    found = []
    for k, x in enumerate(xi):
        flat = ravel(as_array(x))
        found.append(flat[tuple([slice(None) if i == k else None for i in range(count)])])
    if indexing == "xy" and count > 1:
        found = [swapaxes(x, 0, 1) for x in found]
    return tuple(found) if sparse or not found else broadcast_arrays(*found)


def indices(
    dimensions: Sequence[int], dtype: Any = int, sparse: bool = False, *,
    chunks: ChunksLike = "auto"
) -> Any:
    """Return the indices of a grid, one array along the first axis for each axis of the grid.

    With ``sparse=True`` it is a tuple of arrays that broadcast to the grid.

    Raises
    ------
    TypeError
        `dtype` is not that of numbers.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> rows, columns = la.indices((2, 3), chunks=2)
    >>> (10 * rows + columns).compute()
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    shape = tuple(map(operator.index, dimensions))
    if dtype is None and not sparse:
        dtype = float  # NumPy's np.empty decides
    sizes = normalize_chunks(chunks, shape, None, dtype)
    thin = tuple([
        arange(n, dtype=dtype, chunks=(sizes[k],))[
            tuple([slice(None) if i == k else None for i in builtins.range(len(shape))])
        ]
        for k, n in enumerate(shape)
    ])
    if sparse:
        return thin
    if not thin:
        return zeros((0,), dtype)
    return stack([broadcast_to(x, shape, chunks=sizes) for x in thin])


def tril_indices(n: int, k: int = 0, m: int | None = None, *, chunks: ChunksLike = "auto") -> Any:
    """Return the indices of elements on and below a diagonal of an ``n`` by ``m`` matrix.

    >>> import lazyflow.array as la
    >>> rows, columns = la.tril_indices(3)
    >>> rows.compute(), columns.compute()
    (array([0, 1, 1, 2, 2, 2]), array([0, 0, 1, 0, 1, 2]))
    """
    return nonzero(tri(n, m, k=k, dtype=bool, chunks=chunks))


def triu_indices(n: int, k: int = 0, m: int | None = None, *, chunks: ChunksLike = "auto") -> Any:
    """Return the indices of elements on and above a diagonal of an ``n`` by ``m`` matrix.

    >>> import lazyflow.array as la
    >>> rows, columns = la.triu_indices(3, k=1)
    >>> rows.compute(), columns.compute()
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    return nonzero(np.logical_not(tri(n, m, k=k - 1, dtype=bool, chunks=chunks)))


def _matrix(arr: Any) -> Array:
    x = as_array(arr)
    if x.ndim != 2:
        raise ValueError("input array must be 2-d")
    return x.with_known_sizes()


def tril_indices_from(arr: ArrayLike, k: int = 0) -> Any:
    """Return the indices of elements on and below a diagonal of this matrix.

    Raises
    ------
    ValueError
        The array doesn't have exactly two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> rows, columns = la.tril_indices_from(la.ones((2, 2)))
    >>> rows.compute(), columns.compute()
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    x = _matrix(arr)
    return tril_indices(x.shape[0], k, x.shape[1], chunks=x.chunks)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> Any:
    """Return the indices of elements on and above a diagonal of this matrix.

    Raises
    ------
    ValueError
        The array doesn't have exactly two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> rows, columns = la.triu_indices_from(la.ones((2, 2)))
    >>> rows.compute(), columns.compute()
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    x = _matrix(arr)
    return triu_indices(x.shape[0], k, x.shape[1], chunks=x.chunks)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array of `ndim` axes of length `n`.

    Raises
    ------
    TypeError
        `n` is not a number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [each.compute() for each in la.diag_indices(2)]
    [array([0, 1]), array([0, 1])]
    """
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array whose axes are all of one length.

    Raises
    ------
    ValueError
        The array has fewer than two axes, or axes of different lengths.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> [each.compute() for each in la.diag_indices_from(la.ones((2, 2)))]
    [array([0, 1]), array([0, 1])]
    """
    x = as_array(arr).with_known_sizes()
    if x.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(x.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(x.shape[0], x.ndim)


def mask_indices(n: int, mask_func: Any, k: Any = 0) -> tuple[Array, ...]:
    """Return the indices that a function such as `triu` keeps of an ``n`` by ``n`` matrix.

    >>> import lazyflow.array as la
    >>> [each.compute() for each in la.mask_indices(2, la.triu)]
    [array([0, 0, 1]), array([0, 1, 1])]
    """
    return nonzero(mask_func(ones((n, n), int), k) != 0)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return index arrays, each along an axis of its own, that cross each other.

    Raises
    ------
    ValueError
        An argument has more than one axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> rows, columns = la.ix_(la.asarray([0, 2]), [1, 3, 4])
    >>> rows.shape, columns.shape
    ((2, 1), (1, 3))
    """
    found = []
    for k, each in enumerate(args):
        empty = not isinstance(each, Array | np.ndarray) and not np.size(each)
        x = as_array(np.zeros(0, np.intp) if empty else each)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.dtype == bool:
            (x,) = nonzero(x)
        found.append(x[(None,) * k + (slice(None),) + (None,) * (len(args) - k - 1)])
    return tuple(found)


def unravel_index(indices: ArrayLike, shape: Any, order: Any = "C") -> tuple[Array, ...]:
    """Return the coordinates of flat indices, an array for each axis.

    Parameters are those of ``np.unravel_index``.

    >>> import lazyflow.array as la
    >>> rows, columns = la.unravel_index(la.asarray([1, 5]), (2, 3))
    >>> rows.compute(), columns.compute()
    (array([0, 1]), array([1, 2]))
    """
    node = as_node(indices)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    few: Any = 0 if shape else node.ndim * (1,)
    np.unravel_index(np.zeros(few, node.dtype), shape, order)  # its errors, now
    return tuple([
        Array(elementwise.function(
            _unravel_index, (node,), np.intp, shape=shape, order=order, at=at,
        ))
        for at in range(len(shape))
    ])


def _unravel_index(x: Any, shape: tuple[int, ...], order: Any, at: int) -> Any:
    return np.unravel_index(x, shape, order)[at]


def ravel_multi_index(
    multi_index: Sequence[Any], dims: ShapeLike, mode: str | Sequence[str] = "raise",
    order: Any = "C",
) -> Array:
    """Return the flat indices of coordinates, which are an array for each axis.

    Parameters are those of ``np.ravel_multi_index``.

    >>> import lazyflow.array as la
    >>> la.ravel_multi_index((la.asarray([0, 1]), la.asarray([2, 0])), (2, 3)).compute()
    array([2, 3])
    """
    resolve_lengths(*multi_index)
    nodes = tuple([as_node(x) for x in broadcast_arrays(*multi_index)])
    dims = tuple(dims) if np.iterable(dims) else (dims,)
    modes: Any = mode if isinstance(mode, str) else tuple(mode)
    empty: Any = tuple([np.zeros(0, x.dtype) for x in nodes])
    np.ravel_multi_index(empty, dims, modes, order)  # its errors, now
    return Array(elementwise.function(
        _ravel_multi_index, nodes, np.intp, dims=dims, mode=modes, order=order,
    ))


def _ravel_multi_index(*coordinates: Any, dims: Any, mode: Any, order: Any) -> Any:
    return np.ravel_multi_index(coordinates, dims, mode, order)
