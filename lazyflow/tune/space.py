"""Search spaces, and the samplers that choose configurations from them.

A space is a dict of dicts and lists, to any depth, whose leaves are constants or domains.
A parameter's name is its path, ``"optimizer/rate"``. Random draws depend only on the seed and on
the number of the trial, so a search tries the same configurations on every scheduler.

Samplers that learn are Optuna's, used by ask and tell. Their proposals depend on the trials that
have ended by then, so the same seed gives the same trials only if trials end in the same order, as
on sync or with one worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Protocol

import numpy as np

from lazyflow import config as settings
from lazyflow.tune.trial import FAILED, STOPPED


@dataclass(frozen=True, repr=False)
class NumberDomain:
    """Numbers from `low` to `high`, including `high` if `is_closed`."""

    name: str
    low: float
    high: float
    step: float | None = None
    is_log: bool = False
    is_whole: bool = False
    is_closed: bool = True

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if isinstance(bound, bool) or not isinstance(bound, int | float | np.number):
                raise TypeError(f"{self!r}: bounds must be numbers; got {bound!r}")
            if not math.isfinite(bound):
                raise ValueError(f"{self!r}: bounds must be finite")
            if self.is_whole and bound != int(bound):
                raise ValueError(f"{self!r}: bounds must be whole numbers; or write uniform(...)")
        if not self.low < self.high:
            raise ValueError(f"{self!r}: low must be less than high")
        if self.is_log and self.low <= 0:
            raise ValueError(
                f"{self!r}: low must be more than 0, since its logarithm is drawn; take "
                f"{'randint' if self.is_whole else 'uniform'} for a range with 0"
            )
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            raise ValueError(f"{self!r}: q must be more than 0, and no more than high - low")

    def draw(self, random: np.random.Generator) -> float:
        """Draw a number."""
        low, high = self.low, self.high
        if self.is_whole and not self.is_log and self.step is None:
            return int(random.integers(int(low), int(high)))
        if self.is_whole and not self.is_closed:
            high = high - 1
        if self.is_log:
            found = math.exp(random.uniform(math.log(low), math.log(high + self.is_whole)))
        else:
            found = float(random.uniform(low, high))
        return self.fit(math.floor(found) if self.is_whole and self.step is None else found)

    def fit(self, number: float) -> float:
        """Return the nearest number of the domain."""
        top = self.high - (self.is_whole and not self.is_closed)
        number = min(max(number, self.low), top)
        if self.step is not None:
            steps = math.floor((top - self.low) / self.step * (1 + 1e-12))
            k = min(round((number - self.low) / self.step), steps)
            number = float(f"{self.low + k * self.step:.12g}")
        return round(number) if self.is_whole else float(number)

    def __repr__(self) -> str:
        step = "" if self.step is None else f", {self.step}"
        return f"{self.name}({self.low}, {self.high}{step})"


@dataclass(frozen=True, repr=False)
class OptionsDomain:
    """One of several values; with `is_grid`, each is tried."""

    name: str
    options: tuple[Any, ...]
    is_grid: bool = False

    def draw(self, random: np.random.Generator) -> Any:
        """Draw a value."""
        return self.options[int(random.integers(len(self.options)))]

    def __repr__(self) -> str:
        return f"{self.name}({list(self.options)!r})"


@dataclass(frozen=True)
class ComputedValue:
    """A value that a function returns, given the rest of the configuration."""

    function: Callable[[dict[str, Any]], Any]


def uniform(low: float, high: float) -> NumberDomain:
    """Return the numbers from `low` to `high`, all equally likely.

    Raises
    ------
    TypeError
        A bound is not a number.
    ValueError
        A bound is infinite, or `low` is not less than `high`.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.uniform(0, 1)
    uniform(0, 1)
    """
    return NumberDomain("uniform", low, high)


def quniform(low: float, high: float, q: float) -> NumberDomain:
    """Return `low`, ``low + q``, ``low + 2 * q`` and so on, up to `high`.

    Raises
    ------
    TypeError, ValueError
        As `uniform`; or `q` is not more than 0, or is more than ``high - low``.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.quniform(0, 1, 0.25).fit(0.3)  # to the nearest
    0.25
    """
    return NumberDomain("quniform", low, high, q)


def loguniform(low: float, high: float) -> NumberDomain:
    """Return the numbers from `low` to `high`, with equally likely logarithms.

    Raises
    ------
    TypeError, ValueError
        As `uniform`; or `low` is 0 or less.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.loguniform(1e-4, 1e-1)
    loguniform(0.0001, 0.1)
    """
    return NumberDomain("loguniform", low, high, is_log=True)


def qloguniform(low: float, high: float, q: float) -> NumberDomain:
    """Return numbers as `loguniform`, each rounded to one of `low`, ``low + q``, and so on.

    Raises
    ------
    TypeError, ValueError
        As `loguniform` and `quniform`.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.qloguniform(10, 1000, 10)
    qloguniform(10, 1000, 10)
    """
    return NumberDomain("qloguniform", low, high, q, is_log=True)


def randint(low: int, high: int) -> NumberDomain:
    """Return the integers from `low` to ``high - 1``.

    Raises
    ------
    TypeError, ValueError
        As `uniform`; or a bound is not a whole number.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.randint(0, 10)
    randint(0, 10)
    """
    return NumberDomain("randint", low, high, is_whole=True, is_closed=False)


def qrandint(low: int, high: int, q: int) -> NumberDomain:
    """Return `low`, ``low + q``, ``low + 2 * q`` and so on, up to and including `high`.

    Raises
    ------
    TypeError, ValueError
        As `randint` and `quniform`.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.qrandint(0, 100, 10)
    qrandint(0, 100, 10)
    """
    return NumberDomain("qrandint", low, high, q, is_whole=True)


def lograndint(low: int, high: int) -> NumberDomain:
    """Return the integers from `low` to ``high - 1``, with equally likely logarithms.

    Raises
    ------
    TypeError, ValueError
        As `randint` and `loguniform`.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.lograndint(1, 1000)
    lograndint(1, 1000)
    """
    return NumberDomain("lograndint", low, high, is_log=True, is_whole=True, is_closed=False)


def _options(name: str, options: Sequence[Any]) -> tuple[Any, ...]:
    found = tuple(options)
    if not found:
        raise ValueError(f"{name} needs a value at least; got {options!r}")
    return found


def choice(options: Sequence[Any]) -> OptionsDomain:
    """Return a domain of values: each trial gets one, all equally likely.

    Raises
    ------
    ValueError
        There are no values.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.choice(["sgd", "adam"])
    choice(['sgd', 'adam'])
    """
    return OptionsDomain("choice", _options("choice", options))


def grid_search(options: Sequence[Any]) -> OptionsDomain:
    """Return a grid: all its values are tried, in every combination with other grids.

    Raises
    ------
    ValueError
        There are no values.

    Examples
    --------
    >>> from lazyflow import tune
    >>> space = {"depth": tune.grid_search([2, 4]), "rate": tune.loguniform(1e-4, 1e-1)}
    >>> result = tune.run(lambda c: c["rate"] * c["depth"], space, metric="loss", num_samples=3,
    ...                   scheduler="sync", seed=1, verbose=0)
    >>> [trial.config["depth"] for trial in result.trials]
    [2, 4, 2, 4, 2, 4]
    """
    return OptionsDomain("grid_search", _options("grid_search", options), is_grid=True)


def sample_from(function: Callable[[dict[str, Any]], Any]) -> ComputedValue:
    """Return a parameter that a function computes from the configuration, after all draws.

    Raises
    ------
    TypeError
        `function` is not callable.

    Examples
    --------
    >>> from lazyflow import tune
    >>> space = {"depth": tune.grid_search([1, 2]),
    ...          "width": tune.sample_from(lambda config: 64 // config["depth"])}
    >>> result = tune.run(lambda c: c["width"], space, metric="loss", num_samples=1, verbose=0)
    >>> [trial.config for trial in result.trials]
    [{'depth': 1, 'width': 64}, {'depth': 2, 'width': 32}]
    """
    if not callable(function):
        raise TypeError(f"sample_from takes a function of the configuration; got {function!r:.100}")
    return ComputedValue(function)


Domain = NumberDomain | OptionsDomain


class Space:
    """A search space, taken apart.

    drawn, grids, computed
        By the path of each parameter: domains from which a trial draws, grids, and functions.
    """

    def __init__(self, tree: Mapping[str, Any]) -> None:
        if not isinstance(tree, Mapping):
            raise TypeError(
                "the space must be a dict of parameters, such as {'rate': tune.uniform(0, 1)}; got "
                f"{tree!r:.100}"
            )
        if not tree:
            raise ValueError(
                "the space is empty: give it a parameter, such as {'rate': tune.uniform(0, 1)}"
            )
        self.tree = tree
        leaves = dict(_leaves(tree, ""))
        self.drawn: dict[str, Domain] = {}
        self.grids: dict[str, OptionsDomain] = {}
        self.computed: dict[str, ComputedValue] = {}
        for path, leaf in leaves.items():
            if isinstance(leaf, OptionsDomain) and leaf.is_grid:
                self.grids[path] = leaf
            elif isinstance(leaf, NumberDomain | OptionsDomain):
                self.drawn[path] = leaf
            elif isinstance(leaf, ComputedValue):
                self.computed[path] = leaf

    @property
    def combinations(self) -> int:
        """The number of combinations of all grids."""
        return math.prod(len(grid.options) for grid in self.grids.values())

    def draw(self, seed: int, number: int) -> dict[str, Any]:
        """Draw the values of a trial, by path, except those of the grids."""
        random = np.random.default_rng([seed, number])
        return {path: domain.draw(random) for path, domain in self.drawn.items()}

    def config(self, number: int, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of a trial; its number determines the values of grids."""
        combined = product(*(grid.options for grid in self.grids.values()))
        at = number % self.combinations
        values = dict(drawn) | dict(zip(self.grids, next(islice(combined, at, None)), strict=True))
        found: dict[str, Any] = _with(self.tree, "", values)
        for path, leaf in self.computed.items():
            values[path] = leaf.function(found)
            found = _with(self.tree, "", values)
        return found


def _leaves(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    pairs = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    for key, value in pairs:
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) or type(value) in (list, tuple):
            yield from _leaves(value, f"{path}/")
        else:
            yield path, value


def _with(tree: Any, prefix: str, values: Mapping[str, Any]) -> Any:
    """Return a copy of a part of the space with values in place of domains."""
    if isinstance(tree, Mapping):
        return {key: _with(value, f"{prefix}{key}/", values) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_with(value, f"{prefix}{k}/", values) for k, value in enumerate(tree))
    return values.get(prefix[:-1], tree)


def leaves_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the leaves of a configuration by path."""
    return dict(_leaves(config, ""))


# -- samplers ---------------------------------------------------------------------------------

_LEARNERS = ("tpe", "gp", "cmaes")
_MAX_GRID_VALUES = 10_000  # values of a range that is tried as a grid; a guess


class TrialSampler(Protocol):
    """Proposes values for trials."""

    def propose(self, number: int) -> dict[str, Any]:
        """Return the values of a new trial by path, except those of grids."""

    def known(self, number: int, drawn: Mapping[str, Any]) -> None:
        """Learn the values of a trial of an earlier run of the search."""

    def ended(self, number: int, status: str, loss: float) -> None:
        """Learn how a trial has ended."""


class RandomSampler:
    """Draws from each domain."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed

    def propose(self, number: int) -> dict[str, Any]:
        return self._space.draw(self._seed, number)

    def known(self, number: int, drawn: Mapping[str, Any]) -> None:
        """Do nothing: draws are independent."""

    def ended(self, number: int, status: str, loss: float) -> None:
        """Do nothing."""


class OptunaSampler:
    """A sampler of Optuna's, by ask and tell."""

    def __init__(self, space: Space, sampler: Any) -> None:
        self._domains = space.drawn
        self._distributions = {path: _distribution(d) for path, d in space.drawn.items()}
        self.study = optuna_study(sampler, None)
        self._asked: dict[int, Any] = {}

    def propose(self, number: int) -> dict[str, Any]:
        try:
            trial = self._asked[number] = self.study.ask(self._distributions)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"this sampler needs {error.name}: pip install {error.name}", name=error.name
            ) from None
        return {path: _value(self._domains[path], v) for path, v in trial.params.items()}

    def known(self, number: int, drawn: Mapping[str, Any]) -> None:
        params = {path: _param(self._domains[path], value) for path, value in drawn.items()}
        self.study.enqueue_trial(params)
        self._asked[number] = self.study.ask(self._distributions)

    def ended(self, number: int, status: str, loss: float) -> None:
        tell(self.study, self._asked.pop(number), status, loss)


def optuna_study(sampler: Any, pruner: Any) -> Any:
    """Return a new study of Optuna's, in memory, that minimises."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ModuleNotFoundError(
            'samplers that learn are Optuna\'s: pip install "lazyflow[tune]"; sampler="random" and '
            '"grid" need nothing', name=error.name,
        ) from None
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(sampler=sampler, pruner=pruner)
    finally:
        optuna.logging.set_verbosity(level)


def tell(study: Any, trial: Any, status: str, loss: float) -> None:
    """Tell a study how a trial has ended."""
    from optuna.trial import TrialState

    if status == FAILED or not math.isfinite(loss):
        study.tell(trial, state=TrialState.FAIL)
    elif status == STOPPED and trial.study.trials[trial.number].intermediate_values:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, loss)


def _distribution(domain: Domain) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if isinstance(domain, OptionsDomain):
        return CategoricalDistribution(range(len(domain.options)))
    step = None if domain.is_log else domain.step
    if domain.is_whole:
        high = int(domain.high) - (not domain.is_closed)
        return IntDistribution(int(domain.low), high, domain.is_log, int(step or 1))
    return FloatDistribution(domain.low, domain.high, domain.is_log, step)


def _value(domain: Domain, param: Any) -> Any:
    """Return the value that a parameter of Optuna's stands for."""
    return domain.options[param] if isinstance(domain, OptionsDomain) else domain.fit(param)


def _param(domain: Domain, value: Any) -> Any:
    """Return the parameter of Optuna's for a value."""
    if isinstance(domain, OptionsDomain):
        return next(k for k, each in enumerate(domain.options) if each is value or each == value)
    return value


def gridded(space: Space) -> Space:
    """Return the space with all its domains as grids."""
    grids = {path: OptionsDomain("grid_search", _values(path, d), is_grid=True)
             for path, d in space.drawn.items()}
    found = Space(space.tree)
    found.drawn, found.grids = {}, {**space.grids, **grids}
    return found


def _values(path: str, domain: Domain) -> tuple[Any, ...]:
    if isinstance(domain, OptionsDomain):
        return domain.options
    step = domain.step or (1 if domain.is_whole else None)
    if step is None or domain.is_log or (domain.high - domain.low) / step > _MAX_GRID_VALUES:
        raise ValueError(
            f"sampler='grid' tries all values, and {path!r} is {domain!r}: write "
            f"tune.grid_search([...]) with those to try, or take sampler='random'"
        )
    found = dict.fromkeys(
        domain.fit(domain.low + k * step)
        for k in range(round((domain.high - domain.low) / step) + 1)
    )
    return tuple(found)


def sampler_of(given: Any, space: Space, seed: int) -> TrialSampler:
    """Return the sampler for the argument of `run`: a name, or one of Optuna's."""
    if given in (None, "random", "grid"):
        return RandomSampler(space, seed)
    if isinstance(given, str):
        if given not in _LEARNERS:
            hint = settings.nearest(given, ["random", "grid", *_LEARNERS])
            raise ValueError(
                f"there is no sampler {given!r}{hint} Samplers are 'random', 'grid', 'tpe', 'gp', "
                "'cmaes', and those of Optuna's, such as optuna.samplers.TPESampler()."
            )
        optuna_study(None, None)  # says what to install
        import optuna

        kinds = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler,
                 "cmaes": optuna.samplers.CmaEsSampler}
        return OptunaSampler(space, kinds[given](seed=seed))
    if any(base.__module__.startswith("optuna.samplers") for base in type(given).__mro__):
        return OptunaSampler(space, given)
    raise TypeError(
        f"sampler must be a name, such as 'tpe', or a sampler of Optuna's; got {given!r:.100}"
    )
