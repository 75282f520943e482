"""The turns of a program's sides on one cluster: limits, what was counted, and the row."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import bench as common
from benchmarks.cluster.sites import DaskSite, RaySite
from benchmarks.measure import Goal, Label, Row, Table, Turn, take_turns

SIDES = ("lazyflow", "engine", "by hand")
ENGINES = ("distributed", "ray")
NOT_SLOWER = 1 / 1.05
COUNTED = {"moved": "MB moved", "spilled": "MB spilled", "peak": "MB at most", "share": "share"}


@dataclass(frozen=True)
class Data:
    """MB of an array and of its chunks, columns of the product, MiB of each worker."""

    mb: float
    chunk: float
    wide: int
    memory: int


@dataclass(frozen=True)
class Load:
    """How many tasks a program has, about; how many ms each takes; MB of a block."""

    tasks: int
    ms: float
    mb: float


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured; after `limit` seconds a turn has failed."""

    fits: Data
    larger: Data
    load: Load
    back: float  # MB, of one value
    calls: int  # of an actor
    limit: float
    widest: int = 4  # workers


SIZES = {
    "tiny": Size(
        1, 1, Data(4, 1, 100, 1024), Data(4, 1, 100, 1024), Load(8, 0.1, 0.1), 1, 5, 60,
        widest=2),
    "small": Size(
        3, 1, Data(100, 12.5, 1000, 1024), Data(2000, 16, 1000, 512), Load(100, 2, 1), 20, 100, 60,
        widest=2),
    "full": Size(
        3, 1, Data(400, 25, 2500, 2048), Data(4300, 16, 1000, 512), Load(200, 5, 4), 80, 200, 120),
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What a side does in a turn.

    run
        The work, given what `prepare` returned outside the clock.
    digest
        Makes a number of what was returned, which all sides agree on.
    check
        Is called before the first turn; raises AssertionError where values are wrong.
    """

    run: Callable[[Any], Any]
    digest: Callable[[Any], float]
    prepare: Callable[[], Any] = tuple
    check: Callable[[], Any] = tuple


class Bench(common.Bench):
    """The engines that are there, and the one cluster that runs now."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self._site: tuple[Any, Any] = (None, None)

    def site(self, engine: str, workers: int, memory: int) -> Any:
        """Return a cluster, the one that runs if it is like that; None where none is asked for."""
        if workers > self.size.widest:
            self.missing["engine"] = f"{workers} workers are for larger sizes"
            return None
        wanted = (engine, workers, memory if engine == "distributed" else 0)
        if not self.there(engine, f"'lazyflow[{engine}]'"):
            return None
        if self._site[0] != wanted:
            self._end_site()
            made = DaskSite(workers, memory) if engine == "distributed" else RaySite(workers)
            self._site = wanted, made
        return self._site[1]

    def _end_site(self) -> None:
        if self._site[1] is not None:
            self.lazyflow.shutdown()
            self._site[1].shutdown()
            self._site = None, None

    def __exit__(self, *given: object) -> None:
        self._end_site()
        super().__exit__(*given)


class _Turn:
    """The turns of one side.

    agreed
        What is right, or what a side found first, and what all found in all turns.
    counted
        What was counted in each, that of warm-ups aside.
    """

    def __init__(
        self, contest: Contest, work: Work, agreed: list[float], tolerance: float
    ) -> None:
        self._work = work
        self._site = contest.site
        self._limit = contest.bench.size.limit
        self._agreed = agreed
        self._tolerance = tolerance
        self._warmed = 0  # cluster, by number
        self.counted: list[dict[str, float]] = []

    def __call__(self) -> float:
        is_first = not self._warmed
        try:
            self._site.start()  # here, since Ray can't be started well by another thread
            if is_first:
                within(self._limit, self._work.check)
            if self._warmed != self._site.number:
                seconds, _ = self._once()
                self._warmed = self._site.number
                if is_first:
                    return seconds
            seconds, counts = self._once()
        except Exception:
            self._site.shutdown()  # what runs on ends with its cluster; a turn starts another one
            raise
        self.counted.append(counts)
        return seconds

    def _once(self) -> tuple[float, dict[str, float]]:
        given, _ = within(self._limit, self._work.prepare)
        self._site.start()
        value, seconds = within(self._limit, partial(self._work.run, given))
        counts = self._site.counts()
        digest, _ = within(self._limit, partial(self._work.digest, value))
        self._agreed.append(digest)
        if not math.isclose(
            digest, self._agreed[0], rel_tol=self._tolerance, abs_tol=self._tolerance
        ):
            raise AssertionError(f"wrong answer: {digest}, not {self._agreed[0]}")
        return seconds, counts


class Contest:
    """The rows of a table, measured on one cluster."""

    def __init__(self, bench: Bench, site: Any) -> None:
        self.bench = bench
        self.site = site
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def add(
        self, label: str, works: dict[str, Work], goal: float | None = NOT_SLOWER,
        tolerance: float = 1e-9, counts: Sequence[str] = ("moved", "spilled", "peak"),
        right: float | None = None,
    ) -> None:  # fmt: skip
        """Let the sides take turns, and add their row."""
        agreed = [] if right is None else [right]
        sides = {side: _Turn(self, work, agreed, tolerance) for side, work in works.items()}
        turns: dict[Label, Turn] = {(label, side): turn for side, turn in sides.items()}
        samples, failed = take_turns(turns, self.bench.repeat, self.bench.at_least)
        row = Row(label, "s", {side: samples[label, side] for _, side in samples})
        row.broken = "lazyflow" in failed
        if "engine" in row.samples and "lazyflow" in row.samples:
            row.result = min(row.samples["engine"]) / min(row.samples["lazyflow"])
        if goal is not None:
            row.goal = Goal(">=", round(goal, 3))
        for what in counts:
            row.counted[COUNTED[what]] = {
                side: median([each[what] for each in turn.counted])
                for side, turn in sides.items()
                if side in row.samples and what in turn.counted[0]
            }
        self.rows.append(row)
        self.notes += [f"{label}, {side} {why}" for side, why in failed.items()]

    def table(self, case: Any, amount: str, *sizes: str) -> Table:
        """Return the rows, the worst first."""
        self.rows.sort(key=lambda row: (not row.broken, row.result or math.inf))
        for row in self.rows:
            if row.goal is not None:
                self.bench.judged(row, row.goal, *sizes)
        return self.bench.table(case, self.rows, amount=amount, notes=self.notes)


def within(limit: float, work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` returns, and its seconds; TimeoutError when it does not end."""
    done: Future[tuple[Any, float]] = Future()

    def run() -> None:
        start = perf_counter()
        try:
            done.set_result((work(), perf_counter() - start))
        except BaseException as error:  # is raised where it is waited for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(limit)
    except TimeoutError:
        if done.done():
            raise
        raise TimeoutError(f"not done after {limit:g} s") from None
