"""Rows, targets and oracles for tests of linear models: plain NumPy, without chunks or graphs."""

import warnings

import numpy as np
from scipy.special import log_softmax

from lazyflow.learn.data.inputs import RowChunk
from lazyflow.learn.data.rows import ClassTargets, NumberTargets, kept_rows
from lazyflow.learn.kernels.losses import LOGISTIC, SOFTMAX, SQUARES
from lazyflow.learn.solvers.problem import Problem

SYNC = {"scheduler": "sync"}
LOSSES = [LOGISTIC, SOFTMAX, SQUARES]
LOSS_NAMES = ["logistic", "softmax", "squares"]


def some_rows(n=60, d=4, seed=0):
    """Rows with a mean, and numbers to draw targets with."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) + np.arange(d) / 2, random


def labelled(n=60, d=4, K=2, seed=0):
    """Rows and labels 0 to K - 1 that no plane parts, all of them there."""
    X, random = some_rows(n, d, seed)
    scores = X @ random.normal(size=(d, K)) + random.gumbel(size=(n, K))
    y = scores.argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def numbered(n=60, d=4, t=None, seed=0):
    """Rows and one number for each, or t of them."""
    X, random = some_rows(n, d, seed)
    return X, X @ random.normal(size=(d, t or 1)).reshape((d, t) if t else d) + random.normal(
        size=(n, t) if t else n
    )


def targets_for(loss, n, random, K=3):
    """Encoded targets of a loss, and how many scores a row has."""
    if loss is LOGISTIC:
        return random.choice([-1.0, 1.0], (n, 1)), 1
    if loss is SOFTMAX:
        return random.integers(0, K, (n, 1)).astype(float), K
    return random.normal(size=(n, 2)), 2


def problem_of(loss, X, y, *, weight=None, l1=0.0, l2=0.1, free=True, sizes=None, run=SYNC):
    """A problem of rows with raw targets, cut into chunks that are not brought together."""
    edges = np.cumsum(sizes)[:-1] if sizes is not None else []
    weights = [None] * (len(edges) + 1) if weight is None else np.split(weight, edges)
    parts = [
        RowChunk(*each)
        for each in zip(np.split(X, edges), np.split(np.asarray(y), edges), weights, strict=True)
    ]
    targets = ClassTargets(np.unique(y))
    if loss is SQUARES:
        targets = NumberTargets(1 if np.ndim(y) == 1 else np.shape(y)[1])
    rows = kept_rows(parts, targets, run, join_small=False)
    return Problem(rows, loss, l1, l2, free, run)


def objective_of(loss, theta, X, y, *, weight=None, l1=0.0, l2=0.1):
    """The objective with raw targets, as it is written on paper."""
    X = np.asarray(X, float)
    scores = X @ theta[:, :-1].T + theta[:, -1]
    if loss is LOGISTIC:
        losses = np.logaddexp(0, -np.where(y == np.unique(y)[1], 1, -1) * scores[:, 0])
    elif loss is SOFTMAX:
        at = np.searchsorted(np.unique(y), y)
        losses = -log_softmax(scores, axis=1)[np.arange(len(X)), at]
    else:
        losses = 0.5 * ((scores - np.reshape(y, (len(X), -1))) ** 2).sum(axis=1)
    w = theta[:, :-1]
    return np.average(losses, weights=weight) + l2 / 2 * (w**2).sum() + l1 * abs(w).sum()


def theta_of(model):
    """Coefficients and intercepts of an estimator as one array."""
    coef = np.atleast_2d(model.coef_)
    return np.column_stack([coef, np.broadcast_to(model.intercept_, len(coef))])


def quiet(function, *args, **options):
    """Call a function whose warnings don't matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def cuts(n):
    """Sizes of chunks: a row each, 7, 777, uneven with an empty one, all."""
    def even(size):
        return [min(size, n - a) for a in range(0, n, size)]

    return [even(1), even(7), even(777), [n // 3, 0, 1, n - n // 3 - 1], [n]]
