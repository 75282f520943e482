"""Repeated work: `rerun` repeats a failed task, for a debugger; `trace` a graph, with new values.

`rerun` works in the caller's own thread, with the inputs that the exception keeps, or with new ones
if the task ran elsewhere.

An optimiser calls the same graph a thousand times with other parameters: `trace` builds and plans
it once, and a rerun copies a few lists and runs. State of a `Trace`: ``_built``, None until the
first call, which makes it under ``_lock``, then never changed: the plan, the `Targets`, and which
leaf is which argument. All that belongs to one run is in the run, so threads may call a trace at
once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from lazyflow import config
from lazyflow.api.evaluate import RunOptions, SchedulerLike, Targets, finalized, new_run, run_to_end
from lazyflow.api.lazy import Delayed
from lazyflow.graph.binding import bind, new_leaf
from lazyflow.graph.kinds import ARRAY, ATOM, COPIED, kinds
from lazyflow.graph.plan import Plan, make_plan
from lazyflow.graph.task import VALUE, Task, call_arguments, function_name
from lazyflow.schedulers.core.errors.failures import FailedCall, call_of
from lazyflow.store.ownership import ResultHandover
from lazyflow.store.values import consumer_copy

# -- `rerun` -----------------------------------------------------------------------------------


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


# -- `trace` -----------------------------------------------------------------------------------


_NOT_SEARCHED = (ATOM, ARRAY)  # for lazy values among the leaves of a rerun

#: Plan, where results go, number of positional leaves, names of the others, and for each leaf in
#: the plan its place among them.
_Built = tuple[Plan, Targets, int, list[str], dict[int, int]]


class Trace:
    """A function of leaf values that keeps its graph; made by `trace`. Threads may share it.

    Examples
    --------
    >>> from lazyflow import delayed, trace
    >>> total = trace(lambda x, y: delayed(max)(x, y) * 2)
    >>> total(1, 2), total(4, 3), total
    (4, 8, <trace of <lambda>: 4 tasks>)
    """

    def __init__(self, func: Callable[..., Any], options: RunOptions) -> None:
        self._func = func
        self._options = options
        self._lock = threading.Lock()  # two first calls must not build two graphs
        self._built: _Built | None = None
        self.__wrapped__ = func
        self.__doc__ = func.__doc__

    def __reduce__(self) -> tuple[Any, ...]:
        return Trace, (self._func, self._options)  # built again where it arrives

    def __repr__(self) -> str:
        state = "not built yet" if self._built is None else f"{len(self._built[0])} tasks"
        return f"<trace of {function_name(self._func)}: {state}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph with these values as leaves; return the values of its lazy results.

        Raises
        ------
        TypeError
            The leaves are not those of the first call, or a leaf is a lazy value.
        """
        self._check(args, kwargs)
        if self._built is None:
            with self._lock:
                if self._built is None:
                    self._built = self._build(args, kwargs)
        plan, targets, count, names, leaves = self._built
        if len(args) != count or kwargs.keys() != set(names):
            raise TypeError(
                f"{function_name(self._func)} was traced with {_leaves_text(count, names)}; this "
                f"call has {_leaves_text(len(args), list(kwargs))}. For other leaves make another "
                "trace."
            )
        __tracebackhide__ = True  # for IPython and pytest
        run = new_run(plan, self._options)
        given = [*args, *(kwargs[name] for name in names)]
        run.leaf_values = {i: given[at] for i, at in leaves.items()}
        values, error = run_to_end(run, self._options.timeout)
        if error is not None:
            try:
                raise error
            finally:
                del error
        release = ResultHandover(given)  # the run knows the leaves it was planned with, not these
        (result,) = targets.fill([release(value) for value in values], finalized)
        return result

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for where, value in [*enumerate(args), *kwargs.items()]:
            if kinds[type(value)] not in _NOT_SEARCHED and bind((value,), {}, as_is=True)[0]:
                raise TypeError(
                    f"argument {where!r} of the traced {function_name(self._func)} is lazy, or "
                    "holds a lazy value, and a trace takes plain values. Compute it first, or use "
                    "it inside the traced function."
                )

    def _build(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Built:
        leaves = [new_leaf(Delayed, VALUE, None) for _ in args]
        named = {name: new_leaf(Delayed, VALUE, None) for name in kwargs}
        targets = Targets((self._func(*leaves, **named),), self._options.traverse)
        plan = make_plan(targets.tasks, self._options.optimize_graph)
        place_of = {leaf: at for at, leaf in enumerate([*leaves, *named.values()])}
        used = {i: place_of[plan.tasks[i]] for i in plan.leaves if plan.tasks[i] in place_of}
        return plan, targets, len(args), list(kwargs), used


def _leaves_text(count: int, names: list[str]) -> str:
    named = f" and {', '.join(names)}" if names else ""
    return f"{count} positional {'leaf' if count == 1 else 'leaves'}{named}"


def trace(
    func: Callable[..., Any],
    *,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    optimize_graph: bool = True,
    timeout: float | None = None,
) -> Trace:
    """Return a function that builds and plans a graph once, and reruns it with other leaves.

    Parameters
    ----------
    func
        A function that returns lazy values in any nesting. It is called once, with a lazy leaf in
        place of each argument: a Python ``if`` in it is decided then, for all reruns.
    scheduler, num_workers, optimize_graph, timeout
        As in `compute`; they apply to every rerun.

    Raises
    ------
    TypeError
        `func` is not callable, or `scheduler` is not a scheduler.
    ValueError
        `num_workers` or `timeout` is too small, or the scheduler is unknown.

    Examples
    --------
    >>> from lazyflow import delayed, trace
    >>> square = delayed(lambda x: x * x)
    >>> norm2 = trace(lambda x, y: square(x) + square(y))
    >>> norm2(3, 4), norm2(5, 12)
    (25, 169)
    """
    if not callable(func):
        raise TypeError(f"trace needs a function that returns lazy values; got {func!r:.100}")
    options = RunOptions(
        "trace", {}, scheduler, num_workers, True, optimize_graph, timeout
    )
    return Trace(func, options)
