"""The node of a group of operations that one task does on each block."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.kernels.program import Program
from lazyflow.array.nodes.expr import Expr


class Fused(Expr):
    """A program over nodes whose chunks fit.

    program
        Its inputs are the constants, then the nodes.
    consts
        0-d arrays.
    called
        What messages call it.
    why
        Why the group ends here, in words.
    """

    __slots__ = ("called", "consts", "program", "why")

    def __init__(
        self,
        inputs: tuple[Expr, ...],
        program: Program,
        consts: tuple[np.ndarray[Any, Any], ...],
        dtype: np.dtype[Any],
        chunks: Chunks,
        called: str,
        why: str,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.program = program
        self.consts = consts
        self.called = called
        self.why = why

    def key(self) -> Any:
        return self.program, *map(id, self.consts), self.chunks
