"""`LogisticRegression`: two classes, or several by softmax; l1, l2 and elastic net penalties.

`fit` finds the classes among the labels of all chunks, keeps the rows where the workers are if they
fit in memory, and minimises one objective by one of the solvers of lazyflow/learn/solvers;
``solver="auto"`` chooses by the penalty, the number of coefficients, and whether the rows are
sparse. The objective is scikit-learn's, so the strength of the penalty depends on C and the sum of
the weights, not on the chunks. Predictions for a chunked X are lazy, and a task makes those of one
chunk of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils._param_validation import Interval, StrOptions

from lazyflow.api.progress_events import as_work
from lazyflow.graph.task import users_depth
from lazyflow.learn.chunked.metrics import accuracy_score
from lazyflow.learn.data.inputs import is_chunked, loaded
from lazyflow.learn.data.labels import class_weighted, classes_of
from lazyflow.learn.data.rows import ClassTargets, kept_rows, places_of
from lazyflow.learn.estimators.linear_estimator import (
    LIMITS,
    LinearEstimator,
    put_again,
    scores_of_chunk,
)
from lazyflow.learn.kernels.losses import LOGISTIC, SOFTMAX
from lazyflow.learn.solvers.lbfgs import lbfgs
from lazyflow.learn.solvers.newton import newton
from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.stochastic import saga, svrg
from lazyflow.learn.solvers.stopping import Callback, Progress, Solution, StopRule, is_separated

# -- the estimator ----------------------------------------------------------------------------


Solver = Literal["auto", "lbfgs", "newton-cholesky", "saga", "svrg"]

_SOLVERS = ("auto", "lbfgs", "newton-cholesky", "saga", "svrg")
_PENALTIES: dict[str | None, float] = {"l2": 0.0, "l1": 1.0}  # and what l1_ratio is for them
#: Coefficients up to which a Newton step costs less than L-BFGS's passes for as much; a guess.
_FEW = 300


class LogisticRegression(ClassifierMixin, LinearEstimator):
    """Logistic regression on rows in memory or in chunks, with scikit-learn's objective.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty; ``np.inf`` turns it off.
    l1_ratio : float
        Part of the penalty that is l1: 0 is l2, 1 is l1, between is the elastic net.
    penalty : {"l2", "l1", "elasticnet", None} or "deprecated"
        Deprecated, with scikit-learn's warning. Write ``l1_ratio=0`` for "l2", ``l1_ratio=1`` for
        "l1", `l1_ratio` alone for "elasticnet", and ``C=np.inf`` for None.
    tol : float
        Stop when no component of the gradient of the mean loss exceeds `tol`.
    fit_intercept : bool
        Whether there are intercepts; they are not penalised.
    class_weight : dict, "balanced" or None
        Weights of classes.
    random_state : int, RandomState or None
        For saga and svrg. The same number gives the same bits on every scheduler, with any number
        of workers. None is 0.
    solver : {"auto", "lbfgs", "newton-cholesky", "saga", "svrg"}
        "auto": saga with an l1 penalty; newton-cholesky up to 300 coefficients; saga on sparse
        rows; else lbfgs. All read the rows in chunks and never gather them, except that saga gives
        up to 1 GB of them to one worker.
    max_iter : int or None
        Iterations (epochs for saga); None: 1,000.
    verbose : int
        n prints a line for every n-th point of the trace.
    warm_start : bool
        Start from the coefficients of the last fit, even if it was interrupted. If the number
        of features or classes has changed, start from zero.
    gap_tol : float or None
        Also stop when the duality gap is at most `gap_tol` times the objective.
    callback : callable or None
        Called with a `lazyflow.learn.solvers.stopping.Progress` for each point of the trace; a true
        result stops the fit.
    scheduler : str or None
        As in `lazyflow.compute`.

    Attributes
    ----------
    coef_ : ndarray, shape (1, d) or (K, d)
    intercept_ : ndarray, shape (1,) or (K,)
    classes_ : ndarray, shape (K,)
    n_iter_ : ndarray, shape (1,)
    history_ : dict of ndarray
        The trace: iteration, passes, seconds, objective, gradient_norm, gap, step.
    converged_ : bool
    gap_ : float
        An upper bound of the objective minus its minimum (NaN without penalty).
    decrement_ : float
        Without penalty, and up to 500 coefficients, half the squared Newton decrement: near the
        minimum, the objective minus its minimum. Else NaN.
    n_passes_ : float
        How often the rows were read.
    n_features_in_, feature_names_in_
        As scikit-learn's.

    Notes
    -----
    The objective is the weighted mean loss plus penalties: ``(1 - l1_ratio) / (C S)`` times
    ``|w|²/2`` and ``l1_ratio / (C S)`` times ``|w|_1``, where S is the sum of the weights.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> X = la.from_array(np.array([[0.0], [1.0], [2.0], [3.0]]), chunks=(2, 1))
    >>> model = LogisticRegression().fit(X, np.array(["no", "no", "yes", "yes"]))
    >>> print(model.predict([[0.5], [2.5]]), model.converged_)
    ['no' 'yes'] True
    """

    _parameter_constraints = {
        **LIMITS,
        "C": [Interval(Real, 0, None, closed="right")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "penalty": [StrOptions({*_PENALTIES, "elasticnet", "deprecated"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "solver": [StrOptions(set(_SOLVERS))],
        "verbose": ["verbose"],
        "gap_tol": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self, C: float = 1.0, *, l1_ratio: float = 0.0, penalty: str | None = "deprecated",
        tol: float = 1e-4, fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None, random_state: Any = None,
        solver: Solver = "auto", max_iter: int | None = None, verbose: int = 0,
        warm_start: bool = False, gap_tol: float | None = None, callback: Callback | None = None,
        scheduler: Any = None,
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.penalty = penalty
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.gap_tol = gap_tol
        self.callback = callback
        self.scheduler = scheduler

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver != "svrg"
        return tags

    @as_work("pass")
    @put_again
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fit the model to rows X (n, d) and labels y (n,).

        Parameters
        ----------
        X
            An array, a frame, a sparse matrix, a chunked array, or a list of lazy chunks.
        y, sample_weight
            In memory, or chunked as X.

        Raises
        ------
        ValueError
            The model can't be fitted to these rows, labels, weights or parameters; for chunks
            the message names the chunk and its row.
        TypeError
            Targets or weights are sparse, or the rows are and the solver is svrg.

        Examples
        --------
        >>> LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1]).coef_.round(3)
        array([[0.445]])
        """
        C, l1_ratio = self._check_parameters()
        parts = self._parts(X, y, sample_weight, numbers=False)
        if is_chunked(X) and getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected: its one column is "
                "taken. Pass y[:, 0]", DataConversionWarning, stacklevel=users_depth(),
            )
        places = places_of(parts, X)
        parts, keep = self._fitting(X, parts)
        parts = loaded(parts, self._run, keep)
        classes = classes_of(parts, places, self._run)
        parts = class_weighted(parts, places, classes, self.class_weight, self._run)
        rows = kept_rows(parts, ClassTargets(classes), self._run, keep=keep, places=places)
        del parts  # what was converted is not kept as it was, too
        self.classes_ = classes
        self._keep_features(X, rows)
        strength = 1.0 / (C * rows.total)
        problem = Problem(
            rows, LOGISTIC if len(classes) == 2 else SOFTMAX, l1_ratio * strength,
            (1.0 - l1_ratio) * strength, self.fit_intercept, self._run,
        )
        shown = _printed(self.callback, self.verbose)
        rule = StopRule(self.tol, self.gap_tol, self.max_iter or 1000, shown)
        self._solve(self._solver_of(problem), rule)
        if not (problem.l1 or problem.l2) and is_separated(problem, self._theta):
            warnings.warn(
                "a plane separates the classes, so without penalty the loss has no minimum: it "
                "falls as the coefficients grow. Take a finite C", ConvergenceWarning,
                stacklevel=users_depth(),
            )
        return self

    def _check_parameters(self) -> tuple[float, float]:
        """Return C and l1_ratio, which `penalty` may say in scikit-learn's older way."""
        self._validate_params()
        C, l1_ratio = self.C, self.l1_ratio
        if self.penalty != "deprecated":
            C = np.inf if self.penalty is None else C
            l1_ratio = _PENALTIES.get(self.penalty, l1_ratio)
            given, ignored = f"l1_ratio={self.l1_ratio:g}", l1_ratio != self.l1_ratio != 0
            if self.penalty is None:
                given, ignored = f"C={self.C:g}", self.C not in (1, np.inf)
            warnings.warn(
                f"'penalty' was deprecated in scikit-learn 1.8: write C={C:g}, l1_ratio="
                f"{l1_ratio:g} instead of penalty={self.penalty!r}"
                + (f", beside which {given} is ignored" if ignored else ""),
                FutureWarning, stacklevel=users_depth(),
            )
        if l1_ratio > 0 and self.solver not in ("auto", "saga"):
            raise ValueError(
                f"solver {self.solver!r} knows no l1 penalty (l1_ratio={l1_ratio}): take "
                "solver='saga' or l1_ratio=0"
            )
        return C, l1_ratio

    def _solver_of(self, problem: Problem) -> Callable[[StopRule], Solution]:
        """Return the solver, bound to the problem and where to start."""
        start = self._start(problem.shape, self.warm_start)
        sparse = problem.rows.present is not None
        name = self.solver
        if name == "auto":
            if problem.l1:
                name = "saga"
            elif problem.shape[0] * problem.shape[1] <= _FEW:
                name = "newton-cholesky"
            else:
                name = "saga" if sparse and problem.l2 else "lbfgs"
        if name == "saga":
            return partial(saga, problem, start, seed=self._seed(self.random_state))
        if name == "svrg":
            if sparse:
                raise TypeError(
                    "solver 'svrg' needs dense rows, and these are sparse: take solver='saga' or "
                    "'lbfgs'"
                )
            return partial(svrg, problem, start, seed=self._seed(self.random_state))
        return partial(lbfgs if name == "lbfgs" else newton, problem, start)

    def _keep_theta(self, theta: np.ndarray) -> None:
        theta = theta.astype(self._dtype)
        self.coef_, self.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()

    def _keep_count(self, iterations: int) -> None:
        self.n_iter_ = np.array([iterations], np.int32)

    def decision_function(self, X: Any) -> Any:
        """Return scores: (n,) for the second of two classes, else (n, K); lazy for chunked X.

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> model = LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1])
        >>> model.decision_function(np.array([[0.5]])).round(6) + 0.0
        array([0.])
        """
        theta = self._theta
        width = None if len(theta) == 1 else len(theta)
        return self._of_rows(X, scores_of_chunk, {"theta": theta}, width, float)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class (n, K); lazy for chunked X.

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> model = LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1])
        >>> model.predict_proba(np.array([[0.5]])).round(6)
        array([[0.5, 0.5]])
        """
        return self._of_rows(
            X, _probabilities, {"theta": self._theta}, len(self.classes_), float
        )

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of `predict_proba`.

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> model = LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1])
        >>> model.predict_log_proba(np.array([[0.5]])).round(3)
        array([[-0.693, -0.693]])
        """
        return self._of_rows(X, _logarithms, {"theta": self._theta}, len(self.classes_), float)

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row (n,); lazy for chunked X.

        Raises
        ------
        NotFittedError
            `fit` was not called before.
        ValueError
            X has another number of features than in `fit`, NaN or infinities. The values of lazy
            chunks are checked when they are computed.

        Examples
        --------
        >>> model = LogisticRegression().fit(np.array([[0.0], [1.0]]), [3, 5])
        >>> model.predict(np.array([[0.9], [0.2]]))
        array([5, 3])
        """
        fitted = {"theta": self._theta, "classes": self.classes_}
        return self._of_rows(X, _predicted, fitted, None, self.classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted correctly.

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.

        Examples
        --------
        >>> model = LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1])
        >>> model.score(np.array([[0.9], [0.2]]), [1, 1])
        0.5
        """
        return self._scored(accuracy_score, X, y, sample_weight)


# -- of the rows of one chunk ---------------------------------------------------------------------


def _probabilities(X: Any, theta: np.ndarray) -> np.ndarray:
    scores = scores_of_chunk(X, theta)
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    found: np.ndarray = softmax(scores, axis=1)
    return found


def _logarithms(X: Any, theta: np.ndarray) -> np.ndarray:
    scores = scores_of_chunk(X, theta)
    if scores.ndim == 1:
        return np.column_stack([log_expit(-scores), log_expit(scores)])
    found: np.ndarray = log_softmax(scores, axis=1)
    return found


def _predicted(X: Any, theta: np.ndarray, classes: np.ndarray) -> np.ndarray:
    scores = scores_of_chunk(X, theta)
    best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[best]


def _printed(callback: Callback | None, every: int) -> Callback | None:
    """Return a callback that prints some points of the trace, too."""
    if not every:
        return callback

    def printing(progress: Progress) -> Any:
        if progress.iteration % every == 0:
            print(
                f"iteration {progress.iteration}: objective {progress.objective:.8g}, "
                f"max|gradient| {progress.gradient_norm:.2g}, gap {progress.gap:.2g}, "
                f"{progress.seconds:.2f} s"
            )
        return callback is not None and callback(progress)

    return printing
