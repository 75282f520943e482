"""Kill random workers while random graphs run, and compare each result with the serial answer.

Several callers compute one random graph after the other on ``scheduler="processes"``, each with
``crash_retries=1000``; a thread kills a random worker with SIGKILL every 0.2 s, if a task was done
since the last kill. A wrong result, an error, a call that does not come back, or something left
behind after `lazyflow.shutdown` make the exit status 1. With ``--persist-steps`` a chain of
persisted steps goes first, killed alike. With ``--through`` nothing is killed: see
`soak_spilling`.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread
from typing import Any

import lazyflow
from benchmarks import soak_graphs as graphs
from benchmarks.footprint import Footprint, footprint, mark_children, settled
from benchmarks.memory import resident_bytes
from benchmarks.pool_facts import pool_facts
from benchmarks.soak_spilling import in_process

SCHEDULER = "processes"
CRASH_RETRIES = 1000  # kills from outside are not the task's fault
DRIFT = 24e6  # bytes that this process may have grown: its allocator, not what it holds
STATE = 20_000  # numbers in the state of a persisted step: more than is sent inline


@dataclass
class Found:
    """What was counted; `trouble` says what was wrong, with the seed to see it again."""

    kills: int = 0
    deaths: int = 0
    computes: int = 0
    tasks: int = 0
    steps: int = 0
    wrong: int = 0
    failed: int = 0
    hung: int = 0
    seconds: float = 0.0
    drift: float = 0.0  # bytes
    left: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.wrong or self.failed or self.hung or self.left or self.trouble)


class Killer(Thread):
    """Kill a random worker again and again, `kills` of them or until it is stopped.

    steps
        Returns how many steps were taken: none is killed before a further one was. A worker may
        take longer to start than from kill to kill (0.4 s beside another one that starts, on two
        cores): for many seconds all would die before they had done anything.
    """

    def __init__(
        self, kills: int | None, seconds: float, seed: int,
        steps: Callable[[], int] = lambda: pool_facts().tasks,
    ) -> None:
        super().__init__(name="killer", daemon=True)
        self.kills, self.seconds = kills, seconds
        self.steps = steps
        self.random = Random(seed)
        self.done = 0
        self.stopped = Event()
        self.trouble = ""

    def run(self) -> None:
        last, before = time.monotonic(), -1
        try:
            while self.done != self.kills and not self.stopped.wait(self.seconds):
                pids, steps = pool_facts().pids, self.steps()
                if pids and steps > before and kill(self.random.choice(pids)):
                    self.done += 1
                    last, before = time.monotonic(), steps
                elif time.monotonic() - last > 30:
                    raise RuntimeError("for 30 s there was no worker to kill, or no step was taken")
        except Exception as error:
            self.trouble = f"killer: {type(error).__name__}: {error}"
        finally:
            self.stopped.set()


def kill(pid: int) -> bool:
    """End a child of this process by SIGKILL; False when it is none, or has ended.

    By a descriptor, opened before it is looked at, so that no other process can be hit whose
    number is the same. It has ended on return: one that takes its time would be killed again.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        if state == "Z" or int(parent) != os.getpid():
            return False
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        ended.poll()
    except (OSError, ValueError):
        return False
    else:
        return True
    finally:
        os.close(descriptor)


class Soak:
    """Random graphs by several callers, and what came of them."""

    def __init__(self, seed: int, workers: int, patience: float) -> None:
        self.workers = workers
        self.patience = patience
        self.found = Found()
        self._seeds = count(seed * 1_000_000)
        self._lock = Lock()

    def on_processes(self) -> dict[str, Any]:
        return {"scheduler": SCHEDULER, "num_workers": self.workers}

    def one_graph(self) -> None:
        """Compute the next random graph, there and serially."""
        seed = next(self._seeds)
        tasks = Random(seed).randrange(5, 80)
        right = lazyflow.compute(graphs.grow(Random(seed), tasks, list), scheduler="sync")

        def persist(nodes: list[Any]) -> list[Any]:
            return list(lazyflow.persist(*nodes, **self.on_processes()))

        wrong, trouble = False, ""
        try:
            with lazyflow.config.set(crash_retries=CRASH_RETRIES):  # also of what tasks return
                wanted = graphs.grow(Random(seed), tasks, persist)
                answer = lazyflow.compute(wanted, timeout=self.patience, **self.on_processes())
            if not graphs.same(answer, right):
                wrong, trouble = True, f"seed {seed}: wrong: {answer!r:.200} not {right!r:.200}"
        except Exception as error:
            trouble = f"seed {seed}: {type(error).__name__}: {error!s:.500}"
            if isinstance(error, lazyflow.errors.SchedulerLost):  # a bug of ours: where it was
                trouble += "\n" + "".join(traceback.format_exception(error.__cause__))
        with self._lock:
            self.found.computes += 1
            self.found.tasks += tasks
            self.found.wrong += wrong
            self.found.failed += bool(trouble) and not wrong
            self.found.trouble += [trouble] if trouble else []

    def graphs_until(self, over: Callable[[], bool]) -> None:
        while not over():
            self.one_graph()

    def under_kills(self, killer: Killer, callers: int) -> None:
        """Let `callers` threads compute until the killer is done."""
        threads = [
            Thread(target=self.graphs_until, args=(killer.stopped.is_set,), daemon=True)
            for _ in range(callers)
        ]
        killer.start()
        for thread in threads:
            thread.start()
        killer.join()
        self.found.hung += joined(threads, 2 * self.patience)
        self.of_killer(killer)

    def of_killer(self, killer: Killer) -> None:
        self.found.kills += killer.done
        if killer.trouble:
            self.found.trouble.append(killer.trouble)

    def persisted_steps(self, steps: int, seconds_between: float, seed: int) -> None:
        """Take `steps` steps, each persisted, under kills; the end must be exact, memory flat."""
        killer = Killer(None, seconds_between, seed, lambda: self.found.steps)
        step = lazyflow.delayed(graphs.next_state, crash_retries=CRASH_RETRIES)
        lazy: Any = graphs.first_state(STATE)
        right = graphs.first_state(STATE)
        sizes = []
        killer.start()
        try:
            for k in range(steps):
                (lazy,) = lazyflow.persist(step(lazy, k), **self.on_processes())
                right = graphs.next_state(right, k)
                self.found.steps += 1
                if k % max(1, steps // 10) == 0:
                    sizes.append(resident_bytes())
            (value,) = lazyflow.compute(lazy, timeout=self.patience, **self.on_processes())
            if not graphs.same(value, right):
                self.found.wrong += 1
                self.found.trouble.append(f"{steps} persisted steps: wrong result")
        except Exception as error:
            self.found.failed += 1
            self.found.trouble.append(f"persisted steps: {type(error).__name__}: {error!s:.500}")
        finally:
            killer.stopped.set()
            killer.join()
        self.of_killer(killer)
        # The first tenth is left out: buffers grow to what they will be.
        if len(sizes) > 2 and sizes[-1] - sizes[1] > DRIFT:
            self.found.left.append(f"{(sizes[-1] - sizes[1]) / 1e6:.1f} MB over persisted steps")


def soak(given: argparse.Namespace) -> tuple[Soak, Footprint, Footprint]:
    """Warm up, look, let it run, shut down, look again."""
    mark_children()
    there = footprint().processes  # of who calls this
    run = Soak(given.seed, given.workers, given.patience)
    for _ in range(10):
        run.one_graph()
    before = at_rest(given.patience, lambda now: now.processes <= there, seconds=2.0)
    start = time.monotonic()
    if given.persist_steps:
        run.persisted_steps(given.persist_steps, given.seconds_between, given.seed)
    if given.kills:
        killer = Killer(given.kills, given.seconds_between, given.seed)
        run.under_kills(killer, given.callers)
    found = run.found
    found.seconds = time.monotonic() - start
    found.deaths = deaths_seen(found.kills)
    found.left += kept_in_workers()
    after = at_rest(given.patience, lambda now: not now.left_since(before))
    found.left += after.left_since(before)
    found.drift = after.resident - before.resident
    if found.drift > DRIFT:
        found.left.append(f"{found.drift / 1e6:.1f} MB")
    return run, before, after


def joined(threads: Sequence[Thread], patience: float) -> int:
    """Wait for threads; return how many have not ended, and print where these are."""
    until = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    hung = sum(thread.is_alive() for thread in threads)
    if hung:
        faulthandler.dump_traceback(all_threads=True, file=2)
    return hung


def deaths_seen(kills: int, seconds: float = 5.0) -> int:
    """Return of how many deaths the pool has heard: of the last one, too, after some patience."""
    until = time.monotonic() + seconds
    while (found := pool_facts().deaths) < kills and time.monotonic() < until:
        time.sleep(0.05)
    return found


def kept_in_workers(seconds: float = 5.0) -> list[str]:
    """Say which values workers still hold after this process has dropped them all."""
    until = time.monotonic() + seconds
    while True:
        gc.collect()
        now = pool_facts()
        if not (now.values or now.shared_bytes):
            return []
        if time.monotonic() > until:
            return [f"{now.values} values in workers, {now.shared_bytes:,} bytes shared"]
        time.sleep(0.05)


def at_rest(
    patience: float, quiet: Callable[[Footprint], bool], seconds: float = 5.0
) -> Footprint:
    """Shut down, and look when what goes away has gone."""
    # Where it hangs, and status 1. By number: what stands for stderr may have none.
    faulthandler.dump_traceback_later(patience, exit=True, file=2)
    lazyflow.shutdown()
    faulthandler.cancel_dump_traceback_later()
    return settled(quiet, seconds)


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks soak", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("--kills", type=int, default=50, metavar="N", help="how many workers are killed")
    add("--seed", type=int, default=0, metavar="S", help="of the graphs and of who is killed")
    add("--seconds-between", type=float, default=0.2, metavar="T", help="from kill to kill")
    add("--workers", type=int, default=2, metavar="N")
    add("--callers", type=int, default=2, metavar="N", help="threads that compute graphs")
    add("--persist-steps", type=int, default=0, metavar="N", help="persisted steps before that")
    add("--patience", type=float, default=60.0, metavar="T", help="seconds that a graph may take")
    add("--through", type=float, metavar="GIB",
        help="instead: so many GiB of chunks through a memory limit, spilled and read again")
    add("--limit", type=int, default=2048, metavar="MIB", help="that limit")
    add("--json", metavar="FILE", help="write what was found to FILE")
    given = parser.parse_args(argv)
    for name, least in (("kills", 0), ("workers", 1), ("callers", 1), ("persist_steps", 0),
                        ("limit", 64)):
        if getattr(given, name) < least:
            parser.error(f"--{name.replace('_', '-')} {getattr(given, name)}: at least {least}")
    if given.json and not Path(given.json).resolve().parent.is_dir():
        parser.error(f"the folder of {given.json} does not exist")
    if not hasattr(signal, "pidfd_send_signal"):
        parser.error("the soak kills by pidfd and looks into /proc: it needs Linux")
    return given


def main(argv: Sequence[str]) -> int:
    """Print what was found; return 1 if anything of it is bad."""
    given = options(argv)
    if given.through is not None:
        return in_process(int(given.through * 2**30), given.limit << 20, given.seed)
    run, before, after = soak(given)
    found = run.found
    print(
        f"{found.kills:,} kills ({found.deaths:,} deaths seen) in {found.seconds:.0f} s, "
        f"{given.workers} workers, seed {given.seed}\n"
        f"{found.computes:,} computes of {found.tasks:,} tasks, {found.steps:,} persisted steps\n"
        f"wrong {found.wrong}, failed {found.failed}, hung {found.hung}\n"
        f"before: {before}\nafter:  {after}\n"
        f"left: {'; '.join(found.left) or 'nothing'} (memory {found.drift / 1e6:+.1f} MB)"
    )
    for line in found.trouble[:20]:
        print(line, file=sys.stderr)
    if given.json:
        text = json.dumps(asdict(found) | {"good": found.good}, indent=1)
        Path(given.json).write_text(text + "\n", encoding="utf-8")
    print("good" if found.good else "NOT GOOD")
    return 0 if found.good else 1
