"""Products of matrices and vectors, with the signatures of ``np.linalg``.

Most call the functions of that name (functions/products.py) with the parameters and the narrower
checks of the Array API. `multi_dot` chooses its order at the call by the lengths, so unknown ones
are computed. `matrix_power` multiplies squares of the matrix, and of its inverse for a negative
power.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions import products
from lazyflow.array.functions.arguments import ArrayLike, DTypeLike, as_array, as_result
from lazyflow.array.functions.creation import eye
from lazyflow.array.functions.indexing import taking
from lazyflow.array.functions.manipulation.shaping import broadcast_to
from lazyflow.array.functions.manipulation.shaping import matrix_transpose as matrix_transpose
from lazyflow.array.linalg.matrices import matrices, square
from lazyflow.array.linalg.solving import inv


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the matrix product, as ``la.matmul``.

    >>> import lazyflow.array as la
    >>> la.linalg.matmul(la.ones((2, 3)), la.ones((3, 1))).compute()
    array([[3.],
           [3.]])
    """
    return products.matmul(x1, x2)


def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: Any = 2) -> Array:
    """Return sums of products over axes, as ``la.tensordot``.

    >>> import lazyflow.array as la
    >>> la.linalg.tensordot(la.ones((2, 3, 4)), la.ones((3, 4, 5))).shape
    (2, 5)
    """
    return products.tensordot(x1, x2, axes)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return sums of products of the conjugate of `x1` with `x2` along an axis.

    >>> import lazyflow.array as la
    >>> la.linalg.vecdot(la.ones((2, 3)), la.ones(3)).compute()
    array([3., 3.])
    """
    return products.vecdot(x1, x2, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the products of all elements of one vector with all of another.

    Shapes: (M,) and (N,) to (M, N).

    Raises
    ------
    ValueError
        An array doesn't have exactly one axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.outer(la.arange(3), la.asarray([1, 10])).shape
    (3, 2)
    """
    a, b = as_array(x1), as_array(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={a.ndim} and "
            f"x2.ndim={b.ndim}."
        )
    return products.outer(a, b)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return the cross product of vectors of three elements.

    Raises
    ------
    ValueError
        The vectors don't have three elements.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.cross(la.asarray([1, 0, 0]), la.asarray([0, 1, 0])).compute()
    array([0, 0, 1])
    """
    a, b = as_array(x1).with_known_sizes(), as_array(x2).with_known_sizes()
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{a.shape[axis]} and {b.shape[axis]} dimensional instead."
        )
    return products.cross(a, b, axis=axis)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return the sums along diagonals of matrices, the last two axes.

    >>> import lazyflow.array as la
    >>> la.linalg.trace(la.arange(8, chunks=4).reshape(2, 2, 2)).compute()
    array([ 3, 11])
    """
    return products.trace(x, offset, -2, -1, dtype)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return diagonals of matrices, the last two axes.

    Raises
    ------
    ValueError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.diagonal(la.arange(4, chunks=2).reshape(2, 2)).compute()
    array([0, 3])
    """
    return taking.diagonal(as_array(x), offset, -2, -1)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Return powers of square matrices, by squares of squares; negative ones of inverses.

    Shapes: (..., M, M) to (..., M, M).

    Raises
    ------
    LinAlgError
        The matrices are not square.
    TypeError
        `n` is no whole number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.matrix_power(la.asarray([[1, 1], [0, 1]]), 5).compute()
    array([[1, 5],
           [0, 1]])
    """
    x = square(a)
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    if n < 0:
        x, n = inv(x), -n
    found = None
    while n:
        if n % 2:
            found = x if found is None else products.matmul(found, x)
        n //= 2
        if n:
            x = products.matmul(x, x)
    assert found is not None
    return found


def multi_dot(arrays: Sequence[ArrayLike], *, out: Array | None = None) -> Array:
    """Return the product of several matrices, in the order that multiplies the fewest numbers.

    The first and the last may be vectors.

    Raises
    ------
    LinAlgError
        An array between the first and the last doesn't have two axes.
    ValueError
        There are fewer than two arrays, or the lengths that are summed differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> a, b, c = la.ones((2, 50)), la.ones((50, 50)), la.ones(50)
    >>> la.linalg.multi_dot([a, b, c]).compute()
    array([2500., 2500.])
    """
    given = [as_array(x).with_known_sizes() for x in arrays]
    if len(given) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    if first:
        given[0] = given[0][None]
    if last:
        given[-1] = given[-1][:, None]
    for x in given:
        if matrices(x).ndim != 2:
            raise np.linalg.LinAlgError(
                f"{x.ndim}-dimensional array given. Array must be two-dimensional"
            )
    found = _in_order(given)
    found = found[0] if first else found
    found = found[..., 0] if last else found
    return as_result(found.expr, out)


def _in_order(given: list[Array]) -> Array:
    """Multiply matrices in the order that costs least (Cormen et al., "Algorithms", 15.2)."""
    sizes = [given[0].shape[0], *[x.shape[1] for x in given]]
    best: dict[tuple[int, int], tuple[int, Array]] = {(k, k): (0, x) for k, x in enumerate(given)}
    for length in range(1, len(given)):
        for i in range(len(given) - length):
            j = i + length
            cost, at = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
            best[i, j] = cost, products.dot(best[i, at][1], best[at + 1, j][1])
    return best[0, len(given) - 1][1]
