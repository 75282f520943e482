"""Histograms, counts of integers, and values looked up in a table.

How many bins a histogram has by a rule of NumPy's depends on statistics that are computed now. The
rules are those of ``np.histogram_bin_edges``, whose documentation names their sources.

Each block is counted by itself, and the counts are added up: no state is kept.

    >>> import lazyflow.array as la
    >>> la.histogram(la.arange(10.0, chunks=4), 2)[0].compute()
    array([5, 5])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, pi, sqrt
from typing import Any

import numpy as np

from lazyflow.api import evaluate
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.differences import diff
from lazyflow.array.functions.elementwise import astype
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.functions.reductions import totals
from lazyflow.array.functions.reductions.quantiles import percentile
from lazyflow.array.kernels.native.counting import EvenBins, Numbers, count
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import TreeReduction, takes_split_every, tree

# -- how many bins a rule gives ----------------------------------------------------------------


_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "sturges")


def number_of_bins(x: Array, rule: str, limits: Any) -> int:
    """Return the number of bins by a rule for elements between limits; None: for all.

    Their extremes, and where the rule needs them their quartiles or moments, are computed now: the
    shape of a histogram depends on them.
    """
    if rule not in _RULES:
        more = "; of 'stone' all values are needed: x.compute()" if rule == "stone" else ""
        raise ValueError(f"{rule!r} is not a valid estimator for `bins`{more}")
    x = x.ravel()
    if limits is not None:
        low, high = limits
        x = x[(x >= low) & (x <= high)]
    if not x.size:
        return 1
    low, high = evaluate.compute(totals.min(x), totals.max(x))
    ptp = float(high) - float(low)
    width = _width(x, rule, ptp)
    if not width:
        return 1
    if x.dtype.kind in "iu":
        width = width if width > 1 else 1
    edges = np.histogram_bin_edges(np.array([low, high]), 1, limits)
    return ceil(float(edges[1] - edges[0]) / width)


def _width(x: Array, rule: str, ptp: float) -> float:
    n = x.size
    if rule == "sqrt":
        return ptp / sqrt(n)
    if rule == "sturges":
        return ptp / (log2(n) + 1)
    if rule == "rice":
        return ptp / (2 * n ** (1 / 3))
    if rule == "scott":
        return float((24 * pi ** 0.5 / n) ** (1 / 3) * x.std().compute())
    if rule == "doane":
        return _doane(x, n, ptp)
    third, first = percentile(x, [75, 25]).compute()
    fd = float(2 * (third - first) * n ** (-1 / 3))
    if rule == "fd":
        return fd
    corrected = np.maximum(fd, ptp / sqrt(n) / 2)  # as many bins at most as twice the root of n
    return float(np.minimum(corrected, ptp / (log2(n) + 1)))


def _doane(x: Array, n: int, ptp: float) -> float:
    if n <= 2:
        return 0.0
    deviation = x.std()
    if not (sigma := float(deviation.compute())):
        return 0.0
    skewness = abs(float((((x - x.mean()) / sigma) ** 3).mean().compute()))
    expected = sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    return ptp / (1 + log2(n) + log2(1 + skewness / expected))


range_ = range  # parameters are called as NumPy's

# -- histograms ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts(TreeReduction):
    """A histogram of each block, added up.

    bins
        The number of bins of equal width; None: edges are given, or there are several axes.
    count
        Of axes.
    weighted
        The last block is one of weights.
    dtype
        Of the result.
    """

    bins: int | None
    count: int
    weighted: bool
    dtype: Any

    __name__ = "histogram"

    def first(self, *given: Any) -> Any:
        sample, edges = [block.ravel() for block in given[: self.count]], given[-self.count:]
        weights = None
        if self.weighted:  # added up in double precision, as NumPy does, and cast at the end
            weights = given[self.count].ravel()
            weights = weights.astype(np.result_type(weights, float), copy=False)
        if weights is None or self.count > 1:  # NumPy adds those of one axis up in other pieces
            counted = count(sample, list(map(EvenBins, edges)), weights)
            if counted is not None:
                return counted[0].astype(np.intp if self.count == 1 else float, copy=False)
        if self.bins is not None:
            limits = edges[0][0], edges[0][-1]
            return np.histogram(sample[0], self.bins, limits, weights=weights)[0]
        if self.count == 1:
            return np.histogram(sample[0], edges[0])[0]
        return np.histogramdd(tuple(sample), edges, weights=weights)[0]

    def merge(self, parts: Sequence[Any]) -> Any:
        return sum(parts[1:], parts[0])

    def last(self, part: Any) -> Any:
        return part.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class WeightsBefore(TreeReduction):
    """The weights below each edge, for cases where NumPy takes the differences of these.

    In the type of the weights, so overflow and NaN continue into the bins above.
    """

    dtype: Any

    __name__ = "histogram"

    def first(self, block: Any, weights: Any, edges: Any) -> Any:
        found = np.zeros(edges.shape, self.dtype)
        if not block.size:  # NumPy adds no weights up then, of which some types can't be
            return found
        values = block.ravel()
        order = np.argsort(values)
        values = values[order]
        sums = np.concatenate([np.zeros(1, self.dtype), weights.ravel()[order].cumsum()])
        below = np.searchsorted(values, edges[:-1]), np.searchsorted(values, edges[-1:], "right")
        found += sums[np.concatenate(below)]
        return found

    def merge(self, parts: Sequence[Any]) -> Any:
        return sum(parts[1:], parts[0])

    def last(self, part: Any) -> Any:
        return np.diff(part)


@dataclass(frozen=True)
class Edges(TreeReduction):
    """Edges of bins over the range of the elements.

    several
        Edges as for several axes, where NumPy's for whole numbers differ.
    """

    bins: int
    several: bool

    __name__ = "histogram_bin_edges"

    def first(self, low: Any, high: Any) -> Any:
        values = np.array([low[()], high[()]], low.dtype)
        return _even_edges(values, self.bins, None, self.several)


def _even_edges(values: Any, bins: Any, limits: Any, several: bool) -> Any:
    """Return NumPy's edges of bins that are as wide, after its checks."""
    if several:
        return np.histogramdd(values[:, None], [bins], [limits])[1][0]
    return np.histogram_bin_edges(values, bins, limits)


def _refuse_text(bins: Any) -> None:
    if isinstance(bins, str):
        raise TypeError(
            f"bins={bins!r} would have to look at all values before the number of bins is known; "
            f"give a number of bins or edges, or compute them first: "
            f"bins=np.histogram_bin_edges(x.compute(), {bins!r})"
        )


def _limits(given: Any) -> Any:
    """Return the argument `range` as numbers, which NumPy's checks need now, or None."""
    if given is None:
        return None
    pair = tuple(given) if np.iterable(given) else ()
    if len(pair) != 2:
        raise ValueError(
            f"range= must be a pair of numbers, the lowest and the highest; got {given!r:.100}"
        )
    return evaluate.compute(*pair)


def _edges(
    node: Expr, bins: Any, limits: Any, several: bool = False
) -> tuple[Expr, int | None]:
    """Return the edges of bins, and the number of bins if all are as wide."""
    _refuse_text(bins)
    limits = _limits(limits)
    if isinstance(bins, Array) and bins.ndim:
        if bins.ndim != 1:
            raise ValueError("`bins` must be 1d, when an array")
        return bins.expr, None
    if np.ndim(bins) == 1:
        edges = np.asarray(bins)
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return as_node(edges), None
    bins = bins.compute() if isinstance(bins, Array) else bins
    edges = _even_edges(np.empty(0, node.dtype), bins, limits, several)
    if limits is not None or node.size == 0:
        return as_node(edges), int(bins)
    x = Array(node)
    low, high = totals.min(x).expr, totals.max(x).expr
    kind = _even_edges(np.ones(1, node.dtype), bins, None, several).dtype
    return tree(Edges(int(bins), several), [low, high], ((int(bins) + 1,),), kind), int(bins)


def _numbers(a: Any) -> Expr:
    node = as_node(a)
    return elementwise.cast(node, np.uint8) if node.dtype == bool else node


def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """Return the edges of the bins of a histogram; parameters are those of `histogram`.

    `weights` do not change them, as in NumPy.

    Raises
    ------
    TypeError
        `bins` is the name of a rule, and there are `weights`.
    ValueError
        `bins` don't increase, or have several axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.histogram_bin_edges(la.arange(10, chunks=3), bins=3).compute()
    array([0., 3., 6., 9.])
    """
    resolve_lengths(a)
    node = _numbers(a)
    edges, _ = _edges(node, _by_rule(node, bins, range, weights), range)
    return Array(edges)


def _by_rule(node: Expr, bins: Any, limits: Any, weights: Any) -> Any:
    """Return bins as they are, and the number of them that the name of a rule means."""
    if not isinstance(bins, str):
        return bins
    if weights is not None:
        raise TypeError(
            "Automated estimation of the number of bins is not supported for weighted data"
        )
    return number_of_bins(Array(node), bins, _limits(limits))


def histogram(
    a: ArrayLike, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Return how many elements fall into each bin, and the edges of the bins.

    Parameters are those of ``np.histogram``. The name of a rule as `bins`, such as ``"auto"``,
    computes the numbers for the rule now. Without `range`, the smallest and the largest element are
    found first, so blocks are read twice.

    Raises
    ------
    TypeError
        `bins` is the name of a rule, and there are `weights`.
    ValueError
        `bins` don't increase, or have several axes, or `weights` another shape.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> counts, edges = la.histogram(la.arange(10, chunks=3), bins=2)
    >>> counts.compute(), edges.compute()
    (array([5, 5]), array([0. , 4.5, 9. ]))
    """
    resolve_lengths(a, weights, bins)
    node = _numbers(a)
    edges, count = _edges(node, _by_rule(node, bins, range, weights), range)
    inputs = [node]
    if weights is not None:
        inputs.append(as_node(weights))
        if inputs[1].shape != node.shape:
            raise ValueError("weights should have the same shape as a.")
    dtype = np.dtype(np.intp) if weights is None else inputs[1].dtype
    op: TreeReduction = Counts(count, 1, weights is not None, dtype)
    if weights is not None and (count is None or not np.can_cast(dtype, complex)):
        op = WeightsBefore(dtype.newbyteorder("="))
        dtype = np.diff(np.zeros(1, op.dtype)).dtype
    (n,) = edges.shape
    assert n is not None
    counts = Array(tree(op, inputs, ((max(n - 1, 0),),), dtype, [edges]))
    if density:
        widths = astype(diff(Array(edges)), float)
        counts = counts / widths / totals.sum(counts)
    return counts, Array(edges)


def _sample(sample: Any) -> list[Expr]:
    """Return the coordinates of a sample, each with one axis."""
    if isinstance(sample, Array | np.ndarray):
        x = as_array(sample)
        if x.ndim == 1:
            return [x.expr]
        return [x[:, i].expr for i in range_(x.shape[1])]
    nodes = [as_node(each) for each in sample]
    if any(node.ndim != 1 or node.shape != nodes[0].shape for node in nodes):
        raise ValueError("the coordinates of a sample must be arrays of one axis and length")
    return nodes


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: ArrayLike | None = None
) -> tuple[Array, tuple[Array, ...]]:
    """Return a histogram of points of several coordinates.

    Parameters are those of ``np.histogramdd``.

    Parameters
    ----------
    sample
        An array of shape ``(points, coordinates)``, or a list of arrays, one for each coordinate.

    Raises
    ------
    TypeError
        `bins` is the name of a rule.
    ValueError
        `bins` or `range` doesn't have an entry for each coordinate, or these have other lengths.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> points = la.from_array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]], chunks=2)
    >>> counts, edges = la.histogramdd(points, bins=2)
    >>> counts.compute()
    array([[1., 0.],
           [0., 2.]])
    """
    resolve_lengths(sample, weights, *(sample if isinstance(sample, list | tuple) else ()))
    nodes = _sample(sample)
    common = np.result_type(*[node.dtype for node in nodes])
    nodes = [_numbers(Array(elementwise.cast(node, common))) for node in nodes]
    count = len(nodes)
    _refuse_text(bins)
    given = list(bins) if np.iterable(bins) else [bins] * count
    if len(given) != count:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * count if range is None else list(range)
    if len(ranges) != count:
        raise ValueError("range argument must have one entry per dimension")
    edges = [_edges(node, b, r, True)[0] for node, b, r in zip(nodes, given, ranges, strict=True)]
    inputs = [rechunk(node, nodes[0].chunks) for node in nodes]
    weighted = weights is not None and bool(nodes[0].size)  # of nothing, NumPy takes any weights
    if weighted:
        inputs.append(as_node(weights))
        weight = np.zeros(1, inputs[-1].dtype)
        np.histogramdd(np.zeros((1, 1)), 1, weights=weight)  # refuses, in its words
    op = Counts(None, count, weighted, np.dtype(float))
    sizes: Any = tuple([(made.shape[0] - 1,) for made in edges])  # type: ignore[operator]
    counts = Array(tree(op, inputs, sizes, float, edges))
    shown = tuple(map(Array, edges))
    if density:
        total = totals.sum(counts)
        for axis, axis_edges in enumerate(shown):
            key = tuple([slice(None) if k == axis else None for k in range_(count)])
            counts = counts / diff(axis_edges)[key]
        counts = counts / total
    return counts, shown


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: ArrayLike | None = None
) -> tuple[Array, Array, Array]:
    """Return a histogram of points in the plane; parameters are those of ``np.histogram2d``.

    Raises
    ------
    ValueError
        `bins` or `range` doesn't have two entries, or `x` and `y` have other lengths.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x, y = la.from_array([0, 1, 1, 2], chunks=2), la.from_array([0, 1, 1, 0], chunks=2)
    >>> counts, x_edges, y_edges = la.histogram2d(x, y, bins=[[0, 1, 3], [0, 1, 2]])
    >>> counts.compute()
    array([[1., 0.],
           [1., 2.]])
    """
    if np.iterable(bins) and len(bins) not in (1, 2):  # type: ignore[arg-type]
        bins = [bins, bins]
    found, (one, other) = histogramdd([x, y], bins, range, density, weights)
    return found, one, other


# -- counts of integers -------------------------------------------------------------------------


@dataclass(frozen=True)
class BinCount(TreeReduction):
    """Counts of each number from 0, added up."""

    least: int
    dtype: Any

    __name__ = "bincount"

    def first(self, block: Any, weights: Any = None) -> Any:
        counted = count([block], [Numbers(self.least)], weights) if self.least else None
        if counted is None or not counted[1]:
            above = int(block.max()) + 1 if block.size else 0
            counted = count([block], [Numbers(max(above, self.least))], weights)
        if counted is None or not counted[1]:  # there is no kernel, or a number below 0
            return np.bincount(block, weights, self.least).astype(self.dtype, copy=False)
        return counted[0]

    def merge(self, parts: Sequence[Any]) -> Any:
        found = np.zeros(max(map(len, parts)), parts[0].dtype)
        for part in parts:
            found[: len(part)] += part
        return found


@takes_split_every
def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> Array:
    """Return how often each whole number from 0 is there; parameters are those of ``np.bincount``.

    The length of the result is known after it was computed; before, only where the type of `x`
    holds no number of `minlength` or more.

    Raises
    ------
    ValueError
        `x` doesn't have exactly one axis, or `weights` have another length.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.bincount(la.from_array([0, 1, 1, 3], chunks=2)).compute()
    array([1, 2, 0, 1])
    """
    resolve_lengths(x, weights)
    node = as_node(x)
    if node.ndim != 1:
        raise ValueError("object too deep for desired array" if node.ndim else
                         "object of too small depth for desired array")
    inputs = [node]
    if weights is not None and node.size:  # NumPy counts nothing in whole numbers, without weights
        inputs.append(as_node(weights))
    one = [np.zeros(min(1, node.size or 0), each.dtype) for each in inputs]
    weight = one[1] if len(one) > 1 else None
    dtype = np.bincount(one[0], weight, minlength).dtype  # NumPy's checks
    if inputs[-1].shape != node.shape:
        raise ValueError("The weights and list don't have the same length.")
    largest = 1 if node.dtype.kind == "b" else np.iinfo(node.dtype).max
    n = minlength if largest < minlength else None
    return Array(tree(BinCount(minlength, dtype), inputs, ((n,),), dtype))


# -- tables -------------------------------------------------------------------------------------


def _looked_up(func: Any, x: Any, tables: Sequence[Any], dtype: Any, **keywords: Any) -> Array:
    resolve_lengths(*tables)
    node = as_node(x)
    layout = tuple(range_(node.ndim))
    op = NumpyOp(func, tuple(keywords.items()))
    return Array(tree(op, [node], layout, dtype, list(map(as_node, tables))))


def digitize(x: ArrayLike, bins: Any, right: bool = False) -> Array:
    """Return the number of the bin that each element is in.

    Parameters are those of ``np.digitize``.

    >>> import lazyflow.array as la
    >>> la.digitize(la.from_array([0.2, 6.4, 3.0], chunks=2), [0.0, 1.0, 2.5, 4.0]).compute()
    array([1, 4, 3])
    """
    if not isinstance(bins, Array):
        np.digitize(np.empty(0, as_node(x).dtype), bins, right)  # NumPy's checks
    return _looked_up(np.digitize, x, [bins], np.intp, right=bool(right))


def interp(
    x: ArrayLike, xp: Any, fp: ArrayLike, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Return values of the piecewise linear function through points.

    Parameters are those of ``np.interp``.

    >>> import lazyflow.array as la
    >>> la.interp(la.from_array([0.5, 2.5], chunks=1), [0, 1, 2, 3], [0, 10, 20, 30]).compute()
    array([ 5., 25.])
    """
    dtype = complex if as_node(fp).dtype.kind == "c" else float
    return _looked_up(np.interp, x, [xp, fp], dtype, left=left, right=right, period=period)
