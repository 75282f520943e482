"""The pass that moves views to the sources, so that only what is needed is read and computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, Recipe, answered, below, same, same_line
from lazyflow.array.nodes.rechunking import in_chunks
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import View, view
from lazyflow.array.passes.fuse import QUICK


def views_down(wanted: Sequence[Expr]) -> Sequence[Expr]:
    """Move slices, transpositions and new axes to the sources: the rest is never computed.

    >>> import lazyflow.array as la
    >>> x = la.ones((4, 6), chunks=2)
    >>> views_down([(-x).T[1].expr])
    [<negative float64 4>]
    """
    if not any(isinstance(node, View) and _may_move(node) for node in below(wanted)):
        return wanted
    found = _found(wanted)
    return [found[node, None] for node in wanted]


def explain_moves(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say below which operations each kind of view was moved, and where one stays.

    One stays above a node that has other users, or needs all of what is below it.
    """
    found = _found(before)
    passed: dict[str, dict[str, None]] = {}
    for (node, selection), made in found.items():
        if selection is None or not node.inputs or isinstance(node, View):
            continue
        if not selection.is_identity(node.shape):
            stays = isinstance(made, View) and made.inputs[0] is found.get((node, None))
            does = "stays above" if stays else "goes below"
            passed.setdefault(f"{View((node,), selection).name} {does}", {})[node.name] = None
    words = [f"{does} {', '.join(names)}" for does, names in passed.items()]
    return "; ".join(words) or "no view is above an operation"


def _may_move(node: View) -> bool:
    base = node.inputs[0]
    return (
        isinstance(base, View) or base.through(node.selection) is not None
        or node.selection.is_identity(base.shape)
    )


def _found(wanted: Sequence[Expr]) -> dict[tuple[Expr, Selection | None], Expr]:
    """Return each node, as seen through each view that it is wanted through."""
    used: set[Expr] = set()
    shared: set[Expr] = set()
    for x in (*wanted, *[x for node in below(wanted) for x in node.inputs]):
        (shared if x in used else used).add(x)
    return answered(wanted, partial(_recipe, shared), _give_lines)


def _give_lines(made: Expr, node: Expr, selection: Selection | None) -> None:
    is_slice = selection is not None and isinstance(made, View)  # which has a line of its own
    for x in made.inputs if is_slice else (made,):
        same_line(x, node)


def _recipe(shared: set[Expr], node: Expr, selection: Selection | None) -> Recipe:
    """Return what makes a node as seen through a view; `shared` nodes have several users."""
    if isinstance(node, View):
        whole = node.selection if selection is None else node.selection.then(selection)
        seen = node if selection is None else View((node,), selection)
        chunks = seen.chunks  # which its user relies on
        return [(node.inputs[0], whole)], lambda found: in_chunks(found[0], chunks)
    if selection is None:
        return [(x, None) for x in node.inputs], partial(same, node)
    if selection.is_identity(node.shape):
        return [(node, None)], lambda found: found[0]
    if node not in shared or (isinstance(node, Elementwise) and node.name in QUICK):
        through = node.through(selection)
        if through is not None:
            return through
    return [(node, None)], lambda found: view(found[0], selection)
