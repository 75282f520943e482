"""What is known of arrays only after a computation, found out when it is needed.

Most lengths of axes depend on masks only: then just the masks are computed. For all others the
blocks are computed, and their shapes are kept. Of a cast to texts or to dates the values may have
to tell how long the texts are, or what the unit is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from lazyflow.api import evaluate
from lazyflow.array.chunks import Chunks, chunks_of
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, below, rebuilt, same, same_line
from lazyflow.array.nodes.indexing.masks import Masked, note_counts
from lazyflow.array.nodes.lazy_dtype import LazyDtype
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.sources import Tasks
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.passes.pipeline import optimize
from lazyflow.graph.task import Task


class Sized(Expr):
    """A node whose lengths were found out."""

    __slots__ = ()

    def __init__(self, inputs: tuple[Expr, ...], chunks: Chunks) -> None:
        super().__init__(inputs, inputs[0].dtype_or_lazy, chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        return low.block(self.inputs[0], index)


def known(*values: Any) -> None:
    """Find out the unknown lengths of arrays, in one compute; other values are left alone."""
    unknown = [x for x in values if None in getattr(getattr(x, "_expr", None), "shape", ())]
    for x, expr in zip(unknown, resolved([x._expr for x in unknown]), strict=True):
        x._node = expr  # what a view is of stays as it is


def resolved(nodes: Sequence[Expr]) -> list[Expr]:
    """Return equals of nodes whose lengths are all known."""
    unknown = [node for node in nodes if None in node.shape]
    made = dict(zip(unknown, _by_blocks(_by_masks(unknown)), strict=True))
    return [made.get(node, node) for node in nodes]


def _by_masks(nodes: list[Expr]) -> list[Expr]:
    """Return equals in which the lengths that depend on masks are known; computes the masks."""
    origins = [node for node in below(nodes) if isinstance(node, Masked) and not node.counts]
    if not origins:
        return nodes
    masks = list(dict.fromkeys([x.inputs[1] for x in origins if x.mask_counts() is None]))
    for mask, counts in zip(masks, _computed(masks, np.count_nonzero), strict=True):
        note_counts(mask, tuple(map(int, counts)))  # so that all nodes with this mask know it

    def change(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
        try:
            made = same(node, inputs)
        except SizesNeeded:  # of an input beside these only the blocks tell the lengths
            return node
        if isinstance(node, Masked) and not node.counts:
            found = node.mask_counts()
            note_counts(made.inputs[1], found)
            return type(node)(made.inputs, node.first, found)
        return made

    return rebuilt(nodes, change)


def _by_blocks(nodes: list[Expr]) -> list[Expr]:
    """Return equals whose lengths are known; computes the shapes of their blocks."""
    unknown = [node for node in nodes if None in node.shape]
    found = iter(_computed(unknown, attrgetter("shape")))
    return [_sized(node, next(found)) if None in node.shape else node for node in nodes]


def dtype_of_cast(node: Expr, dtype: Any) -> np.dtype[Any]:
    """Return the dtype that a node has once it is cast to one that may leave a length or unit out.

    The type of numbers bounds how long they are as texts. Objects do not, and texts do not tell
    the unit of their dates: then they are computed, once more than their users do it.

    >>> import lazyflow.array as la
    >>> [str(dtype_of_cast(la.ones(1, dtype=kind).expr, str)) for kind in (int, object)]
    ['<U21', '<U1']
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "mM":
        is_open = np.datetime_data(dtype)[0] == "generic"
    else:
        is_open = not dtype.itemsize and dtype.names is None
    if not is_open:
        return dtype
    if node.dtype.kind == "O" or (node.dtype.kind in "SU" and dtype.kind == "M"):
        found = {*_computed([node], named("astype", _own_dtype, dtype))[0]} - {None}
        if found:
            return np.result_type(*found)
    return np.empty(0, node.dtype).astype(dtype).dtype


def kept(node: Expr, tasks: Sequence[Task]) -> Tasks:
    """Return the node of an array whose blocks are kept by tasks.

    A dtype that is not known by now, to which the blocks were not held, is what they have.
    """
    dtype: Any = node.known_dtype or LazyDtype(partial(_dtype_of_blocks, tasks, node.chunks))
    return Tasks(tasks, dtype, node.chunks, order=node.memory_order)


def _dtype_of_blocks(tasks: Sequence[Task], chunks: Chunks) -> np.dtype[Any]:
    found = {*_computed([Tasks(tasks, np.dtype(object), chunks)], attrgetter("dtype"))[0]}
    if len(found) == 1:
        return found.pop()
    if {dtype.kind for dtype in found} not in ({"S"}, {"U"}):
        raise TypeError(
            f"the dtype is not known: there are blocks of {', '.join(sorted(map(str, found)))}. "
            "Pass dtype= to the function that made them, such as map_blocks()."
        )
    return np.result_type(*found)


def _own_dtype(dtype: Any, block: Any) -> Any:
    return block.astype(dtype).dtype if block.size else None


def _computed(nodes: list[Expr], function: Any) -> list[Any]:
    """Return what a function gives for each block of some nodes."""
    if not nodes:
        return []
    low = Lowering()
    wanted = [
        [low.task(function, (block,), node) for block in low.blocks(made)]
        for node, made in zip(nodes, optimize(nodes), strict=True)
    ]
    found: list[Any] = evaluate.compute(wanted)[0]
    return found


def _sized(node: Expr, shapes: list[tuple[int, ...]]) -> Expr:
    made = Sized((node,), chunks_of(node.numblocks, shapes))
    same_line(made, node)
    return made
