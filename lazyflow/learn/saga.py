"""One-against-rest logistic regression by SAGA: a state carried from chunk to chunk.

SAGA keeps, for each row and class, the slope of the loss that it saw last, and the average of
those gradients; a step uses what changed since. A visit of a chunk is a pure task: coefficients,
table of slopes and average go in, and new ones come out. An epoch is a chain of visits; one
`persist` at its end keeps all three (each persisted alone would run the chain once more).

The order of visits decides whether this converges: see `visits`. Whole chunks in a fixed order,
the obvious program, can stall far from the optimum; it is here as ``order="cyclic"``.
"""

from collections.abc import Sequence
from math import exp
from typing import Any

import numpy as np
from numba import njit

from lazyflow import compute, delayed, persist, trace
from lazyflow.learn.chunks import checked_rows, tree_sum
from lazyflow.learn.curvature import centred, curvature
from lazyflow.learn.objective import logistic_loss_and_gradient, penalised
from lazyflow.learn.result import Callback, History, SolverResult
from lazyflow.learn.visits import Order, check_options, step_and_length, visits_of_epoch

__all__ = ["one_vs_rest", "visit_blocks"]

REORDER = {"reassoc", "contract", "nsz", "arcp"}  # all but nnan and ninf, which hide bad numbers


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def logistic_slope(score: float, sign: float) -> float:
    """Return the derivative by `score` of log(1 + exp(-sign * score))."""
    return -sign / (1.0 + exp(sign * score))


@njit(nogil=True, cache=True, fastmath=REORDER, error_model="numpy")
def visit_blocks(
    theta: np.ndarray,
    table: np.ndarray,
    average: np.ndarray,
    X: np.ndarray,
    labels: np.ndarray,
    starts: np.ndarray,
    block: int,
    scale: tuple[float, float, float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one SAGA step per class and block of one chunk; return (theta, table, average) anew.

    `theta` and `average` are (K, d + 1), intercepts last; `table` is (rows, K). The blocks are
    rows ``starts[j]`` to ``starts[j] + block``; `scale` is (step, penalty, blocks / n, 1 / n).

    Examples
    --------
    >>> theta, table, average = visit_blocks(
    ...     np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2)), np.array([[2.0]]),
    ...     np.array([0]), np.array([0]), block=1, scale=(0.1, 0.0, 1.0, 1.0),
    ... )
    >>> theta, table
    (array([[0.1 , 0.05]]), array([[-0.5]]))
    """
    theta, table, average = theta.copy(), table.copy(), average.copy()
    step, penalty, drawn, share = scale
    rows, d = X.shape
    change = np.empty(d + 1)
    for start in starts:
        for k in range(len(theta)):
            change[:] = 0.0
            for i in range(start, min(start + block, rows)):
                score = theta[k, d]
                for j in range(d):
                    score += theta[k, j] * X[i, j]
                # By name: the disk cache never hits for a function that comes as an argument.
                slope = logistic_slope(score, 1.0 if labels[i] == k else -1.0)
                new = slope - table[i, k]
                table[i, k] = slope
                for j in range(d):
                    change[j] += new * X[i, j]
                change[d] += new
            for j in range(d):
                theta[k, j] -= step * (drawn * change[j] + average[k, j] + penalty * theta[k, j])
            theta[k, d] -= step * (drawn * change[d] + average[k, d])
            for j in range(d + 1):
                average[k, j] += share * change[j]
    return theta, table, average


visit = delayed(visit_blocks, nout=3)
chunk_loss = delayed(logistic_loss_and_gradient)


def one_vs_rest(
    chunks: Sequence[tuple[Any, Any]],
    *,
    classes: Any,
    C: float = 1.0,
    tol: float = 1e-7,
    max_epochs: int = 500,
    block: int = 16,
    order: Order = "random",
    center: bool = True,
    check_every: int = 5,
    seed: int = 0,
    scheduler: str | None = None,
    num_workers: int | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise mean logistic loss + |w_k|² / (2 C n) for each class k against the rest.

    The problem of scikit-learn's ``OneVsRestClassifier(LogisticRegression(C=C))``. Same seed, same
    bits: on every scheduler and for any number of workers.

    Parameters
    ----------
    chunks, classes, callback
        As in `lazyflow.learn.lbfgs.softmax_regression`, and so are the errors.
    tol, max_epochs, check_every
        Stop when no component of the gradient, looked at every `check_every` epochs, is larger
        than `tol`, or after `max_epochs` passes over the rows with a `LazyflowWarning`.
    block : int
        Neighbouring rows that make one step. More rows bear a longer step, and cost less a row.
    order : "random", or "cyclic" to see what whole chunks in a fixed order do
    center : bool
        Shift rows to mean zero inside the solver: the same optimum in far fewer epochs.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "no", "yes", "yes"])
    >>> model = one_vs_rest([(X[:3], y[:3]), (X[3:], y[3:])], classes=["no", "yes"])
    >>> print(model.predict([[0.5], [2.5]]), model.converged)
    ['no' 'yes'] True
    """
    check_options(order, block, check_every, max_epochs)
    history = History(tol, callback)
    run: dict[str, Any] = {"scheduler": scheduler, "num_workers": num_workers}
    rows = checked_rows(chunks, classes, C, **run)
    rows, mean = centred(rows, **run) if center else (rows, np.zeros(rows.n_features))
    step, longest = step_and_length(curvature(rows, block, **run), rows, block, order)
    scale = (step, rows.penalty, rows.n_blocks(block) / rows.n, 1 / rows.n)
    total_loss = trace(
        lambda theta: tree_sum([chunk_loss(theta, X, labels) for X, labels in rows.chunks]), **run
    )
    shape = len(rows.classes), rows.n_features + 1
    theta, average = np.zeros(shape), np.zeros(shape)
    tables = [np.zeros((size, shape[0])) for size in rows.sizes]
    for epoch in range(max_epochs + 1):
        if epoch % check_every == 0 or epoch == max_epochs:
            (now,) = compute(theta, **run)
            loss, gradient = total_loss(now)
            value, gradient = penalised(loss, gradient, now, rows.n, rows.penalty)
            gradient[:, :-1] += np.outer(gradient[:, -1], mean)  # as of the rows that were given
            if history.record(epoch, value, gradient) or epoch == max_epochs:
                break
        for k, starts in visits_of_epoch(rows.sizes, block, longest, order, key=(seed, epoch)):
            state = theta, tables[k], average
            theta, tables[k], average = visit(*state, *rows.chunks[k], starts, block, scale)
        theta, average, tables = persist(theta, average, tables, **run)
    now = np.column_stack([now[:, :-1], now[:, -1] - now[:, :-1] @ mean])
    return history.result(rows.classes, now, "raise max_epochs or tol")
