"""A trial: its record, the functions for its code, and the folder that keeps it through a kill.

Files are written under another name and renamed, so that each is the old version or the new one;
a line of ``result.jsonl`` that a kill has cut is ignored. In the folder of the search

    experiment.json             its settings, as far as JSON can hold them
    experiment.pkl              all its settings, for `resume`
    trial_00000/params.json     the configuration and progress of the trial
    trial_00000/params.pkl      the configuration, if JSON can't hold it
    trial_00000/result.jsonl    a line for each report
    trial_00000/checkpoint_000003.pkl    the last state, reported with report 3; with
                                         ``keep_checkpoints=`` earlier states, too
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

PENDING, RUNNING, PAUSED = "pending", "running", "paused"
COMPLETED, STOPPED, FAILED = "completed", "stopped", "failed"


@dataclass(eq=False)
class Trial:
    """One trial of a search.

    Attributes
    ----------
    number
        Counted from 0.
    config
        The argument of its function.
    drawn
        The values that were drawn for it, by path.
    status
        ``"pending"``, ``"running"``, ``"paused"``, ``"completed"``; ``"stopped"`` early, before its
        function has returned; or ``"failed"``.
    history
        Its reports, oldest first.
    error
        Why it failed, or None.
    failures
        How often it failed; it may have been run again.
    seconds
        The time of all its runs together.

    Examples
    --------
    >>> from lazyflow import tune
    >>> result = tune.run(lambda c: c["x"], {"x": tune.grid_search([3, 1])}, metric="loss",
    ...                   num_samples=1, scheduler="sync", verbose=0)
    >>> trial = result.best
    >>> trial.number, trial.config, trial.status, trial.history
    (1, {'x': 1}, 'completed', [{'loss': 1}])
    """

    number: int
    config: dict[str, Any]
    drawn: dict[str, Any] = field(default_factory=dict)
    status: str = PENDING
    history: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    failures: int = 0
    seconds: float = 0.0
    packed_state: bytes | None = field(default=None, repr=False)
    kept_at: int = 0  # reports, when the state was kept

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest reported values, by name."""
        found: dict[str, Any] = {}
        for each in self.history:
            found.update(each)
        return found

    @property
    def state(self) -> Any:
        """A copy of the last reported state, or None."""
        return None if self.packed_state is None else cloudpickle.loads(self.packed_state)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in (COMPLETED, STOPPED, FAILED)

    def value(self, metric: str) -> float | None:
        """Return the newest value of a metric; None if none was reported."""
        for each in reversed(self.history):
            if metric in each:
                return float(each[metric])
        return None

    def order(self) -> TrialOrder:
        """Return the order for a runner; forget reports made after the state that it begins from.
        """
        del self.history[self.kept_at:]
        return TrialOrder(self.number, self.config, self.packed_state)


def loss(value: float | None, sign: int) -> float:
    """Return a value as a loss to be minimised; None and NaN become infinity.

    >>> loss(3.0, -1), loss(float("nan"), 1)
    (-3.0, inf)
    """
    return math.inf if value is None or math.isnan(value) else sign * value


class TrialOrder(NamedTuple):
    """A trial for a runner: from its beginning, or from the report that left a packed state."""

    number: int
    config: dict[str, Any]
    state: bytes | None


class TrialReport(NamedTuple):
    """A report of a trial: values by name, and a packed state, if it has kept one."""

    metrics: dict[str, Any]
    state: bytes | None


# -- functions that a trial's code calls ------------------------------------------------------


class TrialStopped(BaseException):
    """Ends the function of a stopped trial; ``except Exception`` does not catch it."""


class RunningTrial(NamedTuple):
    """The trial that runs in this context; `send` returns whether it continues."""

    order: TrialOrder
    send: Callable[[TrialReport], bool]


running: ContextVar[RunningTrial] = ContextVar("lazyflow_trial")


def report(metrics: Mapping[str, Any] | None = None, /, *, state: Any = None, **more: Any) -> None:
    """Report the progress of a trial; a trial that is stopped ends inside this call.

    Parameters
    ----------
    metrics, **more
        Numbers by name, including the metric of the search; other values are kept unchanged.
    state
        The state that `load_state` returns if the trial continues later, perhaps in another
        process; a snapshot is kept. None: the last snapshot stays.

    Raises
    ------
    RuntimeError
        No trial runs in this thread.
    TypeError
        `metrics` is not a dict.
    TrialStopped
        The search ends the trial here. It is not an `Exception`: do not catch it.

    Examples
    --------
    >>> from lazyflow import tune
    >>> def train(config):
    ...     for step in range(3):
    ...         tune.report(loss=config["rate"] / (step + 1))
    >>> result = tune.run(train, {"rate": tune.uniform(1, 2)}, metric="loss", num_samples=2,
    ...                   scheduler="sync", seed=0, verbose=0)
    >>> [len(trial.history) for trial in result.trials]
    [3, 3]
    """
    trial = _running("report")
    if metrics is not None and not isinstance(metrics, Mapping):
        raise TypeError(
            f"tune.report takes values by name, such as tune.report(loss=0.5); got {metrics!r:.100}"
        )
    values = {str(name): plain(value) for name, value in {**(metrics or {}), **more}.items()}
    packed = None if state is None else cloudpickle.dumps(state, protocol=5)
    if not trial.send(TrialReport(values, packed)):
        raise TrialStopped


def load_state(default: Any = None) -> Any:
    """Return the state that this trial reported before it was interrupted, or `default`.

    Raises
    ------
    RuntimeError
        No trial runs in this thread.

    Examples
    --------
    >>> from lazyflow import tune
    >>> begun = []
    >>> def train(config):
    ...     begun.append(tune.load_state(0))
    ...     for step in range(begun[-1], 4):
    ...         if step == 2 and len(begun) == 1:
    ...             raise OSError("once")
    ...         tune.report(loss=4 - step, state=step + 1)
    >>> result = tune.run(train, {"x": tune.uniform(0, 1)}, metric="loss", num_samples=1,
    ...                   max_failures=1, scheduler="sync", verbose=0)
    >>> begun, len(result.best.history)
    ([0, 2], 4)
    """
    state = _running("load_state").order.state
    return default if state is None else cloudpickle.loads(state)


def trial_number() -> int:
    """Return the number of the trial that runs here, counted from 0.

    Raises
    ------
    RuntimeError
        No trial runs in this thread.

    Examples
    --------
    >>> from lazyflow import tune
    >>> result = tune.run(lambda c: tune.trial_number(), {"x": tune.uniform(0, 1)}, metric="loss",
    ...                   num_samples=3, scheduler="sync", verbose=0)
    >>> [trial.metrics["loss"] for trial in result.trials]
    [0, 1, 2]
    """
    return _running("trial_number").order.number


def _running(what: str) -> RunningTrial:
    trial = running.get(None)
    if trial is None:
        raise RuntimeError(
            f"tune.{what} was called where no trial runs. It is for the function that tune.run is "
            "given, in the thread that runs it: tasks that the function computes return their "
            "values to it."
        )
    return trial


def plain(value: Any) -> Any:
    """Return a number of NumPy, or of a framework, as one of Python; other values as they are."""
    if isinstance(value, np.generic) or getattr(value, "shape", None) == ():
        return value.item()
    return value


_SETTINGS, _PARAMS, _RESULTS = "experiment.pkl", "params", "result.jsonl"


# -- the folder of a search -------------------------------------------------------------------


class TrialError(Exception):
    """The failure of a trial in an earlier run of a search."""


class SearchFolder:
    """The folder of a search."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def made(cls, storage: Any, name: str, settings: dict[str, Any]) -> SearchFolder:
        """Make the folder of a new search."""
        path = Path(storage).expanduser() / name
        if (path / _SETTINGS).exists():
            raise FileExistsError(
                f"there is a search in {path} already. Go on with it by "
                f"tune.resume({str(path)!r}, fn), or choose another name="
            )
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        _write(path / "experiment.json", _text({k: repr(v) for k, v in settings.items()}))
        _write(path / _SETTINGS, cloudpickle.dumps(settings))
        return folder

    @classmethod
    def opened(cls, path: Any) -> tuple[SearchFolder, dict[str, Any]]:
        """Return the folder of an earlier search, and its settings."""
        path = Path(path).expanduser()
        try:
            data = (path / _SETTINGS).read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no search in {path}: tune.resume takes the folder that tune.run has "
                "made, storage/name"
            ) from None
        settings: dict[str, Any] = cloudpickle.loads(data)
        return cls(path), settings

    # -- trials -----------------------------------------------------------------------------

    def note(self, trial: Trial) -> None:
        """Write the configuration and progress of a trial."""
        folder = self._folder(trial)
        folder.mkdir(exist_ok=True)
        error = None if trial.error is None else f"{type(trial.error).__name__}: {trial.error}"
        told = {
            "number": trial.number, "config": trial.config, "drawn": trial.drawn,
            "status": trial.status, "failures": trial.failures, "seconds": trial.seconds,
            "error": error,
        }
        text = _text(told)
        if json.loads(text) != told:
            _write(folder / f"{_PARAMS}.pkl", cloudpickle.dumps((trial.config, trial.drawn)))
        _write(folder / f"{_PARAMS}.json", text)

    def begin(self, trial: Trial) -> None:
        """Note that a trial begins, from its state or anew, and forget later reports."""
        self.note(trial)
        lines = [json.dumps(each, default=repr) + "\n" for each in trial.history]
        _write(self._folder(trial) / _RESULTS, "".join(lines).encode())

    def report(self, trial: Trial, metrics: dict[str, Any]) -> None:
        """Append a report."""
        with open(self._folder(trial) / _RESULTS, "ab", buffering=0) as file:
            file.write((json.dumps(metrics, default=repr) + "\n").encode())

    def keep_state(self, trial: Trial, count: int) -> None:
        """Keep the state of a trial, and earlier ones up to `count` in all."""
        assert trial.packed_state is not None
        folder = self._folder(trial)
        new = folder / f"checkpoint_{trial.kept_at:06d}.pkl"
        _write(new, trial.packed_state)
        kept = sorted(folder.glob("checkpoint_*.pkl"))
        at = kept.index(new)  # a trial that began again may have been further before
        for old in (*kept[: max(0, at + 1 - count)], *kept[at + 1 :]):
            old.unlink()

    def trials(self) -> Iterator[Trial]:
        """Yield the trials of an earlier run; unfinished ones are pending."""
        for folder in sorted(self.path.glob("trial_*")):
            try:
                told = json.loads((folder / f"{_PARAMS}.json").read_bytes())
            except FileNotFoundError:  # killed as it was made: it is made again
                continue
            config, drawn = told["config"], told["drawn"]
            packed = folder / f"{_PARAMS}.pkl"
            if packed.exists():
                config, drawn = cloudpickle.loads(packed.read_bytes())
            trial = Trial(
                told["number"], config, drawn, told["status"], failures=told["failures"],
                seconds=told["seconds"], history=_reports(folder / _RESULTS),
            )
            if trial.status == FAILED:
                trial.error = TrialError(told["error"])
            elif trial.status in (RUNNING, PAUSED):
                trial.status = PENDING
            states = sorted(folder.glob("checkpoint_*.pkl"))
            if states:
                trial.packed_state = states[-1].read_bytes()
                trial.kept_at = int(states[-1].stem.partition("_")[2])
            yield trial

    def _folder(self, trial: Trial) -> Path:
        return self.path / f"trial_{trial.number:05d}"


def _reports(path: Path) -> list[dict[str, Any]]:
    """Read reports; a line that was cut is not one."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def _text(told: dict[str, Any]) -> bytes:
    return json.dumps(told, indent=1, default=repr).encode()


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step: if the program is killed, the old or the new one is there."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    os.replace(part, path)
