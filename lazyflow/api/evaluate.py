"""From lazy to real: `compute`, `persist`, `optimize`.

All three take any nesting of containers, lazy values and plain values. The lazy values of one
call go into one plan, so that what they share runs once.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections import deque
from contextvars import ContextVar
from typing import Any

from lazyflow import config
from lazyflow.api.targets import Failed, Wanted, finalized
from lazyflow.departures import gone
from lazyflow.errors import Cancelled
from lazyflow.graph.kinds import ARRAY, COLLECTION, LAZY, kinds
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.plan import Plan, make_plan
from lazyflow.graph.task import HELD, Task, task_name
from lazyflow.schedulers.core.base import Request, Scheduler
from lazyflow.schedulers.core.errors.failures import interrupted, is_users_interrupt
from lazyflow.schedulers.core.future import TaskFuture, timed_out
from lazyflow.schedulers.core.lifecycle import Lifecycle, scheduler_here
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.core.slots import here
from lazyflow.schedulers.core.slow_path import cull
from lazyflow.schedulers.registry import scheduler_named, scheduler_of
from lazyflow.store.owned import Releaser, forms
from lazyflow.store.values import Taken

__all__ = ["compute", "is_lazy", "optimize", "persist"]

#: Observers in force where the code runs: see `lazyflow.diagnostics`.
observers: ContextVar[tuple[Any, ...]] = ContextVar("lazyflow_observers", default=())

#: Observers of everything this process computes.
always_observers: list[Any] = []

Outcome = tuple[Any, BaseException | None]


#: What users of other libraries may type, and where it belongs here.
_ELSEWHERE = {
    "n_jobs": "; it is called num_workers here.",
    "retries": "; it belongs to the task: delayed(f, retries=...).",
    "priority": "; it belongs to the task: delayed(f, priority=...).",
    "pool": "; pass the executor as scheduler=.",
    "get": "; pass scheduler= instead.",
}


class Options:
    """The keywords of one compute or persist, checked."""

    __slots__ = ("collect", "num_workers", "optimize_graph", "scheduler", "timeout", "traverse")

    def __init__(
        self,
        name: str,
        unknown: dict[str, Any],
        scheduler: Any = None,
        num_workers: int | None = None,
        traverse: bool = True,
        optimize_graph: bool = True,
        timeout: float | None = None,
        on_error: str = "raise",
    ) -> None:
        for word in unknown:
            known = [*Options.__slots__[1:], "on_error"]
            hint = _ELSEWHERE.get(word) or config.nearest(word, known)
            raise TypeError(f"{name}() got an unexpected keyword {word!r}{hint}")
        asked = num_workers
        if num_workers is not None:
            try:
                num_workers = operator.index(num_workers)
            except TypeError:
                num_workers = 0
            if num_workers < 1:
                raise ValueError(f"num_workers must be a whole number, 1 or more; got {asked!r}")
        if on_error not in ("raise", "collect"):
            raise ValueError(f"on_error must be 'raise' or 'collect'; got {on_error!r}")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise ValueError(f"timeout must be seconds, 0 or more; got {timeout!r}")
        self.scheduler = scheduler_of(scheduler) if scheduler is not None else None
        self.num_workers = num_workers
        self.traverse = traverse
        self.optimize_graph = optimize_graph
        self.timeout = timeout
        self.collect = on_error == "collect"

    @classmethod
    def of(cls, name: str, given: dict[str, Any]) -> Options:
        """Make options of the keywords of a method that passes them on."""
        known = {k: given[k] for k in (*cls.__slots__[1:], "on_error") if k in given}
        return cls(name, {k: v for k, v in given.items() if k not in known}, **known)


# -- compute --------------------------------------------------------------------------------


def choose_scheduler(plan: Plan, given: Scheduler | None) -> Scheduler:
    """Return who runs a plan: given, configured, where its inputs live, as here, or threads."""
    if given is not None:
        return given
    configured = config.get("scheduler")
    if configured is not None:
        return scheduler_of(configured)
    for i in plan.leaves:
        task = plan.tasks[i]
        if task._func is HELD and task._args[0].scheduler is not None:
            scheduler: Scheduler = task._args[0].scheduler
            return scheduler
    return scheduler_here.get() or scheduler_named("threads")


_warned: set[tuple[str, str]] = set()


def _check_unusual(plan: Plan, scheduler: Scheduler) -> None:
    """Refuse to run tasks elsewhere than where they must; warn once of what has no effect."""
    if "workers" not in scheduler.options:
        for task in plan.tasks:
            if task._options.workers is not None:
                raise ValueError(
                    f"{task_name(task)} asks for workers={list(task._options.workers)!r}, and "
                    f"{_who(scheduler)} can't choose between workers. Leave workers= out, or "
                    'compute on scheduler="distributed"'
                )
    for option in ("priority", "resources", "crash_retries"):
        if option in scheduler.options or (scheduler.name, option) in _warned:
            continue
        for task in plan.tasks:
            if getattr(task._options, option) != getattr(DEFAULT, option):
                import warnings

                from lazyflow.errors import LazyflowWarning

                _warned.add((scheduler.name, option))
                warnings.warn(
                    f"{option}= of {task_name(task)} has no effect on the {scheduler.name!r} "
                    "scheduler",
                    LazyflowWarning,
                    stacklevel=5,
                )
                break


def _who(scheduler: Scheduler) -> str:
    if scheduler is scheduler_here.get():
        return "a task that computes others, which run in its own worker,"
    return f"the {scheduler.name!r} scheduler"


def start(plan: Plan, options: Options, background: bool = False) -> Lifecycle:
    """Make a run of a plan; the caller begins it by ``run.scheduler.start(run)``."""
    scheduler = choose_scheduler(plan, options.scheduler)
    if plan.unusual:
        _check_unusual(plan, scheduler)
    request = Request(
        num_workers=options.num_workers,
        collect=options.collect or background,
        background=background,
        check_mutation=config.get("check_mutation"),
        observers=(*always_observers, *observers.get()),
    )
    make_run = getattr(scheduler, "make_run", None)
    made: Lifecycle = make_run(plan, request) if make_run else Run(plan, request, scheduler)
    return made


def finish(run: Lifecycle, timeout: float | None) -> Outcome:
    """Run to the end: the values of the outputs, or the error. Interrupts cancel it.

    Not what it only waits for, which others started: nobody else's work ends with this wait.
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
    # name for the error, here or in who calls this, would be a cycle.
    if run.error is None:
        try:
            run.fetch()
        except Exception as error:
            return None, error
        return results(run), None
    try:
        return None, run.error
    finally:
        run.forget_values()  # a task that still runs holds the run


def results(run: Lifecycle) -> list[Any]:
    """Return the outputs of a finished run, each the caller's own."""
    plan, values = run.plan, run.values
    found = [values[i] for i in plan.outputs]
    if run.failed:
        found = [
            Failed(run.failed[i]) if i in run.failed else value
            for i, value in zip(plan.outputs, found, strict=True)
        ]
    if any(forms[t] or t is Taken for t in set(map(type, found))):
        kept = held_values(plan) if plan.leaves or any(map(_shared, found)) else ()
        release = Releaser(kept)
        found = [release(value) for value in found]
    run.forget_values()
    return found


def _shared(value: Any) -> bool:
    """Tell whether a task's result may be a literal: those are read-only in tasks."""
    return forms[type(value)] > 0 and not (kinds[type(value)] == ARRAY and value.flags.writeable)


def held_values(plan: Plan) -> list[Any]:
    """Return what somebody else keeps: the literals of a plan, and the values of its futures."""
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


def evaluate(args: tuple[Any, ...], options: Options) -> Outcome:
    """Compute arguments; the error is returned, so that the public function can raise it."""
    outcome: Outcome = None, None
    try:
        wanted = Wanted(args, options.traverse, keep=False, once=True)
        if not wanted.tasks:
            return wanted.fill([], finalized), None
        if wanted.light and options.num_workers is None:
            options.num_workers = 1
        run = start(make_plan(wanted.tasks, options.optimize_graph), options)
        outcome = finish(run, options.timeout)
        if outcome[1] is not None:
            return outcome
        return wanted.fill(outcome[0], finalized), None
    except KeyboardInterrupt as error:  # before the run, or after it
        return None, interrupted(error)
    finally:
        del outcome  # the error, or a collected one among the values


def compute(
    *args: Any,
    scheduler: Any = None,
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
        ``"sync"``, ``"threads"``, another registered name, a scheduler object or a
        `concurrent.futures.Executor`. Left out: `config`'s, else where the persisted inputs
        live, else the one whose task is running here, else threads.
    num_workers
        Tasks running at once, at most. Left out: `config`'s, else the cores.
    traverse
        False: look only at the arguments themselves, not into containers.
    optimize_graph
        False: run the tasks as they are, without merging equal pure ones or fusing.
    timeout
        Seconds; then `TaskTimeout`. On sync it is looked at between tasks.
    on_error
        ``"raise"`` the first error; ``"collect"``: run on, and put the exception where the
        value would be.

    Raises
    ------
    Exception
        Whatever a task raised, with its own traceback and a note about the task.
    TaskTimeout, KeyConflict, Cancelled
        As their names say.

    Examples
    --------
    >>> from lazyflow import compute, delayed
    >>> x = delayed(sum)([1, 2, 3])
    >>> compute(x, {"twice": [x * 2]}, "plain")
    (6, {'twice': [12]}, 'plain')
    """
    values, error = evaluate(
        args,
        Options(
            "compute", unknown, scheduler, num_workers, traverse, optimize_graph, timeout, on_error
        ),
    )
    if error is not None:
        values, args = None, ()  # so that the traceback keeps nothing alive
        try:
            raise error
        finally:
            del error  # a frame that holds its own exception is a cycle
    try:
        return values
    finally:
        del values  # a collected error among them


# -- persist --------------------------------------------------------------------------------

_ahead = threading.local()


def _limit_runs_ahead() -> deque[weakref.ref[Lifecycle]]:
    """Wait for the oldest unfinished persist of this thread while there are too many."""
    runs: deque[weakref.ref[Lifecycle]] = _ahead.__dict__.setdefault("runs", deque())
    limit = config.get("max_runs_ahead")
    while len(runs) >= limit:
        unfinished = [ref for ref in runs if _is_unfinished(ref())]
        runs.clear()
        runs.extend(unfinished)
        oldest = runs[0]() if len(runs) >= limit else None
        if oldest is not None:
            oldest.scheduler.wait(oldest, None)
    return runs


def _is_unfinished(run: Lifecycle | None) -> bool:
    if run is not None and run.dropped:
        cull(run)
    return run is not None and not run.over


def start_background(
    plan: Plan, options: Options, again: TaskFuture | None = None
) -> tuple[Lifecycle, list[TaskFuture]]:
    """Start a plan without waiting; return its run and the futures of its outputs.

    `again` is that of the only output, which an earlier run did not make.

    The run holds the futures weakly: when the last user drops one, what only it needed is not
    started any more.
    """
    run = start(plan, options, background=True)
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


def persist(
    *args: Any,
    scheduler: Any = None,
    num_workers: int | None = None,
    traverse: bool = True,
    optimize_graph: bool = True,
    **unknown: Any,
) -> tuple[Any, ...]:
    """Start computing, and return the same objects made of results instead of histories.

    Returns at once (on sync: when done) with a tuple like `compute`'s in which each lazy value
    is lazy still, but its task is a future. A loop of persist steps has a graph of constant
    size. An error surfaces where the value is first used.

    Parameters are those of `compute`. When ``config.max_runs_ahead`` persists of this thread are
    unfinished, the oldest is waited for.

    Examples
    --------
    >>> from lazyflow import delayed, persist
    >>> x = delayed(0)
    >>> for _ in range(100):
    ...     (x,) = persist(x + 1)
    >>> x.compute()
    100
    """
    options = Options("persist", unknown, scheduler, num_workers, traverse, optimize_graph)
    wanted = Wanted(args, options.traverse)
    if not wanted.tasks:
        return wanted.fill([], finalized)
    if all(t._func is HELD for t in wanted.tasks):
        return wanted.fill(list(wanted.tasks), _rebuilt)
    ahead = _limit_runs_ahead()
    run, futures = start_background(make_plan(wanted.tasks, options.optimize_graph), options)
    ahead.append(weakref.ref(run))
    return wanted.fill([_held(t, f) for t, f in zip(wanted.tasks, futures, strict=True)], _rebuilt)


def _held(task: Any, future: TaskFuture) -> Task:
    """Return a leaf in the place of a task: itself when its value is held already."""
    if task._func is HELD:
        return task
    key = task._key if task._options.named else None
    return task._leaf(HELD, future, key)


def _rebuilt(item: Any, tasks: list[Any]) -> Any:
    return item.__lazyflow_rebuild__(tasks)


def optimize(*args: Any, traverse: bool = True, **unknown: Any) -> tuple[Any, ...]:
    """Return objects equal to these whose graphs are merged and rewritten already.

    Examples
    --------
    >>> from lazyflow import delayed, optimize
    >>> f = delayed(abs, pure=True)
    >>> (a, b), = optimize([f(-1), f(-1)])
    >>> a is b
    True
    """
    options = Options("optimize", unknown, traverse=traverse)
    wanted = Wanted(args, options.traverse)
    if not wanted.tasks:
        return wanted.fill([], finalized)
    plan = make_plan(wanted.tasks)
    rebuilt: list[Task] = []
    for task, inputs in zip(plan.tasks, plan.inputs, strict=True):
        now = tuple(rebuilt[j] for j in inputs or ())
        if all(a is b for a, b in zip(now, task._inputs, strict=True)):
            rebuilt.append(task)
        else:
            rebuilt.append(task._with_inputs(now))  # type: ignore[attr-defined]
    return wanted.fill([rebuilt[i] for i in plan.outputs], _rebuilt)


def is_lazy(x: Any) -> bool:
    """Tell whether `x` is a lazy value: a `Delayed` or another collection.

    >>> from lazyflow import delayed, is_lazy
    >>> is_lazy(delayed(1)), is_lazy([delayed(1)]), is_lazy(1)
    (True, False, False)
    """
    return kinds[type(x)] in (LAZY, COLLECTION)
