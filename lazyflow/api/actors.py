"""Actors: objects with a state of their own, which many tasks and callers share by calls.

A class marked with `actor` is called as before, but its object lives where the scheduler keeps
it: in a process of its own on processes and Ray, in a worker of the cluster on distributed, in a
thread of its own on threads, in the caller's thread on sync. A method call returns a future at
once; calls run one after the other, in the order in which they were made.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

from lazyflow import config
from lazyflow.api.actor_handles import Actor, ClassDescription, OwnCore, handle_of
from lazyflow.api.actor_settings import ActorSettings, checkpoint_of
from lazyflow.departures import WeakValues
from lazyflow.schedulers.actors.calls import Method
from lazyflow.schedulers.actors.handles import borrowed
from lazyflow.schedulers.actors.handles.connection import Address
from lazyflow.schedulers.actors.handles.exchange import exchange
from lazyflow.schedulers.remote import environment

__all__ = ["Actor", "ActorClass", "actor", "get_actor"]

_names_lock = threading.Lock()
_named: WeakValues[OwnCore] = WeakValues()


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
        """Make an actor and return its handle; the constructor runs where the actor lives."""
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
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        is_it = type(found) is ActorClass and found.__wrapped__ is self.__wrapped__
        return found if is_it else None

    def __repr__(self) -> str:
        return f"<actor class {self.__module__}.{self.__qualname__}>"


def _with_options(cls: ActorClass, settings: dict[str, Any]) -> ActorClass:
    return cls.options(**settings)


def _same(one: type, other: type) -> bool:
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
    """Return a handle on the living actor of a name.

    Tasks and methods of actors find those that the program has made whose tasks and actors they
    are, beside those of their own process.

    Parameters
    ----------
    name
        As it was given to `actor` or to ``options``.

    Raises
    ------
    ValueError
        There is no living actor of that name.

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
        found = borrowed.find(name, address, partial(handle_of, address))
        if found is not None:
            return found
    names = [core.name for core in _named.living() if not core.host.is_over]
    raise ValueError(
        f"there is no living actor named {name!r}{config.nearest(str(name), names)} An actor has "
        "the name that lazyflow.actor(Cls, name=...) gave it, and lives as long as a handle on it "
        "is held."
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
