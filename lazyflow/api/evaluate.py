"""`compute`, `persist` and `optimize`: lazy values become values.

All three take any nesting of containers, lazy values and plain values. The lazy values of one
call make one plan, so that tasks which they share run once.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from lazyflow.api.runs import (
    Outcome,
    RunOptions,
    SchedulerLike,
    Targets,
    finalized,
    finish,
    start,
    start_ahead,
)
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.plan import explain_plan, make_plan
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import TaskFuture

__all__ = ["compute", "is_lazy", "optimize", "persist"]


def evaluate(args: tuple[Any, ...], options: RunOptions) -> Outcome:
    """Compute arguments; return the error, so that the public function raises it itself."""
    outcome: Outcome = None, None
    try:
        targets = Targets(args, options.traverse, keep=False, once=True)
        if not targets.tasks:
            return targets.fill([], finalized), None
        options.light = targets.light and options.num_workers is None
        run = start(make_plan(targets.tasks, options.optimize_graph), options)
        outcome = finish(run, options.timeout)
        if outcome[1] is not None:
            return outcome
        return targets.fill(outcome[0], finalized), None
    except KeyboardInterrupt as error:  # before the run, or after it
        return None, interrupted(error)
    finally:
        del outcome  # the error, or a collected one among the values


def compute(
    *args: Any,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    traverse: bool = True,
    optimize_graph: bool = True,
    timeout: float | None = None,
    on_error: str = "raise",
    **unknown: Any,
) -> tuple[Any, ...]:
    """Compute lazy values and return them as a tuple, in the places where they were.

    Parameters
    ----------
    *args
        Lazy values, containers of them to any depth, and plain values, which pass through.
    scheduler
        ``"sync"``, ``"threads"``, another registered name, a scheduler object, a
        `concurrent.futures.Executor` or the client of a cluster. By default that of `config`,
        else the one where persisted inputs live, else the one whose task is running here, else
        threads.
    num_workers
        The most tasks that may run at once. By default that of `config`, else the number of
        cores.
    traverse
        False: look only at the arguments themselves, not into containers.
    optimize_graph
        False: run the tasks as they are, without merging equal pure ones or fusing.
    timeout
        Seconds until `TaskTimeout` is raised. On sync it is checked between tasks.
    on_error
        ``"raise"`` the first error; ``"collect"``: go on, and return each exception in the place
        of its value.

    Raises
    ------
    Exception
        The error of a task, with its own traceback and a note about the task.
    TaskTimeout
        The time was over.
    KeyConflict
        Two different tasks have the same key.
    Cancelled
        A persisted input was cancelled.

    Examples
    --------
    >>> from lazyflow import compute, delayed
    >>> x = delayed(sum)([1, 2, 3])
    >>> compute(x, {"twice": [x * 2]}, "plain")
    (6, {'twice': [12]}, 'plain')
    """
    __tracebackhide__ = True  # for IPython and pytest
    values, error = evaluate(
        args,
        RunOptions(
            "compute", unknown, scheduler, num_workers, traverse, optimize_graph, timeout, on_error
        ),
    )
    if error is not None:
        values, args = None, ()  # the traceback must not keep them alive
        try:
            raise error
        finally:
            del error  # a frame that holds its own exception is a cycle
    try:
        return values
    finally:
        del values  # a collected error among them


def persist(
    *args: Any,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    traverse: bool = True,
    optimize_graph: bool = True,
    **unknown: Any,
) -> tuple[Any, ...]:
    """Start computing, and return the same objects made of results instead of histories.

    Returns at once (on sync: when done) a tuple like that of `compute`, in which each lazy value
    is still lazy, but its task is a future. A loop of persist steps has a graph of constant
    size. An error is raised where the value is first used.

    Parameters are those of `compute`. When ``config.max_runs_ahead`` persists of this thread are
    unfinished, the next one waits for the oldest.

    Examples
    --------
    >>> from lazyflow import delayed, persist
    >>> x = delayed(0)
    >>> for _ in range(100):
    ...     (x,) = persist(x + 1)
    >>> x.compute()
    100
    """
    options = RunOptions("persist", unknown, scheduler, num_workers, traverse, optimize_graph)
    targets = Targets(args, options.traverse)
    if not targets.tasks:
        return targets.fill([], finalized)
    if all(t._func is HELD for t in targets.tasks):
        return targets.fill(list(targets.tasks), _rebuilt)
    futures = start_ahead(make_plan(targets.tasks, options.optimize_graph), options)
    held = [_held(t, f) for t, f in zip(targets.tasks, futures, strict=True)]
    return targets.fill(held, _rebuilt)


def _held(task: Any, future: TaskFuture) -> Task:
    """Return a leaf that holds the result of a task: the task itself, if it is one already."""
    if task._func is HELD:
        return task
    key = task._key if task._options.named else None
    return task._leaf(HELD, future, key)


def _rebuilt(item: Any, tasks: list[Any]) -> Any:
    return item.__lazyflow_rebuild__(tasks)


@overload
def optimize(
    *args: Any, traverse: bool = ..., explain: Literal[False] = ..., **unknown: Any
) -> tuple[Any, ...]:
    """Return the optimized objects."""


@overload
def optimize(
    *args: Any, traverse: bool = ..., explain: Literal[True], **unknown: Any
) -> str:
    """Return a text on what the passes do."""


def optimize(
    *args: Any, traverse: bool = True, explain: bool = False, **unknown: Any
) -> tuple[Any, ...] | str:
    """Return equal objects whose graphs are optimized already: equal pure tasks are one task.

    Parameters
    ----------
    args
        Lazy values, and containers of them to any depth.
    traverse
        False: look only at the arguments themselves.
    explain
        True: return a text on what each pass does to the graph instead.

    Examples
    --------
    >>> from lazyflow import delayed, optimize
    >>> f = delayed(abs, pure=True)
    >>> (a, b), = optimize([f(-1), f(-1)])
    >>> a is b
    True
    >>> optimize([f(-1), f(-1)], explain=True)
    graph: 2 tasks, 0 of them values; 2 results are wanted
    merge: 1 of 2 tasks is equal to another one and joins it
    fuse: no task runs in one unit with its input
    """
    options = RunOptions("optimize", unknown, traverse=traverse)
    targets = Targets(args, options.traverse)
    if explain:
        return explain_plan(targets.tasks)
    if not targets.tasks:
        return targets.fill([], finalized)
    plan = make_plan(targets.tasks)
    rebuilt: list[Task] = []
    for task, inputs in zip(plan.tasks, plan.inputs, strict=True):
        now = tuple(rebuilt[j] for j in inputs or ())
        if all(a is b for a, b in zip(now, task._inputs, strict=True)):
            rebuilt.append(task)
        else:
            rebuilt.append(task._with_inputs(now))  # type: ignore[attr-defined]
    return targets.fill([rebuilt[i] for i in plan.outputs], _rebuilt)


def is_lazy(x: Any) -> bool:
    """Tell whether `x` is a lazy value: a `Delayed` or another collection.

    Examples
    --------
    >>> from lazyflow import delayed, is_lazy
    >>> is_lazy(delayed(1)), is_lazy([delayed(1)]), is_lazy(1)
    (True, False, False)
    """
    return kinds[type(x)] in (LAZY, COLLECTION)
