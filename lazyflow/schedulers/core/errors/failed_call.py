"""Which call an exception came from, kept with it, so that the call can be made again."""

from __future__ import annotations

from typing import Any

from lazyflow.graph.kinds import ITERATOR, kinds
from lazyflow.graph.task import Task, is_leaf

_NAME = "_lazyflow_call"  # of the attribute of exceptions


class FailedCall:
    """A call that failed, kept where it was made: pickles of its exception go without it.

    task
        The task; None in a pickle's copy.
    given
        The values of its inputs; None where they are in other processes, or were edited or used up.
    leaves
        The values that leaves of its graph had in that run, where they were not their own.
    """

    __slots__ = ("given", "leaves", "task")

    def __init__(
        self,
        task: Task | None = None,
        given: list[Any] | None = None,
        leaves: dict[Task, Any] | None = None,
    ) -> None:
        self.task = task
        self.given = given
        self.leaves = leaves or {}

    def __reduce__(self) -> tuple[type[FailedCall], tuple[()]]:
        return FailedCall, ()


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
        BaseException.__setattr__(error, _NAME, FailedCall(task, given, leaves))
    except Exception:  # it may refuse attributes
        pass


def call_of(error: BaseException) -> FailedCall | None:
    """Return the call that an exception came from, if it is known here."""
    try:
        found = BaseException.__getattribute__(error, _NAME)
    except Exception:
        return None
    return found if type(found) is FailedCall and found.task is not None else None
