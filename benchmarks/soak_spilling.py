"""Many times the disk's share of chunks through a store of little memory: nothing is wrong or left.

Chunks of several kinds are persisted below a memory limit on threads, read in pairs by tasks, some
of which pass on what they made, and dropped at random, so that three times the limit is alive. What
tasks see is compared with what each chunk has to hold. Memory has to stay below 1.2 times the
limit, the blocks of the file on the disk below what is alive, and in the end nothing is kept.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import lazyflow
from benchmarks.memory import peak_bytes
from lazyflow.finalizers import wait_for_last_calls

MIB = 1 << 20
ALIVE = 3  # times the limit
MOST = 1.2  # of the limit, in memory
PATIENCE = 60.0  # seconds, for the disk to take back what the file had


def plain(k: int, count: int) -> Any:
    return np.arange(k, k + count, dtype="f8")


def masked(k: int, count: int) -> Any:
    return np.ma.masked_less(plain(k, count), k + 1)


def in_parts(k: int, count: int) -> Any:
    whole = plain(k, count)
    return {"k": k, "halves": [whole[: count // 2], whole[count // 2 :]]}


def columns(k: int, count: int) -> Any:
    return plain(k, count).reshape(-1, 8).T


KINDS: tuple[Callable[[int, int], Any], ...] = (plain, masked, in_parts, columns)


def seen(value: Any) -> tuple[int, float, float]:
    """Return what tells a chunk from others: how many numbers, their sum and the last one."""
    if isinstance(value, dict):
        parts = [seen(half) for half in value["halves"]]
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], parts[1][2]
    numbers = np.asarray(value).ravel("K")
    return numbers.size, float(numbers.sum()), float(numbers[-1])


def expected(k: int, count: int) -> tuple[int, float, float]:
    """Return what `seen` has to return: all sums are whole numbers below 2 to the 53rd."""
    return count, float(count * k + count * (count - 1) // 2), float(k + count - 1)


def both(first: Any, second: Any) -> list[tuple[int, float, float]]:
    return [seen(first), seen(second)]


def file_blocks() -> int:
    """Return the bytes that files without a name have on the disk."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if "(deleted)" in os.readlink(f"/proc/self/fd/{name}"):
                facts = os.fstat(int(name))
                found[facts.st_ino] = facts.st_blocks * 512
        except OSError:  # of a mapping that has gone meanwhile
            continue
    return sum(found.values())


class SpillSoak:
    """Chunks that are alive, and what was found wrong."""

    def __init__(self, through: int, limit: int, seed: int) -> None:
        self.through, self.limit = through, limit
        self.random = Random(seed)
        self.alive: list[tuple[Any, int, int]] = []  # chunk, its number, how many numbers it has
        self.bytes = self.made = self.most_spilled = self.most_blocks = 0
        self.trouble: list[str] = []

    def run(self) -> None:
        """Persist chunks until so many bytes went through, read them, and drop them all."""
        k = alive = 0
        while self.made < self.through:
            count = self.random.randrange(self.limit // 256, self.limit // 64) // 64 * 8
            make = lazyflow.delayed(self.random.choice(KINDS), pure=False)
            (chunk,) = lazyflow.persist(make(k, count))
            self.alive.append((chunk, k, count))
            alive, self.made, k = alive + 8 * count, self.made + 8 * count, k + 1
            while alive > ALIVE * self.limit:
                alive -= 8 * self.drop()[2]
            if k % 4 == 0:
                self.check()
        self.alive.clear()

    def drop(self) -> tuple[Any, int, int]:
        return self.alive.pop(self.random.randrange(len(self.alive)))

    def check(self) -> None:
        """Read two chunks in a task, and what other tasks make of them; look at the file."""
        pair = self.random.choices(self.alive, k=2)
        chunks = [chunk for chunk, _, _ in pair]
        copies = [lazyflow.delayed(seen, pure=False)(chunk) for chunk in chunks]
        found = lazyflow.compute(lazyflow.delayed(both)(*chunks), *copies)
        right = [expected(k, count) for _, k, count in pair]
        if not found[0] == list(found[1:]) == right:
            self.trouble.append(f"wrong: {found} not {right}")
        memory = lazyflow.info()["memory"]
        self.most_spilled = max(self.most_spilled, memory["spilled_bytes"])
        self.most_blocks = max(self.most_blocks, file_blocks())


def in_process(through: int, limit: int, seed: int) -> int:
    """Let a process of its own do it, as the other benchmarks load modules of 100 MB."""
    numbers = map(str, (through, limit, seed))
    return subprocess.run([sys.executable, "-m", "benchmarks.soak_spilling", *numbers]).returncode


def soak_spilling(through: int, limit: int, seed: int) -> int:
    """Print what was found; return 1 if anything of it is bad."""
    soak, start = SpillSoak(through, limit, seed), time.monotonic()
    with lazyflow.config.set(memory_limit=limit, scheduler="threads", num_workers=2):
        soak.run()
    seconds = time.monotonic() - start
    gc.collect()
    memory, peak, until = lazyflow.info()["memory"], peak_bytes(), time.monotonic() + PATIENCE
    while memory["spilled_bytes"] and time.monotonic() < until:
        wait_for_last_calls()  # two seconds of it: to give back GBs may take some more
        memory = lazyflow.info()["memory"]
    if memory["held_bytes"] or memory["spilled_bytes"]:
        soak.trouble.append(f"left: {memory}")
    if peak > MOST * limit:
        soak.trouble.append(f"memory: {peak / limit:.2f} of the limit")
    if soak.most_blocks > (ALIVE + 1) * limit:
        soak.trouble.append(f"the file: {soak.most_blocks / limit:.2f} times the limit on the disk")
    print(
        f"{soak.made / 2**30:.1f} GiB of chunks through {limit / MIB:,.0f} MiB in {seconds:.0f} s "
        f"({soak.made / MIB / seconds:,.0f} MiB/s), seed {seed}\n"
        f"memory at most {peak / limit:.2f} of the limit; in the file at most "
        f"{soak.most_spilled / limit:.2f} times it, {soak.most_blocks / limit:.2f} on the disk"
    )
    for line in soak.trouble[:20]:
        print(line)
    print("NOT GOOD" if soak.trouble else "good")
    return int(bool(soak.trouble))


if __name__ == "__main__":
    sys.exit(soak_spilling(*map(int, sys.argv[1:])))
