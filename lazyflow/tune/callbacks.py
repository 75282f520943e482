"""What a search tells others: five hooks, and TensorBoard by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lazyflow.tune.result import SearchResult
from lazyflow.tune.trial import Trial

__all__ = ["Callback", "TensorBoardCallback"]


class Callback:
    """Hears of a search; overwrite what is needed. All hooks are called by the caller's thread.

    An error that a hook raises ends the search.

    Examples
    --------
    >>> from lazyflow import tune
    >>> class Printer(tune.Callback):
    ...     def on_trial_end(self, trial):
    ...         print(trial.number, trial.status, trial.metrics)
    >>> result = tune.run(lambda c: c["x"] ** 2, {"x": tune.grid_search([1, 2])}, metric="loss",
    ...                   num_samples=1, scheduler="sync", callbacks=[Printer()], verbose=0)
    0 completed {'loss': 1}
    1 completed {'loss': 4}
    """

    def on_start(self, result: SearchResult) -> None:
        """Before the first trial; `result` gets the trials as they are made."""

    def on_trial_start(self, trial: Trial) -> None:
        """Before a trial runs: for the first time, or again."""

    def on_report(self, trial: Trial, metrics: dict[str, Any]) -> None:
        """After a report; `metrics` is what it has brought."""

    def on_trial_end(self, trial: Trial) -> None:
        """After a trial has come to its end: ``trial.status`` says which."""

    def on_end(self, result: SearchResult) -> None:
        """After the last trial."""


class TensorBoardCallback(Callback):
    """Writes the reports of each trial, and its parameters, for TensorBoard.

    Look at them by ``tensorboard --logdir folder``. Needs ``pip install tensorboard``.

    Parameters
    ----------
    folder
        Each trial has a folder in it.
    """

    def __init__(self, folder: Any) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"TensorBoardCallback needs {error.name}: pip install tensorboard", name=error.name
            ) from None
        self._make = EventFileWriter
        self._folder = Path(folder).expanduser()
        self._writers: dict[int, Any] = {}

    def on_trial_start(self, trial: Trial) -> None:
        if trial.number not in self._writers:
            folder = str(self._folder / f"trial_{trial.number:05d}")
            self._writers[trial.number] = self._make(folder)
            self._add_parameters(trial)

    def on_report(self, trial: Trial, metrics: dict[str, Any]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()
            if isinstance(value, int | float)
        ]
        self._add(trial, Summary(value=values))

    def on_trial_end(self, trial: Trial) -> None:
        self._writers.pop(trial.number).close()

    def on_end(self, result: SearchResult) -> None:
        while self._writers:
            self._writers.popitem()[1].close()

    def _add(self, trial: Trial, summary: Any) -> None:
        import time

        from tensorboard.compat.proto.event_pb2 import Event

        event = Event(wall_time=time.time(), step=len(trial.history), summary=summary)
        self._writers[trial.number].add_event(event)

    def _add_parameters(self, trial: Trial) -> None:
        """Write the parameters for TensorBoard's table of them, and the metric's name."""
        from tensorboard.plugins.hparams import summary_v2

        values = {
            path: value if isinstance(value, bool | int | float | str) else repr(value)
            for path, value in trial.drawn.items()
        }
        self._add(trial, summary_v2.hparams_pb(values, trial_id=str(trial.number)))
