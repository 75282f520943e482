"""Arrays whose rows are cut alike, sums of small parts over their chunks, and moments to add up.

A task makes one small part of a chunk of rows, whatever type it has, and a tree of tasks adds the
parts up; one computation makes all parts, so the arrays' common inputs are computed once. Arrays
are rechunked like the first chunked one, which needs known lengths; if all lengths are unknown and
the numbers of chunks are equal, blocks go together by their number. Moments are kept relative to a
value of each column, so that a mean far from 0 costs no digits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from lazyflow import array as la
from lazyflow import compute, tree_reduce
from lazyflow.array import Array
from lazyflow.learn.data.inputs import is_chunked

# -- moments of columns -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Sums from which means and variances of columns follow; ``+`` merges those of other rows.

    Attributes
    ----------
    rows : int
        The number of rows.
    weight : ndarray, shape (features,)
        The sum of the weights of the values that are not NaN.
    origin, offset : ndarray, shape (features,)
        A value of each column, and the column's mean minus it (0 for weight 0). This keeps digits
        that a mean far from 0 would lose.
    squares : ndarray, shape (features,)
        The weighted sum of the squares of their deviations from the mean.

    Examples
    --------
    >>> both = moments_of(np.array([[1.0], [2.0]])) + moments_of(np.array([[6.0]]))
    >>> both.mean, both.squares
    (array([3.]), array([14.]))
    """

    rows: int
    weight: np.ndarray[Any, Any]
    origin: np.ndarray[Any, Any]
    offset: np.ndarray[Any, Any]
    squares: np.ndarray[Any, Any]

    @property
    def mean(self) -> np.ndarray[Any, Any]:
        """The mean of each column; 0 for columns without values.

        Examples
        --------
        >>> moments_of(np.array([[1.0, np.nan], [2.0, np.nan]])).mean
        array([1.5, 0. ])
        """
        return self.origin + self.offset

    def __add__(self, other: ColumnMoments) -> ColumnMoments:
        weight = self.weight + other.weight
        share = _divided(other.weight, weight)
        origin = np.where(self.weight != 0, self.origin, other.origin)
        apart = (other.origin - origin) + (other.offset - self.offset)
        return ColumnMoments(
            self.rows + other.rows, weight, origin, self.offset + apart * share,
            self.squares + other.squares + apart * apart * (self.weight * share),
        )


def moments_of(x: np.ndarray[Any, Any], weights: Any = None) -> ColumnMoments:
    """Return the moments of the columns of a block, in double precision; NaN are left out.

    Parameters
    ----------
    x : ndarray, shape (rows, features)
    weights : ndarray, shape (rows,), or None

    Examples
    --------
    >>> moments_of(np.array([[1.0, 5.0], [2.0, np.nan]])).weight
    array([2., 1.])
    """
    x = x.astype(np.float64)
    there = ~np.isnan(x)
    w = there.astype(np.float64) if weights is None else there * weights[:, None]
    if not len(x):
        return ColumnMoments(0, *np.zeros((4, x.shape[1])))
    # Deviations from a value of the column: equal values have a variance of 0, not of some eps.
    start = np.nan_to_num(x[there.argmax(axis=0), np.arange(x.shape[1])])
    x -= start
    x[~there] = 0
    weight = w.sum(axis=0)
    offset = _divided((w * x).sum(axis=0), weight)
    x -= offset
    x *= x
    x *= w
    return ColumnMoments(len(x), weight, np.where(weight != 0, start, 0), offset, x.sum(axis=0))


def _divided(x: np.ndarray[Any, Any], by: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return quotients, 0 where one divides by 0."""
    return np.divide(x, by, out=np.zeros(len(x)), where=by != 0)


# -- chunks of rows ---------------------------------------------------------------------------


def any_chunked(*arrays: Any) -> bool:
    """Tell whether one of some arrays is chunked, and refuse other lazy values.

    Raises
    ------
    TypeError
        An argument is a lazy value, or a list of lazy chunks, other than a chunked array.

    Examples
    --------
    >>> any_chunked([1, 2], la.arange(2)), any_chunked([1, 2], None)
    (True, False)
    """
    for x in arrays:
        if not isinstance(x, Array) and is_chunked(x):
            raise TypeError(
                f"a lazy value other than a chunked array ({type(x).__name__}) has no known shape: "
                "make an array of each, lazyflow.array.from_delayed(value, shape, dtype), and join "
                "them by lazyflow.array.concatenate([...]), or compute it first"
            )
    return any(isinstance(x, Array) for x in arrays)


def check_one_axis(weights: Any, rows: int | None) -> None:
    """Raise scikit-learn's ValueError for weights of rows that don't have one axis.

    Examples
    --------
    >>> check_one_axis(np.ones(3), 3)
    """
    if weights.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got {weights.ndim}D array. Expected "
            f"either a scalar value or a 1D array of length {rows}."
        )


def cut_alike(*arrays: Any) -> list[Any]:
    """Return arrays as chunked ones whose rows are cut as those of the first chunked one.

    Unknown lengths are computed, unless all arrays have unknown lengths and the same number of
    chunks: then the readers of the blocks check that they fit. None stays None.

    Parameters
    ----------
    *arrays
        Chunked arrays (at least one), arrays in memory, and None.

    Raises
    ------
    ValueError
        The numbers of rows differ.

    Examples
    --------
    >>> x, y, _ = cut_alike(la.arange(5, chunks=3), [1, 2, 3, 4, 5], None)
    >>> y.chunks
    ((3, 2),)
    """
    given: list[Any] = [
        x if isinstance(x, Array) or x is None else np.asarray(x) for x in arrays
    ]
    there = [x for x in given if x is not None]
    if all(isinstance(x, Array) and x.ndim and set(x.chunks[0]) == {None} for x in there) and (
        len({x.numblocks[0] for x in there}) == 1
    ):
        return given
    for x in there:
        if isinstance(x, Array):
            x.with_known_sizes()
    check_consistent_length(*given)
    rows = next(x.chunks[0] for x in there if isinstance(x, Array))
    return [x if x is None else in_chunks(x, rows) for x in given]


def in_chunks(x: Any, rows: Sequence[int]) -> Array:
    """Return an array whose rows are cut into chunks of these lengths.

    Examples
    --------
    >>> in_chunks(np.ones((3, 2)), (2, 1)).chunks
    ((2, 1), (2,))
    """
    if isinstance(x, Array):
        return x if x.chunks[0] == tuple(rows) else x.rechunk({0: tuple(rows)})
    return la.from_array(x, chunks=(tuple(rows), *x.shape[1:]))


def sum_of_parts(part: Callable[..., Any], *arrays: Array | None) -> Any:
    """Return the sum of what a function returns for the rows of each chunk, by one computation.

    Parameters
    ----------
    part
        Called with a block of each array, which has all columns; None for None. Its results are
        added by ``+``.
    *arrays
        Arrays cut alike, as by `cut_alike`.

    Examples
    --------
    >>> sum_of_parts(lambda x, w: x.sum(), la.arange(5, chunks=3), None)
    np.int64(10)
    """
    parts = _parts(part, arrays, "i", {"i": 1})
    return tree_reduce(operator.add, parts.to_delayed()).compute()[0]


def sums_by_column(part: Callable[..., Any], x: Array, *others: Array | None) -> list[Any]:
    """Return for each chunk of columns the sum of what a function returns for its blocks.

    Parameters
    ----------
    part
        Called with a block of each array. Its results are added by ``+``.
    x
        An array with two axes.
    *others
        Arrays with one axis whose rows are cut as those of `x`, and None.

    Examples
    --------
    >>> x = la.arange(6, chunks=3).reshape(3, 2).rechunk((2, 1))
    >>> sums_by_column(lambda block: block.sum(axis=0), x)
    [array([6]), array([9])]
    """
    parts = _parts(part, (x, *others), "ij", {"i": 1, "j": 1})
    sums = [tree_reduce(operator.add, column) for column in parts.to_delayed().T]
    return [each[0, 0] for each in compute(*sums)]


def _parts(
    part: Callable[..., Any], arrays: Sequence[Array | None], out: str, adjust: dict[str, int]
) -> Array:
    """Return an array with one part for each chunk, all of one expression: what the arrays have
    in common is computed once."""
    labelled: list[Any] = []
    for x in arrays:
        labelled += (None, None) if x is None else (x, "ij"[:x.ndim])
    return la.blockwise(
        partial(_boxed, part, len(out)), out, *labelled, name=part.__name__, dtype=object,
        adjust_chunks=adjust, align_arrays=False, concatenate=True,
    )


def _boxed(part: Callable[..., Any], ndim: int, *blocks: Any) -> np.ndarray[Any, Any]:
    box = np.empty((1,) * ndim, dtype=object)
    box[(0,) * ndim] = part(*blocks)
    return box
