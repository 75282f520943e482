"""The calls of a search as one graph, where steps that candidates have in common are fitted once.

Nothing of scikit-learn's is done again here. A pipeline asks the object in its parameter ``memory``
to fit its steps but the last. A search sets a `_StepMemory` there, which hands over the steps that
another task fitted, and ends the fit at the step that its own task is for. So rows of a fold,
parameters of `fit`, metadata, messages, errors and scores are scikit-learn's own in every task.

A step is called as the parameters of a pipeline call it: ``"prep__pca"`` is in the pipeline that is
the step ``"prep"``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeAlias

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_memory

from lazyflow import Delayed, delayed, tokenize

__all__ = ["Call", "graph_of"]

#: A call of scikit-learn's `_fit_and_score`: the function, its arguments and keywords.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Calls:
    """All calls of a graph as one value, since they have rows, folds and scorers in common."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls


class _Prefix:
    """The first steps of a pipeline, fitted on the rows of a fold.

    `steps` has them by name in the order of their fits, `X` is what they make of the rows, and
    `seconds` is what all that took.
    """

    def __init__(self, steps: dict[str, Any], X: Any, seconds: float) -> None:
        self.steps = steps
        self.X = X
        self.seconds = seconds


def graph_of(calls: list[Call]) -> list[Delayed]:
    """Return lazy results of calls.

    A task that fits steps is made where several calls share them and not the same ones the next.
    """
    leaf = delayed(_Calls(calls))
    fit_steps, evaluate = delayed(_fit_steps), delayed(_evaluate)
    by_parameters: dict[int, list[tuple[str, str]]] = {}
    chains = []
    for _, (estimator, *_), kwargs in calls:
        parameters = kwargs["parameters"]
        if id(parameters) not in by_parameters:  # each fold has the same candidates
            by_parameters[id(parameters)] = _keys(estimator, parameters)
        chains.append([(id(kwargs["train"]), *key) for key in by_parameters[id(parameters)]])
    uses = Counter(key for chain in chains for key in chain)
    prefixes: dict[Any, Delayed] = {}
    tasks = []
    for number, chain in enumerate(chains):
        before = None
        users = [uses[key] for key in chain] + [1]  # never more than of the step before
        for key, (now, later) in zip(chain, pairwise(users), strict=True):
            if now > later:
                if key not in prefixes:
                    prefixes[key] = fit_steps(leaf, number, before, key[1])
                before = prefixes[key]
        tasks.append(evaluate(leaf, number, before))
    return tasks


def _keys(estimator: Any, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return for each step, in the order of the fits, its name and a token that is the same for
    candidates whose parameters are the same but for those of later steps."""
    if type(estimator) is not Pipeline:
        return []
    try:
        steps = list(_steps(_configured(estimator, parameters)))
    except Exception:
        return []  # the task of the candidate says what is wrong with it
    return [
        (name, tokenize({
            each: value for each, value in parameters.items()
            if not f"{each}__".startswith(tuple(f"{step}__" for step in later))
        }))
        for name, later in steps
    ]


def _steps(
    estimator: Any, prefix: str = "", later: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the steps that a ``memory`` is asked to fit, each with those that come after it.

    Subclasses of `Pipeline` may fit their steps otherwise, so none of theirs is shared.

    Examples
    --------
    >>> from sklearn.pipeline import Pipeline
    >>> inner = Pipeline([("a", "passthrough"), ("b", Pipeline([("c", None)])), ("d", None)])
    >>> list(_steps(Pipeline([("prep", inner), ("svc", None)])))
    [('prep__b', ('prep__d', 'svc')), ('prep', ('svc',))]
    """
    if type(estimator) is not Pipeline:
        return
    names = [prefix + name for name, _ in estimator.steps]
    for at, (_, step) in enumerate(estimator.steps):
        after = (*names[at + 1:], *later)
        yield from _steps(step, f"{names[at]}__", after)
        if at < len(names) - 1 and _works(step):
            yield names[at], after


def _works(step: Any) -> bool:
    return step is not None and not isinstance(step, str)  # "passthrough"


def _pipelines(estimator: Any, prefix: str = "") -> Iterator[tuple[str, Pipeline]]:
    """Yield the pipelines whose steps are shared, and what the names of their parameters begin
    with."""
    if type(estimator) is Pipeline:
        yield prefix, estimator
        for name, step in estimator.steps:
            yield from _pipelines(step, f"{prefix}{name}__")


def _evaluate(calls: _Calls, number: int, before: _Prefix | None) -> dict[str, Any]:
    """Fit and score a candidate."""
    result: dict[str, Any] = _call(calls.calls[number], before, None)
    if before is not None:
        result["fit_time"] += before.seconds  # a `refit` may choose by it
    return result


def _fit_steps(
    calls: _Calls, number: int, before: _Prefix | None, wanted: str
) -> _Prefix | None:
    """Fit the steps of a candidate up to the wanted one.

    If that fails, so it will for each candidate that needs the step, in scikit-learn's words.
    """
    func, args, kwargs = calls.calls[number]
    silent = {"verbose": 0, "callback_ctx": None}
    kwargs = kwargs | {name: value for name, value in silent.items() if name in kwargs}
    start = perf_counter()
    try:
        _call((func, args, kwargs), before, wanted)
    except _StepFitted as done:
        seconds = perf_counter() - start + (0.0 if before is None else before.seconds)
        return _Prefix(done.steps, done.X, seconds)
    except Exception:
        pass
    return before


def _call(call: Call, before: _Prefix | None, wanted: str | None) -> Any:
    func, (estimator, *rows), kwargs = call
    estimator = clone(estimator)  # several tasks fit that of one call
    if before is not None or wanted is not None:
        handover = _Handover(before, wanted)
        memories = {
            f"{prefix}memory": _StepMemory(handover, pipeline.memory, [
                f"{prefix}{name}" for name, step in pipeline.steps[:-1] if _works(step)
            ])
            for prefix, pipeline in _pipelines(_configured(estimator, kwargs["parameters"]))
        }
        kwargs = kwargs | {"parameters": _Parameters(kwargs["parameters"], memories)}
    return func(estimator, *rows, **kwargs)


def _configured(estimator: Any, parameters: Mapping[str, Any]) -> Any:
    return clone(estimator).set_params(**clone(dict(parameters), safe=False))


class _Parameters(dict[str, Any]):
    """The parameters of a candidate, which messages show; its clone, which is set, has more."""

    def __init__(self, parameters: Mapping[str, Any], more: dict[str, Any]) -> None:
        super().__init__(parameters)
        self._more = more

    def __sklearn_clone__(self) -> dict[str, Any]:
        return clone(dict(self), safe=False) | self._more


class _StepFitted(BaseException):
    """Ends a fit at the wanted step; no ``except Exception`` takes it for a failure."""

    def __init__(self, steps: dict[str, Any], X: Any) -> None:
        super().__init__()
        self.steps = steps
        self.X = X


class _Handover:
    """What a fit takes from other tasks, and where it ends; each step is handed over once, so that
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
                X = X.copy() if hasattr(X, "copy") else X
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
    """The ``memory`` of a pipeline, in front of the user's own; `names` are its steps."""

    def __init__(self, handover: _Handover, memory: Any, names: list[str]) -> None:
        self._handover = handover
        self._memory = memory
        self._names = names

    @property
    def location(self) -> Any:  # a pipeline fits clones of its steps if there is one
        return getattr(check_memory(self._memory), "location", "")

    def __sklearn_clone__(self) -> _StepMemory:
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # the user's memory hashes pipelines in pipelines
        return copy, (self._memory,)

    def cache(self, func: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Return the function for one fit of the pipeline, which calls it for step after step."""
        fit_step = check_memory(self._memory).cache(func, **options)
        names = iter(self._names)

        def fit_transform(transformer: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
            fit = partial(fit_step, transformer, X, *args, **kwargs)
            return self._handover.step(next(names, ""), X, fit)

        return fit_transform
