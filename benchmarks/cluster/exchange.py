"""What goes to a cluster and comes back: large results, large arguments, calls of actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.actors import Caller, Server
from benchmarks.cluster.arrays import COLUMNS, Library, dasks, ours
from benchmarks.cluster.contest import SIDES, Bench, Contest, Size, Work
from benchmarks.cluster.delayed import callers
from benchmarks.measure import Table

LARGES = 5  # results of an actor, one after the other
PARTS = 10


def made(size: int) -> np.ndarray:
    return np.ones(size // 8)


def total(array: np.ndarray) -> float:
    return float(array.sum())


def _digest(found: Any) -> float:
    """Return the sum of several arrays, or numbers."""
    return float(sum(np.sum(each) for each in found))


def exchange(bench: Bench, engine: str, workers: int) -> Table:
    """large values that come back or go there, and calls of actors"""
    size = bench.size
    contest = Contest(bench, bench.site(engine, workers, size.fits.memory))
    site = contest.site
    if site:
        for label, count in (("one value back", 1), (f"{PARTS} values back", PARTS)):
            contest.add(label, {side: _back(bench, engine, site, side, count) for side in SIDES})
        if engine == "distributed":
            libraries = {"lazyflow": ours(bench), "engine": dasks()}
            contest.add("an array back", {
                side: _array_back(library, size.back) for side, library in libraries.items()
            })
        array = made(int(size.back * 1e6))
        contest.add("a large argument", {
            side: _argument(bench, engine, site, side, array) for side in SIDES[:2]
        })
        for label, ask in (("an actor's large results", _larges), ("an actor's calls", _calls)):
            contest.add(label, {
                side: _asking(bench, engine, site, side, ask) for side in SIDES[:2]
            })
    amount = (
        f"{size.back:g} MB; {LARGES} results of {size.back / PARTS:g} MB, {size.calls} calls; "
        f"{workers} workers"
    )
    return contest.table(exchange, amount, "back", "calls")


def _back(bench: Bench, engine: str, site: Any, side: str, count: int) -> Work:
    """Return what a side does for some values; Ray's can't be edited, by hand they are copied."""
    is_copied = engine == "ray" and side == "by hand"

    def run(_: Any) -> Any:
        call, values = callers(bench, engine, site)[side]
        found = values([call(made, int(bench.size.back * 1e6) // count) for _ in range(count)])
        return [each.copy() for each in found] if is_copied else found

    return Work(run, _digest)


def _array_back(library: Library, mb: float) -> Work:
    count = int(mb * 1e6 / 8 / COLUMNS)

    def prepare() -> Any:
        ones = library.arrays.ones((count, COLUMNS), chunks=(-(-count // PARTS), COLUMNS))
        return library.keep(ones)

    return Work(library.value, lambda value: _digest([value]), prepare)


def _argument(bench: Bench, engine: str, site: Any, side: str, array: np.ndarray) -> Work:
    def run(_: Any) -> Any:
        call, values = callers(bench, engine, site)[side]
        if side == "engine" and engine == "distributed":  # its own way: a graph is no place for it
            return [site.client.submit(total, site.client.scatter(array), pure=False).result()]
        return values([call(total, array)])

    return Work(run, _digest)


# Actors.


def _actor(bench: Bench, engine: str, site: Any, side: str) -> Caller:
    if side == "lazyflow":
        return Caller(bench.lazyflow.actor(Server, scheduler=engine)(), False)
    if engine == "distributed":
        return Caller(site.client.submit(Server, actor=True, pure=False).result(), False)
    return Caller(site.engine().remote(Server).remote(), True)


def _larges(caller: Caller, size: Size) -> Any:
    of = int(size.back * 1e6) // PARTS
    return [caller.got(caller.call("made", of)) for _ in range(LARGES)]


def _calls(caller: Caller, size: Size) -> Any:
    before = caller.got(caller.call("add", 0))
    return [caller.got(caller.call("add", 1)) - before for _ in range(size.calls)]


def _asking(
    bench: Bench, engine: str, site: Any, side: str, ask: Callable[[Caller, Size], Any]
) -> Work:
    def prepare() -> Caller:
        found = _actor(bench, engine, site, side)
        found.got(found.call("add", 0))  # it is there
        return found

    return Work(lambda actor: ask(actor, bench.size), _digest, prepare)
