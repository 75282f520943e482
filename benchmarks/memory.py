"""How much memory a process holds, as the system counts it."""

from __future__ import annotations

import os
import sys


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


def peak_bytes() -> int:
    """Most memory this process has held.

    On Linux from ``VmHWM``: `ru_maxrss` survives fork and exec, so in the child of a large parent
    it is the parent's peak (measured: 773 MiB reported for a bare interpreter of 9).
    """
    try:
        with open("/proc/self/status") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
