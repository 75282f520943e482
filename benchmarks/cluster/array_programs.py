"""Array programs as people write them, and what a person would write by hand for some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BINS = 50
ROWS = 1000  # where values are compared with NumPy's


@dataclass(frozen=True)
class Program:
    """A program of an array `x`, of a library of arrays or of NumPy.

    is_of_kept
        Whether its array, where it fits, is on the workers before.
    stays
        Whether its result stays on the workers.
    part
        What a loop by hand does with each block of rows; such parts are added.
    goal
        How many times faster than the engine alone it should be, at least; None: not slower.
    """

    label: str
    lazy: Callable[[Any, Any], Any]
    is_of_kept: bool = False
    stays: bool = False
    is_wide: bool = False
    part: Callable[..., Any] | None = None
    goal: float | None = None


def _same(block: np.ndarray) -> np.ndarray:
    return block


def _columns(la: Any, x: Any) -> Any:
    """Cut columns of all rows, as many chunks as there are of rows.

    A function makes the blocks: random numbers could be made in any chunks.
    """
    if la is np:
        return x
    x = x.map_blocks(_same, dtype=x.dtype)
    return x.rechunk((x.shape[0], max(1, x.shape[1] // x.numblocks[0])))


def _permuted(la: Any, x: Any) -> Any:
    return x[np.random.default_rng(1).permutation(x.shape[0])]


def _plus_transposed(la: Any, x: Any) -> Any:
    part = x[: min(x.shape), : min(x.shape)]
    return (part + part.T).sum()


def _block_histogram(block: np.ndarray) -> np.ndarray:
    return np.histogram(block, BINS, (0, 1))[0]


def _fused(x: Any) -> Any:
    return ((x - 0.5) * x + x * 2).sum()


PROGRAMS = (
    Program("sum of random", lambda la, x: x.sum(), part=np.sum),
    Program("fused, summed", lambda la, x: _fused(x), is_of_kept=True, part=_fused, goal=3),
    Program("random, kept", lambda la, x: x, stays=True),
    Program("standardise", lambda la, x: (x - x.mean(axis=0)) / x.std(axis=0),
            is_of_kept=True, stays=True),
    Program("cumsum(0)", lambda la, x: la.cumsum(x, axis=0), is_of_kept=True, stays=True),
    Program("x.T @ x", lambda la, x: x.T @ x, is_wide=True, part=lambda b: b.T @ b),
    Program("x[x > .9].sum()", lambda la, x: x[x > 0.9].sum(), part=lambda b: b[b > 0.9].sum()),
    Program("histogram", lambda la, x: la.histogram(x, bins=BINS, range=(0, 1))[0],
            is_of_kept=True, part=_block_histogram),
    Program("rows to columns", _columns, is_of_kept=True, stays=True),
    Program("permutation", _permuted, is_of_kept=True, stays=True),
    Program("slices", lambda la, x: abs(x[1:] - x[:-1]).sum(), is_of_kept=True),
    Program("a + a.T of a part", _plus_transposed, is_of_kept=True),
)  # fmt: skip
