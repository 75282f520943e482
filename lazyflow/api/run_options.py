"""What one call asks of its run: the checked keywords, and the scheduler that they lead to."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lazyflow import config
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import HELD, task_name, users_depth
from lazyflow.schedulers.core.base import Scheduler
from lazyflow.schedulers.core.lifecycle import scheduler_here
from lazyflow.schedulers.registry import scheduler_named, scheduler_of

if TYPE_CHECKING:
    from concurrent.futures import Executor


class ClusterClient(Protocol):
    """A client of a cluster, as dask's `distributed.Client`."""

    def subscribe_topic(self, topic: str, handler: Any) -> Any:
        """Call a handler for the events of a topic."""


#: What ``scheduler=`` takes: a name, a scheduler, an executor or the client of a cluster.
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
        "collect", "light", "num_workers", "optimize_graph", "scheduler", "timeout", "traverse",
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
    ) -> None:
        for word in unknown:
            known = [*RunOptions.__slots__[2:], "on_error"]
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
        self.scheduler = scheduler_of(scheduler) if scheduler is not None else None
        self.num_workers = num_workers
        self.traverse = traverse
        self.optimize_graph = optimize_graph
        self.timeout = timeout
        self.collect = on_error == "collect"
        self.light = False

    @classmethod
    def of(cls, name: str, given: dict[str, Any]) -> RunOptions:
        """Return the options that a method named `name` was given as keywords."""
        known = {k: given[k] for k in (*cls.__slots__[2:], "on_error") if k in given}
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
            "It is the scheduler of lazyflow.config.set(scheduler=...), or of LAZYFLOW_SCHEDULER."
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
                import warnings

                from lazyflow.errors import LazyflowWarning

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
