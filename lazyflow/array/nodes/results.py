"""Nodes of functions that return several results for each block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.bound_call import Call
from lazyflow.array.nodes.expr import Expr, Index
from lazyflow.array.nodes.returned import Outcome
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from lazyflow.array.nodes.lowering import Lowering


class Result(Expr):
    """One of several results of a function."""

    __slots__ = ("call", "count", "which")

    def __init__(
        self, several: Expr, call: Call, which: int, count: int, dtype: Any, chunks: Chunks
    ) -> None:
        super().__init__(dtype, chunks, (several,))
        self.call = call
        self.which = which
        self.count = count

    @property
    def name(self) -> str:
        return self.call.name

    def params(self) -> tuple[Any, ...]:
        return (self.which,)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return Result(
            inputs[0], self.call, self.which, self.count, self.dtype_or_lazy, self.chunks
        )

    def make_block(self, low: Lowering, index: Index) -> Task:
        (several,) = self.inputs
        outcome = Outcome(self.name, self.call.asked_by, self.chunks, self.known_dtype)
        func = low.shared(self, "which", Which, outcome, self.which, self.count)
        return low.task(func, (index, low.block(several, index[: several.ndim])), self)


class Which:
    """Takes one of several results of a block."""

    def __init__(self, outcome: Outcome, which: int, count: int) -> None:
        self.__name__ = outcome.name
        self.outcome = outcome
        self.which = which
        self.count = count

    def __call__(self, index: Index, found: Any) -> Any:
        if not isinstance(found, tuple | list) or len(found) != self.count:
            what = f"{len(found)} results" if isinstance(found, tuple | list) else (
                f"a {type(found).__name__}"
            )
            raise ValueError(
                f"{self.outcome.name} returned {what} for block {index}, but the signature says a "
                f"tuple of {self.count}"
            )
        return self.outcome.of(found[self.which], index)
