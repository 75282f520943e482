"""How many threads the BLAS libraries of NumPy and SciPy take, while other tasks run beside.

The packages of NumPy and SciPy each bring an OpenBLAS, which has one number of threads for the
process. It is lowered while products of several tasks run, since each product would keep all cores
busy and wait for those of the others. Other BLAS libraries are left alone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import starmap
from operator import call
from threading import Lock
from typing import Any

import numpy as np

from lazyflow.system import at_fork

_NAMES = (
    "scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads", "openblas_{}_num_threads",
)

#: As many tasks as leave one thread to each, where a task's own products are small.
MANY = 1 << 10

#: Functions that tell and set the number of threads of a library.
Library = tuple[Callable[[], int], Callable[[int], None]]

_lock = Lock()
_running = 0  # products that asked for a share of the threads
_before: list[tuple[Any, int]] = []  # what sets threads, and how many there were before the first


@lru_cache(2)
def _functions(path: str) -> Library | None:
    """Return the functions of the OpenBLAS that an extension module uses; None: another library."""
    own = ctypes.PyDLL(path)  # names of what it depends on, too
    for name in _NAMES:
        if hasattr(own, name.format("set")):
            return getattr(own, name.format("get")), getattr(own, name.format("set"))
    return None


def _libraries() -> list[Library]:
    """Return the libraries of NumPy, and of SciPy if it is loaded."""
    core: Any = np._core  # type: ignore[attr-defined]
    of_scipy = sys.modules.get("scipy.linalg._fblas")
    paths = [each.__file__ for each in (core._multiarray_umath, of_scipy) if each is not None]
    return [found for path in paths if (found := _functions(str(path))) is not None]


def _lower(libraries: list[Library], tasks: int) -> None:
    """Lower the numbers of those that are not lowered: SciPy's may come while NumPy's is."""
    for tell, limit in libraries[len(_before):]:
        _before.append((limit, tell()))
        limit(max(1, _before[-1][1] // tasks))


@contextmanager
def share_of_threads(tasks: int) -> Iterator[None]:
    """Divide the threads of BLAS among `tasks` tasks; each has at least one."""
    global _running
    libraries = _libraries() if tasks > 1 else []
    if not libraries:
        yield
        return
    asked = False
    set_back = starmap(call, _before)  # here: Ctrl-C comes after calls
    try:
        with _lock:
            if not _running:
                _before.clear()
            _running += 1
            asked = True  # at once
            _lower(libraries, tasks)
        yield
    finally:
        if asked:
            with _lock:
                _running -= 1
                if not _running:
                    list(set_back)


def _after_fork_in_child() -> None:
    global _running, _lock
    _lock = Lock()
    if _running:
        list(starmap(call, _before))
    _running = 0


at_fork(after_in_child=_after_fork_in_child)
