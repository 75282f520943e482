"""Whether rows are kept where they are made, or read again in every pass.

A fit reads its rows some ten to a hundred times. What fits is kept. What does not is read, checked
and dropped chunk by chunk in every pass: as slow as the source, in the memory of a few chunks. A
cluster's workers write to their disks what they can't hold, so there all is kept.
"""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from lazyflow import compute, config, delayed, is_lazy, persist
from lazyflow.store.memory.available import available_memory

__all__ = ["fitting", "room_for_rows"]

_SHARE = 2  # kept rows take at most the half of what is free: solvers need memory, too


@delayed
def _nbytes(X: Any) -> int:
    """Return the bytes of a chunk as numbers of float64, or as a sparse matrix."""
    if issparse(X):
        return int(X.data.nbytes + X.indices.nbytes)
    return int(np.prod(np.shape(X))) * 8


def fitting(
    parts: list[tuple[Any, ...]], run: dict[str, Any], most: float = math.inf
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return (parts, whether their lazy rows fit in memory).

    A part is its rows, and what is made with them, as targets. The limit is
    ``config.get("store_limit")``, or half of the memory that is free. Parts are made and kept, one
    and then as many again as there are, as long as what all would take, by the mean of those, is
    below the limit. If all fit, what was kept is returned, so that its source is read once.
    `most` is how many bytes they take at most, if that is known: then none may have to be made.

    Examples
    --------
    >>> with config.set(store_limit=10_000):
    ...     fitting([(delayed(np.ones)((1000, 10)),)], {})[1]
    False
    """
    limit = room_for_rows(run)
    count = sum(is_lazy(part[0]) for part in parts)
    if not count or limit is None or most <= limit or not is_lazy(parts[0][0]):
        return parts, True
    found: list[tuple[Any, ...]] = []
    nbytes = 0
    while len(found) < len(parts):
        some = parts[len(found):2 * len(found) + 1]
        (kept,) = persist([tuple(part) for part in some], **run)
        found += map(tuple, kept)
        nbytes += sum(compute(*[_nbytes(part[0]) for part in kept], **run))
        if nbytes * len(parts) > limit * len(found):
            return parts, False
    return found, True


def room_for_rows(run: dict[str, Any]) -> int | None:
    """Return how many bytes of rows may be there at once; None: any number.

    Examples
    --------
    >>> with config.set(store_limit=10_000):
    ...     room_for_rows({"scheduler": "threads"})
    10000
    """
    scheduler = run.get("scheduler") or config.get("scheduler")
    if scheduler not in (None, "sync", "threads", "processes"):
        return None
    own: int | None = config.get("store_limit")
    if own is not None:
        return own * (config.default_workers() if scheduler == "processes" else 1)
    free = available_memory()
    return None if free is None else free // _SHARE
