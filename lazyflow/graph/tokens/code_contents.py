"""What functions and classes consist of, for `lazyflow.graph.tokens.tokenize`.

What can be imported counts by name and by what is written under that name: a function by its code
and the functions it wraps, each with its default values and closure where these are atoms (other
values by type: many are sentinels, locks or caches); a class by the functions in its own body.
What they call in turn is not followed.

What cannot be imported (lambdas, closures, everything of ``__main__``) has no name that another
process could use, so it counts by all that its result depends on: code, defaults, closure,
and the values of the globals its code reads; a class by its bases and its whole body. Names,
attributes and annotations of functions, file names and line numbers do not count.

The digest of a function's code is kept for as long as the function lives and is made again when
``__code__`` was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from types import CellType, CodeType, FunctionType
from typing import Any

from lazyflow.departures import WeakTable
from lazyflow.graph.function_code import (
    MOST_WRAPPERS,
    code_fields,
    globals_read,
    resolve,
    wrapped_functions,
)
from lazyflow.graph.tokens.containers import ATOMS, encoded, mapping, nested, sequence
from lazyflow.graph.tokens.digests import Digest, MerkleNode, NoContent, hashed, merkle, type_name

Contents = Callable[[Any], bytes | MerkleNode]

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, by a class statement for instance
_MAIN = frozenset({"__main__", "__mp_main__"})
_NAME = itemgetter(0)
_NOT_CONTENT = frozenset(  # of a class body: slots of the interpreter, caches, places in the file
    {
        "__dict__",
        "__weakref__",
        "__module__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotate_func__",
        "__annotations_cache__",
        "_abc_impl",
    }
)


class _Code:
    """What is known about one function's code."""

    __slots__ = ("code", "digest", "globals")

    def __init__(self, code: CodeType, contents: Contents) -> None:
        self.code = code
        self.digest = merkle(MerkleNode(b"", (code,)), contents, _raise)
        self.globals: list[str] | None = None  # found when first needed


_known: WeakTable[FunctionType, _Code] = WeakTable()


def code_contents(code: CodeType) -> bytes | MerkleNode:
    """Return the parts of a code object: instructions, names and constants."""
    return sequence(b"code\0" + encoded(code_fields(code)), code.co_consts, style=".co_consts[{}]")


def function_contents(function: FunctionType, contents: Contents) -> bytes | MerkleNode:
    """Return the parts of a function written in Python, or its digest."""
    known = _code_of(function, contents)
    if not _importable(function):
        return _local_function(function, known)
    layers = [_as_written(each, contents) for each in (function, *wrapped_functions(function))]
    return hashed(b"function\0", encoded((function.__module__, function.__qualname__, layers)))


def class_contents(cls: type, contents: Contents) -> bytes | MerkleNode:
    """Return the parts of a class, or its digest."""
    body = sorted((item for item in cls.__dict__.items() if type(item[0]) is str), key=_NAME)
    if cls.__flags__ & _HEAP_TYPE and not _importable(cls):
        inner = {name: value for name, value in body if name not in _NOT_CONTENT}
        parts = nested(mapping(b"body", list(inner), list(inner.values()), ".{}"))
        head = b"local class\0" + encoded(cls.__qualname__)
        return MerkleNode(head, (type(cls), cls.__bases__, parts), (".__class__", ".__bases__", ""))
    code = [
        (name, _as_written(function, contents))
        for name, value in body
        for function in _functions_in(value)
    ]
    return hashed(b"class\0", encoded((cls.__module__, cls.__qualname__, code)))


def closure_contents(cells: tuple[CellType, ...]) -> Digest | MerkleNode:
    """Return the parts of the variables of enclosing functions; some may have no value yet."""
    filled = _filled(cells)
    head = b"closure" + encoded([i for i, _ in filled])
    style = ".__closure__[{}].cell_contents"
    return nested(sequence(head, [value for _, value in filled], [i for i, _ in filled], style))


def _importable(obj: Any) -> bool:
    """Tell whether the name of a function or class stands for it, or for a wrapper of it."""
    module = obj.__module__
    if type(module) is not str or module in _MAIN:
        return False
    found = resolve(module, obj.__qualname__)
    for _ in range(MOST_WRAPPERS):
        if found is obj or found is None:
            break
        try:
            method = getattr(found, "__func__", None)
            found = found.__wrapped__ if method is None else method
        except Exception:  # not a wrapper, or a hostile one
            return False
    return found is obj


def _code_of(function: FunctionType, contents: Contents) -> _Code:
    known = _known.get(function)
    if known is None or known.code is not function.__code__:
        known = _known[function] = _Code(function.__code__, contents)
    return known


def _local_function(function: FunctionType, known: _Code) -> MerkleNode:
    if known.globals is None:
        known.globals = sorted(set(globals_read(known.code)))
    held = function.__globals__
    names = [name for name in known.globals if name in held]
    children = [
        function.__defaults__,
        function.__kwdefaults__,
        closure_contents(function.__closure__ or ()),
        nested(mapping(b"globals", names, [held[n] for n in names], ".__globals__[{!r}]")),
    ]
    labels = (".__defaults__", ".__kwdefaults__", "", "")
    return MerkleNode(b"local function\0" + known.digest, children, labels)


def _filled(cells: tuple[CellType, ...]) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for i, cell in enumerate(cells):
        try:
            found.append((i, cell.cell_contents))
        except ValueError:  # not assigned so far
            continue
    return found


def _as_written(function: FunctionType, contents: Contents) -> tuple[Any, ...]:
    """Return code, default values and closure of a function, where they are equal everywhere."""
    digest = _code_of(function, contents).digest
    defaults, keywords, cells = function.__defaults__, function.__kwdefaults__, function.__closure__
    if defaults is keywords is cells is None:
        return (digest,)
    return (
        digest,
        [_shallow(value) for value in defaults or ()],
        sorted((name, _shallow(value)) for name, value in (keywords or {}).items()),
        [(i, _shallow(value)) for i, value in _filled(cells or ())],
    )


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions of one name in a class body."""
    kind = type(value)
    if kind in (staticmethod, classmethod):
        value = value.__func__
    found = (value.fget, value.fset, value.fdel) if kind is property else (value,)
    yield from (each for each in found if type(each) is FunctionType)


def _shallow(value: Any) -> Any:
    """Return an atom as it is; of any other value only its type."""
    return value if type(value) in ATOMS else [type_name(type(value))]


def _raise(obj: Any, error: NoContent, path: Callable[[], str]) -> bytes:
    raise error
