"""`compute`, `persist` and `optimize`, which turn lazy values into values.

All three take any nesting of containers, lazy values and plain values. The lazy values of one
call make one plan, so tasks that they share run once::

    arguments --> Targets: tasks, places --> make_plan --> new_run --> run_to_end --> Targets.fill
                                                       `--> start_background: persist, submit

State of the process, beside runs::

    observers :: ContextVar of (Observer, ...)      in force where the code runs
    always_observers :: [Observer]                  of everything; appended to by their owners
    planned :: ContextVar of RunOptions             of the run for which arrays are being planned
    _ahead.runs :: deque of weak runs               of each thread: persists that may not be done
    _warned :: {(scheduler, option)}                options without effect, each warned of once
"""

from __future__ import annotations

import operator
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, overload

from lazyflow import config
from lazyflow.errors import Cancelled, LazyflowWarning
from lazyflow.finalizers import gone
from lazyflow.graph.binding import bind
from lazyflow.graph.kinds import ARRAY, COLLECTION, LAZY, kinds
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.plan import Plan, explain_plan, make_plan
from lazyflow.graph.task import HELD, Task, task_name, users_depth
from lazyflow.interrupts import is_users_interrupt
from lazyflow.schedulers.core.base import Observer, Request, Scheduler
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import CANCELLED, FAILED, PENDING, TaskFuture, timed_out
from lazyflow.schedulers.core.run import BaseRun, Run, make_run
from lazyflow.schedulers.core.snapshots import snapshot
from lazyflow.schedulers.core.task_resources import here, scheduler_here
from lazyflow.schedulers.registry import scheduler_named, scheduler_of
from lazyflow.store.ownership import ResultHandover, forms
from lazyflow.store.spilling import in_memory, tasks_at_once
from lazyflow.store.values import IteratorItems

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from typing import TypedDict, Unpack

    Value = TypeVar("Value", covariant=True)

    class HasValue(Protocol[Value]):
        def compute(self, **options: Any) -> Value: ...

    class _PersistOptions(TypedDict, total=False):
        scheduler: SchedulerLike | None
        num_workers: int | None
        traverse: bool
        optimize_graph: bool
        memory_limit: int | str | None

    class _ComputeOptions(_PersistOptions, total=False):
        timeout: float | None
        on_error: str

# -- the lazy values inside the arguments of one compute, and how their values replace them


class Targets:
    """The tasks inside the arguments of one call, and the places of their values.

    ``tasks`` are to be planned; ``fill`` takes their values (or rebuilt tasks) in the same order.
    With ``keep=False`` a collection may be computed from other tasks than its own; with
    ``once=True`` its tasks may write their parts of the value in place, and can run once only.
    ``light`` is true when all tasks are so short that one thread is faster than several.
    """

    def __init__(
        self, args: tuple[Any, ...], traverse: bool, keep: bool = True, once: bool = False,
        options: RunOptions | None = None,
    ) -> None:
        if all(kinds[type(x)] == LAZY for x in args):
            self.tasks: list[Task] = list(args)
            self._items: Sequence[Any] | None = None
            self.light = False
            return
        self._items, self._binder = args, None
        if not all(kinds[type(x)] in (LAZY, COLLECTION) for x in args):
            self._items, self._binder = bind(args, {}, traverse=traverse, as_is=True)
        self._parts: list[tuple[Any, int, int]] = []  # (item, first, last) of self.tasks
        self.tasks = []
        self.light = True
        for item in _optimized(self._items, keep, options):
            is_task = kinds[type(item)] == LAZY
            self.light = self.light and not is_task and item.__lazyflow_light__
            if once and not is_task:
                item = item.__lazyflow_once__()
            tasks = [item] if is_task else list(item.__lazyflow_tasks__())
            self._parts.append((item, len(self.tasks), len(self.tasks) + len(tasks)))
            self.tasks.extend(tasks)

    def fill(self, values: list[Any], joined: Callable[[Any, list[Any]], Any]) -> tuple[Any, ...]:
        """Return the arguments with values in the places of lazy values.

        `joined` makes the value of a collection from the values of its tasks.
        """
        if self._items is None:
            return tuple(map(_plain, values))
        filled = [
            _plain(values[first]) if kinds[type(item)] == LAZY else joined(item, values[first:last])
            for item, first, last in self._parts
        ]
        return tuple(self._binder.fill(filled)[0] if self._binder is not None else filled)


def _optimized(
    items: Sequence[Any], keep: bool, options: RunOptions | None
) -> Sequence[Any]:
    """Return the items, after each class of collections has optimized all of its own at once.

    options
        Of the run that will be made at once; None: there is none.
    """
    groups: dict[Any, list[int]] = {}  # positions of the items of each class
    for at, item in enumerate(items):
        if kinds[type(item)] == COLLECTION:
            groups.setdefault(type(item), []).append(at)
    if not groups:
        return items
    optimized = list(items)
    with nullcontext() if options is None else planning(options):
        for cls, places in groups.items():
            better = cls.__lazyflow_optimize__([items[at] for at in places], keep=keep)
            for at, item in zip(places, better, strict=True):
                optimized[at] = item
    return optimized


#: The options of the run for which the code here plans arrays.
planned: ContextVar[RunOptions | None] = ContextVar("lazyflow_planned", default=None)


@contextmanager
def planning(options: RunOptions) -> Iterator[None]:
    """Plan arrays in the block for a run with these options."""
    with options.memory_limit:
        token = planned.set(options)
        try:
            yield
        finally:
            planned.reset(token)


def finalized(item: Any, values: list[Any]) -> Any:
    """Return the value of a collection, given those of its tasks; or the error of a failed one."""
    for value in values:
        if isinstance(value, CollectedError):
            return value.error
    return item.__lazyflow_finalize__(values)


class CollectedError:
    """Stands for the value of a task that failed, under ``on_error="collect"``."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _plain(value: Any) -> Any:
    return value.error if type(value) is CollectedError else value


# -- options of one call: the checked keywords, and the scheduler that they choose


class ClusterClient(Protocol):
    """A client of a cluster, as dask's `distributed.Client`."""

    def subscribe_topic(self, topic: str, handler: Any) -> Any:
        """Call a handler for the events of a topic."""


#: Values of ``scheduler=``: a name, a scheduler, an executor or the client of a cluster.
SchedulerLike: TypeAlias = "str | Scheduler | Executor | ClusterClient"


_RAYS = "; with lazyflow.config.set(ray_options={{{!r}: ...}}): Ray gets it as it is.".format
_DASKS = "; with dask.annotate({}=...): distributed gets it as it is.".format

#: Keywords of engines for tasks and actors, and what to type here instead.
OF_ENGINES = {
    "num_gpus": '; write delayed(f, resources={"GPU": 1}), and for an actor '
    'config.set(ray_options={"num_gpus": 1}).',
    "num_cpus": '; write delayed(f, resources={"CPU": 2}).',
    "memory": '; write delayed(f, resources={"memory": bytes}).',
} | {
    word: _RAYS(word) for word in (
        "accelerator_type", "label_selector", "placement_group", "runtime_env",
        "scheduling_strategy")
} | {word: _DASKS(word) for word in ("allow_other_workers", "executor", "span")}

#: Keywords of other libraries, and what to type here instead.
_ELSEWHERE = OF_ENGINES | {
    "resources": "; it belongs to the task: delayed(f, resources=...).",
    "workers": "; it belongs to the task: delayed(f, workers=...).",
    "n_jobs": "; it is called num_workers here.",
    "retries": "; it belongs to the task: delayed(f, retries=...).",
    "priority": "; it belongs to the task: delayed(f, priority=...).",
    "pool": "; pass the executor as scheduler=.",
    "get": "; pass scheduler= instead.",
}


class RunOptions:
    """The keywords of one compute or persist, checked; and whether all its tasks are light."""

    __slots__ = (
        "collect", "has_limit", "largest_task", "light", "memory_limit", "num_workers",
        "optimize_graph", "scheduler", "timeout", "traverse",
    )

    def __init__(
        self,
        name: str,
        unknown: dict[str, Any],
        scheduler: SchedulerLike | None = None,
        num_workers: int | None = None,
        traverse: bool = True,
        optimize_graph: bool = True,
        timeout: float | None = None,
        on_error: str = "raise",
        memory_limit: int | str | None = None,
    ) -> None:
        for word in unknown:
            known = [*RunOptions.__slots__[4:], "on_error"]
            is_computes = word in known and name != "compute"
            hint = (
                "; compute() takes it, where one waits." if is_computes
                else _ELSEWHERE.get(word) or config.nearest(word, known)
            )
            raise TypeError(f"{name}() got an unexpected keyword {word!r}{hint}")
        given = num_workers
        if num_workers is not None:
            try:
                num_workers = operator.index(num_workers)
            except TypeError:
                num_workers = 0
            if num_workers < 1:
                raise ValueError(f"num_workers must be a whole number, 1 or more; got {given!r}")
        if on_error not in ("raise", "collect"):
            raise ValueError(f"on_error must be 'raise' or 'collect'; got {on_error!r}")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise ValueError(f"timeout must be seconds, 0 or more; got {timeout!r}")
        self.has_limit = memory_limit is not None
        #: A block with the limit in force, for planning, running and tasks.
        self.memory_limit = (
            nullcontext() if memory_limit is None else config.set(memory_limit=memory_limit)
        )
        self.scheduler = scheduler_of(scheduler) if scheduler is not None else None
        self.num_workers = num_workers
        self.traverse = traverse
        self.optimize_graph = optimize_graph
        self.timeout = timeout
        self.collect = on_error == "collect"
        self.light = False
        #: Bytes that the largest task takes, as far as known.
        self.largest_task = 0

    @classmethod
    def of(cls, name: str, given: dict[str, Any]) -> RunOptions:
        """Return the options that a method named `name` was given as keywords."""
        known = {k: given[k] for k in (*cls.__slots__[4:], "on_error") if k in given}
        return cls(name, {k: v for k, v in given.items() if k not in known}, **known)


def scheduler_or_default(given: SchedulerLike | None) -> Scheduler:
    """Return the scheduler given, or the configured one, or that of this task, or threads."""
    if given is not None:
        return scheduler_of(given)
    configured = config.get("scheduler")
    if configured is None:
        return scheduler_here.get() or scheduler_named("threads")
    try:
        return scheduler_of(configured)
    except Exception as error:
        error.add_note(
            "The scheduler came from lazyflow.config.set(scheduler=...) or LAZYFLOW_SCHEDULER."
        )
        raise


def scheduler_of_plan(plan: Plan, given: Scheduler | None) -> Scheduler:
    """Return the scheduler that runs a plan.

    It is the one given, or the configured one, or the one where the plan's inputs live, or that
    of the task that asks, or threads.
    """
    if given is None and config.get("scheduler") is None:
        for i in plan.leaves:
            task = plan.tasks[i]
            if task._func is HELD and task._args[0].scheduler is not None:
                scheduler: Scheduler = task._args[0].scheduler
                return scheduler
    return given if given is not None else scheduler_or_default(None)


_warned: set[tuple[str, str]] = set()


def check_task_options(plan: Plan, scheduler: Scheduler) -> None:
    """Refuse a plan whose tasks need workers that the scheduler can't choose.

    Warn once of each other option of its tasks that has no effect there.
    """
    if "workers" not in scheduler.options:
        for task in plan.tasks:
            if task._options.workers is not None:
                raise ValueError(
                    f"{task_name(task)} asks for workers={list(task._options.workers)!r}, and "
                    f"{_subject(scheduler)} can't choose between workers. Leave workers= out, or "
                    'compute on scheduler="distributed"'
                )
    for option in ("priority", "resources", "crash_retries"):
        if option in scheduler.options or (scheduler.name, option) in _warned:
            continue
        for task in plan.tasks:
            if getattr(task._options, option) != getattr(DEFAULT, option):
                _warned.add((scheduler.name, option))
                warnings.warn(
                    f"{option}= of {task_name(task)} has no effect on the {scheduler.name!r} "
                    "scheduler",
                    LazyflowWarning,
                    stacklevel=users_depth(),
                )
                break


def _subject(scheduler: Scheduler) -> str:
    """Return the subject of a message about a scheduler."""
    if scheduler is scheduler_here.get():
        return "a task that computes others, which run in its own worker,"
    return f"the {scheduler.name!r} scheduler"


# -- runs of plans ------------------------------------------------------------------------

#: Observers in force where the code runs: see `lazyflow.diagnostics`.
observers: ContextVar[tuple[Any, ...]] = ContextVar("lazyflow_observers", default=())

#: Observers of everything this process computes.
always_observers: list[Any] = []

Outcome = tuple[Any, BaseException | None]


def new_run(plan: Plan, options: RunOptions, background: bool = False) -> BaseRun:
    """Return a new run of a plan; the caller begins it by ``run.scheduler.start(run)``."""
    scheduler = scheduler_of_plan(plan, options.scheduler)
    if plan.has_scheduler_options:
        check_task_options(plan, scheduler)
    limit = config.memory_limit()
    width = 1 if options.light else options.num_workers or config.get("num_workers")
    if limit is not None and options.largest_task:
        fitting = tasks_at_once(options.largest_task, limit)
        width = min(width or config.default_workers(), fitting)
    request = Request(
        num_workers=width,
        light=options.light and all(map(_is_there, map(plan.tasks.__getitem__, plan.leaves))),
        collect=options.collect or background,
        background=background,
        check_mutation=config.get("check_mutation"),
        crash_retries=config.get("crash_retries"),
        memory_limit=limit,
        observers=(*always_observers, *observers.get()),
    )
    run = make_run(plan, request, scheduler)
    if options.has_limit and not isinstance(run, Run) and "memory_limit" not in scheduler.options:
        raise ValueError(
            f"memory_limit= has no effect on {_subject(scheduler)}, whose workers have limits of "
            "their own. Leave it out, and set theirs where the cluster is made"
        )
    return run


def _is_there(leaf: Task) -> bool:
    return leaf._func is not HELD or bool(leaf._args[0].done())


def run_to_end(run: BaseRun, timeout: float | None) -> Outcome:
    """Run a plan to its end; return the values of its outputs, or the error.

    An interrupt cancels the run, but not other runs that it only waits for.
    """
    outer = here.worker.run if here.worker is not None else None
    try:
        if outer is not None:
            outer.children.add(run)
            if outer.stop:  # it was given up before it could see this child
                run.cancel(Cancelled("the task that started it was stopped"))
        if outer is None or not run.over:
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
            return _told(run, results(run)), None
        except Exception as error:
            return None, error
    try:
        return None, run.error
    finally:
        run.drop_values()  # a task that still runs holds the run


def _told(run: BaseRun, values: list[Any]) -> list[Any]:
    if run.observers.members:
        run.observers.tell(Observer.values_returned, run, values)
    return values


def results(run: BaseRun) -> list[Any]:
    """Return the outputs of a finished run, each the caller's own; raise if one is lost."""
    plan = run.plan
    outputs, failed = run.fetch()
    if failed:
        outputs = [
            CollectedError(failed[i]) if i in failed else value
            for i, value in zip(plan.outputs, outputs, strict=True)
        ]
    is_own = len(outputs) == 1 and not plan.leaves and _is_own(outputs[0])
    if not is_own and any(forms[t] or t is IteratorItems for t in set(map(type, outputs))):
        kept = held_values(plan) if plan.leaves or any(map(_shared, outputs)) else ()
        release = ResultHandover(kept)
        outputs = [release(value) for value in outputs]
    return outputs


def _shared(value: Any) -> bool:
    """Tell whether a task's result may be a literal, which is read-only in tasks."""
    return forms[type(value)] > 0 and not (kinds[type(value)] == ARRAY and value.flags.writeable)


def _is_own(value: Any) -> bool:
    """Tell whether a task's result is an array of numbers, and no literal."""
    return kinds[type(value)] == ARRAY and value.flags.writeable and not value.dtype.hasobject


def held_values(plan: Plan) -> list[Any]:
    """Return the values that others keep: the literals of a plan, and the values of its futures."""
    held = []
    for task in plan.tasks:
        if task._func is HELD:
            if not task._args[0].is_elsewhere():  # a copy from elsewhere is the caller's own
                held.append(in_memory(task._args[0].outcome(as_kept=True)[0]))
        elif task._bind is None:
            if task._args is not task._inputs:
                held.extend(x for x in task._args if forms[type(x)])
        else:
            for template in (task._bind.template, *(m[1] for m in task._bind.makers)):
                held.extend(x for x in template or () if forms[type(x)])
    return held


# -- in the background ----------------------------------------------------------------------

def start_background(
    plan: Plan, options: RunOptions, again: TaskFuture | None = None
) -> tuple[BaseRun, list[TaskFuture]]:
    """Start a plan without waiting; return its run and the futures of its outputs.

    The run holds the futures weakly: when the last user drops one, the tasks that only it needed
    are not started any more. `again` is the future of the only output, when an earlier run of
    its task failed.
    """
    plan, watches = snapshot(plan)
    run = new_run(plan, options, background=True)
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
    runs: deque[weakref.ref[BaseRun]] = _ahead.__dict__.setdefault("runs", deque())
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


def _is_unfinished(run: BaseRun | None) -> bool:
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
        what = "a cancelled future" if future.state is CANCELLED else "this kind of future"
        raise ValueError(
            f"{future.name}: {what} can't be retried, only a failed one of submit(...) or "
            "map(...). Make the call again."
        )
    again = _with_failed_inputs(future)
    for failed, task, holder in again:
        failed.recipe.append((task, holder))
        failed.reopen()
        owner = holder()
        if owner is not None:
            reopen(owner)
    while again:
        failed, task, _ = again.pop()
        try:
            start_background(make_plan([task]), RunOptions("retry", {}, failed.scheduler), failed)
        except BaseException as error:
            for left in [failed, *(other for other, _, _ in again)]:
                left.set_error(Cancelled(f"{left.name} could not be run again: {error}"))
            raise


def _with_failed_inputs(future: TaskFuture) -> list[tuple[TaskFuture, Task, Any]]:
    """Return failed futures with their tasks and owners, each before those that it needs."""
    failed = []
    stack = [future]
    while stack:
        candidate = stack.pop()
        if candidate.state is not FAILED:
            continue
        try:
            task, holder = candidate.recipe.pop()  # of several threads, one gets it
        except IndexError:
            continue
        failed.append((candidate, task, holder))
        plan = make_plan([task])
        stack += [t._args[0] for t in map(plan.tasks.__getitem__, plan.leaves) if t._func is HELD]
    return failed


# -- compute, persist, optimize -----------------------------------------------------------


def evaluate(args: tuple[Any, ...], options: RunOptions) -> Outcome:
    """Compute arguments; return the error, so that the public function raises it itself."""
    outcome: Outcome = None, None
    try:
        with options.memory_limit:
            targets = Targets(args, options.traverse, keep=False, once=True, options=options)
            if not targets.tasks:
                return targets.fill([], finalized), None
            options.light = targets.light and options.num_workers is None
            run = new_run(make_plan(targets.tasks, options.optimize_graph), options)
            outcome = run_to_end(run, options.timeout)
        if outcome[1] is not None:
            return outcome
        return targets.fill(outcome[0], finalized), None
    except KeyboardInterrupt as error:  # before the run, or after it
        return None, interrupted(error)
    finally:
        del outcome  # the error, or a collected one among the values


@overload
def compute(a: HasValue[A], /, **options: Unpack[_ComputeOptions]) -> tuple[A]: ...
@overload
def compute(
    a: HasValue[A], b: HasValue[B], /, **options: Unpack[_ComputeOptions]
) -> tuple[A, B]: ...
@overload
def compute(
    a: HasValue[A], b: HasValue[B], c: HasValue[C], /, **options: Unpack[_ComputeOptions]
) -> tuple[A, B, C]: ...
@overload
def compute(
    a: HasValue[A], b: HasValue[B], c: HasValue[C], d: HasValue[D], /,
    **options: Unpack[_ComputeOptions],
) -> tuple[A, B, C, D]: ...
@overload
def compute(a: list[HasValue[A]], /, **options: Unpack[_ComputeOptions]) -> tuple[list[A]]: ...
@overload
def compute(*args: Any, **options: Unpack[_ComputeOptions]) -> tuple[Any, ...]: ...
def compute(
    *args: Any,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    traverse: bool = True,
    optimize_graph: bool = True,
    timeout: float | None = None,
    on_error: str = "raise",
    memory_limit: int | str | None = None,
    **unknown: Any,
) -> tuple[Any, ...]:
    """Compute lazy values and return the arguments as a tuple, with values in their places.

    Parameters
    ----------
    *args
        Lazy values, containers of them to any depth, and plain values, which pass through.
    scheduler
        ``"sync"``, ``"threads"``, another registered name, a scheduler object, a
        `concurrent.futures.Executor` or the client of a cluster. By default that of `config`,
        else the one that holds persisted inputs, else the one whose task makes this call, else
        threads.
    num_workers
        The most tasks that may run at once. By default that of `config`, else the number of
        cores.
    traverse
        False: look only at the arguments themselves, not inside containers.
    optimize_graph
        False: run the tasks as they are, without merging equal pure ones or fusing.
    timeout
        Seconds until `TaskTimeout` is raised. On sync it is checked between tasks.
    on_error
        ``"raise"``: raise the first error; ``"collect"``: continue, and return each exception in
        place of its value.
    memory_limit
        Bytes of memory, as ``"4 GB"`` or a number, or ``"auto"``. When the arrays that tasks pass
        on and that `persist` keeps (also those in frames and containers) exceed a share of it, the
        oldest are written to a file without a name, and read from there when they are used. By
        default that of `config`, else there is no limit.

    Raises
    ------
    Exception
        The error of a task, with its own traceback and a note about the task.
    TaskTimeout
        The time ran out.
    KeyConflict
        Two different tasks have the same key.
    Cancelled
        A persisted input was cancelled.
    TypeError, ValueError
        An option is unknown or has a wrong value, or the scheduler is unknown.
    LazyflowError
        Something else ended the run: `WorkerDied`, `StoreFull`, `SerializationError` and others
        of `lazyflow.errors`.

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
            "compute", unknown, scheduler, num_workers, traverse, optimize_graph, timeout, on_error,
            memory_limit,
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


@overload
def persist(a: A, /, **options: Unpack[_PersistOptions]) -> tuple[A]: ...
@overload
def persist(a: A, b: B, /, **options: Unpack[_PersistOptions]) -> tuple[A, B]: ...
@overload
def persist(a: A, b: B, c: C, /, **options: Unpack[_PersistOptions]) -> tuple[A, B, C]: ...
@overload
def persist(*args: Any, **options: Unpack[_PersistOptions]) -> tuple[Any, ...]: ...
def persist(
    *args: Any,
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    traverse: bool = True,
    optimize_graph: bool = True,
    memory_limit: int | str | None = None,
    **unknown: Any,
) -> tuple[Any, ...]:
    """Start computing, and return the same objects with results in place of their graphs.

    Returns at once (on sync: when done) a tuple like that of `compute`, in which each lazy value
    is still lazy, but its task is a future. A loop of persist steps has a graph of constant
    size. An error is raised when its value is first used.

    The parameters are those of `compute`. When ``config.max_runs_ahead`` persists of this thread
    are unfinished, the next one waits for the oldest.

    Raises
    ------
    TypeError, ValueError, KeyConflict
        As `compute`. Errors of tasks are raised when a value is first used.

    Examples
    --------
    >>> from lazyflow import delayed, persist
    >>> x = delayed(0)
    >>> for _ in range(100):
    ...     (x,) = persist(x + 1)
    >>> x.compute()
    100
    """
    options = RunOptions(
        "persist", unknown, scheduler, num_workers, traverse, optimize_graph,
        memory_limit=memory_limit,
    )
    with options.memory_limit:
        targets = Targets(args, options.traverse, options=options)
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
    """Return equal objects whose graphs are already optimized: equal pure tasks are one task.

    Parameters
    ----------
    args
        Lazy values, and containers of them to any depth.
    traverse
        False: look only at the arguments themselves.
    explain
        True: return a text on what each pass does to the graph instead.

    Raises
    ------
    TypeError
        A keyword is unknown.
    KeyConflict
        Two different tasks have the same key.

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
    fuse: no task has another one as its only input
    order: the users of a result start right after it: 1 result has several users, not 8 or more
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
