"""How much memory a process holds, as the system counts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def half_of_memory() -> int:
    """Return half of the bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def resident_bytes() -> int:
    """Return the memory this process has touched and holds now, shared pages included.

    0 where /proc is not there.
    """
    try:
        with open("/proc/self/statm") as line:
            return int(line.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def forget_peak(process: object) -> None:
    """Let the system count a process's peak from here on, where it can."""
    path = Path(f"/proc/{process}/clear_refs")
    if path.exists():
        path.write_text("5")


def peak_of(process: object) -> int:
    """Return the most bytes that a process has held; 0 where the system does not count them."""
    path = Path(f"/proc/{process}/status")
    lines = path.read_text().splitlines() if path.exists() else ()
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM")), 0)


def peak_bytes() -> int:
    """Return the most bytes that this process has held.

    On Linux from ``VmHWM``: `ru_maxrss` survives fork and exec, so in the child of a large parent
    it is the parent's peak (measured: 773 MiB reported for a bare interpreter of 9).
    """
    if found := peak_of("self"):
        return found
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def touched(size: int) -> None:
    """Write to so much memory once: a machine may be slow to give pages the first time."""
    b"\x01" * size
