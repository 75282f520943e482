"""What Python's own objects consist of, for `lazyflow.graph.tokens.tokenize`.

`contents` says it for any object, by the first rule that fits:

1. atoms and builtin containers, of exactly these types, by value (`containers`);
2. ``__lazyflow_tokenize__()``, else ``__dask_tokenize__()``, with the object's class;
3. functions and classes (`code_contents`), enum members, bound methods, modules;
4. NumPy, SciPy, pandas, Numba (`library_contents`);
5. what ``copyreg`` or ``__reduce_ex__(4)`` returns.

All look-ups go through ``type(obj)``, so that ``__getattr__``, ``__eq__``, ``__len__`` and
``__class__`` of a hostile object are never called.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lazyflow.graph.function_code import resolve
from lazyflow.graph.tokens.code_contents import (
    class_contents,
    closure_contents,
    code_contents,
    function_contents,
)
from lazyflow.graph.tokens.containers import encoded, mapping, nested, sequence, unordered
from lazyflow.graph.tokens.digests import MerkleNode, NoContent, hashed, hashed_buffer, type_name
from lazyflow.graph.tokens.library_contents import LIBRARIES

_DASK = "__dask_tokenize__"  # those of xarray import dask, which need not be there
_HOOKS = ("__lazyflow_tokenize__", _DASK)


def contents(obj: Any) -> bytes | MerkleNode:
    """Return the parts of any object, or its digest.

    Raises
    ------
    NoContent
        The object has no content that could be compared.
    """
    cls = type(obj)
    rule = _EXACT.get(cls)
    if rule is not None:
        return rule(obj)
    for hook in _HOOKS:
        method = next((base.__dict__[hook] for base in cls.__mro__ if hook in base.__dict__), None)
        if method is not None:
            try:
                return _by_hook(obj, cls, hook, method)
            except ImportError:
                if hook != _DASK:
                    raise
                break
    for base in cls.__mro__:
        rule = _INHERITED.get(base)
        if rule is not None:
            return rule(obj)
        module = base.__module__
        library = LIBRARIES.get(module.partition(".")[0]) if type(module) is str else None
        found = None if library is None else library(obj, cls)
        if found is not None:
            return found
    return _reduced(obj, cls)


def _by_hook(obj: Any, cls: type, hook: str, method: Any) -> MerkleNode:
    try:
        value = method.__get__(obj, cls)()
    except Exception as error:
        error.add_note(f"This was raised by {type_name(cls)}.{hook}().")
        raise
    if type(value) is cls:  # its token would be made of a token that is made of ...
        raise TypeError(
            f"{type_name(cls)}.{hook}() returned a {cls.__name__} again, which says nothing of its "
            "content. Let it return what results depend on, such as a tuple of attributes."
        )
    return MerkleNode(b"hook\0", (cls, value), (".__class__", f".{hook}()"))


def _reduced(obj: Any, cls: Any) -> bytes | MerkleNode:
    """Return what pickle would keep: a callable, its arguments, a state, items."""
    if cls.__module__ == "itertools":
        raise NoContent("what is left in an iterator changes as it is read")
    try:
        # Packages register reducers of exceptions there that keep tracebacks.
        known = not issubclass(cls, BaseException)
        reducer = copyreg.dispatch_table.get(cls) if known else None
        value = cls.__reduce_ex__(obj, 4) if reducer is None else reducer(obj)
        if type(value) is str:
            return _global(obj, value)
        function, args, state, items, pairs, setter = (*value, None, None, None, None)[:6]
        items = None if items is None else list(items)
        pairs = None if pairs is None else [(key, value) for key, value in pairs]
        if not callable(function) or type(args) is not tuple:
            raise NoContent("its __reduce_ex__(4) gives no callable with a tuple of arguments")
    except NoContent:
        raise
    except Exception as error:
        raise NoContent from error
    if issubclass(cls, set | frozenset) and _pickles_as_sets_do(cls):
        args = nested(unordered(b"elements", args[0]))  # its list is in order of hash
    if pairs is not None and not issubclass(cls, OrderedDict):
        pairs = nested(mapping(b"pairs", [k for k, _ in pairs], [v for _, v in pairs]))
    state = None if state is None else _state(state)
    head = b"reduced\0"
    if function is _NEW_OBJECT and args:  # said of nearly every object: cls.__new__(cls, *args)
        head, function, args = b"object\0", args[0], args[1:]
    return MerkleNode(head, (function, args, state, items, pairs, setter), _REDUCED)


_NEW_OBJECT = object().__reduce_ex__(4)[0]
_REDUCED = (".__reduce_ex__(4)[0]", ".__reduce_ex__(4)[1]", "", "", "", ".__reduce_ex__(4)[5]")


def _pickles_as_sets_do(cls: Any) -> bool:
    if cls.__reduce_ex__ is not object.__reduce_ex__:
        return False
    return any(cls.__reduce__ is base.__reduce__ for base in (set, frozenset))


def _state(state: Any) -> Any:
    """Return an instance's ``__dict__`` or (``__dict__``, slots) by attribute name."""
    if type(state) is dict:
        return nested(mapping(b"state", list(state), list(state.values()), ".{}"))
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:
        return MerkleNode(b"slots\0", [_state(each) for each in state], ("", ""))
    return MerkleNode(b"other state\0", (state,), (".__reduce_ex__(4)[2]",))


def _global(obj: Any, name: str) -> bytes:
    """Return the digest of an object that pickles as the name of a global, by that name."""
    module = pickle.whichmodule(obj, name)  # type: ignore[attr-defined]
    if resolve(module, name) is not obj:
        raise NoContent(f"it pickles as {module}.{name}, which is another object")
    return hashed(b"global\0", encoded((module, name)))


def _atom(value: Any) -> bytes:
    return hashed(b"atom\0", encoded(value))


def _text(value: str) -> bytes:
    return hashed_buffer(b"str\0", value.encode("utf-8", "surrogatepass"))


def _memory(view: memoryview) -> bytes:
    try:
        if "O" in view.format:
            raise NoContent("its bytes are addresses of objects")
        flat = view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()
        return hashed_buffer(b"memoryview\0" + encoded((view.format, view.shape)), flat)
    except ValueError as error:  # released
        raise NoContent from error


def _dict(value: Any) -> bytes | MerkleNode:
    return mapping(b"dict", list(value), list(value.values()))


def _builtin(function: Any) -> bytes | MerkleNode:
    """Return the parts or digest of a function written in C, or of such a method of an object."""
    owner = function.__self__
    if owner is None or type(owner) is types.ModuleType:
        module = function.__module__ or getattr(owner, "__name__", None)
        return hashed(b"builtin\0", encoded((module, function.__qualname__)))
    return MerkleNode(b"builtin method\0" + encoded(function.__name__), (owner,), (".__self__",))


def _module(module: types.ModuleType) -> bytes:
    name = module.__name__
    if type(name) is not str or sys.modules.get(name) is not module:
        raise NoContent("it is not in sys.modules, so that no name leads to it")
    return hashed(b"module\0", encoded(name))


def _enum_member(member: Any) -> MerkleNode:
    head = b"enum\0" + encoded(member._name_)
    return MerkleNode(head, (type(member), member._value_), (".__class__", ".value"))


def _no_object(_: object) -> bytes:
    raise NoContent("it is a bare object(), which only its identity tells from another")


def _attributes(tag: str, *names: str) -> Callable[[Any], MerkleNode]:
    """Return the rule for a type that consists of these attributes."""
    head = tag.encode() + b"\0"

    def rule(obj: Any) -> MerkleNode:
        return MerkleNode(head, [getattr(obj, name) for name in names], names, ".{}")

    return rule


def _cached_function(function: Any) -> MerkleNode:
    """Return the parts of a function under `functools.lru_cache`; cached values do not count."""
    children = (function.__wrapped__, function.cache_parameters())
    return MerkleNode(b"lru_cache\0", children, (".__wrapped__", ".cache_parameters()"))


_EXACT: dict[type, Callable[[Any], bytes | MerkleNode]] = {
    **dict.fromkeys((int, float, complex, bool, type(None), type(...)), _atom),
    type(NotImplemented): lambda value: hashed(b"NotImplemented\0"),
    object: _no_object,
    str: _text,
    bytes: lambda value: hashed_buffer(b"bytes\0", value),
    bytearray: lambda value: hashed_buffer(b"bytearray\0", value),
    memoryview: _memory,
    list: lambda value: sequence(b"list", value),
    tuple: lambda value: sequence(b"tuple", value),
    dict: _dict,
    set: lambda value: unordered(b"set", value),
    frozenset: lambda value: unordered(b"frozenset", value),
    slice: _attributes("slice", "start", "stop", "step"),
    type({}.keys()): lambda value: unordered(b"dict keys", value),
    type({}.items()): lambda value: unordered(b"dict items", value),
    type({}.values()): lambda value: sequence(b"dict values", list(value)),
    types.MappingProxyType: lambda value: MerkleNode(b"mappingproxy\0", (dict(value),), ("",)),
    types.FunctionType: lambda value: function_contents(value, contents),
    types.CodeType: code_contents,
    types.CellType: lambda value: closure_contents((value,)),
    types.MethodType: _attributes("method", "__func__", "__self__"),
    types.BuiltinFunctionType: _builtin,
    staticmethod: _attributes("staticmethod", "__func__"),
    classmethod: _attributes("classmethod", "__func__"),
    property: _attributes("property", "fget", "fset", "fdel"),
    # Its own reduce would count the lock that Python 3.11 keeps in it.
    functools.cached_property: _attributes("cached_property", "func", "attrname"),
    type(functools.lru_cache(len)): _cached_function,
}
_INHERITED: dict[type, Callable[[Any], bytes | MerkleNode]] = {
    type: lambda value: class_contents(value, contents),
    types.ModuleType: _module,
    enum.Enum: _enum_member,
}
