"""Calls that were made before `delayed` could make them lazy: ``delayed(f(x))``."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import NamedTuple

__all__ = ["EagerCall", "eager_call"]


class EagerCall(NamedTuple):
    """The call in ``delayed(f(x))``: texts of f and of x, with literals as ``...``."""

    function: str
    arguments: str


@lru_cache(maxsize=256)
def eager_call(code: CodeType, lasti: int) -> EagerCall | None:
    """Return the call in the brackets of the ``delayed(...)`` at an offset in code, if one is.

    >>> from lazyflow import delayed
    >>> x = delayed(max(1, 2))
    >>> eager_call(x._code, x._lasti)
    EagerCall(function='max', arguments='..., ...')
    """
    source = _source(code, lasti)
    try:
        found = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError):  # it is a part of something else, or not Python
        return None
    if not isinstance(found, ast.Call) or len(found.args) != 1:
        return None
    inner = found.args[0]
    name = ast.unparse(found.func).rpartition(".")[2]
    if name != "delayed" or not isinstance(inner, ast.Call):
        return None
    inner = _WithoutLiterals().visit(inner)
    arguments = [*map(ast.unparse, inner.args), *map(ast.unparse, inner.keywords)]
    return EagerCall(ast.unparse(inner.func), ", ".join(arguments))


class _WithoutLiterals(ast.NodeTransformer):
    """Leaves values out, which may be nobody's business: advice stands on pages."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant(...)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return ast.Constant(...)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.operand, ast.Constant):
            return ast.Constant(...)
        return self.generic_visit(node)  # type: ignore[return-value]


def _source(code: CodeType, lasti: int) -> str:
    """Return the text of the expression at an offset in code; empty if it can't be read."""
    where = next(islice(code.co_positions(), lasti // 2, None), (None,) * 4)
    first, last, start, stop = where
    if first is None or last is None or start is None or stop is None:
        return ""
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")
