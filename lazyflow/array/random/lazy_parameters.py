"""Parameters of distributions that are chunked arrays: checked and used block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.sources import InMemory, Region
from lazyflow.array.nodes.user_calls import PerBlock
from lazyflow.array.random.streams import BoxedDraw, Values, boxes

#: What stands for the parameters where ones may be none that NumPy draws with, or fit no others.
_EXAMPLES: dict[str, tuple[Any, ...]] = {
    "hypergeometric": (1, 1, 1), "integers": (0, 1), "logseries": (0.5,),
    "triangular": (0.0, 1.0, 2.0), "uniform": (0.0, 1.0), "zipf": (2.0,),
}

#: Distributions whose parameters have to fit each other, besides being in bounds of their own.
_RELATED = ("triangular", "uniform")


def examples(name: str, params: Sequence[Any]) -> list[Any]:
    """Return parameters to ask NumPy for errors and the dtype, with examples for lazy ones."""
    if not any(isinstance(p, Array) for p in params):
        return [p.array if isinstance(p, Values) else p for p in params]
    if name in _EXAMPLES:
        return list(_EXAMPLES[name])
    return [
        np.ones(1, p.dtype) if isinstance(p, Array)
        else p.array.ravel()[:1] if isinstance(p, Values) else p for p in params
    ]


@dataclass(frozen=True)
class Checked:
    """Raises for blocks of parameters as NumPy does, and returns the one of a number as floats."""

    method: str
    which: int
    __name__ = "parameters"

    def __call__(self, *params: Any) -> Any:
        given = params
        if self.method not in _RELATED:  # a bound holds for all if it does for the extremes
            extremes: Any = (np.fmin.reduce, np.fmax.reduce, np.max)
            given = tuple([
                np.array([f(p) for f in extremes]) for p in map(np.ravel, params)
            ]) if all(p.size for p in params) else ()
        if given:
            getattr(np.random.default_rng(0), self.method)(*given)
        found = np.asarray(params[self.which], float)
        return np.broadcast_to(found, np.broadcast_shapes(*[p.shape for p in params]))


def checked(name: str, params: Sequence[Any]) -> list[Any]:
    """Return parameters as floats or arrays of them; lazy ones are checked when computed."""
    nodes = tuple([
        as_node(p.array if isinstance(p, Values) else p) for p in params
    ])
    return [
        Array(elementwise.function(Checked(name, k), nodes, float)) if isinstance(p, Array)
        else np.array(p.array, float) if isinstance(p, Values) else float(p)
        for k, p in enumerate(params)
    ]


class BlockValues(Values):
    """A block of a parameter, which begins at some place of the array that is drawn."""

    __slots__ = ("starts",)

    def __init__(self, array: np.ndarray[Any, Any], starts: tuple[int, ...]) -> None:
        self.array = array
        self.starts = starts[len(starts) - array.ndim:]
        self._hash = None

    def part(self, box: Region) -> np.ndarray[Any, Any]:
        """Return the part for a box of the array that is drawn."""
        return super().part(tuple([
            slice(span.start - start, span.stop - start) for span, start in zip(
                box[len(box) - len(self.starts):], self.starts, strict=True
            )
        ]))


@dataclass(frozen=True)
class DrawOfBlocks:
    """Draws a block: called with where it begins along each axis, then with lazy parameters."""

    draw: BoxedDraw

    @property
    def __name__(self) -> str:
        return self.draw.method

    def __call__(self, *blocks: Any) -> Any:
        shape = self.draw.shape
        starts = tuple([int(block.flat[0]) for block in blocks[:len(shape)]])
        ends = [int(block.flat[1]) for block in blocks[:len(shape)]]
        lazy = iter(blocks[len(shape):])
        params = tuple([
            BlockValues(next(lazy), starts) if p is None else p for p in self.draw.params
        ])
        region = tuple([slice(a, b) for a, b in zip(starts, ends, strict=True)])
        return replace(self.draw, params=params)(region)


def drawn(draw: BoxedDraw, params: Sequence[Any], chunks: Chunks) -> Expr:
    """Return what is drawn with lazy parameters: in blocks that end where boxes do.

    So every element has the parameters and the random bits that it has in other chunks.
    """
    sides = boxes(draw.shape)
    whole = tuple([
        _at_boxes(sizes, side) for sizes, side in zip(chunks, sides, strict=True)
    ])
    lazy = [_in_chunks(p.expr, whole) for p in params if isinstance(p, Array)]
    rest = tuple([None if isinstance(p, Array) else p for p in params])
    places = [_places(whole, axis) for axis in range(len(whole))]
    func = DrawOfBlocks(replace(draw, params=rest))
    return rechunk(PerBlock((*places, *lazy), func, draw.dtype, whole), chunks)


def _at_boxes(sizes: Sequence[int], side: int) -> tuple[int, ...]:
    """Return chunks that end where boxes do, or where the axis does.

    >>> _at_boxes((5, 5, 5), 4)
    (8, 4, 3)
    """
    ends = list(accumulate(sizes))
    cuts = sorted({0, *[min(-(-end // side) * side, ends[-1]) for end in ends]})
    return tuple(np.diff(cuts).tolist()) or (0,)


def _in_chunks(node: Expr, chunks: Chunks) -> Expr:
    own = chunks[len(chunks) - node.ndim:]
    return rechunk(node, tuple([
        (n,) if n == 1 else sizes for n, sizes in zip(node.shape, own, strict=True)
    ]))


def _places(chunks: Chunks, axis: int) -> Expr:
    """Return an array that has in each block where blocks begin and end along an axis."""
    ends = np.cumsum(chunks[axis])
    spans = np.stack([ends - chunks[axis], ends], axis=1).ravel()
    shape = [1] * len(chunks)
    shape[axis] = len(spans)
    own = tuple([(2,) * len(ends) if k == axis else (1,) for k in range(len(chunks))])
    return InMemory(spans.reshape(shape), own)
