"""Early stopping: decides which trials continue after a report.

A `Pruner` is asked at each report with the metric; smaller values are better there. Trials
without reports run to their end. The search asks in the order of the reports, in the caller's
thread, so a pruner needs no lock. State, which `start` makes anew for each search::

    ASHA._rungs :: {step: {trial: loss}}         losses of those that came to a rung
    HyperBand._brackets :: [ASHA]                each trial is in one, chosen by its number
    MedianStopping._losses :: {trial: [loss]}    one for each report
    PBT._losses :: {step: {trial: loss}}         at each comparison
    PBT._population :: {trial: (drawn, state)}   as of its last comparison; best ones are copied
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from statistics import fmean, median
from typing import Any

import numpy as np

from lazyflow.tune.space import Domain, NumberDomain, Space
from lazyflow.tune.trial import FAILED, Trial


class TrialDecision(Enum):
    """The fate of a trial after its report.

    A paused trial continues from its state when all others have come as far; it may have received
    another configuration and state meanwhile.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.TrialDecision.STOP
    <TrialDecision.STOP: 'stop'>
    """

    CONTINUE = "continue"
    STOP = "stop"
    PAUSE = "pause"


class Pruner:
    """Decides at each report of a trial whether it continues; override `decide` for your own.

    Examples
    --------
    >>> from lazyflow import tune
    >>> class AtMostTwo(tune.Pruner):
    ...     def decide(self, trial, step, loss):
    ...         return tune.TrialDecision.STOP if step == 2 else tune.TrialDecision.CONTINUE
    >>> def train(config):
    ...     for _ in range(9):
    ...         tune.report(loss=config["x"])
    >>> result = tune.run(train, {"x": tune.uniform(0, 1)}, metric="loss", num_samples=2,
    ...                   pruner=AtMostTwo(), scheduler="sync", verbose=0)
    >>> [len(trial.history) for trial in result.trials]
    [2, 2]
    """

    def start(self, space: Space, seed: int) -> None:
        """Prepare for a search."""

    def decide(self, trial: Trial, step: int, loss: float) -> TrialDecision:
        """Return the decision on a trial after its report number `step`, counted from 1.

        Raises
        ------
        NotImplementedError
            A subclass does not define it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say which trials go on. Give it a method "
            "decide(self, trial, step, loss) that returns TrialDecision.CONTINUE, PAUSE or STOP"
        )

    def ended(self, trial: Trial, loss: float) -> None:
        """Learn that a trial is over."""

    def recall(self, trial: Trial, losses: list[float]) -> None:
        """Learn the reports of a trial in an earlier run of the search."""
        for step, found in enumerate(losses, 1):
            self.decide(trial, step, found)


def _check(name: str, value: float, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise ValueError(f"{name} must be a number, {least} or more; got {value!r}")


@dataclass
class ASHA(Pruner):
    """Asynchronous successive halving: at each rung the best fraction of trials continues.

    Parameters
    ----------
    max_t
        Reports after which a trial ends.
    grace_period
        Reports before the first rung; each further rung is `reduction_factor` times later.
    reduction_factor
        At each rung a trial continues if it is in the best 1 / `reduction_factor` of those that
        have reached the rung so far. So trials never wait for others.

    Raises
    ------
    ValueError
        A number is too small: `max_t` less than `grace_period`, or `reduction_factor` 1 or less.

    References
    ----------
    L. Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020, algorithm 2,
    in the variant that stops a trial that may not continue.

    Examples
    --------
    >>> from lazyflow import tune
    >>> def train(config):
    ...     for _ in range(9):
    ...         tune.report(loss=config["x"])
    >>> result = tune.run(train, {"x": tune.grid_search([0, 1, 2, 3])}, metric="loss",
    ...                   num_samples=1, pruner=tune.ASHA(max_t=9, reduction_factor=3),
    ...                   scheduler="sync", verbose=0)
    >>> [len(trial.history) for trial in result.trials]
    [9, 1, 1, 1]
    """

    max_t: int = 100
    grace_period: int = 1
    reduction_factor: float = 4

    def __post_init__(self) -> None:
        _check("grace_period", self.grace_period, 1)
        _check("max_t", self.max_t, self.grace_period)
        _check("reduction_factor", self.reduction_factor, 1.0001)

    def start(self, space: Space, seed: int) -> None:
        self._rungs: dict[int, dict[int, float]] = {}
        step = float(self.grace_period)
        while round(step) < self.max_t:
            self._rungs[round(step)] = {}
            step *= self.reduction_factor

    def decide(self, trial: Trial, step: int, loss: float) -> TrialDecision:
        if step >= self.max_t:
            return TrialDecision.STOP
        rung = self._rungs.get(step)
        if rung is None:
            return TrialDecision.CONTINUE
        rung[trial.number] = loss
        best = sorted(rung.values())[: max(1, int(len(rung) / self.reduction_factor))]
        return TrialDecision.CONTINUE if loss <= best[-1] else TrialDecision.STOP


@dataclass
class HyperBand(Pruner):
    """Several `ASHA` with grace periods from 1 to `max_t`, which share the trials.

    One of them stops most trials early, and one stops none, so some trials survive poor first
    reports. An `ASHA` that stops more trials gets more of them.

    Raises
    ------
    ValueError
        `max_t` is less than 1, or `reduction_factor` 1 or less.

    References
    ----------
    L. Li et al., Hyperband, JMLR 18, 2018; the rungs are those of `ASHA`, so trials never wait.

    Examples
    --------
    >>> from lazyflow import tune
    >>> def train(config):
    ...     for _ in range(9):
    ...         tune.report(loss=config["x"])
    >>> result = tune.run(train, {"x": tune.grid_search([0, 1, 2, 3, 4])}, metric="loss",
    ...                   num_samples=1, pruner=tune.HyperBand(max_t=9),
    ...                   scheduler="sync", verbose=0)
    >>> [len(trial.history) for trial in result.trials]
    [9, 9, 9, 1, 1]
    """

    max_t: int = 81
    reduction_factor: float = 3

    def __post_init__(self) -> None:
        _check("max_t", self.max_t, 1)
        _check("reduction_factor", self.reduction_factor, 1.0001)

    def start(self, space: Space, seed: int) -> None:
        rate, periods = self.reduction_factor, [float(self.max_t)]
        while periods[-1] / rate >= 1:
            periods.append(periods[-1] / rate)
        self._brackets = [ASHA(self.max_t, round(period), rate) for period in periods]
        for bracket in self._brackets:
            bracket.start(space, seed)
        # Each takes about as much work: it gets as many trials as this divides by the others.
        self._shares = list(accumulate(rate**s / (s + 1) for s in range(len(periods))))

    def decide(self, trial: Trial, step: int, loss: float) -> TrialDecision:
        golden = (trial.number * 0.6180339887498949) % 1  # spreads numbers evenly
        at = bisect(self._shares, golden * self._shares[-1])
        return self._brackets[min(at, len(self._brackets) - 1)].decide(trial, step, loss)


@dataclass
class MedianStopping(Pruner):
    """Stop a trial whose best report is worse than the median of the others' means so far.

    Parameters
    ----------
    grace_period
        Reports that each trial may make before it can be stopped.
    min_trials
        How many other trials must have come as far.

    Raises
    ------
    ValueError
        A number is less than 1.

    References
    ----------
    D. Golovin et al., Google Vizier, KDD 2017, section 3.2.2.

    Examples
    --------
    >>> from lazyflow import tune
    >>> def train(config):
    ...     for _ in range(9):
    ...         tune.report(loss=config["x"])
    >>> result = tune.run(train, {"x": tune.grid_search([0, 1, 2, 3, 4])}, metric="loss",
    ...                   num_samples=1, pruner=tune.MedianStopping(min_trials=2),
    ...                   scheduler="sync", verbose=0)
    >>> [len(trial.history) for trial in result.trials]
    [9, 9, 1, 1, 1]
    """

    grace_period: int = 1
    min_trials: int = 3

    def __post_init__(self) -> None:
        _check("grace_period", self.grace_period, 1)
        _check("min_trials", self.min_trials, 1)

    def start(self, space: Space, seed: int) -> None:
        self._losses: defaultdict[int, list[float]] = defaultdict(list)

    def decide(self, trial: Trial, step: int, loss: float) -> TrialDecision:
        own = self._losses[trial.number]
        del own[step - 1:]  # of a run that was begun again
        own.append(loss)
        means = [
            fmean(losses[:step]) for number, losses in self._losses.items()
            if number != trial.number and len(losses) >= step
        ]
        if step < self.grace_period or len(means) < self.min_trials or min(own) <= median(means):
            return TrialDecision.CONTINUE
        return TrialDecision.STOP


@dataclass
class PBT(Pruner):
    """Population based training: the worst continue from states of the best, slightly changed.

    Trials must report their state. They advance about equally, so a population may be
    larger than the number of workers.

    Parameters
    ----------
    interval
        Reports from one comparison to the next.
    quantile
        The part of the population that is replaced, and the part that replaces it.
    resample
        The probability that a parameter is drawn anew; otherwise it is multiplied by 0.8 or 1.2, or
        replaced by a neighbouring value.

    Raises
    ------
    ValueError
        `interval` is less than 1, `quantile` not from 0 to 0.5, or `resample` not from 0 to 1.

    References
    ----------
    M. Jaderberg et al., Population Based Training of Neural Networks, 2017.

    Examples
    --------
    >>> from lazyflow import tune
    >>> def train(config):
    ...     x = tune.load_state(config["start"])
    ...     while x > 0:
    ...         x -= 1
    ...         tune.report(loss=x, state=x)
    >>> result = tune.run(train, {"start": tune.grid_search([4, 99]), "rate": tune.uniform(0, 1)},
    ...                   metric="loss", num_samples=1, pruner=tune.PBT(quantile=0.5), seed=0,
    ...                   scheduler="sync", verbose=0)
    >>> [report["loss"] for report in result.trials[1].history]  # 2: from the first trial's state
    [98, 2, 1, 0]
    """

    interval: int = 1
    quantile: float = 0.25
    resample: float = 0.25

    def __post_init__(self) -> None:
        _check("interval", self.interval, 1)
        for name, value, most in (("quantile", self.quantile, 0.5), ("resample", self.resample, 1)):
            if not 0 <= value <= most:
                raise ValueError(f"{name} must be a number from 0 to {most}; got {value!r}")

    def start(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        #: Losses by trial at each step where trials are compared: those that are further along
        #: would always look better than one that has just come there.
        self._losses: dict[int, dict[int, float]] = {}
        #: Drawn values and state of each trial when it was compared last.
        self._population: dict[int, tuple[dict[str, Any], bytes]] = {}

    def decide(self, trial: Trial, step: int, loss: float) -> TrialDecision:
        """Let the trial wait for the others after `interval` reports; give the worst another state.

        Raises
        ------
        ValueError
            The trial has reported no state.
        """
        if step % self.interval:
            return TrialDecision.CONTINUE
        if trial.packed_state is None:
            raise ValueError(
                f"PBT moves the states of trials, and trial {trial.number} has reported none: "
                "tune.report(..., state=...) in the function, and tune.load_state() at its start"
            )
        self._population[trial.number] = dict(trial.drawn), trial.packed_state
        losses = self._losses.setdefault(step, {})
        losses[trial.number] = loss
        ranked = sorted(losses, key=lambda number: (losses[number], number))
        count = int(len(ranked) * self.quantile)
        donors = [number for number in ranked[:count] if number in self._population]
        if donors and trial.number in ranked[-count:]:
            random = np.random.default_rng([self._seed, trial.number, step])
            drawn, trial.packed_state = self._population[donors[int(random.integers(len(donors)))]]
            trial.drawn = self._explored(drawn, random)
            trial.config = self._space.config(trial.number, trial.drawn)
        return TrialDecision.PAUSE

    def ended(self, trial: Trial, loss: float) -> None:
        if trial.status == FAILED:
            self._population.pop(trial.number, None)

    def recall(self, trial: Trial, losses: list[float]) -> None:
        for step in range(self.interval, len(losses) + 1, self.interval):
            self._losses.setdefault(step, {})[trial.number] = losses[step - 1]
        if losses and trial.packed_state is not None:
            self._population[trial.number] = dict(trial.drawn), trial.packed_state

    def _explored(
        self, drawn: dict[str, Any], random: np.random.Generator
    ) -> dict[str, Any]:
        return {
            path: (
                domain.draw(random) if random.random() < self.resample
                else _neighbour(domain, drawn[path], random)
            )
            for path, domain in self._space.drawn.items()
        }


def _neighbour(domain: Domain, value: Any, random: np.random.Generator) -> Any:
    """Return a value of the domain that is near another."""
    if isinstance(domain, NumberDomain):
        return domain.fit(value * float(random.choice([0.8, 1.2])))
    at = next(k for k, each in enumerate(domain.options) if each is value or each == value)
    at += int(random.choice([-1, 1]))
    return domain.options[min(max(at, 0), len(domain.options) - 1)]


@dataclass
class OptunaPruner(Pruner):
    """A pruner of Optuna's."""

    pruner: Any
    _trials: dict[int, Any] = field(default_factory=dict, repr=False)

    def start(self, space: Space, seed: int) -> None:
        from lazyflow.tune.space import optuna_study

        self._trials = {}
        self._study = optuna_study(None, self.pruner)

    def decide(self, trial: Trial, step: int, loss: float) -> TrialDecision:
        known = self._trials.get(trial.number)
        if known is None:
            known = self._trials[trial.number] = self._study.ask()
        known.report(loss, step)
        return TrialDecision.STOP if known.should_prune() else TrialDecision.CONTINUE

    def ended(self, trial: Trial, loss: float) -> None:
        from lazyflow.tune.space import tell

        known = self._trials.pop(trial.number, None)
        if known is not None:
            tell(self._study, known, trial.status, loss)


def pruner_of(given: Any) -> Pruner | None:
    """Return the pruner for the argument of `run`: one of lazyflow's, or of Optuna's."""
    if given is None or isinstance(given, Pruner):
        return given
    if any(base.__module__.startswith("optuna.pruners") for base in type(given).__mro__):
        return OptunaPruner(given)
    known = "tune.ASHA(), tune.HyperBand(), tune.MedianStopping() or tune.PBT()"
    raise TypeError(f"pruner must be {known}, or a pruner of Optuna's; got {given!r:.100}")
