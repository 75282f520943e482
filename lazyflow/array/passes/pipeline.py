"""The passes over expressions, in one list, and `optimize`, which runs them.

Each pass takes all wanted nodes at once and returns equals of them that cost less. Running a pass
again changes nothing.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.from_array(np.arange(12.0), chunks=4)
    >>> print(explain_passes([(x * 2 + 1)[5:7].expr]))
    merge equal: 6 nodes, all of them different
    views down: getitem goes below multiply, add
    rechunks down: no rechunk is needed less
    merge equal: 6 nodes, all of them different
    wide blocks: the chunks have to stay
    fuse: 2 operations run as 1 group
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lazyflow.array.nodes.expr import Expr, Roots, are_same, hand_down, same_line
from lazyflow.array.nodes.rechunking import in_chunks
from lazyflow.array.passes.equal import explain_merges, merge_equal
from lazyflow.array.passes.fuse import explain_groups, fuse
from lazyflow.array.passes.rechunks_down import explain_rechunks, rechunks_down
from lazyflow.array.passes.views_down import explain_moves, views_down
from lazyflow.array.passes.wide_blocks import explain_wide, wide_blocks
from lazyflow.errors import InputMutated
from lazyflow.graph.task import line_of
from lazyflow.schedulers.core.snapshots import COPIED_UP_TO, Watch
from lazyflow.store.sizes import format_bytes

Nodes = Sequence[Expr]


class ExprPass(NamedTuple):
    """One rewriting of expressions.

    Attributes
    ----------
    name
        What the pass does, in two words.
    apply
        Returns the rewritten nodes. Its further arguments tell whether the chunks of the wanted
        nodes must stay, and whether operations are fused.
    explain
        Says in words what the pass did to the first nodes to get the second ones; its third
        argument tells whether the chunks must stay.
    """

    name: str
    apply: Callable[[Nodes, bool, bool], Nodes]
    explain: Callable[[Nodes, Nodes, bool], str]


#: Equal nodes are merged once more where moves of views and of rechunks have made some.
PASSES: list[ExprPass] = [
    ExprPass("merge equal", lambda nodes, keep, fusion: merge_equal(nodes), explain_merges),
    ExprPass("views down", lambda nodes, keep, fusion: views_down(nodes), explain_moves),
    ExprPass("rechunks down", lambda nodes, keep, fusion: rechunks_down(nodes), explain_rechunks),
    ExprPass("merge equal", lambda nodes, keep, fusion: merge_equal(nodes), explain_merges),
    ExprPass("wide blocks", lambda nodes, keep, fusion: wide_blocks(nodes, keep), explain_wide),
    ExprPass("fuse", fuse, explain_groups),
]


def optimize(wanted: Nodes, keep: bool = True, fusion: bool = True) -> Roots:
    """Return what to lower for some wanted nodes.

    Parameters
    ----------
    wanted
        Nodes.
    keep
        Their chunks must stay as they are.
    fusion
        False: every operation becomes tasks of its own.
    """
    nodes = Roots(wanted)
    hand_down(nodes.order)
    for node in nodes.order:
        for watch in node.watches:
            _verify(watch, node)
    seen: dict[str, Roots] = {}
    for each in PASSES:
        if seen.get(each.name) is not nodes:
            found = each.apply(nodes, keep, fusion)
            nodes = seen[each.name] = nodes if are_same(found, nodes) else Roots(found)
    found = list(nodes)
    if keep:  # a view that moved down may have other chunks than it had on top
        found = [in_chunks(new, node.chunks) for new, node in zip(nodes, wanted, strict=True)]
    for new, node in zip(found, wanted, strict=True):
        same_line(new, node)
    return nodes if are_same(found, nodes) else Roots(found)


def _verify(watch: Watch, node: Expr) -> None:
    """Raise InputMutated if an array that a node reads was written into since it was made."""
    if not watch.has_changed():
        return
    place = ""
    if node.line is not None:
        code, at = node.line
        place = f" Made at {code.co_filename}:{line_of(code, at)} in {code.co_qualname}"
    raise InputMutated(
        f"the program wrote into an array ({watch.array.dtype}, shape {watch.array.shape}) that "
        f"{node.name} reads after the expression was made and before it was computed. Operands of "
        f"up to {format_bytes(COPIED_UP_TO)} are copied when an expression is made of them, larger "
        f"ones are read where they are: give it a copy, x + b.copy(), or compute before the array "
        f"is filled again. To read what is there when it is computed: x + la.from_array(b).{place}"
    )


def explain_passes(wanted: Nodes, keep: bool = True, fusion: bool = True) -> str:
    """Return a line for each pass: what it does to some wanted nodes."""
    nodes: Nodes = Roots(wanted)
    words = []
    for each in PASSES:
        before, nodes = nodes, Roots(each.apply(nodes, keep, fusion))
        words.append(f"{each.name}: {each.explain(before, nodes, keep)}")
    return "\n".join(words)
