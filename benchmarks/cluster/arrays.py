"""Array programs on distributed: lazyflow.array, dask.array, and blocks of rows by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

from benchmarks.cluster.array_programs import PROGRAMS, ROWS, Program
from benchmarks.cluster.contest import Bench, Contest, Data, Work
from benchmarks.measure import Goal, Row, Table

COLUMNS = 1000
_FAN_IN = 4  # blocks added at once by hand
_ALIKE = 0.02  # random numbers of two libraries, in the mean


@dataclass(frozen=True)
class Library:
    """A library of arrays, how its values are computed, and how they are kept on the workers."""

    arrays: Any
    value: Callable[[Any], Any]
    keep: Callable[[Any], Any]


def ours(bench: Bench) -> Library:
    lazyflow = bench.lazyflow

    def keep(x: Any) -> Any:
        kept = x.persist(scheduler="distributed")
        lazyflow.wait(kept)
        return kept

    return Library(
        import_module("lazyflow.array"), lambda x: x.compute(scheduler="distributed"), keep
    )


def dasks() -> Library:
    from distributed import wait

    def keep(x: Any) -> Any:
        kept = x.persist()
        wait(kept)
        return kept

    return Library(import_module("dask.array"), lambda x: x.compute(), keep)


def shape_of(data: Data, program: Program) -> tuple[int, int, int]:
    """Return rows, columns, and rows of a chunk."""
    columns = data.wide if program.is_wide else COLUMNS
    rows, chunk = (max(1, int(mb * 1e6 / 8 / columns)) for mb in (data.mb, data.chunk))
    return rows, columns, chunk


def random(library: Library, data: Data, program: Program) -> Any:
    rows, columns, chunk = shape_of(data, program)
    rng = library.arrays.random.default_rng(0)
    return rng.random((rows, columns), chunks=(chunk, columns))


def lazy_work(
    library: Library, data: Data, program: Program, is_kept: bool, is_checked: bool
) -> Work:
    """Return what a library of arrays does; its array is kept before or made by the program.

    `is_checked`: first all values are compared with NumPy's, on a small array.
    """

    def prepare() -> Any:
        return library.keep(random(library, data, program)) if is_kept else None

    def run(kept: Any) -> Any:
        x = random(library, data, program) if kept is None else kept
        made = program.lazy(library.arrays, x)
        return library.keep(made) if program.stays else library.value(made)

    def digest(value: Any) -> float:
        return float(library.value(value.mean()) if program.stays else np.mean(value))

    def check() -> None:
        x = np.random.default_rng(0).random((ROWS, 50))
        lazy = program.lazy(library.arrays, library.arrays.from_array(x, chunks=(ROWS // 8, 50)))
        np.testing.assert_allclose(library.value(lazy), program.lazy(np, x))

    return Work(run, digest, prepare, check if is_checked else tuple)


# By hand. What workers run is a function of this module or of `array_programs`.


def block(number: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(number).random((rows, columns))


def added(*parts: Any) -> Any:
    return sum(parts)


def new_part(part: Callable[[np.ndarray], Any], *of_block: int) -> Any:
    return part(block(*of_block))


def hand_work(site: Any, data: Data, program: Program, is_kept: bool) -> Work:
    """Return the loop by hand: a task for each block, and a tree of sums."""
    rows, columns, chunk = shape_of(data, program)
    sizes = [(i, min(chunk, rows - low), columns) for i, low in enumerate(range(0, rows, chunk))]
    given = [list(column) for column in zip(*sizes, strict=True)]

    def prepare() -> Any:
        if not is_kept:
            return None
        from distributed import wait

        kept = site.client.map(block, *given, pure=False)
        wait(kept)
        return kept

    def run(kept: Any) -> Any:
        client = site.client
        if kept is None:
            parts = client.map(new_part, [program.part] * len(sizes), *given, pure=False)
        else:
            parts = client.map(program.part, kept, pure=False)
        while len(parts) > 1:
            parts = [
                client.submit(added, *parts[i : i + _FAN_IN], pure=False)
                for i in range(0, len(parts), _FAN_IN)
            ]
        return parts[0].result()

    return Work(run, lambda value: float(np.mean(value)), prepare)


# Tables.


def arrays(bench: Bench, engine: str, workers: int) -> Table:
    """array programs that fit; some of an array that is there"""
    return _measured(bench, engine, workers, bench.size.fits, True)


def larger(bench: Bench, engine: str, workers: int) -> Table:
    """array programs of more than the workers' memory, arrays made in the program"""
    return _measured(bench, engine, workers, bench.size.larger, False)


def _measured(bench: Bench, engine: str, workers: int, data: Data, may_keep: bool) -> Table:
    case, size = (arrays, "fits") if may_keep else (larger, "larger")
    contest = Contest(bench, bench.site(engine, workers, data.memory))
    for program in PROGRAMS if contest.site else ():
        is_kept = may_keep and program.is_of_kept
        works = {
            "lazyflow": lazy_work(ours(bench), data, program, is_kept, may_keep),
            "engine": lazy_work(dasks(), data, program, is_kept, may_keep),
        }
        if program.part is not None:
            works["by hand"] = hand_work(contest.site, data, program, is_kept)
        counts = ("moved", "spilled", "peak", *(["share"] if program.stays else []))
        goal = {} if program.goal is None or not is_kept else {"goal": program.goal}
        contest.add(program.label, works, tolerance=_ALIKE, counts=counts, **goal)
    times = data.mb * 1e6 / 2**20 / data.memory / workers
    amount = (
        f"{data.mb:,.0f} MB in chunks of {data.chunk:g}; {workers} workers of {data.memory:,} MiB, "
        f"{times:.1f} times what they have"
    )
    found = contest.table(case, amount, size)
    for row in _summary(contest.rows) if contest.rows else ():
        bench.judged(row, row.goal, size)  # type: ignore[arg-type]
        found.rows.append(row)
    return found


def _summary(rows: list[Row]) -> list[Row]:
    """Return rows of all programs: the median of the ratios, what moves more, the worst share."""
    ratios = [row.result for row in rows if row.result is not None]
    both = [c for row in rows if len(c := row.counted["MB moved"]) > 1 and "engine" in c]
    beyond = [c["lazyflow"] - c["engine"] for c in both if "lazyflow" in c]
    shares = [c["lazyflow"] for row in rows if "lazyflow" in (c := row.counted.get("share", {}))]
    return [
        Row("all, median", "times", result=median(ratios) if ratios else None,
            goal=Goal(">=", 1.3)),
        Row("moved beyond engine's", "MB", result=max(beyond, default=None),
            goal=Goal("<=", 1)),
        Row("largest share", "of 1", result=max(shares, default=None), goal=Goal("<=", 1.3)),
    ]  # fmt: skip
