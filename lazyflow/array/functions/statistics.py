"""How quantities vary together: covariances and correlations.

Means are subtracted before the products are made, so the data is read twice. The products of
variables are a contraction by blocks (nodes/contraction.py); transposed data is taken as it lies in
memory. Weights and their checks are NumPy's; of lazy weights only dtype and length are checked.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike, DTypeLike, as_array
from lazyflow.array.functions.creation import eye
from lazyflow.array.functions.einstein import product
from lazyflow.array.functions.elementwise import astype, conjugated, real, where
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.reductions import totals
from lazyflow.array.functions.reductions.means import mean
from lazyflow.array.nodes.views import View


def _observations(m: Any, rowvar: bool, dtype: np.dtype[Any]) -> Array:
    """Return the variables in rows."""
    x = astype(as_array(m), dtype)
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    if x.ndim == 0:
        x = x[None]
    if x.ndim == 1:
        return x[None]
    return x if rowvar else x.T


def _weights(given: Any, name: str, count: int) -> Array:
    w = as_array(given)
    if name == "fweights" and w.dtype.kind not in "iub" and (
        isinstance(given, Array) or not np.all(np.asarray(given) == np.around(given))
    ):
        raise TypeError("fweights must be integer")
    if w.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if w.shape[0] != count:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if not isinstance(given, Array) and np.any(np.asarray(given) < 0):
        raise ValueError(f"{name} cannot be negative")
    return astype(w, float)


def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False,
    ddof: Any = None, fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *,
    dtype: DTypeLike | None = None
) -> Array:
    """Return the covariances of variables; parameters are those of ``np.cov``.

    Raises
    ------
    RuntimeError
        Weights have another length, or several axes.
    TypeError
        `fweights` are no whole numbers.
    ValueError
        `m` has more than two axes, `ddof` is no whole number, or weights are negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.cov(la.asarray([[0., 1, 2], [2, 1, 0]])).compute()
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    resolve_lengths(m, y, fweights, aweights)
    if dtype is None:
        given = [as_node(a).dtype for a in (m, y) if a is not None]
        dtype = np.result_type(*given, np.float64)
    x = _observations(m, rowvar, np.dtype(dtype))
    if not x.shape[0]:
        return Array(as_node(np.zeros((0, 0))))  # as in NumPy, whatever the type and `y`
    if y is not None:
        other = _observations(y, rowvar, np.dtype(dtype))
        x = concatenate([x, other], axis=0)
    ddof = ddof if ddof is not None else int(not bias)
    count = x.shape[1]
    labels, axis = (0, 1), 1  # of the variables and of the observations
    if isinstance(x.expr, View) and x.expr.selection.axes == (1, 0):  # as they lie in memory
        x, labels, axis = x.T, (1, 0), 0
    weights = [
        _weights(w, name, count)
        for w, name in ((fweights, "fweights"), (aweights, "aweights")) if w is not None
    ]
    if not weights:
        if count - ddof <= 0:
            warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        scale: Any = max(count - ddof, 0)
        x = x - mean(x, axis, keepdims=True)
        right = x
    else:
        w = weights[0] * weights[1] if len(weights) > 1 else weights[0]
        total = totals.sum(w)
        scale = total - ddof
        if aweights is not None and ddof:
            scale = total - ddof * totals.sum(w * weights[-1]) / total
        scale = np.maximum(scale, 0)
        w = w if axis else w[:, None]
        x = x - totals.sum(x * w, axis, keepdims=True) / total
        right = x * w
    right = conjugated(right) if right.dtype.kind in "cO" else right
    others = tuple([label or 2 for label in labels])
    covariances = Array(product(x.expr, labels, right.expr, others, (0, 2), right.dtype))
    inverse: Any = np.true_divide(1, scale)
    covariances = covariances * (inverse if isinstance(inverse, Array) else float(inverse))
    return covariances[tuple([0 if n == 1 else slice(None) for n in covariances.shape])]


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Array:
    """Return the correlations of variables; parameters are those of ``np.corrcoef``.

    Raises
    ------
    ValueError
        `x` has more than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.corrcoef(la.asarray([[0.0, 1.0, 2.0], [5.0, 3.0, 1.0]])).compute().round(6)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    n = c.shape[0]
    on_diagonal = eye(n, dtype=bool, chunks=c.chunks)
    variances = totals.sum(where(on_diagonal, c, 0), 0)
    deviations = np.sqrt(real(variances))
    c = c / deviations[:, None]
    c = c / deviations[None, :]
    if c.dtype.kind == "c":
        return np.clip(c.real, -1, 1) + 1j * np.clip(c.imag, -1, 1)
    return np.clip(c, -1, 1)
