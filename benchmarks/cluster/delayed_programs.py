"""Programs of calls, each written once: `call` makes a call lazy, submits it, or just makes it.

Everything a worker runs is a function of this module or of `process_shapes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.cluster.contest import Load
from benchmarks.process_shapes import loops_for, spin

Call = Callable[..., Any]
CHAINS, STEPS = 20, 50

# Tasks.


def size_of(load: Load) -> int:
    """Return how many numbers a block has."""
    return int(load.mb * 1e6 / 8)


@cache
def loops_of(ms: float) -> int:
    return loops_for(ms / 1e3)


def block(number: int, size: int) -> np.ndarray:
    return np.random.default_rng(number).random(size)


def total(*values: Any) -> Any:
    return sum(values)


def largest(*values: float) -> float:
    return max(values)


def measure(values: np.ndarray, loops: int) -> float:
    """Return a figure of a block, after some work."""
    return float(np.sqrt(values).sum()) + spin(loops)


def step(value: float, loops: int) -> float:
    return value + spin(loops)


def steps(value: float, loops: int, count: int) -> float:
    """Do a whole chain."""
    for _ in range(count):
        value = step(value, loops)
    return value


def fit(values: np.ndarray, weight: float, loops: int) -> float:
    return float(values[::100].mean() * weight) + spin(loops)


def piece(values: np.ndarray, number: int, count: int) -> np.ndarray:
    return values[number::count]


def joined(*pieces: np.ndarray) -> float:
    return float(np.sort(np.concatenate(pieces))[::100].sum())


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


def fold(state: np.ndarray, values: np.ndarray) -> np.ndarray:
    return 0.9 * state + 0.1 * values


def last(values: np.ndarray) -> float:
    return float(values.sum())


def half(low: int, high: int) -> int:
    """Add a range."""
    return sum(range(low, high))


@cache
def csv_files(tasks: int, size: int) -> tuple[TemporaryDirectory[str], list[str]]:
    """Write tables of a key and a value, once; the folder lives as long as Python does."""
    import pandas as pd

    folder = TemporaryDirectory(prefix="lazyflow-csv-")
    paths = []
    for i in range(max(2, tasks // 8)):
        rng = np.random.default_rng(i)
        rows = max(10, size // 8)
        path = str(Path(folder.name) / f"{i}.csv")
        pd.DataFrame({"key": rng.integers(0, 100, rows), "value": rng.random(rows)}).to_csv(path)
        paths.append(path)
    return folder, paths


def read(path: str) -> Any:
    import pandas as pd

    return pd.read_csv(path)


def sums(frame: Any) -> Any:
    return frame.groupby("key")["value"].agg(["sum", "count"])


def means(*parts: Any) -> float:
    import pandas as pd

    whole = pd.concat(parts).groupby(level=0).sum()
    return float((whole["sum"] / whole["count"]).sum())


# Programs.


def map_reduce(call: Call, load: Load) -> Any:
    loops, size = loops_of(load.ms), size_of(load)
    return call(total, *[
        call(measure, call(block, i, size), loops) for i in range(load.tasks)
    ])  # fmt: skip


def pipelines(call: Call, load: Load) -> Any:
    ends = []
    for i in range(CHAINS):
        value = i
        for _ in range(STEPS):
            value = call(step, value, loops_of(load.ms / 10))
        ends.append(value)
    return call(total, *ends)


def pipelines_by_hand(call: Call, load: Load) -> Any:
    return call(total, *[
        call(steps, i, loops_of(load.ms / 10), STEPS) for i in range(CHAINS)
    ])  # fmt: skip


def group_by_csv(call: Call, load: Load) -> Any:
    _, paths = csv_files(load.tasks, size_of(load))
    return call(means, *[call(sums, call(read, path)) for path in paths])


def unbalanced(call: Call, load: Load) -> Any:
    """A few tasks that take as long as a quarter of the others together, the longest last."""
    loops = loops_of(load.ms)
    long = {load.tasks - 1: load.tasks // 4, load.tasks // 2: load.tasks // 8}
    return call(total, *[
        call(spin, loops * long.get(i, 1 + i % 3)) for i in range(load.tasks)
    ])  # fmt: skip


def chain_beside_map(call: Call, load: Load) -> Any:
    loops, value = loops_of(load.ms), 0
    for _ in range(load.tasks // 2):
        value = call(step, value, loops)
    return call(total, value, *[call(spin, loops + i) for i in range(load.tasks // 2)])


def chain_beside_map_by_hand(call: Call, load: Load) -> Any:
    loops, count = loops_of(load.ms), load.tasks // 2
    return call(total, call(steps, 0, loops, count), *[
        call(spin, loops + i) for i in range(count)
    ])  # fmt: skip


def shuffle(call: Call, load: Load) -> Any:
    count = max(2, load.tasks // 12)
    blocks = [call(block, i, size_of(load)) for i in range(count)]
    return call(total, *[
        call(joined, *[call(piece, values, i, count) for values in blocks]) for i in range(count)
    ])  # fmt: skip


def tree(call: Call, load: Load) -> Any:
    level = [call(half, i, i + 1) for i in range(load.tasks * 4)]
    while len(level) > 1:
        level = [call(total, *level[i : i + 2]) for i in range(0, len(level), 2)]
    return level[0]


def tree_by_hand(call: Call, load: Load) -> Any:
    leaves = load.tasks * 4
    each = -(-leaves // 8)
    return call(total, *[
        call(half, low, min(low + each, leaves)) for low in range(0, leaves, each)
    ])  # fmt: skip


def sweep(call: Call, load: Load) -> Any:
    data = call(block, 0, size_of(load) * 2)
    return call(largest, *[
        call(fit, data, i / load.tasks, loops_of(load.ms)) for i in range(load.tasks)
    ])  # fmt: skip


def pairwise(call: Call, load: Load) -> Any:
    blocks = [call(block, i, size_of(load)) for i in range(max(3, load.tasks // 16))]
    return call(largest, *[
        call(distance, one, other) for i, one in enumerate(blocks) for other in blocks[:i]
    ])  # fmt: skip


def rolling_fold(call: Call, load: Load) -> Any:
    state = call(block, 0, size_of(load))
    for i in range(1, load.tasks // 2):
        state = call(fold, state, call(block, i, size_of(load)))
    return call(last, state)


PROGRAMS: dict[str, Callable[[Call, Load], Any]] = {
    "map-reduce": map_reduce, f"pipelines, {CHAINS} x {STEPS}": pipelines,
    "group-by over CSV files": group_by_csv, "unbalanced tasks": unbalanced,
    "chain beside a map": chain_beside_map, "shuffle": shuffle, "tree": tree,
    "parameter sweep": sweep, "pairwise blocks": pairwise, "rolling fold": rolling_fold,
}  # fmt: skip

#: Where tasks are too fine, a loop by hand has larger ones.
BY_HAND: dict[Callable[[Call, Load], Any], Callable[[Call, Load], Any]] = {
    pipelines: pipelines_by_hand, chain_beside_map: chain_beside_map_by_hand, tree: tree_by_hand,
}  # fmt: skip
