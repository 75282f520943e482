"""The thread that calls users' callbacks.

A callback may compute, or wait for another future. The threads that run tasks or drive worker
processes must not wait for that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_calls: SimpleQueue[tuple[Callable[[Any], object], Any]] = SimpleQueue()
_started: list[None] = []  # not empty: the thread is running
_lock = threading.Lock()


def call_later(callback: Callable[[Any], object], argument: Any) -> None:
    """Call a callback in the thread for callbacks, after the earlier ones."""
    _calls.put((callback, argument))
    if not _started:
        with _lock:
            if not _started:
                threading.Thread(target=_serve, name="lazyflow-callbacks", daemon=True).start()
                _started.append(None)


def _serve() -> None:
    while True:
        callback, argument = _calls.get()
        try:
            callback(argument)
        except BaseException:  # SystemExit too: the others must still be called
            import logging

            logging.getLogger("lazyflow").exception("a callback of %r failed", argument)
        del callback, argument


def _in_fork() -> None:
    global _calls, _lock
    _calls, _lock = SimpleQueue(), threading.Lock()
    _started.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)
