"""Least squares in one pass: R factors in a tree (TSQR), or products of features.

`r_factor`       of the rows [1, X, y] (with weights: their roots times them). A chunk is reduced
                 to its R factor, and the R factors of a few chunks to that of all of them. The
                 factorisation itself removes the part of X and y along the ones, so nothing is
                 centred before. It has twice the digits of the normal equations.
`feature_sums`   X'X, X'y and y'y of rows less their mean: half the work, and enough where a
                 penalty bounds the condition.
`elastic_net`    by coordinate descent on these products: each pass over the d coefficients costs
                 d², whatever the number of rows. It ends by the duality gap.

J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel and sequential QR and
LU factorizations", SIAM J. Sci. Comput. 34 (2012). J. Friedman, T. Hastie, R. Tibshirani,
"Regularization paths for generalized linear models via coordinate descent", J. Stat. Softw. 33
(2010), "covariance updates".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from scipy.sparse import issparse

from lazyflow import compute, delayed, tree_reduce
from lazyflow.api.progress_events import went_on
from lazyflow.array.nodes.blas_threads import MANY, share_of_threads
from lazyflow.learn.data.rows import Rows, tree_sum
from lazyflow.learn.kernels.primitives import compiled, kernel

_TILE = 2048  # rows that are decomposed at once; a guess
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


def _stacked_r(*factors: np.ndarray) -> np.ndarray:
    """Return the R factor of R factors that stand on each other."""
    with share_of_threads(MANY):
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

    Of several minima it is the one with the shortest coefficients, as scikit-learn's.

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
        The means that were subtracted from X (d,) and y (K,): 0 without intercepts.

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
    with share_of_threads(MANY):
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


# -- coordinate descent -----------------------------------------------------------------------

_UNINTERRUPTED = 10**8  # products, a tenth of a second: between such calls Ctrl-C is seen


def elastic_net(
    gram: np.ndarray, moments: np.ndarray, square: float, l1: float, l2: float, coef: np.ndarray,
    gap_tol: float, max_iter: int, positive: bool = False,
) -> tuple[np.ndarray, float, int]:
    """Minimise |y - X w|²/2 + l2/2 |w|² + l1 |w|_1; return (w, duality gap, passes).

    `gram` is X'X, `moments` X'y, `square` y'y; `coef` the start. It ends where the gap is at most
    `gap_tol`, or after `max_iter` passes over the coefficients. `positive`: w stays at least 0;
    `coef` must be so, too.

    Examples
    --------
    >>> elastic_net(np.eye(1), np.array([3.0]), 9.0, 1.0, 0.0, np.zeros(1), 1e-9, 100)
    (array([2.]), 0.0, 1)
    """
    at_once = max(_UNINTERRUPTED // len(coef) ** 2, 1)
    w, gap, passes = coef, math.inf, 0
    while passes < max_iter and gap > gap_tol:
        count = min(at_once, max_iter - passes)
        w, gap, done = _some_passes(gram, moments, square, l1, l2, w, gap_tol, count, positive)
        passes += done
    return w, gap, passes


@kernel
def _some_passes(
    gram: np.ndarray, moments: np.ndarray, square: float, l1: float, l2: float, coef: np.ndarray,
    gap_tol: float, max_iter: int, positive: bool,
) -> tuple[np.ndarray, float, int]:
    w = coef.copy()
    least = -np.inf if positive else -l1  # of what becomes 0
    d = len(w)
    slope = moments - gram @ w  # X'(y - X w)
    gap = np.inf
    passes = 0
    while passes < max_iter and gap > gap_tol:
        passes += 1
        for j in range(d):
            curved = gram[j, j] + l2
            if curved <= 0.0:
                continue
            along = slope[j] + gram[j, j] * w[j]
            to = (along - min(max(along, least), l1)) / curved
            change = to - w[j]
            if change != 0.0:
                w[j] = to
                for k in range(d):
                    slope[k] -= change * gram[j, k]
        gap = _gap(w, slope, moments, square, l1, l2, positive)
    return w, gap, passes


@compiled
def _gap(
    w: np.ndarray, slope: np.ndarray, moments: np.ndarray, square: float, l1: float, l2: float,
    positive: bool,
) -> float:
    """Return the gap of the better of two dual points.

    One is the residual, shrunk into what l1 allows; the l2 penalty counts as rows of the data,
    sqrt(l2) times the identity, with targets 0. The other is the residual as it is, which the
    conjugate of an l2 penalty allows: without l1 the first is shrunk to 0, and says nothing.
    Where w is at least 0, slopes below 0 are allowed by both.
    """
    residual = square - w @ moments - w @ slope  # |y - X w|^2
    largest, absolute, norm, beyond = 0.0, 0.0, 0.0, 0.0
    for j in range(len(w)):
        inner = slope[j] - l2 * w[j]
        largest = max(largest, inner if positive else abs(inner))
        absolute += abs(w[j])
        norm += w[j] * w[j]
        beyond += max((slope[j] if positive else abs(slope[j])) - l1, 0.0) ** 2
    whole = residual + l2 * norm
    factor = min(1.0, l1 / largest) if largest > 0.0 else 1.0
    aimed = square - w @ moments  # (y - X w)'y
    gap = 0.5 * whole + l1 * absolute + 0.5 * factor * factor * whole - factor * aimed
    if l2 > 0.0:
        gap = min(gap, l1 * absolute + 0.5 * l2 * norm + 0.5 * beyond / l2 - w @ slope)
    return gap
