"""Data sets of four times a memory limit: peak and time, ours and dask's, each in its own process.

The data are made and persisted, then computed on, on two threads. Times include both. dask's
threads have no limit: what they take shows what there is to be spilled. `distributed` has one of
its own: a process of two threads, which is given the same limit. With ``--cluster``, both run on
two workers of `distributed` with one thread and the limit each.

The disk's own time is that of writing what of the data does not fit until it is on the disk, and of
reading all of them once; twice that, for those cases that put all data together anew or keep as
much again, and three times for those that store what they have put together. It is the mean of a
measurement before our side and one after it, since the time of one disk varies by factors. Before
each side the system writes what it still has from the one before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.command import check_options
from benchmarks.memory import peak_bytes, peak_of
from benchmarks.survey import LIBRARIES

MIB = 1 << 20
COLUMNS = 512
SIDES = ("lazyflow", "dask", "dask/1")  # on threads, or on so many workers of distributed
CLUSTER_SIDES = ("lazyflow/2", "dask/2")
CHUNKS = 128  # of the size of the limit, on clusters; else they are of 8 MiB

READ = """
    x.sum() | ((x - x.mean(0)) / x.std(0)).max() | (x.T @ x).max() | x[x > 0.5].sum()
    x.cumsum(axis=0)[-1].sum() | x[::-1].max() | la.median(x)
"""
MADE_AGAIN = """
    x.rechunk((-1, 64)).max(axis=0).sum() | (x + 1).persist().max() | x[order].max()
    la.sort(x.reshape(-1))[-1] | stored(x.rechunk((-1, 8)))[:, 1].sum()
    stored(x.T.rechunk((8, -1)))[1].sum() | x.rechunk((-1, 16)).persist().sum()
    x.cumsum(axis=0).persist().max()
"""


def expressions(cases: str = READ + MADE_AGAIN) -> list[str]:
    """Return the expressions that are measured."""
    return [piece.strip() for piece in cases.replace("\n", " | ").split(" | ") if piece.strip()]


def run_case(side: str, expression: str, limit: int) -> tuple[float, int, float]:
    """Return the value, the most bytes that a process took, and the seconds of one case."""
    library, _, workers = side.partition("/")
    la, base = import_module(LIBRARIES[library]), import_module(library)
    rows = 4 * limit // (8 * COLUMNS)
    chunk = (limit // CHUNKS if side in CLUSTER_SIDES else 8 * MIB) // (8 * COLUMNS)
    base.config.set(scheduler="threads", num_workers=2)
    if side == "lazyflow":
        base.config.set(memory_limit=limit)
    with _client(limit, int(workers)) if workers else nullcontext() as client:
        if client is not None:
            base.config.set(scheduler=client)
        start = perf_counter()
        numbers = la.arange(rows * COLUMNS, chunks=chunk * COLUMNS, dtype="f8")
        (x,) = base.persist(numbers.reshape(rows, COLUMNS) * (1 / (rows * COLUMNS)))
        order = np.random.default_rng(0).permutation(rows)
        with tempfile.TemporaryDirectory() as folder:
            names = {"x": x, "la": la, "order": order, "stored": partial(stored, la, folder)}
            value = float(eval(expression, names).compute())
        seconds = perf_counter() - start
        pids = [] if client is None else client.run(os.getpid).values()
        peak = max([peak_of(pid) for pid in pids], default=0) or peak_bytes()
    return value, peak, seconds


def stored(la: Any, folder: str, x: Any) -> Any:
    """Write an array to a zarr array without compression; return an array that reads it."""
    zarr: Any = import_module("zarr")
    target = zarr.create_array(
        f"{folder}/x", shape=x.shape, chunks=x.chunksize, dtype=x.dtype, compressors=None
    )
    la.store(x, target, lock=False)
    return la.from_array(target)


def _client(limit: int, workers: int) -> Any:
    distributed: Any = import_module("distributed")
    return distributed.Client(
        n_workers=workers, threads_per_worker=2 // workers, memory_limit=limit,
        dashboard_address=None,
        local_directory=tempfile.gettempdir(), silence_logs=50,
    )


def disk_seconds(limit: int, held: int = 1, passes: int = 1) -> float:
    """Return the seconds for writing all data but so many limits, and reading all, some times."""
    block = os.urandom(8 * MIB)
    os.sync()
    start = perf_counter()
    with tempfile.TemporaryFile(buffering=0) as file:
        written = (4 - held) * limit
        for _ in range(passes):
            file.seek(0, os.SEEK_END)  # what is written over what is in the cache costs no disk
            for _ in range(written // len(block)):
                file.write(block)
            for at in range(4 * limit // len(block)):
                file.seek(at * len(block) % max(1, written - len(block)))
                file.read(len(block))
        os.fsync(file)
    return perf_counter() - start


def measured(side: str, expression: str, limit: int, timeout: float) -> Any:
    """Return what `run_case` does in a process of its own, or why there is nothing."""
    command = [sys.executable, "-m", "benchmarks.larger_than_memory", side, expression, str(limit)]
    os.sync()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"not done after {timeout:g} s"
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["ended"]
        return said[-1][:40]
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: Sequence[str]) -> int:
    """Print peak and seconds of each case; return 1 where ours is above 1.2 of the limit."""
    given = _options(argv)
    limit = given.limit * MIB
    sides, where = (CLUSTER_SIDES, "workers") if given.cluster else (SIDES, "threads")
    held = 2 if given.cluster else 1
    print(f"limit {given.limit} MiB, data {4 * given.limit} MiB; two {where}")
    print(f"{'peak / limit, seconds, / disk':44}{'disk':>8}"
          + "".join(f"{side:>30}" for side in sides))
    above = 0
    for expression in expressions():
        if given.only not in expression:
            continue
        cells, values = [], []
        passes = 1 if expression in expressions(READ) else 3 if "stored" in expression else 2
        before = disk_seconds(limit, held, passes)
        ours = measured(sides[0], expression, limit, given.timeout)
        disk = (before + disk_seconds(limit, held, passes)) / 2
        for side in sides:
            found = ours if side == sides[0] else measured(side, expression, limit, given.timeout)
            if isinstance(found, str):
                cells.append(found)
                above += side == sides[0]
                continue
            value, peak, seconds = found
            values.append(value)
            cells.append(f"{peak / limit:.2f} {seconds:7.1f} s {seconds / disk:6.1f}")
            above += side == sides[0] and peak > 1.2 * limit
        differ = values and max(values) - min(values) > 1e-6 * abs(max(values, key=abs))
        print(f"{expression[:43]:44}{disk:6.1f} s" + "".join(f"{cell[:28]:>30}" for cell in cells)
              + ("  differ" if differ else ""), flush=True)
    print(f"above 1.2 of the limit, or not done: {above}")
    return int(above > 0)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__)
    add = parser.add_argument
    add("--limit", type=int, default=512, metavar="MIB", help="of each side")
    add("--cluster", action="store_true", help="on two workers of distributed")
    add("--timeout", type=float, default=180, metavar="SECONDS", help="of one case")
    add("--only", default="", metavar="TEXT", help="expressions with this text")
    given = parser.parse_args(argv)
    check_options(parser, given, expressions())
    return given


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    which, expression, size = sys.argv[1:]
    print(json.dumps(run_case(which, expression, int(size))))
