"""Marks of tests of what is weaker without a function of Linux: the head of lazyflow/system.py."""

import mmap
import os

import pytest


def _needs(has, weaker):
    return pytest.mark.skipif(not has, reason=f"not on this system: {weaker}")


# lazyflow does not look there, where tests hide it from lazyflow.
_HAS_PROC = os.path.isdir("/proc/self/fd")
#: For tests that look at more than pages.
RETURNS_PAGES = hasattr(mmap, "MADV_REMOVE")

maps_by_path = _needs(_HAS_PROC, "arrays on mapped files are opened by path")
writes_into_results = _needs(_HAS_PROC, "results are written into memory of the parent")
knows_own_peak = _needs(_HAS_PROC, "a peak of memory without what was inherited")
returns_pages = _needs(RETURNS_PAGES, "memory given back to a store leaves it")
seals_memory = _needs(hasattr(os, "memfd_create"), "readers can't cut shared memory off")
kills_by_pidfd = _needs(hasattr(os, "pidfd_open"), "benchmarks kill workers by pidfd")
