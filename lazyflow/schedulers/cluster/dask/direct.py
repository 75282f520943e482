"""The direct way between a client and the workers, where there is one.

By itself distributed has the data of a client pass through the scheduler, which takes more than
twice the time. But a client may be where workers can't be connected to, behind a gateway, and then
each attempt takes half a minute. So an attempt is waited for shortly, and only once, while what
does not come in time goes through the scheduler.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from distributed.utils_comm import gather_from_workers

from lazyflow.schedulers.cluster.dask.client import DaskHandle

LARGE = 1 << 20  # bytes that are worth a new connection, which takes some milliseconds

_SOON = 0.5  # seconds


class DirectWay:
    """The connections of one client to workers. Used in the client's loop only."""

    def __init__(self) -> None:
        self._met: set[str] = set()
        self._late: set[str] = set()  # workers that did not answer soon: not waited for again
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._turns = count()

    async def meet(self, client: Any, workers: Iterable[str]) -> set[str]:
        """Return which of some workers can be connected to at once, or almost."""
        if client.direct_to_workers is False:
            return set()
        attempts = {each: self._attempt(client, each) for each in workers}
        if self._met or not self._late:  # else there is no direct way to workers, it seems
            fresh = [each for worker, each in attempts.items() if worker not in self._late]
            if fresh:
                await asyncio.wait(fresh, timeout=_SOON)
        met = {
            worker for worker, each in attempts.items() if each.done() and worker in self._met
        }
        self._late.update(attempts.keys() - met)
        return met

    def _attempt(self, client: Any, worker: str) -> asyncio.Task[None]:
        """Return the attempt to connect that is under way, or a new one."""
        known = self._attempts.get(worker)
        if known is None or known.done():
            known = self._attempts[worker] = asyncio.create_task(self._connect(client, worker))
        return known

    async def _connect(self, client: Any, worker: str) -> None:
        pool = client.rpc
        try:
            pool.reuse(worker, await pool.connect(worker))  # at once if there is a connection
        except (OSError, RuntimeError):  # it can't be reached, it has ended, or the client has
            self._met.discard(worker)
        else:
            self._met.add(worker)
            self._late.discard(worker)

    async def fetched(self, client: Any, wanted: Mapping[DaskHandle, int]) -> dict[Any, Any]:
        """Return the values, by key, that workers send directly; their sizes are given."""
        for handle in wanted:
            state = client.futures.get(handle.key)
            if state is not None:
                await state.wait()  # a report may come before the scheduler has heard of the value
        sizes = {handle.key: size for handle, size in wanted.items()}
        holders = {each.key: [each.holder] for each in wanted if each.holder is not None}
        with suppress(OSError):  # of the scheduler
            if len(holders) < len(sizes):
                unknown = list(sizes.keys() - holders.keys())
                holders.update(await client.scheduler.who_has(keys=unknown))
            worth: Counter[str] = Counter()
            for key, workers in holders.items():
                worth.update(dict.fromkeys(workers, sizes[key]))
            met = await self.meet(
                client, [w for w, size in worth.items() if size >= LARGE or w in self._met])
            who_has: dict[Any, set[str]] = {}
            for key, workers in holders.items():
                if near := met.intersection(workers):
                    who_has[key] = near
            data, *_ = await gather_from_workers(who_has, rpc=client.rpc)
            return dict(data)
        return {}

    async def receiver(self, client: Any) -> list[str]:
        """Return the worker that gets the next large value; none: the scheduler sends it on."""
        workers = sorted(await client.scheduler.ncores_running(workers=None))
        chosen = workers[next(self._turns) % len(workers):][:1] if workers else []
        return list(await self.meet(client, chosen))
