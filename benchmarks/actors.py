"""What calls of actors cost: lazyflow on processes and threads, Ray and distributed side by side.

Every case is a function of one `Bench` and gives one `Table`, as in `overhead`. An actor of a side
is made before its first turn and lives on; all sides are asked for the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks.command import Suite
from benchmarks.measure import Goal, Label, Table, Turn, clock
from benchmarks.shapes import WORKERS
from benchmarks.sides import Distributed, Ray

SIDES = ("lazyflow", "threads", "ray", "distributed")
MB = 1e6


class Server:
    """Counts calls, and keeps an array."""

    def __init__(self) -> None:
        self.n = 0
        self.w: Any = None

    def add(self, k: int) -> int:
        self.n += k
        return self.n

    def total(self, x: Any) -> float:
        return float(x[0] + x[-1])

    def made(self, size: int) -> Any:
        return np.ones(size // 8)


class Caller:
    """Calls a server, of which it has the handle."""

    def __init__(self, server: Any, on_ray: bool) -> None:
        self.server = server
        self.on_ray = on_ray

    def call(self, method: str, *args: Any) -> Any:
        bound = getattr(self.server, method)
        return bound.remote(*args) if self.on_ray else bound(*args)

    def got(self, future: Any) -> Any:
        if not self.on_ray:
            return future.result()
        import ray

        return ray.get(future)

    def one_by_one(self, count: int) -> int:
        before = self.got(self.call("add", 0))
        for _ in range(count):
            last = self.got(self.call("add", 1))
        return int(last - before)

    def at_once(self, count: int) -> int:
        before = self.got(self.call("add", 0))
        futures = [self.call("add", 1) for _ in range(count)]
        return int(max(map(self.got, futures)) - before)

    def arrays(self, count: int, size: int) -> float:
        array = np.ones(size // 8)
        return float(sum(self.got(self.call("total", array)) for _ in range(count)))


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured. A goal is judged where its numbers are those of the full size."""

    calls: int  # in one turn
    large: int  # bytes
    larges: int  # of them in one turn


SIZES = {
    "tiny": Size(repeat=1, at_least=1, calls=50, large=1 << 20, larges=2),
    "small": Size(repeat=5, at_least=3, calls=500, large=1 << 23, larges=5),
    "full": Size(repeat=11, at_least=3, calls=2000, large=80 << 20, larges=5),
}


class Side:
    """A `Caller` of an actor in this process, `here`, and one that is an actor itself."""

    def __init__(self, actor: Any, caller: Any, on_ray: bool = False) -> None:
        self.here = Caller(actor, on_ray)
        self._there = Caller(caller, on_ray)

    def there(self, method: str, *args: Any) -> Any:
        """Let the other actor call; return what it returns."""
        return self._there.got(self._there.call(method, *args))


class Bench(common.Bench):
    """The libraries that are there, each with an actor."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self._ray = Ray() if self.there("ray", "ray") else None
        self._distributed = Distributed()
        self._sides: dict[str, Side] = {}
        self._makers: dict[str, Callable[[], Side]] = {
            "lazyflow": partial(self._lazyflow, "processes"),
            "threads": partial(self._lazyflow, "threads"),
        }
        if self._ray is not None:
            self._makers["ray"] = self._on_ray
        if self.there("distributed"):
            self._makers["distributed"] = self._on_distributed

    def __exit__(self, *given: object) -> None:
        self._sides.clear()
        self.lazyflow.shutdown()
        if self._ray is not None:
            self._ray.shutdown()
        self._distributed.shutdown()
        super().__exit__(*given)

    def timed(self, row: str, work: Callable[[Side], Any], right: Any = None) -> dict[Label, Turn]:
        """Return the turns of all sides, each with an actor that is made on first use."""
        return {
            (row, name): lambda name=name: clock(lambda: work(self._side(name)), right)  # type: ignore[misc]
            for name in self._makers
        }

    def _side(self, name: str) -> Side:
        if name not in self._sides:
            self._sides[name] = self._makers[name]()
        return self._sides[name]

    def _lazyflow(self, scheduler: str) -> Side:
        actor = self.lazyflow.actor(Server, scheduler=scheduler)()
        caller = self.lazyflow.actor(Caller, scheduler=scheduler)(actor, False)
        return Side(actor, caller)

    def _on_ray(self) -> Side:
        assert self._ray is not None
        ray = self._ray()
        actor = ray.remote(Server).remote()
        caller = ray.remote(Caller).remote(actor, True)
        return Side(actor, caller, True)

    def _on_distributed(self) -> Side:
        client = self._distributed()
        actor = client.submit(Server, actor=True).result()
        caller = client.submit(Caller, actor, False, actor=True).result()
        return Side(actor, caller)


# -- cases ----------------------------------------------------------------------------------


def call(bench: Bench) -> Table:
    """a call there and back, one after the other; result = ms"""
    return calls(bench, call, Caller.one_by_one, "ms", 1e3, 0.3)


def pipelined(bench: Bench) -> Table:
    """many calls, and then all their results; result = µs a call"""
    return calls(bench, pipelined, Caller.at_once, "µs", 1e6, 50)


def calls(
    bench: Bench, case: Callable[[Bench], Table], work: Callable[[Caller, int], int], unit: str,
    scale: float, most: float,
) -> Table:
    """Measure calls from this process, which makes them as a `Caller` does."""
    count = bench.size.calls
    turns = bench.timed("a call", lambda side: work(side.here, count), count)
    rows, failed = bench.measure(turns, unit, scale / count)
    if not rows[0].broken:
        rows[0].result = rows[0].median("lazyflow")
    bench.judged(rows[0], Goal("<=", most), "calls")
    return bench.table(case, rows, failed, amount=f"{count:,} calls")


def large(bench: Bench) -> Table:
    """an array as an argument, and one as a result; result = how many times Ray's time"""
    count, size = bench.size.larges, bench.size.large
    array = np.ones(size // 8)

    def there(side: Side) -> float:
        got, call = side.here.got, side.here.call
        return float(sum(got(call("total", array)) for _ in range(count)))

    def back(side: Side) -> float:
        got, call = side.here.got, side.here.call
        return float(sum(got(call("made", size))[0] for _ in range(count)))

    turns = bench.timed("as an argument", there, 2.0 * count)
    turns |= bench.timed("as a result", back, float(count))
    rows, failed = bench.measure(turns, "ms", 1e3 / count)
    for row in rows:
        row.result = row.ratio("lazyflow", "ray")
    return bench.table(large, rows, failed, amount=f"{size / MB:,.0f} MB")


def between(bench: Bench) -> Table:
    """calls of one actor by another; result = how many times Ray's time"""
    count, larges, size = bench.size.calls, bench.size.larges, bench.size.large
    cases: list[tuple[str, tuple[Any, ...], Any, float]] = [
        ("one by one", ("one_by_one", count), count, 1e3 / count),
        ("at once", ("at_once", count), count, 1e3 / count),
        (f"{size / MB:,.0f} MB", ("arrays", larges, size), 2.0 * larges, 1e3 / larges),
    ]
    rows: list[Any] = []
    failed: dict[str, str] = {}
    for row, asked, right, unit in cases:
        def work(side: Side, asked: tuple[Any, ...] = asked) -> Any:
            return side.there(*asked)

        found, broken = bench.measure(bench.timed(row, work, right), "ms", unit)
        rows += found
        failed |= broken
    for each in rows:
        each.result = each.ratio("lazyflow", "ray")
    return bench.table(between, rows, failed, amount=f"{count:,} calls")


CASES: dict[str, Callable[[Bench], Table]] = {
    case.__name__: case for case in (call, pipelined, large, between)
}

main = Suite(
    name="actors",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "distributed", "ray"),
    make=Bench,
    alike=f"one actor on every side; {WORKERS} workers where there is a cluster",
    durations="tiny takes some seconds, small half a minute, full a minute; goals are for full",
).main
