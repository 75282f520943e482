"""What every scheduler knows of an actor: what it is made of, and what a call of it is.

A scheduler that can keep actors has ``make_actor(spec)``, which returns an `ActorHost`, and
``actors_share_memory = False`` when arguments do not reach them as the caller has them. All of it
is used through `lazyflow.api.actors`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from lazyflow.graph.kinds import COLLECTION, ITERATOR, LAZY, kinds
from lazyflow.graph.task import Task
from lazyflow.schedulers.core.base import Request
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import plan_of
from lazyflow.schedulers.core.run import Run
from lazyflow.store.pickling.serialize import Unpicklable
from lazyflow.store.values import IteratorItems

T = TypeVar("T")

ASYNC_CONCURRENCY = 1000  # calls of async methods that may be under way at once
_IN_CHECKPOINT = "while the actor's checkpoint was taken, after the call"


class Method:
    """A method as the function of a task, so that names, places and notes come as for any."""

    def __init__(self, actor: str, name: str) -> None:
        self.name = name
        self.__name__ = f"{actor}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is called by its actor only")


class ActorCall:
    """One call of a method.

    task
        Method and arguments; ``task._inputs`` are leaves or tasks of other runs.
    inputs
        The futures of their values, in that order.
    future
        Of the result. The call holds it until it is done: calls always run.
    begun
        It began, in this process.
    """

    __slots__ = ("__weakref__", "begun", "future", "host", "inputs", "node", "task")

    engine = None  # those of actors see by themselves whether they can go on

    def __init__(self, task: Task, inputs: list[TaskFuture], future: TaskFuture) -> None:
        self.task = task
        self.inputs = inputs
        self.future = future
        self.begun = False
        self.host: Any = None  # where it went, if that has values that tasks can wait for
        self.node: Any = None  # that stands for the result there
        future.run = (self, 0)

    def forget(self, i: int) -> None:
        """Learn that the future was cancelled: what takes the call from its queue will see."""
        if self.host is not None:
            self.host.forget(self)

    @property
    def inside(self) -> tuple[Any, ...]:
        """Who works on it, as runs know them: while it runs, itself."""
        runs = self.begun or (self.host is not None and self.host.runs(self))
        return (self,) if runs else ()

    def now(self) -> tuple[Any, int]:
        """Return what it works on, as a worker does."""
        return self, 0

    @property
    def driver(self) -> Any:
        """Whose tasks can wait for the result."""
        return None if self.host is None else self.host.driver

    @property
    def nodes(self) -> list[Any]:
        """What such tasks wait for, as of a run with one task."""
        return [self.host.node_of(self)]

    @property
    def method(self) -> str:
        """The name of the method."""
        func: Any = self.task._func
        return str(func.name)


class Checkpoint:
    """How the state of an actor is saved and restored.

    save, load
        Names of methods, or functions of the object, and of the object and a state.
    every
        Calls between two savings.
    """

    def __init__(
        self, save: str | Callable[[Any], Any], load: str | Callable[[Any, Any], Any], every: int
    ) -> None:
        self.save = save
        self.load = load
        self.every = every

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
        """Give a new object the state of one that was lost."""
        if isinstance(self.load, str):
            getattr(instance, self.load)(state)
        else:
            self.load(instance, state)


class ActorSpec:
    """What an actor is made of.

    Parameters
    ----------
    cls, factory
        The class, and what has it as ``__wrapped__`` and can be pickled.
    label
        What messages call it.
    init
        The call of its constructor.
    """

    def __init__(
        self,
        cls: type,
        factory: Any,
        label: str,
        init: ActorCall,
        max_concurrency: int | None = None,
        restarts: int = 0,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.cls = cls
        self.factory = factory
        self.label = label
        self.init = init
        self.restarts = restarts
        self.checkpoint = checkpoint
        self.is_async = has_async_methods(cls)
        if max_concurrency is None:
            max_concurrency = ASYNC_CONCURRENCY if self.is_async else 1
        self.max_concurrency = max_concurrency


class ActorHost(Protocol):
    """Where an actor lives."""

    def call(self, call: ActorCall) -> None:
        """Take a call in; its future gets the outcome. Calls begin in the order of taking."""

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""

    def close(self) -> None:
        """End the actor after the calls that it has. Called by finalizers: must not lock."""


def has_async_methods(cls: type) -> bool:
    """Tell whether a class has methods that are coroutines.

    >>> has_async_methods(dict)
    False
    """
    return any(
        inspect.iscoroutinefunction(each)
        for base in cls.__mro__
        for each in vars(base).values()
    )


def finish(box: list[Any], scheduler: Any) -> None:
    """Make of a call's value what its future gets: a lazy one is computed, an iterator taken."""
    kind = kinds[type(box[0])]
    if kind in (LAZY, COLLECTION):
        box[0] = _computed(box[0], scheduler)
    elif kind == ITERATOR:
        box[0] = IteratorItems(box[0])


def _computed(lazy: Any, scheduler: Any) -> Any:
    run = Run(plan_of(lazy), Request(), scheduler)
    scheduler.start(run)
    scheduler.wait(run, None)
    try:
        if run.error is not None:
            raise run.error
        return run.values[run.plan.outputs[0]]
    finally:
        run.forget_values()
