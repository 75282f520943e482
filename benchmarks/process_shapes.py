"""The tasks and programs that are measured on processes, each as a user of the library writes it.

Everything a worker runs is a function of this module or of `shapes`, which all sides can pickle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.shapes import WORKERS, add, inc, pairs
from benchmarks.sides import Joblib, Lazy, Pools, Ray

MESSAGES = 4 * WORKERS  # in which an executor's map sends one level of a tree


# Tasks.


def filled(value: float, size: int) -> np.ndarray:
    """Return an array of `size` bytes."""
    return np.full(size // 8, value)


def total(x: np.ndarray) -> float:
    return float(x.sum())


def largest(x: np.ndarray) -> float:
    return float(x.max())


def distance(x: np.ndarray, y: np.ndarray) -> float:
    return float(abs(total(x) - total(y)))


def spin(loops: int) -> int:
    """Hold the GIL, in plain Python, for `loops` additions."""
    count = 0
    for i in range(loops):
        count += i & 1
    return count


def loops_for(seconds: float) -> int:
    """How many loops take about `seconds` here, by the quickest of five tries."""
    probe, quickest = 20_000, float("inf")
    for _ in range(5):
        start = time.perf_counter()
        spin(probe)
        quickest = min(quickest, time.perf_counter() - start)
    return int(probe * seconds / quickest)


# By Ray: references instead of lazy values.


def ray_tree(session: Ray, leaves: int) -> int:
    ray = session()
    remote_inc, remote_add = ray.remote(inc), ray.remote(add)
    level = [remote_inc.remote(i) for i in range(leaves)]
    while len(level) > 1:
        level = pairs(level, remote_add.remote)
    value: int = ray.get(level[0])
    return value


def ray_call(session: Ray, func: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Return a function that runs one call there and back; what it calls is sent once."""
    remote = cache(lambda: session().remote(func))
    return lambda: session().get(remote().remote(*args))


def ray_map(session: Ray, func: Callable[..., Any], *given: Iterable[Any], cpus: int = 1) -> Any:
    remote = session().remote(num_cpus=cpus)(func).remote
    return session().get([remote(*each) for each in zip(*given, strict=True)])


# Arrays made by tasks. `readers`: each array is read twice. `neighbours`: each is read by a task
# that also reads the next one, so some have to move.


def lazy_readers(lib: Lazy, count: int, size: int) -> list[float]:
    arrays = [lib.delayed(filled)(i, size) for i in range(count)]
    readers = [lib.delayed(read)(x) for x in arrays for read in (total, largest)]
    return list(lib.compute(*readers))


def lazy_neighbours(lib: Lazy, count: int, size: int) -> list[float]:
    arrays = [lib.delayed(filled)(i, size) for i in range(count)]
    following = arrays[1:] + arrays[:1]
    return list(lib.compute(*map(lib.delayed(distance), arrays, following)))


def ray_arrays(ray: Any, count: int, size: int) -> list[Any]:
    make = ray.remote(filled)
    return [make.remote(i, size) for i in range(count)]


def ray_readers(session: Ray, count: int, size: int) -> list[float]:
    ray = session()
    read = [ray.remote(total), ray.remote(largest)]
    found = [f.remote(x) for x in ray_arrays(ray, count, size) for f in read]
    values: list[float] = ray.get(found)
    return values


def ray_neighbours(session: Ray, count: int, size: int) -> list[float]:
    ray = session()
    arrays = ray_arrays(ray, count, size)
    values: list[float] = ray_map(session, distance, arrays, arrays[1:] + arrays[:1])
    return values


def joblib_readers(lib: Joblib, count: int, size: int) -> list[float]:
    arrays = lib.map(filled, range(count), [size] * count)
    sums, maxima = lib.map(total, arrays), lib.map(largest, arrays)
    return [value for both in zip(sums, maxima, strict=True) for value in both]


def joblib_neighbours(lib: Joblib, count: int, size: int) -> list[float]:
    arrays = lib.map(filled, range(count), [size] * count)
    return lib.map(distance, arrays, arrays[1:] + arrays[:1])


def futures_readers(pools: Pools, count: int, size: int) -> list[float]:
    made = [pools().submit(filled, i, size) for i in range(count)]
    read = [pools().submit(f, x.result()) for x in made for f in (total, largest)]
    return [value.result() for value in read]


def futures_neighbours(pools: Pools, count: int, size: int) -> list[float]:
    arrays = [x.result() for x in [pools().submit(filled, i, size) for i in range(count)]]
    return list(pools().map(distance, arrays, arrays[1:] + arrays[:1]))


def right_readers(count: int, size: int) -> list[float]:
    return [value for i in range(count) for value in (float(i * (size // 8)), float(i))]


def right_neighbours(count: int, size: int) -> list[float]:
    sums = [i * (size // 8) for i in range(count)]
    return [float(abs(x - y)) for x, y in zip(sums, [*sums[1:], *sums[:1]], strict=True)]


@dataclass(frozen=True)
class Program:
    """The same work by each library, and its right answer."""

    lazy: Callable[[Lazy, int, int], list[float]]
    joblib: Callable[[Joblib, int, int], list[float]]
    ray: Callable[[Ray, int, int], list[float]]
    futures: Callable[[Pools, int, int], list[float]]
    right: Callable[[int, int], list[float]]


READERS = Program(lazy_readers, joblib_readers, ray_readers, futures_readers, right_readers)
NEIGHBOURS = Program(
    lazy_neighbours, joblib_neighbours, ray_neighbours, futures_neighbours, right_neighbours
)
