"""Callbacks of a search: five hooks, TensorBoard through them, and the display of its progress::

    on_start -> { on_trial_start -> on_report ... -> on_trial_end } ... -> on_end

The thread that called `run` calls all hooks, one after the other, also when trials run in other
processes: a hook needs no lock. A trial that failed and runs again, or that waited, starts again
with `on_trial_start`. An error in a hook ends the search, as one in the user's own loop would.

The displays (`display_of`) are callbacks, too. Their state is set by `on_start`: ``result``,
``began`` by `time.monotonic`, and ``over_before``, the trials that an earlier run had ended, which
do not count for the time that is left.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from lazyflow.clock import Clock
from lazyflow.logs import log_failure
from lazyflow.tune.result import SearchResult, html_table, short
from lazyflow.tune.trial import COMPLETED, FAILED, RUNNING, STOPPED, Trial


class Callback:
    """Follows a search; override the hooks you need. The caller's thread calls all hooks.

    An error that a hook raises ends the search; those of a `Display` are only logged.

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
        """After a report; `metrics` are its values."""

    def on_trial_end(self, trial: Trial) -> None:
        """After a trial has ended; ``trial.status`` says how."""

    def on_end(self, result: SearchResult) -> None:
        """After the last trial."""


class Display(Callback):
    """Shows or records a search and decides nothing: one that fails is logged and dropped.

    Examples
    --------
    >>> from lazyflow import tune
    >>> from lazyflow.tune.callbacks import Display
    >>> issubclass(tune.TensorBoardCallback, Display)
    True
    """


class TensorBoardCallback(Display):
    """Writes the reports of each trial, and its parameters, for TensorBoard.

    View them with ``tensorboard --logdir folder``. Needs ``pip install tensorboard``.

    Parameters
    ----------
    folder
        The folder that gets one folder for each trial.

    Raises
    ------
    ModuleNotFoundError
        TensorBoard is not installed.

    Examples
    --------
    >>> from lazyflow import tune
    >>> tune.run(train, space, metric="loss", callbacks=[tune.TensorBoardCallback("runs")])
    ... # doctest: +SKIP
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


# -- the display of a search: a table in a terminal or a notebook, else a line per trial

_EVERY = 0.2  # seconds between changes of a table; a guess
_SHOWN = 8  # trials in a table; a guess


def display_of(verbose: int) -> list[Callback]:
    """Return the display of a search for a verbosity."""
    if verbose not in (0, 1):
        raise ValueError(f"verbose must be 0 or 1; got {verbose!r:.100}")
    if not verbose:
        return []
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
        return [NotebookTable()]
    try:
        if sys.stderr is not None and sys.stderr.isatty():
            return [TerminalTable()]
    except Exception:  # rich belongs to an extra; a program's own stream may have no `isatty`
        pass
    return [TrialLines()]


class _Progress(Display):
    """Knows how a search is doing."""

    def __init__(self, now: Clock = monotonic) -> None:
        self._now = now

    def on_start(self, result: SearchResult) -> None:
        self.result = result
        self.began = self._now()
        self.over_before = sum(trial.is_over for trial in result.trials)

    def summary(self) -> str:
        """Return one line on all trials."""
        result, trials = self.result, self.result.trials
        counts = Counter(trial.status for trial in trials)
        words = [
            f"{counts[status]} {status}"
            for status in (RUNNING, COMPLETED, STOPPED, FAILED) if counts[status]
        ]
        line = f"{sum(t.is_over for t in trials)} of {result.total} trials: {', '.join(words)}"
        left = self._seconds_left()
        return line if left is None else f"{line}; about {left:.0f} s left"

    def _seconds_left(self) -> float | None:
        result = self.result
        over = sum(trial.is_over for trial in result.trials)
        done = over - self.over_before
        if not done or over >= result.total:
            return None
        left = (self._now() - self.began) / done * (result.total - over)
        allowed = result.deadline.left()
        return left if allowed is None else min(left, allowed)

    def rows(self) -> list[list[str]]:
        """Return the best trials, then those that run, as texts."""
        ranked = self.result.ranked()
        rest = [t for t in self.result.trials if t.status == RUNNING and t not in ranked]
        return [self._row(t) for t in (ranked + rest)[:_SHOWN]]

    def _row(self, trial: Trial) -> list[str]:
        value = trial.value(self.result.metric)
        shown = ", ".join(f"{path}={short(v)}" for path, v in trial.drawn.items())
        return [
            str(trial.number), trial.status, "" if value is None else f"{value:.6g}",
            str(len(trial.history)), shown or repr(trial.config)[:60],
        ]

    def titles(self) -> list[str]:
        """Return the heading of `rows`."""
        return ["trial", "status", self.result.metric, "reports", "parameters"]


class TrialLines(_Progress):
    """A line for each ended trial, on stderr."""

    def on_trial_end(self, trial: Trial) -> None:
        number, status, value, reports, parameters = self._row(trial)
        said = f"{type(trial.error).__name__}: {trial.error}" if trial.error else parameters
        self._say(
            f"trial {number} {status}: {self.result.metric} {value or 'not reported'} after "
            f"{reports} reports, {trial.seconds:.2g} s ({said})"
        )

    def on_end(self, result: SearchResult) -> None:
        self._say(f"{self.summary()}. {result!r}")

    def _say(self, line: str) -> None:
        if sys.stderr is not None:
            print(f"lazyflow.tune: {line}", file=sys.stderr)


class TerminalTable(_Progress):
    """A table that changes, by rich."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self._has_failed = False
        self._make = partial(Live, console=Console(stderr=True), refresh_per_second=1 / _EVERY)

    def on_start(self, result: SearchResult) -> None:
        super().on_start(result)
        self._live = self._make(get_renderable=self._table)
        self._live.start()

    def on_end(self, result: SearchResult) -> None:
        self._live.stop()

    def _table(self) -> Any:
        """Return the table, for the thread of rich: an error there would end only that thread."""
        try:
            return "" if self._has_failed else self._made()
        except Exception as error:
            self._has_failed = True
            log_failure(self, "its table", error)
            return ""

    def _made(self) -> Any:
        from rich.table import Table

        table = Table(*self.titles(), title=self.summary(), title_justify="left")
        for row in self.rows():
            table.add_row(*row)
        return table


class NotebookTable(_Progress):
    """A table that changes, in a notebook."""

    def on_start(self, result: SearchResult) -> None:
        from IPython.display import HTML, display

        super().on_start(result)
        self._html = HTML
        self._shown_at = self._now()
        self._handle = display(HTML(self._table()), display_id=True)

    def on_report(self, trial: Trial, metrics: dict[str, Any]) -> None:
        self._change()

    def on_trial_end(self, trial: Trial) -> None:
        self._change()

    def on_end(self, result: SearchResult) -> None:
        self._handle.update(self._html(self._table()))

    def _change(self) -> None:
        if self._now() - self._shown_at >= _EVERY:
            self._handle.update(self._html(self._table()))
            self._shown_at = self._now()

    def _table(self) -> str:
        return html_table(self.summary(), self.titles(), self.rows())
