"""`ElasticNet` and `Lasso`: coordinate descent on products of features, or SAGA."""

import warnings
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from lazyflow.api.progress_events import as_work
from lazyflow.graph.task import users_depth
from lazyflow.learn.data.rows import Rows
from lazyflow.learn.estimators.least_squares import WIDE, LinearRegressor
from lazyflow.learn.estimators.linear_estimator import LIMITS, put_again
from lazyflow.learn.solvers.coordinate_descent import elastic_net
from lazyflow.learn.solvers.least_squares import feature_sums, least_squares
from lazyflow.learn.solvers.stopping import Callback

__all__ = ["ElasticNet", "Lasso"]


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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ElasticNet":
        """Fit the model to rows X (n, d) and numbers y (n,) or (n, t), in memory or chunked.

        Raises
        ------
        ValueError
            The model can't be fitted to these rows, targets, weights or parameters.

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
                "solver 'saga' knows no positive=True: take solver='cd', which reads the rows once"
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
