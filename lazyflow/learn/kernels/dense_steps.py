"""Steps of SAGA and SVRG through blocks of neighbouring rows of dense chunks.

Rows are read as if their mean were zero, without a copy: the shift goes into the score of a block
(one product with the mean) and into what the block changes.
"""

from typing import NamedTuple

import numpy as np

from lazyflow.learn.kernels.slopes import LossKind, compiled, kernel, write_slopes
from lazyflow.learn.kernels.tiles import add_rows, write_exponentials, write_scores

__all__ = ["StepSizes", "steps_in_chunk", "steps_in_chunks"]

Space = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""For the way: scores and slopes of a row (K,), of a block of rows (block,), and of int64."""


class StepSizes(NamedTuple):
    """The factors of one step.

    step
        Its length.
    l1, l2
        Factors of the penalties beside the mean loss.
    per_block
        Blocks per weight: what a block's change is multiplied by.
    per_weight
        1 / total weight (SAGA), 0 where the average stays (SVRG).
    free
        1 where intercepts are free, 0 where they stay.

    Examples
    --------
    >>> StepSizes(0.1, 0.0, 0.01, 1.0, 0.5, 1.0).step
    0.1
    """

    step: float
    l1: float
    l2: float
    per_block: float
    per_weight: float
    free: float


@compiled
def _write_offsets(theta: np.ndarray, mean: np.ndarray, out: np.ndarray) -> None:
    """Write the scores of a row of zeros, as seen from the mean."""
    d = len(mean)
    for k in range(len(theta)):
        offset = theta[k, d]
        for j in range(d):
            offset -= theta[k, j] * mean[j]
        out[k] = offset


@compiled
def _add_changes(
    kind: int, theta: np.ndarray, offsets: np.ndarray, X: np.ndarray, y: np.ndarray,
    weight: np.ndarray | None, table: np.ndarray, fixed: bool, change: np.ndarray, space: Space,
) -> None:
    """Add what rows change in the gradient since `table`, and write their slopes there."""
    scores, fresh, tile, bits = space
    if len(theta) == 1:
        _add_changes_of_one(
            kind, theta[0], offsets[0], X, y, weight, table, fixed, change[0], tile, bits
        )
        return
    rows, d = X.shape
    for i in range(rows):
        for k in range(len(theta)):
            score = offsets[k]
            for j in range(d):
                score += theta[k, j] * X[i, j]
            scores[k] = score
        write_slopes(kind, scores, y, i, fresh)
        for k in range(len(theta)):
            new = fresh[k] - table[i, k]
            if not fixed:
                table[i, k] = fresh[k]
            if weight is not None:
                new *= weight[i]
            for j in range(d):
                change[k, j] += new * X[i, j]
            change[k, d] += new


@compiled
def _add_changes_of_one(
    kind: int, w: np.ndarray, offset: float, X: np.ndarray, y: np.ndarray,
    weight: np.ndarray | None, table: np.ndarray, fixed: bool, change: np.ndarray,
    tile: np.ndarray, bits: np.ndarray,
) -> None:
    """Do as `_add_changes` for one score."""
    rows = len(X)
    write_scores(w, offset, X, 0, rows, tile)
    if kind == LossKind.LOGISTIC:
        for i in range(rows):
            tile[i] *= y[i, 0]
        write_exponentials(tile, bits)
    for i in range(rows):
        fresh = -y[i, 0] / (1.0 + tile[i]) if kind == LossKind.LOGISTIC else tile[i] - y[i, 0]
        tile[i] = fresh - table[i, 0]
        if not fixed:
            table[i, 0] = fresh
        if weight is not None:
            tile[i] *= weight[i]
    add_rows(tile, X, 0, rows, change)


@compiled
def _take_step(
    theta: np.ndarray, average: np.ndarray, change: np.ndarray, mean: np.ndarray, sizes: StepSizes
) -> None:
    """Move theta by what a block changed, and the average with it; `change` is 0 again."""
    d = len(mean)
    threshold = sizes.step * sizes.l1
    for k in range(len(theta)):
        total = change[k, d]
        for j in range(d):
            moved = change[k, j] - mean[j] * total
            along = sizes.per_block * moved + average[k, j] + sizes.l2 * theta[k, j]
            to = theta[k, j] - sizes.step * along
            theta[k, j] = to - min(max(to, -threshold), threshold)
            average[k, j] += sizes.per_weight * moved
            change[k, j] = 0.0
        theta[k, d] -= sizes.free * sizes.step * (sizes.per_block * total + average[k, d])
        average[k, d] += sizes.per_weight * total
        change[k, d] = 0.0


@kernel
def steps_in_chunk(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, X: np.ndarray,
    y: np.ndarray, weight: np.ndarray | None, starts: np.ndarray, block: int, mean: np.ndarray,
    sizes: StepSizes, fixed: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take a step for each block of one chunk; return (theta, table, average), new arrays.

    `theta` and `average` are (K, d + 1), intercepts last; `table` is (rows, K). The blocks are
    rows ``starts[j]`` to ``starts[j] + block``. `fixed`: table and average stay (SVRG).

    Examples
    --------
    >>> theta, table, average = steps_in_chunk(
    ...     0, np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2)), np.array([[2.0]]),
    ...     np.array([[1.0]]), None, np.array([0]), 1, np.zeros(1),
    ...     StepSizes(0.1, 0.0, 0.0, 1.0, 1.0, 1.0), False,
    ... )
    >>> theta, table
    (array([[0.1 , 0.05]]), array([[-0.5]]))
    """
    theta, table, average = theta.copy(), table.copy(), average.copy()
    K = len(theta)
    change, offsets = np.zeros_like(theta), np.empty(K)
    space = np.empty(K), np.empty(K), np.zeros(block), np.zeros(block, np.int64)
    for low in starts:
        high = min(low + block, len(X))
        _write_offsets(theta, mean, offsets)
        _add_changes(
            kind, theta, offsets, X[low:high], y[low:high],
            None if weight is None else weight[low:high], table[low:high], fixed, change, space,
        )
        _take_step(theta, average, change, mean, sizes)
    return theta, table, average


@kernel
def steps_in_chunks(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, Xs: list[np.ndarray],
    ys: list[np.ndarray], weights: list[np.ndarray] | None, starts: np.ndarray, block: int,
    mean: np.ndarray, sizes: StepSizes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take a step for each block of all rows, whatever chunks they are in; as `steps_in_chunk`.

    Places of rows are counted through all chunks, and a block may lie in several: the result has
    the same bits for any chunks.
    """
    theta, table, average = theta.copy(), table.copy(), average.copy()
    ends = np.empty(len(Xs), np.int64)
    total = 0
    for at in range(len(Xs)):
        total += len(Xs[at])
        ends[at] = total
    K = len(theta)
    change, offsets = np.zeros_like(theta), np.empty(K)
    space = np.empty(K), np.empty(K), np.zeros(block), np.zeros(block, np.int64)
    rows_across = np.empty((block, len(mean)), Xs[0].dtype)
    y_across, weight_across = np.empty((block, ys[0].shape[1])), np.empty(block)
    for start in starts:
        low, high = start, min(start + block, total)
        at = np.searchsorted(ends, low, side="right")
        first = ends[at] - len(Xs[at])
        _write_offsets(theta, mean, offsets)
        if high <= ends[at]:
            a, b = low - first, high - first
            _add_changes(
                kind, theta, offsets, Xs[at][a:b], ys[at][a:b],
                None if weights is None else weights[at][a:b], table[low:high], False, change,
                space,
            )
        else:  # copied, since sums of its parts would have other bits than that of the whole
            for row in range(low, high):
                while row >= ends[at]:
                    at += 1
                i = row - ends[at] + len(Xs[at])
                rows_across[row - low] = Xs[at][i]
                y_across[row - low] = ys[at][i]
                if weights is not None:
                    weight_across[row - low] = weights[at][i]
            _add_changes(
                kind, theta, offsets, rows_across[:high - low], y_across[:high - low],
                None if weights is None else weight_across[:high - low], table[low:high], False,
                change, space,
            )
        _take_step(theta, average, change, mean, sizes)
    return theta, table, average
