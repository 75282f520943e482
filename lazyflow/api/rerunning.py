"""`rerun`: runs a failed task again, in the caller's own thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyflow import config
from lazyflow.api.evaluate import RunOptions, new_run, run_to_end
from lazyflow.graph.kinds import COPIED, kinds
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import Task, call_arguments
from lazyflow.schedulers.core.errors.failures import FailedCall, call_of
from lazyflow.store.values import consumer_copy


def rerun(error: BaseException) -> Any:
    """Run the task that raised an exception again, here and with its inputs, for a debugger.

    This thread calls the function and runs its nested computes, so ``breakpoint()``,
    ``pdb.runcall(lazyflow.rerun, error)`` and ``%debug`` work. If the task ran in this process, it
    gets the same inputs; if it ran elsewhere, its inputs are computed again here. An exception
    keeps its task, and so these inputs, alive.

    Parameters
    ----------
    error
        The exception of a task: caught, from ``future.exception()``, by ``on_error="collect"``,
        or ``sys.last_value`` at the prompt. If the task failed while it waited for another task,
        that other task is run.

    Returns
    -------
    object
        The result of the function, if it does not raise this time.

    Raises
    ------
    ValueError
        The exception does not come from a task of this process.

    Examples
    --------
    >>> import lazyflow
    >>> allowed = []
    >>> def root(x):
    ...     if not allowed:
    ...         raise ValueError("not yet")
    ...     return x ** 0.5
    >>> try:
    ...     lazyflow.delayed(root)(lazyflow.delayed(abs)(-4)).compute()
    ... except ValueError as error:
    ...     allowed.append(True)
    ...     print(lazyflow.rerun(error))
    2.0
    """
    call = call_of(error)
    if call is None or call.task is None:
        raise ValueError(
            f"this {type(error).__name__} did not come from a task of this process. Pass the "
            "exception object that compute(), result() or a notebook cell raised: an unpickled "
            "copy, or an exception raised from it, does not know its task"
        )
    # Lists and dicts are not these themselves: the call may edit them, and be made again.
    inputs = _computed(call.task._inputs, call) if call.given is None else call.given
    given = [consumer_copy(value) if kinds[type(value)] in COPIED else value for value in inputs]
    args, kwargs = call_arguments(call.task, given)
    __tracebackhide__ = True  # for IPython and pytest
    with config.set(scheduler="sync"):
        return call.task._func(*args, **kwargs)


def _computed(inputs: Sequence[Task], call: FailedCall) -> list[Any]:
    """Return the values of a call's inputs, computed again."""
    plan = make_plan(list(inputs))
    run = new_run(plan, RunOptions("rerun", {}, "sync"))
    run.leaf_values = {
        i: call.leaves[leaf] for i in plan.leaves if (leaf := plan.tasks[i]) in call.leaves
    }
    values, error = run_to_end(run, None)
    if error is not None:
        try:
            raise error
        finally:
            del error  # a frame that holds its own exception is a cycle
    computed: list[Any] = values
    return computed
