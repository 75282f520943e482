"""Views: slices, new and dropped axes, transposition and broadcasting, all as one node.

Any chain of them is one `View` of what is below, and moves down through most operations
(passes/rewrites.py), so that only what is needed is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, Recipe
from lazyflow.array.nodes.pieces import part_of
from lazyflow.array.nodes.selection import Pick, Selection, cut_lengths


class View(Expr):
    """A view of another node, whose chunks follow from the base's or are free as these."""

    __slots__ = ("memory_order", "selection")
    memory_order: tuple[int, ...]

    def __init__(
        self, inputs: tuple[Expr], selection: Selection, chunks: Chunks | None = None
    ) -> None:
        (base,) = inputs
        super().__init__(inputs, base.dtype_or_lazy, chunks or _chunks(base, selection))
        self.selection = selection
        self.memory_order = _order(base.memory_order, selection.axes)

    @property
    def free(self) -> bool:  # type: ignore[override]
        return _is_source(self.inputs[0])

    @property
    def name(self) -> str:
        (base,) = self.inputs
        kept = [axis for axis in self.selection.axes if axis >= 0]
        if any(
            pick is not None and (isinstance(pick, Pick) or base.shape[axis] != 1)
            for axis, pick in enumerate(self.selection.picks)
        ):
            return "getitem"
        if kept != sorted(kept):
            return "transpose"
        if len(kept) < len(self.selection.axes):
            return "broadcast_to"
        return base.name  # only axes of length 1 are gone, as after a reduction

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        (base,) = inputs
        return View((base,), self.selection, self.chunks if _is_source(base) else None)

    def with_chunks(self, chunks: Chunks) -> Expr:
        return View(self.inputs, self.selection, chunks)  # type: ignore[arg-type]


def _order(below: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the `memory_order` of a view of a node that has the order `below`."""
    kept, count = [below[axis] for axis in axes if axis >= 0], len(axes)
    if kept == sorted(kept):
        return tuple(range(count))
    new = iter(range(count - len(kept)))  # which come first
    order = iter([count - len(kept) + sorted(kept).index(axis) for axis in kept])
    return tuple([next(new if axis < 0 else order) for axis in axes])


def _is_source(node: Expr) -> bool:
    """Tell whether any part of a node can be read: a free node without inputs."""
    return node.free and not node.inputs


def view(base: Expr, selection: Selection) -> Expr:
    """Return a view of a node; a view of a view becomes one, an identity the node itself."""
    if isinstance(base, View):
        selection = base.selection.then(selection)
        base = base.inputs[0]
    if selection.is_identity(base.shape):
        return base
    return View((base,), selection) if base.kind is None else part_of(base, selection)


def seen(
    pairs: list[tuple[Expr, Selection]], make: Callable[[tuple[Expr, ...]], Expr], rest: Selection
) -> Recipe | None:
    """Return the result of `Expr.through` for a node that is made of views of its inputs.

    make
        Makes the node of these views; `rest` is then taken of it. None is returned if all views
        would be the inputs themselves.
    """
    if all(selection.is_identity(x.shape) for x, selection in pairs):
        return None
    return pairs, lambda found: view(make(found), rest)


def _chunks(base: Expr, selection: Selection) -> Chunks:
    found: list[tuple[Any, ...]] = []
    for axis in selection.axes:
        if axis < 0:
            found.append((~axis,))
            continue
        pick = selection.picks[axis]
        if pick is None:
            found.append(base.chunks[axis])
        else:
            assert isinstance(pick, Pick)
            found.append(cut_lengths(base.chunks[axis], pick))
    return tuple(found)


def transposed(node: Expr, axes: Iterable[Any] | None) -> Expr:
    """Return a view with the axes in another order; reversed, if none is given.

    Raises
    ------
    ValueError
        The number of axes differs, or an axis comes twice; `AxisError`: an axis does not exist.
    """
    order = tuple(reversed(range(node.ndim)) if axes is None else map(operator.index, axes))
    if len(order) != node.ndim:
        raise ValueError("axes don't match array")
    order = tuple([np.lib.array_utils.normalize_axis_index(axis, node.ndim) for axis in order])
    if len(set(order)) != node.ndim:
        raise ValueError("repeated axis in transpose")
    return view(node, Selection((None,) * node.ndim, order))


def with_axes(node: Expr, axes: Sequence[int]) -> Expr:
    """Return a view with the axes in another order; ~1 stands for a new one."""
    return view(node, Selection((None,) * node.ndim, tuple(axes)))
