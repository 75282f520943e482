"""What every scheduler knows of an actor: its description, and its calls.

A scheduler that can keep actors has ``make_actor(spec)``, which returns an `ActorHost`, and
``actors_share_memory = False`` when arguments do not reach them as the caller has them. All of it
is used through `lazyflow.api.actors`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar
from weakref import ref

from lazyflow.graph.kinds import COLLECTION, ITERATOR, LAZY, kinds
from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.waits import WaitingActor, waits
from lazyflow.schedulers.actors.watched_call import WatchedCall
from lazyflow.schedulers.core.base import Request
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import plan_of
from lazyflow.schedulers.core.made_runs import make_run
from lazyflow.store.pickling.serialize import Unpicklable
from lazyflow.store.values import IteratorItems

T = TypeVar("T")

MISSING: Any = object()  #: stands for an input value that has not arrived

ASYNC_CONCURRENCY = 1000  # calls of async methods that may be under way at once
_IN_CHECKPOINT = "while the actor's checkpoint was taken, after the call"


class Method:
    """A method as the function of a task, so that its calls are named and located like tasks."""

    def __init__(self, actor: str, name: str, module: str) -> None:
        self.name = name
        self.__name__ = f"{actor}.{name}"
        self.__module__ = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is called by its actor only")


class MethodTask(Task):
    """The task of a method's call."""

    __slots__ = ()
    _owns_arguments = True


class CallFuture(TaskFuture):
    """The result of a call of a method.

    ``was_refused`` tells whether it failed without having begun, since its actor has ended.
    """

    __slots__ = ("was_refused",)

    def __init__(self, name: str, scheduler: Any) -> None:
        super().__init__(name, scheduler)
        self.was_refused = False


class ActorCall:
    """One call of a method.

    task
        Method and arguments; ``task._inputs`` are leaves or tasks of other runs.
    inputs
        The futures of their values, in that order.
    future
        The future of the result. The call holds it until it is done: calls always run.
    begun
        Whether it has begun, in this process.
    watch
        What its observers hear of, a `WatchedCall`; None: nobody observes.
    actor
        The number of its actor, if that was made by this process.
    """

    __slots__ = (
        "__weakref__", "actor", "begun", "future", "host", "inputs", "node", "task", "watch",
    )

    engine = None  # those of actors see by themselves whether they can go on

    def __init__(
        self, task: Task, inputs: list[TaskFuture], future: CallFuture,
        watch: WatchedCall | None = None, actor: int = 0,
    ) -> None:
        self.task = task
        self.actor = actor
        self.watch = watch
        if watch is not None:
            watch.call = ref(self)
        self.inputs = inputs
        self.future = future
        self.begun = False
        self.host: Any = None  # its actor, where that is in another process
        self.node: Any = None  # of a pool, that stands for the result
        future.run = (self, 0)

    def forget(self, i: int) -> None:
        """Note that the future was cancelled, so that the call does not begin."""
        if self.host is not None:
            self.host.forget(self)

    def awaited_by(self, actor: WaitingActor) -> None:
        """Note that an actor sleeps until the result is there."""
        if self.actor:
            waits.add(actor, self.future, self.actor)
        else:
            self.host.awaited_by(self, actor)

    @property
    def inside(self) -> tuple[Any, ...]:
        """The workers on it, as a run lists them: the call itself, while it runs."""
        runs = self.begun or (self.host is not None and self.host.runs(self))
        return (self,) if runs else ()

    def now(self) -> tuple[Any, int]:
        """Return the run and task in progress, as a worker does."""
        return self, 0

    @property
    def driver(self) -> Any:
        """The driver of the pool whose tasks can wait for the result, or None."""
        return None if self.host is None else self.host.driver

    @property
    def nodes(self) -> list[Any]:
        """The nodes that such tasks wait for, as in a run with one task."""
        return [self.host.node_of(self)]

    @property
    def method(self) -> str:
        """The name of the method."""
        func: Any = self.task._func
        return str(func.name)


class PackedCall:
    """A call with its packed parts, as `HostPort.encode` and `HostPort.load` make them.

    arguments, flags, binding
        As `lazyflow.schedulers.remote.calls.packed_call` gives them.
    futures
        The futures of the inputs, each once.
    sources
        For each input the index of its future; None: the inputs are the futures in order.
    values
        The packed value of each future.
    missing
        The number of values that have not arrived.
    """

    __slots__ = (
        "arguments", "binding", "call", "error", "flags", "futures", "is_over", "missing",
        "sources", "values",
    )

    def __init__(self, call: ActorCall) -> None:
        self.call = call
        self.arguments: Any = None
        self.flags = 0
        self.binding: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        distinct = {id(f): f for f in call.inputs}
        self.futures: list[TaskFuture] = list(distinct.values())
        self.sources: tuple[int, ...] | None = None
        if len(distinct) < len(call.inputs):
            places = {key: k for k, key in enumerate(distinct)}
            self.sources = tuple([places[id(f)] for f in call.inputs])
        self.values: list[Any] = [MISSING] * len(self.futures)
        self.missing = len(self.futures)

    def tell(self, error: BaseException | None = None) -> None:
        """Tell observers that the call is over, unless they know."""
        watch = self.call.watch
        if watch is not None:
            # One that was cancelled after it was sent is answered with an error, and never began.
            was_cancelled = watch.start is None and self.call.future.done()
            watch.over(failed=error is not None and not was_cancelled)

    def fail(self, error: BaseException) -> None:
        """Give the future an error, after telling observers."""
        self.tell(error)
        self.call.future.set_error(error)

    @property
    def task(self) -> Task:
        return self.call.task

    @property
    def name(self) -> str:
        return self.call.future.name


@dataclass(eq=False, repr=False)
class Checkpoint:
    """How the state of an actor is saved and restored.

    save, load
        Names of methods, or functions: of the object, and of the object and a state.
    every
        Number of calls from one saved state to the next.
    """

    save: str | Callable[[Any], Any]
    load: str | Callable[[Any, Any], Any]
    every: int

    def packed_state(self, instance: Any, pack: Callable[[Any], T]) -> T:
        """Return the state to keep, packed by `pack`; an error gets a note that it came of this."""
        try:
            save = self.save
            state = getattr(instance, save)() if isinstance(save, str) else save(instance)
            return pack(state)
        except Unpicklable as refused:
            refused.error.add_note(_IN_CHECKPOINT)
            raise refused.error from None
        except BaseException as error:
            error.add_note(_IN_CHECKPOINT)
            raise

    def restore(self, instance: Any, state: Any) -> None:
        """Set a new object to the saved state of one that was lost."""
        if isinstance(self.load, str):
            getattr(instance, self.load)(state)
        else:
            self.load(instance, state)


@dataclass(eq=False, repr=False)
class ActorSpec:
    """The description from which a scheduler makes an actor.

    Parameters
    ----------
    cls, factory
        The class, and a picklable object that has it as ``__wrapped__``.
    label
        The name of the actor in messages.
    init
        The call of its constructor.
    max_concurrency
        The most calls that may be under way at once; None: one, or many async ones.
    mutates
        Whether the values of its calls' inputs are the actor's own, copied if need be.
    number
        The actor among those of this process.
    """

    cls: type
    factory: Any
    label: str
    init: ActorCall
    max_concurrency: int | None = None
    restarts: int = 0
    checkpoint: Checkpoint | None = None
    mutates: bool = True
    number: int = 0

    @cached_property
    def is_async(self) -> bool:
        """Whether the class has methods that are coroutines."""
        return any(
            inspect.iscoroutinefunction(each)
            for base in self.cls.__mro__
            for each in vars(base).values()
        )

    @property
    def concurrency(self) -> int:
        """The most calls that may be under way at once."""
        return self.max_concurrency or (ASYNC_CONCURRENCY if self.is_async else 1)


class ActorHost(Protocol):
    """An actor as its scheduler keeps it."""

    def call(self, call: ActorCall) -> None:
        """Queue a call; its future gets the outcome. Calls begin in the order of queueing.

        Where several may be under way at once, that is the order of those whose inputs are there.
        """

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""

    def close(self) -> None:
        """End the actor after the queued calls. Called by finalizers: must not lock."""


def finish(box: list[Any], scheduler: Any) -> None:
    """Replace the value in a box by what the future gets: compute lazy values, run iterators."""
    kind = kinds[type(box[0])]
    if kind in (LAZY, COLLECTION):
        box[0] = _computed(box[0], scheduler)
    elif kind == ITERATOR:
        box[0] = IteratorItems(box[0])


def _computed(lazy: Any, scheduler: Any) -> Any:
    run = make_run(plan_of(lazy), Request(), scheduler)
    run.scheduler.start(run)
    run.scheduler.wait(run, None)
    try:
        if run.error is not None:
            raise run.error
        return run.values[run.plan.outputs[0]]
    finally:
        run.forget_values()
