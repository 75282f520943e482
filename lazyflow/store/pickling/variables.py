"""Context variables in other processes: one variable stays one variable.

A variable in a module's namespace travels as the names of the module and the variable. A variable
of `__main__` or of no module gets a key from the first process that sends it, and every process
remembers which of its variables has which key, so that a variable that returns is the one that
left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

__all__ = ["reduce_variable"]

Var = ContextVar[Any]

_names: dict[Var, tuple[str, str]] = {}  # module, and name in it
_keys: dict[Var, str] = {}
_by_key: dict[str, Var] = {}


def reduce_variable(variable: Var) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function that finds a variable in another process, and its arguments."""
    key = _keys.get(variable)
    if key is None:
        name = _names.get(variable)
        if name is None or not _holds(*name, variable):
            name = _name_of(variable)
        if name is not None:
            _names[variable] = name
            return getattr, (sys.modules[name[0]], name[1])
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


def _name_of(variable: Var) -> tuple[str, str] | None:
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
