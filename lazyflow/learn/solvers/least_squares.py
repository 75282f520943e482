"""Least squares in one pass: R factors in a tree (TSQR), or products of features.

`r_factor`       of the rows [1, X, y] (with weights: their roots times them). A chunk is reduced
                 to its R factor, and the R factors of a few chunks to that of all of them. What
                 the ones take away is taken from X and y by the factorisation itself, so nothing
                 is centred before. It has twice the digits of the normal equations.
`feature_sums`   X'X, X'y and y'y of rows less their mean: half the work, and enough where a
                 penalty bounds the condition.

J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel and sequential QR and
LU factorizations", SIAM J. Sci. Comput. 34 (2012).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from scipy.sparse import issparse

from lazyflow import compute, delayed, tree_reduce
from lazyflow.api.progress_events import went_on
from lazyflow.array.nodes.blas_threads import share_of_threads
from lazyflow.learn.data.rows import Rows, tree_sum

__all__ = ["FeatureSums", "feature_sums", "least_squares", "ridge"]

_TILE = 2048  # rows that are decomposed at once
_ROUNDING = 8 * float(np.finfo(np.float64).eps)
_MANY = 1 << 10  # tasks, for which a product takes one thread of BLAS


def _stacked_r(*factors: np.ndarray) -> np.ndarray:
    """Return the R factor of R factors that stand on each other."""
    with share_of_threads(_MANY):
        factor: np.ndarray = np.linalg.qr(np.concatenate(factors), mode="r")  # type: ignore[assignment]
        return factor


@delayed
def _chunk_r(X: Any, y: np.ndarray, weight: np.ndarray | None, free: bool) -> np.ndarray:
    """Return the R factor of one chunk's rows [1, X, y]."""
    factor = np.zeros((0, int(free) + X.shape[1] + y.shape[1]))
    for start in range(0, len(y), _TILE):
        tile = slice(start, start + _TILE)
        rows = X[tile].toarray() if issparse(X) else X[tile]
        ones = np.ones((len(rows), int(free)))
        whole = np.concatenate([ones, rows, y[tile]], axis=1, dtype=np.float64)
        if weight is not None:
            whole *= np.sqrt(weight[tile, None])
        factor = _stacked_r(factor, whole)
    return factor


def least_squares(rows: Rows, free: bool, run: dict[str, Any]) -> tuple[np.ndarray, int, Any]:
    """Return (theta (K, d + 1), rank of the rows, singular values): no penalty.

    Of several minima that with the shortest coefficients, as scikit-learn's.

    Examples
    --------
    >>> from lazyflow.learn.solvers.problem import Problem
    >>> rows = Problem.of_squares([[1.0], [3.0]], [5, 9]).rows
    >>> theta, rank, _ = least_squares(rows, True, {})
    >>> theta.round(12), rank
    (array([[2., 3.]]), 1)
    """
    factors = [_chunk_r(*chunk, free) for chunk in rows.chunks]
    (factor,) = compute(tree_reduce(_stacked_r, factors, split_every=8), **run)
    went_on(1)
    d, first = rows.n_features, int(free)
    own = factor[first:first + d, first:first + d]
    right = factor[first:first + d, first + d:]
    if free:
        own = _without_rounding(own, factor[0, 1:1 + d], rows.n)
    coef, _, rank, singular = lstsq(own, right, cond=np.finfo(np.float64).eps * max(rows.n, d))
    coef[~own.any(axis=0)] = 0.0  # the shortest; rounding leaves some, which large constants raise
    theta = np.zeros((right.shape[1], d + 1))
    theta[:, :-1] = coef.T
    if free:
        theta[:, -1] = (factor[0, 1 + d:] - factor[0, 1:1 + d] @ coef) / factor[0, 0]
    return theta, int(rank), singular


def _without_rounding(own: np.ndarray, means: np.ndarray, n: int) -> np.ndarray:
    """Return the R factor with zeros for constant features, of which rounding leaves a little.

    Measured is a little less than 3 eps sqrt(n) of what is taken away. As large as a feature, where
    the constant is large, it would get a coefficient.
    """
    apart = abs(own).max(axis=0, initial=0.0)  # a norm might overflow
    constant = apart <= _ROUNDING * np.sqrt(n) * abs(means)
    return np.where(constant, 0.0, own)


class FeatureSums(NamedTuple):
    """Sums over rows less their mean, with weights.

    gram, moments, squares
        X'X (d, d), X'y (d, K) and y'y (K,).
    mean, target
        What was taken from X (d,) and from y (K,): 0 without intercepts.

    Examples
    --------
    >>> FeatureSums(np.eye(1), np.ones((1, 1)), np.ones(1), np.zeros(1), np.zeros(1)).mean
    array([0.])
    """

    gram: np.ndarray
    moments: np.ndarray
    squares: np.ndarray
    mean: np.ndarray
    target: np.ndarray


@delayed
def _target_sum(y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray]:
    return (y.sum(axis=0) if weight is None else weight @ y,)


@delayed
def _products(
    X: Any, y: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X'X, X'y and y'y of one chunk less the means, in tiles that stay in the cache."""
    d = X.shape[1]
    gram, moments, squares = np.zeros((d, d)), np.zeros((d, y.shape[1])), np.zeros(y.shape[1])
    with share_of_threads(_MANY):
        for start in range(0, len(y), _TILE):
            tile = slice(start, start + _TILE)
            rows = (X[tile].toarray() if issparse(X) else X[tile]) - mean
            aim = y[tile] - target
            if weight is not None:
                root = np.sqrt(weight[tile, None])
                rows, aim = rows * root, aim * root
            gram += rows.T @ rows
            moments += rows.T @ aim
            squares += (aim**2).sum(axis=0)
    return gram, moments, squares


def feature_sums(rows: Rows, free: bool, run: dict[str, Any]) -> FeatureSums:
    """Add up products of features and targets over all rows.

    Examples
    --------
    >>> from lazyflow.learn.solvers.problem import Problem
    >>> rows = Problem.of_squares([[1.0], [3.0]], [5, 9]).rows
    >>> feature_sums(rows, True, {}).gram
    array([[2.]])
    """
    mean, target = np.zeros(rows.n_features), np.zeros(rows.targets.outputs)
    if free:
        (total,) = compute(
            tree_sum([_target_sum(chunk.y, chunk.weight) for chunk in rows.chunks]), **run
        )[0]
        mean, target = rows.mean, total / rows.total
    gram, moments, squares = compute(
        tree_sum([_products(*chunk, mean, target) for chunk in rows.chunks]), **run
    )[0]
    went_on(1)
    if not (np.isfinite(gram).all() and np.isfinite(moments).all()):
        raise ValueError(
            "products of the features and of y overflow float64: the largest mean of a feature is "
            f"{abs(rows.mean).max():.2g}. Scale X and y, as by StandardScaler, or leave out the "
            "rows that are so large"
        )
    return FeatureSums(gram, moments, squares, mean, target)


def ridge(sums: FeatureSums, alpha: np.ndarray) -> np.ndarray:
    """Return theta (K, d + 1) that minimises |y - X w|^2 + alpha |w|^2; a positive one for each K.

    Examples
    --------
    >>> sums = FeatureSums(np.eye(1), np.full((1, 1), 4.0), np.ones(1), np.zeros(1), np.ones(1))
    >>> ridge(sums, np.array([1.0]))
    array([[2., 1.]])
    """
    d, K = sums.moments.shape
    coef = np.empty((K, d))
    for k in range(K):
        matrix = sums.gram + alpha[k] * np.eye(d)
        try:
            coef[k] = cho_solve(cho_factor(matrix), sums.moments[:, k])
        except LinAlgError:  # a penalty that rounding hides
            coef[k] = lstsq(matrix, sums.moments[:, k])[0]
    return np.column_stack([coef, sums.target - coef @ sums.mean])
