"""Requests of every kind, as a server has for months: what of them is left, and what has grown.

Without options, threads make random requests on sync, threads and processes for `--minutes`, each
with an answer that is known, while a worker is killed every few seconds. Memory, descriptors,
threads, files and objects by type are looked at after a quarter of the time and at the end: a
wrong answer, an error, a request that hangs, or growth make the exit status 1.

``--growth N`` makes N requests of each kind by itself, twice, on every scheduler and, where it has
such a thing, on dask's: a table of the kilobytes that the program and its workers grow by in 1,000.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from random import Random
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

import numpy as np

import lazyflow
from benchmarks.footprint import (
    Footprint,
    children,
    footprint,
    give_back_freed,
    mark_children,
)
from benchmarks.memory import resident_bytes
from benchmarks.sides import Distributed
from benchmarks.soak import CRASH_RETRIES, DRIFT, Killer, at_rest, joined

SCHEDULERS = ("sync", "threads", "processes", "distributed")
_NUMBERS = 2_000  # of the arrays that functions, classes and errors hold: 16 kB

# -- requests -------------------------------------------------------------------------------
# Each takes a number, and raises AssertionError for a wrong answer. Those that both libraries have
# get the module of one first: dask is imported only where it is asked for.


class _Refused(Exception):
    """What a task of a request raises."""


def _refuses(held: Any) -> None:
    raise _Refused(len(held))


def _class_of_a_request(i: int) -> type:
    held = np.full(_NUMBERS, float(i))

    class Answer:
        def __call__(self, x: float) -> float:
            return float(held[0] + x)

    return Answer


def class_over_data(lib: Any, i: int) -> None:
    assert lib.compute(lib.delayed(_class_of_a_request(i)())(1)) == (i + 1,)


def _function_of_a_request(i: int) -> Callable[[int], float]:
    held = np.full(_NUMBERS, float(i))
    return lambda k: float(held[k])


def function_over_data(lib: Any, i: int) -> None:
    f = lib.delayed(_function_of_a_request(i))
    assert lib.compute([f(k) for k in range(4)]) == ([float(i)] * 4,)


def error(lib: Any, i: int) -> None:
    with suppress(_Refused):
        lib.compute(lib.delayed(_refuses)(np.full(_NUMBERS, float(i))))
        raise AssertionError("it did not fail")


def tree(lib: Any, i: int) -> None:
    inc, add = lib.delayed(_inc), lib.delayed(_add)
    parts = [inc(k + i) for k in range(8)]
    while len(parts) > 1:
        parts = [add(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    assert parts[0].compute() == 8 * i + 36


def _inc(x: Any) -> Any:
    return x + 1


def _add(x: Any, y: Any) -> Any:
    return x + y


def array(lib: Any, i: int) -> None:
    x = import_module(f"{lib.__name__}.array").arange(4 * _NUMBERS, chunks=_NUMBERS) + i
    assert int((x * 2 - x.mean()).sum().compute()) == int(x.sum().compute())


def persisted(lib: Any, i: int) -> None:
    (x,) = lib.persist(lib.delayed(np.full)(10 * _NUMBERS, i))
    assert lib.delayed(np.sum)(x).compute() == 10 * _NUMBERS * i


def put(i: int) -> None:
    x = lazyflow.put(np.full(10 * _NUMBERS, i))
    assert lazyflow.submit(np.sum, x).result() == 10 * _NUMBERS * i


def put_dask(i: int) -> None:
    from distributed import get_client

    client = get_client()
    x = client.scatter(np.full(10 * _NUMBERS, i), hash=False)
    assert client.submit(np.sum, x, pure=False).result() == 10 * _NUMBERS * i


def cancelled(i: int) -> None:
    futures = [lazyflow.submit(_inc, k) for k in range(4)]
    futures[-1].cancel()
    assert futures[0].result() == 1


def cancelled_dask(i: int) -> None:
    from distributed import get_client

    client = get_client()
    futures = [client.submit(_inc, k, pure=False) for k in range(4)]
    futures[-1].cancel()
    assert futures[0].result() == 1


def timed_out(i: int) -> None:
    with suppress(TimeoutError):
        lazyflow.compute([lazyflow.delayed(_inc)(k) for k in range(50)], timeout=1e-4)


def abandoned(i: int) -> None:
    for future in lazyflow.as_completed([lazyflow.submit(_inc, k) for k in range(8)]):
        assert future.result() in range(1, 9)
        break


def called_back(i: int) -> None:
    heard: list[Any] = []
    future = lazyflow.submit(_inc, i)
    future.add_done_callback(heard.append)
    assert future.result() == i + 1


def retried(i: int) -> None:
    with suppress(_Refused):
        lazyflow.delayed(_refuses, retries=2)([i]).compute()
        raise AssertionError("it did not fail")


def _nested(i: int) -> int:
    return int(lazyflow.delayed(_inc)(i).compute(scheduler="sync"))


def nested(i: int) -> None:
    assert lazyflow.compute(lazyflow.delayed(_nested)(i)) == (i + 1,)


def profiled(i: int) -> None:
    with lazyflow.profile() as seen:
        lazyflow.compute(lazyflow.delayed(_inc)(i))
    assert len(seen.tasks) == 1


def _use(state: Any) -> int:
    state.get().append(1)
    return len(state.get())


def worker_state(i: int) -> None:
    held = np.full(_NUMBERS, i)
    state = lazyflow.worker_state(lambda: [held], reset=list.pop)
    assert lazyflow.compute(lazyflow.delayed(_use)(state)) == (2,)


class Account:
    """The class of actors."""

    def __init__(self, i: int) -> None:
        self.held = np.full(_NUMBERS, i)

    def sum(self) -> int:
        return int(self.held.sum())


def actor(i: int) -> None:
    assert _sum_of(lazyflow.actor(Account)(i)) == _NUMBERS * i


def actor_dask(i: int) -> None:
    from distributed import get_client

    account = get_client().submit(Account, i, actor=True, pure=False).result()
    assert _sum_of(account) == _NUMBERS * i


def _sum_of(account: Any) -> Any:
    return account.sum().result()


class Kind(NamedTuple):
    """A kind of request.

    both
        Takes the module of either library as well.
    cluster
        The same on distributed, if dask has such a thing there only.
    share
        How many are made of each that is asked for: some start a process.
    """

    ours: Callable[[int], None]
    both: Callable[[Any, int], None] | None = None
    cluster: Callable[[int], None] | None = None
    share: float = 1.0

    @classmethod
    def of_both(cls, both: Callable[[Any, int], None]) -> Kind:
        """Return a kind that both libraries have."""
        return cls(partial(both, lazyflow), both)

    def by_dask(self, scheduler: str) -> Callable[[int], None] | None:
        """Return the request to a scheduler of dask, if it has such a thing."""
        if self.both is not None:
            return partial(self.both, import_module("dask"))
        return self.cluster if scheduler == "distributed" else None


KINDS = {
    "class over 16 kB": Kind.of_both(class_over_data),
    "function over 16 kB": Kind.of_both(function_over_data),
    "error": Kind.of_both(error),
    "tree of 15 tasks": Kind.of_both(tree),
    "array": Kind.of_both(array),
    "persist": Kind.of_both(persisted),
    "put": Kind(put, cluster=put_dask),
    "cancel": Kind(cancelled, cluster=cancelled_dask),
    "timeout": Kind(timed_out),
    "as_completed, left": Kind(abandoned),
    "callback": Kind(called_back),
    "retries": Kind(retried),
    "nested compute": Kind(nested),
    "profile": Kind(profiled),
    "worker state": Kind(worker_state),
    "actor": Kind(actor, cluster=actor_dask, share=0.1),
}

# -- all at once ----------------------------------------------------------------------------


@dataclass
class Found:
    """What was counted, and what was wrong."""

    requests: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)


class Look(NamedTuple):
    """What the program holds at one moment."""

    print: Footprint
    objects: Counter[str]

    @classmethod
    def now(cls) -> Look:
        gc.collect()
        objects = Counter(f"{type(x).__module__}.{type(x).__qualname__}" for x in gc.get_objects())
        return cls(footprint(), objects)

    def grown_since(self, before: Look, requests: int) -> list[str]:
        """Say what has grown: more than the threads have in use, or the allocator rounds up."""
        found = []
        for what in ("threads", "mappings"):
            then, now = getattr(before.print, what), getattr(self.print, what)
            if now > then + 8:
                found.append(f"{what} {then} -> {now}")
        more = len(self.print.descriptors) - len(before.print.descriptors)
        if more > 8:
            added = Counter(self.print.descriptors) - Counter(before.print.descriptors)
            found.append(f"{more} descriptors: {dict(added.most_common(4))}")
        if self.print.resident - before.print.resident > DRIFT:
            found.append(f"{(self.print.resident - before.print.resident) / 1e6:.1f} MB")
        limit = max(1000, requests // 50)
        found += [
            f"{n:,} more of {name}"
            for name, n in (self.objects - before.objects).most_common(5) if n > limit
        ]
        return found


class Server:
    """Threads that make random requests until they are told to stop."""

    def __init__(self, threads: int, seed: int) -> None:
        self.found = Found()
        self.over = Event()
        self._lock = Lock()
        self._threads = [
            Thread(target=self._serve, args=(Random(seed * 1000 + k),), daemon=True)
            for k in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, patience: float) -> None:
        """Wait for requests that are being made; one that does not end has hung."""
        self.over.set()
        if hung := joined(self._threads, patience):
            self.found.trouble.append(f"{hung} requests hung")

    def _serve(self, random: Random) -> None:
        names, weights = list(KINDS), [kind.share for kind in KINDS.values()]
        while not self.over.is_set():
            (name,) = random.choices(names, weights)
            scheduler = random.choice(SCHEDULERS[:3])
            trouble = ""
            try:
                with lazyflow.config.set(
                    scheduler=scheduler, num_workers=2, crash_retries=CRASH_RETRIES
                ):
                    KINDS[name].ours(random.randrange(100))
            except lazyflow.WorkerDied as died:
                if name != "actor":  # whose process may be the one that was killed
                    trouble = f"{name} on {scheduler}: {died!r:.300}"
            except Exception:
                trouble = f"{name} on {scheduler}: {traceback.format_exc()[-1500:]}"
            with self._lock:
                self.found.requests[name] += 1
                self.found.trouble += [trouble] if trouble else []


def serve(given: argparse.Namespace) -> int:
    """Serve for some minutes; print what was found, and return 1 if anything of it is bad."""
    mark_children()
    there = footprint().processes  # of who calls this
    for kind in KINDS.values():  # imports, and what is made once
        for scheduler in SCHEDULERS[:3]:
            with lazyflow.config.set(scheduler=scheduler, num_workers=2):
                kind.ours(1)
    begun = at_rest(given.patience, lambda now: now.processes <= there, seconds=2.0)
    server, seconds = Server(given.threads, given.seed), 60 * given.minutes
    killer = Killer(None, given.seconds_between, given.seed)
    server.start()
    if given.seconds_between:
        killer.start()
    server.over.wait(seconds / 4)
    first, early = Look.now(), server.found.requests.total()
    server.over.wait(seconds * 3 / 4)
    killer.stopped.set()
    server.stop(given.patience)
    last, found = Look.now(), server.found
    requests = found.requests.total()
    grown = last.grown_since(first, requests - early)
    after = at_rest(given.patience, lambda now: not now.left_since(begun))
    left = after.left_since(begun)
    print(
        f"{requests:,} requests of {len(found.requests)} kinds in {given.threads} threads, "
        f"{60 * given.minutes:.0f} s, {killer.done} workers killed, seed {given.seed}\n"
        f"at a quarter: {first.print}\nat the end:   {last.print}\n"
        f"grown: {'; '.join(grown) or 'nothing'}\n"
        f"left after shutdown: {'; '.join(left) or 'nothing'}"
    )
    trouble = found.trouble + ([killer.trouble] if killer.trouble else [])
    for line in trouble[:20]:
        print(line, file=sys.stderr)
    bad = bool(grown or left or trouble)
    print("NOT GOOD" if bad else "good")
    return int(bad)


# -- one kind after the other ---------------------------------------------------------------


def held() -> int:
    """Return the bytes of this process and of its children."""
    gc.collect()
    give_back_freed()
    total = resident_bytes()
    for pid in children():
        with suppress(OSError), open(f"/proc/{pid}/statm") as line:
            total += int(line.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def growth(request: Callable[[int], None], count: int) -> float:
    """Return the bytes that 1,000 requests leave: the less of two times.

    What is made once, or grows to what it will be, is not in both.
    """
    found = []
    for i in range(count):
        request(i)
    before = held()
    for _ in range(2):
        for i in range(count):
            request(i)
        now = held()
        found.append((now - before) / count * 1000)
        before = now
    return min(found)


@contextmanager
def ours_on(scheduler: str) -> Iterator[None]:
    """Make requests of ours go to a scheduler."""
    if scheduler != "distributed":
        with lazyflow.config.set(scheduler=scheduler, num_workers=2):
            yield
    else:
        with Distributed() as client, lazyflow.config.set(scheduler=client):
            yield
    lazyflow.shutdown()


@contextmanager
def dask_on(scheduler: str) -> Iterator[None]:
    """Make requests of dask go to a scheduler of its own."""
    import dask

    if scheduler == "distributed":
        with Distributed() as client, client.as_current():
            yield
    elif scheduler == "processes":
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(2) as pool, dask.config.set(scheduler="processes", pool=pool):
            yield
    else:
        with dask.config.set(scheduler=scheduler):
            yield


def table(given: argparse.Namespace) -> int:
    """Print what 1,000 requests of each kind leave on each scheduler, of ours and of dask."""
    schedulers = given.on or SCHEDULERS
    print("kB that 1,000 requests leave in the program and its workers, ours / dask")
    print(f"{'':22}" + "".join(f"{name:>22}" for name in schedulers), flush=True)
    found: dict[tuple[str, str, str], float] = {}
    for scheduler in schedulers:
        for side, enter in (("ours", ours_on), ("dask", dask_on)):
            with enter(scheduler):
                for name, kind in KINDS.items():
                    request = kind.ours if side == "ours" else kind.by_dask(scheduler)
                    if request is not None and name in (given.kinds or KINDS):
                        count = max(20, int(given.growth * kind.share))
                        found[name, scheduler, side] = growth(request, count)
    for name in given.kinds or KINDS:
        print(f"{name:22}", end="")
        for scheduler in schedulers:
            both = [found.get((name, scheduler, side)) for side in ("ours", "dask")]
            text = " / ".join("-" if x is None else f"{x / 1e3:,.0f}" for x in both)
            print(f"{text:>22}", end="")
        print()
    return 0


# -- the command ----------------------------------------------------------------------------


def main(argv: Sequence[str]) -> int:
    """Serve, or print the table of growth; return 1 if anything is wrong or has grown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks server", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("--minutes", type=float, default=20.0, metavar="M", help="how long it serves")
    add("--threads", type=int, default=8, metavar="N", help="that make requests")
    add("--seed", type=int, default=0, metavar="S", help="of the requests and of who is killed")
    add("--seconds-between", type=float, default=5.0, metavar="T", help="kill to kill; 0: none")
    add("--patience", type=float, default=60.0, metavar="T", help="seconds a request may take")
    add("--growth", type=int, metavar="N", help="print a table: N requests of each kind, alone")
    add("--on", nargs="*", choices=SCHEDULERS, help="the schedulers of the table")
    add("--kinds", nargs="*", choices=KINDS, metavar="KIND", help="the rows of the table")
    given = parser.parse_args(argv)
    if not hasattr(os, "pidfd_open"):
        parser.error("it kills by pidfd and looks into /proc: it needs Linux")
    return serve(given) if given.growth is None else table(given)


