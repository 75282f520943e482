"""Weights, means and squared deviations of columns, which can be merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ColumnMoments", "moments_of"]


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """What means and variances of columns are made of; ``+`` merges those of different rows.

    Attributes
    ----------
    rows : int
        The number of rows.
    weight : ndarray, shape (features,)
        The sum of the weights of the values that are not NaN.
    origin, offset : ndarray, shape (features,)
        A value of each column, and their mean less that; 0 where the weight is. Apart they keep
        the digits that a mean far from 0 would lose.
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
        """The mean of each column; 0 where there are no values.

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
