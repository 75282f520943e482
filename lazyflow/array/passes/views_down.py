"""The pass that moves views to the sources, so that only what is needed is read and computed.

What is seen through one view is made for that view alone. What is seen through several is made once
and each takes its part, unless next to nothing is repeated: else the overlap of two parts would be
made twice by each operation below, and more often by each that is further down.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, Recipe, answered, below, same, same_line
from lazyflow.array.nodes.rechunking import in_chunks
from lazyflow.array.nodes.selection import Pick, Selection
from lazyflow.array.nodes.views import View, view
from lazyflow.array.passes.fuse import CHEAP, QUICK

#: How a node is seen: through which view; None: as it is.
Seen = Selection | None


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


def _found(wanted: Sequence[Expr]) -> dict[tuple[Expr, Seen], Expr]:
    """Return each node, as seen through each view that it is wanted through."""
    return answered(wanted, partial(_recipe, _passed(wanted)), _give_lines)


def _passed(wanted: Sequence[Expr]) -> set[Expr]:
    """Return the nodes that views move through, the users of each being known before it."""
    nodes = below(wanted)
    steps = _steps(nodes)
    uses: dict[Expr, dict[Seen, None]] = {node: {} for node in nodes}
    for node in wanted:
        uses[node][None] = None
    passed = set()
    for node in reversed(nodes):
        seen = list(uses[node])
        if _repeats_little(node, seen, steps[node]):
            passed.add(node)
        for selection in seen:  # which gets longer where a view stays above the node itself
            for x, own in _recipe(passed, node, selection)[0]:
                how = None if own is None or own.is_identity(x.shape) else own
                if x is node and how not in uses[x]:
                    seen.append(how)
                uses[x][how] = None
    return passed


def _steps(nodes: list[Expr]) -> dict[Expr, int]:
    """Count the quick operations that make each node of views of others.

    More than CHEAP of them, and any that is not quick, are CHEAP + 1.
    """
    steps: dict[Expr, int] = {}
    for node in nodes:
        count = steps[node.inputs[0]] if isinstance(node, View) else 0
        if isinstance(node, Elementwise):
            count = 1 + sum([steps[x] for x in node.inputs]) if node.name in QUICK else CHEAP + 1
        steps[node] = min(count, CHEAP + 1)
    return steps


def _repeats_little(node: Expr, uses: list[Seen], steps: int) -> bool:
    """Tell whether a node can be made for each of its views alone, of which `steps` is the cost.

    Then no element is made more than twice on average, or three times by a single operation on what
    is no such one, whatever is above: a view from further up is one more here.
    """
    if len(uses) == 1:
        return True
    if not isinstance(node, Elementwise) or steps > CHEAP:
        return False
    whole = Selection.of_all(node.ndim)
    most = 3 if steps == 1 else 2
    return sum([_size(node, each or whole) for each in uses]) <= most * _size(node, whole)


def _size(node: Expr, selection: Selection) -> int:
    """Count the elements that a view takes of a node, as if axes of unknown lengths had one."""
    lengths = zip(selection.picks, node.shape, strict=True)
    return prod([
        (1 if n is None else n) if pick is None else pick.length if isinstance(pick, Pick) else 1
        for pick, n in lengths
    ])


def _give_lines(made: Expr, node: Expr, selection: Seen) -> None:
    is_slice = selection is not None and isinstance(made, View)  # which has a line of its own
    for x in made.inputs if is_slice else (made,):
        same_line(x, node)


def _recipe(passed: set[Expr], node: Expr, selection: Seen) -> Recipe:
    """Return what makes a node as seen through a view, which may move through `passed` nodes."""
    if isinstance(node, View):
        whole = node.selection if selection is None else node.selection.then(selection)
        seen = node if selection is None else View((node,), selection)
        chunks = seen.chunks  # which its user relies on
        return [(node.inputs[0], whole)], lambda found: in_chunks(found[0], chunks)
    if selection is None:
        return [(x, None) for x in node.inputs], partial(same, node)
    if selection.is_identity(node.shape):
        return [(node, None)], lambda found: found[0]
    if node in passed:
        through = node.through(selection)
        if through is not None:
            return through
    return [(node, None)], lambda found: view(found[0], selection)
