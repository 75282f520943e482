"""Tasks of failed futures are run again, for the same futures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from lazyflow.api.run_options import RunOptions
from lazyflow.api.runs import start_background
from lazyflow.errors import Cancelled
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.future import CANCELLED, FAILED, PENDING, TaskFuture

__all__ = ["remember", "retry"]


def remember(future: TaskFuture, task: Task, owner: object) -> None:
    """Keep the task of a future until it has a value; `owner` is the object that the user holds."""
    future.recipe.append((task, ref(owner)))
    if future.state not in (FAILED, PENDING):
        future.recipe.clear()


def retry(future: TaskFuture, reopen: Callable[[Any], None]) -> None:
    """Run the task of a failed future again, and those of failed futures among its inputs.

    `reopen` is called with each owner that still exists, once its future is pending.
    """
    if future.state is CANCELLED or (future.state is FAILED and not future.recipe):
        why = "was cancelled" if future.state is CANCELLED else "is not run again by itself"
        raise ValueError(
            f"{future.name} {why}: only what submit(...) and map(...) gave and what failed can be "
            "retried. Make the call again."
        )
    again = _with_failed_inputs(future)
    for each, task, holder in again:
        each.recipe.append((task, holder))
        each.reopen()
        owner = holder()
        if owner is not None:
            reopen(owner)
    while again:
        each, task, _ = again.pop()
        try:
            start_background(make_plan([task]), RunOptions("retry", {}, each.scheduler), each)
        except BaseException as error:
            for left in [each, *(other for other, _, _ in again)]:
                left.set_error(Cancelled(f"{left.name} could not be run again: {error}"))
            raise


def _with_failed_inputs(future: TaskFuture) -> list[tuple[TaskFuture, Task, Any]]:
    """Return failed futures with their tasks and owners, each before those that it needs."""
    found = []
    stack = [future]
    while stack:
        each = stack.pop()
        if each.state is not FAILED:
            continue
        try:
            task, holder = each.recipe.pop()  # of several threads, one gets it
        except IndexError:
            continue
        found.append((each, task, holder))
        plan = make_plan([task])
        stack += [t._args[0] for t in map(plan.tasks.__getitem__, plan.leaves) if t._func is HELD]
    return found


