"""What Python's own objects consist of, for `lazyflow.graph.tokens`.

`contents` says it for any object, by the first rule that fits:

1. atoms and builtin containers, of exactly these types, by value. Runs of atoms are encoded by
   `marshal` in one call: version 2, the last whose bytes never depend on reference counts or on
   interned strings. Dicts and sets without order: sorted by key where keys are all str, all int or
   all bytes, else as a multiset of digests;
2. ``__lazyflow_tokenize__()``, else ``__dask_tokenize__()``, with the object's class;
3. functions and classes (`lazyflow.graph.code_contents`), enum members, bound methods, modules;
4. NumPy, SciPy, pandas, Numba (`lazyflow.graph.library_contents`);
5. what ``copyreg`` or ``__reduce_ex__(4)`` returns.

All look-ups go through ``type(obj)``, so that ``__getattr__``, ``__eq__``, ``__len__`` and
``__class__`` of a hostile object are never called.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import marshal
import pickle
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lazyflow.graph.code_contents import (
    class_contents,
    code_contents,
    function_contents,
    resolve,
)
from lazyflow.graph.containers import encoded, mapping, nested, sequence, unordered
from lazyflow.graph.digests import NoContent, Parts, hashed, hashed_buffer
from lazyflow.graph.library_contents import LIBRARIES

__all__ = ["contents"]

_HOOKS = ("__lazyflow_tokenize__", "__dask_tokenize__")


def contents(obj: Any) -> bytes | Parts:
    """The parts of any object, or its digest; `NoContent` where it has none."""
    cls = type(obj)
    rule = _EXACT.get(cls)
    if rule is not None:
        return rule(obj)
    for hook in _HOOKS:
        for base in cls.__mro__:
            method = base.__dict__.get(hook)
            if method is not None:
                return _by_hook(obj, cls, hook, method)
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


def _by_hook(obj: Any, cls: type, hook: str, method: Any) -> Parts:
    try:
        value = method.__get__(obj, cls)()
    except Exception as error:
        error.add_note(f"This was raised by {type_name(cls)}.{hook}().")
        raise
    return Parts(b"hook\0", (cls, value), (".__class__", f".{hook}()"))


def _reduced(obj: Any, cls: type) -> bytes | Parts:
    """What pickle would keep: a callable, its arguments, a state, items."""
    if cls.__module__ == "itertools":
        raise NoContent("what is left in an iterator changes as it is read")
    try:
        reducer = copyreg.dispatch_table.get(cls)
        value = cls.__reduce_ex__(obj, 4) if reducer is None else reducer(obj)
        if type(value) is str:
            return _global(obj, value)
        function, args, state, items, pairs, setter = (*value, None, None, None, None)[:6]
        items = None if items is None else list(items)
        pairs = None if pairs is None else list(pairs)
    except NoContent:
        raise
    except Exception as error:
        raise NoContent(f"{type(error).__name__}: {error}") from error
    if issubclass(cls, set | frozenset) and cls.__reduce__ in (set.__reduce__, frozenset.__reduce__):
        args = nested(unordered(b"elements", args[0]))
    if pairs is not None and not issubclass(cls, OrderedDict):
        pairs = nested(mapping(b"pairs", [k for k, _ in pairs], [v for _, v in pairs]))
    labels = [f".__reduce_ex__(4)[{i}]" for i in range(6)]
