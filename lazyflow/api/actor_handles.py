"""Handles on actors: what a program calls, in the process that made the actor and in others."""

from __future__ import annotations

import inspect
from itertools import count
from typing import Any, NoReturn

from lazyflow import config
from lazyflow.api.actor_settings import ActorSettings, checkpoint_of
from lazyflow.api.futures import Future
from lazyflow.api.lazy import Delayed
from lazyflow.api.pending_calls import PendingCalls
from lazyflow.api.run_options import RunOptions, scheduler_or_default
from lazyflow.api.runs import start_background
from lazyflow.api.works import watching
from lazyflow.departures import LastCall, WeakValues
from lazyflow.graph.building import new_leaf, new_task
from lazyflow.graph.options import Options
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import HELD, Place, Task
from lazyflow.schedulers.actors.calls import (
    ActorCall,
    ActorHost,
    ActorSpec,
    CallFuture,
    Method,
    MethodTask,
)
from lazyflow.schedulers.actors.handles import borrowed
from lazyflow.schedulers.actors.handles.connection import Address
from lazyflow.schedulers.actors.handles.exchange import exchange
from lazyflow.schedulers.actors.watched_call import WatchedCall
from lazyflow.schedulers.core.base import KeepsActors, provides
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.store.owned import copied


class ClassDescription:
    """The names in a class, from which calls are checked where the class need not be.

    name, module
        Of the class.
    methods, attributes
        Names of what can be called, and of the rest.
    """

    def __init__(
        self, name: str, module: str, methods: frozenset[str], attributes: frozenset[str]
    ) -> None:
        self.name = name
        self.module = module
        self.methods = methods
        self.attributes = attributes
        self._known: dict[str, Method] = {}

    @classmethod
    def of(cls, described: type) -> ClassDescription:
        """Describe a class."""
        methods, attributes = set(), set()
        for name in dir(described):
            if name.startswith("__"):
                continue
            is_property = isinstance(inspect.getattr_static(described, name, None), property)
            if is_property or not callable(getattr(described, name, None)):
                attributes.add(name)
            else:
                methods.add(name)
        return cls(
            described.__name__, described.__module__, frozenset(methods), frozenset(attributes)
        )

    def __reduce__(self) -> Any:
        return ClassDescription, (self.name, self.module, self.methods, self.attributes)

    def method(self, name: str) -> Method:
        """Return the record of a method, or raise an error that lists the methods of the class."""
        __tracebackhide__ = True  # for IPython and pytest
        known = self._known.get(name)
        if known is None:
            self._check(name)
            known = self._known[name] = Method(self.name, name, self.module)
        return known

    def _check(self, name: str) -> None:
        if name in self.attributes:
            raise AttributeError(
                f"{name!r} of the actor {self.name} is an attribute, and its object is "
                f"elsewhere: write a method that returns it"
            )
        if name not in self.methods:
            methods = sorted(each for each in self.methods if not each.startswith("_"))
            special = " Special methods can't be called on an actor." if name[:2] == "__" else ""
            listed = ", ".join(methods[:10]) + (", ..." if len(methods) > 10 else "")
            raise AttributeError(
                f"the actor {self.name} has no method {name!r}{config.nearest(name, methods)}"
                f"{special} It has {listed or 'no methods'}; attributes of its object are reached "
                "by methods."
            )


# -- what handles have in common ------------------------------------------------------------


class ActorCore:
    """One actor, shared by all handles on it in this process."""

    shares_memory = False
    number = 0
    host: ActorHost

    def __init__(self, described: ClassDescription, label: str, scheduler: Any) -> None:
        self.described = described
        self.label = label
        self.scheduler = scheduler
        self.pending = PendingCalls()

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future:
        """Have a method called; return the future of its result."""
        method = self.described.method(name)
        self.pending.make_room(self.host)
        call = self.call_of(method, args, kwargs, 4)
        future = Future(call.future, new_leaf(Delayed, HELD, call.future, made_at=call.task))
        self._queue(call)
        return future

    def _queue(self, call: ActorCall) -> None:
        self.pending.add(call.future)
        try:
            self.host.call(call)
        except BaseException:  # the call would stay pending for ever, as no one gets its future
            call.future.cancel()
            raise

    def call_of(
        self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any], depth: int
    ) -> ActorCall:
        """Return a call, made `depth` frames above this one; work for its inputs is started."""
        task = new_task(MethodTask, method, args, kwargs, depth=depth)
        if self.shares_memory:
            _take_literals(task)
        inputs = self._futures_of(task._inputs) if task._inputs else []
        future = CallFuture(method.__name__, self.scheduler)
        return ActorCall(task, inputs, future, self._watch(task), self.number)

    def _watch(self, task: Task) -> WatchedCall | None:
        """Return what observers of a call hear of, if there are any."""
        return None

    def _futures_of(self, tasks: tuple[Task, ...]) -> list[TaskFuture]:
        """Return the futures of input tasks, after starting those that do not run yet."""
        found = {id(t): t._args[0] for t in tasks if t._func is HELD}
        lazy = [t for t in tasks if t._func is not HELD]
        if lazy:
            options = RunOptions("actor", {}, scheduler=self._for_inputs())
            _, futures = start_background(make_plan(lazy), options)
            found.update((id(t), f) for t, f in zip(lazy, futures, strict=True))
        return [found[id(t)] for t in tasks]

    def _for_inputs(self) -> Any:
        """Return the scheduler of work for inputs; None: as for any compute of the caller."""
        return None

    def lent(self) -> tuple[Any, ...]:
        """Return what a handle in another process is made of."""
        raise NotImplementedError

    def keep_for_good(self) -> None:
        """Have the actor kept: a pickled handle is under way, for nobody knows how long."""
        raise NotImplementedError


def _take_literals(task: Task) -> None:
    """Replace what the caller may edit, and the actor may, by copies that are the actor's own."""
    bind = task._bind
    if bind is not None:
        bind.template = copied(bind.template)
        bind.makers = [(make, copied(items), *rest) for make, items, *rest in bind.makers]
    elif not task._inputs:
        task._args = copied(task._args)


# -- of actors of this process, and of others -----------------------------------------------

_numbers = count(1)


class OwnCore(ActorCore):
    """An actor that this process has made; it ends when this object is collected.

    Parameters
    ----------
    cls, factory
        The class, and a picklable object that has it as ``__wrapped__``.
    init, args, kwargs
        The call of its constructor, which is made three frames above this one.
    """

    def __init__(
        self, cls: type, factory: Any, settings: ActorSettings, described: ClassDescription,
        init: Method, args: tuple[Any, ...], kwargs: dict[str, Any],
    ) -> None:
        scheduler = scheduler_or_default(settings.scheduler)
        label = cls.__name__ if settings.name is None else f"{cls.__name__} {settings.name!r}"
        super().__init__(described, label, scheduler)
        self.cls = cls
        self.name = settings.name
        self.number = next(_numbers)
        if not provides(scheduler, KeepsActors):
            raise ValueError(
                f"the {scheduler.name!r} scheduler has no actors. Pass one that has: "
                'actor(..., scheduler="threads") or "processes"'
            )
        self.shares_memory = scheduler.actors_share_memory
        self.spec = ActorSpec(
            cls, factory, label, self.call_of(init, args, kwargs, 5), settings.max_concurrency,
            settings.restarts, checkpoint_of(cls, settings), settings.mutates, self.number,
        )
        self.host: ActorHost = scheduler.make_actor(self.spec)
        self._end = LastCall(self.host.close)

    def _watch(self, task: Task) -> WatchedCall | None:
        who = watching()
        if who is None:
            return None
        return WatchedCall(task, self.scheduler, self.label, self.number, who)

    def _for_inputs(self) -> Any:
        return config.get("scheduler") or self.scheduler

    def lent(self) -> tuple[Any, ...]:
        return exchange.lend(self), self.number, *self.described_handle()

    def keep_for_good(self) -> None:
        exchange.pin(self)

    # -- for the exchange ---------------------------------------------------------------------

    def described_handle(self) -> tuple[Any, ...]:
        """Return what a handle in another process is made of, beside address and number."""
        is_concurrent = self.spec.concurrency > 1
        return self.label, is_concurrent, self.described, self.scheduler.name

    def call_lent(
        self, method: str, args: list[Any], kwargs: dict[str, Any], place: Place,
        hide: tuple[str, ...] | bool,
    ) -> CallFuture:
        """Have a method called for another process, whose line at `place` has asked for it."""
        call = self.call_of(self.described.method(method), tuple(args), kwargs, 1)
        call.task._code = place
        if hide:
            call.task._options = Options(hide=hide)
        self._queue(call)
        return call.future


class BorrowedCore(ActorCore):
    """An actor that another process has made, which keeps it while this object exists."""

    def __init__(
        self, address: Address, number: int, label: str, is_concurrent: bool,
        described: ClassDescription, where: str,
    ) -> None:
        super().__init__(described, label, scheduler_or_default(None))
        self.where = where
        self._key = address, number
        self._handle = label, is_concurrent, described, where
        self.host = borrowed.borrow(address, number, label, is_concurrent)

    def lent(self) -> tuple[Any, ...]:
        return *self._key, *self._handle

    def keep_for_good(self) -> None:
        borrowed.pin(*self._key)


_borrowed: WeakValues[BorrowedCore] = WeakValues()


def handle_of(address: Address, number: int, *handle: Any) -> Actor:
    """Return the handle that was pickled in this process or another."""
    address = Address(*address)
    own = exchange.actor(number) if exchange.is_at(address) else None
    if isinstance(own, OwnCore):
        return Actor(own)
    core = _borrowed.get((address.key, number))
    if core is None or core.host.is_over:
        core = _borrowed[address.key, number] = BorrowedCore(address, number, *handle)
    return Actor(core)


# -- handles --------------------------------------------------------------------------------


class Actor:
    """A handle on an actor: its methods return futures.

    It can be an argument of tasks and of other actors' methods, and part of containers, also where
    those run in other processes: calls go to the one actor. While anybody has a handle, the actor
    lives.

    Examples
    --------
    >>> import lazyflow
    >>> words = lazyflow.actor(list)("ab")
    >>> added = words.append("c")
    >>> words.count("c").result()
    1
    """

    __slots__ = ("__weakref__", "_core")
    _core: ActorCore

    def __init__(self, core: ActorCore) -> None:
        object.__setattr__(self, "_core", core)

    def __getattr__(self, name: str) -> BoundMethod:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"an actor's handle has no {name!r}")
        __tracebackhide__ = True  # for IPython and pytest
        self._core.described.method(name)
        return BoundMethod(self._core, name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name!r} can't be set on the handle of {self._core.label}: its object is elsewhere. "
            "Write a method that sets it."
        )

    def __dir__(self) -> list[str]:
        described = self._core.described
        return sorted(described.methods | described.attributes)

    def __repr__(self) -> str:
        core = self._core
        where = core.where if isinstance(core, BorrowedCore) else core.scheduler.name
        return f"<actor {core.label} on {where}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is Actor and other._core is self._core

    def __hash__(self) -> int:
        return hash(self._core)

    def __copy__(self) -> Actor:
        return Actor(self._core)

    def __deepcopy__(self, memo: Any) -> Actor:
        return Actor(self._core)

    def __reduce__(self) -> Any:
        core = self._core
        found = handle_of, core.lent()
        core.keep_for_good()
        return found

    def _lazyflow_lent(self, handles: list[Any]) -> Any:
        """Reduce it for a pickler whose caller keeps `handles` for as long as it is needed."""
        handles.append(self._core)
        return handle_of, self._core.lent()


class BoundMethod:
    """A method of an actor, to be called."""

    __slots__ = ("_core", "_name")

    def __init__(self, core: ActorCore, name: str) -> None:
        self._core = core
        self._name = name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Future:
        """Have the method called; return the future of its result."""
        return self._core.call(self._name, args, kwargs)

    def __reduce__(self) -> Any:
        return getattr, (Actor(self._core), self._name)

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._core.label}>"
