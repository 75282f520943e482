"""How long Numba compiled, by its own events: told to whoever runs the task in whose thread.

Numba is not imported for it, and nothing is listened to before somebody observes. What listens
stays: taking it away while another thread compiles could lose an event of another listener.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from lazyflow.schedulers.core.base import Worker
from lazyflow.schedulers.core.current_worker import here

_known: set[Callable[[float], None]] = set()


def listen(tell: Callable[[float], None] | None = None) -> None:
    """Have `tell` called with the seconds of each compilation, in its thread, if Numba is there.

    Without `tell`, the observers of the run are told whose task the thread runs. It may be called
    again and again, since a task may be the first to import Numba.
    """
    tell = tell or _tell_observers
    events: Any = sys.modules.get("numba.core.event")
    # It is there before all of it is, while another thread imports it.
    if tell in _known or events is None or not hasattr(events, "trigger_event"):
        return
    _known.add(tell)
    times = _Times(tell)
    listener = type("CompileListener", (events.Listener,), {
        "on_start": lambda self, event: times.began(),
        "on_end": lambda self, event: times.ended(),
    })
    events.register("numba:compile", listener())


class _Times(threading.local):
    """The compilations of a thread, one inside the other: the outermost one is timed."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._began: list[float] = []

    def began(self) -> None:
        self._began.append(perf_counter())

    def ended(self) -> None:
        if self._began:  # else it began before this listened
            began = self._began.pop()
            if not self._began:
                self._tell(perf_counter() - began)


def _tell_observers(seconds: float) -> None:
    worker: Worker | None = here.worker
    if worker is not None and worker.run is not None and worker.task >= 0:
        worker.run.observers.task_compiled(worker.run, worker.task, seconds)
