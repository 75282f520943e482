"""Large data that a function takes along when it is pickled for other processes."""

from __future__ import annotations

from collections.abc import Iterator
from dis import get_instructions
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from lazyflow.schedulers.core.errors.words import summary
from lazyflow.schedulers.remote.large_values import LARGE
from lazyflow.store.sizes import size_of

__all__ = ["captured_by"]


def captured_by(func: Any) -> Iterator[tuple[str, int]]:
    """Yield what large data a function takes along, and its bytes.

    >>> import numpy
    >>> table = numpy.zeros(1_000_000)
    >>> list(captured_by(lambda i: table[i]))
    [("global variable 'table', ndarray(1000000,) float64", 8000000)]
    >>> list(captured_by(partial(max, table)))
    [('argument 1 of a partial, ndarray(1000000,) float64', 8000000)]
    """
    for name, value in _held_by(func):
        nbytes = size_of(value)
        if nbytes >= LARGE:
            yield f"{name}, {summary(value, scalars=False)}", nbytes


def _held_by(func: Any) -> Iterator[tuple[str, Any]]:
    kind = type(func)
    if kind is FunctionType:
        yield from _of_function(func)
    elif kind is partial:
        for i, value in enumerate(func.args):
            yield f"argument {i + 1} of a partial", value
        for name, value in func.keywords.items():
            yield f"argument {name!r} of a partial", value
        yield from _held_by(func.func)
    elif kind is MethodType:
        yield from _of_object("self", func.__self__)
        yield from _held_by(func.__func__)
    elif not kind.__module__.startswith(("lazyflow.", "numba.", "builtins")):
        yield from _of_object("self", func)


def _of_function(func: FunctionType) -> Iterator[tuple[str, Any]]:
    if func.__module__ != "__main__" and "<" not in func.__qualname__:
        return  # it goes by its name, and the worker imports it
    code = func.__code__
    for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=True):
        try:
            yield f"variable {name!r}", cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in code.co_names:  # attributes are among them, and instructions take time to read
        value = func.__globals__.get(name)
        if value is not None and size_of(value) >= LARGE and _is_global(name, code):
            yield f"global variable {name!r}", value
    for value in func.__defaults__ or ():
        yield "a default argument", value


def _is_global(name: str, code: CodeType) -> bool:
    """Tell whether a function reads a name as a global variable."""
    return any(
        each.argval == name and each.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        for each in get_instructions(code)
    )


def _of_object(name: str, owner: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(owner, type):
        return
    found = getattr(owner, "__dict__", None)
    if type(found) is dict:
        for attribute, value in found.items():
            yield f"attribute {attribute!r} of {type(owner).__name__}", value
    else:
        yield name, owner
