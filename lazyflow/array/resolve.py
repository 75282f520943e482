"""Lengths that are known only when something was computed, found out when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lazyflow import evaluate
from lazyflow.array.expr import Chunks, Expr, Index
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.lowering import Lowering


class Sized(Expr):
    """A node whose lengths were found out."""

    __slots__ = ()

    def __init__(self, node: Expr, chunks: Chunks) -> None:
        super().__init__(node.dtype_or_lazy, chunks, (node,))

    def params(self) -> tuple[Any, ...]:
        return (self.chunks,)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return Sized(inputs[0], self.chunks)

    def make_block(self, low: Lowering, index: Index) -> Task:
        return low.block(self.inputs[0], index)


def resolved(nodes: Sequence[Expr]) -> list[Expr]:
    """Return equals of nodes whose lengths are all known; computes the shapes of their blocks."""
    from lazyflow.array.lowering import Lowering
    from lazyflow.array.optimize import optimize

    low = Lowering()
    wanted = [node for node in nodes if None in node.shape]
    shapes = []
    for node, made in zip(wanted, optimize(wanted), strict=True):
        shapes.append([low.task(block_shape, (block,), node) for block in low.blocks(made)])
    found = iter(evaluate.compute(shapes)[0]) if shapes else iter(())
    return [_sized(node, next(found)) if None in node.shape else node for node in nodes]


def block_shape(block: Any) -> tuple[int, ...]:
    """Return the shape of a block."""
    shape: tuple[int, ...] = block.shape
    return shape


def _sized(node: Expr, shapes: list[tuple[int, ...]]) -> Expr:
    chunks: list[tuple[int, ...]] = []
    step = len(shapes)
    for axis, count in enumerate(node.numblocks):
        step //= count
        chunks.append(tuple([shapes[i * step][axis] for i in range(count)]))
    made = Sized(node, tuple(chunks))
    made.place = node.place
    return made
