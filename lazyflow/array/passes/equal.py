"""The pass that makes equal nodes one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lazyflow.array.nodes.expr import Expr, below, rebuilt, same


def merge_equal(wanted: Sequence[Expr]) -> Sequence[Expr]:
    """Make equal parts one, so that they run once.

    >>> import lazyflow.array as la
    >>> x = la.ones(4, chunks=2)
    >>> one, other = merge_equal([(x + 1).expr, (x + 1).expr])
    >>> one is other
    True
    """
    alike = Counter([(type(node), node.shape) for node in below(wanted)])
    if len(alike) == alike.total():
        return wanted
    known: dict[Any, Expr] = {}

    def change(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        if alike[type(node), node.shape] == 1:
            return same(node, inputs)
        key = (type(node), node.key(), *map(id, inputs))
        found = known.get(key)
        if found is None:
            found = known[key] = same(node, inputs)
        return found

    return rebuilt(wanted, change)


def explain_merges(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say how many nodes were equal to others."""
    count = len(below(before))
    fewer = count - len(below(after))
    if not fewer:
        return f"{count:,} nodes, all of them different"
    return f"{fewer:,} of {count:,} nodes are equal to others, and join them"
