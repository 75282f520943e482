"""Actors: objects with a state of their own, which many tasks and callers share by calls.

A class marked with `actor` is called as before, but its object lives where the scheduler keeps
it: in a process of its own on processes and Ray, in a worker of the cluster on distributed, in a
thread of its own on threads, in the caller's thread on sync. A method call returns a future at
once; calls run one after the other, in the order in which they were made.
"""

from __future__ import annotations

import inspect
import sys
import threading
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
from lazyflow.errors import SerializationError
from lazyflow.graph.building import new_leaf, new_task
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.actors.calls import (
    ActorCall,
    ActorHost,
    ActorSpec,
    CallFuture,
    Method,
    MethodTask,
)
from lazyflow.schedulers.actors.watched_call import WatchedCall
from lazyflow.schedulers.core.base import KeepsActors, provides
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.store.owned import copied

__all__ = ["Actor", "ActorClass", "actor", "get_actor"]


# -- classes --------------------------------------------------------------------------------


class ActorClass:
    """A class whose objects are actors, made by `actor`. Calling it returns a handle.

    ``__wrapped__`` is the class itself.

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
        self._methods: dict[str, Method] = {}
        self._checkpoint = checkpoint_of(cls, self._settings)
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
        """Make an actor and return its handle; the constructor runs where the actor lives."""
        settings = self._settings
        if settings.name is None:
            return Actor(_Core(self, args, kwargs))
        with _names_lock:
            known = _named.get(settings.name)
            if known is None or known.host.is_over:  # a handle on a dead actor still exists
                known = _named[settings.name] = _Core(self, args, kwargs)
            elif not settings.get_if_exists:
                raise ValueError(
                    f"there is an actor named {settings.name!r} already ({known.label}). Choose "
                    "another name, or pass get_if_exists=True to get a handle on that one."
                )
            elif known.cls.__wrapped__ is not self.__wrapped__ and not _same(known.cls, self):
                raise ValueError(
                    f"the actor named {settings.name!r} is a {known.cls.__qualname__}, not a "
                    f"{self.__qualname__}. Choose another name."
                )
            return Actor(known)

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
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        is_it = type(found) is ActorClass and found.__wrapped__ is self.__wrapped__
        return found if is_it else None

    def __repr__(self) -> str:
        return f"<actor class {self.__module__}.{self.__qualname__}>"

    def _method(self, name: str) -> Method:
        """Return the record of a method, or raise an error that lists the methods of the class."""
        __tracebackhide__ = True  # for IPython and pytest
        known = self._methods.get(name)
        if known is None:
            self._check(name)
            known = self._methods[name] = Method(self.__name__, name, self.__module__)
        return known

    def _check(self, name: str) -> None:
        cls = self.__wrapped__
        found = inspect.getattr_static(cls, name, None)
        if found is None or name.startswith("__"):
            methods = [m for m in dir(cls) if not m.startswith("_") and callable(getattr(cls, m))]
            raise AttributeError(
                f"the actor {cls.__name__} has no method {name!r}{config.nearest(name, methods)}"
                + ("" if found is None else " Special methods can't be called on an actor.")
                + _about_attributes(methods)
            )
        if isinstance(found, property) or not callable(getattr(cls, name)):
            raise AttributeError(
                f"{name!r} of the actor {cls.__name__} is an attribute, and its object is "
                f"elsewhere: write a method that returns it"
            )


def _with_options(cls: ActorClass, settings: dict[str, Any]) -> ActorClass:
    return cls.options(**settings)


def _about_attributes(methods: list[str]) -> str:
    listed = ", ".join(methods[:10]) + (", ..." if len(methods) > 10 else "")
    return f" It has {listed or 'no methods'}; attributes of its object are reached by methods."


def _same(one: ActorClass, other: ActorClass) -> bool:
    """Tell whether two classes are one that was defined twice, as in a notebook's cell."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def actor(cls: Any = None, /, **options: Any) -> Any:
    """Make the objects of a class actors: each lives by itself, and its calls return futures.

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
        A name that only one living actor of this process may have; with ``get_if_exists=True``
        a handle on the actor that has the name is returned, if there is one.
    max_concurrency
        Calls that may run at once: by default 1, and 1000 for a class with async methods, which
        run on an event loop. With 1 they run in the order in which they were made; with more they
        begin in the order in which their arguments are there.
    restarts
        How many times the process of the actor is started again when it ends. The call that was
        running fails with `WorkerDied` and is not run again; later calls go on with a new object.
        On sync and threads there is no process that could end.
    checkpoint, checkpoint_every
        The state that the new object starts from. ``"get_state"``: the name of a method whose
        result is kept after every `checkpoint_every` calls and given to ``set_state`` after a
        restart; or ``(save, load)``: two names, or functions of the object, and of the object
        and a state.
    mutates
        ``False``: the values of futures and lazy values that its methods are given are not copied
        for it, as those of tasks are not. Their arrays are read-only; several actors of one
        machine can so have one large array without a copy each.

    Returns
    -------
    ActorClass
        Call it like the class: it returns a handle, and ``handle.method(*args)`` is a `Future`.
        The method gets the values of lazy values and futures among the arguments, at any depth.
        The actor ends with the last reference to its handle, after the calls that were made.
        While ``config.max_pending_calls`` calls of an actor are pending, the next one sleeps,
        unless a task, another call or a coroutine makes it.

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
    """Return a handle on the living actor of a name, which this process has made with ``name=``.

    Parameters
    ----------
    name
        As it was given to `actor` or to ``options``.

    Raises
    ------
    ValueError
        This process has no living actor of that name.

    Examples
    --------
    >>> import lazyflow
    >>> words = lazyflow.actor(list, name="the words")("ab")
    >>> lazyflow.get_actor("the words").count("a").result()
    1
    """
    with _names_lock:
        known = _named.get(name)
        if known is not None and not known.host.is_over:
            return Actor(known)
        names = [core.cls._settings.name for core in _named.living() if not core.host.is_over]
    raise ValueError(
        f"this process has made no living actor named {name!r}{config.nearest(str(name), names)} "
        "An actor has the name that lazyflow.actor(Cls, name=...) gave it, and lives as long as a "
        "handle on it is held."
    )


# -- handles --------------------------------------------------------------------------------

_numbers = count(1)
_names_lock = threading.Lock()
_named: WeakValues[_Core] = WeakValues()


class _Core:
    """One actor, shared by all handles on it; the actor ends when this object is collected."""

    def __init__(self, cls: ActorClass, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        settings = cls._settings
        self.cls = cls
        self.number = next(_numbers)
        self.scheduler = scheduler_or_default(settings.scheduler)
        self.label = cls.__name__ if settings.name is None else f"{cls.__name__} {settings.name!r}"
        if not provides(self.scheduler, KeepsActors):
            raise ValueError(
                f"the {self.scheduler.name!r} scheduler has no actors. Pass one that has: "
                'actor(..., scheduler="threads") or "processes"'
            )
        self.shares_memory = self.scheduler.actors_share_memory
        init = self._call_of(cls._init, args, kwargs, 4)
        spec = ActorSpec(
            cls.__wrapped__, cls._in_module() or ActorClass(cls.__wrapped__, {}), self.label, init,
            settings.max_concurrency, settings.restarts, cls._checkpoint, settings.mutates,
        )
        self.pending = PendingCalls()
        self.host: ActorHost = self.scheduler.make_actor(spec)
        self._end = LastCall(self.host.close)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future:
        """Have a method called; return the future of its result."""
        method = self.cls._method(name)
        self.pending.make_room(self.host)
        call = self._call_of(method, args, kwargs, 4)
        future = Future(call.future, new_leaf(Delayed, HELD, call.future, made_at=call.task))
        self.pending.add(call.future)
        try:
            self.host.call(call)
        except BaseException:  # the call would stay pending for ever, as no one gets its future
            call.future.cancel()
            raise
        return future

    def _call_of(
        self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any], depth: int
    ) -> ActorCall:
        task = new_task(MethodTask, method, args, kwargs, depth=depth)
        if self.shares_memory:
            _take_literals(task)
        inputs = self._futures_of(task._inputs) if task._inputs else []
        who = watching()
        watch = (
            None if who is None
            else WatchedCall(task, self.scheduler, self.label, self.number, who)
        )
        return ActorCall(task, inputs, CallFuture(method.__name__, self.scheduler), watch)

    def _futures_of(self, tasks: tuple[Task, ...]) -> list[TaskFuture]:
        """Return the futures of input tasks, after starting those that do not run yet."""
        found = {id(t): t._args[0] for t in tasks if t._func is HELD}
        lazy = [t for t in tasks if t._func is not HELD]
        if lazy:
            options = RunOptions("actor", {}, scheduler=config.get("scheduler") or self.scheduler)
            _, futures = start_background(make_plan(lazy), options)
            found.update((id(t), f) for t, f in zip(lazy, futures, strict=True))
        return [found[id(t)] for t in tasks]


def _take_literals(task: Task) -> None:
    """Replace what the caller may edit, and the actor may, by copies that are the actor's own."""
    bind = task._bind
    if bind is not None:
        bind.template = copied(bind.template)
        bind.makers = [(make, copied(items), *rest) for make, items, *rest in bind.makers]
    elif not task._inputs:
        task._args = copied(task._args)


class Actor:
    """A handle on an actor: its methods return futures.

    Examples
    --------
    >>> import lazyflow
    >>> words = lazyflow.actor(list)("ab")
    >>> added = words.append("c")
    >>> words.count("c").result()
    1
    """

    __slots__ = ("__weakref__", "_core")
    _core: _Core

    def __init__(self, core: _Core) -> None:
        object.__setattr__(self, "_core", core)

    def __getattr__(self, name: str) -> BoundMethod:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"an actor's handle has no {name!r}")
        __tracebackhide__ = True  # for IPython and pytest
        self._core.cls._method(name)
        return BoundMethod(self._core, name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name!r} can't be set on the handle of {self._core.label}: its object is elsewhere. "
            "Write a method that sets it."
        )

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._core.cls.__wrapped__) if not name.startswith("__")]

    def __repr__(self) -> str:
        return f"<actor {self._core.label} on {self._core.scheduler.name}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is Actor and other._core is self._core

    def __hash__(self) -> int:
        return hash(self._core)

    def __copy__(self) -> Actor:
        return Actor(self._core)

    def __deepcopy__(self, memo: Any) -> Actor:
        return Actor(self._core)

    def __reduce__(self) -> NoReturn:
        raise SerializationError(
            f"a handle on the actor {self._core.label} can't be sent to another process: it is of "
            'use in the process that made the actor. Call it there, and pass the futures that its '
            'methods return; or run on scheduler="threads", where tasks can have the handle.'
        )


class BoundMethod:
    """A method of an actor, to be called."""

    __slots__ = ("_core", "_name")

    def __init__(self, core: _Core, name: str) -> None:
        self._core = core
        self._name = name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Future:
        """Have the method called; return the future of its result."""
        return self._core.call(self._name, args, kwargs)

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._core.label}>"
