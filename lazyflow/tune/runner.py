"""Where the functions of trials run: an actor for each trial that is under way.

The function runs in a thread of the actor's. At each report it waits, and the call by which the
search had it go on returns what was reported; the next call says whether it may go on. So the
search needs no way from a worker to the caller but the results of calls, which every scheduler has.
On sync nothing of this is needed: the function runs in the caller's thread.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from lazyflow.tune.reporting import (
    RunningTrial,
    TrialOrder,
    TrialReport,
    TrialStopped,
    running,
)


class TrialReturned(NamedTuple):
    """The end of a trial's function, and what it has returned."""

    value: Any


TrialEvent = TrialReport | TrialReturned


class TrialRunner:
    """Runs trials, one after the other. Methods return when the trial reports or returns."""

    def __init__(self) -> None:
        self._function: Callable[..., Any] | None = None
        self._data: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._reports: SimpleQueue[TrialEvent | BaseException | None] = SimpleQueue()
        self._answers: SimpleQueue[bool] = SimpleQueue()

    def load(self, function: Callable[..., Any] | None, data: dict[str, Any]) -> None:
        """Take the function of trials, and what it is given beside configurations."""
        self._function, self._data = function, data

    def begin(self, order: TrialOrder, loaded: None) -> TrialEvent:
        """Begin a trial, after `load`, whose result is given so that its error is this one's."""
        self._reports, self._answers = SimpleQueue(), SimpleQueue()
        context = contextvars.copy_context()
        context.run(running.set, RunningTrial(order, self._send))
        self._thread = threading.Thread(
            target=context.run, args=(self._run, order), name=f"trial-{order.number}", daemon=True
        )
        self._thread.start()
        return self._next()

    def go_on(self) -> TrialEvent:
        """Let the trial go on after its report."""
        self._answers.put(True)
        return self._next()

    def stop(self) -> None:
        """End the trial at its report, if it has not ended by itself."""
        if self._thread is None:
            return
        self._answers.put(False)
        while isinstance(self._reports.get(), TrialReport):  # it caught the end, and went on
            self._answers.put(False)
        self._join()

    def _next(self) -> TrialEvent:
        found = self._reports.get()
        if isinstance(found, BaseException):
            self._join()
            try:
                raise found
            finally:
                del found
        assert found is not None
        if isinstance(found, TrialReturned):
            self._join()
        return found

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self._thread = None

    # -- in the thread of the trial -----------------------------------------------------------

    def _send(self, report: TrialReport) -> bool:
        self._reports.put(report)
        return self._answers.get()

    def _run(self, order: TrialOrder) -> None:
        assert self._function is not None
        try:
            self._reports.put(TrialReturned(self._function(order.config, **self._data)))
        except TrialStopped:
            self._reports.put(None)
        except BaseException as error:
            self._reports.put(error)


def run_here(
    function: Callable[..., Any], data: dict[str, Any], order: TrialOrder,
    heard: Callable[[TrialReport], bool],
) -> TrialReturned | None:
    """Run a trial in this thread; `heard` says at each report whether it goes on. None: it did not.
    """
    context = contextvars.copy_context()
    context.run(running.set, RunningTrial(order, heard))
    try:
        return TrialReturned(context.run(function, order.config, **data))
    except TrialStopped:
        return None
