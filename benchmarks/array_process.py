"""One case of the arrays in a process of its own: how long it takes, and how much memory.

``python -m benchmarks.array_process SIDE CASE SIZE`` prints, as JSON, the seconds and the most
bytes by which the process has grown.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

COLUMNS = 1000


def first(side: str, size: int) -> float:
    """The first result in a process, import included; the data are there before."""
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = rng.random(size), rng.random(size)
    start = time.perf_counter()
    from benchmarks.array_sides import Chunked, simple

    if side == "numpy":
        value = float(simple(x, y).sum())
    else:
        lib = Chunked(side)
        value = float(lib.value(simple(lib.array(x, 1_000_000), lib.array(y, 1_000_000)).sum()))
    seconds = time.perf_counter() - start
    if abs(value - float(np.sum((x - 0.5) * y + x * 2 - y / 3))) > 1e-6 * size:
        raise AssertionError(f"wrong answer: {value}")
    return seconds


class Sink:
    """A target that takes blocks and keeps nothing but their sum."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.dtype = float
        self.total = 0.0
        self.count = 0

    def __setitem__(self, key: Any, block: Any) -> None:
        self.total += float(block.sum())
        self.count += block.size


def anomaly(side: str, size: int) -> float:
    """``x - x.mean(0)`` of random numbers, stored chunk by chunk."""
    from benchmarks.array_sides import Chunked

    lib = Chunked(side)
    rows = size // (8 * COLUMNS)
    x = lib.lib.random.default_rng(0).random((rows, COLUMNS), chunks=(COLUMNS, COLUMNS))
    sink = Sink((rows, COLUMNS))
    start = time.perf_counter()
    lib.lib.store(x - x.mean(axis=0), sink, lock=True, **_how())
    if sink.count != rows * COLUMNS or abs(sink.total) > 1e-6 * sink.count:
        raise AssertionError(f"wrong answer: {sink.count} elements, sum {sink.total}")
    return time.perf_counter() - start


def _block(block_id: Any = None) -> Any:
    import numpy as np

    return np.full((CHUNK, ROW), float(block_id[0]))


def _sum(block: Any) -> Any:
    return block.sum(keepdims=True)


CHUNK, ROW = 100, 10_000


def rechunk(side: str, size: int) -> float:
    """Blocks of whole rows, made by a function, to blocks of whole columns, each then summed."""
    from benchmarks.array_sides import Chunked

    lib = Chunked(side)
    count = size // (8 * CHUNK * ROW)
    x = lib.lib.map_blocks(_block, chunks=((CHUNK,) * count, (ROW,)), dtype=float)
    start = time.perf_counter()
    tall = x.rechunk((-1, CHUNK))
    sums = tall.map_blocks(_sum, chunks=((1,), (1,) * (ROW // CHUNK)), dtype=float)
    value = float(lib.value(sums.sum()))
    seconds = time.perf_counter() - start
    if value != CHUNK * ROW * sum(range(count)):
        raise AssertionError(f"wrong answer: {value}")
    return seconds


def _how() -> dict[str, Any]:
    from benchmarks.shapes import WORKERS

    return {"scheduler": "threads", "num_workers": WORKERS}


def main(side: str, case: str, size: int) -> None:
    """Print what one case took."""
    from benchmarks.memory import peak_bytes, resident_bytes

    if case != "first":  # imports are not what grows
        from benchmarks.array_sides import Chunked

        lib = Chunked(side)
        lib.value(lib.lib.ones(10, chunks=5).sum())
    before = resident_bytes()
    seconds = {"first": first, "anomaly": anomaly, "rechunk": rechunk}[case](side, size)
    print(json.dumps({"seconds": seconds, "peak": peak_bytes() - before}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
