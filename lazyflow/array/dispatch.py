"""The functions of `lazyflow.array` by name, for methods of arrays and for NumPy's dispatch.

A module of functions imports `Array`, so arrays can't import it: it is found by the table of
names.py, and registers what it has here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from lazyflow.array.evaluation.lengths import known
from lazyflow.array.names import HELPERS, PUBLIC, by_name
from lazyflow.array.nodes.align import SizesNeeded

F = TypeVar("F", bound=Callable[..., Any])


#: The module of each function, below `lazyflow.array`.
MODULE_OF = {**by_name(PUBLIC), **by_name(HELPERS)}


class NamedFunctions(dict[str, Any]):
    """Functions by name; a module is loaded when one of its functions is first asked for."""

    def __missing__(self, name: str) -> Any:
        module = import_module(f"lazyflow.array.{MODULE_OF[name]}")
        found = self[name] = getattr(module, name)
        return found


functions = NamedFunctions()

_of_numpy: dict[Any, Callable[..., Any]] = {}


def implements(*numpy_functions: Any) -> Callable[[F], F]:
    """Mark a function of the table, and the functions of NumPy that it stands for with arrays.

    Raises
    ------
    ImportError
        The table does not list it under its module.
    """

    def register(function: F) -> F:
        module = MODULE_OF.get(function.__name__)
        if f"lazyflow.array.{module}" != function.__module__:
            raise ImportError(
                f"{function.__module__} defines {function.__name__}, but lazyflow/array/names.py "
                f"has it {f'in {module}' if module else 'nowhere'}: list it there, under its module"
            )
        public = _with_lengths(function)
        _of_numpy.update(dict.fromkeys(numpy_functions, public))
        return public

    return register


def _with_lengths(function: F) -> F:
    """Return a function that computes unknown lengths of its arrays if it needs them."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SizesNeeded:
            known(*_flat((*args, *kwargs.values())))
        return function(*args, **kwargs)

    return cast(F, call)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        if isinstance(x, list | tuple):
            yield from _flat(x)
        else:
            yield x


def of_numpy(function: Any) -> Callable[..., Any] | None:
    """Return the function that stands for one of NumPy with arrays, or None."""
    name = getattr(function, "__name__", "")
    if name in MODULE_OF:
        functions[name]  # loads its module, which registers it
    return _of_numpy.get(function)


def method(name: str) -> Any:
    """Return a method that calls the function of that name with the array first."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return functions[name](self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return ``la.{name}(self, ...)``."
    return call
