"""Actors: stateful objects that many tasks and callers share through calls.

A class marked with `actor` is called as before, but its object lives where the scheduler keeps
it: in a process of its own on processes and Ray, in a worker of the cluster on distributed, in a
thread of its own on threads, in the caller's thread on sync. A method call returns a future at
once; calls run one after the other, in the order in which they were made::

    Actor.method --> BoundMethod() --> ActorCore.call: PendingCalls.make_room, call_of --> host.call

Handles (`Actor`) of one process share an `ActorCore`, whose end ends the actor or, if another
process has made it, tells that process. State::

    _named :: weak {name: OwnCore}                       under `_names_lock`
    _borrowed :: weak {(key of the owner, number): BorrowedCore}
    PendingCalls._calls :: [None]                        an item for each call that has not ended
    PendingCalls._sleepers :: {Event: number of calls}   callers that sleep until so few are pending
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NoReturn, Protocol, overload

from lazyflow import config
from lazyflow.api.evaluate import (
    OF_ENGINES,
    RunOptions,
    SchedulerLike,
    scheduler_or_default,
    start_background,
)
from lazyflow.api.futures import Future
from lazyflow.api.lazy import Delayed, table_html
from lazyflow.api.progress_events import watching
from lazyflow.finalizers import LastCall, WeakValues
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.options import Options
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import HELD, Place, Task
from lazyflow.interrupts import Event
from lazyflow.schedulers.actors.calls import (
    ActorCall,
    ActorHost,
    ActorSpec,
    CallFuture,
    Checkpoint,
    Method,
    MethodTask,
    WatchedCall,
)
from lazyflow.schedulers.actors.handles import borrowed
from lazyflow.schedulers.actors.handles.exchange import exchange
from lazyflow.schedulers.actors.handles.wire import Address
from lazyflow.schedulers.core.base import KeepsActors, provides
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.task_resources import scheduler_here
from lazyflow.schedulers.core.unfinished import unfinished
from lazyflow.schedulers.remote import environment
from lazyflow.store.ownership import copied

# -- the options of an actor, checked -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The options of an actor, checked."""

    scheduler: SchedulerLike | None = None
    name: str | None = None
    get_if_exists: bool = False
    max_concurrency: int | None = None
    restarts: int = 0
    checkpoint: Any = None
    checkpoint_every: int = 1
    mutates: bool = True

    def __post_init__(self) -> None:
        if self.name is not None and not (isinstance(self.name, str) and self.name):
            raise TypeError(f"name must be a str of at least one character; got {self.name!r}")
        if self.get_if_exists and self.name is None:
            raise ValueError(
                "get_if_exists=True asks for an actor by name; pass name= as well"
            )
        if self.max_concurrency is not None:
            _check_count("max_concurrency", self.max_concurrency, 1)
        if not isinstance(self.mutates, bool):
            raise TypeError(f"mutates must be True or False; got {self.mutates!r}")
        _check_count("restarts", self.restarts, 0)
        _check_count("checkpoint_every", self.checkpoint_every, 1)

    @classmethod
    def of(cls, given: dict[str, Any]) -> ActorSettings:
        """Return the options that `actor` was given as keywords."""
        for word in given:
            if word not in cls.__slots__:
                hint = _ELSEWHERE.get(word) or config.nearest(word, cls.__slots__)
                raise TypeError(f"actor() got an unexpected keyword {word!r}{hint}")
        return cls(**given)


#: Keywords of other libraries, and what to type here instead.
_ELSEWHERE = OF_ENGINES | {
    "resources": "; with dask.annotate(resources=...), or config.set(ray_options=...), the engine "
    "gets them as they are.",
    "workers": "; with dask.annotate(workers=...): distributed gets it as it is.",
    "max_restarts": "; it is called restarts here.",
    "max_task_retries": "; a call that ended its process is not run again, since it may have "
    "done a part of its work: catch WorkerDied, and call again.",
    "lifetime": "; an actor lives as long as a handle on it, or its name, is held.",
    "num_workers": "; it is called max_concurrency here.",
}


def _check_count(word: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{word} must be a whole number, {least} or more; got {value!r}")


def checkpoint_of(cls: type, settings: ActorSettings) -> Checkpoint | None:
    """Return how the state of an actor is saved and restored; None without a checkpoint."""
    given = settings.checkpoint
    if given is None:
        return None
    if isinstance(given, str):
        pair: Any = (given, "set_" + given.removeprefix("get_"))
    else:
        pair = given
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise TypeError(
            "checkpoint must be the name of a method that returns the state, such as 'get_state' "
            "(then set_state restores it), or two: (save, load), names or functions; got "
            f"{given!r:.100}"
        )
    for method in pair:
        if isinstance(method, str) and not callable(getattr(cls, method, None)):
            raise TypeError(
                f"checkpoint={given!r} needs a method {method!r}, which {cls.__name__} does not "
                "have"
            )
        if not isinstance(method, str) and not callable(method):
            raise TypeError(f"checkpoint must name a method or be a function; got {method!r:.100}")
    return Checkpoint(pair[0], pair[1], settings.checkpoint_every)


# -- pending calls ------------------------------------------------------------------------
#
# A caller that reaches the limit of pending calls of an actor sleeps until some have ended. Only
# calls of the program itself wait. A call from inside a task or an actor's call is made at
# once, since the pending calls may wait for its result. So is the call of a coroutine: its event
# loop must not stand still.

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Ends(Protocol):
    """An actor, or a pool of them."""

    @property
    def is_over(self) -> bool:
        """Whether all later calls fail."""


class PendingCalls:
    """Counts the calls of one actor that have not ended."""

    __slots__ = ("_calls", "_sleepers")

    def __init__(self) -> None:
        self._calls: list[None] = []  # one item each: append and pop are atomic, a sum is not
        #: For each sleeping caller its event, and the number of calls at which it goes on.
        self._sleepers: dict[Event, int] = {}

    def make_room(self, host: Ends) -> None:
        """Sleep while the limit of pending calls is reached."""
        limit = config.get("max_pending_calls")
        if len(self._calls) < limit or scheduler_here.get() is not None or _in_coroutine():
            return
        try:
            # In the child of a fork the actor is over, and the parent's calls never end.
            while len(self._calls) >= limit and not host.is_over:
                self._sleep(limit)
        except KeyboardInterrupt as error:
            raise interrupted(error) from None

    def _sleep(self, limit: int) -> None:
        gate = Event()
        # A thread that woke at each end would switch for every call.
        self._sleepers[gate] = limit - 1 - limit // 8
        try:
            if len(self._calls) >= limit:  # a call that ends later sees the gate
                gate.wait()
        finally:
            self._sleepers.pop(gate, None)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, future: TaskFuture) -> None:
        """Count a call as pending until its future is done."""
        self._calls.append(None)
        unfinished.add(future)
        future.add_callback(self._ended)

    def _ended(self, future: TaskFuture) -> None:
        unfinished.discard(future)
        self._calls.pop()
        if self._sleepers:
            left = len(self._calls)
            for gate, enough in tuple(self._sleepers.items()):
                if left <= enough and self._sleepers.pop(gate, None) is not None:
                    gate.set()


def _in_coroutine() -> bool:
    """Tell whether a coroutine, or a callback of an event loop, is running here.

    Notebooks run every cell inside a loop: code outside of all functions counts as the program
    itself, and ends the search.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return False
    callback = asyncio.Handle._run.__code__
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if code.co_flags & _ASYNC or code is callback:
            return True
        if not code.co_flags & inspect.CO_NEWLOCALS:
            return False
        frame = frame.f_back
    return False


# -- handles on actors, in the process that made the actor and in others


class ClassDescription:
    """The names in a class, to check calls where the class itself may be missing.

    name, module
        The name of the class and of its module.
    methods, attributes
        Names of the callable attributes, and of the others.
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
                f"{name!r} is an attribute of the actor {self.name}, whose object lives elsewhere. "
                "Write a method that returns it."
            )
        if name not in self.methods:
            methods = sorted(each for each in self.methods if not each.startswith("_"))
            special = " Special methods can't be called on an actor." if name[:2] == "__" else ""
            listed = ", ".join(methods[:10]) + (", ..." if len(methods) > 10 else "")
            raise AttributeError(
                f"the actor {self.name} has no method {name!r}{config.nearest(name, methods)}"
                f"{special} It has {listed or 'no methods'}; to read an attribute, write a method "
                "that returns it."
            )


# -- the common base of handles -------------------------------------------------------------


class ActorCore:
    """One actor, shared by all handles on it in this process."""

    where: str  # the scheduler that keeps it
    shares_memory = False
    number = 0
    host: ActorHost

    def __init__(self, described: ClassDescription, label: str, scheduler: Any) -> None:
        self.described = described
        self.label = label
        self.scheduler = scheduler
        self.pending = PendingCalls()

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future:
        """Call a method; return the future of its result."""
        method = self.described.method(name)
        self.pending.make_room(self.host)
        call = self.call_of(method, args, kwargs, 4)
        leaf = new_leaf(Delayed, HELD, call.future, made_at=call.task)
        future: Future[Any] = Future(call.future, leaf)
        self._queue(call)
        return future

    def _queue(self, call: ActorCall) -> None:
        self.pending.add(call.future)
        try:
            self.host.call(call)
        except BaseException:  # without its future the call would stay pending for ever
            call.future.cancel()
            raise

    def call_of(
        self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any], depth: int
    ) -> ActorCall:
        """Return a call, made `depth` frames above this one, and start the work for its inputs."""
        task = new_task(MethodTask, method, args, kwargs, depth=depth)
        if self.shares_memory:
            _take_literals(task)
        inputs = self._futures_of(task._inputs) if task._inputs else []
        future = CallFuture(method.__name__, self.scheduler)
        return ActorCall(task, inputs, future, self._watch(task), self.number)

    def _watch(self, task: Task) -> WatchedCall | None:
        """Return the record of a call for its observers; None if it has none."""
        return None

    def _futures_of(self, tasks: tuple[Task, ...]) -> list[TaskFuture]:
        """Return the futures of input tasks, after starting those that do not run yet."""
        future_of = {id(t): t._args[0] for t in tasks if t._func is HELD}
        lazy = [t for t in tasks if t._func is not HELD]
        if lazy:
            options = RunOptions("actor", {}, scheduler=self._for_inputs())
            _, futures = start_background(make_plan(lazy), options)
            future_of.update((id(t), f) for t, f in zip(lazy, futures, strict=True))
        return [future_of[id(t)] for t in tasks]

    def _for_inputs(self) -> Any:
        """Return the scheduler of work for inputs; None: as for any compute of the caller."""
        return None

    def lent(self) -> tuple[Any, ...]:
        """Return the parts from which another process makes a handle."""
        raise NotImplementedError

    def keep_for_good(self) -> None:
        """Keep the actor: a pickled handle exists somewhere, for an unknown time."""
        raise NotImplementedError


def _take_literals(task: Task) -> None:
    """Replace editable arguments by copies that are the actor's own."""
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
        self.where = scheduler.name
        self.name = settings.name
        self.number = next(_numbers)
        if not provides(scheduler, KeepsActors):
            raise ValueError(
                f"the {scheduler.name!r} scheduler can't run actors. Pass one that can: "
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
        """Return the parts of a handle in another process, without address and number."""
        is_concurrent = self.spec.concurrency > 1
        return self.label, is_concurrent, self.described, self.scheduler.name

    def call_lent(
        self, method: str, args: list[Any], kwargs: dict[str, Any], place: Place,
        hide: tuple[str, ...] | bool,
    ) -> CallFuture:
        """Call a method for another process, where the line at `place` asked for it."""
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

    You can pass it to tasks and to other actors' methods, also inside containers and in other
    processes: calls go to the one actor. The actor lives as long as there is a handle.

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
            f"{name!r} can't be set on the handle of {self._core.label}: its object lives "
            "elsewhere. Write a method that sets it."
        )

    def __dir__(self) -> list[str]:
        described = self._core.described
        return sorted(described.methods | described.attributes)

    def __repr__(self) -> str:
        return f"<actor {self._core.label} on {self._core.where}>"

    def _repr_html_(self) -> str:
        core = self._core
        return table_html(f"Actor {core.label}", {
            "on": core.where,
            "state": "ended" if core.host.is_over else "alive",
            "pending calls of this process": str(len(core.pending)),
            "methods": ", ".join(
                sorted(each for each in core.described.methods if not each.startswith("_"))),
        })

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
        reduced = handle_of, core.lent()
        core.keep_for_good()
        return reduced

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

    def __call__(self, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have the method called; return the future of its result."""
        return self._core.call(self._name, args, kwargs)

    def __reduce__(self) -> Any:
        return getattr, (Actor(self._core), self._name)

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._core.label}>"


_names_lock = threading.Lock()
_named: WeakValues[OwnCore] = WeakValues()


# -- classes --------------------------------------------------------------------------------


class ActorClass:
    """A class whose objects are actors, made by `actor`. Calling it returns a handle.

    ``__wrapped__`` is the class itself.

    Raises
    ------
    TypeError, ValueError
        An option is wrong, as for `actor`.

    Examples
    --------
    >>> import lazyflow
    >>> Words = lazyflow.actor(list)
    >>> words = Words("ab")
    >>> words.count("a").result()
    1
    """

    def __init__(self, cls: type, settings: dict[str, Any]) -> None:
        self.__wrapped__ = cls
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__doc__ = cls.__doc__
        self._given = settings
        self._settings = ActorSettings.of(settings)
        self._description = ClassDescription.of(cls)
        checkpoint_of(cls, self._settings)  # a wrong one raises here
        self._init = Method(cls.__name__, "__init__", cls.__module__)

    def options(self, **settings: Any) -> ActorClass:
        """Return a copy of this class with other options; parameters are those of `actor`.

        Examples
        --------
        >>> import lazyflow
        >>> Words = lazyflow.actor(list)
        >>> Words.options(scheduler="sync", name="words")("ab")
        <actor list 'words' on sync>
        """
        return ActorClass(self.__wrapped__, {**self._given, **settings})

    def __call__(self, *args: Any, **kwargs: Any) -> Actor:
        """Make an actor and return its handle; the constructor runs where the actor lives.

        Raises
        ------
        ValueError
            A living actor has the name, without ``get_if_exists=True`` or of another class; or the
            scheduler can't run actors.
        """
        settings = self._settings
        if settings.name is None:
            return Actor(self._made(args, kwargs))
        with _names_lock:
            known = _named.get(settings.name)
            if known is None or known.host.is_over:  # a handle on a dead actor still exists
                known = _named[settings.name] = self._made(args, kwargs)
            elif not settings.get_if_exists:
                raise ValueError(
                    f"there is an actor named {settings.name!r} already ({known.label}). Choose "
                    "another name, or pass get_if_exists=True to get a handle on that one."
                )
            elif known.cls is not self.__wrapped__ and not _same(known.cls, self.__wrapped__):
                raise ValueError(
                    f"the actor named {settings.name!r} is a {known.cls.__qualname__}, not a "
                    f"{self.__qualname__}. Choose another name."
                )
            return Actor(known)

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OwnCore:
        factory = self._in_module() or ActorClass(self.__wrapped__, {})
        return OwnCore(
            self.__wrapped__, factory, self._settings, self._description, self._init, args, kwargs
        )

    def __mro_entries__(self, bases: Any) -> tuple[type]:
        return (self.__wrapped__,)  # a class derived from this one is a plain class

    def __reduce__(self) -> Any:
        named = self._in_module()
        if named is self:
            return self.__qualname__  # to be looked up in the module
        if named is not None:
            return _with_options, (named, self._given)
        return ActorClass, (self.__wrapped__, self._given)

    def _in_module(self) -> ActorClass | None:
        """Return the actor class that stands in the module under the name of the plain class.

        With ``@actor`` it hides the plain class, which pickle then can't find by its name. None:
        the plain class stands there itself.
        """
        if self.__module__ == "__main__":
            return None
        attribute: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            attribute = getattr(attribute, part, None)
        is_it = type(attribute) is ActorClass and attribute.__wrapped__ is self.__wrapped__
        return attribute if is_it else None

    def __repr__(self) -> str:
        return f"<actor class {self.__module__}.{self.__qualname__}>"


def _with_options(cls: ActorClass, settings: dict[str, Any]) -> ActorClass:
    return cls.options(**settings)


def _same(one: type, other: type) -> bool:
    """Tell whether two classes are one that was defined twice, as in a notebook's cell."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


@overload
def actor(cls: None = None, /, **options: Any) -> Callable[[type], ActorClass]: ...
@overload
def actor(cls: type | ActorClass, /, **options: Any) -> ActorClass: ...
def actor(cls: Any = None, /, **options: Any) -> Any:
    """Make the objects of a class actors, which run on their own and whose calls return futures.

    Use it as a decorator, ``@actor`` or ``@actor(restarts=1)``, or as ``actor(Cls)(*args)``.

    Parameters
    ----------
    cls
        The class.
    scheduler
        ``"sync"``: calls run in the caller's thread at once. ``"threads"``: in a thread of its
        own. ``"processes"``, ``"ray"``: in a process of its own. ``"distributed"``: in a worker of
        the cluster. By default the scheduler is chosen as for `submit`.
    name, get_if_exists
        A name that only one living actor of this process may have. ``get_if_exists=True``
        returns a handle on the actor that has the name, if there is one.
    max_concurrency
        Calls that may run at once: by default 1, and 1000 for a class with async methods, which
        run on an event loop. With 1 they run in the order in which they were made; with more they
        begin in the order in which their arguments arrive.
    restarts
        How many times the process of the actor is restarted when it dies. The running call fails
        with `WorkerDied` and is not run again; later calls use a new object. On sync and threads
        there is no process that could die.
    checkpoint, checkpoint_every
        The state that the new object starts from. ``"get_state"``: the name of a method whose
        result is kept after every `checkpoint_every` calls and passed to ``set_state`` after a
        restart. Or ``(save, load)``: two method names, or two functions, ``save(object)`` and
        ``load(object, state)``.
    mutates
        ``False``: its methods get the values of futures and lazy values without a copy, as tasks
        do. Arrays in them are read-only, so several actors on one machine can share one large
        array.

    Returns
    -------
    ActorClass
        Call it like the class: it returns a handle, and ``handle.method(*args)`` is a `Future`.
        The method gets the values of lazy values and futures among the arguments, at any depth.
        The actor ends after the last handle is dropped and the calls made by then have run.
        While ``config.max_pending_calls`` calls of an actor are pending, the caller of the next
        one sleeps, unless it is a task, another actor's call or a coroutine.

    Raises
    ------
    TypeError
        `cls` is not a class; or an option is unknown, of another type, or names a method that the
        class does not have.
    ValueError
        A number is too small, or ``get_if_exists=True`` has no name.

    Examples
    --------
    >>> import lazyflow
    >>> @lazyflow.actor
    ... class Counter:
    ...     def __init__(self, start): self.n = start
    ...     def add(self, k):
    ...         self.n += k
    ...         return self.n
    >>> counter = Counter(10)
    >>> first = counter.add(1)
    >>> counter.add(first).result()
    22
    """
    if cls is None:
        ActorSettings.of(options)  # a wrong option raises here
        return lambda cls: actor(cls, **options)
    if isinstance(cls, ActorClass):
        return cls.options(**options)
    if not isinstance(cls, type):
        raise TypeError(
            f"actor() takes a class; got {cls!r:.100}. For a function that runs elsewhere write "
            "lazyflow.delayed(f) or lazyflow.submit(f, ...)."
        )
    return ActorClass(cls, options)


def get_actor(name: str) -> Actor:
    """Return a handle on the living actor with a name.

    Tasks and methods of actors find the actors of the program that started them, and those of
    their own process.

    Parameters
    ----------
    name
        The name passed to `actor` or to ``options``.

    Raises
    ------
    ValueError
        There is no living actor with that name.

    Examples
    --------
    >>> import lazyflow
    >>> words = lazyflow.actor(list, name="the words")("ab")
    >>> lazyflow.get_actor("the words").count("a").result()
    1
    """
    with _names_lock:
        known = _living(name)
    if known is not None:
        return Actor(known)
    home = environment.home.get()
    if home is not None and not exchange.is_at(Address(*home)):
        address = Address(*home)
        handle = borrowed.find(name, address, partial(handle_of, address))
        if handle is not None:
            return handle
    names = [core.name for core in _named.living() if not core.host.is_over]
    raise ValueError(
        f"there is no living actor named {name!r}{config.nearest(str(name), names)} Name an "
        "actor by lazyflow.actor(Cls, name=...), and keep a handle on it: an actor ends when its "
        "last handle is dropped."
    )


def _living(name: str) -> OwnCore | None:
    known = _named.get(name)
    return None if known is None or known.host.is_over else known


def _home() -> tuple[Any, ...] | None:
    """Return where tasks find the actors of this process by name, if it has any."""
    if next(_named.living(), None) is not None:
        return tuple(exchange.open())
    return environment.home.get()


exchange.named = _living
environment.own_home = _home
