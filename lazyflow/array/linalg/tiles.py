"""Square matrices by tiles and panels: LU, Cholesky and triangular factors, and what they solve.

LU takes panels of columns, so that pivots are searched in whole columns: it is as stable as
LAPACK's. Each panel updates those to its right, one task each. Cholesky factors and triangular
systems need no pivots and take tiles.

G. Golub, C. Van Loan, "Matrix Computations" (4th ed. 2013), 3.1, 3.4 and 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from lazyflow.array.nodes.blas_threads import MANY, share_of_threads
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.reductions import TreeReduction
from lazyflow.array.nodes.task_parts import named
from lazyflow.graph.task import Task


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)]


# -- LU with partial pivoting ---------------------------------------------------------------------


class Panels(Expr):
    """L and U of a square matrix in one row of panels: below and above the diagonal of each.

    A block is a pair: the panel, and the order of its rows from the diagonal on. The rows of
    panels to its left are not exchanged.
    """

    __slots__ = ()
    called = "lu"

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        return low.task(_pair, self.factors(low, index[1]), self)

    def factors(self, low: MakesTasks, number: int) -> list[Task]:
        """Return the tasks of both parts of a block."""
        found: list[Task] = low.shared(self, number, self._factors, low, number)
        return found

    def _factors(self, low: MakesTasks, number: int) -> list[Task]:
        panel = low.block(self.inputs[0], (0, number))
        starts = _starts(self.chunks[1])
        for k in range(number):  # from the first on, so that each finds those before it made
            update = low.shared(self, ("update", k), named, "lu-update", eliminated, starts[k])
            panel = low.task(update, [panel, *self.factors(low, k)], self)
        return low.parts(named("lu", factored, starts[number]), [panel], self, 2)


def _pair(panel: Any, order: Any) -> tuple[Any, Any]:
    return panel, order


def factored(start: int, panel: Any) -> tuple[Any, Any]:
    """Return a panel with its LU factors from a row on, and the order of these rows."""
    from scipy.linalg.lapack import get_lapack_funcs

    panel = np.array(panel, order="F")
    getrf = get_lapack_funcs("getrf", (panel,))
    with share_of_threads(MANY):
        found, pivots, _ = getrf(panel[start:])
    order = np.arange(len(panel) - start)
    for k, other in enumerate(pivots.tolist()):
        order[k], order[other] = order[other], order[k]
    panel[start:] = found
    return panel, order


def eliminated(start: int, block: Any, panel: Any, order: Any) -> Any:
    """Return columns, or right sides, after the steps of the panel that begins at a row."""
    from scipy.linalg import solve_triangular

    stop = start + panel.shape[1]
    found = np.array(block)
    found[start:] = found[start:][order]
    with share_of_threads(MANY):
        found[start:stop] = solve_triangular(
            panel[start:stop], found[start:stop], lower=True, unit_diagonal=True,
            check_finite=False,
        )
        found[stop:] -= panel[stop:] @ found[start:stop]
    return found


def substituted(start: int, block: Any, panel: Any) -> Any:
    """Return right sides after the backward step of a panel.

    Raises
    ------
    LinAlgError
        There is a 0 on the diagonal of U.
    """
    from scipy.linalg import solve_triangular

    stop = start + panel.shape[1]
    if not panel[start:stop].diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")
    found = np.array(block)
    with share_of_threads(MANY):
        found[start:stop] = solve_triangular(
            panel[start:stop], found[start:stop], check_finite=False
        )
        found[:start] -= panel[:start] @ found[start:stop]
    return found


class SolvedByPanels(Expr):
    """The solution for right sides; inputs are `Panels`, and right sides in one row of blocks."""

    __slots__ = ()
    called = "solve"

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        super().__init__(inputs, inputs[1].dtype, inputs[1].chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        panels, right = self.inputs
        assert isinstance(panels, Panels)
        found = low.block(right, index)
        starts = _starts(panels.chunks[1])[:-1]
        for k, start in enumerate(starts):
            step = low.shared(self, ("forward", k), named, "solve-forward", eliminated, start)
            found = low.task(step, [found, *panels.factors(low, k)], self)
        for k, start in reversed(list(enumerate(starts))):
            step = low.shared(self, ("back", k), named, "solve-back", substituted, start)
            found = low.task(step, [found, panels.factors(low, k)[0]], self)
        return found


class LowerOfPanels(Expr):
    """The lower factor, in panels."""

    __slots__ = ()

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (panels,) = self.inputs
        assert isinstance(panels, Panels)
        starts, number = _starts(self.chunks[1]), index[1]
        later = [panels.factors(low, k)[1] for k in range(number + 1, len(self.chunks[1]))]
        step = named("lu-lower", lower_of, starts[number], tuple(starts[number + 1:-1]))
        return low.task(step, [panels.factors(low, number)[0], *later], self)


def lower_of(start: int, others: tuple[int, ...], panel: Any, *orders: Any) -> Any:
    """Return a panel of the lower factor: below the diagonal, in the order of later pivots."""
    found = np.tril(panel, -1 - start)
    for first, order in zip(others, orders, strict=True):
        found[first:] = found[first:][order]
    at = np.arange(panel.shape[1])
    found[start + at, at] = 1
    return found


class UpperOfPanels(Expr):
    """The upper factor, in panels."""

    __slots__ = ()

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (panels,) = self.inputs
        assert isinstance(panels, Panels)
        step = named("lu-upper", np.triu)
        start = _starts(self.chunks[1])[index[1]]
        return low.task(step, [panels.factors(low, index[1])[0], -start], self)


class OrderOfPanels(Expr):
    """The permutation P of P L U, in one block."""

    __slots__ = ()

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        n = sum(inputs[0].chunks[1])
        real = np.empty(0, inputs[0].dtype).real
        super().__init__(inputs, real.dtype, ((n,), (n,)))

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (panels,) = self.inputs
        assert isinstance(panels, Panels)
        sizes = panels.chunks[1]
        orders = [panels.factors(low, k)[1] for k in range(len(sizes))]
        step = named("lu-order", permutation, self.dtype, tuple(_starts(sizes)[:-1]))
        return low.task(step, orders, self)


def permutation(dtype: Any, starts: tuple[int, ...], *orders: Any) -> Any:
    """Return the matrix that brings rows back from the order of pivots.

    >>> permutation(int, (0, 1), np.array([1, 0, 2]), np.array([1, 0]))
    array([[0, 0, 1],
           [1, 0, 0],
           [0, 1, 0]])
    """
    at = np.arange(len(orders[0]))
    for start, order in zip(starts, orders, strict=True):
        at[start:] = at[start:][order]
    found = np.zeros((len(at), len(at)), dtype)
    found[at, np.arange(len(at))] = 1
    return found


class DeterminantOfPanels(TreeReduction):
    """Multiplies signs, and values or their logarithms, over panels.

    which
        0: the determinant; 1: its sign; 2: the logarithm of its absolute value.
    """

    __name__ = "det"

    def __init__(self, which: int, starts: tuple[int, ...]) -> None:
        self.which, self.starts = which, starts

    def __hash__(self) -> int:
        return hash((self.which, self.starts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeterminantOfPanels) and vars(self) == vars(other)

    def first(self, *blocks: Any) -> Any:
        ((panel, order),) = blocks
        diagonal = panel[len(panel) - len(order):].diagonal()
        sign = _parity(order)
        if self.which == 0:
            return sign * diagonal.prod()
        with np.errstate(divide="ignore", invalid="ignore"):
            size = abs(diagonal)
            signs = np.where(size == 0, 0, diagonal / size)
            return sign * signs.prod() if self.which == 1 else np.log(size).sum()

    def merge(self, parts: Sequence[Any]) -> Any:
        return np.sum(parts) if self.which == 2 else np.prod(parts)

    def last(self, part: Any) -> Any:
        return np.asarray(part)


def _parity(order: Any) -> int:
    """Return 1 for an even permutation, -1 for an odd one.

    >>> _parity(np.array([1, 2, 0])), _parity(np.array([1, 0, 2]))
    (1, -1)
    """
    seen, sign = np.zeros(len(order), bool), 1
    for k in range(len(order)):
        at, length = k, 0
        while not seen[at]:
            seen[at] = True
            at, length = order[at], length + 1
        sign *= -1 if length and length % 2 == 0 else 1
    return sign


# -- Cholesky factors and triangular systems ------------------------------------------------------


class CholeskyTiles(Expr):
    """The lower Cholesky factor of a matrix in tiles, square ones on the diagonal."""

    __slots__ = ()
    called = "cholesky"

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        i, j = index
        if j > i:
            shape = self.chunks[0][i], self.chunks[1][j]
            return low.task(named("zeros", np.zeros, shape, self.dtype), [], self)
        found = low.block(self.inputs[0], index)
        for k in range(j):  # from the first on, so that each finds those before it made
            pair = [low.block(self, (i, k)), low.block(self, (j, k))]
            found = low.task(less_product, [found, *pair], self)
        if i == j:
            return low.task(cholesky_factor, [found], self)
        return low.task(divided, [found, low.block(self, (j, j))], self)


def less_product(block: Any, one: Any, other: Any) -> Any:
    """Return a tile less the product of one with the adjoint of another."""
    with share_of_threads(MANY):
        return block - one @ other.conj().T


def cholesky_factor(tile: Any) -> Any:
    """Return the Cholesky factor of a tile on the diagonal."""
    with share_of_threads(MANY):
        return np.linalg.cholesky(tile)


def divided(tile: Any, factor: Any) -> Any:
    """Return a tile divided, from the right, by the adjoint of a lower factor."""
    from scipy.linalg import solve_triangular

    with share_of_threads(MANY):
        return solve_triangular(factor, tile.conj().T, lower=True, check_finite=False).conj().T


class TriangularSolution(Expr):
    """The solution of a triangular system; inputs are tiles and right sides in equal rows."""

    __slots__ = ("lower",)
    called = "solve_triangular"

    def __init__(self, inputs: tuple[Expr, ...], lower: bool) -> None:
        super().__init__(inputs, inputs[1].dtype, inputs[1].chunks)
        self.lower = lower

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        tiles, right = self.inputs
        i, j = index
        found = low.block(right, index)
        for k in range(i) if self.lower else range(len(self.chunks[0]) - 1, i, -1):
            pair = [low.block(tiles, (i, k)), low.block(self, (k, j))]
            found = low.task(less_times, [found, *pair], self)
        last = low.shared(self, "last", named, self.name, triangular, self.lower)
        return low.task(last, [low.block(tiles, (i, i)), found], self)


def less_times(block: Any, tile: Any, known: Any) -> Any:
    """Return right sides less a tile times the known part of the solution."""
    with share_of_threads(MANY):
        return block - tile @ known


def triangular(lower: bool, tile: Any, right: Any) -> Any:
    """Return the solution for a tile on the diagonal.

    Raises
    ------
    LinAlgError
        There is a 0 on its diagonal.
    """
    from scipy.linalg import solve_triangular

    with share_of_threads(MANY):
        return solve_triangular(tile, right, lower=lower, check_finite=False)
