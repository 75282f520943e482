"""Norms of vectors and matrices, and condition numbers.

Norms of vectors, and those of matrices that are sums and extremes, are elementwise operations and
reductions, so no task sees a whole matrix. The orders 2, -2 and "nuc" take singular values
(decompositions.py). `cond` by another order needs an inverse: each matrix is whole in a task.
NumPy's function is called with one element first, for its errors and its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array, as_numpy_tells
from lazyflow.array.functions.elementwise import call_ufunc
from lazyflow.array.functions.manipulation.shaping import expand_dims, moveaxis
from lazyflow.array.functions.reductions import totals
from lazyflow.array.linalg.decompositions import svdvals
from lazyflow.array.linalg.matrices import matrices, trial, whole
from lazyflow.array.nodes.reductions import axes_of

#: Of a matrix, by singular values.
_OF_VALUES: dict[Any, Any] = {2: totals.max, -2: totals.min, "nuc": totals.sum}


def norm(
    x: ArrayLike, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> Array:
    """Return norms of vectors or matrices; parameters are those of ``np.linalg.norm``.

    Parameters
    ----------
    x
        Any shape.
    ord
        None: the root of the sum of squares. Of vectors inf, -inf, 0 or another number p; of
        matrices 1, -1, inf, -inf, "fro", and by singular values 2, -2, "nuc".
    axis
        That of vectors, or the two of matrices; None: all.
    keepdims
        Axes stay, with length 1.

    Raises
    ------
    ValueError
        The order is not defined for this number of axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(9.0, chunks=4).reshape(3, 3)
    >>> la.linalg.norm(x).compute().round(3), la.linalg.norm(x, 1).compute()
    (np.float64(14.283), np.float64(15.0))
    >>> la.linalg.norm(x, axis=1).compute().round(3)
    array([ 2.236,  7.071, 12.207])
    """
    a = as_array(x)
    given = tuple(axis) if isinstance(axis, list) else axis
    few = np.ones((1,) * a.ndim, a.dtype)  # of which NumPy tells what is wrong
    dtype = np.asarray(as_numpy_tells(np.linalg.norm, few, ord, given, keepdims)).dtype
    axes = axes_of(given, a.ndim)
    if a.dtype.kind not in "fcO":
        a = a.astype(float)
    if ord is None or (axis is None and ord == 2 and a.ndim == 1):
        found = _of_vectors(a, 2, axes, keepdims)
    elif len(axes) == 2:
        order = axes if given is None else tuple([k % a.ndim for k in cast("Any", given)])
        found = _of_matrices(a, ord, order, keepdims)
    else:
        found = _of_vectors(a, ord, axes, keepdims)
    return found.astype(dtype, copy=False)


def _of_vectors(a: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    if ord == math.inf:
        return totals.max(abs(a), **options)
    if ord == -math.inf:
        return totals.min(abs(a), **options)
    if ord == 0:
        return totals.sum((a != 0).astype(a.real.dtype), **options)
    if ord == 1:
        return totals.sum(abs(a), **options)
    if ord == 2:
        squares = a.real * a.real + a.imag * a.imag if a.dtype.kind == "c" else a * a
        found: Array = call_ufunc(np.sqrt, (totals.sum(squares, **options),))
        return found
    return totals.sum(abs(a) ** ord, **options) ** (1 / ord)


def _of_matrices(a: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord in _OF_VALUES:
        s = svdvals(moveaxis(a, axes, (-2, -1)))
        found = _OF_VALUES[ord](s, axis=-1)
        return expand_dims(found, tuple(sorted(axes))) if keepdims else found
    if ord in ("fro", "f"):
        return _of_vectors(a, 2, tuple(sorted(axes)), keepdims)
    summed, other = axes if abs(ord) == 1 else axes[::-1]
    sums = totals.sum(abs(a), axis=summed, keepdims=True)
    extreme = totals.max if ord > 0 else totals.min
    found = extreme(sums, axis=other, keepdims=True)
    return found if keepdims else found.squeeze(axes)


def vector_norm(
    x: ArrayLike, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
    ord: float = 2,
) -> Array:
    """Return norms of all elements along axes, as of vectors.

    >>> import lazyflow.array as la
    >>> la.linalg.vector_norm(la.ones((3, 3), chunks=2)).compute()
    np.float64(3.0)
    """
    a = as_array(x)
    few = np.ones(1, a.dtype)
    dtype = np.asarray(np.linalg.norm(few, ord)).dtype
    axes = axes_of(tuple(axis) if isinstance(axis, list) else axis, a.ndim)
    a = a.astype(float) if a.dtype.kind not in "fcO" else a
    return _of_vectors(a, ord, axes, keepdims).astype(dtype, copy=False)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return norms of matrices, the last two axes.

    >>> import lazyflow.array as la
    >>> la.linalg.matrix_norm(la.ones((3, 3), chunks=2), ord="nuc").compute().round(9)
    np.float64(3.0)
    """
    return norm(x, ord, (-2, -1), keepdims)


def _ratio(s: Any, inverted: bool) -> Any:
    with np.errstate(all="ignore"):
        found = s[..., -1] / s[..., 0] if inverted else s[..., 0] / s[..., -1]
    return np.where(np.isnan(found) & ~np.isnan(s).any(-1), np.inf, found).astype(s.dtype)


def cond(x: ArrayLike, p: Any = None) -> Array:
    """Return condition numbers: by singular values for `p` None, 2 and -2, as NumPy's.

    Shapes: (..., M, N) to (...).

    For other orders each matrix is whole in a task.

    Raises
    ------
    LinAlgError
        The array has fewer than two axes, or no elements.
    ValueError
        There is no norm `p` of matrices.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.cond(la.asarray([[4.0, 0], [0, 2]])).compute()
    np.float64(2.0)
    """
    a = matrices(x)
    if not a.shape[-1] * a.shape[-2]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p in (None, 2, -2):
        s = svdvals(a)
        found: Array = whole(_ratio, "(k)->()", s, dtypes=[s.dtype], inverted=p == -2)
        return found
    if p in ("fro", "nuc") or abs(p) in (1, math.inf):
        (told,) = trial(np.linalg.inv, a)
        made: Array = whole(np.linalg.cond, "(m,m)->()", a, p=p, dtypes=[told.real.dtype])
        return made
    raise ValueError(f"Invalid norm order {p!r} for matrices")
