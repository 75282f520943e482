"""The functions of `lazyflow.array` by name, for methods of arrays and for NumPy's dispatch.

A module of functions imports `Array`, so arrays can't import it: a function is found by the table
of names.py, which is also what makes it public. One of NumPy's stands under the name it has there.

    >>> import numpy as np
    >>> of_numpy(np.concatenate) is functions["concatenate"]
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.names import HELPERS, PUBLIC, by_name
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.block_kinds import OtherKind

F = TypeVar("F", bound=Callable[..., Any])


#: The module of each function, below `lazyflow.array`.
_HELPERS = by_name(HELPERS)
MODULE_OF = {**by_name(PUBLIC), **_HELPERS}


class MaskGiven(TypeError):
    """Raised where an array without a mask is needed and one with a mask is given."""


class NamedFunctions(dict[str, Any]):
    """Functions by name, each `with_lengths`.

    A module is loaded when one of its functions is first asked for.
    """

    def __missing__(self, name: str) -> Any:
        module = import_module(f"lazyflow.array.{MODULE_OF[name]}")
        found = getattr(module, name)
        if isinstance(found, FunctionType):
            found = with_lengths(found, name)
            found.__module__, found.__qualname__ = __name__, name  # where pickle finds this one
            found.__name__ = _METHODS.get(name, name)  # by which it finds bound methods
        return self.setdefault(name, found)  # another thread may have made one meanwhile


functions = NamedFunctions()


def __getattr__(name: str) -> Any:
    if name in MODULE_OF:
        return functions[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def with_lengths(function: F, name: str = "") -> F:
    """Return a function that computes unknown lengths of its arrays where it needs them.

    An array with a mask goes to the function of that name in `lazyflow.array.ma`, an array with
    blocks of another library to the rule in other_kinds.py; where there is none, TypeError is
    raised.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        try:
            return function(*args, **kwargs)
        except SizesNeeded:
            resolve_lengths(*_flat((*args, *kwargs.values())))
        except MaskGiven:
            rule = import_module("lazyflow.array.ma").masked_call(name or function.__name__)
            return rule(*args, **kwargs)
        except OtherKind as error:
            rules = import_module("lazyflow.array.other_kinds")
            return rules.called(name or function.__name__, error, args, kwargs)
        return function(*args, **kwargs)

    return cast(F, call)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        if isinstance(x, list | tuple):
            yield from _flat(x)
        else:
            yield x


#: Where NumPy's functions are that have their names here; np.linalg has others of the same names.
_NUMPY = ("numpy", "numpy.lib.stride_tricks")

#: What goes from one number to another here, in NumPy also from arrays to arrays.
_OF_NUMBERS = ("linspace", "logspace")


#: NumPy's modules of which ours are modules too, and names there that stand for another default.
_MODULES = {"numpy.fft": "fft", "numpy.linalg": "linalg"}
_WITH_DEFAULTS = {"numpy.linalg.svd": "decompositions.full_svd"}


@cache
def of_numpy(function: Any) -> Callable[..., Any] | None:
    """Return the function that stands for one of NumPy with arrays, or None."""
    name = getattr(function, "__name__", "")
    if function.__module__ in _MODULES:
        return _of_module(function.__module__, name)
    if name not in MODULE_OF or name in _OF_NUMBERS or function.__module__ not in _NUMPY:
        return None
    found: Callable[..., Any] = functions[name]
    return found


def _of_module(module: str, name: str) -> Callable[..., Any] | None:
    ours = import_module(f"lazyflow.array.{_MODULES[module]}")
    path = _WITH_DEFAULTS.get(f"{module}.{name}", name).split(".")
    found: Any = ours
    for each in path:
        found = getattr(found, each, None)
    return None if found is None else with_lengths(found)


#: The methods that helpers of the table are for.
_METHODS: dict[str, str] = {}


class FunctionMethod:
    """A function of the table as a method: with its own signature and help, loaded when asked."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        if self._name in _HELPERS:
            _METHODS[self._name] = name

    def __get__(self, x: Any, owner: type | None = None) -> Any:
        function = functions[self._name]
        return function if x is None else MethodType(function, x)


class FunctionMethods:
    """Methods of chunked arrays, with a mask or without, that are functions too."""

    __slots__ = ()

    all = FunctionMethod("all")
    any = FunctionMethod("any")
    argmax = FunctionMethod("argmax")
    argmin = FunctionMethod("argmin")
    astype = FunctionMethod("astype")
    clip = FunctionMethod("clip")
    conj = conjugate = FunctionMethod("conj_of")
    copy = FunctionMethod("copy_method")
    cumprod = FunctionMethod("cumprod")
    cumsum = FunctionMethod("cumsum")
    diagonal = FunctionMethod("diagonal")
    dot = FunctionMethod("dot")
    map_blocks = FunctionMethod("map_blocks_of")
    max = FunctionMethod("max")
    mean = FunctionMethod("mean")
    min = FunctionMethod("min")
    nonzero = FunctionMethod("nonzero")
    prod = FunctionMethod("prod")
    ravel = FunctionMethod("ravel")
    rechunk = FunctionMethod("rechunk")
    repeat = FunctionMethod("repeat")
    reshape = FunctionMethod("reshape_method")
    round = FunctionMethod("round")
    squeeze = FunctionMethod("squeeze")
    std = FunctionMethod("std")
    sum = FunctionMethod("sum")
    swapaxes = FunctionMethod("swapaxes")
    take = FunctionMethod("take")
    var = FunctionMethod("var")
