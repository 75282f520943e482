"""Linear models of squared residuals: `LinearRegression`, `Ridge`, `ElasticNet` and `Lasso`.

`LinearRegression` is solved by a tree of R factors, `Ridge` by normal equations or a solver, the
other two by coordinate descent on products of features, or SAGA.
"""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from lazyflow.api.progress_events import as_work
from lazyflow.graph.task import users_depth
from lazyflow.learn.chunked.metrics import r2_score
from lazyflow.learn.data.inputs import is_chunked
from lazyflow.learn.data.rows import NumberTargets, Rows, kept_rows, places_of
from lazyflow.learn.estimators.linear_estimator import (
    LIMITS,
    LinearEstimator,
    put_again,
    scores_of_chunk,
)
from lazyflow.learn.kernels.losses import SQUARES
from lazyflow.learn.solvers.lbfgs import lbfgs
from lazyflow.learn.solvers.least_squares import elastic_net, feature_sums, least_squares, ridge
from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.stochastic import saga
from lazyflow.learn.solvers.stopping import Callback, StopRule

WIDE = 2000  # features whose products are 32 MB; their solution costs more than passes from there


class LinearRegressor(MultiOutputMixin, RegressorMixin, LinearEstimator):
    """Base class of estimators that predict one or several numbers for each row."""

    fit_intercept: bool
    tol: float  # this and the following where a solver passes over the rows
    warm_start: bool
    random_state: Any
    callback: Callback | None
    _keeps_column = False  # whether one target that has an axis of its own gives it to coef_

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Return checked rows, kept; and remember whether targets have an axis of their own."""
        parts = self._parts(X, y, sample_weight, numbers=True)
        first = y if is_chunked(X) and is_chunked(y) else parts[0].y
        # Of lazy chunks it is not known: one number for each row.
        shape: tuple[Any, ...] = getattr(first, "shape", (None,))
        self._columns = shape[1] if len(shape) == 2 else None
        if self._columns == 1 and not self._keeps_column:  # as scikit-learn's
            self._columns = None
        for name in ("history_", "converged_", "gap_", "decrement_", "n_passes_"):
            if hasattr(self, name):  # of an earlier fit by another solver
                delattr(self, name)
        places = places_of(parts, X)
        parts, keep = self._fitting(X, parts)
        targets = NumberTargets(self._columns or 1)
        rows = kept_rows(parts, targets, self._run, keep=keep, places=places)
        self._keep_features(X, rows)
        return rows

    def _keep_theta(self, theta: np.ndarray) -> None:
        theta = theta.astype(self._dtype)
        if self._columns is None:
            self.coef_: np.ndarray = theta[0, :-1].copy()
            self.intercept_: Any = float(theta[0, -1])
        else:
            self.coef_, self.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()
        if not self.fit_intercept:
            self.intercept_ = 0.0

    def _fit_iteratively(
        self, rows: Rows, l1: float, l2: float, solver: str, max_iter: int
    ) -> None:
        """Fit by a solver that passes over the rows; of the penalties there are factors beside the
        mean loss."""
        problem = Problem(rows, SQUARES, l1, l2, self.fit_intercept, self._run)
        start = self._start(problem.shape, self.warm_start)
        solve = partial(lbfgs, problem, start)
        if solver == "saga":
            solve = partial(saga, problem, start, seed=self._seed(self.random_state))
        self._solve(solve, StopRule(self.tol, None, max_iter, self.callback))

    def predict(self, X: Any) -> Any:
        """Return the numbers (n,) or (n, t) of rows X (n, d); lazy for chunked X.

        Raises
        ------
        NotFittedError
            `fit` was not called before.
        ValueError
            X has another number of features than in `fit`, NaN or infinities. The values of lazy
            chunks are checked when they are computed.

        Examples
        --------
        >>> model = LinearRegression().fit(np.array([[1.0], [3.0]]), [5.0, 9.0])
        >>> model.predict(np.array([[2.0]])).round(6)
        array([7.])
        """
        theta = self._theta
        width = len(theta) if np.ndim(self.coef_) == 2 else None
        return self._of_rows(X, _predicted, {"theta": theta, "flat": width is None}, width, float)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination, R².

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> X, y = np.array([[1.0], [2.0], [3.0]]), [5.0, 7.0, 9.0]
        >>> round(LinearRegression().fit(X, y).score(X, y), 6)
        1.0
        """
        return self._scored(r2_score, X, y, sample_weight)


def _predicted(X: Any, theta: np.ndarray, flat: bool) -> np.ndarray:
    scores = scores_of_chunk(X, theta)
    return scores if flat or scores.ndim == 2 else scores[:, None]


class LinearRegression(LinearRegressor):
    """Least squares without penalty, by R factors in a tree: rows are read once.

    Parameters
    ----------
    fit_intercept : bool
        Whether there is an intercept.
    scheduler : str or None
        As in `lazyflow.compute`.

    Attributes
    ----------
    coef_ : ndarray, shape (d,) or (t, d)
        The shortest coefficients, if there are several minima.
    intercept_ : float or ndarray, shape (t,)
    rank_ : int
    singular_ : ndarray, shape (d,)
        The singular values of the rows, minus their mean if there is an intercept.
    n_features_in_, feature_names_in_
        As scikit-learn's.

    Notes
    -----
    For columns with condition number 4e7 the error of the coefficients is within 1e-9, and that of
    normal equations 1e-3 (J. Demmel and others, see `lazyflow.learn.solvers.least_squares`).

    Examples
    --------
    >>> model = LinearRegression().fit(np.array([[1.0], [3.0]]), [5.0, 9.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 3.0)
    """

    _keeps_column = True
    _parameter_constraints = {"fit_intercept": ["boolean"]}

    def __init__(self, *, fit_intercept: bool = True, scheduler: Any = None) -> None:
        self.fit_intercept = fit_intercept
        self.scheduler = scheduler

    @as_work("pass")
    @put_again
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegression:
        """Fit the model to rows X (n, d) and numbers y (n,) or (n, t), in memory or chunked.

        Raises
        ------
        ValueError
            The model can't be fitted to these rows, targets or weights; the message names the
            chunk.
        TypeError
            Targets or weights are sparse.

        Examples
        --------
        >>> LinearRegression(fit_intercept=False).fit(np.array([[2.0]]), [6.0]).coef_.round(6)
        array([3.])
        """
        self._validate_params()
        rows = self._rows(X, y, sample_weight)
        theta, self.rank_, self.singular_ = least_squares(rows, self.fit_intercept, self._run)
        self._keep_theta(theta)
        return self


class Ridge(LinearRegressor):
    """Least squares with an l2 penalty: ``|y - X w - b|² + alpha |w|²``, with weights.

    Parameters
    ----------
    alpha : float or array, shape (t,)
        Strength of the penalty, for all targets or for each.
    fit_intercept : bool
    tol : float
        For lbfgs and saga: stop when no component of the gradient, divided by the sum of the
        weights, exceeds `tol`.
    max_iter : int or None
        For lbfgs and saga; None: 1,000.
    solver : {"auto", "cholesky", "lbfgs", "saga"}
        "auto": up to 2,000 features, cholesky on products of features; else lbfgs. Without a
        penalty, R factors, as in `LinearRegression`.
    random_state, warm_start, callback, scheduler
        As in `LogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray, shape (d,) or (t, d)
    intercept_ : float or ndarray, shape (t,)
    n_iter_ : int
        1 for direct solvers.
    solver_ : {"cholesky", "qr", "lbfgs", "saga"}
        The solver used; "qr" is R factors, without a penalty.
    history_, converged_, gap_, decrement_, n_passes_
        For lbfgs and saga, as in `LogisticRegression`.

    Examples
    --------
    >>> Ridge(alpha=2.0).fit(np.array([[1.0], [3.0]]), [5.0, 9.0]).coef_.round(6)
    array([1.])
    """

    _parameter_constraints = {
        **LIMITS,
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "solver": [StrOptions({"auto", "cholesky", "lbfgs", "saga"})],
    }

    def __init__(
        self, alpha: Any = 1.0, *, fit_intercept: bool = True, tol: float = 1e-4,
        max_iter: int | None = None,
        solver: Literal["auto", "cholesky", "lbfgs", "saga"] = "auto", random_state: Any = None,
        warm_start: bool = False, callback: Callback | None = None, scheduler: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.random_state = random_state
        self.warm_start = warm_start
        self.callback = callback
        self.scheduler = scheduler

    @as_work("pass")
    @put_again
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit the model to rows X (n, d) and numbers y (n,) or (n, t), in memory or chunked.

        Raises
        ------
        ValueError
            The model can't be fitted to these rows, targets, weights or parameters.
        TypeError
            Targets or weights are sparse.

        Examples
        --------
        >>> Ridge(fit_intercept=False).fit(np.array([[2.0]]), [6.0]).coef_.round(6)
        array([2.4])
        """
        self._validate_params()
        alpha = np.asarray(self.alpha, float)
        if not ((alpha >= 0) & (alpha < np.inf)).all():
            raise ValueError(f"alpha must be at least 0 and finite, not {self.alpha}")
        rows = self._rows(X, y, sample_weight)
        name = self.solver
        if name == "auto":
            name = "cholesky" if rows.n_features <= WIDE or alpha.ndim else "lbfgs"
        if name == "cholesky":
            self._keep_theta(self._at_once(rows, alpha))
            self.n_iter_ = 1
            self.solver_: str = "cholesky" if alpha.any() else "qr"
            return self
        if alpha.ndim:
            raise ValueError(f"solver {name!r} takes one alpha for all targets: solver='cholesky'")
        self._fit_iteratively(rows, 0.0, float(alpha) / rows.total, name, self.max_iter or 1000)
        self.solver_ = name
        return self

    def _at_once(self, rows: Rows, alpha: np.ndarray) -> np.ndarray:
        """Return theta by the products of the features, or without penalty by R factors."""
        K = rows.targets.outputs
        if alpha.ndim and alpha.shape != (K,):
            raise ValueError(f"alpha has the shape {alpha.shape}; there are {K} targets")
        if not alpha.all():
            if alpha.any():
                raise ValueError("either all of alpha are 0, or none: fit such targets apart")
            return least_squares(rows, self.fit_intercept, self._run)[0]
        return ridge(
            feature_sums(rows, self.fit_intercept, self._run), np.broadcast_to(alpha, (K,))
        )


class ElasticNet(LinearRegressor):
    """Least squares with l1 and l2 penalties and scikit-learn's objective.

    ``|y - X w - b|² / (2 S) + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio) / 2 |w|²``, where S is
    the sum of the sample weights.

    Parameters
    ----------
    alpha : float
        Strength of the penalties.
    l1_ratio : float
        Part of the penalty that is l1.
    fit_intercept : bool
    max_iter : int
        Passes over the coefficients ("cd"), or over the rows ("saga").
    tol : float
        Stop when the duality gap is at most `tol` times ``|y|² / S``, of y minus its mean ("cd"),
        or when the gradient is at most `tol` ("saga").
    solver : {"auto", "cd", "saga"}
        "auto": up to 2,000 features, coordinate descent on products of features, which reads the
        rows once; else saga.
    positive : bool
        True: coefficients are at least 0 (only "cd").
    random_state, warm_start, callback, scheduler
        As in `LogisticRegression`; `callback` is for saga.

    Attributes
    ----------
    coef_ : ndarray, shape (d,) or (t, d)
    intercept_ : float or ndarray, shape (t,)
    n_iter_ : int or ndarray, shape (t,)
        Passes over the coefficients, for each target ("cd"), or over the rows ("saga").
    dual_gap_ : float or ndarray, shape (t,)
        The duality gap of each target ("cd"), or of all together ("saga").
    gap_ : float
        The largest duality gap.
    converged_ : bool
    history_, decrement_, n_passes_
        For saga, as in `LogisticRegression`.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [3.0, 1.0], [5.0, 0.0]]), [5.0, 9.0, 13.0]
    >>> ElasticNet(alpha=0.1).fit(X, y).coef_.round(3)
    array([1.945, 0.   ])
    """

    _parameter_constraints = {
        **LIMITS,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "cd", "saga"})],
        "positive": ["boolean"],
    }

    def __init__(
        self, alpha: float = 1.0, *, l1_ratio: float = 0.5, fit_intercept: bool = True,
        max_iter: int = 1000, tol: float = 1e-4,
        solver: Literal["auto", "cd", "saga"] = "auto", random_state: Any = None,
        warm_start: bool = False, positive: bool = False, callback: Callback | None = None,
        scheduler: Any = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.random_state = random_state
        self.warm_start = warm_start
        self.positive = positive
        self.callback = callback
        self.scheduler = scheduler

    @as_work("pass")
    @put_again
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ElasticNet:
        """Fit the model to rows X (n, d) and numbers y (n,) or (n, t), in memory or chunked.

        Raises
        ------
        ValueError
            The model can't be fitted to these rows, targets, weights or parameters.
        TypeError
            Targets or weights are sparse.

        Examples
        --------
        >>> ElasticNet(alpha=100.0).fit(np.array([[1.0], [3.0]]), [5.0, 9.0]).coef_
        array([0.])
        """
        self._check_parameters()
        rows = self._rows(X, y, sample_weight)
        wide = rows.n_features > WIDE and not self.positive
        if self.solver == "saga" or (self.solver == "auto" and wide):
            l1, l2 = self.alpha * self.l1_ratio, self.alpha * (1 - self.l1_ratio)
            self._fit_iteratively(rows, l1, l2, "saga", self.max_iter)
            self.dual_gap_: Any = self.gap_
        elif self.alpha == 0:  # for which coordinate descent is slow
            self._keep_theta(least_squares(rows, self.fit_intercept, self._run)[0])
            self._keep_end([0.0] * rows.targets.outputs, [1] * rows.targets.outputs, True)
        else:
            self._fit_products(rows)
        return self

    def _check_parameters(self) -> None:
        self._validate_params()
        if self.positive and self.solver == "saga":
            raise ValueError(
                "solver 'saga' does not support positive=True: take solver='cd'"
            )
        if self.positive and self.alpha == 0:
            raise ValueError(
                "positive=True without penalty (alpha=0) has no duality gap to end by: take a "
                "small alpha, as alpha=1e-9, or scipy.optimize.nnls for rows in memory"
            )

    def _fit_products(self, rows: Rows) -> None:
        sums = feature_sums(rows, self.fit_intercept, self._run)
        strength = self.alpha * rows.total
        theta = self._start((rows.targets.outputs, rows.n_features + 1), self.warm_start)
        if self.positive:
            np.maximum(theta, 0.0, out=theta)
        gaps, counts, good = [], [], True
        for k in range(len(theta)):
            limit = self.tol * float(sums.squares[k])
            theta[k, :-1], gap, passes = elastic_net(
                sums.gram, np.ascontiguousarray(sums.moments[:, k]), float(sums.squares[k]),
                strength * self.l1_ratio, strength * (1 - self.l1_ratio), theta[k, :-1].copy(),
                limit, self.max_iter, self.positive,
            )
            good = good and gap <= limit
            gaps.append(gap / rows.total)
            counts.append(passes)
        theta[:, -1] = sums.target - theta[:, :-1] @ sums.mean
        self._keep_theta(theta)
        self._keep_end(gaps, counts, good)
        if not good:
            warnings.warn(
                f"no convergence: after {max(counts)} passes over the coefficients the duality gap "
                f"is {max(gaps):.2g}, with tol={self.tol:g}; raise max_iter or tol, or scale the "
                "features", ConvergenceWarning, stacklevel=users_depth(),
            )

    def _keep_end(self, gaps: list[float], counts: list[int], good: bool) -> None:
        self.gap_, self.converged_ = max(gaps), good
        self.dual_gap_ = gaps[0] if self._columns is None else np.array(gaps)
        self.n_iter_: Any = counts[0] if self._columns is None else np.array(counts)


class Lasso(ElasticNet):
    """Least squares with an l1 penalty: `ElasticNet` with ``l1_ratio=1``.

    Parameters and attributes are those of `ElasticNet`.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [3.0, 1.0], [5.0, 0.0]]), [5.0, 9.0, 13.0]
    >>> Lasso(alpha=0.1).fit(X, y).coef_.round(4)
    array([1.9625, 0.    ])
    """

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, max_iter: int = 1000,
        tol: float = 1e-4, solver: Literal["auto", "cd", "saga"] = "auto",
        random_state: Any = None, warm_start: bool = False, positive: bool = False,
        callback: Callback | None = None, scheduler: Any = None,
    ) -> None:
        super().__init__(
            alpha, l1_ratio=1.0, fit_intercept=fit_intercept, max_iter=max_iter, tol=tol,
            solver=solver, random_state=random_state, warm_start=warm_start, positive=positive,
            callback=callback, scheduler=scheduler,
        )
