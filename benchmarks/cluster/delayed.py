"""Ten programs of delayed calls: lazyflow, the engine's own calls, and by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from benchmarks.cluster.contest import Bench, Contest, Load, Work
from benchmarks.cluster.delayed_programs import BY_HAND, PROGRAMS, Call
from benchmarks.measure import Table

Values = Callable[[list[Any]], Any]
Program = Callable[[Call, Load], Any]


def plain(func: Callable[..., Any], *given: Any) -> Any:
    return func(*given)


def lazy_call(library: Any) -> Call:
    """Return what makes a call lazy, by lazyflow or dask."""
    made = cache(library.delayed)
    return lambda func, *given: made(func)(*given)


def callers(bench: Bench, engine: str, site: Any) -> dict[str, tuple[Call, Values]]:
    """Return how each side makes a call, and how it gets the values of several."""
    lazyflow = bench.lazyflow
    ours = lazy_call(lazyflow), lambda lazy: lazyflow.compute(*lazy, scheduler=engine)
    if engine == "ray":
        ray = site.engine()
        remote = cache(ray.remote)
        rays = lambda func, *given: remote(func).remote(*given), ray.get
        return {"lazyflow": ours, "engine": rays, "by hand": rays}
    import dask

    client = site.client
    return {
        "lazyflow": ours,
        "engine": (lazy_call(dask), lambda lazy: dask.compute(*lazy, scheduler=client)),
        "by hand": (
            lambda func, *given: client.submit(func, *given, pure=False),
            lambda futures: client.gather(futures, direct=True),
        ),
    }


def work(bench: Bench, engine: str, site: Any, side: str, program: Program) -> Work:
    """Return what a side does; how it calls is asked for in each turn: clusters are replaced."""
    load = bench.size.load

    def run(_: Any) -> Any:
        call, values = callers(bench, engine, site)[side]
        return values([program(call, load)])[0]

    return Work(run, float)


def delayed(bench: Bench, engine: str, workers: int) -> Table:
    """ten programs of delayed calls"""
    contest = Contest(bench, bench.site(engine, workers, bench.size.fits.memory))
    load = bench.size.load
    for label, program in PROGRAMS.items() if contest.site else ():
        if "CSV" in label and not bench.there("pandas"):
            continue
        sides = {"lazyflow": program, "engine": program}
        if engine == "distributed" or program in BY_HAND:
            sides["by hand"] = BY_HAND.get(program, program)
        contest.add(label, {
            side: work(bench, engine, contest.site, side, written)
            for side, written in sides.items()
        }, right=program(plain, load))
    amount = f"{load.tasks} tasks of {load.ms:g} ms, or blocks of {load.mb:g} MB; {workers} workers"
    return contest.table(delayed, amount, "load")
