"""The pass that moves views to the sources, so that only what is needed is read and computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, below, same, same_line
from lazyflow.array.nodes.rechunking import in_chunks
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import View, view
from lazyflow.array.passes.fuse import QUICK


def views_down(wanted: Sequence[Expr]) -> list[Expr]:
    """Move slices, transpositions and new axes to the sources: the rest is never computed.

    >>> import lazyflow.array as la
    >>> x = la.ones((4, 6), chunks=2)
    >>> views_down([(-x).T[1].expr])
    [<negative float64 4>]
    """
    return _ViewsDown(wanted).result()


def explain_moves(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say below which operations each kind of view was moved, and where one stays.

    One stays above a node that has other users, or needs all of what is below it.
    """
    moves = _ViewsDown(before)
    moves.result()
    passed: dict[str, dict[str, None]] = {}
    for (node, selection), made in moves.found.items():
        if selection is None or not node.inputs or isinstance(node, View):
            continue
        if not selection.is_identity(node.shape):
            stays = isinstance(made, View) and made.inputs[0] is moves.found.get((node, None))
            does = "stays above" if stays else "goes below"
            passed.setdefault(f"{View((node,), selection).name} {does}", {})[node.name] = None
    words = [f"{does} {', '.join(names)}" for does, names in passed.items()]
    return "; ".join(words) or "no view is above an operation"


class _ViewsDown:
    """Finds each node as seen through a view, by a stack of (node, view) still to be found."""

    def __init__(self, wanted: Sequence[Expr]) -> None:
        self.wanted = wanted
        self.users: dict[Expr, int] = {}
        for node in below(wanted):
            for x in node.inputs:
                self.users[x] = self.users.get(x, 0) + 1
        for node in wanted:
            self.users[node] = self.users.get(node, 0) + 1
        self.found: dict[tuple[Expr, Selection | None], Expr] = {}

    def result(self) -> list[Expr]:
        stack: list[tuple[Expr, Selection | None]] = [(node, None) for node in self.wanted]
        while stack:
            request = stack[-1]
            if request in self.found:
                stack.pop()
                continue
            needed, make = self._step(*request)
            missing = [each for each in needed if each not in self.found]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            made = make([self.found[each] for each in needed])
            node, selection = request
            sliced = selection is not None and isinstance(made, View)
            for x in made.inputs if sliced else (made,):  # the slice has a line of its own
                same_line(x, node)
            self.found[request] = made
        return [self.found[node, None] for node in self.wanted]

    def _step(self, node: Expr, selection: Selection | None) -> tuple[list[Any], Any]:
        """Return what has to be found first, and what makes the node of it."""
        if isinstance(node, View):
            whole = node.selection if selection is None else node.selection.then(selection)
            seen = node if selection is None else View((node,), selection)
            chunks = seen.chunks  # which its user relies on
            return [(node.inputs[0], whole)], lambda found: in_chunks(found[0], chunks)
        if selection is None:
            return [(x, None) for x in node.inputs], lambda found: same(node, tuple(found))
        if selection.is_identity(node.shape):
            return [(node, None)], lambda found: found[0]
        if self.users.get(node, 0) < 2 or (isinstance(node, Elementwise) and node.name in QUICK):
            through = node.through(selection)
            if through is not None:
                return through
        return [(node, None)], lambda found: view(found[0], selection)
