"""Who is compared on processes, each made ready once: pools that stay, and how they are asked.

dask's local scheduler starts a pool for every compute, which is what its users get; with ``pool=``
it takes one that stays. Both are measured, as "dask" and "dask pool=". joblib keeps its workers
(loky) between calls, a ProcessPoolExecutor and Ray keep theirs as long as they are open.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from benchmarks.shapes import WORKERS

SIDES = ("lazyflow", "dask", "dask pool=", "joblib", "ray", "futures")
MIB, GIB = 2**20, 2**30


class Pools:
    """Executors by their number of workers; by spawn, as dask has it, since threads run here."""

    def __init__(self) -> None:
        self._made: dict[int, ProcessPoolExecutor] = {}

    def __call__(self, workers: int = WORKERS) -> ProcessPoolExecutor:
        if workers not in self._made:
            context = multiprocessing.get_context("spawn")
            self._made[workers] = ProcessPoolExecutor(workers, mp_context=context)
        return self._made[workers]

    def shutdown(self) -> None:
        for pool in self._made.values():
            pool.shutdown()
        self._made.clear()


@dataclass(frozen=True)
class Lazy:
    """A library of lazy calls (lazyflow, dask), told to run them on processes."""

    lib: Any
    pools: Pools | None = None  # dask's, when they stay

    @property
    def delayed(self) -> Callable[..., Any]:
        made: Callable[..., Any] = self.lib.delayed
        return made

    def _how(self, workers: int) -> dict[str, Any]:
        how: dict[str, Any] = {"scheduler": "processes", "num_workers": workers}
        return how | ({"pool": self.pools(workers)} if self.pools else {})

    def compute(self, *graphs: Any, workers: int = WORKERS) -> tuple[Any, ...]:
        values: tuple[Any, ...] = self.lib.compute(*graphs, **self._how(workers))
        return values

    def persist(self, *graphs: Any) -> tuple[Any, ...]:
        """Return the graphs as finished lazy values."""
        kept: tuple[Any, ...] = self.lib.persist(*graphs, **self._how(WORKERS))
        if hasattr(self.lib, "wait"):  # lazyflow's persist returns at once, dask's when done
            self.lib.wait(kept)
        return kept


class Distributed:
    """A LocalCluster on loopback, started on first use, its workers with a thread each.

    `memory` is the limit of each worker, in MiB.
    """

    def __init__(self, workers: int = WORKERS, memory: int | None = None) -> None:
        self._workers = workers
        self._limit: Any = "auto" if memory is None else memory * MIB
        self._cluster: Any = None
        self._client: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self) -> Any:
        if self._client is None:
            from distributed import Client, LocalCluster

            self._folder = tempfile.TemporaryDirectory(prefix="dask-", ignore_cleanup_errors=True)
            self._cluster = LocalCluster(
                n_workers=self._workers, threads_per_worker=1, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", local_directory=self._folder.name,
                memory_limit=self._limit,
            )
            self._client = Client(self._cluster)
        return self._client

    def __enter__(self) -> Any:
        return self()

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        for part in (self._client, self._cluster):
            if part is not None:
                part.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._client = self._cluster = self._folder = None


class Ray:
    """A Ray on this machine, started on first use, in a folder of its own."""

    def __init__(self, store: int = 4 * GIB, workers: int = WORKERS) -> None:
        self._workers = workers
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # it warns otherwise
        self._store = store
        self._library: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self) -> Any:
        if self._library is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
            ray = import_module("ray")
            ray.init(
                address="local",
                num_cpus=self._workers,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                object_store_memory=self._store,
                _temp_dir=self._folder.name,
            )
            self._library = ray
        return self._library

    def shutdown(self) -> None:
        if self._library is not None:
            self._library.shutdown()
            self._library = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class Joblib:
    """joblib's loky backend, whose workers stay between calls."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def map(
        self, func: Callable[..., Any], *given: Sequence[Any], workers: int = WORKERS
    ) -> list[Any]:
        calls = (self.library.delayed(func)(*each) for each in zip(*given, strict=True))
        values: list[Any] = self.library.Parallel(n_jobs=workers, backend="loky")(calls)
        return values

    def shutdown(self) -> None:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown()
