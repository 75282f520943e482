"""Context variables in other processes: one variable stays one variable.

A variable that a module holds is named by the place where the module holds it. One of `__main__`
or of no module gets a key from the first process that sends it, and every process remembers which
of its variables has which key, so that a variable that comes home is the one that left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

__all__ = ["reduce_variable"]

Var = ContextVar[Any]

_places: dict[Var, tuple[str, str]] = {}  # where modules hold variables
_keys: dict[Var, str] = {}
_by_key: dict[str, Var] = {}


def reduce_variable(variable: Var) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what rebuilds a variable in another process."""
    key = _keys.get(variable)
    if key is None:
        place = _places.get(variable)
        if place is None or not _holds(*place, variable):
            place = _place_of(variable)
        if place is not None:
            _places[variable] = place
            return getattr, (sys.modules[place[0]], place[1])
        key = os.urandom(16).hex()
        key = _keys.setdefault(variable, key)
        _by_key[key] = variable
    try:
        default = (Context().run(variable.get),)
    except LookupError:
        return _known_by_key, (key, variable.name)
    return _known_by_key, (key, variable.name, *default)


def _holds(module: str, name: str, variable: Var) -> bool:
    return getattr(sys.modules.get(module), "__dict__", {}).get(name) is variable


def _place_of(variable: Var) -> tuple[str, str] | None:
    main = sys.modules.get("__main__")
    for module, held in list(sys.modules.items()):
        # A module without a spec was made by hand: others can't import it. `__main__` is another
        # module in every process.
        if held is main or getattr(held, "__spec__", None) is None:
            continue
        for name, value in list(getattr(held, "__dict__", {}).items()):
            if value is variable and type(name) is str:
                return module, name
    return None


def _known_by_key(key: str, name: str, *default: Any) -> Var:
    found = _by_key.get(key)
    if found is None:
        new: Var = ContextVar(name, default=default[0]) if default else ContextVar(name)
        found = _by_key.setdefault(key, new)
        _keys[found] = key
    return found
