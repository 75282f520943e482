"""Passes over expressions: cheaper equals, found by looking at all wanted arrays at once.

Each pass takes and returns a list of nodes. What the last one, fusion, does is in fuse.py.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.from_array(np.arange(12.0), chunks=4)
    >>> y = (x * 2 + 1)[5:7]
    >>> views_down([y.expr])[0].inputs[0].inputs[0]  # only what is needed is read
    <getitem float64 2>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyflow.array.nodes.align import share
from lazyflow.array.nodes.contraction import in_wide_blocks
from lazyflow.array.nodes.elementwise import Elementwise
from lazyflow.array.nodes.expr import Expr, below, rebuilt, same, same_line
from lazyflow.array.nodes.rechunking import Rechunk, in_chunks
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.user_lines import hand_down
from lazyflow.array.nodes.views import View, view
from lazyflow.array.passes.fuse import QUICK, fuse

Pass = Callable[[Sequence[Expr]], list[Expr]]


def merge_equal(wanted: Sequence[Expr]) -> list[Expr]:
    """Make equal parts one, so that they run once.

    >>> import lazyflow.array as la
    >>> x = la.ones(4, chunks=2)
    >>> one, other = merge_equal([(x + 1).expr, (x + 1).expr])
    >>> one is other
    True
    """
    known: dict[Any, Expr] = {}

    def change(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        key = (type(node), node.key(), *map(id, inputs))
        found = known.get(key)
        if found is None:
            found = known[key] = same(node, inputs)
        return found

    return rebuilt(wanted, change)


def views_down(wanted: Sequence[Expr]) -> list[Expr]:
    """Move slices, transpositions and new axes to the sources: the rest is never computed.

    >>> import lazyflow.array as la
    >>> x = la.ones((4, 6), chunks=2)
    >>> views_down([(-x).T[1].expr])
    [<negative float64 4>]
    """
    return _ViewsDown(wanted).result()


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
            chunks = (node if selection is None else View((node,), selection)).chunks
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


def rechunks_down(wanted: Sequence[Expr]) -> list[Expr]:
    """Drop rechunks that cancel, and those of what can be made in any chunks.

    >>> import lazyflow.array as la
    >>> x = la.ones(8, chunks=2)
    >>> (made,) = rechunks_down([(x + 1).rechunk(4).rechunk(8).expr])
    >>> made, made.chunks
    (<add float64 8>, ((8,),))
    """
    free: dict[Expr, bool] = {}

    def change(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        made = same(node, inputs)
        if isinstance(made, Rechunk) and free.get(made.inputs[0]):
            made = _everywhere(made.inputs[0], made.chunks, free)
        free[made] = made.free or (
            isinstance(made, Elementwise) and all(free.get(x, False) for x in made.inputs)
        )
        return made

    return rebuilt(wanted, change)


def _everywhere(node: Expr, chunks: Any, free: dict[Expr, bool]) -> Expr:
    """Return an elementwise node in other chunks, made by giving them to what it reads."""
    done: dict[tuple[Expr, Any], Expr] = {}
    stack = [(node, chunks, False)]
    while stack:
        one, sizes, ready = stack.pop()
        if (one, sizes) in done:
            continue
        if not isinstance(one, Elementwise):
            done[one, sizes] = in_chunks(one, sizes)
            continue
        wanted = [(x, share(x, one.shape, sizes)) for x in one.inputs]
        if not ready:
            stack.append((one, sizes, True))
            stack.extend((*each, False) for each in wanted)
            continue
        made = one.with_inputs(tuple([done[each] for each in wanted]))
        same_line(made, one)
        free[made] = True
        done[one, sizes] = made
    return done[node, chunks]


PASSES: list[Pass] = [merge_equal, views_down, rechunks_down, merge_equal]


def optimize(wanted: Sequence[Expr], keep: bool = True, fusion: bool = True) -> list[Expr]:
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
    hand_down(below(wanted))
    nodes = list(wanted)
    for one in PASSES:
        nodes = one(nodes)
    if not keep:
        nodes = [in_wide_blocks(node) for node in nodes]
    made = fuse(nodes, keep, fusion)
    if keep:  # a view that moved down may have other chunks than it had on top
        made = [in_chunks(new, node.chunks) for new, node in zip(made, wanted, strict=True)]
    for new, node in zip(made, wanted, strict=True):
        same_line(new, node)
    return made

