"""The caller's context variables, settings and directory, as its tasks see them.

The caller's context variables go along, each by the name under which a module has it; one whose
value can't be pickled, or not be restored, stays behind. numpy's error state and decimal's
context go by what they say. All is set in the worker once per run, so what a task sets is seen
by later tasks of that run in that worker, as on threads.
"""

from __future__ import annotations

import contextvars
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lazyflow import config

_ERRSTATE = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}

_PLAIN = (bool, int, float, str, type(None))  # of settings that go along

#: Where the process listens whose task or actor runs here: it knows actors by name.
home: contextvars.ContextVar[tuple[Any, ...] | None] = contextvars.ContextVar(
    "lazyflow_home", default=None
)


def _nowhere() -> tuple[Any, ...] | None:
    return home.get()


#: Returns what `home` is to be where the caller's tasks run; `lazyflow.api.actors` sets it.
own_home: Callable[[], tuple[Any, ...] | None] = _nowhere

_packed: dict[tuple[Any, ...], bytes] = {}  # without variables: few differ


def packed() -> bytes:
    """Return the environment of the calling thread, as bytes."""
    settings = {name: value for name, value in config.values().items() if type(value) in _PLAIN}
    directory = _directory()
    numpy: Any = sys.modules.get("numpy")
    errstate = numpy.geterr() if hasattr(numpy, "geterr") else _ERRSTATE
    variables = []
    precision = None
    for variable, value in contextvars.copy_context().items():
        if variable.name == "decimal_context":
            precision = value.copy()
        elif not variable.name.startswith(("lazyflow_", "numpy.")):
            variables.append((variable, value))
    address = own_home()
    if not variables and precision is None:
        key = (directory, tuple(settings.items()), tuple(errstate.items()), address)
        known = _packed.get(key)
        if known is None:
            if len(_packed) > 100:
                _packed.clear()
            plain: tuple[Any, ...] = (
                directory, settings, errstate, None, [], address)
            known = _packed[key] = pickle.dumps(plain)
        return known
    return pickle.dumps(
        (directory, settings, errstate, precision, _pickled(variables), address))


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _pickled(variables: list[tuple[Any, Any]]) -> list[Any]:
    from lazyflow.store.pickling.serialize import Unpicklable, encode

    found = []
    for pair in variables:
        try:
            encoded = encode(pair, bytes, explain=False)  # type: ignore[arg-type]
            found.append((encoded.payload, encoded.buffers, encoded.size))
        except Unpicklable:
            pass
    return found


def enter(data: bytes) -> None:
    """Set the environment, inside the context in which the run's tasks are called."""
    directory, settings, errstate, precision, variables, address = pickle.loads(data)
    home.set(address)
    config.set(settings).__enter__()
    if directory is not None and directory != _directory():
        with suppress(OSError):
            os.chdir(directory)
    if errstate != _ERRSTATE:
        import numpy

        numpy.seterr(**errstate)
    if precision is not None:
        import decimal

        decimal.setcontext(precision)
    for parts in variables:
        from lazyflow.store.pickling.serialize import Encoded, decode

        try:
            variable, value = decode(Encoded(*parts), lambda buffer: buffer)
            variable.set(value)
        except BaseException:  # as a variable that can't be pickled, it is left out
            pass
