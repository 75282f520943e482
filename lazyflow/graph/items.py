"""Facts about results before they are computed: the number of their parts, and their class.

`typing.get_type_hints` fails where a string annotation, even that of an argument, has names that
are only imported for type checkers. Such names do not matter here.
"""

from __future__ import annotations

import builtins
import functools
import types
import typing
from itertools import islice
from typing import Any

from lazyflow.graph.kinds import ITERATOR, kinds


def check_length(value: Any, nout: int, name: str) -> None:
    """Raise ValueError when the length of a result is not the declared one."""
    if nout == 0 and value is None:
        return
    try:
        length = len(value)
    except TypeError:
        raise ValueError(
            f"{name} was declared to return {nout} values (nout={nout}), but returned one "
            f"{type(value).__name__}, which has no length"
        ) from None
    if length != nout:
        raise ValueError(
            f"{name} was declared to return {nout} values (nout={nout}), but returned {length}"
        )
    if isinstance(value, set | frozenset) or (
        isinstance(value, dict) and any(i not in value for i in range(nout))
    ):
        raise ValueError(
            f"{name} was declared to return {nout} values (nout={nout}), but returned a "
            f"{type(value).__name__}, which has no items 0, 1, ... Leave nout= out and take items "
            "by x[key], or return a tuple"
        )


def itemized(value: Any, nout: int) -> Any:
    """Return a result that was declared to have `nout` items, an iterator's as a tuple.

    An iterator without an end is taken from until there is one too many.

    >>> import itertools
    >>> itemized(map(str, "ab"), 2), itemized(zip(itertools.count()), 1), itemized(7, 2)
    (('a', 'b'), ((0,), (1,)), 7)
    """
    return tuple(islice(value, nout + 1)) if kinds[type(value)] == ITERATOR else value


_FEW = 16  # items that are kept for the next result of the kind; a guess


class Item:
    """Takes item `index` of a result, after a check that the result has `length` items."""

    __slots__ = ("index", "length", "maker")

    def __init__(self, index: int, length: int, maker: str) -> None:
        self.index = index
        self.length = length
        self.maker = maker

    @property
    def __name__(self) -> str:
        return f"{self.maker}[{self.index}]"

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not tuple or len(value) != self.length:
            check_length(value, self.length, self.maker)
        return value[self.index]

    def __reduce__(self) -> tuple[Any, ...]:
        return Item, (self.index, self.length, self.maker)


def items_of(length: int, maker: str) -> tuple[Item, ...]:
    """Return functions that take the items of a result with `length` of them, one each."""
    return (_few_items if length <= _FEW else _items)(length, maker)


def _items(length: int, maker: str) -> tuple[Item, ...]:
    return tuple([Item(index, length, maker) for index in range(length)])


_few_items = functools.lru_cache(64)(_items)  # a loop asks for those of one function each time


# -- lengths from annotations -----------------------------------------------------------------


def annotated_length(func: Any) -> int | None:
    """Return the length of a callable's result if its annotation declares one, else None.

    >>> def f() -> tuple[int, str]: ...
    >>> annotated_length(f)
    2
    >>> def g(x: "np.ndarray") -> "tuple[np.ndarray, ...]": ...
    >>> annotated_length(g)
    """
    try:
        hint = _return_hint(func)
        if typing.get_origin(hint) is not tuple or hint is typing.Tuple:  # noqa: UP006
            return None
        parts = typing.get_args(hint)
    except Exception:  # a hostile callable, or an annotation that means something else
        return None
    if any(part is Ellipsis or _is_unpacked(part) for part in parts):
        return None
    return len(parts)


def annotated_class(func: Any) -> type | None:
    """Return the class of a callable's results if it is one, or its annotation names one.

    >>> def f() -> "dict[str, int]": ...
    >>> annotated_class(f), annotated_class(list), annotated_class(abs)
    (<class 'dict'>, <class 'list'>, None)
    """
    try:
        found = func if isinstance(func, type) else _return_hint(func)
        found = typing.get_origin(found) or found
    except Exception:  # as above
        return None
    return found if isinstance(found, type) and found is not object else None


def _is_unpacked(part: Any) -> bool:
    unpacked = getattr(part, "__unpacked__", False) is True
    return unpacked or typing.get_origin(part) is typing.Unpack


def _return_hint(func: Any) -> Any:
    """Return the annotation of a callable's result, evaluated if it is a string."""
    func = _plain_function(func)
    if func is None:
        return None
    hint = func.__annotations__.get("return")
    names: Any = _Names(func.__globals__)
    for _ in range(2):  # one in quotes is a string of a string, where all annotations are strings
        if isinstance(hint, str):
            hint = eval(hint, {}, names)  # the user's own code, as typing does it
    return hint.__origin__ if typing.get_origin(hint) is typing.Annotated else hint


def _plain_function(func: Any) -> Any:
    """Return the function inside a decorated, partial or bound one or an object with __call__."""
    for _ in range(100):
        if isinstance(func, functools.partial):
            func = func.func
        elif isinstance(func, type):  # it returns an instance, which is no tuple
            return None
        elif hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        elif isinstance(func, types.MethodType):
            func = func.__func__
        elif isinstance(func, types.FunctionType):
            return func
        else:
            call = type(func).__call__
            return call if isinstance(call, types.FunctionType) else None
    return None


class _Names:
    """The names that a function sees; any other name stands for a type that does not matter."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known

    def __getitem__(self, name: str) -> Any:
        if name in self.known:
            return self.known[name]
        return getattr(builtins, name, _Unknown())


class _Unknown:
    """A type that can't be found, in any expression of types."""

    def __getattr__(self, name: str) -> _Unknown:
        return self

    def __getitem__(self, item: Any) -> _Unknown:
        return self

    __or__ = __ror__ = __getitem__
