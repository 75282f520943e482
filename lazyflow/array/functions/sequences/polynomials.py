"""Convolutions, and polynomials in the form of NumPy's older functions.

Coefficients begin with that of the highest power. Whether roots are real depends on values, so
``np.roots`` and ``np.poly`` compute what they get.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.creation import zeros, zeros_like
from lazyflow.array.functions.elementwise import conjugated
from lazyflow.array.functions.manipulation.joining import column_stack, concatenate
from lazyflow.array.functions.manipulation.shaping import atleast_1d
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.nodes.halo import Extended, Margin
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import TreeReduction, tree, whole_along
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock, SingleResult

# -- convolutions ------------------------------------------------------------------------------


_MODES = ("valid", "same", "full")


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """Return the convolution of two sequences; parameters are those of ``np.convolve``.

    The shorter one becomes one block. Each element is NumPy's sum of the same products: floats may
    differ by rounding, as of `dot`.

    Raises
    ------
    ValueError
        `mode` is none of "full", "same" and "valid", a sequence has several axes, or a sequence has
        no elements.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.convolve(la.arange(5, chunks=2), [1, 1]).compute()
    array([0, 1, 3, 5, 7, 4])
    """
    long, short = _sequences(a, v, mode)
    for name, x in (("a", long), ("v", short)):
        if not x.size:
            raise ValueError(f"{name} cannot be empty")
    if short.size > long.size:
        long, short = short, long
    return _part(_full(long, short), long.size, short.size, mode, (short.size - 1) // 2)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """Return the cross-correlation of two sequences; parameters are those of ``np.correlate``.

    The shorter one becomes one block.

    Raises
    ------
    ValueError
        `mode` is none of "full", "same" and "valid", a sequence has several axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.correlate(la.arange(5, chunks=2), [1, 2]).compute()
    array([ 2,  5,  8, 11])
    """
    x, y = _sequences(a, v, mode)
    n, m = x.size, y.size
    if not (n and m):
        np.correlate(np.ones(n), np.ones(m))  # raises
    y = conjugated(y)[::-1] if y.dtype.kind == "c" else y[::-1]
    full = _full(x, y) if n >= m else _full(y, x)
    start = (m - 1) // 2 if n >= m else n // 2
    return _part(full, max(n, m), min(n, m), mode, start)


def _sequences(a: Any, v: Any, mode: Any) -> list[Array]:
    if mode not in _MODES and not (isinstance(mode, int) and 0 <= mode < len(_MODES)):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    found: list[Array] = [atleast_1d(as_array(x)) for x in (a, v)]
    resolve_lengths(*found)
    for x in found:
        if x.ndim != 1:
            raise ValueError("object too deep for desired array")
    return found


def _part(full: Array, n: int, m: int, mode: Any, start: int) -> Array:
    """Return what a mode asks for of all sums, of sequences of n and of m elements."""
    mode = _MODES[operator.index(mode)] if not isinstance(mode, str) else mode
    if mode == "full":
        return full
    return full[m - 1:n] if mode == "valid" else full[start:start + n]


def _full(long: Array, short: Array) -> Array:
    """Return all sums; those of blocks need some elements more, of the blocks after them."""
    dtype = np.convolve(np.ones(1, long.dtype), np.ones(1, short.dtype)).dtype
    less = short.size - 1
    whole = rechunk(short.expr, ((short.size,),))

    def of(x: Any, mode: str, sizes: Any) -> Array:
        op = NumpyOp(np.convolve, (("mode", mode),))
        return Array(PerBlock((x, whole), op, dtype, (sizes,)))

    grid, left = [], long.size - less
    for size in long.chunks[0]:
        if taken := min(size, left):
            grid.append(taken)
            left -= taken
    source = Extended((long.expr,), (Margin(0, less, "none", tuple(grid)),))
    middle = of(source, "valid", tuple(grid))
    if not less:
        return middle
    ends = [rechunk(x.expr, ((less,),)) for x in (long[:less], long[long.size - less:])]
    first, last = [of(x, "full", (2 * less,)) for x in ends]
    return concatenate([first[:less], middle, last[less:]])


# -- polynomials -------------------------------------------------------------------------------


def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """Return the values of a polynomial at `x`, by Horner's scheme; parameters as ``np.polyval``.

    Raises
    ------
    TypeError
        `x` is a ``poly1d``: use its coefficients.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.polyval([1, 0, 2], la.arange(4, chunks=2)).compute()  # x**2 + 2
    array([ 2,  3,  6, 11])
    """
    if isinstance(x, np.poly1d):
        raise TypeError("polyval() of chunked arrays takes points, not a poly1d; use its .coeffs")
    points = as_array(x)
    found: Any = zeros_like(points)
    for each in as_array(p) if isinstance(p, Array) else np.asarray(p):
        found = found * points + each
    return as_array(found)


def _of_length(n: int, x: Array) -> Array:
    return x if x.size == n else concatenate([zeros(n - x.size, x.dtype), x])


def _coefficients(*given: Any) -> list[Array]:
    found: list[Array] = [atleast_1d(as_array(x)) for x in given]
    resolve_lengths(*found)
    return found


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the sum of two polynomials.

    >>> import lazyflow.array as la
    >>> la.polyadd(la.asarray([1, 2]), [9, 5, 4]).compute()
    array([9, 6, 6])
    """
    one, other = _coefficients(a1, a2)
    n = max(one.size, other.size)
    return _of_length(n, one) + _of_length(n, other)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the difference of two polynomials.

    >>> import lazyflow.array as la
    >>> la.polysub(la.asarray([2, 10, -2]), [3, 10, -4]).compute()
    array([-1,  0,  2])
    """
    one, other = _coefficients(a1, a2)
    n = max(one.size, other.size)
    return _of_length(n, one) - _of_length(n, other)


def _of_one_block(function: Any, *given: Array) -> PerBlock:
    probe = function(*[np.ones(1, x.dtype) for x in given])
    dtype = (probe[0] if isinstance(probe, tuple) else probe).dtype
    nodes = tuple([rechunk(x.expr, ((x.size,),)) for x in given])
    return PerBlock(nodes, named(function.__name__, function), dtype, ((None,),))


def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the product of two polynomials; zeros in front are left out, so its length is unknown.

    >>> import lazyflow.array as la
    >>> la.polymul(la.asarray([1, 2]), [1, -2]).compute()
    array([ 1,  0, -4])
    """
    return Array(_of_one_block(np.polymul, *_coefficients(a1, a2)))


def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Return the quotient of two polynomials and the remainder, whose length is unknown.

    >>> import lazyflow.array as la
    >>> quotient, remainder = la.polydiv(la.asarray([3.0, 5.0, 2.0]), [2.0, 1.0])
    >>> quotient.compute(), remainder.compute()
    (array([1.5 , 1.75]), array([0.25]))
    """
    both = _of_one_block(np.polydiv, *_coefficients(u, v))
    quotient, remainder = [SingleResult((both,), k, both.dtype, ((None,),)) for k in (0, 1)]
    return Array(quotient), Array(remainder)


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Return the derivative of a polynomial, `m` times.

    Raises
    ------
    ValueError
        `m` is negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.polyder(la.asarray([1, 1, 1, 1])).compute()
    array([3, 2, 1])
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    found = as_array(p).with_known_sizes()
    for _ in range(m):
        found = found[:-1] * np.arange(max(found.size - 1, 0), 0, -1)
    return found


def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Array:
    """Return the integral of a polynomial, `m` times; `k` are the constants, 0 if left out.

    Raises
    ------
    ValueError
        `m` is negative, or `k` is neither one constant nor one for each integral.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.polyint(la.asarray([3, 2, 1])).compute()
    array([1., 1., 1., 0.])
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(m) if k is None else np.atleast_1d(k)
    if len(constants) == 1 and m > 1:
        constants = constants[0] * np.ones(m)
    if len(constants) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    found = as_array(p).with_known_sizes()
    for each in constants[:m]:
        found = concatenate([found / np.arange(found.size, 0, -1), np.asarray(each)[None]])
    return found


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Return a Vandermonde matrix: in each row the powers of an element; as ``np.vander``.

    Raises
    ------
    ValueError
        `x` doesn't have exactly one axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.vander(la.arange(1, 4, chunks=2), 3).compute()
    array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]])
    """
    points = as_array(x)
    if points.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = points.size if N is None else operator.index(N)
    op = NumpyOp(np.vander, (("N", n), ("increasing", bool(increasing))))
    dtype = np.promote_types(points.dtype, int)
    return Array(tree(op, [points.expr], (0, (n,)), dtype))


# -- the polynomial that fits best ----------------------------------------------------------------


_ROWS = 1 << 12  # rows that are factored at once: their powers stay in the cache; a guess


@dataclass(frozen=True)
class Fit(TreeReduction):
    """The least squares of the powers of points, in a tree of QR factors.

    A part has the triangular factor of some rows, what the right-hand sides are in its space, and
    the squares of what is left of them. Rows of a block are a point, its weight, and right-hand
    sides (Demmel, Grigori, Hoemmen and Langou 2012, "Communication-optimal parallel and sequential
    QR and LU factorizations").

    order, count
        How many coefficients and how many points there are.
    dtype, spread
        Of the coefficients and of their covariances.
    flat
        There is one right-hand side, without an axis.
    scaled
        Of the covariances, by what is left over; None: they are not asked for.
    full
        All results are returned, so there is no warning.
    """

    order: int
    count: int
    dtype: np.dtype[Any]
    spread: np.dtype[Any]
    rcond: float
    flat: bool
    scaled: bool | None
    full: bool

    __name__ = "polyfit"

    def first(self, block: Any) -> Any:
        parts = []
        for at in range(0, max(len(block), 1), _ROWS):
            rows = block[at:at + _ROWS]
            x, w, y = rows[:, 0], rows[:, 1:2], rows[:, 2:]
            parts.append(self._factored(np.vander(x, self.order) * w, y * w, 0.0))
        return self.merge(parts) if len(parts) > 1 else parts[0]

    def merge(self, parts: Sequence[Any]) -> Any:
        triangles, sides, left = zip(*parts, strict=True)
        return self._factored(np.concatenate(triangles), np.concatenate(sides), sum(left))

    def _factored(self, rows: Any, sides: Any, left: Any) -> Any:
        q, r = np.linalg.qr(rows)
        within = q.conj().T @ sides
        apart = sides - q @ within if len(rows) > self.order else sides[:0]
        return r, within, left + (np.abs(apart) ** 2).sum(axis=0)

    def last(self, part: Any) -> Any:
        triangle, sides, left = part
        scale = np.sqrt((np.abs(triangle) ** 2).sum(axis=0))
        found, _, rank, singular = np.linalg.lstsq(triangle / scale, sides, self.rcond)
        found = (found.T / scale).T
        known_left = left if rank == self.order < self.count else left[:0]
        spread = None
        if self.scaled is not None:
            spread = self._covariance(triangle / scale, scale, known_left)
        if rank != self.order and not self.full:
            warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, 2)
        if self.flat:
            found = found[:, 0]
        real = np.empty(0, self.dtype).real.dtype
        return (
            found.astype(self.dtype), known_left.astype(real), np.asarray(rank, np.int32),
            singular.astype(real), spread,
        )

    def _covariance(self, triangle: Any, scale: Any, left: Any) -> Any:
        base = np.linalg.inv(triangle.conj().T @ triangle) / np.outer(scale, scale)
        factor = left / (self.count - self.order) if self.scaled else np.ones(1)
        spread = base * factor if self.flat else base[:, :, None] * factor
        return (spread.real if self.spread.kind == "f" else spread).astype(self.spread)


def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False,
    w: ArrayLike | None = None, cov: bool | str = False,
) -> Any:
    """Return the coefficients of the polynomial that fits points best; as ``np.polyfit``.

    Blocks of points become small triangular factors, so that no task has all of them. The columns
    of `y` become one block. Values differ from NumPy's by rounding, as with another LAPACK.

    Raises
    ------
    TypeError
        `x`, `y` or `w` has too many axes, or another length; `x` has no elements.
    ValueError
        `deg` is negative, or ``cov=True`` needs more points.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(100.0, chunks=30)
    >>> la.polyfit(x, 2 * x + 1, 1).compute().round(6)
    array([2., 1.])
    """
    order = operator.index(deg) + 1
    points, values = as_array(x) + 0.0, as_array(y) + 0.0
    weights = None if w is None else as_array(w) + 0.0
    resolve_lengths(points, values, weights)
    _check(order - 1, points, values, weights)
    dtype = np.linalg.lstsq(np.ones((1, 1), points.dtype), np.ones(1, values.dtype))[0].dtype
    n = points.size
    if cov and not full and cov != "unscaled" and n <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance "
                         "matrix")
    rcond = n * float(np.finfo(points.dtype).eps) if rcond is None else float(rcond)
    columns = [points, np.ones(()) if weights is None else weights, values]
    rows = whole_along(column_stack([
        np.broadcast_to(c, n) if isinstance(c, np.ndarray) else c for c in columns
    ]).expr, (1,))
    real = np.empty(0, dtype).real.dtype
    spread = np.promote_types(points.dtype, real)
    scaled = None if full or not cov else cov != "unscaled"
    op = Fit(order, n, dtype, spread, rcond, values.ndim == 1, scaled, bool(full))
    made = tree(op, [rows], ((order,),), dtype)
    several = values.shape[1:]
    inner = tuple([(size,) for size in several])

    def result(which: int, kind: Any, chunks: Any) -> Array:
        return Array(SingleResult((made,), which, np.dtype(kind), chunks))

    coefficients = result(0, dtype, ((order,), *inner))
    if full:
        rank, singular = result(2, np.int32, ()), result(3, real, ((order,),))
        return coefficients, result(1, real, ((None,),)), rank, singular, rcond
    if not cov:
        return coefficients
    return coefficients, result(4, spread, ((order,), (order,), *inner))


def _check(deg: int, x: Array, y: Array, w: Array | None) -> None:
    """Raise as NumPy does for what can't be fitted."""
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.size == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    if w is not None and w.ndim != 1:
        raise TypeError("expected a 1-d array for weights")
    if w is not None and w.shape[0] != y.shape[0]:
        raise TypeError("expected w and y to have the same length")
