"""scikit-learn's hyperparameter searches, with all fits as one graph on any scheduler.

Splits, scores, ranks, messages, errors and the refit are scikit-learn's own code. It passes its
calls to joblib; `_OneGraph` takes joblib's place and calls `graph_of` to make one graph of all, in
which steps that candidates share are fitted once.

None of scikit-learn's code is repeated. A pipeline asks the object in its parameter ``memory`` to
fit all steps but the last. A search sets a `_StepMemory` there, which supplies the steps that
another task fitted, and ends the fit at the step of its own task. So rows of a fold, parameters of
`fit`, metadata, messages, errors and scores are scikit-learn's own in every task.

Steps have the names that the parameters of a pipeline use: ``"prep__pca"`` is a step of the
pipeline that is the step ``"prep"``.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple, Self, TypeAlias

import joblib
from joblib.parallel import ParallelBackendBase
from scipy.sparse import issparse
from sklearn import model_selection
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_memory

from lazyflow import Delayed, compute, config, delayed, is_lazy, tokenize
from lazyflow.api.evaluate import scheduler_or_default
from lazyflow.learn.chunked.rows import any_chunked

#: A call of scikit-learn's `_fit_and_score`: the function, its arguments and keywords.
# -- the calls of a search as one graph -------------------------------------------------------


Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _MemoryStep(NamedTuple):
    """A step of a candidate that a ``memory`` is asked to fit.

    `later` are the names of the steps after it, `parameter` is the name of the memory, and
    `memory` the user's own.
    """

    name: str
    later: tuple[str, ...]
    parameter: str
    memory: Any


class _Calls:
    """All calls of a graph as one value, since they have rows, folds and scorers in common.

    `steps` has for each call those of its candidate.
    """

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.steps: list[list[_MemoryStep]] = []


class _Prefix:
    """The first steps of a pipeline, fitted on the rows of a fold.

    `steps` has them by name in the order of their fits, `X` are the rows that they return, and
    `seconds` the time of all.
    """

    def __init__(self, steps: dict[str, Any], X: Any, seconds: float) -> None:
        self.steps = steps
        self.X = X
        self.seconds = seconds


def graph_of(calls: list[Call]) -> list[Delayed]:
    """Return lazy results of calls.

    A separate task fits steps that several calls share if these calls do not share the next step.
    """
    graph = _Calls(calls)
    leaf, fit_steps, evaluate = delayed(graph), delayed(_fit_steps), delayed(_evaluate)
    known: dict[int, tuple[list[_MemoryStep], list[str]]] = {}
    chains = []
    for _, (estimator, *_), kwargs in calls:
        parameters = kwargs["parameters"]
        if id(parameters) not in known:  # each fold has the same candidates
            steps = _steps_of(estimator, parameters)
            known[id(parameters)] = steps, [_token(parameters, step.later) for step in steps]
        steps, tokens = known[id(parameters)]
        graph.steps.append(steps)
        chains.append([
            (step.name, token, id(kwargs["train"]))
            for step, token in zip(steps, tokens, strict=True)
        ])
    uses = Counter(key for chain in chains for key in chain)
    prefixes: dict[Any, Delayed] = {}
    results = []
    for number, chain in enumerate(chains):
        before = None
        users = [uses[key] for key in chain] + [1]  # never more than of the step before
        for key, (now, later) in zip(chain, pairwise(users), strict=True):
            if now > later:
                if key not in prefixes:
                    prefixes[key] = fit_steps(leaf, number, before, key[0])
                before = prefixes[key]
        results.append(evaluate(leaf, number, before))
    return results


def _token(parameters: Mapping[str, Any], later: tuple[str, ...]) -> str:
    """Return a token that is the same for candidates whose parameters are the same but for those
    of later steps.

    Examples
    --------
    >>> _token({"pca__k": 1, "svc__C": 2}, ("svc",)) == _token({"pca__k": 1}, ("svc",))
    True
    """
    after = tuple(f"{name}__" for name in later)
    return tokenize({
        name: value for name, value in parameters.items() if not f"{name}__".startswith(after)
    })


def _steps_of(estimator: Any, parameters: Mapping[str, Any]) -> list[_MemoryStep]:
    if type(estimator) is not Pipeline:
        return []
    try:
        estimator = clone(estimator).set_params(**clone(dict(parameters), safe=False))
        return list(_steps(estimator))
    except Exception:
        return []  # the task of the candidate says what is wrong with it


def _steps(estimator: Any, prefix: str = "", later: tuple[str, ...] = ()) -> Iterator[_MemoryStep]:
    """Yield the steps that may be shared, in the order of their fits.

    Subclasses of `Pipeline` may fit their steps otherwise. A step that the user's memory keeps is
    hashed by it, so no memory of ours may be in it.

    Examples
    --------
    >>> from sklearn.pipeline import Pipeline
    >>> inner = Pipeline([("a", "passthrough"), ("b", Pipeline([("c", None)])), ("d", None)])
    >>> for step in _steps(Pipeline([("prep", inner), ("svc", None)])):
    ...     step[:3]
    ('prep__b', ('prep__d', 'svc'), 'prep__memory')
    ('prep', ('svc',), 'memory')
    """
    if type(estimator) is not Pipeline:
        return
    names = [prefix + name for name, _ in estimator.steps]
    for at, (_, step) in enumerate(estimator.steps):
        after = (*names[at + 1:], *later)
        is_last = at == len(names) - 1
        if is_last or estimator.memory is None:
            yield from _steps(step, f"{names[at]}__", after)
        if not is_last and step is not None and not isinstance(step, str):  # "passthrough"
            yield _MemoryStep(names[at], after, f"{prefix}memory", estimator.memory)


def _evaluate(graph: _Calls, number: int, before: _Prefix | None) -> dict[str, Any]:
    """Fit and score a candidate."""
    result: dict[str, Any] = _call(graph, number, before)
    if before is not None:
        result["fit_time"] += before.seconds  # a `refit` may choose by it
    return result


def _fit_steps(
    graph: _Calls, number: int, before: _Prefix | None, wanted: str
) -> _Prefix | None:
    """Fit the steps of a candidate up to the wanted one.

    A step that fails does so again in the task of each candidate that needs it, which reports it
    in scikit-learn's words.
    """
    start = perf_counter()
    try:
        _call(graph, number, before, wanted)
    except _StepFitted as done:
        seconds = perf_counter() - start + (0.0 if before is None else before.seconds)
        return _Prefix(done.steps, done.X, seconds)
    return before


def _call(
    graph: _Calls, number: int, before: _Prefix | None = None, wanted: str | None = None
) -> Any:
    func, (estimator, *rows), kwargs = graph.calls[number]
    if wanted is not None:
        silent = {"verbose": 0, "callback_ctx": None}
        kwargs = kwargs | {name: value for name, value in silent.items() if name in kwargs}
    if before is not None or wanted is not None:
        handover = _Handover(before, wanted)
        memories: dict[str, _StepMemory] = {}
        for step in graph.steps[number]:
            new = _StepMemory(handover, step.memory)
            memories.setdefault(step.parameter, new).names.append(step.name)
        kwargs = kwargs | {"parameters": _Parameters(kwargs["parameters"], memories)}
    with joblib.parallel_config("threading"):  # of estimators in it, as joblib does in its workers
        return func(clone(estimator), *rows, **kwargs)  # several tasks fit that of one call


class _Parameters(dict[str, Any]):
    """The parameters of a candidate, which messages show; its clone, which is set, has more."""

    def __init__(self, parameters: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self._more = more

    def __sklearn_clone__(self) -> dict[str, Any]:
        return clone(dict(self), safe=False) | dict(self._more)


class _StepFitted(BaseException):
    """Ends a fit at the wanted step; no ``except Exception`` takes it for a failure."""

    def __init__(self, steps: dict[str, Any], X: Any) -> None:
        super().__init__()
        self.steps = steps
        self.X = X


class _Handover:
    """The steps that a fit takes from other tasks, and its end; each is handed over once, so that
    a scorer may fit the pipeline again."""

    def __init__(self, before: _Prefix | None, wanted: str | None) -> None:
        self._before = before
        self._left = {} if before is None else dict(before.steps)
        self._fitted: dict[str, Any] = {}
        self._wanted = wanted

    def step(self, name: str, X: Any, fit: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return transformed rows and the fitted step, as `fit` would."""
        if name in self._left:
            assert self._before is not None
            fitted = copy(self._left.pop(name))
            if name == next(reversed(self._before.steps)):
                X = self._before.X  # a later step may change it in place
                X = X.copy() if issparse(X) else copy(X)  # of arrays it keeps the order
        else:
            X, fitted = fit()
        if self._wanted is not None:
            within = f"{name}__"
            self._fitted = {
                each: step for each, step in self._fitted.items() if not each.startswith(within)
            } | {name: fitted}
            if name == self._wanted:
                raise _StepFitted(self._fitted, X)
        return X, fitted


class _StepMemory:
    """The ``memory`` of a pipeline, in front of the user's own; `names` are those of its steps."""

    def __init__(self, handover: _Handover, memory: Any) -> None:
        self.names: list[str] = []
        self._handover = handover
        self._memory = memory

    @property
    def location(self) -> Any:  # a pipeline fits clones of its steps if there is one
        return getattr(check_memory(self._memory), "location", "")

    def __sklearn_clone__(self) -> _StepMemory:
        return self

    def cache(self, func: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Return the function for one fit of the pipeline, which calls it for step after step."""
        fit_step = check_memory(self._memory).cache(func, **options)
        names = iter(self.names)

        def fit_transform(transformer: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
            fit = partial(fit_step, transformer, X, *args, **kwargs)
            return self._handover.step(next(names, ""), X, fit)

        return fit_transform


class _OneGraph(ParallelBackendBase):
    """The backend that joblib gives the calls of a search.

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
    """The additions of the searches to scikit-learn's."""

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
