"""Steps of SAGA and SVRG, through blocks of dense rows and through sparse rows; and their bounds.

A block of rows counts as one term of the mean. Its curvature bounds the steps: the largest
eigenvalue of its rows' products with each other, intercept included. It is far below the largest
squared row: 4.7 beside 57 on 200,000 standardised rows of 50 features in blocks of 16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from lazyflow.learn.kernels.losses import Loss, write_slopes, write_slopes_of_one
from lazyflow.learn.kernels.primitives import (
    Addresses,
    add_rows,
    addresses_of,
    ask_for_rows,
    chunk_of,
    compiled,
    inlined,
    kernel,
    making,
    numbers_at,
    rows_at,
    write_scores,
)

_LANES, _ROWS = 8, 4  # to multiples of which a block is filled up by zeros, for vector code


# -- how curved blocks of rows are ------------------------------------------------------------


def largest_curvature(
    pieces: Sequence[tuple[np.ndarray, np.ndarray | None]], block: int, mean: np.ndarray,
    free: bool,
) -> float:
    """Return the largest eigenvalue of Z_b Z_b' over the blocks b of rows, with their weights.

    Z is the rows less `mean`, and a column of ones where intercepts are `free`, multiplied by the
    roots of the weights. Only the few blocks whose bounds are above the largest one so far are
    decomposed.

    Examples
    --------
    >>> rows = np.array([[3.0], [1.0]])
    >>> largest_curvature([(rows, None)], 2, np.array([2.0]), free=True)
    2.0
    """
    Xs, weights = zip(*pieces, strict=True)
    roots = [None if weight is None else np.sqrt(weight) for weight in weights]
    bounds = _bounds(addresses_of(Xs), addresses_of(roots), block, mean, float(free))
    best = 0.0
    for at in np.argsort(-bounds):  # NaN and infinity, of squares that overflow, are first or last
        if not math.isfinite(bounds[at]):
            return math.inf
        if bounds[at] <= best:
            break
        rows = _between(Xs, at * block, (at + 1) * block)
        Z = np.column_stack([rows - mean, np.full(len(rows), float(free))])
        if roots[0] is not None:
            Z *= _between(roots, at * block, (at + 1) * block)[:, None]
        best = max(best, float(np.linalg.eigvalsh(Z @ Z.T)[-1]))
    return best


def _between(arrays: Sequence[Any], low: int, high: int) -> np.ndarray:
    """Return some rows of several arrays."""
    parts = []
    for each in arrays:
        parts.append(each[max(low, 0):max(high, 0)])
        low, high = low - len(each), high - len(each)
    return np.concatenate(parts)


@kernel
def _bounds(
    Xs: Addresses, roots: Addresses, block: int, mean: np.ndarray, free: float
) -> np.ndarray:
    """Return for each block a bound of its largest eigenvalue.

    With G the products of its rows, it is the bound by the traces of G and G², or the root of that
    by those of G² and G⁴, which is nearer and only computed if the other is above what a vector has
    shown to be there.
    """
    rows, d = Xs.ends[-1], len(mean)
    Z = np.zeros((-(-block // _ROWS) * _ROWS, -(-(d + 1) // _LANES) * _LANES))
    gram, power = np.zeros((len(Z), len(Z))), np.zeros((len(Z), len(Z)))
    bounds = np.zeros(-(-rows // block))
    known = 0.0
    for at in range(len(bounds)):
        low = at * block
        count = min(block, rows - low)
        k = chunk_of(Xs.ends, low)
        for i in range(count):
            while low + i >= Xs.ends[k]:
                k += 1
            X = rows_at(Xs, k)
            row = low + i - Xs.ends[k] + len(X)
            factor = numbers_at(roots, k)[row] if len(roots.first) else 1.0
            for j in range(d):
                Z[i, j] = factor * (X[row, j] - mean[j])
            Z[i, d] = factor * free
        trace, squares = _write_products(Z, count, gram)
        bounds[at] = _bound(trace, squares, count)
        if bounds[at] > known and squares < np.inf:
            fourth = _write_square(gram, count, power)
            bounds[at] = min(bounds[at], math.sqrt(_bound(squares, fourth, count)))
            known = max(known, _stretched(Z, power, count))
    return bounds


@compiled
def _bound(trace: float, squares: float, count: int) -> float:
    """Return the largest number of so many with this sum and these squares.

    P.-A. Samuelson, "How deviant can you be?", J. Am. Stat. Assoc. 63 (1968).
    """
    mean = trace / count
    beside = max(squares / count - mean * mean, 0.0)
    return mean + math.sqrt((count - 1) * beside)


@compiled
def _write_products(Z: np.ndarray, count: int, out: np.ndarray) -> tuple[float, float]:
    """Write the products of some rows with each other; return the traces of them and their square.

    A row is read for four products, also of rows behind the last that belongs to the block.
    """
    for i in range(count):
        for k in range(0, i + 1, _ROWS):
            a, b, c, e = 0.0, 0.0, 0.0, 0.0
            for j in range(Z.shape[1]):
                z = Z[i, j]
                a += z * Z[k, j]
                b += z * Z[k + 1, j]
                c += z * Z[k + 2, j]
                e += z * Z[k + 3, j]
            out[i, k], out[i, k + 1], out[i, k + 2], out[i, k + 3] = a, b, c, e
    trace, squares = 0.0, 0.0
    for i in range(count):
        trace += out[i, i]
        squares += out[i, i] * out[i, i]
        for k in range(i):
            out[k, i] = out[i, k]
            squares += 2.0 * out[i, k] * out[i, k]
    return trace, squares


@compiled
def _write_square(matrix: np.ndarray, count: int, out: np.ndarray) -> float:
    """Write the square of a symmetric matrix; return the sum of the squares of its numbers."""
    squares = 0.0
    for i in range(count):
        out[i] = 0.0
        for k in range(count):
            for j in range(count):
                out[i, j] += matrix[i, k] * matrix[k, j]
        for j in range(count):
            squares += out[i, j] * out[i, j]
    return squares


@making
def _stretched(Z: np.ndarray, power: np.ndarray, count: int) -> float:
    """Return |Z'v|² / |v|², below the largest eigenvalue, of the longest column v of a power."""
    best = 0
    for i in range(count):
        if power[i, i] > power[best, best]:
            best = i
    along, length = np.zeros(Z.shape[1]), 0.0
    for i in range(count):
        length += power[i, best] * power[i, best]
        for j in range(Z.shape[1]):
            along[j] += power[i, best] * Z[i, j]
    total = 0.0
    for j in range(Z.shape[1]):
        total += along[j] * along[j]
    return total / length if length > 0.0 else 0.0


def row_sums(pieces: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> tuple[np.ndarray]:
    """Return the sum of dense rows, with weights; the same bits for any pieces.

    Examples
    --------
    >>> row_sums([(np.array([[3.0], [1.0]]), np.array([1.0, 2.0]))])
    (array([5.]),)
    """
    Xs, weights = zip(*pieces, strict=True)
    return (_row_sums(addresses_of(Xs), addresses_of(weights)),)


@kernel
def _row_sums(Xs: Addresses, weights: Addresses) -> np.ndarray:
    sums = np.zeros(Xs.like.shape[1])
    for k in range(len(Xs.first)):
        X = rows_at(Xs, k)
        for i in range(len(X)):
            factor = numbers_at(weights, k)[i] if len(weights.first) else 1.0
            for j in range(len(sums)):
                sums[j] += factor * X[i, j]
    return sums


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


SagaState = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Coefficients, slopes of the rows as they were seen last, and the average gradient."""


class StepSizes(NamedTuple):
    """The factors of one step.

    step
        Its length.
    l1, l2
        Factors of the penalties beside the mean loss.
    per_block
        Blocks per weight: the factor of a block's change.
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


def take_steps(
    loss: Loss, theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: Sequence[Any],
    starts: np.ndarray, block: int, feature: np.ndarray, sizes: StepSizes, fixed: bool = False,
) -> SagaState:
    """Take the steps of some blocks of rows; return (theta, table, average), new arrays.

    One step is for a block of dense rows, or for a single row in CSR format.

    Parameters
    ----------
    theta, average
        (K, d + 1), intercepts last.
    table
        (rows, K): the slope of each row at its last step.
    chunks
        X, y and weights or None of each.
    starts, block
        The blocks are rows ``starts[j]`` to ``starts[j] + block``, counted through all chunks. A
        block may lie in several: the result has the same bits for any chunks.
    feature
        (d,) For dense rows their mean; for sparse ones the number of rows divided by the number of
        rows that have the feature.
    fixed
        Table and average stay (SVRG); for dense rows only.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from lazyflow.learn.kernels.losses import LOGISTIC
    >>> state = np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2))
    >>> how = np.array([0]), 1, np.zeros(1), StepSizes(0.1, 0.0, 0.0, 1.0, 1.0, 1.0)
    >>> for X in np.array([[2.0]]), csr_array([[2.0]]):
    ...     theta, table, _ = take_steps(LOGISTIC, *state, [(X, np.array([[1.0]]), None)], *how)
    ...     print(theta, table)
    [[0.1  0.05]] [[-0.5]]
    [[0.1  0.05]] [[-0.5]]
    """
    Xs, ys, weights = zip(*chunks, strict=True)
    state = loss.kind, theta, table, average
    how = addresses_of(ys), addresses_of(weights), starts, block, feature, sizes
    after: SagaState
    if not issparse(Xs[0]):
        after = _dense_steps(*state, addresses_of(Xs), *how, fixed)
        return after
    if fixed:
        raise ValueError("fixed=True is for dense rows: each sparse row updates table and average")
    places = np.result_type(*[each for X in Xs for each in (X.indices, X.indptr)])
    parts = [
        (X.data, X.indices.astype(places, copy=False), X.indptr.astype(places, copy=False))
        for X in Xs
    ]
    rows = _SparseRows(*map(addresses_of, zip(*parts, strict=True)))
    after = _sparse_steps(*state, rows, *how)
    return after


# -- the step of one coefficient ------------------------------------------------------------------


@inlined
def _move(
    theta: np.ndarray, average: np.ndarray, k: int, j: int, along: float, change: float,
    threshold: float, sizes: StepSizes,
) -> None:
    """Move a coefficient along a gradient, and its average by what the rows of a step change."""
    to = theta[k, j] - sizes.step * along
    theta[k, j] = to - min(max(to, -threshold), threshold)
    average[k, j] += sizes.per_weight * change


@inlined
def _move_intercept(
    theta: np.ndarray, average: np.ndarray, k: int, d: int, change: float, sizes: StepSizes
) -> None:
    theta[k, d] -= sizes.free * sizes.step * (sizes.per_block * change + average[k, d])
    average[k, d] += sizes.per_weight * change


# -- steps through blocks of dense rows -----------------------------------------------------------
#
# Rows are read as if their mean were zero, without a copy: the shift goes into the score of a block
# (one product with the mean) and into what the block changes.

_AHEAD = 3  # blocks ahead whose rows are fetched into the cache; a guess


@compiled
def _write_offsets(theta: np.ndarray, mean: np.ndarray, out: np.ndarray) -> None:
    """Write the scores of a row of zeros, as seen from the mean."""
    d = len(mean)
    for k in range(len(theta)):
        offset = theta[k, d]
        for j in range(d):
            offset -= theta[k, j] * mean[j]
        out[k] = offset


class _Space(NamedTuple):
    """Memory for intermediate values, which all blocks share.

    It takes what a block changes, the scores of a row of zeros, the scores and slopes of one row
    and of all rows of a block, and the rows of a block that lies in several chunks.
    """

    change: np.ndarray
    offsets: np.ndarray
    scores: np.ndarray
    fresh: np.ndarray
    tile: np.ndarray
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


class _Rows(NamedTuple):
    """Rows `low` to `high` of a chunk, of which `seen` is the first one's place in the table."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    low: int
    high: int
    seen: int


@compiled
def _add_changes(
    kind: int, theta: np.ndarray, rows: _Rows, table: np.ndarray, fixed: bool, space: _Space
) -> None:
    """Add what rows change in the gradient since `table`, and write their slopes there."""
    change, offsets, scores, fresh = space.change, space.offsets, space.scores, space.fresh
    if len(theta) == 1:
        _add_changes_of_one(kind, theta[0], offsets[0], rows, table, fixed, change[0], space.tile)
        return
    X, y, weight = rows.X, rows.y, rows.weight
    d = X.shape[1]
    for i in range(rows.low, rows.high):
        seen = i - rows.low + rows.seen
        for k in range(len(theta)):
            score = offsets[k]
            for j in range(d):
                score += theta[k, j] * X[i, j]
            scores[k] = score
        write_slopes(kind, scores, y, i, fresh)
        for k in range(len(theta)):
            new = fresh[k] - table[seen, k]
            if not fixed:
                table[seen, k] = fresh[k]
            if len(weight):
                new *= weight[i]
            for j in range(d):
                change[k, j] += new * X[i, j]
            change[k, d] += new


@compiled
def _add_changes_of_one(
    kind: int, w: np.ndarray, offset: float, rows: _Rows, table: np.ndarray, fixed: bool,
    change: np.ndarray, tile: np.ndarray,
) -> None:
    """Do as `_add_changes` for one score."""
    weight, low, seen = rows.weight, rows.low, rows.seen
    count = rows.high - low
    y, slopes = rows.y.reshape(rows.y.size), table.reshape(table.size)  # of one column each
    write_scores(w, offset, rows.X, low, rows.high, tile)
    write_slopes_of_one(kind, tile, y, low, count)
    for i in range(count):
        fresh = tile[i]
        tile[i] -= slopes[seen + i]
        if not fixed:
            slopes[seen + i] = fresh
    if len(weight):
        for i in range(count):
            tile[i] *= weight[low + i]
    add_rows(tile, rows.X, low, rows.high, change)


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
            _move(theta, average, k, j, along, moved, threshold, sizes)
            change[k, j] = 0.0
        _move_intercept(theta, average, k, d, total, sizes)
        change[k, d] = 0.0


@compiled
def _copy_row(rows: np.ndarray, i: int, to: np.ndarray, k: int) -> None:
    """Copy one row, from behind the end if `i` is negative.

    A loop is compiled in a tenth of the time that an assignment takes, with its message of error.
    """
    for j in range(rows.shape[1]):
        to[k, j] = rows[i, j]


@kernel
def _dense_steps(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, Xs: Addresses,
    ys: Addresses, weights: Addresses, starts: np.ndarray, block: int, mean: np.ndarray,
    sizes: StepSizes, fixed: bool,
) -> SagaState:
    theta, table, average = theta.copy(), table.copy(), average.copy()
    K, d = len(theta), len(mean)
    space = _Space(
        np.zeros_like(theta), np.empty(K), np.empty(K), np.empty(K), np.zeros(block),
        np.empty((block, d), Xs.like.dtype), np.empty((block, ys.like.shape[1])), np.empty(block),
    )
    _take_dense_steps(
        kind, theta, table, average, Xs, ys, weights, starts, block, mean, sizes, fixed, space
    )
    return theta, table, average


@compiled
def _take_dense_steps(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, Xs: Addresses,
    ys: Addresses, weights: Addresses, starts: np.ndarray, block: int, mean: np.ndarray,
    sizes: StepSizes, fixed: bool, space: _Space,
) -> None:
    ends = Xs.ends
    for number in range(len(starts)):
        start = starts[number]
        if number + _AHEAD < len(starts):
            ask_for_rows(Xs, starts[number + _AHEAD], block)
            ask_for_rows(ys, starts[number + _AHEAD], block)
        high = min(start + block, ends[-1])
        at = chunk_of(ends, start)
        X, y, weight = rows_at(Xs, at), rows_at(ys, at), space.weight[:0]
        if len(weights.first):
            weight = numbers_at(weights, at)
        before = ends[at] - len(X)
        if high > ends[at]:  # copied, since sums of its parts would have other bits than the whole
            for row in range(start, high):
                while row >= ends[at]:
                    at += 1
                _copy_row(rows_at(Xs, at), row - ends[at], space.X, row - start)
                _copy_row(rows_at(ys, at), row - ends[at], space.y, row - start)
                if len(weights.first):
                    space.weight[row - start] = numbers_at(weights, at)[row - ends[at]]
            X, y, before = space.X, space.y, start
            if len(weights.first):
                weight = space.weight
        _write_offsets(theta, mean, space.offsets)
        rows = _Rows(X, y, weight, start - before, high - before, start)
        _add_changes(kind, theta, rows, table, fixed, space)
        _take_step(theta, average, space.change, mean, sizes)


# -- steps through sparse rows: they touch only the features that a row has -----------------------
#
# The average gradient and the penalty are dense. A row takes its share of them for its own features
# only, multiplied by how rarely those are present (`rarity`), so that a step is right on average:
# the sparse variant of Leblond, Pedregosa and Lacoste-Julien, "ASAGA: asynchronous parallel SAGA",
# AISTATS 2017. The lagged updates of other programs need sums that grow with the number of steps;
# this needs no state beside SAGA's own.


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
            along = sizes.per_block * moved + dense
            _move(theta, average, k, j, along, moved, sizes.step * rarity[j] * sizes.l1, sizes)
        _move_intercept(theta, average, k, d, new, sizes)


@kernel
def _sparse_steps(
    kind: int, theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: _SparseRows,
    ys: Addresses, weights: Addresses, starts: np.ndarray, block: int, rarity: np.ndarray,
    sizes: StepSizes,
) -> SagaState:
    theta, table, average = theta.copy(), table.copy(), average.copy()
    scores, fresh = np.empty(len(theta)), np.empty(len(theta))
    _take_sparse_steps(
        kind, theta, table, average, chunks, ys, weights, starts, block, rarity, sizes, scores,
        fresh,
    )
    return theta, table, average


@compiled
def _take_sparse_steps(
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
