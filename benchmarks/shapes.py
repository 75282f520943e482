"""The graphs that are measured, written as a user of each library would write them.

`inc` and `add` do next to nothing, so what is measured is the library. Every function here takes
the library it is for: a module with `delayed` and `compute` (lazyflow, dask), joblib's `Parallel`
class, or an executor.
"""

from __future__ import annotations

import gc
import hashlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import cache
from typing import Any

from benchmarks.memory import peak_bytes

WORKERS = 2  # threads or processes, on every side


def inc(x: int) -> int:
    return x + 1


def add(x: int, y: int) -> int:
    return x + y


def pairs(level: list[Any], join: Callable[[Any, Any], Any]) -> list[Any]:
    """Join neighbours; an odd one out goes up as it is."""
    upper = [join(x, y) for x, y in zip(level[::2], level[1::2], strict=False)]
    return upper + level[-1:] if len(level) % 2 else upper


# Lazy graphs: lazyflow and dask, by the same lines.


def lazy_tree(lib: Any, leaves: int) -> Any:
    """`leaves` calls of `inc`, added two by two: ``2 * leaves - 1`` tasks."""
    delayed_inc, delayed_add = lib.delayed(inc), lib.delayed(add)
    level = [delayed_inc(i) for i in range(leaves)]
    while len(level) > 1:
        level = pairs(level, delayed_add)
    return level[0]


def lazy_tree_above(lib: Any, leaf: Any, leaves: int) -> Any:
    """Build the same shape above one lazy value; for traces, whose leaf changes from run to run."""
    delayed_add = lib.delayed(add)
    level = [delayed_add(leaf, i) for i in range(leaves)]
    while len(level) > 1:
        level = pairs(level, delayed_add)
    return level[0]


def lazy_chain(lib: Any, length: int) -> Any:
    delayed_inc = lib.delayed(inc)
    x = delayed_inc(0)
    for _ in range(length - 1):
        x = delayed_inc(x)
    return x


def lazy_flat(lib: Any, width: int) -> list[Any]:
    return [lib.delayed(inc)(i) for i in range(width)]


def lazy_sum(lib: Any, width: int) -> Any:
    delayed_inc = lib.delayed(inc)
    return lib.delayed(sum)([delayed_inc(i) for i in range(width)])


def compute(lib: Any, *graphs: Any, workers: int = WORKERS) -> Any:
    return lib.compute(*graphs, scheduler="threads", num_workers=workers)


# The same results by the two libraries that have no graphs.


def futures_tree(pool: Executor, leaves: int, messages: int | None = None) -> int:
    """Map level by level; `messages` in a level at most, where a call is one (processes)."""

    def size(calls: int) -> int:
        return 1 if messages is None else -(-calls // messages)

    level = list(pool.map(inc, range(leaves), chunksize=size(leaves)))
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        both = level[::2], level[1::2]
        level = [*pool.map(add, *both, chunksize=size(len(both[1]))), *odd]
    return level[0]


def futures_chain(pool: Executor, length: int) -> int:
    x = 0
    for _ in range(length):
        x = pool.submit(inc, x).result()
    return x


def futures_flat(pool: Executor, width: int) -> list[int]:
    return list(pool.map(inc, range(width)))


def joblib_tree(joblib: Any, leaves: int, backend: str = "threading") -> int:
    task = joblib.delayed(add)
    with joblib.Parallel(n_jobs=WORKERS, backend=backend) as parallel:
        level: list[int] = parallel(joblib.delayed(inc)(i) for i in range(leaves))
        while len(level) > 1:
            odd = level[-1:] if len(level) % 2 else []
            both = zip(level[::2], level[1::2], strict=False)
            level = parallel(task(x, y) for x, y in both) + odd
    return level[0]


def joblib_flat(
    joblib: Any, func: Callable[[int], Any], values: Iterable[int], workers: int = WORKERS
) -> Any:
    calls = (joblib.delayed(func)(i) for i in values)
    return joblib.Parallel(n_jobs=workers, backend="threading")(calls)


# Work that lets other threads run: hashing a buffer gives up the GIL until it is done.


@cache
def block(size: int) -> bytes:
    return b"\x01" * size


def digest(size: int) -> bytes:
    return hashlib.sha256(block(size)).digest()


def size_for(seconds: float) -> int:
    """How many bytes take about `seconds` to hash here, by the quickest of ten tries."""
    probe = 1 << 20
    digest(probe)
    quickest = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        digest(probe)
        quickest = min(quickest, time.perf_counter() - start)
    return max(4096, int(probe * seconds / quickest))


# A million tasks, in a process of their own: `python -m benchmarks.shapes chain 1000000`.


def main(shape: str, tasks: int) -> None:
    """Build, compute and free one large graph; print seconds, peak bytes, and if it was right."""
    import lazyflow

    build, right = {
        "chain": (lazy_chain, tasks),
        "sum": (lazy_sum, tasks * (tasks + 1) // 2),
    }[shape]
    start = time.perf_counter()
    (value,) = compute(lazyflow, build(lazyflow, tasks))
    seconds = time.perf_counter() - start
    print(seconds, peak_bytes(), value == right)


def build_alone(shape: str, n: int, collect: bool) -> None:
    """Print the median seconds a task of building a graph here, where only lazyflow is loaded."""
    import lazyflow

    make = {"chain": lazy_chain, "list": lazy_flat}[shape]
    if not collect:
        gc.disable()
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        graph = make(lazyflow, n)
        times.append(time.perf_counter() - begun)
        del graph
    print(statistics.median(times) / n)


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build_alone(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "with-gc")
    else:
        main(sys.argv[1], int(sys.argv[2]))
