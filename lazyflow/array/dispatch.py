"""The functions of `lazyflow.array` by name, for methods of arrays and for NumPy's dispatch.

A module of functions imports `Array`, so arrays can't import it: it registers what it has here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: By name, as in ``la.name``.
functions: dict[str, Callable[..., Any]] = {}

#: What NumPy's functions do when they are given an `Array`.
of_numpy: dict[Any, Callable[..., Any]] = {}


def implements(*numpy_functions: Any) -> Callable[[F], F]:
    """Register a function by its name, and as what these functions of NumPy do with arrays."""

    def register(function: F) -> F:
        functions[function.__name__] = function
        for one in numpy_functions:
            of_numpy[one] = function
        return function

    return register


def method(name: str) -> Any:
    """Return a method that calls the function of that name with the array first."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return functions[name](self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return ``la.{name}(self, ...)``."
    return call
