"""Code shared by the linear models: taking rows, storing results, scores of chunks.

Rows in memory are checked as scikit-learn does it and cut into parts; the tasks that keep these
look for NaN and infinities, and check chunks. If lazy rows fit in memory they are made once and
kept, else each pass reads them again. An interrupted fit keeps the coefficients of its last step,
for ``warm_start=True``. A fit on rows from memory begins again once if a worker dies.
``random_state=None`` means 0, so that NumPy's global state stays as it is. Predictions for chunks
are lazy; a score is computed.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

import lazyflow.array as la
from lazyflow import compute, config, delayed
from lazyflow.array.core import Array
from lazyflow.errors import WorkerDied
from lazyflow.graph.task import users_depth
from lazyflow.learn.data.inputs import (
    RowChunk,
    check_dense,
    check_two_axes,
    fitting,
    is_chunked,
    listed,
    parts_of,
)
from lazyflow.learn.data.rows import Place, Rows, as_numbers, check_finite, check_names
from lazyflow.learn.kernels.sums import scores_of
from lazyflow.learn.solvers.stopping import Progress, Solution, StopRule, trace_arrays

#: The parameters that solvers have in common, as scikit-learn checks them.
LIMITS: dict[str, Any] = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left"), None],
    "fit_intercept": ["boolean"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "callback": [callable, None],
}


def scores_of_chunk(X: Any, theta: np.ndarray) -> np.ndarray:
    """Return the scores of a chunk's rows: (rows,) of one output, else (rows, K).

    Examples
    --------
    >>> scores_of_chunk(np.array([[3.0]]), np.array([[2.0, 1.0]]))
    array([7.])
    """
    X = as_numbers(X, "X")
    if X.shape[1] != theta.shape[1] - 1:
        raise ValueError(
            f"X has {X.shape[1]} features, but the model is expecting {theta.shape[1] - 1} "
            "features as input"
        )
    scores = scores_of(theta, X)
    if not np.isfinite(scores).all():
        check_finite(X, Place())  # or scores are too large, which is no fault
    return scores[:, 0] if len(theta) == 1 else scores


def _of_named(function: Callable[..., Any], names: list[str], X: Any, **fitted: Any) -> Any:
    check_names(X, names)
    return function(X, **fitted)


def gathered(values: Any) -> Any:
    """Return the numbers of a lazy value, or of a list of lazy chunks; other values unchanged.

    Examples
    --------
    >>> gathered([delayed(np.zeros)(1), delayed(np.ones)(2)])
    array([0., 1., 1.])
    """
    if isinstance(values, Array) or not is_chunked(values):
        return values
    if isinstance(values, list | tuple):
        return np.concatenate(compute(*values))
    return compute(values)[0]


def put_again(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Repeat a fit once if a worker dies with rows that were put there from memory.

    The scheduler makes lazy chunks again from their tasks, but only the caller has rows in memory.
    A second death raises: the rows themselves may kill workers.

    Examples
    --------
    >>> class Model:
    ...     tries = 0
    ...     @put_again
    ...     def fit(self, X, y):
    ...         self.tries += 1
    ...         if self.tries == 1:
    ...             raise WorkerDied("worker 3 died")
    ...         return self
    >>> Model().fit([[1.0]], [1.0]).tries
    2
    """

    @wraps(fit)
    def begun_again(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        given = (X, y) if sample_weight is None else (X, y, sample_weight)
        try:
            return fit(self, *given)
        except WorkerDied:
            if is_chunked(X):
                raise
        return fit(self, *given)

    return begun_again


class LinearEstimator(BaseEstimator, ABC):
    """Base class of the estimators; a subclass has ``scheduler`` among its parameters."""

    fit_intercept: bool
    scheduler: Any
    coef_: np.ndarray
    intercept_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _run(self) -> dict[str, Any]:
        return {} if self.scheduler is None else {"scheduler": self.scheduler}

    # -- taking rows ------------------------------------------------------------------------------

    def _parts(self, X: Any, y: Any, sample_weight: Any, numbers: bool) -> list[RowChunk]:
        """Return rows, targets and weights in parts; what is in memory is checked as scikit-learn
        does it, what is chunked is checked by the tasks that keep it."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None"
            )
        if is_chunked(X):
            if isinstance(X, Array):
                validate_data(self, X, skip_check_array=True)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_  # of an earlier fit; those of chunks are seen later
            return parts_of(X, y, sample_weight, self._run)
        with config.set(**self._run):
            y, sample_weight = gathered(y), gathered(sample_weight)
        for values, name in ((y, "y"), (sample_weight, "sample_weight")):
            check_dense(values, name)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            multi_output=numbers, y_numeric=numbers,
            ensure_all_finite=False,  # the tasks that keep rows look at them, and name the row
        )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return parts_of(X, y, sample_weight)

    def _keep_features(self, X: Any, rows: Rows) -> None:
        """Keep the number of features, their names where chunks in a list had some, and the dtype
        of the rows, which is that of the coefficients."""
        self.n_features_in_ = rows.n_features
        self._dtype = rows.dtype
        if rows.names is not None and not isinstance(X, Array):
            self.feature_names_in_ = np.array(rows.names, object)

    def _fitting(self, X: Any, parts: list[RowChunk]) -> tuple[list[RowChunk], bool]:
        """Return parts, and whether their rows are kept."""
        known = isinstance(X, Array) and None not in X.shape
        most = math.prod(X.shape) * 8 if known else math.inf  # less, where its chunks are sparse
        found, keep = fitting([tuple(part) for part in parts], self._run, most)
        return [RowChunk(*part) for part in found], keep

    def _start(self, shape: tuple[int, int], warm_start: bool) -> np.ndarray:
        """Return where a solver starts: zeros, or the last fit's coefficients."""
        theta = np.zeros(shape)
        if warm_start and hasattr(self, "coef_"):
            coef = np.atleast_2d(self.coef_)
            if coef.shape == theta[:, :-1].shape:
                theta[:, :-1] = coef
                if self.fit_intercept:
                    theta[:, -1] = self.intercept_
        return theta

    def _seed(self, random_state: Any) -> int:
        if random_state is None:  # and NumPy's global state stays as it is
            return 0
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))

    # -- keeping what was found -------------------------------------------------------------------

    def _solve(self, solver: Callable[[StopRule], Solution], rule: StopRule) -> None:
        """Run a solver and keep what it found; also where it is interrupted on the way."""
        seen: list[Progress] = []

        def callback(progress: Progress) -> Any:
            seen.append(progress)
            return rule.callback is not None and rule.callback(progress)

        try:
            solution = solver(rule._replace(callback=callback))
        except BaseException:
            if seen:  # warm_start=True goes on from here
                last = seen[-1]
                self._keep(Solution(
                    last.theta, trace_arrays(seen), False, last.gap, math.nan, last.iteration,
                    last.passes, "",
                ))
            raise
        self._keep(solution)
        if solution.message:
            warnings.warn(solution.message, ConvergenceWarning, stacklevel=users_depth())

    def _keep(self, solution: Solution) -> None:
        self._keep_theta(solution.theta)
        self.history_ = solution.history
        self.converged_ = solution.converged
        self.gap_ = solution.gap
        self.decrement_ = solution.decrement
        self.n_passes_ = solution.n_passes
        self._keep_count(max(int(solution.history["iteration"][-1]), 1))

    def _keep_count(self, iterations: int) -> None:
        self.n_iter_: Any = iterations

    @abstractmethod
    def _keep_theta(self, theta: np.ndarray) -> None:
        """Keep coefficients and intercepts in scikit-learn's shapes."""

    # -- scores -----------------------------------------------------------------------------------

    @property
    def _theta(self) -> np.ndarray:
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        theta = np.column_stack([coef, np.broadcast_to(self.intercept_, len(coef))])
        return theta.astype(np.float64, copy=False)

    def _of_rows(
        self, X: Any, function: Callable[..., np.ndarray], fitted: dict[str, Any],
        width: int | None, dtype: Any,
    ) -> Any:
        """Return a function's results for rows: of chunks lazily, in the chunks of X.

        `width` is the number of columns of the results, None of one axis.
        """
        if isinstance(X, Array):
            check_two_axes(X)
            if X.shape[1] is not None:
                validate_data(self, X, reset=False, skip_check_array=True)
            if X.numblocks[1] > 1:  # it looks at lengths that are not known, so only if it must
                X = X.rechunk({1: -1})
            rows = X.chunks[0]
            if width is None:
                return la.map_blocks(function, X, dtype=dtype, drop_axis=1, **fitted)
            return la.map_blocks(function, X, dtype=dtype, chunks=(rows, (width,)), **fitted)
        if is_chunked(X):
            names = getattr(self, "feature_names_in_", None)
            one = delayed(
                function if names is None else partial(_of_named, function, list(names))
            )
            return [one(chunk, **fitted) for chunk in listed(X, "X")]
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return function(X, **fitted)

    def _scored(self, score: Callable[..., float], X: Any, y: Any, sample_weight: Any) -> float:
        """Return a score of the predictions, computed where the model is fitted."""
        with config.set(**self._run):
            y, predicted, weight = map(gathered, (y, self.predict(X), sample_weight))
            return float(score(y, predicted, sample_weight=weight))
