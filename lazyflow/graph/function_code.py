"""The code of functions: the names it reads, their objects, and the functions it wraps."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any

MOST_WRAPPERS = 100  # a guess; a function may be made to wrap itself
_READS_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})

#: Returns the fields of a code object that results depend on; its constants are apart.
code_fields = attrgetter(
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_flags",
    "co_exceptiontable",
)


def resolve(module: str, qualname: str) -> Any:
    """Return the object that a name stands for in the modules loaded so far, or None."""
    resolved: Any = sys.modules.get(module)
    try:
        for name in qualname.split("."):
            resolved = getattr(resolved, name)
    except Exception:  # a module's or metaclass's __getattr__ is the user's code
        return None
    return resolved


def globals_read(code: CodeType) -> Iterator[str]:
    """Yield the names that the code looks up outside its variables, inner functions included."""
    stack = [code]
    while stack:
        top = stack.pop()
        for instruction in dis.get_instructions(top):
            if instruction.opname in _READS_GLOBAL:
                yield instruction.argval
        stack.extend(value for value in top.co_consts if type(value) is CodeType)


def wrapped_functions(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that a decorated function wraps, outer ones first."""
    inner: Any = function
    for _ in range(MOST_WRAPPERS):
        inner = inner.__dict__.get("__wrapped__")
        if type(inner) is not FunctionType:
            return
        yield inner
