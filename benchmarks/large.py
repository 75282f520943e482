"""One large array returned to the caller, in a process of its own: its time and its memory.

``python -m benchmarks.large SIDE BYTES TIMES`` prints, as JSON and by turn, the seconds until the
array is there, the seconds with one pass over it, and how far the process has grown: until the
array is touched, and at the most. The pool has made one small array before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module

import numpy as np

from benchmarks.memory import peak_bytes, resident_bytes
from benchmarks.process_shapes import filled
from benchmarks.sides import Joblib, Lazy, Pools, Ray

SMALL = 8_000
Make = Callable[[int], np.ndarray]


def maker(side: str, pools: Pools, ray: Ray) -> Make:
    """Return a function that has a worker make an array of so many bytes and gives it back."""
    if side in ("lazyflow", "dask", "dask pool="):
        library = Lazy(import_module(side.split()[0]), pools if side == "dask pool=" else None)
        return lambda size: library.compute(library.delayed(filled)(1.0, size))[0]
    if side == "joblib":  # two calls, since one alone is run by the caller
        joblib = Joblib(import_module("joblib"))
        return lambda size: joblib.map(filled, [1.0, 1.0], [size, SMALL])[0]
    if side == "ray":
        remote = ray().remote(filled)
        return lambda size: ray().get(remote.remote(1.0, size))
    return lambda size: pools().submit(filled, 1.0, size).result()


def one_turn(make: Make, size: int) -> dict[str, float]:
    before = resident_bytes()
    start = time.perf_counter()
    array = make(size)
    seconds = time.perf_counter() - start
    grown = resident_bytes() - before
    peak = peak_bytes() - before
    start = time.perf_counter()
    right = array.nbytes == size and float(array.sum()) == size // 8
    read = time.perf_counter() - start
    if not right:
        raise AssertionError(f"wrong answer: {array!r:.80}")
    return {"seconds": seconds, "with_read": seconds + read, "grown": grown, "peak": peak}


def main(side: str, size: int, times: int) -> None:
    """Print one record per turn."""
    pools, ray = Pools(), Ray(store=2 * size + 2**28)
    make = maker(side, pools, ray)
    try:
        make(SMALL)
        print(json.dumps([one_turn(make, size) for _ in range(times)]))
    finally:
        pools.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
