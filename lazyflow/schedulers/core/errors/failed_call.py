"""Which call an exception came from, kept with it, so that the call can be made again."""

from __future__ import annotations

from typing import Any, NamedTuple

from lazyflow.graph.kinds import ITERATOR, kinds
from lazyflow.graph.task import Task, is_leaf

_NAME = "_lazyflow_call"  # of the attribute of exceptions


class FailedCall(NamedTuple):
    """A call that failed.

    task
        The task.
    given
        The values of its inputs; None where they are in other processes, or were edited or used up.
    leaves
        The values that leaves of its graph had in that run, where they were not their own.
    """

    task: Task
    given: list[Any] | None
    leaves: dict[Task, Any]


class _Kept:
    """Holds a call where it was made: pickles of the exception go without it."""

    def __init__(self, call: FailedCall | None = None) -> None:
        self.call = call

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def keep_call(
    error: BaseException, task: Task, given: list[Any] | None, leaves: dict[Task, Any]
) -> None:
    """Keep with an exception the call that raised it: the innermost, which is the first to come."""
    if is_leaf(task) or call_of(error) is not None:
        return
    if given and (task._options.mutates or any(kinds[type(v)] == ITERATOR for v in given)):
        given = None
    try:
        # Of BaseException: a class of the user's may have a __setattr__ that raises.
        BaseException.__setattr__(error, _NAME, _Kept(FailedCall(task, given, leaves)))
    except Exception:  # it may refuse attributes
        pass


def call_of(error: BaseException) -> FailedCall | None:
    """Return the call that an exception came from, if it is known here."""
    try:
        kept = BaseException.__getattribute__(error, _NAME)
    except Exception:
        return None
    return kept.call if type(kept) is _Kept else None
