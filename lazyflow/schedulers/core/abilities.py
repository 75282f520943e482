"""What a scheduler can do beyond running plans: looked at once, when it is first used."""

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

_checked: WeakTable[type, bool] = WeakTable()  # classes of schedulers that were found whole


def provides(scheduler: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Tell whether a scheduler has the methods of an optional protocol.

    One is asked for, as `checked` has seen that they are whole: `isinstance` with a protocol
    takes as long as a `put`, 4 to 9 µs on Python 3.11.

    >>> from lazyflow.schedulers.registry import scheduler_named
    >>> provides(scheduler_named("threads"), base.KeepsActors)
    True
    """
    return hasattr(scheduler, _OPTIONAL[protocol][0])


def checked(scheduler: Any) -> Scheduler:
    """Return a scheduler that was found whole; each class is looked at once.

    Raises
    ------
    TypeError
        A member of `Scheduler` is missing, or some but not all of an optional protocol's are
        there, or a method can't be called as its protocol says.
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
    """Refuse a method that can't be called with the arguments of the protocol's."""
    from inspect import signature  # 5 ms that `import lazyflow` does not pay

    names = list(signature(meant).parameters)[1:]
    try:
        signature(getattr(scheduler, name)).bind(*names)
    except ValueError:  # of C, it has no signature
        return
    except TypeError as error:
        raise TypeError(
            f"{name} of the scheduler {scheduler!r:.100} can't be called as "
            f"{name}({', '.join(names)}): {error}. See lazyflow/schedulers/core/base.py"
        ) from None
