"""`run` and `resume`: trials begin, report, continue, stop and end.

A trial is a call of the user's function, in a slot of `Runners` (runners.py) or in this thread on
sync. Each report ends a step: the search, in the caller's thread, decides whether the trial goes
on. All decisions are made in the order of the reports, so a search on sync can be repeated::

    pending --> running --report--> running | paused | stopped
                running --return--> completed
                running --error --> failed

The sampler draws the parameters of a trial as it begins; the pruner, the ``stop=`` rules and the
time budget decide on reports. A paused trial waits in `_waiting`, a heap in which the least far
come first; `_todo` has the numbers of the trials that have not begun. Trials that a search leaves
running or paused are pending in its result, and `resume` continues them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from time import monotonic
from typing import Any

import numpy as np

from lazyflow import config as settings
from lazyflow.api.evaluate import SchedulerLike, scheduler_or_default
from lazyflow.api.waiting import wait
from lazyflow.clock import Clock, Deadline
from lazyflow.errors import WorkerDied
from lazyflow.logs import log_failure
from lazyflow.store.protected import protected
from lazyflow.tune.callbacks import Callback, Display, display_of
from lazyflow.tune.result import SearchResult
from lazyflow.tune.runners import Runners, Slot, TrialReturned, run_here
from lazyflow.tune.space import Space, gridded, sampler_of
from lazyflow.tune.stopping import TrialDecision, pruner_of
from lazyflow.tune.trial import (
    COMPLETED,
    FAILED,
    PAUSED,
    PENDING,
    RUNNING,
    STOPPED,
    SearchFolder,
    Trial,
    TrialReport,
    loss,
    plain,
)

_TRIALS = 10  # by default
_TICK = 1.0  # seconds, at most, between looks at the time that is left; a guess


@dataclass(frozen=True)
class SearchSettings:
    """The arguments of `run`, with which `resume` continues."""

    space: Mapping[str, Any]
    metric: str
    mode: str
    num_samples: int | None
    sampler: Any
    pruner: Any
    max_concurrent: int | None
    stop: Any
    max_failures: int
    fail_fast: bool
    name: str
    seed: int
    keep_checkpoints: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str) or not self.metric:
            raise TypeError(
                "metric must be the name of what trials report, such as 'loss'; got "
                f"{self.metric!r:.100}"
            )
        if self.mode not in ("min", "max"):
            hint = settings.nearest(str(self.mode), ["min", "max"])
            raise ValueError(f"mode must be 'min' or 'max'; got {self.mode!r}{hint}")
        for word, least in (
            ("num_samples", 1), ("max_concurrent", 1), ("max_failures", 0), ("keep_checkpoints", 1),
        ):
            value = vars(self)[word]
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < least
            ):
                raise ValueError(
                    f"{word} must be a whole number, {least} or more; got {value!r:.100}"
                )
        if not (self.stop is None or callable(self.stop) or isinstance(self.stop, Mapping)):
            raise TypeError(
                "stop must be a dict of values, such as {'accuracy': 0.99}, or a function of a "
                f"trial; got {self.stop!r:.100}"
            )


@dataclass(eq=False)
class Search:
    """A search under way.

    `result` has its trials, as they are made.
    """

    given: SearchSettings
    function: Callable[..., Any]
    data: dict[str, Any]
    callbacks: Sequence[Callback]
    folder: SearchFolder | None = None
    time_budget: float | None = None
    now: Clock = monotonic

    def __post_init__(self) -> None:
        given = self.given
        self.metric = given.metric
        space = Space(given.space)
        per = given.num_samples
        if given.sampler == "grid":
            space, per = gridded(space), per or 1
        self.space = space
        self.deadline = Deadline(self.time_budget, self.now)
        total = (per or _TRIALS) * space.combinations
        self.result = SearchResult(space, given.metric, given.mode, total, self.deadline)
        self.sign, self.trials = self.result.sign, self.result.trials
        self.sampler = sampler_of(given.sampler, space, given.seed)
        self.pruner = pruner_of(given.pruner)
        if self.pruner is not None:
            self.pruner.start(space, given.seed)
        self._todo = list(range(total))[::-1]  # numbers of trials that are not made yet
        self._waiting: list[tuple[int, int, Trial]] = []  # a heap: the least far come first
        self._was_reported = self._had_nan = False

    def take(self, trials: list[Trial]) -> None:
        """Take in the trials of an earlier run; unfinished ones continue."""
        for trial in sorted(trials, key=lambda each: each.number):
            self.trials.append(trial)
            self._todo.remove(trial.number)
            self.sampler.known(trial.number, trial.drawn)
            if not trial.is_over:
                del trial.history[trial.kept_at:]
                self._wait(trial)
            if self.pruner is not None:
                losses = [loss(each.get(self.metric), self.sign) for each in trial.history]
                self.pruner.recall(trial, losses)
            self._was_reported |= trial.value(self.metric) is not None
            if trial.is_over:
                self._tell_end(trial)

    # -- the loop ---------------------------------------------------------------------------

    def go(self, scheduler: Any, workers: int | None) -> SearchResult:
        """Run all trials; return the results so far, also after Ctrl-C or when the time is over."""
        with ExitStack() as ends:
            result = self.result
            self._tell(lambda each: each.on_start(result))
            ends.callback(self._end, result)
            try:
                if scheduler.name == "sync":
                    self._go_here()
                else:
                    count = self.given.max_concurrent or workers or settings.get("num_workers")
                    count = min(count or settings.default_workers(), self.result.total)
                    runners = Runners(scheduler, count, self.function, self.data)
                    ends.callback(runners.close)
                    self._go_there(runners)
            except KeyboardInterrupt:
                result.was_interrupted = True
            result.check()
            return result

    def _end(self, result: SearchResult) -> None:
        self.trials.sort(key=lambda each: each.number)
        for trial in self.trials:
            if trial.status in (RUNNING, PAUSED):
                trial.status = PENDING  # `resume` goes on with it
        self._tell(lambda each: each.on_end(result))

    def _tell(self, hook: Callable[[Callback], None]) -> None:
        """Call a hook of all callbacks; a `Display` that raises is logged, and called no more."""
        for callback in self.callbacks:
            try:
                hook(callback)
            except Exception as error:
                if not isinstance(callback, Display):
                    raise
                self.callbacks = [each for each in self.callbacks if each is not callback]
                log_failure(callback, "a search", error)

    def _go_here(self) -> None:
        data = {name: protected(value, False) for name, value in self.data.items()}
        while not self.deadline.is_over() and (trial := self._next()) is not None:
            self._start(trial)
            self._run_here(trial, data)

    def _run_here(self, trial: Trial, data: dict[str, Any]) -> None:
        began = self.now()
        broken: list[Exception] = []

        def heard(report: TrialReport) -> bool:
            try:
                decision = self._reported(trial, report)
            except Exception as error:  # none of the trial's, which it could catch
                broken.append(error)
                return False
            if decision is not TrialDecision.CONTINUE:
                self._leave(trial, decision)
            return decision is TrialDecision.CONTINUE and not self.deadline.is_over()

        try:
            returned = run_here(self.function, data, trial.order(), heard)
        except Exception as error:
            self._failed(trial, error)
        else:
            if broken:
                raise broken[0]
            if returned is not None:
                self._returned(trial, returned.value)
        finally:
            trial.seconds += self.now() - began

    def _go_there(self, runners: Runners) -> None:
        while True:
            while not self.deadline.is_over() and (self._waiting or self._todo):
                slot = runners.free_slot()
                if slot is None:
                    break
                trial = self._next()
                assert trial is not None
                self._start(trial)
                slot.begin(trial, trial.order(), self.now())
            busy = runners.busy()
            wait([slot.future for slot in busy], min(1, len(busy)), self._tick())
            for slot in busy:
                if slot.future is not None and slot.future.done():
                    self._heard(runners, slot)
            if not busy:
                runners.settle()
            if not busy or self.deadline.is_over():
                return

    def _heard(self, runners: Runners, slot: Slot) -> None:
        """Handle the outcome of a step of a trial."""
        trial, future = slot.trial, slot.future
        assert trial is not None and future is not None
        now = self.now()
        trial.seconds += now - slot.began
        slot.began = now
        try:
            event = future.result()
        except Exception as error:
            slot.free()
            if isinstance(error, WorkerDied):
                runners.lose(slot)
            self._failed(trial, error)
            return
        if isinstance(event, TrialReturned):
            slot.free()
            self._returned(trial, event.value)
            return
        try:
            decision = self._reported(trial, event)
        except BaseException:
            slot.stop()
            raise
        if decision is TrialDecision.CONTINUE:
            slot.go_on()
        else:
            slot.stop()
            self._leave(trial, decision)

    def _tick(self) -> float:
        left = self.deadline.left()
        return _TICK if left is None else min(_TICK, left)

    # -- trials -----------------------------------------------------------------------------

    def _next(self) -> Trial | None:
        """Return the next trial to run: the one with the fewest steps; a new one has none."""
        if self._waiting and (not self._todo or self._waiting[0][0] == 0):
            return heappop(self._waiting)[2]
        if not self._todo:
            return None
        number = self._todo.pop()
        drawn = self.sampler.propose(number)
        trial = Trial(number, self.space.config(number, drawn), drawn)
        self.trials.append(trial)
        return trial

    def _wait(self, trial: Trial) -> None:
        heappush(self._waiting, (trial.kept_at, trial.number, trial))

    def _start(self, trial: Trial) -> None:
        trial.status = RUNNING
        trial.order()
        if self.folder is not None:
            self.folder.begin(trial)
        self._tell(lambda each: each.on_trial_start(trial))

    def _reported(self, trial: Trial, report: TrialReport) -> TrialDecision:
        """Take a report in; return the decision on the trial."""
        trial.history.append(report.metrics)
        if report.state is not None:
            trial.packed_state, trial.kept_at = report.state, len(trial.history)
        if self.folder is not None:
            self.folder.report(trial, report.metrics)
            if report.state is not None:
                self.folder.keep_state(trial, self.given.keep_checkpoints)
        self._tell(lambda each: each.on_report(trial, report.metrics))
        return self._decide(trial, len(trial.history), report.metrics)

    def _decide(self, trial: Trial, step: int, metrics: dict[str, Any]) -> TrialDecision:
        value = metrics.get(self.metric)
        if value is None:
            return TrialDecision.CONTINUE
        if isinstance(value, str) or not isinstance(value, int | float):
            raise TypeError(
                f"trial {trial.number} has reported {self.metric}={value!r:.100}, a "
                f"{type(value).__name__}: the metric must be a number"
            )
        self._was_reported = True
        if math.isnan(value) and not self._had_nan:
            self._had_nan = True
            warnings.warn(
                f"trial {trial.number} has reported {self.metric}=nan (report {step}): that "
                "counts as worse than all numbers, here and in other trials",
                RuntimeWarning, stacklevel=2,
            )
        if self._is_enough(trial, step, metrics):
            return TrialDecision.STOP
        if self.pruner is None:
            return TrialDecision.CONTINUE
        config = trial.config
        decision = self.pruner.decide(trial, step, loss(float(value), self.sign))
        if decision is TrialDecision.PAUSE and trial.config is config and self._is_last(trial):
            return TrialDecision.CONTINUE
        return decision

    def _is_last(self, trial: Trial) -> bool:
        """Tell whether all trials that wait, or are not made yet, are at least as far as this."""
        waiting = self._waiting
        return not self._todo and (not waiting or waiting[0][0] >= len(trial.history))

    def _is_enough(self, trial: Trial, step: int, metrics: dict[str, Any]) -> bool:
        stop = self.given.stop
        if stop is None:
            return False
        if callable(stop):
            return bool(stop(trial))
        for name, bound in stop.items():
            value = step if name == "step" else metrics.get(name)
            sign = self.sign if name == self.metric else -1
            if value is not None and sign * value <= sign * bound:
                return True
        return False

    def _leave(self, trial: Trial, decision: TrialDecision) -> None:
        """Let a trial that was ended at its report wait, or be over."""
        if decision is TrialDecision.PAUSE:
            trial.status = PAUSED
            trial.kept_at = len(trial.history)
            if self.folder is not None and trial.packed_state is not None:
                # it may be another trial's
                self.folder.keep_state(trial, self.given.keep_checkpoints)
                self.folder.note(trial)
            self._wait(trial)
        else:
            self._over(trial, STOPPED)

    def _returned(self, trial: Trial, value: Any) -> None:
        """Take in the result of the function of a trial: a last report, if it is one."""
        if isinstance(value, Mapping):
            metrics = {str(name): plain(each) for name, each in value.items()}
        elif value is None:
            metrics = {}
        else:
            metrics = {self.metric: plain(value)}
        if metrics:
            self._reported(trial, TrialReport(metrics, None))
        if trial.value(self.metric) is None:
            error = LookupError(_unreported(trial, self.metric))
            if not self._was_reported:
                raise error
            trial.error = error
            self._over(trial, FAILED)
        else:
            self._over(trial, COMPLETED)

    def _failed(self, trial: Trial, error: Exception) -> None:
        trial.failures += 1
        if trial.failures <= self.given.max_failures:
            trial.status = PENDING
            self._wait(trial)
            return
        trial.error = error
        self._over(trial, FAILED)
        if self.given.fail_fast:
            raise error

    def _over(self, trial: Trial, status: str) -> None:
        trial.status = status
        if self.folder is not None:
            self.folder.note(trial)
        self._tell_end(trial)
        self._tell(lambda each: each.on_trial_end(trial))

    def _tell_end(self, trial: Trial) -> None:
        found = loss(trial.value(self.metric), self.sign)
        self.sampler.ended(trial.number, trial.status, found)
        if self.pruner is not None:
            self.pruner.ended(trial, found)


def _unreported(trial: Trial, metric: str) -> str:
    names = list(trial.metrics)
    if not names:
        return (
            f"trial {trial.number} has ended without a report of {metric!r}: its function returned "
            f"None. Return the number, or call tune.report({metric}=...)"
        )
    listed = ", ".join(map(repr, names))
    return (
        f"trial {trial.number} has reported no {metric!r}{settings.nearest(metric, names)} "
        f"It reported {listed}: pass one of them as metric="
    )


def run(
    fn: Callable[..., Any],
    space: Mapping[str, Any],
    *,
    metric: str,
    mode: str = "min",
    num_samples: int | None = None,
    sampler: Any = None,
    pruner: Any = None,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    max_concurrent: int | None = None,
    stop: Any = None,
    time_budget: float | None = None,
    max_failures: int = 0,
    fail_fast: bool = False,
    storage: Any = None,
    name: str | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 1,
    seed: int | None = None,
    data: Mapping[str, Any] | None = None,
    keep_checkpoints: int = 1,
) -> SearchResult:
    """Search a space for the configuration with the best metric.

    Parameters
    ----------
    fn
        The function of a trial, ``fn(config)`` or ``fn(config, **data)``. It returns the metric, or
        a dict with it, or calls `tune.report` any number of times. It may itself compute
        lazy values and arrays.
    space
        A dict of parameters: constants, domains such as ``tune.loguniform(1e-4, 1e-1)``,
        ``tune.choice([...])`` and ``tune.grid_search([...])``, and dicts and lists of those.
    metric, mode
        The name of the metric in reports, and whether ``"min"`` or ``"max"`` is best. The
        newest report counts; NaN is worse than all numbers.
    num_samples
        How often to try each combination of the grids, each time with new draws: 10 by default,
        and 1 with ``sampler="grid"``.
    sampler
        ``"random"``, the default; ``"grid"``: all values; or ``"tpe"``, ``"gp"``, ``"cmaes"`` or a
        sampler of Optuna's, which learn from the trials that have ended.
    pruner
        `ASHA`, `HyperBand`, `MedianStopping`, `PBT`, a pruner of Optuna's, or your own `Pruner`;
        None: no trial is stopped early.
    scheduler, num_workers, max_concurrent
        Where trials run, as for `submit`, and how many at once: `max_concurrent`, else
        `num_workers`, else one for each core. On sync they run one after the other, in the
        caller's thread.
    stop
        When to end a trial: a dict of values by name, any of which ends it (the metric when it is
        at least as good, others when they are at least as large; ``"step"`` counts reports), or a
        function of the `Trial`.
    time_budget
        Seconds after which all trials stop.
    max_failures
        How often to run a trial again that raises, or whose worker dies. It starts from its last
        reported state.
    fail_fast
        True: the first failed trial ends the search and raises its error.
    storage, name
        A folder, and the name of the folder in it that stores this search, so that `resume`
        can continue it. None: nothing is written.
    callbacks
        `Callback` objects.
    verbose
        0: show nothing; 1: show a table in a terminal or a notebook, elsewhere a line for each
        trial.
    seed
        The seed of all draws: the same seed gives the same configurations on every scheduler.
    data
        Values that trials get as keywords. They are sent to workers once, and are read-only.
    keep_checkpoints
        How many of the latest states of each trial stay in its folder.

    Returns
    -------
    SearchResult
        ``result.best`` is the best trial, ``result.trials`` are all. After Ctrl-C, or when the
        time is over, it has the results so far.

    Raises
    ------
    LookupError
        A trial has ended, but no trial has reported the metric.
    TypeError, ValueError
        An argument is wrong, or a trial reports a metric that is not a number.
    FileExistsError
        `storage` has a search of that name.
    Exception
        The error of the first trial, if all have failed, or if one has and `fail_fast` is true; or
        an error in a callback.

    Examples
    --------
    >>> from lazyflow import tune
    >>> space = {"x": tune.uniform(-1, 1)}
    >>> result = tune.run(lambda c: (c["x"] - 0.5) ** 2, space, metric="loss", num_samples=50,
    ...                   scheduler="threads", seed=0, verbose=0)
    >>> abs(result.best.config["x"] - 0.5) < 0.05
    True
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function of a configuration; got {fn!r:.100}")
    if name is None:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        name = f"{getattr(fn, '__name__', type(fn).__name__).strip('<>')}_{stamp}"
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    given = SearchSettings(
        space, metric, mode, num_samples, sampler, pruner, max_concurrent, stop, max_failures,
        fail_fast, name, seed, keep_checkpoints,
    )
    search = _search(given, fn, data, callbacks, verbose, time_budget, None)
    if storage is not None:
        search.folder = SearchFolder.made(storage, name, vars(given))
    return search.go(scheduler_or_default(scheduler), num_workers)


def resume(
    folder: Any,
    fn: Callable[..., Any],
    *,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    time_budget: float | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 1,
    data: Mapping[str, Any] | None = None,
) -> SearchResult:
    """Continue a search that was interrupted; only the missing parts are run.

    Parameters
    ----------
    folder
        The folder that `run` made: ``storage/name``.
    fn, data, ...
        As for `run`. All other settings are those of the interrupted search.

    Returns
    -------
    SearchResult
        All trials, including those of the earlier run. Unfinished trials continue from their last
        reported state, or from the beginning.

    Raises
    ------
    FileNotFoundError
        There is no search in the folder.
    TypeError, ValueError, Exception
        As `run`.

    Examples
    --------
    >>> import tempfile
    >>> from lazyflow import tune
    >>> space, same = {"x": tune.grid_search([1, 2])}, {"scheduler": "sync", "verbose": 0}
    >>> with tempfile.TemporaryDirectory() as storage:
    ...     first = tune.run(lambda c: c["x"], space, metric="loss", num_samples=1, storage=storage,
    ...                      name="search", **same)
    ...     tune.resume(f"{storage}/search", lambda c: c["x"], **same)  # all trials have ended
    <SearchResult: 2 trials, best loss 1 of trial 0>
    """
    found, kept = SearchFolder.opened(folder)
    given = SearchSettings(**kept)
    search = _search(given, fn, data, callbacks, verbose, time_budget, found)
    search.take(list(found.trials()))
    return search.go(scheduler_or_default(scheduler), num_workers)


def _search(
    given: SearchSettings, fn: Callable[..., Any], data: Mapping[str, Any] | None,
    callbacks: Sequence[Callback], verbose: int, time_budget: float | None,
    folder: SearchFolder | None,
) -> Search:
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise TypeError(f"callbacks must be tune.Callback objects; got {callback!r:.100}")
    if time_budget is not None and not 0 < time_budget < math.inf:
        raise ValueError(f"time_budget must be seconds, more than 0; got {time_budget!r}")
    callbacks = (*callbacks, *display_of(verbose))
    return Search(given, fn, dict(data or {}), callbacks, folder, time_budget)
