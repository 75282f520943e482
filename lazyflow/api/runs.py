"""Runs of plans: started, waited for, left running in the background, and of failed tasks again."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from lazyflow import config
from lazyflow.api.run_options import RunOptions, check_task_options, scheduler_of_plan
from lazyflow.api.targets import CollectedError
from lazyflow.departures import gone
from lazyflow.errors import Cancelled
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.graph.passes import make_plan
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.base import Request
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.errors.failures import interrupted, is_users_interrupt
from lazyflow.schedulers.core.future import CANCELLED, FAILED, PENDING, TaskFuture, timed_out
from lazyflow.schedulers.core.lifecycle import Lifecycle
from lazyflow.schedulers.core.made_runs import make_run
from lazyflow.schedulers.core.snapshots import snapshot
from lazyflow.store.owned import ResultHandover, forms
from lazyflow.store.values import IteratorItems

#: Observers in force where the code runs: see `lazyflow.diagnostics`.
observers: ContextVar[tuple[Any, ...]] = ContextVar("lazyflow_observers", default=())

#: Observers of everything this process computes.
always_observers: list[Any] = []

Outcome = tuple[Any, BaseException | None]


def start(plan: Plan, options: RunOptions, background: bool = False) -> Lifecycle:
    """Return a new run of a plan; the caller begins it by ``run.scheduler.start(run)``."""
    scheduler = scheduler_of_plan(plan, options.scheduler)
    if plan.has_scheduler_options:
        check_task_options(plan, scheduler)
    request = Request(
        num_workers=1 if options.light else options.num_workers,
        light=options.light and all(map(_is_there, map(plan.tasks.__getitem__, plan.leaves))),
        collect=options.collect or background,
        background=background,
        check_mutation=config.get("check_mutation"),
        observers=(*always_observers, *observers.get()),
    )
    return make_run(plan, request, scheduler)


def _is_there(leaf: Task) -> bool:
    return leaf._func is not HELD or bool(leaf._args[0].done())


def finish(run: Lifecycle, timeout: float | None) -> Outcome:
    """Run a plan to its end; return the values of its outputs, or the error.

    An interrupt cancels the run, but not other runs that it only waits for.
    """
    outer = here.worker.run if here.worker is not None else None
    try:
        if outer is not None:
            outer.children.add(run)
            if outer.stop:  # it was given up before it could see this child
                run.cancel(Cancelled("the task that asked for it was given up"))
        if not run.over:
            run.scheduler.start(run)
        if not run.scheduler.wait(run, timeout):
            assert timeout is not None
            names = [run.task_name(i) for i in run.plan.outputs]
            run.cancel(timed_out(names, timeout, run.running()))
    except BaseException as error:
        run.cancel(Cancelled("interrupted"))
        if not is_users_interrupt(error):
            raise
        return None, interrupted(error)
    finally:
        if outer is not None:
            outer.children.discard(run)
    # Under sync, and where a task computes, this frame is below the one that failed: a local
    # name for the error, or for results that have it, here or in a caller would be a cycle.
    if run.error is None:
        try:
            run.fetch()
        except Exception as error:
            return None, error
        return _told(run, results(run)), None
    try:
        return None, run.error
    finally:
        run.forget_values()  # a task that still runs holds the run


def _told(run: Lifecycle, values: list[Any]) -> list[Any]:
    if run.observers.members:
        run.observers.values_returned(run, values)
    return values


def results(run: Lifecycle) -> list[Any]:
    """Return the outputs of a finished run, each the caller's own."""
    plan, values = run.plan, run.values
    found = [values[i] for i in plan.outputs]
    if run.failed:
        found = [
            CollectedError(run.failed[i]) if i in run.failed else value
            for i, value in zip(plan.outputs, found, strict=True)
        ]
    is_own = len(found) == 1 and not plan.leaves and _is_own(found[0])
    if not is_own and any(forms[t] or t is IteratorItems for t in set(map(type, found))):
        kept = held_values(plan) if plan.leaves or any(map(_shared, found)) else ()
        release = ResultHandover(kept)
        found = [release(value) for value in found]
    run.forget_values()
    return found


def _shared(value: Any) -> bool:
    """Tell whether a task's result may be a literal, which is read-only in tasks."""
    return forms[type(value)] > 0 and not (kinds[type(value)] == ARRAY and value.flags.writeable)


def _is_own(value: Any) -> bool:
    """Tell whether a task's result is an array of plain values that is no literal."""
    return kinds[type(value)] == ARRAY and value.flags.writeable and not value.dtype.hasobject


def held_values(plan: Plan) -> list[Any]:
    """Return the values that others keep: the literals of a plan, and the values of its futures."""
    found = []
    for task in plan.tasks:
        if task._func is HELD:
            if not task._args[0].is_elsewhere():  # what is brought here is the caller's own
                found.append(task._args[0].local_outcome()[0])
        elif task._bind is None:
            if task._args is not task._inputs:
                found.extend(x for x in task._args if forms[type(x)])
        else:
            for template in (task._bind.template, *(m[1] for m in task._bind.makers)):
                found.extend(x for x in template or () if forms[type(x)])
    return found


# -- in the background ----------------------------------------------------------------------

def start_background(
    plan: Plan, options: RunOptions, again: TaskFuture | None = None
) -> tuple[Lifecycle, list[TaskFuture]]:
    """Start a plan without waiting; return its run and the futures of its outputs.

    The run holds the futures weakly: when the last user drops one, the tasks that only it needed
    are not started any more. `again` is the future of the only output, when an earlier run of
    its task failed.
    """
    plan, watches = snapshot(plan)
    run = start(plan, options, background=True)
    run.watch(watches)
    futures: dict[int, TaskFuture] = {}
    for i in dict.fromkeys(plan.outputs):
        future = futures[i] = again or TaskFuture(run.task_name(i), run.scheduler)
        future.run = (run, i)
    # Not by the run itself: its plan is freed when it is over.
    run.futures = {i: gone(f, run.dropped.append, i) for i, f in futures.items()}
    try:
        run.scheduler.start(run)
        run.hear_of_drops(futures)
    except BaseException:
        run.cancel(Cancelled("interrupted"))
        raise
    return run, [futures[i] for i in plan.outputs]


def start_ahead(plan: Plan, options: RunOptions) -> list[TaskFuture]:
    """Start a plan without waiting for it, unless this thread is too many plans ahead already.

    Then the oldest unfinished run that this thread started here is waited for.
    """
    runs: deque[weakref.ref[Lifecycle]] = _ahead.__dict__.setdefault("runs", deque())
    limit = config.get("max_runs_ahead")
    while len(runs) >= limit:
        unfinished = [ref for ref in runs if _is_unfinished(ref())]
        runs.clear()
        runs.extend(unfinished)
        oldest = runs[0]() if len(runs) >= limit else None
        if oldest is not None:
            oldest.scheduler.wait(oldest, None)
    run, futures = start_background(plan, options)
    runs.append(weakref.ref(run))
    return futures


_ahead = threading.local()


def _is_unfinished(run: Lifecycle | None) -> bool:
    if run is not None and run.dropped:
        run.cull()
    return run is not None and not run.over


# -- failed tasks are run again --------------------------------------------------------------

def remember(future: TaskFuture, task: Task, owner: object) -> None:
    """Keep the task of a future until it has a value; `owner` is the object that the user holds."""
    future.recipe.append((task, weakref.ref(owner)))
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
