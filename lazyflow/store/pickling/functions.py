"""Functions as bytes for other processes, each known by a digest.

A function of a module travels by name, so the other process runs the function that *it* imported
under that name, which may be older: modules are edited and reloaded while workers live. So a digest
of the code travels with the name. Only functions of modules that were imported from unchanged
source are compared: pytest and others rewrite code while importing, and workers do not.

The bytes of a callable say whether it carries state (see state.py). A worker opens code once, and
state for each task; the memory of large arrays is there once for all, to be read only.
"""

from __future__ import annotations

import marshal
import pickle
import sys
from collections.abc import Callable
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any, Generic, TypeVar

from lazyflow.departures import WeakTable
from lazyflow.graph.function_code import code_fields, resolve, wrapped_functions
from lazyflow.store.pickling.pickler import Pickler, PieceWriter, is_importable
from lazyflow.store.pickling.state import SHARED_FROM, carries_state
from lazyflow.store.pickling.unpicklable import dump

__all__ = ["FunctionCache", "load_function", "pack_function", "same_code"]

_NEVER = sys.maxsize

T = TypeVar("T")

#: The code that a function had when its digest was made, and the digest.
_digests: WeakTable[FunctionType, tuple[CodeType, bytes]] = WeakTable()


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
        self._known: WeakTable[FunctionType, tuple[CodeType, T]] = WeakTable()

    def of(self, function: Any) -> T:
        """Return what `pack` makes of a function, now or at an earlier call."""
        if type(function) is not FunctionType or not is_importable(function):
            return self._pack(function)
        known = self._known.get(function)
        if known is None or known[0] is not function.__code__:
            known = self._known[function] = (function.__code__, self._pack(function))
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
    writer = PieceWriter()
    pickler = Pickler(writer, SHARED_FROM)
    dump(function, pickler)
    checks = []
    for each in pickler.named:
        if not each.__module__.startswith("cloudpickle."):  # which rebuilds other functions
            digest = _digest(each)
            if digest is not None:
                checks.append((each.__module__, each.__qualname__, digest))
    buffers = [each.raw() for each in pickler.buffers]
    sizes = [sum(map(len, writer.pieces)), *map(len, buffers)]
    # Later formats of marshal depend on reference counts of the strings.
    head = marshal.dumps((checks, not carries_state(function, is_importable), sizes), 2)
    pieces = [len(head).to_bytes(4, "little"), head, *writer.pieces]
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
    found = sha256()
    for each in (function, *wrapped_functions(function)):
        found.update(_code_bytes(each.__code__))
    _digests[function] = function.__code__, found.digest()
    return found.digest()


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
