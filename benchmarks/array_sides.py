"""The arrays that are compared: lazyflow's, dask's, NumPy's, by numexpr, by a hand-written loop."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.shapes import WORKERS

SIDES = ("lazyflow", "dask", "numpy", "numexpr", "jax", "numba")
MODULES = {"lazyflow": "lazyflow.array", "dask": "dask.array"}


class Chunked:
    """A library of chunked arrays, told to run on threads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lib: Any = import_module(MODULES[name])

    def array(self, x: Any, chunks: Any) -> Any:
        return self.lib.from_array(x, chunks=chunks)

    def value(self, x: Any) -> Any:
        """Compute, on as many threads as every side has."""
        return x.compute(scheduler="threads", num_workers=WORKERS)


def simple(x: Any, y: Any) -> Any:
    """Six operations that processors have."""
    return (x - 0.5) * y + x * 2 - y / 3


def transcendental(lib: Any, x: Any, y: Any) -> Any:
    return lib.exp(-x * x) * y + lib.tanh(y)


def repeated(lib: Any, step: Callable[[Any, Any], Any], x: Any, times: int) -> Any:
    """Return what some steps make of an array."""
    for _ in range(times):
        x = step(lib, x)
    return x


def _spread(lib: Any, x: Any) -> Any:
    return np.maximum(lib.roll(x, 1), lib.roll(x, -1))


def _heat(lib: Any, x: Any) -> Any:
    inner = x[1:-1] + (x[2:] - 2 * x[1:-1] + x[:-2]) / 8
    return lib.concatenate([x[:1], inner, x[-1:]])


NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


def _lives(x: Any, n: Any) -> Any:
    return ((n == 3) | ((x == 1) & (n == 2))).astype(x.dtype)


def _life_by_rolls(lib: Any, x: Any) -> Any:
    return _lives(x, sum(lib.roll(x, turn, (0, 1)) for turn in NEIGHBOURS))


def _life_by_pads(lib: Any, x: Any) -> Any:
    (n, m), p = x.shape, lib.pad(x, 1, mode="wrap")
    return _lives(x, sum(p[1 + i:1 + i + n, 1 + j:1 + j + m] for i, j in NEIGHBOURS))


#: Functions of a library and an array that make the next step of it.
STENCILS = {
    "rolls": _spread, "slices": _heat, "life, rolls": _life_by_rolls, "life, pads": _life_by_pads,
}

BLOCK = 1 << 14


def hand_written() -> Callable[[Any, Any], float]:
    """Return the loop that a person would write: blocks on all threads, in registers."""
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def total(x: Any, y: Any) -> float:
        blocks = (x.size + BLOCK - 1) // BLOCK
        parts = np.empty(blocks)
        for b in numba.prange(blocks):
            s = 0.0
            for i in range(b * BLOCK, min((b + 1) * BLOCK, x.size)):
                s += (x[i] - 0.5) * y[i] + x[i] * 2 - y[i] / 3
            parts[b] = s
        return parts.sum()

    numba.set_num_threads(min(WORKERS, numba.get_num_threads()))
    return total


def by_numexpr(text: str) -> Callable[..., float]:
    import numexpr

    numexpr.set_num_threads(WORKERS)
    return lambda **arrays: float(numexpr.evaluate(text, arrays))
