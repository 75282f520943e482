"""Samplers, which choose the configuration of the next trial.

Random draws depend only on the seed and the number of the trial. Samplers that learn are Optuna's,
used by ask and tell. Their proposals depend on the trials that have ended by then, so the same seed
gives the same trials only if trials end in the same order, as on sync or with one worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from lazyflow import config as settings
from lazyflow.tune.space import Domain, OptionsDomain, Space
from lazyflow.tune.trial import FAILED, STOPPED

__all__ = [
    "OptunaSampler", "RandomSampler", "TrialSampler", "gridded", "optuna_study", "sampler_of",
    "tell",
]

_LEARNERS = ("tpe", "gp", "cmaes")
_MAX_GRID_VALUES = 10_000  # values of a range that is tried as a grid


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
