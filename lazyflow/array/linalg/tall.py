"""Tall matrices by QR factors of blocks of rows in a tree (TSQR), in one pass over them.

Each block gives its Q and R. The R of up to eight blocks stand on each other and give another Q and
R, up to one R of all. Down the same tree go matrices as small as R: what a block's Q is multiplied
by. The last R may become its singular value decomposition, so that of the whole costs no pass more.

J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel and sequential QR and
LU factorizations", SIAM J. Sci. Comput. 34 (2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import Chunks, in_steps
from lazyflow.array.core import Array
from lazyflow.array.linalg.matrices import cut
from lazyflow.array.nodes.blas_threads import share_of_threads
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.task_parts import named
from lazyflow.graph.task import Task

_TOGETHER = 8  # R factors that one task takes
_TILE = 2048  # rows of a block that are decomposed at once: they stay in the cache
_NARROW = 128  # columns up to which that is faster
_MANY = 1 << 10  # tasks, for which LAPACK takes one thread


def row_chunks(x: Array) -> tuple[int, ...] | None:
    """Return chunks of rows at least twice as high as wide; None: that leaves one.

    >>> import lazyflow.array as la
    >>> row_chunks(la.ones((12, 2), chunks=(3, 1))), row_chunks(la.ones((12, 8), chunks=3))
    ((6, 6), None)
    """
    rows, columns = x.shape
    least = max(2 * columns, 1)
    sizes = x.chunks[0]
    if len(sizes) == 1 and x.nbytes > 2 * config.get("chunk_bytes"):
        sizes = in_steps(rows, max(config.get("chunk_bytes") // (columns * x.itemsize), least))
    found = [0]
    for size in sizes:
        if found[-1] >= least:
            found.append(size)
        else:
            found[-1] += size
    if len(found) > 1 and found[-1] < least:
        found[-2:] = [sum(found[-2:])]
    return tuple(found) if len(found) > 1 else None


class TallFactors(Expr):
    """The tasks of a TSQR; `FactorOfTall` are its results.

    inputs
        A matrix in one column of several blocks, each at least as high as wide.
    finish
        Called with Q and R of the last step; returns what takes the place of Q, and results.
    count
        How many it returns.
    with_q
        Whether Q of the blocks are wanted.
    """

    __slots__ = ("count", "finish", "with_q")

    def __init__(
        self, inputs: tuple[Expr, ...], finish: Any, count: int, with_q: bool
    ) -> None:
        super().__init__(inputs, inputs[0].dtype, ())
        self.finish = finish
        self.count = count
        self.with_q = with_q

    @property
    def name(self) -> str:
        return "tsqr"

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        self.results(low)  # a block of its own it has none
        return low.value(None)

    def results(self, low: MakesTasks) -> tuple[list[Task], list[Task]]:
        """Return the tasks of the blocks of Q, and those of the other results of `finish`."""
        found: tuple[list[Task], list[Task]] = low.shared(self, "results", self._results, low)
        return found

    def _results(self, low: MakesTasks) -> tuple[list[Task], list[Task]]:
        (x,) = self.inputs
        blocks = [low.block(x, (i, 0)) for i in range(x.numblocks[0])]
        if not self.with_q:
            factors = [low.task(r_factor, [block], self) for block in blocks]
            while len(factors) > _TOGETHER:
                factors = [low.task(r_factor, each, self) for each in _groups(factors)]
            last = named("tsqr", finished, self.finish)
            return [], low.parts(last, factors, self, self.count)[1:]
        pairs = [low.parts(qr_factors, [block], self, 2) for block in blocks]
        levels = [[q for q, _ in pairs]]
        factors = [r for _, r in pairs]
        while len(factors) > _TOGETHER:
            pairs = [low.parts(qr_factors, each, self, 2) for each in _groups(factors)]
            levels.append([q for q, _ in pairs])
            factors = [r for _, r in pairs]
        top, *results = low.parts(named("tsqr", finished, self.finish), factors, self, self.count)
        above, step = [top], len(factors)
        for level in reversed(levels):
            above = [
                low.task(times_part, [q, above[i // step], i % step], self)
                for i, q in enumerate(level)
            ]
            step = _TOGETHER
        return above, results


def _groups(tasks: list[Task]) -> list[list[Task]]:
    return [tasks[i:i + _TOGETHER] for i in range(0, len(tasks), _TOGETHER)]


class FactorOfTall(Expr):
    """One result of `TallFactors`: Q, in its blocks of rows, or a result of `finish`.

    which
        The number of the result; 0 is Q.
    """

    __slots__ = ("which",)

    def __init__(
        self, inputs: tuple[Expr, ...], which: int, dtype: np.dtype[Any], chunks: Chunks
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.which = which

    @property
    def name(self) -> str:
        return "tsqr"

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (steps,) = self.inputs
        assert isinstance(steps, TallFactors)
        blocks, results = steps.results(low)
        return results[self.which - 1] if self.which else blocks[index[0]]


def r_factor(*blocks: Any) -> Any:
    """Return the R factor of rows."""
    with share_of_threads(_MANY):
        x = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        found = x[:0]
        for tile in _tiles(x):
            tile = np.concatenate([found, tile]) if len(found) else tile
            found = np.linalg.qr(tile, mode="r")
        return found


def qr_factors(*blocks: Any) -> tuple[Any, Any]:
    """Return the QR factors of rows."""
    with share_of_threads(_MANY):
        tiles = _tiles(blocks[0] if len(blocks) == 1 else np.concatenate(blocks))
        pairs = [np.linalg.qr(tile) for tile in tiles]
        if len(pairs) == 1:
            q, r = pairs[0]
            return q, r
        inner, r = np.linalg.qr(np.concatenate([r for _, r in pairs]))
        rows = inner.reshape(len(pairs), -1, inner.shape[1])
        return np.concatenate([q @ each for (q, _), each in zip(pairs, rows, strict=True)]), r


def _tiles(x: Any) -> list[Any]:
    """Return parts of a block's rows, each at least as high as wide."""
    count = len(x) // _TILE if 0 < x.shape[1] <= _NARROW else 1
    return np.array_split(x, count) if count > 1 else [x]


def finished(finish: Any, *factors: Any) -> tuple[Any, ...]:
    """Return the results for the last R factors."""
    q, r = np.linalg.qr(np.concatenate(factors))
    found: tuple[Any, ...] = finish(q, r)
    return found


def times_part(q: Any, above: Any, number: int) -> Any:
    """Return Q of a block times its part of what the R factors around it are multiplied by."""
    n = q.shape[1]
    with share_of_threads(_MANY):
        return q @ above[number * n:(number + 1) * n]


# -- what the last factors become -----------------------------------------------------------------


def as_they_are(q: Any, r: Any) -> tuple[Any, Any]:
    """Return QR factors."""
    return q, r


def thin_svd(x: Any, signed: bool) -> tuple[Any, Any, Any]:
    """Return U, S and Vh; `signed`: vectors of the smaller of U and Vh have sums above 0."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    if signed:
        sums = vh.sum(axis=1) if len(u) >= vh.shape[1] else u.sum(axis=0)
        signs = np.where(sums.real < 0, -1, 1).astype(s.dtype)
        u, vh = u * signs, vh * signs[:, None]
    return u, s, vh


def decomposed(signed: bool, q: Any, r: Any) -> tuple[Any, Any, Any]:
    """Return the left singular vectors, singular values and right singular vectors."""
    u, s, vh = thin_svd(r, signed)
    return q @ u, s, vh


#: By whether vectors are signed: one object each, so that equal decompositions are found to be.
DECOMPOSED = {signed: partial(decomposed, signed) for signed in (False, True)}


def only_values(q: Any, r: Any) -> tuple[Any, Any]:
    """Return the singular values."""
    return None, np.linalg.svd(r, compute_uv=False)


def tall(
    x: Array, rows: tuple[int, ...], finish: Any, results: Sequence[tuple[Any, tuple[int, ...]]],
    dtype: Any, with_q: bool = True,
) -> list[Array]:
    """Return Q, if it is wanted, and the results of a TSQR.

    results
        The dtype and shape of each.
    """
    n = x.shape[1]
    steps = TallFactors((cut(x, rows, (n,), dtype),), finish, len(results) + 1, with_q)
    made = [FactorOfTall((steps,), 0, np.dtype(dtype), (rows, (n,)))] if with_q else []
    made += [
        FactorOfTall((steps,), k, np.dtype(own), tuple([(length,) for length in shape]))
        for k, (own, shape) in enumerate(results, 1)
    ]
    return [Array(each) for each in made]
