"""Systems of equations, inverses, determinants, and ranks.

Stacks of matrices, matrices of one block, and those up to 16 times ``config.chunk_bytes`` are whole
in a task, where LAPACK solves them (`is_small`). Larger ones are cut (tiles.py): into panels of
columns for LU factors (`solve`, `inv`, `det`, `slogdet`), into tiles for triangles and for Cholesky
factors (``assume_a="pos"``). `lstsq`, `pinv` and `matrix_rank` take singular values of any matrix.
Wrong shapes are errors at the call, singular matrices when the result is computed. The rank is
unknown at the call, so the residuals of `lstsq` are empty by the shape alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.creation import eye
from lazyflow.array.functions.elementwise import where
from lazyflow.array.functions.manipulation.shaping import reshape
from lazyflow.array.functions.products import matmul
from lazyflow.array.functions.reductions import totals
from lazyflow.array.linalg.decompositions import cholesky, eigvalsh, panels, svd, svdvals
from lazyflow.array.linalg.matrices import (
    SlogdetResult,
    adjoint,
    cut,
    is_small,
    matrices,
    parts_of,
    square,
    trial,
    type_of,
    whole,
)
from lazyflow.array.linalg.tiles import (
    DeterminantOfPanels,
    SolvedByPanels,
    TriangularSolution,
)
from lazyflow.array.nodes.reductions import tree


def _right(a: Array, b: Any, function: str) -> tuple[Array, bool]:
    """Return right sides as a matrix, and whether they are one vector."""
    right = as_array(b).with_known_sizes()
    if right.ndim == 0 or right.shape[0 if right.ndim == 1 else -2] != a.shape[-2]:
        raise ValueError(
            f"{function}() takes right sides of {a.shape[-2]} rows, as the matrix {a.shape} has; "
            f"got the shape {right.shape}"
        )
    return (right[:, None], True) if right.ndim == 1 else (right, False)


_POSITIVE = ("pos", "positive definite")


def solve(a: ArrayLike, b: ArrayLike, *, assume_a: str = "gen") -> Array:
    """Return x of ``a @ x == b``, by LU factors with partial pivoting.

    A large matrix is cut into panels of columns, and `b` into blocks of columns; stacks and small
    matrices are solved whole, by LAPACK in one task.

    Parameters
    ----------
    a
        (..., M, M).
    b
        (M,), or (..., M, K).
    assume_a
        "gen": nothing. "pos" (or "positive definite"): by Cholesky factors; half the work.

    Raises
    ------
    LinAlgError
        The matrix is not square, or when computed: it is singular.
    ValueError
        `b` has another number of rows, or `assume_a` is another word.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.solve(la.asarray([[2.0, 1], [1, 3]]), la.asarray([3, 4])).compute()
    array([1., 1.])
    """
    if assume_a not in ("gen", "general", *_POSITIVE):
        raise ValueError(
            f"assume_a must be 'gen' (any matrix) or 'pos' (positive definite); got {assume_a!r}"
        )
    x = square(a)
    right, is_vector = _right(x, b, "solve")
    if assume_a in _POSITIVE:
        lower = cholesky(x)
        found = solve_triangular(lower, right, lower=True)
        found = solve_triangular(adjoint(lower), found)
    elif is_small(x) or right.ndim > 2:
        found = whole(np.linalg.solve, "(m,m),(m,k)->(m,k)", x, right)
    else:
        trial(np.linalg.solve, x, right)
        dtype = type_of(x, right)
        node = cut(right, (x.shape[0],), right.chunks[1], dtype)
        found = Array(SolvedByPanels((panels(x, dtype), node)))
    return found[..., 0] if is_vector else found


def solve_triangular(a: ArrayLike, b: ArrayLike, lower: bool = False) -> Array:
    """Return x of ``a @ x == b`` for a triangle, by tiles if it is large.

    Parameters
    ----------
    a
        (M, M). Only the upper triangle is read; the lower one with `lower`.
    b
        (M,) or (M, K).

    Raises
    ------
    LinAlgError
        The matrix is not square, or when computed: there is a 0 on its diagonal.
    ValueError
        `a` is a stack of matrices, or `b` has another number of rows.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.solve_triangular(la.asarray([[2.0, 1], [0, 4]]), la.asarray([4, 4])).compute()
    array([1.5, 1. ])
    """
    x = square(a)
    if x.ndim > 2:
        raise ValueError(f"solve_triangular() takes one matrix; got the shape {x.shape}")
    right, is_vector = _right(x, b, "solve_triangular")
    dtype = type_of(x, right)
    sizes = (x.shape[0],) if is_small(x) else parts_of(x)
    tiles = cut(x, sizes, sizes, dtype)
    found = Array(TriangularSolution((tiles, cut(right, sizes, right.chunks[1], dtype)), lower))
    return found[:, 0] if is_vector else found


def inv(a: ArrayLike) -> Array:
    """Return the inverses of square matrices; of a large one by `solve`.

    Shapes: (..., M, M) to (..., M, M).

    Raises
    ------
    LinAlgError
        The matrices are not square, or when computed: one is singular.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.inv(la.asarray([[2.0, 0], [0, 4]])).compute()
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    x = square(a)
    if is_small(x):
        found: Array = whole(np.linalg.inv, "(m,m)->(m,m)", x)
        return found
    return solve(x, eye(x.shape[0], dtype=type_of(x), chunks=(-1, parts_of(x))))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None
) -> tuple[Array, Array, Array, Array]:
    """Return the shortest x that minimises ``|b - a @ x|``; by `svd`, so a tall `a` is read once.

    Parameters
    ----------
    a
        (M, N).
    b
        (M,) or (M, K).
    rcond
        Singular values up to this fraction of the largest count as 0. None: eps times the larger of
        M and N; -1: eps.

    Returns
    -------
    x (N,) or (N, K); sums of squared residuals: (K,), (1,) for a vector, (0,) if M <= N (NumPy's
    are also empty if the rank is less than N, which is unknown here); the rank; singular values.

    Raises
    ------
    LinAlgError
        An array has too many or too few axes, or the numbers of rows differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> t = la.arange(6.0, chunks=2)
    >>> a = la.stack([t, la.ones(6)], axis=1)
    >>> la.linalg.lstsq(a, 3 * t + 1)[0].compute().round(9)
    array([3., 1.])
    """
    x = matrices(a)
    if x.ndim > 2:
        raise LinAlgError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
    right = as_array(b).with_known_sizes()
    if right.ndim not in (1, 2):
        raise LinAlgError(f"{right.ndim}-dimensional array given. Array must be two-dimensional")
    if right.shape[0] != x.shape[0]:
        raise LinAlgError("Incompatible dimensions")
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    dtype = type_of(x, right)
    x, right = x.astype(dtype, copy=False), right.astype(dtype, copy=False)
    m, n = x.shape
    u, s, vh = svd(x, coerce_signs=False)
    eps = float(np.finfo(s.dtype).eps)
    cutoff = eps * max(m, n) if rcond is None else eps if rcond == -1 else rcond
    counts = s > cutoff * s[:1]
    inverse = where(counts, 1 / where(counts, s, s.dtype.type(1)), s.dtype.type(0))
    solution = matmul(adjoint(vh), inverse[:, None] * matmul(adjoint(u), right))
    left = right - matmul(x, solution)
    squares = left.real**2 + left.imag**2 if dtype.kind == "c" else left * left
    residuals = totals.sum(squares, axis=0)[: right.shape[1] if m > n else 0]
    return solution[:, 0] if is_vector else solution, residuals, totals.sum(counts), s


def pinv(
    a: ArrayLike, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Array:
    """Return the pseudo-inverses (Moore and Penrose); parameters are those of ``np.linalg.pinv``.

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.
    ValueError
        Both `rcond` and `rtol` are given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.pinv(la.asarray([[2.0, 0], [0, 0]])).compute()
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    x = matrices(a)
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    dtype = type_of(x)
    if rtol is None:
        rtol = 1e-15 if rcond is None else rcond
    m, n = x.shape[-2:]
    if not m * n:
        return x.astype(dtype).mT
    u, s, vh = svd(x, False, hermitian=hermitian, coerce_signs=False)
    cutoff = as_array(rtol)[..., None] * totals.max(s, axis=-1, keepdims=True)
    counts = s > cutoff
    inverse = where(counts, 1 / where(counts, s, s.dtype.type(1)), s.dtype.type(0))
    return matmul(adjoint(vh), inverse[..., None] * adjoint(u))


def det(a: ArrayLike) -> Array:
    """Return the determinants of square matrices; of a large one by its LU factors, in panels.

    Shapes: (..., M, M) to (...).

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.det(la.asarray([[2.0, 1], [0, 3]])).compute().round(9)
    np.float64(6.0)
    """
    x = square(a)
    if is_small(x):
        found: Array = whole(np.linalg.det, "(m,m)->()", x)
        return found
    return _determinant(x, 0, type_of(x))


def _determinant(x: Array, which: int, dtype: Any) -> Array:
    made = panels(x, type_of(x))
    starts = tuple(made.chunks[1])
    return Array(tree(DeterminantOfPanels(which, starts), [made], (), dtype))


def slogdet(a: ArrayLike) -> SlogdetResult:
    """Return the signs of determinants, and the logarithms of their absolute values.

    Shapes: (..., M, M) to twice (...).

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> sign, log = la.linalg.slogdet(la.eye(400) * -0.01)
    >>> sign.compute(), log.compute().round(2)
    (np.float64(1.0), np.float64(-1842.07))
    """
    x = square(a)
    if is_small(x):
        return SlogdetResult(*whole(np.linalg.slogdet, "(m,m)->(),()", x))
    types = [each.dtype for each in trial(np.linalg.slogdet, x)]
    return SlogdetResult(*[_determinant(x, k, dtype) for k, dtype in enumerate(types, 1)])


def matrix_rank(
    A: ArrayLike, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Array:
    """Return how many singular values are above `tol`; parameters are NumPy's.

    Shapes: (..., M, N) to (...).

    Raises
    ------
    ValueError
        Both `tol` and `rtol` are given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.matrix_rank(la.ones((5, 3), chunks=2)).compute()
    np.int64(1)
    """
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = as_array(A)
    if x.ndim < 2:
        return totals.any(x != 0).astype(int)
    s = abs(eigvalsh(x)) if hermitian else svdvals(x)
    if not s.shape[-1]:
        return totals.sum(s > 0, axis=-1)
    if tol is None:
        if rtol is None:
            rtol = max(matrices(x).shape[-2:]) * float(np.finfo(s.dtype).eps)
        tol = as_array(rtol)[..., None] * totals.max(s, axis=-1, keepdims=True)
    else:
        tol = as_array(tol)[..., None]
    return totals.sum(s > tol, axis=-1)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return x of ``tensordot(a, x, x.ndim) == b``; parameters are those of NumPy's.

    Raises
    ------
    LinAlgError
        The array is no square matrix of the axes of `b` and the others.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.tensorsolve(la.eye(6).reshape(2, 3, 6), la.ones((2, 3))).shape
    (6,)
    """
    x, right = as_array(a).with_known_sizes(), as_array(b).with_known_sizes()
    if axes is not None:
        others = [k for k in range(x.ndim) if k not in axes]
        x = x.transpose((*others, *axes))
    rest = x.shape[right.ndim:]
    if math.prod(rest) ** 2 != x.size:
        raise LinAlgError(
            f"Input arrays must satisfy prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim]); got "
            f"{x.shape} and {right.ndim} axes"
        )
    found = solve(reshape(x, (-1, math.prod(rest))), right.ravel())
    return reshape(found, rest)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse for ``tensordot(a, b, ind)``; parameters are those of NumPy's.

    Raises
    ------
    ValueError
        `ind` is not positive.
    LinAlgError
        The array is no square matrix of `ind` axes and the others.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.tensorinv(la.eye(6).reshape(2, 3, 6), ind=2).shape
    (6, 2, 3)
    """
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    x = as_array(a).with_known_sizes()
    first, rest = x.shape[:ind], x.shape[ind:]
    return reshape(inv(reshape(x, (math.prod(first), math.prod(rest)))), (*rest, *first))
