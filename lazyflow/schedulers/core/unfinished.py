"""Submitted calls that have not ended: the end of the program finishes them.

`concurrent.futures` does the same, at the same moment. Its executors end afterwards: existing
threads still run now, but from Python 3.12 on no new ones start.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # whose end comes after this one, as it is known first
import sys
import threading
from collections import Counter

from lazyflow import config
from lazyflow.clock import Deadline
from lazyflow.interrupts import was_interrupted
from lazyflow.schedulers.core.future import TaskFuture, wait_for
from lazyflow.system import at_fork

_MOST_NAMES = 5  # in a message

#: The futures of submitted calls and of calls of actors, until they are done.
unfinished: set[TaskFuture] = set()


def finish() -> None:
    """Wait until nothing is unfinished, `exit_timeout` has passed, or Ctrl-C; tell what is dropped.

    Calls that run meanwhile may submit others, which are waited for as well.
    """
    limit = config.get("exit_timeout")
    deadline = Deadline(limit)
    why = f"since config.exit_timeout={limit} passed"
    try:
        if unfinished and was_interrupted():
            _say(f"{_shown()} submitted and not done: waiting for them; Ctrl-C drops them")
        while unfinished:
            if not wait_for(tuple(unfinished), timeout=deadline.left()):
                break
    except KeyboardInterrupt:
        why = "at Ctrl-C"
    if unfinished:
        _say(
            f"dropped at the end of the program, {why}: {_shown()} submitted and not done. "
            "Wait for them before it, by lazyflow.wait(futures), or raise exit_timeout."
        )
        for future in tuple(unfinished):
            future.cancel()


def _shown() -> str:
    names = Counter([future.name for future in tuple(unfinished)])
    shown = [f"{name} ({count})" for name, count in names.most_common(_MOST_NAMES)]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    total = names.total()
    return f"{total} call{'s' * (total > 1)}, {', '.join(shown)}{more},"


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(f"lazyflow: {text}", file=sys.stderr)


threading._register_atexit(finish)  # type: ignore[attr-defined]
at_fork(after_in_child=unfinished.clear)  # it is the parent's
