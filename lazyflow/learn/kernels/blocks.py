"""How curved blocks of rows are: what bounds the steps of SAGA and SVRG.

A block of rows counts as one term of the mean. Its curvature is the largest eigenvalue of its
rows' products with each other, intercept included, which is far below the largest squared row:
4.7 beside 57 on 200,000 standardised rows of 50 features in blocks of 16.
"""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

__all__ = ["largest_curvature", "largest_row", "product_with_gram", "row_sums"]

_AT_ONCE = 1 << 8  # blocks whose rows and products are there at once, in the cache


def largest_curvature(
    X: np.ndarray, weight: np.ndarray | None, block: int, mean: np.ndarray, free: bool
) -> float:
    """Return the largest eigenvalue of Z_b Z_b' over the blocks b of rows of one chunk.

    Z is the rows less `mean`, and a column of ones where intercepts are `free`, multiplied by the
    roots of the weights. Only the few blocks are decomposed for which the Frobenius norms of the
    products and of their powers, bounds that cost a product each, are above what was found before.

    Examples
    --------
    >>> largest_curvature(np.array([[3.0], [1.0]]), None, 2, np.array([2.0]), free=True)
    2.0
    """
    best = 0.0
    rows, d = X.shape
    whole = rows // block * block
    shifted = mean.any()
    root = None if weight is None else np.sqrt(weight)
    spans = [(a, min(a + _AT_ONCE * block, whole)) for a in range(0, whole, _AT_ONCE * block)]
    if whole < rows:
        spans.append((whole, rows))
    for a, b in spans:
        Z = (X[a:b] - mean if shifted else X[a:b]).astype(np.float64, copy=root is not None)
        ones: Any = float(free)
        if root is not None:
            Z *= root[a:b, None]
            ones = ones * root[a:b]
        Z = Z.reshape(-1, min(block, b - a), d)
        products = Z @ Z.transpose(0, 2, 1)
        each = np.broadcast_to(ones, b - a).reshape(Z.shape[:2])
        products += each[:, :, None] * each[:, None, :]
        best = max(best, _largest_eigenvalue(products, best))
    return best


def _largest_eigenvalue(products: np.ndarray, best: float) -> float:
    """Return the largest eigenvalue of several matrices, if it is above `best`."""
    norms = _norms(products)
    if not np.isfinite(norms).all():  # squares of the rows overflow
        return math.inf
    best = max(best, float(np.linalg.eigvalsh(products[norms.argmax()])[-1]))
    products, norms = products[norms > best], norms[norms > best]
    powers = products / norms[:, None, None]
    for exponent in (2, 4):
        powers = powers @ powers
        near = norms * _norms(powers) ** (1 / exponent) > best
        products, norms, powers = products[near], norms[near], powers[near]
    if len(products):
        best = max(best, float(np.linalg.eigvalsh(products)[:, -1].max()))
    return best


def _norms(matrices: np.ndarray) -> np.ndarray:
    """Return the Frobenius norms of several matrices; none has a larger eigenvalue."""
    found: np.ndarray = np.sqrt(np.einsum("bij,bij->b", matrices, matrices))
    return found


def row_sums(X: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray]:
    """Return the sum of dense rows, with weights.

    Examples
    --------
    >>> row_sums(np.array([[3.0], [1.0]]), np.array([1.0, 2.0]))
    (array([5.]),)
    """
    weighted = X if weight is None else X * weight[:, None]
    return (weighted.sum(axis=0, dtype=np.float64),)


def largest_row(X: Any, weight: np.ndarray | None, free: bool) -> float:
    """Return the largest weight * (|row|² + 1 where intercepts are free) of one chunk.

    Examples
    --------
    >>> largest_row(np.array([[3.0], [1.0]]), None, free=True)
    10.0
    """
    squares = X.multiply(X) if issparse(X) else X * X
    norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel() + float(free)
    if weight is not None:
        norms *= weight
    return float(norms.max(initial=0.0))


def product_with_gram(
    X: Any, weight: np.ndarray | None, mean: np.ndarray, vector: np.ndarray
) -> tuple[np.ndarray]:
    """Return Z'Z times a vector (d + 1,), where Z is one chunk's rows less `mean`, and ones.

    Examples
    --------
    >>> product_with_gram(np.array([[3.0], [1.0]]), None, np.array([2.0]), np.array([1.0, 0.0]))
    (array([2., 0.]),)
    """
    scores = np.asarray(X @ vector[:-1]) - mean @ vector[:-1] + vector[-1]
    if weight is not None:
        scores = scores * weight
    total = scores.sum()
    return (np.append(np.asarray(X.T @ scores) - mean * total, total),)
