"""Functions as bytes for other processes, each known by a digest.

A function of a module travels by name, so the other process runs the function that *it* imported
under that name, which may be older: modules are edited and reloaded while workers live. So a digest
of the code travels with the name. Only functions of modules that were imported from unchanged
source are compared: pytest and others rewrite code while importing, and workers do not.

The bytes of a callable say whether it carries state (see below). A worker opens code once, and
state for each task; the memory of large arrays is there once for all, to be read only.
"""

from __future__ import annotations

import dis
import marshal
import operator
import pickle
import re
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from enum import Enum
from functools import lru_cache, partial
from hashlib import sha256
from itertools import chain
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Generic, TypeVar

from lazyflow.finalizers import WeakTable
from lazyflow.graph.function_code import code_fields, resolve, wrapped_functions
from lazyflow.graph.kinds import ARRAY, IMMUTABLE, TypeTable, kinds
from lazyflow.store.pickling.pickler import Pickler, is_importable
from lazyflow.store.pickling.unpicklable import dump

# -- whether a callable is code alone, which tasks may share, or carries state ------------
#
# Two callables that pickle to the same bytes need not be one object: each of ``Counter().add`` and
# ``Counter().add`` counts by itself. So a worker makes callables with state anew for each task, and
# keeps those that a call can't change.
#
# Variables that a function reads of its module don't matter here: they belong to the process,
# whether it imports the module or gets the function by value.

#: Bytes from which the memory of an array stays outside of a function's pickle, so that it is
#: there once for all tasks of a worker, which can't write to it then.
SHARED_FROM = 65_536

Parts = Callable[[Any], "Iterable[Any] | None"]


def carries_state(value: Any, is_importable: Callable[[Any], bool]) -> bool:
    """Tell whether calls of a callable could change something that it holds.

    Parameters
    ----------
    value
        A callable.
    is_importable
        Tells whether a function travels by name.

    Examples
    --------
    >>> def adder(n):
    ...     return lambda x: x + n
    >>> [carries_state(f, lambda f: False) for f in (len, adder(1), adder([]), [].append)]
    [False, False, True, True]
    """
    stack, seen = [value], {id(value)}
    while stack:
        each = stack.pop()
        kind = type(each)
        if kind in IMMUTABLE or (kind is FunctionType and is_importable(each)):
            continue
        parts = _parts[kind](each)
        if parts is None:
            return True
        for part in parts:
            if id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return False


def _unknown(value: Any) -> None:
    """Return None, for an object that may hold state that a call changes."""


def _fixed(value: Any) -> tuple[Any, ...]:
    """Return no parts: an object that holds nothing that a call could change."""
    return ()


def _of_function(function: FunctionType) -> Iterable[Any] | None:
    if function.__closure__ and _assigns_around(function.__code__):
        return None
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # it is not assigned so far
            return None
    named = (function.__kwdefaults__ or {}).values()
    return chain(cells, function.__defaults__ or (), named, function.__dict__.values())


def _assigns_around(code: CodeType) -> bool:
    """Tell whether a function, or one inside it, assigns to ``nonlocal`` variables around it."""
    names = frozenset(code.co_freevars)
    stack = [code]
    while stack:
        top = stack.pop()
        steps = top.co_code
        if _STORE in steps[::2] or _DELETE in steps[::2]:
            first = len({*top.co_varnames, *top.co_cellvars})
            for step, at in zip(steps[::2], steps[1::2], strict=True):
                if step == _LONG and top.co_freevars:
                    return True  # too many variables to be told here
                stored = at >= first and step in (_STORE, _DELETE)
                if stored and top.co_freevars[at - first] in names:
                    return True
        stack.extend(each for each in top.co_consts if type(each) is CodeType)
    return False


_STORE, _DELETE = dis.opmap["STORE_DEREF"], dis.opmap["DELETE_DEREF"]
_LONG = dis.EXTENDED_ARG


def _of_builtin(function: Any) -> Iterable[Any]:
    owner = function.__self__
    return () if owner is None or type(owner) is ModuleType else (owner,)


def _of_method(method: MethodType) -> Iterable[Any]:
    return method.__self__, method.__func__


def _of_partial(function: Any) -> Iterable[Any]:
    _, args, keywords, more = function.__reduce__()[2]  # asking for __dict__ would make one
    held = [*args, *keywords.values(), *(more or {}).values()]
    return [function.func, *(_flat(held) if _is_ours(function.func) else held)]


def _of_array(array: Any) -> Iterable[Any] | None:
    """Return that an array can't be written to, in a worker."""
    if array.dtype.hasobject or (array.nbytes < SHARED_FROM and array.flags.writeable):
        return None
    return ()


def _is_ours(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    return type(module) is str and module.partition(".")[0] == "lazyflow"


def _of_ours(value: Any) -> Iterable[Any]:
    """Return the fields of an object of this library, whose calls change none of them."""
    return _flat(_fields(value))


def _flat(values: Iterable[Any]) -> list[Any]:
    """Return the items in lists and dicts of this library, besides plain arrays."""
    flat, stack = [], list(values)
    while stack:
        part = stack.pop()
        kind = type(part)
        if kind in (list, tuple, set, frozenset):
            stack.extend(part)
        elif kind is dict:
            stack.extend(part.values())
        elif not _is_plain[kind] or part.dtype.hasobject:
            flat.append(part)
    return flat


def _fields(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return list(value)
    state = value.__getstate__()
    if type(state) is not tuple or len(state) != 2:
        state = (state,)
    values: list[Any] = []
    for part in state:
        values.extend(part.values() if type(part) is dict else (part,))
    return values


def _parts_of(cls: type) -> Parts:
    """Return what looks into objects of a type: nothing for what can be changed."""
    root = cls.__module__.partition(".")[0] if type(cls.__module__) is str else ""
    if issubclass(cls, type | ModuleType | Enum) or f"{cls.__module__}.{cls.__name__}" in _FIXED:
        return _fixed
    if _is_ours(cls):
        return _of_ours
    if _is_plain[cls]:
        return _of_array
    if root == "numpy" and not _OF_NUMPY.isdisjoint([each.__name__ for each in cls.__mro__]):
        return _fixed
    is_number = hasattr(cls, "dtype") and kinds[cls] != ARRAY
    if root == "numpy" and is_number and cls.__name__ not in ("void", "object_"):
        return _fixed
    if root == "numba":
        return _fixed  # compiled, with its globals as they were
    if issubclass(cls, tuple) and getattr(cls, "__slots__", None) == () and hasattr(cls, "_fields"):
        return tuple
    parameters = getattr(cls, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        fields: Iterable[str] = cls.__dataclass_fields__  # type: ignore[attr-defined]
        return lambda value: [getattr(value, field) for field in fields]
    return _unknown


#: Masks, files and other memory of subclasses stay open to writes where an array is not.
_is_plain = TypeTable(lambda cls: kinds[cls] == ARRAY and cls is sys.modules["numpy"].ndarray)

_OF_NUMPY = frozenset({"ufunc", "dtype", "_ArrayFunctionDispatcher", "_NoValueType"})

_PARTS: dict[type, Parts] = {
    **dict.fromkeys(
        (
            type(...), type(NotImplemented), CodeType, range, re.Pattern, MethodDescriptorType,
            WrapperDescriptorType, ClassMethodDescriptorType, ContextVar,
        ),
        _fixed,
    ),
    **dict.fromkeys((tuple, frozenset), iter),
    slice: lambda value: (value.start, value.stop, value.step),
    **dict.fromkeys((staticmethod, classmethod), lambda value: (value.__func__,)),
    **dict.fromkeys(
        (operator.itemgetter, operator.attrgetter, operator.methodcaller),
        lambda value: value.__reduce__()[1],
    ),
    type(lru_cache(len)): lambda value: (value.__wrapped__,),
    property: lambda value: (value.fget, value.fset, value.fdel),
    FunctionType: _of_function,
    BuiltinFunctionType: _of_builtin,
    MethodWrapperType: _of_builtin,
    MethodType: _of_method,
    partial: _of_partial,
}

#: Types by name, so that they need not be imported.
_FIXED = frozenset({
    "datetime.date", "datetime.time", "datetime.datetime", "datetime.timedelta",
    "datetime.timezone", "decimal.Decimal", "fractions.Fraction", "pathlib.PosixPath",
    "pathlib.WindowsPath", "pathlib.PurePosixPath", "pathlib.PureWindowsPath",
    "pathlib._local.PosixPath", "pathlib._local.PurePosixPath", "uuid.UUID", "zoneinfo.ZoneInfo",
})
_parts = TypeTable(_parts_of, _PARTS)


_NEVER = sys.maxsize

# -- functions ----------------------------------------------------------------------------

T = TypeVar("T")

#: The code that a function had when its digest was made, and the digest.
_digests: WeakTable[FunctionType, tuple[CodeType, bytes]] = WeakTable()


_NAMED = (FunctionType, BuiltinFunctionType)


class FunctionCache(Generic[T]):
    """Packs functions, those of modules once while they live.

    A function of a module travels by name, so only its code can change. Other callables are packed
    each time, since the values that they close over may have changed.

    Parameters
    ----------
    pack
        Packs a function.

    Examples
    --------
    >>> cache = FunctionCache(pack_function)
    >>> digest, payload = cache.of(load_function)
    >>> cache.of(load_function)[1] is payload
    True
    """

    def __init__(self, pack: Callable[[Any], T]) -> None:
        self._pack = pack
        self._known: WeakTable[Any, tuple[CodeType | None, T]] = WeakTable()

    def of(self, function: Any) -> T:
        """Return the packed form of a function, made now or at an earlier call."""
        if type(function) not in _NAMED or not is_importable(function):
            return self._pack(function)
        known = self._known.get(function)
        code = getattr(function, "__code__", None)
        if known is None or known[0] is not code:
            known = self._known[function] = (code, self._pack(function))
        return known[1]


def pack_function(function: Callable[..., Any]) -> tuple[bytes, bytes]:
    """Return the digest of a callable, and the bytes that `load_function` makes it from.

    Raises
    ------
    Unpicklable
        The callable can't be pickled.

    Examples
    --------
    >>> digest, payload = pack_function(len)
    >>> load_function(payload)
    (<built-in function len>, True)
    """
    pickler = Pickler(SHARED_FROM)
    dump(function, pickler)
    checks = []
    for each in pickler.named:
        if not each.__module__.startswith("cloudpickle."):  # which rebuilds other functions
            digest = _digest(each)
            if digest is not None:
                checks.append((each.__module__, each.__qualname__, digest))
    buffers = [each.raw() for each in pickler.buffers]
    sizes = [sum(map(len, pickler.pieces)), *map(len, buffers)]
    # Later formats of marshal depend on reference counts of the strings.
    head = marshal.dumps((checks, not carries_state(function, is_importable), sizes), 2)
    pieces = [len(head).to_bytes(4, "little"), head, *pickler.pieces]
    for buffer in buffers:
        pieces += [bytes(-sum(map(len, pieces)) % _ALIGNED), buffer]
    payload = b"".join(pieces)
    return sha256(payload).digest(), payload


_ALIGNED = 64  # bytes at whose multiples the memory of arrays begins


def load_function(payload: Any) -> tuple[Any, bool]:
    """Return the callable that `pack_function` has packed, and whether it is code alone.

    Raises
    ------
    RuntimeError
        A function that travels by name has other code in this process.
    """
    data = memoryview(payload)
    start = 4 + int.from_bytes(data[:4], "little")
    checks, is_code, sizes = marshal.loads(data[4:start])
    parts = []
    for i, size in enumerate(sizes):
        start += -start % _ALIGNED if i else 0
        parts.append(data[start : start + size])
        start += size
    function = pickle.loads(parts[0], buffers=parts[1:])
    for module, name, digest in checks:
        here = resolve(module, name)
        if type(here) is FunctionType and _digest(here) not in (digest, None):
            raise RuntimeError(
                f"this worker has another version of {module}.{name} than the caller: the module "
                f"was edited and reloaded since the worker imported it. lazyflow.shutdown() ends "
                f"the workers; the next compute starts new ones."
            )
    return function, is_code


def same_code(one: Any, other: Any) -> bool:
    """Tell whether two functions, or the methods of two classes, have the same code.

    >>> same_code(lambda x: x + 1, lambda x: x + 1), same_code(lambda x: x + 1, lambda x: x + 2)
    (True, False)
    """
    return _codes(one) == _codes(other)


def _codes(value: Any) -> Any:
    if type(value) is FunctionType:
        return _code_bytes(value.__code__)
    if not isinstance(value, type):
        return None
    parts = {name: getattr(each, "__func__", each) for name, each in vars(value).items()}
    return {name: _codes(each) for name, each in parts.items() if type(each) is FunctionType}


def _digest(function: FunctionType) -> bytes | None:
    """Return a digest of a function's code and of the functions that it wraps, if comparable."""
    spec = getattr(sys.modules.get(function.__module__), "__spec__", None)
    loader = type(getattr(spec, "loader", None))
    if (loader.__module__, loader.__name__) != ("_frozen_importlib_external", "SourceFileLoader"):
        return None
    known = _digests.get(function)
    if known is not None and known[0] is function.__code__:
        return known[1]
    digest = sha256()
    for layer in (function, *wrapped_functions(function)):
        digest.update(_code_bytes(layer.__code__))
    _digests[function] = function.__code__, digest.digest()
    return digest.digest()


def _code_bytes(code: CodeType) -> bytes:
    """Return a function's code as bytes, without files and lines, inner functions included."""
    own = []
    stack = [code]
    while stack:
        top = stack.pop()
        plain = [repr(each) for each in map(_in_order, top.co_consts) if type(each) is not CodeType]
        stack.extend(each for each in top.co_consts if type(each) is CodeType)
        own.append((*code_fields(top), plain))
    return repr(own).encode()


def _in_order(constant: Any) -> Any:
    """Return a constant as it is; of a set, whose order differs by process, sorted items."""
    if type(constant) is frozenset:
        return "set", sorted(map(repr, constant))
    if type(constant) is int:
        return hex(constant)  # Python refuses to write very large ones in decimal
    if type(constant) is tuple:
        return tuple(map(_in_order, constant))
    return constant
