"""What people write who compile: works on two arrays by NumPy's names, JAX and loops of Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

BLOCKS = 64  # of rows, that threads take


class Work(NamedTuple):
    """The work by the functions of a library, and as a loop over blocks on all threads."""

    by_names: Callable[[Any, Any, Any], Any]
    by_loop: Callable[[Any, Any], Any] | None = None


@njit(parallel=True, fastmath=True)
def _distance(x: Any, y: Any) -> float:  # pragma: no cover
    found = 0.0
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            found += (x[i, j] - y[i, j]) ** 2
    return found


@njit(parallel=True, fastmath=True)
def _curves(x: Any, y: Any) -> float:  # pragma: no cover
    found = 0.0
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            found += np.tanh(x[i, j]) * np.exp(-y[i, j] * y[i, j])
    return found


@njit(parallel=True, fastmath=True)
def _changes(x: Any, y: Any) -> float:  # pragma: no cover
    found = 0.0
    for i in prange(x.shape[0] - 1):
        for j in range(x.shape[1]):
            found += abs(x[i + 1, j] - x[i, j])
    return found / ((x.shape[0] - 1) * x.shape[1])


@njit(parallel=True)
def _added(x: Any, y: Any) -> Any:  # pragma: no cover
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + y[i, j] * 2
    return out


@njit(parallel=True, fastmath=True)
def _standardise(x: Any, y: Any) -> float:  # pragma: no cover
    n, size = x.shape[0], -(-x.shape[0] // BLOCKS)
    sums, squares = np.zeros((BLOCKS, x.shape[1])), np.zeros((BLOCKS, x.shape[1]))
    for b in prange(BLOCKS):
        for i in range(b * size, min(n, (b + 1) * size)):
            for j in range(x.shape[1]):
                sums[b, j] += x[i, j]
                squares[b, j] += x[i, j] * x[i, j]
    mean = sums.sum(0) / n
    spread = np.sqrt(squares.sum(0) / n - mean * mean)
    found = np.empty(BLOCKS)
    for b in prange(BLOCKS):
        most = -np.inf
        for i in range(b * size, min(n, (b + 1) * size)):
            for j in range(x.shape[1]):
                most = max(most, (x[i, j] - mean[j]) / spread[j])
        found[b] = most
    return found.max()


@njit(parallel=True)
def _largest_sum(x: Any, y: Any) -> float:  # pragma: no cover
    n, size = x.shape[0], -(-x.shape[0] // BLOCKS)
    sums = np.zeros((BLOCKS + 1, x.shape[1]))
    for b in prange(BLOCKS):
        for i in range(b * size, min(n, (b + 1) * size)):
            for j in range(x.shape[1]):
                sums[b + 1, j] += x[i, j]
    for b in range(BLOCKS):
        sums[b + 1] += sums[b]
    found = np.empty(BLOCKS)
    for b in prange(BLOCKS):
        most = -np.inf
        for i in range(b * size, min(n, (b + 1) * size)):
            for j in range(x.shape[1]):
                sums[b, j] += x[i, j]
                most = max(most, sums[b, j])
        found[b] = most
    return found.max()


WORKS = {
    "((x - y)**2).sum()": Work(lambda xp, x, y: ((x - y) ** 2).sum(), _distance),
    "standardise, max": Work(
        lambda xp, x, y: ((x - x.mean(0)) / x.std(0)).max(), _standardise),
    "(tanh(x) * exp(-y*y)).sum()": Work(
        lambda xp, x, y: (xp.tanh(x) * xp.exp(-y * y)).sum(), _curves),
    "abs(x[1:] - x[:-1]).mean()": Work(lambda xp, x, y: abs(x[1:] - x[:-1]).mean(), _changes),
    "x + y * 2, kept": Work(lambda xp, x, y: x + y * 2, _added),
    "x.T @ x": Work(lambda xp, x, y: x.T @ x),
    "x.cumsum(0).max()": Work(lambda xp, x, y: x.cumsum(0).max(), _largest_sum),
}


def by_jax(work: Work, x: Any, y: Any) -> Callable[[], Any]:
    """Return what runs a work by JAX, compiled, on arrays that it holds already."""
    import jax

    jax.config.update("jax_enable_x64", True)
    function = jax.jit(lambda x, y: work.by_names(jax.numpy, x, y))
    held = jax.numpy.asarray(x), jax.numpy.asarray(y)
    return lambda: np.asarray(function(*held))


class Close:
    """Equal to every array of about the same numbers."""

    __array_ufunc__ = None  # arrays leave comparing to it

    def __init__(self, right: Any) -> None:
        self.right = np.asarray(right)

    def __eq__(self, other: Any) -> bool:
        found = np.asarray(other)
        same_shape = found.shape == self.right.shape
        return same_shape and bool(np.allclose(found, self.right, rtol=1e-9, atol=1e-9))
