"""Steps through rows: as a plain loop takes them, with the same bits for any chunks."""

import numpy as np
import pytest
from learn_tools import LOSS_NAMES, LOSSES, targets_for
from scipy.sparse import csr_array

from lazyflow.learn.kernels.losses import SQUARES
from lazyflow.learn.kernels.steps import (
    StepSizes,
    largest_curvature,
    largest_row,
    product_with_gram,
    row_sums,
    take_steps,
)

N, D = 37, 5
SIZES = StepSizes(step=0.05, l1=0.02, l2=0.1, per_block=0.3, per_weight=1 / N, free=1.0)


def case(loss, weighted=True):
    random = np.random.default_rng(1)
    X = random.normal(size=(N, D)) * (random.random((N, D)) < 0.6)
    y, K = targets_for(loss, N, random)
    weight = random.uniform(0, 2, N) if weighted else None
    return X, y, weight, random.normal(size=(K, D + 1)), random.normal(size=(N, K))


def shrunk(x, by):
    return np.sign(x) * np.maximum(abs(x) - by, 0)


def plain_steps(loss, theta, table, X, y, weight, starts, block, mean, sizes, fixed):
    """SAGA over blocks as it is written on paper, on rows that are really shifted."""
    theta, table, average = theta.copy(), table.copy(), np.zeros_like(theta)
    Z = np.column_stack([X - mean, np.ones(len(X))])
    weight = np.ones(len(X)) if weight is None else weight
    penalised = np.append(np.ones(X.shape[1]), 0.0)
    for low in starts:
        rows = slice(low, low + block)
        slopes = loss.residuals(Z[rows] @ theta.T, y[rows])[1]
        change = ((slopes - table[rows]) * weight[rows, None]).T @ Z[rows]
        along = sizes.per_block * change + average + sizes.l2 * theta * penalised
        along[:, -1] *= sizes.free
        theta = shrunk(theta - sizes.step * along, sizes.step * sizes.l1 * penalised)
        if not fixed:
            table[rows] = slopes
            average += sizes.per_weight * change
    return theta, table, average


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("free", [0.0, 1.0])
def test_dense_steps_are_those_of_a_plain_loop(loss, weighted, fixed, free):
    X, y, weight, theta, table = case(loss, weighted)
    mean = X.mean(axis=0)
    sizes = SIZES._replace(free=free, per_weight=0.0 if fixed else 1 / N)
    starts = np.array([16, 0, 32, 8, 24, 0])  # the last block is short, one comes twice
    average = np.zeros_like(theta)
    found = take_steps(loss, theta, table, average, [(X, y, weight)], starts, 8, mean, sizes, fixed)
    wanted = plain_steps(loss, theta, table, X, y, weight, starts, 8, mean, sizes, fixed)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    assert not average.any()  # what is given stays as it is


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
def test_sparse_steps_of_full_rows_are_dense_ones(loss):
    X, y, weight, theta, table = case(loss)
    X = np.where(X == 0, 0.5, X)
    sparse, starts = csr_array(X), np.array([30, 3, 20, 3])
    average = np.zeros_like(theta)
    found = take_steps(
        loss, theta, table, average, [(sparse, y, weight)], starts, 1, np.ones(D), SIZES
    )
    wanted = take_steps(
        loss, theta, table, average, [(X, y, weight)], starts, 1, np.zeros(D), SIZES
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_a_sparse_step_touches_only_what_the_row_has():
    X = csr_array(np.array([[1.0, 0.0, 2.0]]))
    theta, rarity = np.ones((1, 4)), np.array([1.0, 4.0, 2.0])
    found, _, _ = take_steps(
        SQUARES, theta, np.zeros((1, 1)), np.ones((1, 4)), [(X, np.zeros((1, 1)), None)],
        np.array([0]), 1, rarity, SIZES._replace(l1=0.0),
    )
    assert found[0, 1] == 1.0
    dense = rarity * (1 + SIZES.l2)
    np.testing.assert_allclose(
        found[0, [0, 2]], 1 - SIZES.step * (SIZES.per_block * 4 * np.array([1, 2]) + dense[[0, 2]])
    )


def test_steps_of_sparse_rows_keep_no_table():
    state = np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2))
    chunk = csr_array([[2.0]]), np.ones((1, 1)), None
    with pytest.raises(ValueError, match="fixed=True is for dense rows"):
        take_steps(SQUARES, *state, [chunk], np.array([0]), 1, np.ones(1), SIZES, fixed=True)


@pytest.mark.parametrize("form", [np.array, csr_array], ids=["dense", "sparse"])
def test_an_unknown_kind_of_loss_raises(form):
    how = np.array([0]), 1, np.ones(1), SIZES
    state = np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2))
    with pytest.raises(ValueError, match="this kernel knows the logistic loss and squares only"):
        take_steps(SQUARES._replace(kind=9), *state, [(form([[2.0]]), np.ones((1, 1)), None)], *how)


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_NAMES)
@pytest.mark.parametrize("edges", [[1, 2, 3], [7, 14, 21], [5, 5, 30], list(range(1, N))])
def test_steps_have_the_same_bits_for_any_chunks(loss, edges):
    X, y, weight, theta, table = case(loss)
    average, starts = np.zeros_like(theta), np.array([16, 0, 32, 8, 24])
    cut = [np.split(each, edges) for each in (X, y, weight)]
    how = starts, 8, X.mean(0), SIZES
    one = take_steps(loss, theta, table, average, [(X, y, weight)], *how)
    many = take_steps(loss, theta, table, average, list(zip(*cut, strict=True)), *how)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)
    cut[0] = [csr_array(part) for part in cut[0]]
    how = starts, 8, np.ones(D), SIZES
    one = take_steps(loss, theta, table, average, [(csr_array(X), y, weight)], *how)
    many = take_steps(loss, theta, table, average, list(zip(*cut, strict=True)), *how)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block", [1, 8, 100])
def test_curvatures_are_the_largest_eigenvalues_of_blocks(block, weighted, free):
    X, _, weight, _, _ = case(LOSSES[0], weighted)
    mean = X.mean(axis=0)
    Z = np.column_stack([X - mean, np.full(N, float(free))])
    Z *= 1.0 if weight is None else np.sqrt(weight)[:, None]
    wanted = max(np.linalg.norm(Z[a:a + block], 2) ** 2 for a in range(0, N, block))
    assert largest_curvature([(X, weight)], block, mean, free) == pytest.approx(wanted)
    cut = [
        (X[a:b], weight[a:b] if weighted else None)
        for a, b in ((0, 3), (3, 3), (3, 20), (20, N))
    ]
    assert largest_curvature(cut, block, mean, free) == pytest.approx(wanted)
    assert largest_curvature([(X[:0], None)], block, mean, free) == 0


def test_curvature_of_rows_whose_squares_overflow_is_infinite():
    with np.errstate(over="ignore", invalid="ignore"):
        assert largest_curvature([(np.full((4, 2), 1e200), None)], 2, np.zeros(2), True) == np.inf


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_that_plan_steps(weighted):
    X, _, weight, _, _ = case(LOSSES[0], weighted)
    s = np.ones(N) if weight is None else weight
    mean, vector = X.mean(axis=0), np.arange(D + 1.0)
    Z = np.column_stack([X - mean, np.ones(N)])
    for form in X, csr_array(X):
        wanted = Z.T @ (s * (Z @ vector))
        np.testing.assert_allclose(product_with_gram(form, weight, mean, vector)[0], wanted)
        wanted = (s * ((X**2).sum(axis=1) + 1)).max()
        assert largest_row(form, weight, True) == pytest.approx(wanted)
    np.testing.assert_allclose(row_sums([(X, weight)])[0], s @ X)
    halves = [(X[a:b], weight[a:b] if weighted else None) for a, b in ((0, 9), (9, N))]
    np.testing.assert_array_equal(row_sums(halves)[0], row_sums([(X, weight)])[0])
