"""Advice on large values that are sent to the workers again and again, once for every compute."""

from __future__ import annotations

from collections import deque
from typing import Any

from lazyflow.graph.task import Task, task_name
from lazyflow.schedulers.core.errors.words import summary
from lazyflow.schedulers.remote.large_values import KnownValues, named_arguments
from lazyflow.store.sizes import format_bytes

_TIMES = 3  # computes that have sent it, before advice is given


class RepeatedCopies:
    """Notices large values that are copied often."""

    def __init__(self) -> None:
        #: For the caller's thread to show: a warning needs the user's line.
        self.advice: deque[str] = deque()
        self._known = KnownValues()
        self._said: set[str] = set()

    def look(self, run: int, task: Task) -> None:
        """Look at the arguments of a task, which are sent in encoded form."""
        for name, value in named_arguments(task):
            self.note(run, value, f"{name} of {task_name(task)}")

    def note(self, run: int, value: Any, what: str) -> None:
        """Note that the run of a number sends a value; `what` describes it."""
        seen = self._known.find(value)
        if seen is None:
            return
        seen.meet(run)
        if seen.times == _TIMES and what not in self._said:
            self._said.add(what)
            self.advice.append(
                f"{what}, {summary(value, scalars=False)}, was copied for the workers by {_TIMES} "
                f"computes, {format_bytes(seen.nbytes)} each time. Put it there once, "
                "x = lazyflow.put(x), and pass that: workers then read it where it is"
            )
