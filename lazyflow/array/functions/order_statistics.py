"""Medians and quantiles, exact: blocks see whole axes. Sorting and the largest elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import implements
from lazyflow.array.functions.extremes import result
from lazyflow.array.functions.nan_reductions import nanmean
from lazyflow.array.functions.scans import as_1d, flat
from lazyflow.array.functions.ufuncs import stretched
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.moments import axes_of, axis_of, keeps, without_empty
from lazyflow.array.nodes.tree import Op, kept_axes, tree, whole_along

_MISSING: Any = np._NoValue
_WITHOUT_NAN = (np.nanquantile, np.nanpercentile)


@dataclass(frozen=True)
class Along(Op):
    """A function of NumPy's applied along axes in one chunk.

    func
        Called with a block, `before` it the nodes that every task gets, and the keywords.
    """

    func: Any
    keywords: tuple[tuple[str, Any], ...]

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return str(self.func.__name__)

    def first(self, block: Any, *others: Any) -> Any:
        return np.asarray(self.func(block, *others, **dict(self.keywords)))


@dataclass(frozen=True)
class Quantiles(Op):
    """Quantiles along axes in one chunk.

    weighted
        Each block comes with one of weights.
    shape
        Of the places, which NumPy gets one after the other: with several axes its functions that
        leave NaN out mix the axes of others up.
    dtype
        Of the result: where all are NaN, NumPy's functions that leave these out give another.
    """

    func: Any
    keywords: tuple[tuple[str, Any], ...]
    weighted: bool
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return str(self.func.__name__)

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
    known(a)
    node = _with_elements(as_node(a))
    axes, own = _axes(axis, node.ndim)
    keepdims = keeps(keepdims)
    if not node.size and func is np.nanmedian:
        return nanmean(a, axis, out=out, keepdims=keepdims)
    dtype = func(np.ones((1,) * node.ndim, node.dtype), axis=own, keepdims=keepdims).dtype
    op = Along(func, (("axis", own), ("keepdims", keepdims)))
    layout = kept_axes(node.ndim, axes, keepdims)
    return result(tree(op, [whole_along(node, axes)], layout, dtype), out)


@implements(np.median)
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    keepdims: Any = False,
) -> Array:
    """Return the median over axes, exactly; `overwrite_input` changes nothing, as blocks are read.

    >>> import lazyflow.array as la
    >>> la.median(la.arange(10, chunks=3)).compute()
    np.float64(4.5)
    """
    return _median(np.median, a, axis, out, keepdims)


@implements(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    keepdims: Any = False,
) -> Array:
    """Return the median over axes of what is not NaN, exactly."""
    return _median(np.nanmedian, a, axis, out, keepdims)


def _quantile(
    func: Any, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any
) -> Array:
    known(a, weights)
    node = _with_elements(as_node(a))
    axes, own = _axes(axis, node.ndim)
    keepdims = keeps(keepdims)
    if isinstance(q, Array):
        raise TypeError(
            "q has to be known when the quantile is asked for; compute it first: q.compute()"
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
        weights = _weights(as_node(weights), node, axes)
    if node.dtype == bool and func not in _WITHOUT_NAN and 0 in [node.shape[k] for k in axes]:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")  # NumPy's
    # NumPy's checks of q and method, and its type of the result
    if not node.size and func in _WITHOUT_NAN:
        func(np.empty((1, 0), node.dtype), *others, **{**keywords, "axis": 0})
        return nanmean(a, axis, out=out, keepdims=keepdims)
    dtype = func(np.ones((1,) * node.ndim, node.dtype), *others, **keywords).dtype
    layout = (*[(n,) for n in np.shape(q)], *kept_axes(node.ndim, axes, keepdims))
    inputs = [whole_along(x, axes) for x in (node, *([] if weights is None else [weights]))]
    op = Quantiles(func, tuple(keywords.items()), weights is not None, np.shape(q), dtype)
    return result(tree(op, inputs, layout, dtype, list(map(as_node, others))), out)


def _weights(weights: Expr, node: Expr, axes: tuple[int, ...]) -> Expr:
    if weights.shape == node.shape:
        return weights
    if weights.shape != tuple([node.shape[k] for k in axes]):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    key = tuple([slice(None) if k in axes else None for k in range(node.ndim)])
    return stretched(Array(weights)[key].expr, node.shape)


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = False, *, weights: Any = None,
) -> Array:
    """Return quantiles over axes, exactly, by any of NumPy's methods."""
    return _quantile(np.quantile, a, q, axis, out, method, keepdims, weights)


@implements(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = False, *, weights: Any = None,
) -> Array:
    """Return quantiles over axes of what is not NaN, exactly, by any of NumPy's methods."""
    return _quantile(np.nanquantile, a, q, axis, out, method, keepdims, weights)


@implements(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = False, *, weights: Any = None,
) -> Array:
    """Return percentiles over axes, exactly: not the approximation that dask makes."""
    return _quantile(np.percentile, a, q, axis, out, method, keepdims, weights)


@implements(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = False, *, weights: Any = None,
) -> Array:
    """Return percentiles over axes of what is not NaN, exactly."""
    return _quantile(np.nanpercentile, a, q, axis, out, method, keepdims, weights)


# -- sorting ------------------------------------------------------------------------------------


def _sorted(func: Any, a: Any, axis: Any, dtype: Any, **keywords: Any) -> Array:
    known(a)
    if axis is None:
        a, axis = flat(a), 0
    node = as_node(a)
    axis = axis_of(axis, node.ndim)
    func(np.empty((1,) * node.ndim, node.dtype), axis=axis, **_harmless(keywords))
    keywords["axis"] = axis
    layout = tuple([(node.shape[k],) if k == axis else k for k in range(node.ndim)])
    op = Along(func, tuple(keywords.items()))
    return Array(tree(op, [whole_along(node, (axis,))], layout, dtype or node.dtype))


def _harmless(keywords: dict[str, Any]) -> dict[str, Any]:
    return {key: each if key != "kth" else 0 for key, each in keywords.items()}


def _order(order: Any) -> Any:
    return tuple(order) if isinstance(order, list) else order


@implements(np.sort)
def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Array:
    """Return the elements sorted along an axis, which becomes one chunk."""
    return _sorted(np.sort, a, axis, None, kind=kind, order=_order(order), stable=stable)


@implements(np.argsort)
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Array:
    """Return the places of elements in sorted order along an axis, which becomes one chunk."""
    a = as_1d(a, axis)
    return _sorted(np.argsort, a, axis, np.intp, kind=kind, order=_order(order), stable=stable)


def _kth(kth: Any, a: Any, axis: Any) -> Any:
    """Return `kth`, hashable, once it was found to be inside the axis."""
    node = as_node(a)
    known(a)
    n = as_node(a).size if axis is None else as_node(a).shape[axis_of(axis, node.ndim)]
    assert n is not None
    for each in np.atleast_1d(kth).tolist():
        if n and not -n <= each < n:  # of nothing there is nothing to put in order
            raise ValueError(f"kth(={each}) out of bounds ({n})")
    return tuple(kth) if np.ndim(kth) else operator.index(kth)


@implements(np.partition)
def partition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Array:
    """Return the elements with the `kth` smallest in their places; parameters as np.partition."""
    kth = _kth(kth, a, axis)
    return _sorted(np.partition, a, axis, None, kth=kth, kind=kind, order=_order(order))


@implements(np.argpartition)
def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Array:
    """Return the places of elements as `partition` orders them."""
    a = as_1d(a, axis)
    kth = _kth(kth, a, axis)
    return _sorted(np.argpartition, a, axis, np.intp, kth=kth, kind=kind, order=_order(order))


# -- the largest elements -----------------------------------------------------------------------


@dataclass(frozen=True)
class Top(Op):
    """The `k` largest elements along an axis, largest first; of -k the smallest, smallest first.

    places
        Where they are, instead of what they are.
    """

    k: int
    axis: int
    places: bool
    together: int = 16

    placed = True

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return "argtopk" if self.places else "topk"

    def first(self, where: Any, block: Any) -> Any:
        if not self.places:
            return self._best(block, None)
        shape = [1] * block.ndim
        shape[self.axis] = -1
        start = where.regions[self.axis]
        at = np.arange(start, start + block.shape[self.axis]).reshape(shape)
        return self._best(block, np.broadcast_to(at, block.shape))

    def merge(self, parts: Sequence[Any]) -> Any:
        every = [value for value, _ in parts]
        values = np.concatenate(every, self.axis, dtype=every[0].dtype)
        if not self.places:
            return self._best(values, None)
        return self._best(values, np.concatenate([at for _, at in parts], self.axis))

    def _best(self, values: Any, at: Any) -> Any:
        n = values.shape[self.axis]
        if n <= abs(self.k):
            return values, at
        kth, some = (-self.k, slice(-self.k, None)) if self.k > 0 else (
            -self.k - 1, slice(0, -self.k)
        )
        key = (*[slice(None)] * self.axis, some)
        if at is None:
            return np.partition(values, kth, self.axis)[key].copy(), None
        order = np.argpartition(values, kth, self.axis)[key]
        return (
            np.take_along_axis(values, order, self.axis), np.take_along_axis(at, order, self.axis)
        )

    def last(self, part: Any) -> Any:
        values, at = part
        if at is None:
            found = np.sort(values, self.axis)
        else:
            order = np.argsort(values, self.axis, kind="stable")
            found = np.take_along_axis(at, order, self.axis)
        return np.flip(found, self.axis) if self.k > 0 else found


def _top(a: Any, k: int, axis: int, split_every: Any, places: bool) -> Array:
    known(a)
    node = as_node(a)
    k = operator.index(k)
    if k == 0:
        raise ValueError("k must be a positive number, for the largest, or a negative one")
    axis = axis_of(axis, node.ndim)
    n: Any = node.shape[axis]
    layout = tuple([(min(n, abs(k)),) if i == axis else i for i in range(node.ndim)])
    dtype = np.dtype(np.intp) if places else node.dtype
    together = 16 if split_every is None else operator.index(split_every)
    if together < 2:
        raise ValueError(f"split_every must be 2 or more; got {split_every!r}")
    return Array(tree(Top(k, axis, places, together), [node], layout, dtype))


@implements()
def topk(a: Any, k: int, axis: int = -1, split_every: Any = None) -> Array:
    """Return the `k` largest elements along an axis, largest first; -k: the smallest.

    Parameters
    ----------
    a, k, axis
        As of ``dask.array.topk``; NaN is larger than any number.
    split_every
        How many neighbours are merged at a time; 16 if left out.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.topk(la.from_array([5, 1, 3, 6], chunks=2), 2).compute()
    array([6, 5])
    """
    return _top(a, k, axis, split_every, False)


@implements()
def argtopk(a: Any, k: int, axis: int = -1, split_every: Any = None) -> Array:
    """Return where the `k` largest elements along an axis are; parameters as of `topk`."""
    return _top(a, k, axis, split_every, True)
