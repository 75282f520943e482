"""Softmax regression by L-BFGS: an optimiser around one graph that is planned once.

From top to bottom: a function of one chunk, a tree of tasks over all chunks, and a loop (SciPy's)
that runs this graph again and again. Two choices make it cheap.

- A chunk gives its loss and its gradient in one task, because both need ``X @ W.T``: rows are
  read once per evaluation, not two or three times.
- The parameters are a leaf of the graph. `trace` plans the graph at the first evaluation; each
  later one puts new values in that leaf and runs. Tasks get the parameters by reference.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from lazyflow import delayed, trace
from lazyflow.learn.chunks import checked_rows, tree_sum
from lazyflow.learn.objective import penalised
from lazyflow.learn.result import Callback, History, SolverResult

__all__ = ["loss_and_gradient", "softmax_regression"]


def loss_and_gradient(
    theta: np.ndarray, X: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the softmax loss of one chunk, summed over its rows, and the gradient of that.

    `theta` is (K, d + 1) with the intercepts last, `X` (rows, d), `labels` (rows,) from 0 to
    K - 1.

    >>> loss, gradient = loss_and_gradient(np.zeros((2, 2)), np.array([[3.0]]), np.array([1]))
    >>> print(round(loss, 4), gradient.tolist())
    0.6931 [[1.5, 0.5], [-1.5, -0.5]]
    """
    row = np.arange(len(X))
    scores = X @ theta[:, :-1].T + theta[:, -1]
    scores -= scores.max(axis=1, keepdims=True)  # exp cannot overflow
    probability = np.exp(scores)
    total = probability.sum(axis=1, keepdims=True)
    loss = np.log(total).sum() - scores[row, labels].sum()
    residual = probability / total
    residual[row, labels] -= 1.0
    return float(loss), np.column_stack([residual.T @ X, residual.sum(axis=0)])


def softmax_regression(
    chunks: Sequence[tuple[Any, Any]],
    *,
    classes: Any,
    C: float = 1.0,
    tol: float = 1e-8,
    max_iter: int = 1000,
    scheduler: str | None = None,
    num_workers: int | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Minimise mean softmax loss + |W|² / (2 C n) over the rows of `chunks`; intercepts are free.

    The problem of scikit-learn's ``LogisticRegression(C=C)``. A constant added to all intercepts
    changes nothing: compare intercepts less their mean. The result has the same bits on every
    scheduler and for any number of workers.

    Parameters
    ----------
    chunks : sequence of (X, y)
        Arrays or Delayed: X (rows, d) of real numbers, y (rows,) of labels.
    classes : sequence of K labels
    tol : float
        Stop when no component of the gradient is larger.
    max_iter : int
        Stop after so many iterations, with a `LazyflowWarning`.
    callback : callable, optional
        Gets each `Point` of the trace; a true answer stops.

    Raises
    ------
    ValueError
        When the data or `C` cannot be right, before the first iteration.

    Notes
    -----
    R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, "A limited memory algorithm for bound constrained
    optimization", SIAM J. Sci. Comput. 16 (1995), as `scipy.optimize` has it.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "no", "yes", "yes"])
    >>> model = softmax_regression([(X[:3], y[:3]), (X[3:], y[3:])], classes=["no", "yes"])
    >>> print(model.predict([[0.5], [2.5]]), model.converged)
    ['no' 'yes'] True
    """
    history = History(tol, callback)
    rows = checked_rows(chunks, classes, C, scheduler=scheduler, num_workers=num_workers)
    shape = (len(rows.classes), rows.n_features + 1)
    gradient = np.zeros(shape)

    chunk_loss = delayed(loss_and_gradient)
    total_loss = trace(
        lambda theta: tree_sum([chunk_loss(theta, X, labels) for X, labels in rows.chunks]),
        scheduler=scheduler,
        num_workers=num_workers,
    )

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal gradient
        theta = flat.reshape(shape)
        loss, gradient = total_loss(theta)
        value, gradient = penalised(loss, gradient, theta, rows.n, rows.penalty)
        if not history.points:
            history.record(0, value, gradient)
        return value, gradient.ravel()

    def iteration_ended(intermediate_result: OptimizeResult) -> None:
        # The last evaluation of a line search is the point it accepts: `gradient` belongs to it.
        if history.record(len(history.points), intermediate_result.fun, gradient):
            raise StopIteration

    found = minimize(
        objective,
        np.zeros(gradient.size),
        jac=True,
        method="L-BFGS-B",
        callback=iteration_ended,
        options={"gtol": tol, "ftol": 0.0, "maxiter": max_iter, "maxfun": np.inf, "maxls": 50},
    )
    return history.result(rows.classes, found.x.reshape(shape), "raise max_iter or tol")
