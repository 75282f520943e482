"""The node of a user's function that is called once for each block, and its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import Chunks, length
from lazyflow.array.nodes.bound_call import BoundCall, ones
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.lazy_dtype import LazyDtype
from lazyflow.array.nodes.returned import ReturnCheck
from lazyflow.array.nodes.task_parts import BlockPosition
from lazyflow.graph.arguments import read_only
from lazyflow.graph.task import Task
from lazyflow.schedulers.core.snapshots import Watch


class AxisBlocks(NamedTuple):
    """Which blocks of an axis a function gets for a block of the result.

    axis
        The axis of the result whose block has the same number; None: all blocks of this one.
    together
        How many neighbours are given together; None: one, and it is not in a list.
    total
        How many blocks the axis has, or, if it has one that is given again and again, others have.
    alone
        It has one block.
    """

    axis: int | None
    together: int | None
    total: int
    alone: bool

    @property
    def is_list(self) -> bool:
        """Whether several blocks are given."""
        return self.axis is None or self.together is not None

    def numbers(self, index: Index) -> range:
        """Return the numbers of the blocks."""
        if self.axis is None:
            return range(self.total)
        at = index[self.axis]
        if self.together is None:
            return range(at, at + 1)
        return range(at * self.together, min((at + 1) * self.together, self.total))


class InputBlocks(NamedTuple):
    """The blocks of one input that a function gets: in nested lists, or concatenated."""

    axes: tuple[AxisBlocks, ...]
    concatenate: bool

    def of(self, low: MakesTasks, node: Expr, index: Index, before: Index = ()) -> Any:
        """Return the task of a block, or nested lists of such tasks.

        before
            The numbers of the block along the first axes, where they are chosen already.
        """
        if len(before) == len(self.axes):
            return low.block(node, before)
        along = self.axes[len(before)]
        numbers: Sequence[int] = along.numbers(index)
        if along.alone:
            again = along.is_list and not self.concatenate
            numbers = [0] * (len(numbers) if again else 1)
        found = [self.of(low, node, index, (*before, i)) for i in numbers]
        return found if along.is_list else found[0]

    def given(self, blocks: Any) -> Any:
        """Return the argument of the function, in a task."""
        lists = [axis for axis, along in enumerate(self.axes) if along.is_list]
        if not lists or not self.concatenate:
            return blocks
        found = joined(blocks, lists)
        return read_only(found) if isinstance(found, np.ndarray) else found

    def fake(self, dtype: np.dtype[Any]) -> Any:
        """Return made-up blocks, with which the function is tried to find a dtype out."""
        found: Any = ones((1,) * len(self.axes), dtype)
        if not self.concatenate:
            for along in self.axes:
                if along.is_list:
                    found = [found]
        return found


def joined(blocks: Any, axes: Sequence[int]) -> Any:
    """Return one array for nested lists of arrays, whose levels are these axes.

    >>> joined([[np.ones((1, 2)), np.ones((1, 3))]], (0, 1)).shape
    (1, 5)
    """
    first, *others = axes
    if others:
        blocks = [joined(each, others) for each in blocks]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=first)


class BlockCalls(Expr):
    """A user's function, called for each block.

    shares
        For each input what of it the function gets.
    checked
        What it returns has to be as the array says; else it may be anything.
    """

    __slots__ = ("call", "checked", "shares")

    def __init__(
        self,
        inputs: tuple[Expr, ...],
        call: BoundCall,
        shares: tuple[InputBlocks, ...],
        dtype: np.dtype[Any] | LazyDtype,
        chunks: Chunks,
        checked: bool = True,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.call = call
        self.shares = shares
        self.checked = checked

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def watches(self) -> Sequence[Watch]:  # type: ignore[override]
        return self.call.watches

    def key(self) -> Any:
        return id(self.call)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        func = low.shared(self, "call", BlockCall, self)
        shares = [
            share.of(low, node, index)
            for share, node in zip(self.shares, self.inputs, strict=True)
        ]
        return low.task(func, (BlockPosition(index, ()), *self.call.inputs, *shares), self)


class BlockCall:
    """The function of the tasks: calls the user's function for one block."""

    def __init__(self, node: BlockCalls) -> None:
        self.call = node.call
        self.__name__ = node.name
        self.shares = node.shares
        self.outcome = None
        if node.checked:
            self.outcome = ReturnCheck(node.name, node.call.asked_by, node.chunks, node.known_dtype)
        self.infos = None
        if node.call.takes_info:
            taken = tuple([x.chunks for x in node.inputs])
            self.infos = BlockInfos(node.call, node.shares, taken, node.chunks, node.known_dtype)

    def __call__(self, where: BlockPosition, *given: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        count = len(self.call.inputs)
        blocks = [
            share.given(each) for share, each in zip(self.shares, given[count:], strict=True)
        ]
        args, kwargs = self.call.arguments(given[:count], blocks)
        if self.call.takes_id:
            kwargs["block_id"] = where.index
        if self.infos is not None:
            kwargs["block_info"] = self.infos.at(where.index)
        try:
            found = self.call.func(*args, **kwargs)
        except BaseException as error:
            BaseException.add_note(
                error, f"lazyflow: {self.call.name} was called for block {where.index}"
            )
            raise
        return found if self.outcome is None else self.outcome.of(found, where.index)


class BlockInfos:
    """The argument block_info of functions that have this parameter."""

    def __init__(
        self, call: BoundCall, shares: tuple[InputBlocks, ...], taken: tuple[Chunks, ...],
        chunks: Chunks, dtype: np.dtype[Any] | None,
    ) -> None:
        self.places = call.places
        self.shares = shares
        self.taken = taken
        self.chunks = chunks
        self.dtype = dtype
        self.bounds = [_bounds(each) for each in taken]
        self.out_bounds = _bounds(chunks)

    def at(self, index: Index) -> dict[int | None, dict[str, Any]]:
        """Return block_info for a block."""
        found: dict[int | None, dict[str, Any]] = {}
        for place, share, chunks, bounds in zip(
            self.places, self.shares, self.taken, self.bounds, strict=True
        ):
            spans = [
                range(1) if along.alone else along.numbers(index) for along in share.axes
            ]
            found[place] = {
                **_whole(chunks),
                "array-location": [
                    (edge[span.start], edge[span.stop])
                    for edge, span in zip(bounds, spans, strict=True)
                ],
                "chunk-location": tuple([span.start for span in spans]),
            }
        found[None] = {
            **_whole(self.chunks),
            "array-location": [
                (edge[i], edge[i + 1]) for edge, i in zip(self.out_bounds, index, strict=True)
            ],
            "chunk-location": index,
            "chunk-shape": tuple(
                [sizes[i] for sizes, i in zip(self.chunks, index, strict=True)]
            ),
            "dtype": self.dtype,
        }
        return found


def _whole(chunks: Chunks) -> dict[str, Any]:
    return {
        "shape": tuple(map(length, chunks)),
        "num-chunks": tuple(map(len, chunks)),
    }


def _bounds(chunks: Chunks) -> list[list[int | None]]:
    return [
        [None] * (len(sizes) + 1) if None in sizes else [0, *accumulate(sizes)]
        for sizes in chunks
    ]
