"""Blocks of an array by their numbers: ``x.blocks[0, 1:]``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.graph.task import Task


class SomeBlocks(Expr):
    """Some blocks of a node, as a node.

    numbers
        For each axis the numbers of the blocks.
    """

    __slots__ = ("numbers",)
    called = "blocks"
    of_any_kind = True

    def __init__(self, inputs: tuple[Expr, ...], numbers: tuple[Index, ...]) -> None:
        (node,) = inputs
        chunks = tuple([
            tuple([sizes[i] for i in each])
            for sizes, each in zip(node.chunks, numbers, strict=True)
        ])
        super().__init__(inputs, node.dtype_or_lazy, chunks)
        self.numbers = numbers

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        at = tuple([each[i] for each, i in zip(self.numbers, index, strict=True)])
        return low.block(self.inputs[0], at)


class Blocks:
    """The blocks of an array, ``x.blocks``, indexed as the elements of NumPy's arrays are.

    An index has integers, slices and at most one list of integers; axes with integers stay. The
    result is an array of the chosen blocks.

    >>> import lazyflow.array as la
    >>> x = la.arange(10, chunks=4)
    >>> x.blocks[1].compute(), x.blocks[[2, 0]].compute()
    (array([4, 5, 6, 7]), array([8, 9, 0, 1, 2, 3]))
    """

    def __init__(self, x: Array) -> None:
        self._x = x

    @property
    def shape(self) -> Index:
        """The number of blocks along each axis."""
        return self._x.numblocks

    @property
    def size(self) -> int:
        """The number of blocks."""
        return prod(self.shape)

    def ravel(self) -> list[Array]:
        """Return the blocks one after the other, in C order."""
        return [self[index] for index in product(*map(range, self.shape))]

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        if any(each is None for each in keys):
            raise IndexError("blocks are not indexed by None or np.newaxis")
        if sum(isinstance(each, list | np.ndarray) for each in keys) > 1:
            raise IndexError(
                "blocks are indexed by one list at most; index twice, x.blocks[a].blocks[:, b]"
            )
        at = next((i for i, each in enumerate(keys) if each is Ellipsis), len(keys))
        after = keys[at + 1:]
        missing = len(self.shape) - at - len(after)
        if missing < 0 or any(each is Ellipsis for each in after):
            raise IndexError(
                f"too many indices for blocks: the array is {len(self.shape)}-dimensional, but "
                f"{len(keys)} were indexed"
            )
        keys = (*keys[:at], *[slice(None)] * missing, *after)
        numbers = [
            _numbers(each, axis, count)
            for axis, (each, count) in enumerate(zip(keys, self.shape, strict=True))
        ]
        if not all(numbers):  # no blocks: no elements
            sizes = [slice(None) if each else slice(0, 0) for each in numbers]
            full = [each or (0,) for each in numbers]
            return Array(SomeBlocks((self._x.expr,), tuple(full)))[tuple(sizes)]
        return Array(SomeBlocks((self._x.expr,), tuple(numbers)))

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(self.shape[0]))

    def __len__(self) -> int:
        return self.shape[0]


def _numbers(key: Any, axis: int, count: int) -> Index:
    try:
        found = np.arange(count)[key]
    except IndexError as error:
        text = str(error).replace("axis 0", f"axis {axis}")
        raise IndexError(f"blocks of an array: {text}") from None
    return tuple(map(int, np.atleast_1d(found)))
