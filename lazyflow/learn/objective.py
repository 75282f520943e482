"""The penalised objective that solvers minimise, and the one-against-rest loss of a chunk."""

import numpy as np
from scipy.special import expit

__all__ = ["logistic_loss_and_gradient", "penalised"]


def logistic_loss_and_gradient(
    theta: np.ndarray, X: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the logistic loss of one chunk, each class against the rest, and its gradient.

    `theta` is (K, d + 1) with the intercepts last, `X` (rows, d), `labels` (rows,) from 0 to
    K - 1. The loss is a sum over rows and classes.

    >>> loss, gradient = logistic_loss_and_gradient(
    ...     np.zeros((2, 2)), np.array([[3.0]]), np.array([1])
    ... )
    >>> print(round(loss, 4), gradient.tolist())
    1.3863 [[1.5, 0.5], [-1.5, -0.5]]
    """
    sign = np.where(labels[:, None] == np.arange(len(theta)), 1.0, -1.0)
    margin = sign * (X @ theta[:, :-1].T + theta[:, -1])
    slope = -sign * expit(-margin)
    loss = np.logaddexp(0.0, -margin).sum()
    return float(loss), np.column_stack([slope.T @ X, slope.sum(axis=0)])


def penalised(
    loss: float, gradient: np.ndarray, theta: np.ndarray, n: int, penalty: float
) -> tuple[float, np.ndarray]:
    """Return loss / n + penalty / 2 * |W|² and its gradient; W is `theta` without intercepts.

    Examples
    --------
    >>> theta = np.array([[2.0, 5.0]])  # one weight, one intercept
    >>> penalised(8.0, np.array([[4.0, 4.0]]), theta, n=4, penalty=0.5)
    (3.0, array([[2., 1.]]))
    """
    weights = theta.copy()
    weights[:, -1] = 0.0
    return loss / n + penalty / 2 * float((weights**2).sum()), gradient / n + penalty * weights
