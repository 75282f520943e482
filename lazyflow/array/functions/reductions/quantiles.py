"""Medians and quantiles, exact: blocks see whole axes, or elements are selected by counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import known
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
from lazyflow.array.functions.reductions.without_nan import nanmean
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    TreeReduction,
    axes_of,
    keeps,
    kept_axes,
    tree,
    whole_along,
    without_empty,
)

# -- order statistics ---------------------------------------------------------------------
#
# Medians and quantiles of all elements: only what lies near the wanted ones is sorted.
#
# A sample gives bounds that a wanted element lies between, but once in many millions of times.
# Blocks count what is below and up to them, then give what is between. Where the counts show that
# the element is elsewhere, they give everything.

_PAYS = 1 << 18  # elements
_MOST = 8  # quantiles, for each of which blocks are read twice
_SAMPLE = 1 << 15  # elements, about
_FAR = 3.0  # bounds from a place, in roots of the sample's size: six standard deviations or more

#: The parameters alpha and beta of continuous methods (Hyndman and Fan 1996).
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0), "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
_ROUNDED: dict[str, Any] = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}


@dataclass(frozen=True)
class Median:
    """Which elements a median is made of, by their places among all that are sorted, and how."""

    def places(self, n: int) -> tuple[int, ...]:
        """Return the places in `n` elements, one or two."""
        return (n // 2,) if n % 2 else (n // 2 - 1, n // 2)

    def value(self, n: int, found: np.ndarray[Any, Any]) -> Any:
        """Return what NumPy makes of the elements at these places."""
        return np.median(found)


@dataclass(frozen=True)
class Quantile(Median):
    """A quantile, computed as NumPy does, to give the same bits.

    form
        What NumPy gets a place as: a Python number counts as of the array's own type.
    """

    q: Any
    form: Any
    method: str

    def _place(self, n: int) -> Any:
        if self.method in _CONTINUOUS:
            alpha, beta = _CONTINUOUS[self.method]
            return float(n * self.q + (alpha + self.q * (1 - alpha - beta)) - 1)
        place = (n - 1) * self.q
        if self.method == "midpoint":
            return 0.5 * (np.floor(place) + np.ceil(place))
        return int(_ROUNDED[self.method](place)) if self.method in _ROUNDED else place

    def places(self, n: int) -> tuple[int, ...]:
        place = self._place(n)
        if isinstance(place, int | np.integer):
            return (int(place),)
        low = min(max(int(np.floor(place)), 0), n - 1)
        return low, low if place < 0 else min(low + 1, n - 1)

    def value(self, n: int, found: np.ndarray[Any, Any]) -> Any:
        if len(found) == 1:
            return found[0]
        return np.asarray(np.quantile(found, self.form(self._place(n) % 1))).item(0)


@dataclass(frozen=True)
class _Step(TreeReduction):
    """A step towards the elements that are wanted.

    size
        How many elements there are.
    skips
        NaN are left out; otherwise all that is wanted is NaN if there is one.
    """

    __name__ = "quantiles"
    wanted: tuple[Median, ...]
    size: int
    skips: bool

    def count(self, seen: Any) -> int:
        """Return how many elements count; 0 if the result is NaN."""
        missing = int(seen[-1, 0])
        return 0 if missing and not self.skips else self.size - missing


class _Bounds(_Step):
    """Pairs of elements that those that are wanted lie between, probably."""

    def first(self, block: Any) -> Any:
        rng = np.random.default_rng(0)
        count = -(-_SAMPLE * block.size // self.size)
        found = block[tuple([rng.integers(n, size=count) for n in block.shape])]
        return found[found == found]

    def merge(self, parts: Sequence[Any]) -> Any:
        return np.concatenate(parts)

    def last(self, part: Any) -> Any:
        sample, n = np.sort(part), len(part)
        bounds = np.array([_everything(part.dtype)] * len(self.wanted), part.dtype)
        for each, pair in zip(self.wanted if n else (), bounds, strict=False):
            places, far = each.places(n), int(_FAR * n**0.5) + 1
            if places[0] >= far:
                pair[0] = sample[places[0] - far]
            if places[-1] + far < n:
                pair[1] = sample[places[-1] + far]
        return bounds


class _Counts(_Step):
    """How many elements are below bounds, and up to them; last how many are NaN."""

    def first(self, block: Any, bounds: Any) -> Any:
        count = np.count_nonzero
        missing = count(block != block) if block.dtype.kind == "f" else 0
        found = [(count(block < low), count(block <= high)) for low, high in bounds]
        return np.array([*found, (missing, 0)])

    def merge(self, parts: Sequence[Any]) -> Any:
        return np.sum(parts, axis=0)


@dataclass(frozen=True)
class _Values(_Step):
    """The result: first what lies between bounds, all where these were missed."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def first(self, block: Any, bounds: Any, seen: Any) -> Any:
        found = []
        for (low, high), start in zip(bounds, self._starts(seen), strict=True):
            if start is None:
                low, high = _everything(block.dtype)
            is_one = start is not None and low == high  # it stands for all that equal it
            found.append(np.array([low]) if is_one else block[(block >= low) & (block <= high)])
        return [seen, *found]

    def _starts(self, seen: Any) -> list[int | None]:
        """Return how many elements are below the bounds that hold what is wanted."""
        n = self.count(seen)
        return [
            int(below) if n and below <= min(each.places(n)) and max(each.places(n)) < upto
            else None for each, (below, upto) in zip(self.wanted, seen[:-1], strict=True)
        ]

    def merge(self, parts: Sequence[Any]) -> Any:
        return [parts[0][0], *map(np.concatenate, list(zip(*parts, strict=True))[1:])]

    def last(self, part: Any) -> Any:
        seen, *kept = part
        n, found = self.count(seen), []
        for each, near, start in zip(self.wanted, kept, self._starts(seen), strict=True):
            places = np.minimum(np.array(each.places(n)) - (start or 0), len(near) - 1)
            found.append(each.value(n, np.partition(near, places)[places]) if n else np.nan)
        if not n and self.skips:
            np.nanmedian(np.full(1, np.nan))  # warns
        return np.array(found).astype(self.dtype).reshape(self.shape)


def _everything(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return bounds that all elements lie between."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def quantiles_of(q: Any, method: str, per: int) -> list[Median] | None:
    """Return quantiles, of which `per` make a whole; None: NumPy does others than this module."""
    form = float if type(q) in (int, float) else np.atleast_1d if np.ndim(q) else np.float64
    places = np.asarray(q) if per == 1 else np.true_divide(q, per)
    known = method in _CONTINUOUS or method in _ROUNDED or method in ("linear", "midpoint")
    if not known or places.dtype not in (np.dtype(int), np.dtype(float)):
        return None
    return [Quantile(each, form, method) for each in places.ravel()]


def of_whole(
    node: Expr, wanted: Sequence[Median] | None, skips: bool, shape: tuple[int, ...], dtype: Any
) -> Expr | None:
    """Return quantiles of all elements of a node, or None where that does not pay."""
    kinds = "iuf" if wanted and type(wanted[0]) is Median else "iud"
    size: Any = node.size
    if not wanted or len(wanted) > _MOST or prod(node.numblocks) < 2 or size < _PAYS:
        return None
    if node.dtype.kind not in kinds and node.dtype.char not in kinds:
        return None
    step = tuple(wanted), size, skips
    pairs = ((len(wanted),), (2,)), ((len(wanted) + 1,), (2,))
    bounds = tree(_Bounds(*step), [node], pairs[0], node.dtype.newbyteorder("="))
    seen = tree(_Counts(*step), [node], pairs[1], np.intp, [bounds])
    last = _Values(*step, shape, np.dtype(dtype))
    return tree(last, [node], tuple([(n,) for n in shape]), dtype, [bounds, seen])


@dataclass(frozen=True)
class Quantiles(NumpyOp):
    """Quantiles along axes in one chunk.

    weighted
        Each block comes with one of weights.
    shape
        Of the places, which NumPy gets one after the other: with several axes its functions that
        leave NaN out mix the axes of others up.
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
    known(a)
    node = _with_elements(as_node(a))
    axes, own = _axes(axis, node.ndim)
    keepdims = keeps(keepdims)
    if not node.size and func is np.nanmedian:
        return nanmean(a, axis, out=out, keepdims=keepdims)
    check_out(func, node.dtype, out)
    dtype = func(np.ones((1,) * node.ndim, node.dtype), axis=own, keepdims=keepdims).dtype
    if len(axes) == node.ndim:
        shape = (1,) * node.ndim if keepdims else ()
        whole = of_whole(node, [Median()], func is np.nanmedian, shape, dtype)
        if whole is not None:
            return as_result(whole, out, "unsafe")
    op = NumpyOp(func, (("axis", own), ("keepdims", keepdims)))
    return as_result(over_axes(op, [node], axes, keepdims, dtype), out, "unsafe")


def median(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median over axes, exactly.

    Axes become one chunk; of all elements of a large array only those near the median do.
    Parameters are those of ``np.median``; blocks are only read, whatever `overwrite_input` says.

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
    known(a, weights)
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
    if len(axes) == node.ndim and weights is None:
        per = 100 if func in (np.percentile, np.nanpercentile) else 1
        shape = (*np.shape(q), *(1,) * (len(layout) - np.ndim(q)))
        wanted = quantiles_of(q, method, per)
        whole = of_whole(node, wanted, func in _WITHOUT_NAN, shape, dtype)
        if whole is not None:
            return as_result(whole, out)
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

    Axes become one chunk; of all elements of a large array only those near quantiles do.
    Parameters are those of ``np.quantile``, with all of its methods; `q` must not be lazy.
    `interpolation` is the old name of `method`. dask's `internal_method` is accepted: "dask" and
    "tdigest" are approximations, which are not made.

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

    >>> import lazyflow.array as la
    >>> la.nanpercentile(la.asarray([1.0, np.nan, 3.0]), [0, 50]).compute()
    array([1., 2.])
    """
    method = _method(method, interpolation, internal_method)
    return _quantile(np.nanpercentile, a, q, axis, out, method, keepdims, weights)


_WITHOUT_NAN = (np.nanquantile, np.nanpercentile)
