"""scikit-learn's hyperparameter searches, with all fits as one graph on any scheduler.

Splits, scores, ranks, messages, errors and the refit are scikit-learn's own code. It passes its
calls to joblib; `_OneGraph` takes joblib's place and calls `graph_of` to make one graph of all.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import joblib
from joblib.parallel import ParallelBackendBase
from sklearn import model_selection
from sklearn.experimental import enable_halving_search_cv  # noqa: F401

from lazyflow import compute, config, is_lazy
from lazyflow.api.evaluate import scheduler_or_default
from lazyflow.learn.chunked.rows import any_chunked
from lazyflow.tune.shared_steps import graph_of

__all__ = [
    "GridSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV", "RandomizedSearchCV",
]


class _OneGraph(ParallelBackendBase):
    """What joblib gives the calls of a search.

    It stands in for the backend of the first `Parallel` alone, which is the search's own: that of
    an estimator, in the refit, has the backend that it would have without us.
    """

    supports_retrieve_callback = True

    def __init__(self, run: dict[str, Any]) -> None:
        super().__init__()
        self._run = run
        self.config = joblib.parallel_config(backend=self)
        self._submitted: list[tuple[Any, Callable[[Any], None]]] = []

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        return 2  # of one, joblib would make the calls itself

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        self.config.unregister()
        parallel.pre_dispatch = "all"  # a graph needs no limit: its calls hold no rows
        return super().configure(n_jobs, parallel, **options)

    def submit(self, func: Any, callback: Any = None) -> None:
        self._submitted.append((func.items, callback))

    apply_async = submit  # its name before joblib 1.5

    @contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """Compute: joblib enters when it has submitted all calls, and asks for results then."""
        submitted, self._submitted = self._submitted, []
        graph = graph_of([call for items, _ in submitted for call in items])
        with warnings.catch_warnings():  # each call sets filters, and threads mix theirs up
            results = iter(compute(*graph, **self._run))
        for items, callback in submitted:
            callback([next(results) for _ in items])
        yield

    def retrieve_result_callback(self, out: Any) -> Any:
        return out


class _ScheduledSearch:
    """What the searches add to scikit-learn's."""

    estimator: Any
    scheduler: Any
    num_workers: int | None
    n_jobs: int | None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a scheduler that is no name: clients and executors are of this process."""
        state: Any = super().__getstate__()
        return state if isinstance(self.scheduler, str) else {**state, "scheduler": None}

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search, as scikit-learn's `fit`, and refit the best candidate in this process."""
        workers = self.num_workers
        if workers is None and self.n_jobs is not None:
            workers = joblib.effective_n_jobs(self.n_jobs)
        given = {"scheduler": self.scheduler, "num_workers": workers}
        run = {name: value for name, value in given.items() if value is not None}
        if is_lazy(y):
            (y,) = compute(y, **run)
        chunked = any_chunked(X)
        if chunked and not _is_ours(self.estimator):
            (X,) = compute(X, **run)
            chunked = False
        inner: dict[str, Any] = {}
        if chunked:  # calls are made here, and the estimators compute on the scheduler
            inner = run | {"scheduler": scheduler_or_default(self.scheduler)}
            run = {"scheduler": "sync"}
        with config.set(**inner), _OneGraph(run).config:
            if chunked:
                X.with_known_sizes()
            return super().fit(X, y, **params)  # type: ignore[misc]


def _is_ours(estimator: Any) -> bool:
    """Tell whether an estimator, or one in it, takes chunked rows as they are."""
    return any(
        each.__module__.startswith("lazyflow.learn.")
        for part in (estimator, *estimator.get_params().values()) for each in type(part).__mro__
    )


def _with_two_more(cls: Any) -> Any:
    """Give a search the parameters of scikit-learn's own, and two more; all are found by name."""
    theirs = cls.__init__
    signature = inspect.signature(theirs)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("scheduler", "num_workers")
    ]

    def __init__(self: Any, *args: Any, scheduler: Any = None, num_workers: Any = None,
                 **kwargs: Any) -> None:
        theirs(self, *args, **kwargs)
        self.scheduler = scheduler
        self.num_workers = num_workers

    parameters = [*signature.parameters.values(), *more]
    __init__.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    cls.__init__ = __init__
    return cls


@_with_two_more
class GridSearchCV(_ScheduledSearch, model_selection.GridSearchCV):
    """Search a grid of parameters: scikit-learn's class, on lazyflow's schedulers.

    It has scikit-learn's parameters, attributes and methods, and the same ``cv_results_`` except
    times. First steps of a `Pipeline` that candidates share are fitted once for each fold,
    also in nested pipelines; the time counts for each candidate. So a shared step without a
    `random_state` draws once for all of them.

    A chunked array X is not gathered for estimators of `lazyflow.learn`: this process makes the
    calls one after the other, and the estimators read chunks on the scheduler. For other
    estimators X is computed once. Lazy targets are also computed once, since splits need them.

    Parameters
    ----------
    estimator, param_grid, scoring, refit, cv, verbose, error_score, return_train_score
        As scikit-learn's.
    n_jobs : int, optional
        The number of workers, if `num_workers` is None; -1 is one for each core.
    pre_dispatch
        Accepted, but has no effect: tasks take rows when they run.
    scheduler, num_workers
        As for `lazyflow.compute`. The refit runs in this process.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> pipeline = make_pipeline(StandardScaler(), SVC())
    >>> search = GridSearchCV(pipeline, {"svc__C": [0.001, 1.0]}, scheduler="threads")
    >>> search.fit(*load_iris(return_X_y=True)).best_params_
    {'svc__C': 1.0}
    """


@_with_two_more
class RandomizedSearchCV(_ScheduledSearch, model_selection.RandomizedSearchCV):
    """Search parameters at random: scikit-learn's class, on lazyflow's schedulers.

    See `GridSearchCV` for the differences from scikit-learn.

    Parameters
    ----------
    estimator, param_distributions, n_iter, random_state, ...
        As scikit-learn's.
    scheduler, num_workers
        As for `lazyflow.compute`.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> C = loguniform(1e-3, 1e3)
    >>> search = RandomizedSearchCV(SVC(), {"C": C}, n_iter=4, random_state=0, scheduler="sync")
    >>> len(search.fit(*load_iris(return_X_y=True)).cv_results_["params"])
    4
    """


@_with_two_more
class HalvingGridSearchCV(_ScheduledSearch, model_selection.HalvingGridSearchCV):
    """Search a grid with more and more rows for fewer and fewer candidates.

    It is scikit-learn's class, on lazyflow's schedulers, with a graph for each iteration. See
    `GridSearchCV` for the differences from scikit-learn.

    Parameters
    ----------
    estimator, param_grid, factor, resource, ...
        As scikit-learn's.
    scheduler, num_workers
        As for `lazyflow.compute`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> search = HalvingGridSearchCV(
    ...     SVC(), {"C": [0.001, 0.1, 1.0]}, random_state=0, scheduler="sync")
    >>> search.fit(*load_iris(return_X_y=True)).n_candidates_
    [3, 1]
    """


@_with_two_more
class HalvingRandomSearchCV(_ScheduledSearch, model_selection.HalvingRandomSearchCV):
    """Search parameters at random, with more and more rows for fewer and fewer candidates.

    It is scikit-learn's class, on lazyflow's schedulers. See `HalvingGridSearchCV`.

    Parameters
    ----------
    estimator, param_distributions, n_candidates, factor, resource, ...
        As scikit-learn's.
    scheduler, num_workers
        As for `lazyflow.compute`.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> C = loguniform(1e-3, 1e3)
    >>> search = HalvingRandomSearchCV(SVC(), {"C": C}, random_state=0, scheduler="sync")
    >>> search.fit(*load_iris(return_X_y=True)).n_iterations_
    2
    """
