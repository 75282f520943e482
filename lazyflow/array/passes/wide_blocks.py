"""The pass that gives products wide blocks, where nobody sees their chunks."""

from __future__ import annotations

from collections.abc import Sequence

from lazyflow.array.nodes.contraction import in_wide_blocks
from lazyflow.array.nodes.expr import Expr


def wide_blocks(wanted: Sequence[Expr], keep: bool = False) -> Sequence[Expr]:
    """Return products in blocks that are wide, which are faster to multiply.

    >>> import lazyflow.array as la
    >>> x = la.ones((800, 800), chunks=100)
    >>> wide_blocks([(x @ x).expr])[0].numblocks
    (8, 1)
    """
    return wanted if keep else [in_wide_blocks(node) for node in wanted]


def explain_wide(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say which products have other blocks."""
    if keep:
        return "the chunks have to stay"
    changed = [
        f"{new.name} has {' x '.join(map(str, new.numblocks))} blocks instead of "
        f"{' x '.join(map(str, old.numblocks))}"
        for old, new in zip(before, after, strict=True) if old.chunks != new.chunks
    ]
    return "; ".join(changed) or "no product that has to be wider"
