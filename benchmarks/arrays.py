"""What chunked arrays cost: lazyflow, dask.array, NumPy, numexpr, JAX and hand-written Numba loops.

Every case is a function of one `Bench` and gives one `Table`, as in `overhead`. Kernels that are
compiled in the background are waited for after the warm-up turn, as Numba's are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import isqrt
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks.array_sides import (
    SIDES,
    STENCILS,
    Chunked,
    by_numexpr,
    hand_written,
    repeated,
    simple,
    transcendental,
)
from benchmarks.command import Suite
from benchmarks.compiled_sides import WORKS, Close, Work, by_jax
from benchmarks.measure import Goal, Label, Row, Table, Turn, clock
from benchmarks.shapes import WORKERS

MB = 1e6


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    elements: int  # of each long array
    chunk: int
    rows: int  # of a table with 50 columns
    grid: int  # chunks of 20 x 20 along each side
    pieces: int  # chunks of what is permuted
    matrix: int  # rows and columns
    block: int
    bytes: int  # of what is rechunked or stored
    stencil: int  # elements that stencils go over
    steps: int  # of each stencil


SIZES = {
    "tiny": Size(1, 1, 100_000, 10_000, 2_000, 10, 20, 200, 100, 8_000_000, 10_000, 3),
    "small": Size(5, 3, 8_000_000, 1_000_000, 100_000, 50, 100, 1000, 250, 160_000_000, 100_000, 5),
    "full": Size(
        11, 3, 40_000_000, 1_000_000, 400_000, 100, 1000, 4000, 1000, 800_000_000, 250_000, 8
    ),
}


class Bench(common.Bench):
    """The libraries that are there, and the data."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self.chunked = {"lazyflow": Chunked("lazyflow")}
        if self.there("dask"):
            self.chunked["dask"] = Chunked("dask")

    @cached_property
    def long(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        return rng.random(self.size.elements), rng.random(self.size.elements)

    def turns(self, row: str, work: Callable[[Chunked], Any], right: Any) -> dict[Label, Turn]:
        """Return the turns of the chunked libraries."""
        return {
            (row, name): self._turn(lambda lib=lib: work(lib), right)  # type: ignore[misc]
            for name, lib in self.chunked.items()
        }

    def _turn(self, work: Callable[[], Any], right: Any) -> Turn:
        def turn() -> float:
            seconds = clock(work, right)
            self.chunked["lazyflow"].lib.wait_compiled()  # outside the clock; at once when warm
            return seconds

        return turn

    def fresh(self, case: str, size: int, *sides: str) -> tuple[list[dict[str, Any]], Any]:
        """Run a case in fresh processes; return what they printed by side, and who failed."""
        found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        failed: dict[str, str] = {}
        for _ in range(min(self.repeat, 3)):
            for side in sides:
                try:
                    text = self.child("-m", "benchmarks.array_process", side, case, str(size))
                    found[side].append(json.loads(text))
                except RuntimeError as error:
                    failed[side] = f"failed: {error}"
        rows = [
            {side: [one[what] for one in v] for side, v in found.items() if v}
            for what in ("seconds", "peak")
        ]
        return rows, failed


def _judged(bench: Bench, row: Row, result: float | None, goal: Goal, *sizes: str) -> None:
    row.result = result
    bench.judged(row, goal, *sizes)


# -- cases ----------------------------------------------------------------------------------


def fused(bench: Bench) -> Table:
    """((x - 0.5)*y + x*2 - y/3).sum(), warm; result = dask / lazyflow, then lazyflow / numba"""
    x, y = bench.long
    right = Close(simple(x, y).sum())
    chunk = bench.size.chunk

    def work(lib: Chunked) -> Any:
        return lib.value(simple(lib.array(x, chunk), lib.array(y, chunk)).sum())

    row = "sum"
    turns = bench.turns(row, work, right)
    turns[row, "numpy"] = lambda: clock(lambda: simple(x, y).sum(), right)
    if bench.there("numexpr"):
        evaluate = by_numexpr("sum((x - 0.5)*y + x*2 - y/3)")
        turns[row, "numexpr"] = lambda: clock(lambda: evaluate(x=x, y=y), right)
    total = hand_written()
    turns[row, "numba"] = lambda: clock(lambda: total(x, y), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    _judged(bench, rows[0], rows[0].ratio("dask", "lazyflow"), Goal(">=", 8), "elements", "chunk")
    by_hand = Row("lazyflow / numba", "times", broken=rows[0].broken)
    _judged(
        bench, by_hand, rows[0].ratio("lazyflow", "numba"), Goal("<=", 1.3), "elements", "chunk"
    )
    rows.append(by_hand)
    return bench.table(fused, rows, failed, amount=f"{bench.size.elements:,} elements")


def first(bench: Bench) -> Table:
    """the same, first time in a fresh process, import included; result = dask / lazyflow"""
    size = bench.size.elements
    (seconds, _), failed = bench.fresh("first", size, *bench.chunked, "numpy")
    row = Row("first", "ms", {side: [s * 1e3 for s in v] for side, v in seconds.items()})
    row.broken = "lazyflow" in failed
    _judged(bench, row, row.ratio("dask", "lazyflow"), Goal(">=", 8), "elements")
    return bench.table(first, [row], failed, amount=f"{size:,} elements")


def functions(bench: Bench) -> Table:
    """(exp(-x*x)*y + tanh(y)).sum(), warm; result = dask / lazyflow, then numexpr / lazyflow"""
    x, y = bench.long
    right = Close(transcendental(np, x, y).sum())
    chunk = bench.size.chunk

    def work(lib: Chunked) -> Any:
        made = transcendental(lib.lib, lib.array(x, chunk), lib.array(y, chunk))
        return lib.value(made.sum())

    row = "sum"
    turns = bench.turns(row, work, right)
    turns[row, "numpy"] = lambda: clock(lambda: transcendental(np, x, y).sum(), right)
    if bench.there("numexpr"):
        evaluate = by_numexpr("sum(exp(-x*x)*y + tanh(y))")
        turns[row, "numexpr"] = lambda: clock(lambda: evaluate(x=x, y=y), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    _judged(bench, rows[0], rows[0].ratio("dask", "lazyflow"), Goal(">=", 3), "elements", "chunk")
    other = Row("numexpr / lazyflow", "times", broken=rows[0].broken)
    _judged(
        bench, other, rows[0].ratio("numexpr", "lazyflow"), Goal(">=", 4), "elements", "chunk"
    )
    rows.append(other)
    return bench.table(functions, rows, failed, amount=f"{bench.size.elements:,} elements")


def standardise(bench: Bench) -> Table:
    """((x - x.mean(0)) / x.std(0)).max() of 50 columns; result = dask / lazyflow"""
    x = np.random.default_rng(0).random((bench.size.rows, 50))
    right = Close(((x - x.mean(0)) / x.std(0)).max())
    chunks = (max(bench.size.rows // 20, 1), 50)

    def work(lib: Chunked) -> Any:
        a = lib.array(x, chunks)
        return lib.value(((a - a.mean(axis=0)) / a.std(axis=0)).max())

    turns = bench.turns("max", work, right)
    turns["max", "numpy"] = lambda: clock(lambda: ((x - x.mean(0)) / x.std(0)).max(), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    _judged(bench, rows[0], rows[0].ratio("dask", "lazyflow"), Goal(">=", 6), "rows")
    return bench.table(standardise, rows, failed, amount=f"{bench.size.rows:,} x 50")


def compiled(bench: Bench) -> Table:
    """beside compilers, on 100 columns; result = lazyflow / the fastest of JAX and Numba"""
    rng = np.random.default_rng(0)
    x, y = (rng.random((bench.size.rows, 100)) for _ in range(2))
    size, has_jax = max(bench.size.rows // 64, 1), bench.there("jax")
    turns: dict[Label, Turn] = {}
    for name, work in WORKS.items():
        right = Close(work.by_names(np, x, y))

        def ours(lib: Chunked, work: Work = work) -> Any:
            made = work.by_names(lib.lib, lib.array(x, (size, 100)), lib.array(y, (size, 100)))
            return lib.value(made)

        turns |= bench.turns(name, ours, right)
        if has_jax:
            turns[name, "jax"] = partial(clock, by_jax(work, x, y), right)
        if work.by_loop is not None:
            turns[name, "numba"] = partial(clock, partial(work.by_loop, x, y), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    for row in rows:
        ratios = [row.ratio("lazyflow", side) for side in ("jax", "numba")]
        least = max([each for each in ratios if each is not None], default=None)
        _judged(bench, row, least, Goal("<=", 1.1), "rows")
    return bench.table(compiled, rows, failed, amount=f"{bench.size.rows:,} x 100")


def small_chunks(bench: Bench) -> Table:
    """(a + 1 + a.T).sum(0) in chunks of 20 x 20; result = dask / lazyflow"""
    n = bench.size.grid * 20
    a = np.random.default_rng(0).random((n, n))
    right = Close((a + 1 + a.T).sum(0).sum())

    def work(lib: Chunked) -> Any:
        x = lib.array(a, 20)
        return lib.value((x + 1 + x.T).sum(axis=0)).sum()

    turns = bench.turns("sum", work, right)
    turns["sum", "numpy"] = lambda: clock(lambda: (a + 1 + a.T).sum(0).sum(), right)
    rows, failed = bench.measure(turns, "ms", 1e3, patience=20.0)
    _judged(bench, rows[0], rows[0].ratio("dask", "lazyflow"), Goal(">=", 50), "grid")
    return bench.table(small_chunks, rows, failed, amount=f"{bench.size.grid ** 2:,} chunks")


def permutation(bench: Bench) -> Table:
    """x[permutation] in chunks of 100 elements; result = dask / lazyflow"""
    n = bench.size.pieces * 100
    rng = np.random.default_rng(0)
    x, order = rng.random(n), rng.permutation(n)
    right = float(x[order][::7].sum())

    def work(lib: Chunked) -> Any:
        return float(lib.value(lib.array(x, 100)[order])[::7].sum())

    turns = bench.turns("x[p]", work, right)
    turns["x[p]", "numpy"] = lambda: clock(lambda: float(x[order][::7].sum()), right)
    rows, failed = bench.measure(turns, "ms", 1e3, patience=20.0)
    _judged(bench, rows[0], rows[0].ratio("dask", "lazyflow"), Goal(">=", 10), "pieces")
    return bench.table(permutation, rows, failed, amount=f"{bench.size.pieces:,} chunks")


def matmul(bench: Bench) -> Table:
    """a @ b, in blocks; result = NumPy / lazyflow"""
    n, block = bench.size.matrix, bench.size.block
    rng = np.random.default_rng(0)
    a, b = rng.random((n, n)), rng.random((n, n))
    right = Close((a @ b).sum())

    def work(lib: Chunked) -> Any:
        return lib.value(lib.array(a, block) @ lib.array(b, block)).sum()

    turns = bench.turns("a @ b", work, right)
    turns["a @ b", "numpy"] = lambda: clock(lambda: (a @ b).sum(), right)
    rows, failed = bench.measure(turns, "ms", 1e3)
    _judged(bench, rows[0], rows[0].ratio("numpy", "lazyflow"), Goal(">=", 0.9), "matrix", "block")
    return bench.table(matmul, rows, failed, amount=f"{n:,} x {n:,} in {block:,} x {block:,}")


def rechunk(bench: Bench) -> Table:
    """whole rows to whole columns, in a fresh process; result = peak / data, lazyflow / dask"""
    size = bench.size.bytes
    (seconds, peaks), failed = bench.fresh("rechunk", size, *bench.chunked)
    memory = Row("peak", "MB", {side: [p / MB for p in v] for side, v in peaks.items()})
    spent = Row("time", "s", seconds)
    memory.broken = spent.broken = "lazyflow" in failed
    if not memory.broken:
        _judged(bench, memory, memory.median("lazyflow") * MB / size, Goal("<=", 1.35), "bytes")
    _judged(bench, spent, spent.ratio("lazyflow", "dask"), Goal("<=", 1), "bytes")
    return bench.table(rechunk, [memory, spent], failed, amount=f"{size / MB:,.0f} MB")


def anomaly(bench: Bench) -> Table:
    """x - x.mean(0) of random numbers, stored by chunks, in a fresh process; result = MB"""
    size = bench.size.bytes
    (seconds, peaks), failed = bench.fresh("anomaly", size, *bench.chunked)
    memory = Row("peak", "MB", {side: [p / MB for p in v] for side, v in peaks.items()})
    spent = Row("time", "s", seconds)
    memory.broken = spent.broken = "lazyflow" in failed
    if not memory.broken:
        _judged(bench, memory, memory.median("lazyflow"), Goal("<=", 200), "bytes")
    return bench.table(anomaly, [memory, spent], failed, amount=f"{size / MB:,.0f} MB")


def stencils(bench: Bench) -> Table:
    """steps of stencils, by rolls, pads and slices; result = dask / lazyflow"""
    n, side = bench.size.stencil, isqrt(bench.size.stencil)
    rng = np.random.default_rng(0)
    long, board = rng.random(n), rng.integers(0, 2, (side, side)).astype("i1")
    turns: dict[Label, Turn] = {}
    for row, step in STENCILS.items():
        x, chunks = (board, side // 2) if row.startswith("life") else (long, n // 4)
        right = Close(repeated(np, step, x, bench.size.steps).sum())

        def work(lib: Chunked, step: Any = step, x: Any = x, chunks: int = chunks) -> Any:
            made = repeated(lib.lib, step, lib.array(x, chunks), bench.size.steps)
            return lib.value(made).sum()

        turns |= bench.turns(row, work, right)
        turns[row, "numpy"] = lambda step=step, x=x, right=right: clock(  # type: ignore[misc]
            lambda: repeated(np, step, x, bench.size.steps).sum(), right
        )
    rows, failed = bench.measure(turns, "ms", 1e3, patience=20.0)
    for one in rows:
        _judged(bench, one, one.ratio("dask", "lazyflow"), Goal(">=", 2), "stencil", "steps")
    amount = f"{n:,} elements, {bench.size.steps} steps"
    return bench.table(stencils, rows, failed, amount=amount)


IMPORT = """\
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def imports(bench: Bench) -> Table:
    """the import, in a fresh process; result = lazyflow / dask"""
    modules = {"lazyflow": "lazyflow.array", "dask": "dask.array", "numpy": "numpy"}
    turns: dict[Label, Turn] = {
        ("import", side): lambda module=module: float(  # type: ignore[misc]
            bench.child("-c", IMPORT.format(module=module))
        )
        for side, module in modules.items() if side == "numpy" or side in bench.chunked
    }
    rows, failed = bench.measure(turns, "ms", 1e3)
    _judged(bench, rows[0], rows[0].ratio("lazyflow", "dask"), Goal("<=", 0.5))
    return bench.table(imports, rows, failed)


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case
    for case in (
        fused, first, functions, standardise, compiled, small_chunks, permutation, matmul, rechunk,
        anomaly, stencils, imports,
    )
}

main = Suite(
    name="arrays",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask", "numpy", "numexpr", "numba", "jax"),
    make=Bench,
    alike=f"{WORKERS} threads on every side",
    durations="tiny takes some seconds, small half a minute, full some minutes; goals are for full",
).main
