"""The optional abilities of schedulers, checked once, when a scheduler is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

from lazyflow.departures import WeakTable
from lazyflow.schedulers.core import base
from lazyflow.schedulers.core.base import Scheduler

P = TypeVar("P")


def _members(protocol: type) -> tuple[str, ...]:
    names = (*protocol.__annotations__, *vars(protocol))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


REQUIRED = _members(Scheduler)

_OPTIONAL: dict[Any, tuple[str, ...]] = {
    protocol: _members(protocol)
    for protocol in (
        base.MakesRuns, base.Puts, base.EndsTasks, base.KeepsActors, base.ReportsInfo,
        base.ShutsDown,
    )
}

_checked: WeakTable[type, bool] = WeakTable()  # classes of schedulers that passed


def provides(scheduler: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Tell whether a scheduler has the methods of an optional protocol.

    It looks for the first method only, as `checked` has seen that none is missing: `isinstance`
    with a protocol takes 4 to 9 µs on Python 3.11, as long as a `put`.

    >>> from lazyflow.schedulers.registry import scheduler_named
    >>> provides(scheduler_named("threads"), base.KeepsActors)
    True
    """
    return hasattr(scheduler, _OPTIONAL[protocol][0])


def checked(scheduler: Any) -> Scheduler:
    """Return a scheduler after a check of its methods; each class is checked once.

    Raises
    ------
    TypeError
        A member of `Scheduler` is missing, some members of an optional protocol are there and
        others are not, or a method can't be called with its protocol's arguments.
    """
    kind = type(scheduler)
    if not _checked.get(kind):
        _check(scheduler, Scheduler, REQUIRED)
        for protocol, members in _OPTIONAL.items():
            if any(hasattr(scheduler, name) for name in members):
                _check(scheduler, protocol, members)
        _checked[kind] = True
    found: Scheduler = scheduler
    return found


def _check(scheduler: Any, protocol: Any, members: tuple[str, ...]) -> None:
    missing = [name for name in members if not hasattr(scheduler, name)]
    if missing:
        what = "a scheduler" if protocol is Scheduler else protocol.__name__
        raise TypeError(
            f"the scheduler {scheduler!r:.100} has no {', '.join(missing)}; {what} has "
            f"{', '.join(members)}: see lazyflow/schedulers/core/base.py"
        )
    for name in members:
        meant = getattr(protocol, name, None)
        if callable(meant):
            _check_call(scheduler, name, meant)


def _check_call(scheduler: Any, name: str, meant: Callable[..., Any]) -> None:
    """Raise TypeError if a method can't be called with the arguments of the protocol's method."""
    from inspect import signature  # 5 ms that `import lazyflow` does not pay

    names = list(signature(meant).parameters)[1:]
    try:
        signature(getattr(scheduler, name)).bind(*names)
    except ValueError:  # it is written in C, without a signature
        return
    except TypeError as error:
        raise TypeError(
            f"{name} of the scheduler {scheduler!r:.100} can't be called as "
            f"{name}({', '.join(names)}): {error}. See lazyflow/schedulers/core/base.py"
        ) from None
