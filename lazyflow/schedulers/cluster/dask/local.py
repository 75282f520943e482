"""The cluster on this machine that `scheduler="distributed"` starts where there is none."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import warnings
from multiprocessing import resource_tracker
from typing import Any

import distributed
from distributed.core import Status
from distributed.deploy.spec import SpecCluster
from distributed.gc import disable_gc_diagnosis

from lazyflow.errors import LazyflowWarning

_ABSENCE = 1.0  # seconds after which workers are checked
_ENDED = (Status.closed, Status.failed)


class OwnCluster(distributed.LocalCluster):
    """A LocalCluster that starts a worker again however often it ends.

    The one of distributed checks 15 s after an end whether a worker of that name is there, and if
    not closes its nanny for good, also when the worker had come back and has just ended again, or
    is slow to start on a busy machine. After that had happened to all workers, tasks would wait
    for ever.
    """

    async def _start(self) -> None:
        # A terminal and a notebook's stop button send Ctrl-C to all processes of a program; only
        # this one is to get it. Processes that this thread, the cluster's own, starts inherit that.
        if threading.current_thread() is not threading.main_thread():
            resource_tracker.ensure_running()  # it unblocks the signal when it is started
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        await super()._start()
        # It calls a Python function in any thread after collections, where a Ctrl-C is lost.
        disable_gc_diagnosis()

    def _update_worker_status(self, op: Any, msg: Any) -> None:
        super(SpecCluster, self)._update_worker_status(op, msg)
        if op == "remove":
            self._look_later()

    def _look_later(self) -> None:
        if self.status == Status.running:
            asyncio.get_running_loop().call_later(_ABSENCE, self._look)

    def _look(self) -> None:
        """Start workers again whose nannies, which would do that, have ended, too."""
        if self.status != Status.running:
            return
        ended = [n for n, nanny in self.workers.items() if nanny.status in _ENDED]
        for name in ended:
            del self.workers[name]
        if ended:
            self._correct_state()
        if ended or not self.scheduler_info["workers"]:
            self._look_later()  # the new ones may fail as well
        if ended:  # last: a filter may make it an error
            warnings.warn(
                f"{len(ended)} of {len(self.worker_spec)} workers of lazyflow's cluster at "
                f"{self.scheduler_address} ended for good ({', '.join(map(str, ended))}) and are "
                "started again; what they kept is computed again where it is needed. If it goes "
                "on, look at the workers' logs above, and type lazyflow.shutdown() to end it.",
                LazyflowWarning, stacklevel=1,
            )


def started(workers: int) -> OwnCluster:
    """Return a cluster of workers with one thread each, which takes work from this program alone.

    A port of a cluster runs the code of whoever connects, and all users of a machine can connect to
    its loopback: connections are encrypted with a key that is made here, in memory.
    """
    security = _key_of_its_own()
    cluster = OwnCluster(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=security,
    )
    opened = (
        f"lazyflow has started a cluster of {workers} worker{'s'[: workers != 1]} at "
        f"{cluster.scheduler_address}"
    )
    logging.getLogger("lazyflow").info(
        "%s; its pages, which show names of tasks to all users of this machine, are at %s",
        opened, cluster.dashboard_link,
    )
    if security is None:
        warnings.warn(
            f"{opened}, without a key: every user of this machine can run code there as you. Type: "
            "pip install cryptography; it then takes work from this program alone. Or pass a "
            "cluster of yours, scheduler=distributed.Client(...).",
            LazyflowWarning, stacklevel=1,
        )
    return cluster


def _key_of_its_own() -> distributed.Security | None:
    """Return a key and a certificate that nobody else has; None where they can't be made."""
    try:
        return distributed.Security.temporary()
    except ImportError:
        return None
