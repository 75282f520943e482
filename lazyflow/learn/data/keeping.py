"""Whether rows are kept where they are made, or read again in every pass.

A fit reads its rows some ten to a hundred times. What fits is kept. What does not is read, checked
and dropped chunk by chunk in every pass: as slow as the source, in the memory of a few chunks. A
cluster's workers write to their disks what they can't hold, so there all is kept.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from lazyflow import compute, config, delayed, is_lazy, persist
from lazyflow.store.memory.available import available_memory

__all__ = ["fitting"]

_SHARE = 2  # kept rows take at most the half of what is free: solvers need memory, too


@delayed
def _nbytes(X: Any) -> int:
    """Return the bytes of a chunk as numbers of float64, or as a sparse matrix."""
    if issparse(X):
        return int(X.data.nbytes + X.indices.nbytes)
    return int(np.prod(np.shape(X))) * 8


def fitting(chunks: list[Any], run: dict[str, Any]) -> tuple[list[Any], bool]:
    """Return (chunks, whether the lazy ones fit in memory), judged by the first of them.

    The limit is ``config.get("store_limit")``, or half of the memory that is free. The first chunk
    is kept in what is returned if all fit, so that it is not made again.

    Examples
    --------
    >>> with config.set(store_limit=10_000):
    ...     fitting([delayed(np.ones)((1000, 10))], {})[1]
    False
    """
    lazy = [k for k, chunk in enumerate(chunks) if is_lazy(chunk)]
    limit = _limit(run)
    if not lazy or limit is None:
        return chunks, True
    (first,) = persist(chunks[lazy[0]], **run)
    if compute(_nbytes(first), **run)[0] * len(lazy) > limit:
        return chunks, False
    chunks = list(chunks)
    chunks[lazy[0]] = first
    return chunks, True


def _limit(run: dict[str, Any]) -> int | None:
    """Return how many bytes of rows may be kept; None: any number."""
    scheduler = run.get("scheduler") or config.get("scheduler")
    if scheduler not in (None, "sync", "threads", "processes"):
        return None
    own: int | None = config.get("store_limit")
    if own is not None:
        return own * (config.default_workers() if scheduler == "processes" else 1)
    free = available_memory()
    return None if free is None else free // _SHARE
