"""Medians and quantiles, exact: tasks see whole axes, or find elements by their rank.

Short axes become one chunk, which NumPy's function sees whole. Long axes, and large arrays over all
axes, go to `by_rank` (ranks.py), where no task holds all elements: up to 8 quantiles of numbers are
selected one by one, more are taken from sorted chunks. NumPy's rules between two elements hold to
the bit. Quantiles with `weights` always see whole axes. `q` is needed at the call, so a lazy one is
refused. dask's approximations are accepted by name and not made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    Axes,
    as_result,
    broadcast_node,
    changes_nothing,
    check_out,
)
from lazyflow.array.functions.one_chunk import NumpyOp, over_axes
from lazyflow.array.functions.reductions.means import spread_weights
from lazyflow.array.functions.reductions.ranks import MOST, Median, Quantile, by_rank
from lazyflow.array.functions.reductions.without_nan import nanmean
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    axes_of,
    keeps,
    kept_axes,
    reduced_shape,
    tree,
    whole_along,
    without_empty,
)


@dataclass(frozen=True)
class Quantiles(NumpyOp):
    """Quantiles along axes in one chunk.

    weighted
        Each block comes with one of weights.
    shape
        Of the places. NumPy gets them along one axis: if they had several, its functions that leave
        NaN out would mix up the axes of the result.
    dtype
        Of the result: where all are NaN, NumPy's functions that leave these out give another.
    """

    weighted: bool
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def first(self, block: Any, *others: Any) -> Any:
        options = dict(self.keywords)
        if self.weighted:
            options["weights"], *others = others  # type: ignore[assignment]
        found = np.asarray(self.func(block, *others, **options)).astype(self.dtype, copy=False)
        return found.reshape(*self.shape, *found.shape[1:]) if self.shape else found


# -- medians and quantiles ----------------------------------------------------------------------


def _axes(axis: Any, ndim: int) -> tuple[tuple[int, ...], Any]:
    """Return the axes of a reduction, and what to call NumPy's function with."""
    axes = axes_of(axis, ndim, as_1d=False)
    return axes, (axes[0] if len(axes) == 1 else axes)


def _with_elements(node: Expr) -> Expr:
    """Return a node without blocks that have no elements, of which NumPy makes other things."""
    return without_empty(node, tuple(range(node.ndim)))


def _median(func: Any, a: Any, axis: Any, out: Any, keepdims: Any) -> Array:
    resolve_lengths(a)
    node = _with_elements(as_node(a))
    axes, own = _axes(axis, node.ndim)
    keepdims = keeps(keepdims)
    if not node.size and func is np.nanmedian:
        return nanmean(a, axis, out=out, keepdims=keepdims)
    check_out(func, node.dtype, out)
    dtype = func(np.ones((1,) * node.ndim, node.dtype), axis=own, keepdims=keepdims).dtype
    shape = reduced_shape(node, axes, keepdims)
    found = by_rank(node, axes, [Median()], func is np.nanmedian, shape, dtype)
    if found is not None:
        return as_result(found, out, "unsafe")
    op = NumpyOp(func, (("axis", own), ("keepdims", keepdims)))
    return as_result(over_axes(op, [node], axes, keepdims, dtype), out, "unsafe")


def median(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median over axes, exactly.

    Short axes become one chunk; of long ones no task holds all elements. Parameters are those of
    ``np.median``; blocks are only read, whatever `overwrite_input` says.

    >>> import lazyflow.array as la
    >>> la.median(la.arange(10, chunks=3)).compute()
    np.float64(4.5)
    """
    return _median(np.median, a, axis, out, keepdims)


def nanmedian(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median over axes of what is not NaN, exactly.

    >>> import lazyflow.array as la
    >>> la.nanmedian(la.asarray([1.0, np.nan, 3.0])).compute()
    np.float64(2.0)
    """
    return _median(np.nanmedian, a, axis, out, keepdims)


def _quantile(
    func: Any, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any
) -> Array:
    resolve_lengths(a, weights)
    node = _with_elements(as_node(a))
    axes, own = _axes(axis, node.ndim)
    keepdims = keeps(keepdims)
    if isinstance(q, Array):
        raise TypeError(
            "q is needed now and must not be lazy; compute it first: q.compute()"
        )
    keywords: dict[str, Any] = {"axis": own, "method": method, "keepdims": keepdims}
    others = []
    if isinstance(q, int | float):  # of which NumPy thinks as of the array's own type
        keywords["q"] = q
    else:
        q = np.asarray(q)
        others = [q.ravel() if q.ndim else q]
    if weights is not None:
        if method != "inverted_cdf":
            raise ValueError(
                f"Only method 'inverted_cdf' supports weights. Got: {method}."
            )
        weights = broadcast_node(spread_weights(as_node(weights), node, axis), node.shape)
    if node.dtype == bool and func not in _WITHOUT_NAN and 0 in [node.shape[k] for k in axes]:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")  # NumPy's
    # NumPy's checks of q and method, and its type of the result
    if not node.size and func in _WITHOUT_NAN:
        func(np.empty((1, 0), node.dtype), *others, **{**keywords, "axis": 0})
        return nanmean(a, axis, out=out, keepdims=keepdims)
    dtype = func(np.ones((1,) * node.ndim, node.dtype), *others, **keywords).dtype
    layout = (*[(n,) for n in np.shape(q)], *kept_axes(node.ndim, axes, keepdims))
    if weights is None:
        plain = _WITHOUT_NAN.get(func, func)
        if np.size(q) > MOST:
            places: list[Any] = [tuple(others[0])]
        elif np.ndim(q):
            places = [(place,) for place in others[0]]  # each is selected by itself
        else:
            places = [q[()] if others else q]
        wanted = [Quantile(plain, place, method, node.dtype) for place in places]
        shape = (*np.shape(q), *reduced_shape(node, axes, keepdims))
        selected = by_rank(node, axes, wanted, func in _WITHOUT_NAN, shape, dtype)
        if selected is not None:
            return as_result(selected, out)
    inputs = [whole_along(x, axes) for x in (node, *([] if weights is None else [weights]))]
    op = Quantiles(func, tuple(keywords.items()), weights is not None, np.shape(q), dtype)
    return as_result(tree(op, inputs, layout, dtype, list(map(as_node, others))), out)


def _method(method: str, interpolation: str | None, internal_method: str | None) -> str:
    """Return the rule between two elements, of all keywords that name it."""
    if internal_method not in (None, "default", "dask", "tdigest"):
        raise ValueError(
            f"internal_method must be 'default', 'dask' or 'tdigest'; got {internal_method!r}"
        )
    if internal_method in ("dask", "tdigest"):
        changes_nothing("internal_method=", "quantiles are those of the whole array, exactly")
    if interpolation is not None and method != "linear":
        raise TypeError("method= and interpolation=, its old name, were both given: pass one")
    return method if interpolation is None else interpolation


def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Array | None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None, interpolation: str | None = None,
    internal_method: str | None = None,
) -> Array:
    """Return quantiles over axes, exactly.

    Short axes become one chunk; of long ones no task holds all elements, but with `weights`.
    Parameters are those of ``np.quantile``, with all of its methods; `q` must not be lazy.
    `interpolation` is the old name of `method`. dask's `internal_method` is accepted: "dask" and
    "tdigest" are approximations, which are not made.

    Raises
    ------
    IndexError
        The array is boolean, and has no elements along the axis.
    TypeError
        `q` is lazy.
    ValueError
        `q` is out of range, or there is no such `method`, or none that takes `weights`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.quantile(la.arange(11, chunks=4), 0.25).compute()
    np.float64(2.5)
    >>> la.quantile(la.ones((3, 4), chunks=2), [0.1, 0.9], axis=0).shape
    (2, 4)
    """
    method = _method(method, interpolation, internal_method)
    return _quantile(np.quantile, a, q, axis, out, method, keepdims, weights)


def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Array | None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None, interpolation: str | None = None,
    internal_method: str | None = None,
) -> Array:
    """Return quantiles over axes of what is not NaN, exactly; parameters are those of `quantile`.

    Raises
    ------
    TypeError
        `q` is lazy.
    ValueError
        `q` is out of range, or there is no such `method`, or none that takes `weights`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.nanquantile(la.asarray([1.0, np.nan, 3.0]), 0.5).compute()
    np.float64(2.0)
    """
    method = _method(method, interpolation, internal_method)
    return _quantile(np.nanquantile, a, q, axis, out, method, keepdims, weights)


def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Array | None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None, interpolation: str | None = None,
    internal_method: str | None = None,
) -> Array:
    """Return percentiles over axes, exactly; parameters are those of `quantile`.

    They are those of the whole array, not approximations of those of blocks as dask's.

    Raises
    ------
    IndexError
        The array is boolean, and has no elements along the axis.
    TypeError
        `q` is lazy.
    ValueError
        `q` is out of range, or there is no such `method`, or none that takes `weights`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.percentile(la.arange(101, chunks=30), [5, 95]).compute()
    array([ 5., 95.])
    """
    method = _method(method, interpolation, internal_method)
    return _quantile(np.percentile, a, q, axis, out, method, keepdims, weights)


def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Array | None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None, interpolation: str | None = None,
    internal_method: str | None = None,
) -> Array:
    """Return percentiles over axes of what is not NaN, exactly; parameters are those of `quantile`.

    Raises
    ------
    TypeError
        `q` is lazy.
    ValueError
        `q` is out of range, or there is no such `method`, or none that takes `weights`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.nanpercentile(la.asarray([1.0, np.nan, 3.0]), [0, 50]).compute()
    array([1., 2.])
    """
    method = _method(method, interpolation, internal_method)
    return _quantile(np.nanpercentile, a, q, axis, out, method, keepdims, weights)


#: Functions that leave NaN out, and what they do with the rest.
_WITHOUT_NAN: dict[Any, Any] = {np.nanquantile: np.quantile, np.nanpercentile: np.percentile}
