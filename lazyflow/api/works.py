"""Several runs that are one piece of work for who watches, as the fit of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from lazyflow.api.runs import always_observers, observers
from lazyflow.schedulers.core.observing import RunObservers

F = TypeVar("F", bound=Callable[..., Any])


class Work:
    """Several runs that are one piece of work.

    Attributes
    ----------
    name
        What it is called.
    unit
        What it counts.
    count
        How many of these are done.
    text
        How far it is, in words.
    """

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self.unit = unit
        self.count = 0.0
        self.text = ""
        self.observers = RunObservers((*always_observers, *observers.get()))


_current: ContextVar[Work | None] = ContextVar("lazyflow_work", default=None)


def as_work(unit: str) -> Callable[[F], F]:
    """Have the calls of a method, or function, be a `Work` for observers.

    It is named after the class of the object, or the function. Work inside of work is part of it;
    nothing is made when nobody observes.
    """

    def changed(function: F) -> F:
        is_method = "." in function.__qualname__

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True  # for IPython and pytest
            if not (observers.get() or always_observers) or _current.get() is not None:
                return function(*args, **kwargs)
            name = type(args[0]).__name__ if is_method else function.__name__
            work = Work(name, unit)
            token = _current.set(work)
            work.observers.work_started(work)
            try:
                return function(*args, **kwargs)
            finally:
                _current.reset(token)
                work.observers.work_ended(work)

        return call  # type: ignore[return-value]

    return changed


def went_on(count: float, text: Callable[[], str] = str) -> None:
    """Tell observers how far the work is that this is part of, if it is and they are there."""
    work = _current.get()
    if work is not None:
        work.count, work.text = count, text()
        work.observers.work_went_on(work)
