"""Products of arrays: dot, matmul, tensordot and their like.

All products that are summed come to `einstein.product`, in which axes have labels: it makes a
contraction by blocks (nodes/contraction.py), or, if all axes are shared or none is summed over, an
elementwise product and a sum. The dtypes are those of the loops of ``np.matmul``. Lengths that are
summed over must be equal, so unknown ones are computed; others may stay unknown. `outer` and `kron`
are elementwise products of broadcast arrays. `cross` puts the axis of the vectors into one chunk.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    Casting,
    DTypeLike,
    as_array,
    as_numpy_tells,
    as_result,
    broadcast_node,
    out_dtype,
)
from lazyflow.array.functions.einstein import product
from lazyflow.array.functions.elementwise import astype, conjugated
from lazyflow.array.functions.indexing.taking import diagonal
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.manipulation.shaping import expand_dims, flat
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.functions.reductions import totals
from lazyflow.array.nodes.align import SizesNeeded, broadcast_shape
from lazyflow.array.nodes.reductions import axis_of, tree, whole_along


def _differ(n: int | None, m: int | None) -> bool:
    """Tell whether lengths over which is summed differ."""
    if n is None or m is None:
        raise SizesNeeded
    return n != m


def _check_axes(name: str, signature: str, *arrays: tuple[Array, int]) -> None:
    """Raise NumPy's error where an array has fewer axes than its function needs."""
    for at, (x, needed) in enumerate(arrays):
        if x.ndim < needed:
            raise ValueError(
                f"{name}: Input operand {at} does not have enough dimensions (has {x.ndim}, gufunc "
                f"core with signature {signature} requires {needed})"
            )


def _check_core(gufunc: np.ufunc, n: int | None, m: int | None) -> None:
    """Raise where the lengths that NumPy's function sums over differ."""
    if _differ(n, m):
        raise ValueError(
            f"{gufunc.__name__}: Input operand 1 has a mismatch in its core dimension 0, with "
            f"gufunc signature {gufunc.signature} (size {m} is different from {n})"
        )


# -- matmul and its like ------------------------------------------------------------------------


def matmul(
    x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None, *, casting: Casting = "same_kind",
    dtype: DTypeLike | None = None, **options: Any
) -> Array:
    """Return the matrix product; parameters are those of ``np.matmul``, without `axes`.

    Raises
    ------
    TypeError
        There are options such as `axes`.
    ValueError
        An array has no axis, or the lengths that are summed differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> (la.ones((2, 3), chunks=2) @ la.ones((3, 2), chunks=2)).compute()
    array([[3., 3.],
           [3., 3.]])
    """
    if options:
        raise TypeError(
            f"matmul() of chunked arrays takes out=, casting= and dtype=, not {min(options)}=; "
            "move the axes by moveaxis() first"
        )
    a, b = as_array(x1), as_array(x2)
    _check_axes("matmul", "(n?,k),(k,m?)->(n?,m?)", (a, 1), (b, 1))
    _check_core(np.matmul, a.shape[-1], b.shape[max(b.ndim - 2, 0)])
    loop: Any = {} if dtype is None else {"signature": (None, None, np.dtype(dtype))}
    *_, result_dtype = np.matmul.resolve_dtypes((a.dtype, b.dtype, None), casting=casting, **loop)
    batch = max(a.ndim, b.ndim, 2) - 2
    broadcast_shape([a.shape[:-2], b.shape[:-2]])
    leading = tuple(range(batch))
    row, summing, column = batch, batch + 1, batch + 2
    rows = (row,) if a.ndim > 1 else ()
    columns = (column,) if b.ndim > 1 else ()
    first = (*leading[batch - max(a.ndim - 2, 0):], *rows, summing)
    second = (*leading[batch - max(b.ndim - 2, 0):], summing, *columns)
    labels = (*leading, *rows, *columns)
    return as_result(product(a.expr, first, b.expr, second, labels, result_dtype), out)


def _conjugate(x: Array) -> Array:
    return conjugated(x) if x.dtype.kind in "cO" else x


def _dtype(a: Array, b: Array) -> np.dtype[Any]:
    *_, found = np.matmul.resolve_dtypes((a.dtype, b.dtype, None))
    return found


def dot(a: ArrayLike, b: ArrayLike, out: Array | None = None) -> Array:
    """Return the dot product: of vectors, of matrices, or of the last axis of `a` with one of `b`.

    Raises
    ------
    ValueError
        The lengths that are summed differ, or `out` has another dtype than the result.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(4, chunks=2)
    >>> la.dot(x, x).compute()
    np.int64(14)
    """
    a, b = as_array(a), as_array(b)
    made = a * b if a.ndim == 0 or b.ndim == 0 else _summed(a, b, max(b.ndim - 2, 0))
    wanted = out_dtype(out)
    if wanted is not None and wanted != made.dtype:
        raise ValueError(
            f"output array is not acceptable: its dtype has to be {made.dtype}, but is {wanted}"
        )
    return as_result(made.expr, out)


def _summed(a: Array, b: Array, axis: int) -> Array:
    """Return sums of products over the last axis of `a` and an axis of `b`."""
    if _differ(a.shape[-1], b.shape[axis]):
        one, other = (str(x.shape).replace(" ", "") for x in (a, b))
        raise ValueError(
            f"shapes {one} and {other} not aligned: {a.shape[-1]} (dim {a.ndim - 1}) != "
            f"{b.shape[axis]} (dim {axis})"
        )
    return tensordot(a, b, ((a.ndim - 1,), (axis,)))


def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Array:
    """Return sums of products over axes; parameters are those of ``np.tensordot``.

    Raises
    ------
    ValueError
        The lengths that are summed differ, or an axis is named twice.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.tensordot(la.ones((2, 3, 4)), la.ones((3, 4, 5)), axes=2).shape
    (2, 5)
    """
    a, b = as_array(a), as_array(b)
    if not isinstance(axes, tuple | list) and np.ndim(axes) == 0:
        count = operator.index(axes)
        first, second = tuple(range(-count, 0)), tuple(range(count))
    else:
        first, second = [(x,) if np.ndim(x) == 0 else tuple(x) for x in axes]
    if len(first) != len(second):
        raise ValueError("shape-mismatch for sum")
    first = tuple([axis_of(k, a.ndim) for k in first])
    second = tuple([axis_of(k, b.ndim) for k in second])
    if any(_differ(a.shape[k], b.shape[m]) for k, m in zip(first, second, strict=True)):
        raise ValueError("shape-mismatch for sum")
    if {a.dtype.kind, b.dtype.kind} <= set("bium") and "m" in (a.dtype.kind, b.dtype.kind):
        # Objects, where spans have no type in common; spans of no unit, before NumPy 2.5.
        sample = np.dot(np.zeros(1, a.dtype), np.zeros(1, b.dtype))
        dtype = np.result_type(sample) if isinstance(sample, np.generic) else np.dtype(object)
        a, b = astype(a, dtype), astype(b, dtype)
        if dtype.kind == "m":  # NaT is a number here, as in NumPy
            return tensordot(a.view(np.int64), b.view(np.int64), (first, second)).view(dtype)
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise ValueError("an axis can be summed over once only; axes= names one twice")
    labels = tuple(range(a.ndim))
    others = tuple([
        first[second.index(m)] if m in second else a.ndim + m for m in range(b.ndim)
    ])
    out = tuple([x for x in (*labels, *others) if x not in first])
    return Array(product(a.expr, labels, b.expr, others, out, _dtype(a, b)))


def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """Return sums of products over the last axes.

    Raises
    ------
    ValueError
        The lengths that are summed differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.inner(la.asarray([[1, 2], [3, 4]]), la.asarray([10, 1])).compute()
    array([12, 34])
    """
    a, b = as_array(a), as_array(b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return _summed(a, b, b.ndim - 1)


def outer(a: ArrayLike, b: ArrayLike, out: Array | None = None) -> Array:
    """Return the products of all elements of `a` with all of `b`.

    >>> import lazyflow.array as la
    >>> la.outer(la.arange(3), la.asarray([1, 10])).compute()
    array([[ 0,  0],
           [ 1, 10],
           [ 2, 20]])
    """
    return as_result((flat(a)[:, None] * flat(b)[None, :]).expr, out)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product: each element of `a` replaced by that element times `b`.

    >>> import lazyflow.array as la
    >>> la.kron(la.asarray([1, 10]), la.asarray([1, 2, 3])).compute()
    array([ 1,  2,  3, 10, 20, 30])
    """
    a, b = as_array(a), as_array(b)
    if not (a.ndim and b.ndim):
        return a * b
    resolve_lengths(a, b)
    n = max(a.ndim, b.ndim)
    x, y = [each[(None,) * (n - each.ndim)] for each in (a, b)]
    products = expand_dims(x, tuple(range(1, 2 * n, 2))) * expand_dims(y, tuple(range(0, 2 * n, 2)))
    return products.reshape([i * k for i, k in zip(x.shape, y.shape, strict=True)])


def vdot(a: ArrayLike, b: ArrayLike, /) -> Array:
    """Return the sum of products of the conjugate of `a` with `b`, both raveled.

    Raises
    ------
    ValueError
        The arrays have different numbers of elements.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.vdot(la.asarray([1j, 2]), la.asarray([1j, 3])).compute()
    np.complex128(7+0j)
    """
    a, b = as_array(a), as_array(b)
    if a.shape != b.shape:
        resolve_lengths(a, b)
        if a.size != b.size:
            raise ValueError(
                f"cannot take the product of vectors of {a.size} and {b.size} elements"
            )
        a, b = flat(a), flat(b)
    if "m" in (a.dtype.kind, b.dtype.kind):
        return tensordot(a, b, a.ndim)
    labels = tuple(range(a.ndim))
    return Array(product(_conjugate(a).expr, labels, b.expr, labels, (), _dtype(a, b)))


def vecdot(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None, *, axis: int = -1) -> Array:
    """Return sums of products of the conjugate of `x1` with `x2` along an axis.

    Raises
    ------
    ValueError
        An array has too few axes, or the lengths that are summed differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.vecdot(la.asarray([[1, 2], [3, 4]]), la.asarray([1, 1])).compute()
    array([3, 7])
    """
    a, b = as_array(x1), as_array(x2)
    _check_axes("vecdot", "(n),(n)->()", (a, 1), (b, 1))
    a, b = (_last(x, axis) for x in (a, b))
    _check_core(np.vecdot, a.shape[-1], b.shape[-1])
    broadcast_shape([a.shape[:-1], b.shape[:-1]])
    batch = tuple(range(max(a.ndim, b.ndim) - 1))
    first = (*batch[len(batch) - a.ndim + 1:], len(batch))
    second = (*batch[len(batch) - b.ndim + 1:], len(batch))
    made = product(_conjugate(a).expr, first, b.expr, second, batch, _dtype(a, b))
    return as_result(made, out)


def _last(x: Array, axis: int) -> Array:
    """Return an array with an axis at the end."""
    axis = axis_of(axis, x.ndim)
    return x.transpose((*[k for k in range(x.ndim) if k != axis], axis))


def matvec(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None) -> Array:
    """Return products of matrices, the last two axes, with vectors, the last axis.

    Raises
    ------
    TypeError
        `out` is no chunked array, or of a type that cannot hold the result.
    ValueError
        An array has too few axes, or the lengths that are summed differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.matvec(la.asarray([[1, 2], [3, 4]]), la.asarray([1, 1])).compute()
    array([3, 7])
    """
    a, b = as_array(x1), as_array(x2)
    _check_axes("matvec", "(m,n),(n)->(m)", (a, 2), (b, 1))
    return as_result(matmul(a, b[..., None])[..., 0].expr, out)


def vecmat(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None) -> Array:
    """Return products of conjugate vectors, the last axis, with matrices, the last two axes.

    Raises
    ------
    TypeError
        `out` is no chunked array, or of a type that cannot hold the result.
    ValueError
        An array has too few axes, or the lengths that are summed differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.vecmat(la.asarray([1, 1]), la.asarray([[1, 2], [3, 4]])).compute()
    array([4, 6])
    """
    a, b = as_array(x1), as_array(x2)
    _check_axes("vecmat", "(n),(n,m)->(m)", (a, 1), (b, 2))
    return as_result(matmul(_conjugate(a)[..., None, :], b)[..., 0, :].expr, out)


def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
    out: Array | None = None
) -> Array:
    """Return the sums along diagonals; parameters are those of ``np.trace``.

    Raises
    ------
    ValueError
        The array has fewer than two axes, or `axis1` is `axis2`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.trace(la.arange(9, chunks=4).reshape(3, 3)).compute()
    np.int64(12)
    """
    found = diagonal(as_array(a), offset, axis1, axis2)
    return totals.sum(found, -1, dtype, out)


def _cross_in_plane(x: Array, y: Array, axisc: int) -> Array:
    """Return the cross product where one vector or both have two elements."""
    dtype = np.promote_types(x.dtype, y.dtype)
    x, y = (astype(each, dtype) for each in (x, y))
    last: Array = x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    if x.shape[-1] == y.shape[-1]:
        return last
    if x.shape[-1] == 2:
        others = [x[..., 1] * y[..., 2], -(x[..., 0] * y[..., 2])]
    else:
        others = [-(x[..., 2] * y[..., 1]), x[..., 2] * y[..., 0]]
    return stack([*others, last], axis=axisc)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
    axis: int | None = None
) -> Array:
    """Return the cross product of vectors; parameters are those of ``np.cross``.

    Raises
    ------
    ValueError
        An array has no axis, or the lengths of the vectors are neither 2 nor 3.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.cross(la.asarray([1, 0, 0]), la.asarray([0, 1, 0])).compute()
    array([0, 0, 1])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    resolve_lengths(a, b)
    if not (np.ndim(a) and np.ndim(b)):
        raise ValueError("At least one array has zero dimension")
    x, y = _last(as_array(a), axisa), _last(as_array(b), axisb)
    if not x.shape[-1] == y.shape[-1] == 3:
        as_numpy_tells(np.cross, np.zeros(x.shape[-1]), np.zeros(y.shape[-1]))
        return _cross_in_plane(x, y, axisc)
    shape = broadcast_shape([x.shape, y.shape])
    nodes = [whole_along(broadcast_node(each.expr, shape), (len(shape) - 1,)) for each in (x, y)]
    layout = (*range(len(shape) - 1), (3,))
    made = Array(tree(NumpyOp(np.cross, ()), nodes, layout, np.result_type(x.dtype, y.dtype)))
    order = list(range(len(shape) - 1))
    order.insert(axis_of(axisc, len(shape)), len(shape) - 1)
    return made.transpose(order)
