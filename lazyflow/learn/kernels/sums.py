"""Loss, gradient and Hessian of one chunk, summed over its rows.

Dense rows are read once: all results of a tile are computed while it is in the cache. Sums are
float64, also those of float32 rows.

Functions of their arguments only: there is no state.

    >>> scores_of(np.array([[3.0, 1.0]]), np.array([[1.0], [2.0]]))
    array([[4.],
           [7.]])
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from lazyflow.array.nodes.blas_threads import MANY, share_of_threads
from lazyflow.learn.kernels.losses import Loss, curved_rows, moved_sums

_TILE_BYTES = 1 << 18  # of rows: half of a second-level cache, whatever the number of features
#: Of rows with their curvatures, for one product: sixteen threads queue for the GIL at each call.
_CURVED_BYTES = 1 << 21


class RowSample(NamedTuple):
    """One of every `of` neighbouring rows of a chunk, drawn by the chunk's number.

    Examples
    --------
    >>> RowSample(4, 0).rows_of(12)
    array([ 0,  4, 10])
    """

    of: int
    chunk: int

    def rows_of(self, rows: int) -> np.ndarray | None:
        """Return the numbers of the rows, None for all.

        Examples
        --------
        >>> RowSample(1, 0).rows_of(12)
        """
        if self.of == 1:
            return None
        starts = np.arange(0, rows, self.of)
        random = np.random.Generator(np.random.Philox(key=self.chunk))
        chosen = starts + random.integers(self.of, size=len(starts))
        found: np.ndarray = np.minimum(chosen, rows - 1)
        return found


ALL_ROWS = RowSample(1, 0)


def scores_of(theta: np.ndarray, X: Any) -> np.ndarray:
    """Return the scores (rows, K) of rows X (rows, d); `theta` is (K, d + 1), intercepts last.

    Examples
    --------
    >>> scores_of(np.array([[2.0, 1.0]]), np.array([[3.0]]))
    array([[7.]])
    """
    weights = theta[:, :-1].T
    if not issparse(X):
        weights = weights.astype(X.dtype, copy=False)
    return np.asarray(X @ weights, dtype=np.float64) + theta[:, -1]


def _tiles(X: Any) -> Iterator[slice]:
    """Yield slices of rows; of a sparse matrix one, since cutting it costs more than reading."""
    rows, d = X.shape
    tile = rows if issparse(X) else max(_TILE_BYTES // max(d * X.dtype.itemsize, 1), 64)
    for start in range(0, rows, max(tile, 1)):
        yield slice(start, min(start + tile, rows))


def loss_sums(
    loss: Loss, theta: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None
) -> tuple[float, np.ndarray]:
    """Return the loss of one chunk and its gradient (K, d + 1), summed over rows with weights.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> loss_sums(SQUARES, np.zeros((1, 2)), np.array([[3.0]]), np.array([[1.0]]), None)
    (0.5, array([[-3., -1.]]))
    """
    if loss.dense_sums is not None and not issparse(X):
        value, flat = loss.dense_sums(theta[0], X, y[:, 0], weight)
        return float(value), flat[None]
    total, gradient = 0.0, np.zeros(theta.shape)
    with share_of_threads(MANY):
        for tile in _tiles(X):
            rows = X if issparse(X) else X[tile]
            losses, residual = loss.residuals(scores_of(theta, rows), y[tile])
            if weight is not None:
                losses, residual = losses * weight[tile], residual * weight[tile, None]
            total += float(losses.sum())
            gradient[:, :-1] += (rows.T @ residual.astype(X.dtype, copy=False)).T
            gradient[:, -1] += residual.sum(axis=0)
    return total, gradient


def hessian_sums(
    loss: Loss, theta: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None,
    sample: RowSample = ALL_ROWS,
) -> tuple[float, np.ndarray]:
    """Return weight and Hessian (K, d + 1, K, d + 1) of a sample of one chunk, summed over rows.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import LOGISTIC
    >>> X, y = np.array([[3.0]]), np.array([[1.0]])
    >>> hessian_sums(LOGISTIC, np.zeros((1, 2)), X, y, None)[1].reshape(2, 2)
    array([[2.25, 0.75],
           [0.75, 0.25]])
    """
    K, p = theta.shape
    if K == 1 and _is_of_one_score(loss, X):
        total, matrix, _ = mean_curvature(loss, theta, X, y, weight, sample)
        return total, matrix[None, :, None]
    hessian = np.zeros((K, p, K, p))
    total = 0.0
    with share_of_threads(MANY):
        for extended, curved, weights in _curved_tiles(loss, theta, X, y, weight, sample):
            total += weights
            for k in range(K):
                scaled = extended * np.sqrt(curved[:, k, k, None])
                hessian[k, :, k] += scaled.T @ scaled  # half the work of two factors
                for m in range(k + 1, K):
                    part = extended.T @ (extended * curved[:, k, m, None])
                    hessian[k, :, m] += part
                    hessian[m, :, k] += part
    return total, hessian


def mean_curvature(
    loss: Loss, theta: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None,
    sample: RowSample,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return of a sample of one chunk: weight, mean of the K Hessians (d + 1, d + 1) of a score
    each, and the sum of the squares of what makes their diagonals: all summed over rows.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> X, y = np.array([[3.0]]), np.array([[1.0]])
    >>> mean_curvature(SQUARES, np.zeros((1, 2)), X, y, None, ALL_ROWS)
    (1.0, array([[9., 3.],
           [3., 1.]]), array([81.,  1.]))
    """
    p = theta.shape[1]
    total, matrix, fourth = 0.0, np.zeros((p, p)), np.zeros(p)
    with share_of_threads(MANY):
        if _is_of_one_score(loss, X):
            X, _, weight = _sampled(sample, X, y, weight)
            tile = max(_CURVED_BYTES // (8 * p), 64)
            for low in range(0, len(X), tile):
                rows = X[low : low + tile]
                some = None if weight is None else weight[low : low + tile]
                weights, scaled, more = curved_rows(loss.kind, theta[0], rows, some)
                total, fourth = total + weights, fourth + more
                matrix += scaled.T @ scaled
            return total, matrix, fourth
        for extended, curved, weights in _curved_tiles(loss, theta, X, y, weight, sample):
            total += weights
            mean = np.trace(curved, axis1=1, axis2=2) / len(theta)
            scaled = extended * np.sqrt(mean[:, None])
            matrix += scaled.T @ scaled
            squares = scaled * scaled
            fourth += (squares * squares).sum(axis=0)
    return total, matrix, fourth


def _is_of_one_score(loss: Loss, X: Any) -> bool:
    """Tell whether rows are dense, and their curvature by a score is that by any other."""
    return not issparse(X) and loss.separate


def _sampled(
    sample: RowSample, X: Any, y: np.ndarray, weight: np.ndarray | None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    chosen = sample.rows_of(X.shape[0])
    if chosen is None:
        return X, y, weight
    return X[chosen], y[chosen], None if weight is None else weight[chosen]


def _curved_tiles(
    loss: Loss, theta: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None,
    sample: RowSample,
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield rows with a last column of ones, their curvatures with weights, and total weights."""
    X, y, weight = _sampled(sample, X, y, weight)
    for tile in _tiles(X):
        rows = X.toarray() if issparse(X) else X[tile]
        extended = np.empty((len(rows), theta.shape[1]))
        extended[:, :-1], extended[:, -1] = rows, 1.0
        curved = loss.curvatures(scores_of(theta, rows), y[tile])
        if weight is not None:
            curved = curved * weight[tile, None, None]
        yield extended, curved, float(len(rows) if weight is None else weight[tile].sum())


def slopes_of(loss: Loss, theta: np.ndarray, X: Any, y: np.ndarray) -> np.ndarray:
    """Return the derivatives (rows, K) of each row's loss by its scores.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> slopes_of(SQUARES, np.zeros((1, 2)), np.array([[3.0]]), np.array([[1.0]]))
    array([[-1.]])
    """
    with share_of_threads(MANY):
        return loss.residuals(scores_of(theta, X), y)[1]


def smallest_margin(
    loss: Loss, theta: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None
) -> float:
    """Return the smallest margin of a row's own class above the others, of rows with weight.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import LOGISTIC
    >>> X, y = np.array([[3.0], [1.0]]), np.array([[1.0], [-1.0]])
    >>> smallest_margin(LOGISTIC, np.array([[1.0, -2.0]]), X, y, None)
    1.0
    """
    margins = loss.margins(scores_of(theta, X), y)
    if weight is not None:
        margins = margins[weight > 0]
    return float(margins.min(initial=np.inf))


# -- of scores that are kept: nothing reads X -----------------------------------------------------


def intercept_sums(
    loss: Loss, shift: np.ndarray, scores: np.ndarray, y: np.ndarray, weight: np.ndarray | None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return loss, gradient (K,) and Hessian (K, K) by a shift of the scores of all rows.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> intercept_sums(SQUARES, np.zeros(1), np.array([[3.0]]), np.array([[1.0]]), None)
    (2.0, array([2.]), array([[1.]]))
    """
    if len(shift) == 1 and loss.separate:
        found, gradient, curvature = moved_sums(
            loss.kind, shift[0], scores[:, 0], y[:, 0], weight)
        return found, np.array([gradient]), np.array([[curvature]])
    moved = scores + shift
    losses, residual = loss.residuals(moved, y)
    curved = loss.curvatures(moved, y)
    if weight is None:
        return float(losses.sum()), residual.sum(axis=0), curved.sum(axis=0)
    return float(losses @ weight), weight @ residual, np.tensordot(weight, curved, 1)


def dual_sum(
    loss: Loss, factor: float, scores: np.ndarray, y: np.ndarray, weight: np.ndarray | None
) -> float:
    """Return the sum of minus the conjugate losses at `factor` times the derivatives.

    Examples
    --------
    >>> from lazyflow.learn.kernels.losses import SQUARES
    >>> dual_sum(SQUARES, 1.0, np.array([[3.0]]), np.array([[1.0]]), None)
    -4.0
    """
    found = loss.dual(scores, y, factor)
    return float(found.sum() if weight is None else found @ weight)
