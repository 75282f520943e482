"""How many threads NumPy's BLAS library takes for a product, while other tasks run beside it.

OpenBLAS, which NumPy's own packages bring, has one number for the process. While products of
several tasks run it is lowered, since each of them would keep all cores busy and wait for the
others'. Other libraries are left as they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from lazyflow.system import at_fork

_NAMES = (
    "scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads",
)

_lock = Lock()
_running = 0  # products that asked for a share of the threads
_all = 1  # threads that there were before the first of them


@lru_cache(1)
def _functions() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return OpenBLAS's functions that tell and set the number; None: it is another library."""
    core: Any = np._core  # type: ignore[attr-defined]
    own = ctypes.PyDLL(core._multiarray_umath.__file__)  # names of what it depends on, too
    for name in _NAMES:
        if hasattr(own, name.format("set")):
            return getattr(own, name.format("get")), getattr(own, name.format("set"))
    return None


@contextmanager
def share_of_threads(tasks: int) -> Iterator[None]:
    """Let BLAS take no more threads than there are for each of so many tasks, one at the least."""
    global _running, _all
    found = _functions() if tasks > 1 else None
    if found is None:
        yield
        return
    tell, limit = found
    asked = False
    try:
        with _lock:
            if not _running:
                _all = tell()
            _running += 1
            asked = True  # at once: Ctrl-C comes after calls
            if _running == 1:
                limit(max(1, _all // tasks))
        yield
    finally:
        if asked:
            with _lock:
                _running -= 1
                if not _running:
                    limit(_all)


def _after_fork_in_child() -> None:
    global _running, _lock
    _lock = Lock()
    if _running and (found := _functions()):
        found[1](_all)
    _running = 0


at_fork(after_in_child=_after_fork_in_child)
