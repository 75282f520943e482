"""Steps of SAGA through rows of sparse chunks: a step touches only the features that a row has.

The average gradient and the penalty are dense. A row takes its share of them for its own features
only, multiplied by how rarely those are present (`rarity`), so that a step is right on average: the
sparse variant of Leblond, Pedregosa and Lacoste-Julien, "ASAGA: asynchronous parallel SAGA",
AISTATS 2017. The lagged updates of other programs need sums that grow with the number of steps;
this needs no state beside SAGA's own.
"""

import numpy as np

from lazyflow.learn.kernels.dense_steps import StepSizes
from lazyflow.learn.kernels.slopes import compiled, kernel, write_slopes

__all__ = ["SparseRows", "sparse_steps_in_chunk", "sparse_steps_in_chunks"]

SparseRows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The data, the indices and the pointers of a matrix in CSR format."""


@compiled
def _step_of_row(
    kind: int, theta: np.ndarray, average: np.ndarray, rows: SparseRows, y: np.ndarray, i: int,
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


@kernel
def sparse_steps_in_chunk(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, rows: SparseRows,
    y: np.ndarray, weight: np.ndarray | None, starts: np.ndarray, block: int, rarity: np.ndarray,
    sizes: StepSizes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take a step for each row of blocks of one chunk; return (theta, table, average), new.

    Shapes are those of `lazyflow.learn.kernels.dense_steps.steps_in_chunk`; `rarity` (d,) is the
    number of rows divided by the number of those that have each feature.

    Examples
    --------
    >>> row = np.array([2.0]), np.array([0]), np.array([0, 1])
    >>> theta, table, average = sparse_steps_in_chunk(
    ...     0, np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2)), row, np.array([[1.0]]), None,
    ...     np.array([0]), 1, np.ones(1), StepSizes(0.1, 0.0, 0.0, 1.0, 1.0, 1.0),
    ... )
    >>> theta, table
    (array([[0.1 , 0.05]]), array([[-0.5]]))
    """
    theta, table, average = theta.copy(), table.copy(), average.copy()
    scores, fresh = np.empty(len(theta)), np.empty(len(theta))
    for low in starts:
        for i in range(low, min(low + block, len(y))):
            _step_of_row(
                kind, theta, average, rows, y, i, 1.0 if weight is None else weight[i], table, i,
                rarity, sizes, scores, fresh,
            )
    return theta, table, average


@kernel
def sparse_steps_in_chunks(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, parts: list[SparseRows],
    ys: list[np.ndarray], weights: list[np.ndarray] | None, starts: np.ndarray, block: int,
    rarity: np.ndarray, sizes: StepSizes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take a step for each row of all chunks; as `sparse_steps_in_chunk`, in the order of starts.

    Places of rows are counted through all chunks: the result has the same bits for any chunks.
    """
    theta, table, average = theta.copy(), table.copy(), average.copy()
    scores, fresh = np.empty(len(theta)), np.empty(len(theta))
    ends = np.empty(len(ys), np.int64)
    total = 0
    for at in range(len(ys)):
        total += len(ys[at])
        ends[at] = total
    for low in starts:
        at = np.searchsorted(ends, low, side="right")
        for row in range(low, min(low + block, total)):
            while row >= ends[at]:
                at += 1
            i = row - ends[at] + len(ys[at])
            _step_of_row(
                kind, theta, average, parts[at], ys[at], i,
                1.0 if weights is None else weights[at][i], table, row, rarity, sizes, scores,
                fresh,
            )
    return theta, table, average
