"""The cluster on this machine that `scheduler="distributed"` starts where there is none."""

from __future__ import annotations

from typing import Any

import distributed
from distributed.deploy.spec import SpecCluster


class Local(distributed.LocalCluster):
    """A LocalCluster that starts a worker again however often it ends.

    distributed's own looks some time after an end (15 s) whether a worker of that name is there,
    and if not closes for good what would start it again: also when the worker came back meanwhile
    and ended again a moment ago, or needs longer to begin on a busy machine. When that happened to
    all workers, what was handed over would wait for ever.
    """

    def _update_worker_status(self, op: Any, msg: Any) -> None:
        super(SpecCluster, self)._update_worker_status(op, msg)


def started(workers: int) -> Local:
    """Return a cluster of so many workers of one thread each, which listens on loopback only."""
    return Local(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )
