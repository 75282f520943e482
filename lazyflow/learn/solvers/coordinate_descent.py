"""The elastic net by coordinate descent on the products of the features.

The rows are read once, for X'X and X'y; what follows costs d² for each pass over the
coefficients, whatever the number of rows. It ends by the duality gap.

J. Friedman, T. Hastie, R. Tibshirani, "Regularization paths for generalized linear models via
coordinate descent", J. Stat. Softw. 33 (2010), "covariance updates".
"""

import math

import numpy as np

from lazyflow.learn.kernels.compiling import compiled, kernel

__all__ = ["elastic_net"]

_UNINTERRUPTED = 10**8  # products, a tenth of a second: between such calls Ctrl-C is seen


def elastic_net(
    gram: np.ndarray, moments: np.ndarray, square: float, l1: float, l2: float, coef: np.ndarray,
    gap_tol: float, max_iter: int, positive: bool = False,
) -> tuple[np.ndarray, float, int]:
    """Minimise |y - X w|²/2 + l2/2 |w|² + l1 |w|_1; return (w, duality gap, passes).

    `gram` is X'X, `moments` X'y, `square` y'y; `coef` the start. It ends where the gap is at most
    `gap_tol`, or after `max_iter` passes over the coefficients. `positive`: w is at least 0, as
    `coef` has to be.

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
