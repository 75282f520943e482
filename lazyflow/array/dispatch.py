"""The functions of `lazyflow.array` by name, for methods of arrays and for NumPy's dispatch.

A module of functions imports `Array`, so arrays can't import it: it is found by the table of
names.py, and registers what it has here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from lazyflow.array.evaluation.lengths import known
from lazyflow.array.names import HELPERS, PUBLIC, by_name
from lazyflow.array.nodes.align import SizesNeeded

F = TypeVar("F", bound=Callable[..., Any])


class NamedFunctions(Mapping[str, Any]):
    """Functions by name; a module is loaded when one of its functions is first asked for."""

    def __init__(self, table: dict[str, str]) -> None:
        self._module_of = by_name(table)
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        found = self._found.get(name)
        if found is None:
            module = import_module(f"lazyflow.array.{self._module_of[name]}")
            found = self._found[name] = getattr(module, name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._module_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_of)

    def __len__(self) -> int:
        return len(self._module_of)

    def check(self, function: Callable[..., Any]) -> None:
        """Raise ImportError for a function that the table does not list under its module."""
        module = self._module_of.get(function.__name__)
        if f"lazyflow.array.{module}" != function.__module__:
            raise ImportError(
                f"{function.__module__} defines {function.__name__}, but lazyflow/array/names.py "
                f"has it {f'in {module}' if module else 'nowhere'}: list it there, under its module"
            )


#: By name, as in ``la.name``.
functions = NamedFunctions(PUBLIC)

#: What only methods of arrays and functions of NumPy call.
helpers = NamedFunctions(HELPERS)

_of_numpy: dict[Any, Callable[..., Any]] = {}


def implements(*numpy_functions: Any) -> Callable[[F], F]:
    """Mark a public function, and the functions of NumPy that it stands for with arrays."""
    return _marked(functions, numpy_functions)


def helper(*numpy_functions: Any) -> Callable[[F], F]:
    """Mark a function that only methods of arrays, or these functions of NumPy, call."""
    return _marked(helpers, numpy_functions)


def _marked(known: NamedFunctions, numpy_functions: tuple[Any, ...]) -> Callable[[F], F]:
    def register(function: F) -> F:
        known.check(function)
        public = _with_lengths(function)
        for one in numpy_functions:
            _of_numpy[one] = public
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
    for table in functions, helpers:
        if name in table:
            table[name]  # loads its module, which registers it
    return _of_numpy.get(function)


def method(name: str) -> Any:
    """Return a method that calls the function of that name with the array first."""
    known = functions if name in functions else helpers

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return known[name](self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return ``la.{name}(self, ...)``."
    return call
