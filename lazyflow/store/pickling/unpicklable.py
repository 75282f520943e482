"""Finds the object inside a value that can't be pickled.

`pickle` names the object that it refused, but not its place. The search descends from the value: of
the parts of an object, as pickle sees them, it takes the first that can't be pickled alone, until
all parts can be and only the object itself is left. It halves the list of parts at each try, so a
level costs about twice the failed pickling. It is bounded in depth and time and has no recursion of
its own; an exception of the user's code on the way ends it with the path found so far.
"""

from __future__ import annotations

import copyreg
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from time import monotonic
from types import FunctionType, MethodType
from typing import Any

from lazyflow.clock import Clock, Deadline
from lazyflow.errors import SerializationError
from lazyflow.graph.arguments import Binder
from lazyflow.graph.function_code import globals_read
from lazyflow.graph.kinds import ARRAY, FRAME, kinds
from lazyflow.interrupts import is_users_interrupt
from lazyflow.store.pickling.pickler import PROTOCOL, Pickler

# -- containers nested deeper than pickle can follow --------------------------------------
#
# `pickle` calls itself for the items of a container, twice or more a level, up to Python's
# recursion limit. But it does not descend into objects that it has pickled before. So inner
# containers go first, each only a few levels above those before it, and the value itself comes
# last. Unpickling has no recursion.

_LEVELS = 50  # between two containers that go first; a guess, far below the recursion limit
_PLAIN = frozenset({list, tuple, set, frozenset, dict})


class InsideOut:
    """A value that pickles after its inner containers, and unpickles as itself.

    >>> import pickle
    >>> deep = []
    >>> for _ in range(10_000):
    ...     deep = [deep]
    >>> copy = pickle.loads(pickle.dumps(InsideOut(deep)))
    >>> type(copy), len(copy)
    (<class 'list'>, 1)
    """

    def __init__(self, value: Any) -> None:
        self.inner = _inner(value)
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, ([*self.inner, self.value], -1)


def _inner(value: Any) -> list[Any]:
    """Return containers each of which is few levels above earlier ones, or above the bottom."""
    inner = []
    levels: dict[int, int] = {}  # down to a container found, or to the bottom
    todo: list[tuple[Any, list[Any] | None]] = [(value, None)]
    while todo:
        container, parts = todo.pop()
        if parts is not None:
            below = 1 + max((levels[id(part)] for part in parts), default=0)
            if below == _LEVELS:
                inner.append(container)
                below = 0
            levels[id(container)] = below
        elif id(container) not in levels:
            levels[id(container)] = 0  # a container that holds itself counts as a bottom
            parts = [x for x in _parts(container) if type(x) in _PLAIN]
            todo.append((container, parts))
            todo += [(part, None) for part in parts]
    return inner


def _parts(value: Any) -> list[Any]:
    if type(value) is dict:
        return [*value, *value.values()]
    if type(value) is Binder:  # of a task's arguments, as pickle sees it
        return [value.template, value.makers]
    return list(value) if type(value) in _PLAIN else []


# -- the parts of an object as pickle sees them, each with its step in a path: ``.lock``, ``[3]``

_KEY = 40  # characters of a dict's key in a path
_MAX_ITEMS = 1_000_000  # items taken of an object's iterator, which may have no end; a guess


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
    indices: list[str] = []
    for length in reversed(shape):
        i, rest = divmod(i, length)
        indices.append(str(rest))
    return ", ".join(reversed(indices))


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
    how = Pickler(1).reducer_override(value)
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
    for half in state if type(state) is tuple and len(state) == 2 else (state,):
        if type(half) is dict:
            yield _named(half, ".{}")
        elif half is not None:
            yield NamedParts([half], lambda i: ", the state that its __getstate__ returns")
    if items is not None:
        yield _items(islice(items, _MAX_ITEMS))
    if pairs is not None:
        both = list(islice(pairs, _MAX_ITEMS))
        yield from _pairs([key for key, _ in both], [half for _, half in both])


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


# -- the culprit --------------------------------------------------------------------------

_DEEPEST = 50  # steps of a path; a guess, like the next
_SECONDS = 2.0  # of a search
_LONGEST = 300  # characters of the cause in the message


class Unpicklable(Exception):
    """A value can't be pickled.

    Attributes
    ----------
    path : str
        Where in the value the object is: ``.lock``, ``[3].conn``, ``closure variable 'lock' of
        f``; empty: the value itself.
    error : BaseException
        The exception that pickle, or the user's code that it called, raised.
    culprit : str
        The type of that object, if known.
    """

    def __init__(self, path: str, error: BaseException, culprit: str = "") -> None:
        super().__init__(path, error, culprit)
        self.path = path
        self.error = error
        self.culprit = culprit


def dump(value: Any, pickler: Pickler, explain: bool = True) -> None:
    """Pickle a value.

    Parameters
    ----------
    explain
        Whether to look for what can't be pickled, which may take a second; else the error has
        neither path nor culprit.

    Raises
    ------
    Unpicklable
        Anything but `MemoryError` and the user's own Ctrl-C was raised on the way.
    """
    failure = _failure(value, pickler)
    if isinstance(failure, RecursionError):
        inside_out = InsideOut(value)
        if inside_out.inner:
            pickler.reset()
            failure = _failure(inside_out, pickler)
        del inside_out
    if failure is None:
        return
    path, culprit = _search(value, failure) if explain else ("", "")
    try:
        raise Unpicklable(path, failure, culprit)
    finally:  # the error holds this frame: it must not hold the error, nor the value
        del value, failure, pickler


def _failure(value: Any, pickler: Pickler) -> BaseException | None:
    """Pickle a value; return the exception that prevented it, or None."""
    try:
        pickler.dump(value)
        return None
    except MemoryError:
        raise
    except BaseException as error:
        if is_users_interrupt(error):
            raise
        return error
    finally:  # the error holds this frame
        del value, pickler


def serialization_error(task_text: str, role: str, failed: Unpicklable) -> SerializationError:
    """Return the error that the caller sees.

    Parameters
    ----------
    task_text : str
        The name of the task and the line that made it.
    role : str
        The part of the task: ``args[0]``, ``the result``, ``the function``.

    Examples
    --------
    >>> print(serialization_error("f", "args[0]", Unpicklable(".lock", TypeError("no"), "lock")))
    args[0].lock of task f can't be pickled, so it can't pass between processes.
    It is of type lock; the cause is TypeError: no
    Make it inside the task that uses it, leave it out by a __getstate__ of its owner, or run where
    nothing is pickled: scheduler="threads".
    """
    error, path = failed.error, failed.path
    if path and path[0] not in ".[":
        path = f", {path},"
    if isinstance(error, RecursionError):
        cause = (
            "its objects are nested too deeply for pickle, or a __reduce__ calls itself without "
            "end: keep long chains in a flat list"
        )
    else:
        cause = f"the cause is {type(error).__name__}: {_text(error)}"
    if failed.culprit:
        cause = f"it is of type {failed.culprit}; {cause}"
    explained = SerializationError(
        f"{role}{path} of task {task_text} can't be pickled, so it can't pass between processes.\n"
        f"{cause[0].upper()}{cause[1:]}\n"
        f"Make it inside the task that uses it, leave it out by a __getstate__ of its owner, or "
        f'run where\nnothing is pickled: scheduler="threads".'
    )
    explained.__cause__ = error
    return explained


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as broken:
        return f"(its text can't be had: __str__ raised {type(broken).__name__})"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


# -- the search -----------------------------------------------------------------------------


class _Probe(Pickler):
    """Pickles to see whether it can be done; the objects on the path count as pickled.

    Otherwise a part that refers back to the whole would be blamed for another part of it.
    """

    def __init__(self, passed: dict[int, Any]) -> None:
        super().__init__(1)
        self.passed = passed

    def persistent_id(self, obj: Any) -> Any:
        return 0 if id(obj) in self.passed else None


class _CulpritSearch:
    """A descent from a value to the object in it that can't be pickled."""

    def __init__(self, value: Any, now: Clock = monotonic) -> None:
        self.value = value
        self.path: list[str] = []
        self.passed = {id(value): value}  # held, so that no id is used again
        self.deadline = Deadline(_SECONDS, now)
        self.is_cut = False

    def run(self) -> None:
        while True:
            part = self._next()
            if part is None:
                return
            if len(self.path) == _DEEPEST:
                self.is_cut = True
                return
            name, self.value = part
            self.path.append(name)
            self.passed[id(self.value)] = self.value

    def _next(self) -> tuple[str, Any] | None:
        rest = named_parts(self.value)
        while True:
            try:
                group = next(rest, None)
                if group is None:
                    return None
                if not self._can_pickle(group.values):
                    bad = self._first_bad(group.values)
                    at = next(i for i, each in enumerate(group.values) if each is bad)
                    return group.name(at), bad
            except BaseException as error:  # from the user's code
                if is_users_interrupt(error):
                    raise
                return None

    def _first_bad(self, values: list[Any]) -> Any:
        while len(values) > 1:
            half = len(values) // 2
            is_left = not self._can_pickle(values[:half])
            values = values[:half] if is_left else values[half:]
        return values[0]

    def _can_pickle(self, values: list[Any]) -> bool:
        if self.deadline.is_over():
            self.is_cut = True
            raise TimeoutError
        try:
            _Probe(self.passed).dump(values)
            return True
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            return False


def _search(value: Any, failure: BaseException) -> tuple[str, str]:
    """Return the path to the object that can't be pickled, and its type."""
    search = _CulpritSearch(value)
    search.run()
    if search.is_cut and isinstance(failure, RecursionError):
        return "", type_text(value)  # no single object is to blame
    path = "".join(search.path) + (", somewhere in it" if search.is_cut else "")
    return path.removeprefix(", "), type_text(search.value)
