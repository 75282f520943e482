"""Steps of SAGA through rows of sparse chunks: a step touches only the features that a row has.

The average gradient and the penalty are dense. A row takes its share of them for its own features
only, multiplied by how rarely those are present (`rarity`), so that a step is right on average: the
sparse variant of Leblond, Pedregosa and Lacoste-Julien, "ASAGA: asynchronous parallel SAGA",
AISTATS 2017. The lagged updates of other programs need sums that grow with the number of steps;
this needs no state beside SAGA's own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.learn.kernels.addresses import (
    Addresses,
    addresses_of,
    chunk_of,
    numbers_at,
    rows_at,
)
from lazyflow.learn.kernels.dense_steps import StepSizes
from lazyflow.learn.kernels.slopes import compiled, kernel, write_slopes

__all__ = ["sparse_steps"]


class _SparseRows(NamedTuple):
    """The data, the indices and the pointers of matrices in CSR format."""

    data: Addresses
    indices: Addresses
    pointers: Addresses


@compiled
def _step_of_row(
    kind: int, theta: np.ndarray, average: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray], y: np.ndarray, i: int,
    weight: float, table: np.ndarray, seen: int, rarity: np.ndarray, sizes: StepSizes,
    scores: np.ndarray, fresh: np.ndarray,
) -> None:
    """Take the step of row `i`, whose slopes are in row `seen` of the table."""
    K, d = len(theta), len(rarity)
    data, indices, pointers = rows
    for k in range(K):
        score = theta[k, d]
        for at in range(pointers[i], pointers[i + 1]):
            score += data[at] * theta[k, indices[at]]
        scores[k] = score
    write_slopes(kind, scores, y, i, fresh)
    for k in range(K):
        new = weight * (fresh[k] - table[seen, k])
        table[seen, k] = fresh[k]
        for at in range(pointers[i], pointers[i + 1]):
            j = indices[at]
            moved = new * data[at]
            dense = rarity[j] * (average[k, j] + sizes.l2 * theta[k, j])
            to = theta[k, j] - sizes.step * (sizes.per_block * moved + dense)
            threshold = sizes.step * rarity[j] * sizes.l1
            theta[k, j] = to - min(max(to, -threshold), threshold)
            average[k, j] += sizes.per_weight * moved
        along = sizes.per_block * new + average[k, d]
        theta[k, d] -= sizes.free * sizes.step * along
        average[k, d] += sizes.per_weight * new


def sparse_steps(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: Sequence[Any],
    starts: np.ndarray, block: int, rarity: np.ndarray, sizes: StepSizes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take a step for each row of blocks; return (theta, table, average), new arrays.

    As `lazyflow.learn.kernels.dense_steps.dense_steps`, with X in CSR format; `rarity` (d,) is the
    number of rows divided by the number of those that have each feature.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> theta, table, average = sparse_steps(
    ...     0, np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2)),
    ...     [(csr_array([[2.0]]), np.array([[1.0]]), None)], np.array([0]), 1, np.ones(1),
    ...     StepSizes(0.1, 0.0, 0.0, 1.0, 1.0, 1.0),
    ... )
    >>> theta, table
    (array([[0.1 , 0.05]]), array([[-0.5]]))
    """
    Xs, ys, weights = zip(*chunks, strict=True)
    places = np.result_type(*[each for X in Xs for each in (X.indices, X.indptr)])
    parts = [
        (X.data, X.indices.astype(places, copy=False), X.indptr.astype(places, copy=False))
        for X in Xs
    ]
    data, indices, pointers = map(addresses_of, zip(*parts, strict=True))
    found: tuple[np.ndarray, np.ndarray, np.ndarray] = _steps(
        kind, theta, table, average, _SparseRows(data, indices, pointers), addresses_of(ys),
        addresses_of(weights), starts, block, rarity, sizes,
    )
    return found


@kernel
def _steps(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: _SparseRows,
    ys: Addresses, weights: Addresses, starts: np.ndarray, block: int, rarity: np.ndarray,
    sizes: StepSizes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    theta, table, average = theta.copy(), table.copy(), average.copy()
    scores, fresh = np.empty(len(theta)), np.empty(len(theta))
    _take_steps(
        kind, theta, table, average, chunks, ys, weights, starts, block, rarity, sizes, scores,
        fresh,
    )
    return theta, table, average


@compiled
def _take_steps(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: _SparseRows,
    ys: Addresses, weights: Addresses, starts: np.ndarray, block: int, rarity: np.ndarray,
    sizes: StepSizes, scores: np.ndarray, fresh: np.ndarray,
) -> None:
    for low in starts:
        at = chunk_of(ys.ends, low)
        for row in range(low, min(low + block, ys.ends[-1])):
            while row >= ys.ends[at]:
                at += 1
            y = rows_at(ys, at)
            i = row - ys.ends[at] + len(y)
            rows = (
                numbers_at(chunks.data, at), numbers_at(chunks.indices, at),
                numbers_at(chunks.pointers, at),
            )
            _step_of_row(
                kind, theta, average, rows, y, i,
                numbers_at(weights, at)[i] if len(weights.first) else 1.0, table, row, rarity,
                sizes, scores, fresh,
            )
