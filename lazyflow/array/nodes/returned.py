"""Checks of what a user's function returns for a block: it must be as the array declares."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.bound_call import REMEDIES, BoundCall
from lazyflow.array.nodes.expr import Expr, MakesTasks
from lazyflow.array.nodes.lazy_dtype import LazyDtype
from lazyflow.array.nodes.selection import Index
from lazyflow.array.nodes.task_parts import named
from lazyflow.graph.task import Task

#: What to type, by the function of lazyflow that was called.
_SHAPES = {
    "map_blocks": "chunks= (and drop_axis=, new_axis= where axes go or come)",
    "blockwise": "adjust_chunks= and new_axes=",
    "reduction": "output_size= and keepdims=",
    "apply_gufunc": "the signature and output_sizes=",
    "apply_along_axis": "shape=",
    "from_delayed": "shape=",
}


class ReturnCheck:
    """Checks what a function returned for a block.

    name, asked_by
        The function, and which of lazyflow's it was given to.
    chunks, dtype
        Of the array that the blocks make; a length or the dtype may be None: not known.
    """

    def __init__(
        self, name: str, asked_by: str, chunks: Chunks, dtype: np.dtype[Any] | None
    ) -> None:
        self.name = name
        self.asked_by = asked_by
        self.chunks = chunks
        self.dtype = dtype

    def of(self, found: Any, index: Index) -> Any:
        """Return the block.

        Raises
        ------
        ValueError
            It has another shape than the array declares.
        TypeError
            It is not an array, or one of another dtype.
        """
        if not (hasattr(found, "shape") and hasattr(found, "dtype")):
            found = self._array(found, index)
        elif isinstance(found, np.generic):
            found = np.asarray(found)
        wanted = tuple([sizes[i] for sizes, i in zip(self.chunks, index, strict=True)])
        if found.shape != wanted and (
            len(found.shape) != len(wanted)
            or any(n is not None and n != m for n, m in zip(wanted, found.shape, strict=True))
        ):
            raise ValueError(
                f"{self.name} returned an array of shape {found.shape} for block {index}, but "
                f"{_shown(wanted)} was expected. Say what it returns by "
                f"{_SHAPES.get(self.asked_by, 'the shape')} of {self.asked_by}()."
            )
        if self.dtype is None or found.dtype == self.dtype:
            return found
        return self._cast(found, index)

    def _array(self, found: Any, index: Index) -> Any:
        if isinstance(found, bool | int | float | complex):
            return np.asarray(found)
        if found is None:
            raise TypeError(
                f"{self.name} returned None for block {index}, but an array was expected. Is its "
                "return missing, or what a method gives that edits in place, such as sort()?"
            )
        raise TypeError(
            f"{self.name} returned a {type(found).__name__} for block {index}, but an array was "
            f"expected. For blocks of other kinds use lazyflow.delayed on x.to_delayed()."
        )

    def _cast(self, found: Any, index: Index) -> Any:
        """Cast where no value changes: to another byte order, or to longer strings."""
        assert self.dtype is not None
        how = "safe" if found.dtype.kind == self.dtype.kind and self.dtype.kind in "SU" else "equiv"
        if np.can_cast(found.dtype, self.dtype, how):  # type: ignore[arg-type]
            return found.astype(self.dtype)
        raise TypeError(
            f"{self.name} returned {found.dtype} for block {index}, but {self.dtype} was "
            f"expected. Pass {REMEDIES.get(self.asked_by, 'dtype')}={str(found.dtype)!r} to "
            f"{self.asked_by}(), or have "
            f"{self.name} return .astype({str(self.dtype)!r})."
        )


def _shown(shape: tuple[int | None, ...]) -> str:
    text = ", ".join("any" if n is None else str(n) for n in shape)
    return f"({text},)" if len(shape) == 1 else f"({text})"


class SingleResult(Expr):
    """One of several results of a function.

    inputs
        A node whose blocks are tuples; further axes of it, or of the result, are one chunk.
    which
        The number of the result.
    call, count
        The user's function, whose results are checked, and how many there are; None: what lazyflow
        made needs no check.
    """

    __slots__ = ("call", "count", "which")

    def __init__(
        self, inputs: tuple[Expr, ...], which: int, dtype: np.dtype[Any] | LazyDtype,
        chunks: Chunks, call: BoundCall | None = None, count: int = 0,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.which = which
        self.call = call
        self.count = count

    @property
    def name(self) -> str:
        return self.inputs[0].name

    def key(self) -> Any:
        return self.which

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (several,) = self.inputs
        func = low.shared(self, "which", self._take)
        at = (*index, *[0] * several.ndim)[: several.ndim]
        return low.task(func, (index, low.block(several, at)), self)

    def _take(self) -> Any:
        check = None if self.call is None else ReturnCheck(
            self.name, self.call.asked_by, self.chunks, self.known_dtype
        )
        return named(self.name, take_result, check, self.which, self.count)


def take_result(
    check: ReturnCheck | None, which: int, count: int, index: Index, found: Any
) -> Any:
    """Return one of several results of a block, checked if a user's function returned it."""
    if check is None:
        return found[which]
    if not isinstance(found, tuple | list) or len(found) != count:
        what = f"{len(found)} results" if isinstance(found, tuple | list) else (
            f"a {type(found).__name__}"
        )
        raise ValueError(
            f"{check.name} returned {what} for block {index}, but the signature says a "
            f"tuple of {count}"
        )
    return check.of(found[which], index)
