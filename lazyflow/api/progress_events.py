"""Events of work that takes several runs, such as a fit, for observers."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from lazyflow.api.evaluate import always_observers, observers
from lazyflow.schedulers.core.base import Observer
from lazyflow.schedulers.core.observing import RunObservers

F = TypeVar("F", bound=Callable[..., Any])


def watching() -> RunObservers | None:
    """Return the observers of work that begins here; None if there are none."""
    watchers = (*always_observers, *observers.get())
    return RunObservers(watchers) if watchers else None


class WatchedWork:
    """Several runs that are one piece of work.

    Attributes
    ----------
    name
        The work, such as an estimator's class.
    unit
        The unit of `count`, such as passes over the rows.
    count
        How many units are done.
    text
        The state of the work, in words.
    """

    def __init__(self, name: str, unit: str, observers: RunObservers) -> None:
        self.name = name
        self.unit = unit
        self.count = 0.0
        self.text = ""
        self.observers = observers


_current: ContextVar[WatchedWork | None] = ContextVar("lazyflow_work", default=None)


def as_work(unit: str) -> Callable[[F], F]:
    """Make the calls of a method or function a `WatchedWork` for observers.

    It is named after the class of the object, or the function. Work inside other work is part of
    that work; without observers nothing is made.
    """

    def changed(function: F) -> F:
        is_method = "." in function.__qualname__

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True  # for IPython and pytest
            who = watching()
            if who is None or _current.get() is not None:
                return function(*args, **kwargs)
            name = type(args[0]).__name__ if is_method else function.__name__
            work = WatchedWork(name, unit, who)
            token = _current.set(work)
            who.tell(Observer.work_started, work)
            try:
                return function(*args, **kwargs)
            finally:
                _current.reset(token)
                who.tell(Observer.work_ended, work)

        return call  # type: ignore[return-value]

    return changed


def went_on(count: float, text: Callable[[], str] = str) -> None:
    """Tell observers, if any, how far the work around this call is, if any."""
    work = _current.get()
    if work is not None:
        work.count, work.text = count, text()
        work.observers.tell(Observer.work_went_on, work)
