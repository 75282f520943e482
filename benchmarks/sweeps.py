"""A solver's sweep over chunks that stay where they are: the shape of SAGA, small.

One visit of a chunk takes the state (coefficients, table of slopes, average) and gives a new one;
four visits are a sweep, and one `persist` at its end keeps the state. The kernel is handed to the
library as `compiled`, which a new worker compiles, and inside a plain function, `from_disk`, which
reads machine code from Numba's cache (a kernel that travels by itself loses its ``cache=True``).
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from functools import partial
from math import exp
from typing import Any

import numpy as np
from numba import njit
from numba.core.registry import CPUDispatcher

from benchmarks.sides import Lazy, Pools, Ray

COLUMNS, CLASSES = 20, 3
STEP = 1e-3

Chunk = tuple[Any, Any]  # rows, labels; arrays, lazy or by reference
State = tuple[Any, list[Any], Any]  # coefficients, table by chunk, average


def _visit(
    theta: np.ndarray, table: np.ndarray, average: np.ndarray, X: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    theta, table, average = theta.copy(), table.copy(), average.copy()
    rows, d = X.shape
    for i in range(rows):
        for k in range(len(theta)):
            score = 0.0
            for j in range(d):
                score += theta[k, j] * X[i, j]
            sign = 1.0 if labels[i] == k else -1.0
            slope = -sign / (1.0 + exp(sign * score))
            change = slope - table[i, k]
            table[i, k] = slope
            for j in range(d):
                theta[k, j] -= STEP * (change * X[i, j] + average[k, j])
                average[k, j] += change * X[i, j] / rows
    return theta, table, average


compiled = njit(nogil=True)(_visit)
_cached = njit(nogil=True, cache=True)(_visit)


def from_disk(
    theta: np.ndarray, table: np.ndarray, average: np.ndarray, X: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    after: tuple[np.ndarray, np.ndarray, np.ndarray] = _cached(theta, table, average, X, labels)
    return after


def chunk(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Make one chunk: its rows, and their classes."""
    rng = np.random.default_rng(number)
    return rng.standard_normal((rows, COLUMNS)), rng.integers(0, CLASSES, rows)


def zeros(chunks: int, rows: int) -> State:
    shape = CLASSES, COLUMNS
    tables = [np.zeros((rows, CLASSES)) for _ in range(chunks)]
    return np.zeros(shape), tables, np.zeros(shape)


def swept(visit: Callable[..., Any], chunks: list[Chunk], state: State) -> State:
    """Hand the state from chunk to chunk, by whatever calls `visit`."""
    theta, tables, average = state[0], list(state[1]), state[2]
    for k, (X, labels) in enumerate(chunks):
        theta, tables[k], average = visit(theta, tables[k], average, X, labels)
    return theta, tables, average


def in_process(kernel: Any, chunks: list[Chunk], state: State, sweeps: int) -> np.ndarray:
    for _ in range(sweeps):
        state = swept(kernel, chunks, state)
    theta: np.ndarray = state[0]
    return theta


def lazy_chunks(lib: Lazy, count: int, rows: int) -> list[Chunk]:
    """Make the chunks by tasks and keep them where they were made."""
    made = [lib.delayed(chunk, nout=2)(i, rows) for i in range(count)]
    kept = lib.persist(*[part for X, labels in made for part in (X, labels)])
    return list(zip(kept[::2], kept[1::2], strict=True))


def lazy_sweeps(
    lib: Lazy, kernel: Any, chunks: list[Chunk], state: State, sweeps: int
) -> np.ndarray:
    visit = lib.delayed(kernel, nout=3)
    for _ in range(sweeps):
        theta, tables, average = swept(visit, chunks, state)
        theta, average, *tables = lib.persist(theta, average, *tables)
        state = theta, list(tables), average
    values: np.ndarray = lib.compute(state[0])[0]
    return values


def futures_sweeps(
    pools: Pools, kernel: Any, chunks: list[Chunk], state: State, sweeps: int
) -> np.ndarray:
    def visit(*given: Any) -> Any:
        return pools().submit(kernel, *given).result()

    return in_process(visit, chunks, state, sweeps)


def ray_chunks(session: Ray, count: int, rows: int) -> list[Chunk]:
    make = session().remote(num_returns=2)(chunk)
    return [tuple(make.remote(i, rows)) for i in range(count)]


def ray_sweeps(
    session: Ray, kernel: Any, chunks: list[Chunk], state: State, sweeps: int
) -> np.ndarray:
    ray = session()
    visit = ray.remote(num_returns=3)(called).remote
    by_reference = ray.put(kernel)  # which is no function that Ray would take
    for _ in range(sweeps):
        state = swept(partial(visit, by_reference), chunks, state)
    theta: np.ndarray = ray.get(state[0])
    return theta


def called(kernel: Any, *given: Any) -> Any:
    return kernel(*given)


def compilations(seconds: float) -> tuple[int, int]:
    """Return this process and how often it has compiled `compiled`; after some time.

    A dispatcher that came by pickle may be another object than this module's, so all are looked
    at that there are. The time lets the other worker have such a task too.
    """
    time.sleep(seconds)
    name = compiled.py_func.__qualname__
    found = [
        d for d in gc.get_objects()
        if issubclass(type(d), CPUDispatcher) and d.py_func.__qualname__ == name
        and d.stats.cache_path is None
    ]  # fmt: skip
    return os.getpid(), sum(len(d.overloads) for d in found)
