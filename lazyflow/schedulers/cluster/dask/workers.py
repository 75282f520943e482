"""The workers of a cluster: their number, and which of them may run a group."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from types import SimpleNamespace
from typing import Any

from lazyflow.errors import LazyflowWarning, SchedulerLost
from lazyflow.graph.options import Options
from lazyflow.graph.task import users_depth
from lazyflow.schedulers.cluster.dask.client import ClientReference, lost
from lazyflow.schedulers.cluster.dask.handles import DaskHandle
from lazyflow.schedulers.cluster.dask.local import OwnCluster
from lazyflow.schedulers.cluster.worker_filter import chosen, refusal

_ALONE = 3.0  # seconds after which a waiting caller checks for workers
_FRESH = 2.0  # seconds for which the number of workers is not asked again


class ClusterWorkers:
    """The workers of a client's cluster.

    Parameters
    ----------
    post
        Queues a step for the engine's thread.
    handles
        Returns the handles of submitted groups.
    """

    def __init__(
        self,
        reference: ClientReference,
        post: Callable[..., None],
        handles: Callable[[], Iterable[DaskHandle]],
    ) -> None:
        self._reference = reference
        self._post = post
        self._handles = handles
        self._width = 0
        self._asked_at = 0.0
        self._hears_of_workers = False

    def width(self) -> int:
        """Return how many tasks all workers can run at once."""
        now = monotonic()
        if not self._width or now - self._asked_at > _FRESH:
            self._asked_at = now
            self._width = sum(self._reference.get().nthreads().values()) or 1
        return self._width

    def lookout(self) -> Iterator[float]:
        """Warn each waiting caller once if there is no worker; lazyflow's own come back."""
        client = self._reference.or_none()
        if client is None or isinstance(client.cluster, OwnCluster):
            return
        yield _ALONE
        gone: int | None = None
        while True:
            before, gone = gone, self._came_and_went()
            if gone is not None and gone == before:  # no worker has come in between
                address = self._reference.get().scheduler.address
                warnings.warn(
                    f"the cluster at {address} has had no worker for some time, so nothing "
                    "runs; the tasks wait until one comes. Start some by: dask worker "
                    f"{address} or, if you made the cluster, cluster.scale(2)",
                    LazyflowWarning, stacklevel=users_depth(),
                )
                return
            yield 10 * _ALONE if gone is None else _ALONE

    def _came_and_went(self) -> int | None:
        """Return how many workers there have been; None if there is one, or no answer."""
        try:
            client = self._reference.get()
            if client.nthreads():
                return None
            events = client.get_events("all")
        except (OSError, SchedulerLost):  # the run will fail
            return None
        return sum(
            isinstance(event, dict) and event.get("action") == "add-worker" for _, event in events
        )

    def refusal_of(self, options: Options) -> str:
        """Return why no worker may run tasks with these options; empty if one may."""
        return refusal(options.workers, options.resources, self._workers())

    def _workers(self) -> dict[str, Any]:
        # Not scheduler_info(): a timer of the client overwrites its fresh answer.
        client = self._reference.get()
        try:
            workers: dict[str, Any] = client.sync(client.scheduler.identity)["workers"]
        except OSError as error:
            raise lost(error) from None
        return workers

    def chosen(self, workers: tuple[Any, ...]) -> list[Any]:
        """Return the addresses of workers, or their names while none of them is there."""
        if not self._hears_of_workers:
            self._hears_of_workers = True
            client = self._reference.get()
            client.subscribe_topic("all", self._all_hear)
            # A client that closes stops its timers first. The scheduler sends "all" its end,
            # and logs a critical error when that goes to a client that has gone.
            client._periodic_callbacks["lazyflow"] = SimpleNamespace(start=bool, stop=self._hush)
        return chosen(workers, self._workers()) or list(workers)

    def _hush(self) -> None:
        client = self._reference.or_none()
        if client is not None:
            client.unsubscribe_topic("all")

    def _all_hear(self, event: tuple[float, Any]) -> None:
        what = event[1]
        if isinstance(what, dict) and what.get("action") == "add-worker":
            self._post(self._worker_came)

    def _worker_came(self) -> None:
        """Take back groups that wait for an old address of a worker that has come back."""
        known = self._workers()
        waiting = [
            handle.future for handle in self._handles()
            if handle.asked is not None and known.keys().isdisjoint(handle.workers)
            and chosen(handle.asked, known)
        ]
        if waiting:  # they are submitted again when their futures end
            self._reference.get().cancel(waiting, asynchronous=False)
