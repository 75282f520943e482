"""What a process leaves behind: its children, files of shared memory, descriptors, threads."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.memory import resident_bytes

MARK = "LAZYFLOW_SOAK"  # in the environment of every process that is started from here


@dataclass(frozen=True)
class Footprint:
    """What this process holds now. `resident` is in bytes."""

    processes: frozenset[int]
    shared_files: frozenset[str]
    descriptors: tuple[str, ...]  # what each leads to
    threads: int
    mappings: int
    resident: int

    def left_since(self, before: Footprint) -> list[str]:
        """Say what is here that was not there before; memory apart, which drifts."""
        found = []
        if more := sorted(self.processes - before.processes):
            found.append(f"processes {more}")
        if files := sorted(self.shared_files - before.shared_files):
            found.append(f"/dev/shm files {files}")
        if len(self.descriptors) > len(before.descriptors):
            added = Counter(self.descriptors) - Counter(before.descriptors)
            found.append(f"descriptors {dict(added)}")
        for what in ("threads", "mappings"):
            now, then = getattr(self, what), getattr(before, what)
            if now > then:
                found.append(f"{what} {then} -> {now}")
        return found

    def __str__(self) -> str:
        return (
            f"{len(self.processes)} processes, {len(self.shared_files)} files in /dev/shm, "
            f"{len(self.descriptors)} descriptors, {self.threads} threads, "
            f"{self.mappings} mappings, {self.resident / 1e6:.1f} MB"
        )


def mark_children() -> None:
    """Let processes that are started from now on be found, also when their parent is gone."""
    os.environ[MARK] = str(os.getpid())


def marked() -> frozenset[int]:
    word = f"{MARK}={os.getpid()}".encode()
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if word in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.add(int(entry))
        except OSError:
            pass  # it has ended, or belongs to somebody else
    return frozenset(found)


def children() -> frozenset[int]:
    """Return the processes whose parent this one is; those that nobody has waited for too."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            found |= set(map(int, Path("/proc/self/task", thread, "children").read_text().split()))
        except OSError:
            pass  # the thread has ended
    return frozenset(found)


def descriptors() -> tuple[str, ...]:
    """Return what each open descriptor leads to: a path, or a kind without its number."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}").partition(":[")[0])
        except OSError:
            pass  # the one that the list was read by
    return tuple(found)


def footprint() -> Footprint:
    gc.collect()
    give_back_freed()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return Footprint(
        processes=marked() | children(),
        # by the name that lazyflow gives them: those of other programs come and go
        shared_files=frozenset(name for name in os.listdir("/dev/shm") if "lazyflow" in name),
        descriptors=descriptors(),
        threads=len(os.listdir("/proc/self/task")),
        mappings=sum("/memfd:" in line or "/dev/shm/" in line for line in maps),
        resident=resident_bytes(),
    )


def give_back_freed() -> None:
    """Let the C library return what it keeps for later, where it can: glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def settled(quiet: Callable[[Footprint], bool], seconds: float = 5.0) -> Footprint:
    """Look again until it is quiet, or so long."""
    until = time.monotonic() + seconds
    while True:
        now = footprint()
        if quiet(now) or time.monotonic() > until:
            return now
        time.sleep(0.05)
