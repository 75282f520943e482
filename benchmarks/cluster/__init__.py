"""What work of real size costs on a cluster: lazyflow, the engine alone, and loops by hand.

Array programs that fit and that don't, programs of delayed calls, actors, and results that come
back, on distributed and on Ray, of 2 and of 4 workers with a thread each. A row's result is the
engine's least time over lazyflow's; rows are printed worst first. Below a row stands what else was
counted: MB that moved between workers and that a worker wrote to disk, the most memory that a
worker's process had, and, for what stays on the workers, the most that one holds over the mean.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import title_of
from benchmarks.cluster import arrays, delayed, exchange
from benchmarks.cluster.contest import ENGINES, SIDES, SIZES, Bench
from benchmarks.command import Suite
from benchmarks.measure import Table

Kind = Callable[[Bench, str, int], Table]


def _case(kind: Kind, engine: str, workers: int) -> Callable[[Bench], Table]:
    def case(bench: Bench) -> Table:
        table = kind(bench, engine, workers)
        table.name = case.__name__
        return table

    case.__name__ = f"{kind.__name__}-{engine}-{workers}"
    case.__doc__ = f"{title_of(kind)}, on {engine} with {workers} workers"  # type: ignore[arg-type]
    return case


CASES = {
    case.__name__: case
    for workers in (2, 4)
    for engine in ENGINES
    for kind in (arrays.arrays, delayed.delayed, exchange.exchange, arrays.larger)
    if engine == "distributed" or kind not in (arrays.arrays, arrays.larger)
    for case in (_case(kind, engine, workers),)
}

main = Suite(
    name="cluster",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "dask", "distributed", "ray", "numpy"),
    make=Bench,
    alike="one cluster at a time, workers with a thread each, sides in turns on it",
    durations="tiny takes half a minute, small and full a quarter of an hour, but what is larger "
    "than memory far longer in full; goals are for full",
).main
