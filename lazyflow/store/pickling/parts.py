"""The parts of an object as pickle sees them, each with its step in a path: ``.lock``, ``[3]``."""

from __future__ import annotations

import copyreg
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import FunctionType, MethodType
from typing import Any

from lazyflow.graph.function_code import globals_read
from lazyflow.graph.kinds import ARRAY, FRAME, kinds
from lazyflow.store.pickling.pickler import PROTOCOL, Pickler, PieceWriter

__all__ = ["NamedParts", "named_parts", "type_text"]

_KEY = 40  # characters of a dict's key in a path
_MOST = 1_000_000  # items taken of an object's iterator, which may have no end


class NamedParts:
    """Parts of one object: ``name(i)`` is the step of a path that leads to ``values[i]``."""

    __slots__ = ("name", "values")

    def __init__(self, values: Iterable[Any], name: Callable[[int], str]) -> None:
        self.values = list(values)
        self.name = name


def _named(values: Mapping[Any, Any], style: str) -> NamedParts:
    names = list(values)
    return NamedParts(values.values(), lambda i: style.format(names[i]))


def _items(values: Iterable[Any], start: str = "") -> NamedParts:
    return NamedParts(values, lambda i: f"{start}[{i}]")


def _pairs(keys: Iterable[Any], values: Iterable[Any], start: str = "") -> Iterator[NamedParts]:
    names = list(keys)
    yield NamedParts(names, lambda i: f"{start}, key {_key_text(names[i])}")
    yield NamedParts(values, lambda i: f"{start}[{_key_text(names[i])}]")


def _key_text(key: Any) -> str:
    """Return a dict's key as text; its repr is called for plain types only."""
    if type(key) not in (str, int, float, bool, bytes, type(None)):
        return f"<{type_text(key)}>"
    if type(key) is int and key.bit_length() > 4 * _KEY:
        return f"<int of {key.bit_length()} bits>"
    if isinstance(key, str | bytes) and len(key) > _KEY:
        return repr(key[: _KEY - 3])[:-1] + "..."
    return repr(key)


def named_parts(value: Any) -> Iterator[NamedParts]:
    """Yield the parts of an object in about the order in which pickle meets them."""
    cls = type(value)
    if cls in (list, tuple, deque):
        yield _items(value)
    elif cls in (set, frozenset):
        yield NamedParts(value, lambda i: ", an item of the set")
    elif cls is dict:
        yield from _pairs(value.keys(), value.values())
    elif cls is FunctionType:
        yield from _of_function(value)
    elif cls is MethodType:
        yield _named({"__self__": value.__self__, "__func__": value.__func__}, ".{}")
    elif cls is partial:
        yield _named({"func": value.func}, ".{}")
        yield _items(value.args, ".args")
        yield from _pairs(value.keywords.keys(), value.keywords.values(), ".keywords")
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        yield NamedParts(value, lambda i: f".{cls._fields[i]}")
    elif kinds[cls] == ARRAY and value.dtype.hasobject:
        yield NamedParts(value.ravel().tolist(), lambda i: f"[{_index_text(i, value.shape)}]")
    elif kinds[cls] == FRAME:
        yield from _of_frame(value)
    else:
        yield from _of_reduced(value)


def _index_text(i: int, shape: tuple[int, ...]) -> str:
    found: list[str] = []
    for length in reversed(shape):
        i, rest = divmod(i, length)
        found.append(str(rest))
    return ", ".join(reversed(found))


def _of_function(function: FunctionType) -> Iterator[NamedParts]:
    name = function.__qualname__
    closed = {}
    for variable, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            closed[variable] = cell.cell_contents
        except ValueError:  # not assigned so far
            continue
    yield _named(closed, f", closure variable {{!r}} of {name}")
    held = function.__globals__
    read = {each: held[each] for each in globals_read(function.__code__) if each in held}
    yield _named(read, f", global variable {{!r}} that {name} reads")
    yield NamedParts(function.__defaults__ or (), lambda i: f", a default value of {name}")
    yield _named(function.__kwdefaults__ or {}, f", default of {{!r}} of {name}")
    yield _named(function.__annotations__, f", annotation of {{!r}} of {name}")
    yield _named(function.__dict__, ".{}")


def _of_reduced(value: Any) -> Iterator[NamedParts]:
    """Yield the parts that the object's reducer returns."""
    how = Pickler(PieceWriter(), 1).reducer_override(value)
    if how is NotImplemented:
        reduce = copyreg.dispatch_table.get(type(value))
        if reduce is copyreg.dispatch_table.get(BaseException):  # tblib's, by distributed,
            reduce = None  # whose names for the parts say nothing to users
        how = reduce(value) if reduce else value.__reduce_ex__(PROTOCOL)
    if type(how) is not tuple:
        return  # it pickles as a name
    _, args, state, items, pairs = (*how, None, None, None)[:5]
    if isinstance(value, BaseException) and args == value.args:
        yield _items(args, ".args")
    else:
        yield NamedParts(args, lambda i: _argument_text(i, args[i] is type(value)))
    for each in state if type(state) is tuple and len(state) == 2 else (state,):
        if type(each) is dict:
            yield _named(each, ".{}")
        elif each is not None:
            yield NamedParts([each], lambda i: ", the state that its __getstate__ returns")
    if items is not None:
        yield _items(islice(items, _MOST))
    if pairs is not None:
        both = list(islice(pairs, _MOST))
        yield from _pairs([key for key, _ in both], [each for _, each in both])


def _argument_text(i: int, is_class: bool) -> str:
    return ".__class__" if is_class else f", argument {i} that its __reduce__ returns"


def _of_frame(frame: Any) -> Iterator[NamedParts]:
    """Yield the columns of a pandas object, then its other parts."""
    if hasattr(frame, "columns"):
        names = list(frame.columns)
        columns = (frame.iloc[:, i] for i in range(len(names)))
        yield NamedParts(columns, lambda i: f"[{_key_text(names[i])}]")
    elif frame.dtype == object:
        yield _items(frame.tolist(), ".iloc")
    yield from _of_reduced(frame)


def type_text(value: Any) -> str:
    """Return the name of a value's type, with its module unless that is builtins or __main__."""
    cls = type(value)
    try:
        module, name = cls.__module__, cls.__qualname__
        return name if module in ("builtins", "__main__") else f"{module}.{name}"
    except BaseException:  # a metaclass of the user's
        return "object"
