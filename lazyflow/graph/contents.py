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

import collections
import copyreg
import enum
import functools
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from lazyflow.graph.code_contents import (
    class_contents,
    code_contents,
    function_contents,
    importable,
)
from lazyflow.graph.digests import NoContent, Parts, hashed, type_name
from lazyflow.graph.library_contents import LIBRARIES

__all__ = ["contents", "sequence"]

_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
_SORTABLE = frozenset({int, str, bytes})
_COPIED_BYTES = 1 << 26  # str and bytes beyond this are hashed where they lie, not marshalled
_ITEM = "[{!r}]"


def contents(obj: Any) -> bytes | Parts:
    """The parts of any object, or its digest; `NoContent` where it has none."""
    cls = type(obj)
    rule = _EXACT.get(cls)
    if rule is not None:
        return rule(obj)
    for base in cls.__mro__:
        for hook in ("__lazyflow_tokenize__", "__dask_tokenize__"):
            method = base.__dict__.get(hook)
            if method is not None:
                return _by_hook(obj, cls, hook)
    for base in cls.__mro__:
        inherited = _INHERITED.get(base)
        if inherited is not None:
            return inherited(obj)
        module = base.__module__
        library = LIBRARIES.get(module.partition(".")[0]) if type(module) is str else None
        found = None if library is None else library(obj)
        if found is not None:
            return found
    return _reduced(obj, cls)
