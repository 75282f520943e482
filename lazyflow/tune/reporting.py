"""Functions that a trial's function calls: `report`, `load_state`, `trial_number`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

__all__ = ["load_state", "report", "trial_number"]


class TrialOrder(NamedTuple):
    """A trial for a runner: from its beginning, or from the report that left a packed state."""

    number: int
    config: dict[str, Any]
    state: bytes | None


class TrialReport(NamedTuple):
    """What a trial has reported: values by name, and a packed state, if it has kept one."""

    metrics: dict[str, Any]
    state: bytes | None


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
    """
    state = _running("load_state").order.state
    return default if state is None else cloudpickle.loads(state)


def trial_number() -> int:
    """Return the number of the trial that runs here, counted from 0."""
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
