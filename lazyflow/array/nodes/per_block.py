"""The node of a function that gets the blocks at one place of all its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.graph.task import Task


class PerBlock(Expr):
    """The results of a function of the blocks of its inputs, place by place.

    func
        Called with a block of each input. The node is equal to others of the same function.

    Notes
    -----
    An input of fewer axes, or with one block along an axis, gives the same block everywhere; the
    first axes of one of more axes are one block each.
    """

    __slots__ = ("func",)

    def __init__(
        self, inputs: tuple[Expr, ...], func: Any, dtype: np.dtype[Any], chunks: Chunks
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.func = func

    @property
    def name(self) -> str:
        return str(self.func.__name__)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        blocks = []
        for x in self.inputs:
            own = ((0,) * x.ndim + index)[len(index):]
            at = [0 if len(c) == 1 else i for c, i in zip(x.chunks, own, strict=True)]
            blocks.append(low.block(x, tuple(at)))
        return low.task(self.func, blocks, self)
