"""What could not be pickled, and what a worker's failure is to the caller."""

from __future__ import annotations

from typing import Any

from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.errors.failures import dressed, told
from lazyflow.store.pickling.serialize import Unpicklable, serialization_error

_UNPICKLABLE = "unpicklable"  # the first item of such a record


def failure_record(error: BaseException, role: str) -> Any:
    """Return what travels to the caller of an exception; `role` names what was pickled then."""
    from lazyflow.schedulers.core.errors import records

    if isinstance(error, Unpicklable):
        return _UNPICKLABLE, role, error.path, records.record(error.error)
    return records.record(error)


def error_of(task: Task, record: Any, words: Any) -> BaseException:
    """Return the exception of a call that failed in a worker, as the caller is to see it."""
    from lazyflow.schedulers.core.errors.records import rebuilt

    if record[0] == _UNPICKLABLE:
        _, role, path, cause = record
        return unsendable(task, role or "result", Unpicklable(path, rebuilt(cause)))
    return told(rebuilt(record), task, words)


def unsendable(task: Task, role: str, error: BaseException) -> BaseException:
    """Return the error of a task of which a part, its `role`, could not be packed."""
    if not isinstance(error, Unpicklable):
        return dressed(error, task, None)
    text = f"{task_name(task)}, made at {place_text(task)}"
    return dressed(serialization_error(text, role, error), task, None)
