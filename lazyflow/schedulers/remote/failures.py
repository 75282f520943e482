"""Errors of values that can't be pickled or unpickled, and of calls that failed in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyflow.errors import SerializationError
from lazyflow.graph.task import Task, call_arguments, place_text, task_name
from lazyflow.schedulers.core.errors.failures import dressed, text_of, with_call_note
from lazyflow.store.pickling.serialize import Unpicklable, serialization_error

_UNPICKLABLE = "unpicklable"  # the first item of such a record


def failure_record(error: BaseException, role: str = "result") -> Any:
    """Return the record of an exception; `role` names the value that was being pickled."""
    from lazyflow.schedulers.core.errors import records

    if isinstance(error, Unpicklable):
        return _UNPICKLABLE, role, error.path, records.record(error.error)
    return records.record(error)


def error_of(task: Task, record: Any, words: Any) -> BaseException:
    """Return the exception of a call that failed in a worker, as the caller is to see it."""
    from lazyflow.schedulers.core.errors.records import rebuilt

    if record[0] == _UNPICKLABLE:
        _, role, path, cause = record
        return unsendable(task, role, Unpicklable(path, rebuilt(cause)))
    return with_call_note(rebuilt(record), task, words)


def unsendable(task: Task, role: str, error: BaseException) -> BaseException:
    """Return the error of a task whose part named `role` could not be pickled."""
    if not isinstance(error, Unpicklable):  # StoreFull, for example
        return dressed(error, task, None)
    text = f"{task_name(task)}, made at {place_text(task)}"
    return dressed(serialization_error(text, role, error), task, None)


def culprit(
    task: Task, role: str, failed: Unpicklable, pack: Callable[[Any], object]
) -> tuple[str, Unpicklable]:
    """Find the argument that can't be pickled, after all were pickled together in vain.

    Parameters
    ----------
    role, failed
        Returned when each argument can be packed by itself.
    pack
        Tries a value, and raises Unpicklable.
    """
    args, kwargs = call_arguments(task, [None] * len(task._inputs))
    named = [(f"args[{at}]", value) for at, value in enumerate(args)]
    named += [(f"argument {name}", value) for name, value in kwargs.items()]
    for name, value in named:
        try:
            pack(value)
        except Unpicklable as found:
            return name, found
        except Exception:
            continue
    return role, failed


_RESTORABLE = (
    "Use what pickle can restore there, such as arrays, numbers, or functions and classes of "
    "modules that can be imported."
)


def unreadable(
    what: str, error: BaseException, of: str = "a task", advice: str = _RESTORABLE
) -> SerializationError:
    """Return the error of `what` of a task or an actor, which its worker can't unpickle."""
    return SerializationError(
        f"{what} of {of} was pickled but can't be unpickled in its worker: "
        f"{type(error).__name__}: {text_of(error)}. {advice}"
    )
