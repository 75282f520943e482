"""Hints for names of dask.distributed that lazyflow does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NO_CLIENT = "tasks call compute(...) and submit(...) without a client"
_AN_ACTOR = "an actor keeps shared state: counter = lazyflow.actor(Counter)()"

#: By the name in distributed, or of a method of its client.
_NAMES = {
    "Client": 'lazyflow.config.set(scheduler="processes") starts workers here, '
    "lazyflow.config.set(scheduler=client) uses a cluster of dask",
    "LocalCluster": 'lazyflow.config.set(scheduler="processes") starts workers here',
    "Event": _AN_ACTOR,
    "Lock": _AN_ACTOR,
    "Queue": _AN_ACTOR,
    "Semaphore": _AN_ACTOR,
    "Variable": _AN_ACTOR,
    "cancel": "future.cancel()",
    "cluster": "lazyflow.config.set(num_workers=4) sets the number of workers",
    "fire_and_forget": "submitted calls run even if their futures are dropped",
    "get_client": _NO_CLIENT,
    "get_worker": "lazyflow.worker_state(init) keeps values in each worker",
    "performance_report": 'with lazyflow.profile() as p: ..., then p.timeline("page.html")',
    "progress": "with lazyflow.ProgressBar(): ...",
    "rejoin": _NO_CLIENT,
    "scale": "lazyflow.config.set(num_workers=4)",
    "scatter": "lazyflow.put(value), a future for the whole value",
    "secede": _NO_CLIENT,
    "sync": "compute(x) and future.result() wait; await x and await future do not",
    "worker_client": _NO_CLIENT,
}

#: Keywords of ``client.submit`` and ``client.map``.
_KEYWORDS = {
    "pure": "every call runs, equal ones too. Leave it out",
    "key": "futures have keys of their own. Leave it out",
    "allow_other_workers": "delayed(f, workers=...) names the workers that may run it",
    "fifo_timeout": "priority= of delayed decides. Leave it out",
    "actor": "actors are made by lazyflow.actor(Cls)(...)",
    "batch_size": "it is called batch=",
}


def words_for(name: str) -> str:
    """Return the end of an error for a name that lazyflow does not have; "" if it is no such.

    >>> words_for("scatter"), words_for("scater")
    (': lazyflow.put(value), a future for the whole value', '')
    """
    return f": {_NAMES[name]}" if name in _NAMES else ""


def words_for_keyword(function: str, name: str, of_a_task: Iterable[str]) -> str:
    """Return the end of an error for a keyword of `submit` or `map`; "" if it is not known.

    >>> words_for_keyword("map", "priority", ["priority"])
    ': options of tasks go to map(delayed(f, priority=...), ...)'
    """
    if name in of_a_task:
        return f": options of tasks go to {function}(delayed(f, {name}=...), ...)"
    return f": {_KEYWORDS[name]}" if name in _KEYWORDS else ""


def unknown_keyword(function: str, given: dict[str, Any], of_a_task: Iterable[str]) -> TypeError:
    """Return the error for keywords that a function does not have."""
    name = next(iter(given))
    words = words_for_keyword(function, name, of_a_task)
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{words}")
