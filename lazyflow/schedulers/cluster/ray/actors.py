"""Actors on Ray: what is in the actor's process, and the way to it.

An actor is a Ray actor with an event loop, in a process of its own that Ray does not start again:
that is for the host, which knows what has run. Ray brings nothing back but the results of calls,
so a call of ours takes messages there and stays until there are answers, or the next one comes.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lazyflow.schedulers.cluster import journal
from lazyflow.schedulers.cluster.actor_host import ActorHost
from lazyflow.schedulers.cluster.actor_work import Home, Messages
from lazyflow.schedulers.cluster.connection import Line
from lazyflow.schedulers.cluster.journal import Entries
from lazyflow.schedulers.cluster.outcome import Outcome, Packed

if TYPE_CHECKING:
    from lazyflow.schedulers.cluster.ray.scheduler import RayEngine

_AT_ONCE = 2  # calls of ours that may be there: one that waits, and one with messages

# -- in the actor's process -----------------------------------------------------------------


class _Port:
    """Answers wait here until a call of ours takes them along."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reports: list[tuple[Any, ...]] = []
        self._values: dict[str, dict[int, Packed]] = {"value": {}, "state": {}}
        self._waiter: asyncio.Future[None] | None = None
        self._tasks: set[Any] = set()  # the loop has weak references only

    def answer(
        self, report: tuple[Any, ...], value: Packed | None = None, state: Packed | None = None
    ) -> None:
        self._loop.call_soon_threadsafe(self._add, report, value, state)

    def _add(self, report: tuple[Any, ...], value: Packed | None, state: Packed | None) -> None:
        self._reports.append(report)
        for what, packed in (("value", value), ("state", state)):
            if packed is not None:
                self._values[what][report[1]] = packed
        self.wake()

    def wake(self) -> None:
        """Let the call go that waits here."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def reply(self) -> tuple[list[tuple[Any, ...]], Outcome, Outcome]:
        """Wait for answers, or for the next call, and return what there is."""
        self.wake()
        if not self._reports:
            waiter = self._waiter = self._loop.create_future()
            await waiter
        reports, self._reports = self._reports, []
        values, self._values = self._values, {"value": {}, "state": {}}
        return reports, Outcome(dict(values["value"]), {}), Outcome(dict(values["state"]), {})

    def fetch(self, token: list[Any], done: Callable[[Outcome | None], None]) -> None:
        task = self._loop.create_task(self._fetch(token[0], done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, ref: Any, done: Callable[[Outcome | None], None]) -> None:
        try:
            found = await ref
        except Exception:  # the caller brings it
            found = None
        done(found)


class RayHome:
    """The actor, as Ray sees it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder if os.path.isdir(folder) else None
        self._home: Home | None = None
        self._port: _Port | None = None
        self._early: dict[int, Messages] = {}  # Ray may begin calls in another order
        self._next = 0

    async def where(self) -> tuple[int, str, str]:
        """Return the process, its node, and where it says what ran."""
        self._port = _Port(asyncio.get_running_loop())
        self._home = Home("ray", self._port, self._folder)
        node = ray.get_runtime_context().get_node_id()
        return os.getpid(), node, self._home.journal.path

    async def exchange(
        self, serial: int, messages: Messages
    ) -> tuple[list[tuple[Any, ...]], Outcome, Outcome]:
        """Take messages in; returns the answers that there are then, or the first to come."""
        assert self._home is not None and self._port is not None
        self._early[serial] = messages
        while self._next in self._early:
            contextvars.Context().run(self._home.take, self._early.pop(self._next))
            self._next += 1
        return await self._port.reply()


# -- with the caller ------------------------------------------------------------------------


class RayLine(Line):
    """The way to an actor: free while not too many calls of ours are there."""

    def __init__(self, engine: RayEngine, host: ActorHost, folder: str) -> None:
        self.engine = engine
        self.host = host
        self._serial = 0
        self._there = 0
        self._node = self._path = ""
        self._values: dict[str, Any] = {}
        self._actor: Any = engine.remote_home.options(
            num_cpus=0, max_restarts=0, max_concurrency=1000, name=None
        ).remote(folder)
        self._exchange: Any = self._actor.exchange.options(num_returns=3)
        self._actor.where.remote().future().add_done_callback(self._opened)

    def _opened(self, future: Any) -> None:
        error = future.exception()
        if error is not None:
            self.engine.post(self.host.broken, self, error)
        else:
            self.engine.post(self._is_there, *future.result())

    def _is_there(self, pid: int, node: str, path: str) -> None:
        self._node, self._path = node, path
        self.where = f"process {pid}"
        self.host.pump()

    def is_free(self) -> bool:
        return bool(self._path) and self._there < _AT_ONCE

    def tell(self, messages: Messages) -> None:
        self._there += 1
        refs = self._exchange.remote(self._serial, messages)
        self._serial += 1
        refs[0].future().add_done_callback(lambda future: self._replied(future, refs[1:]))

    def _replied(self, future: Any, refs: list[Any]) -> None:
        error = future.exception()
        if error is not None:
            self.engine.post(self.host.broken, self, error)
        else:
            self.engine.post(self._take, future.result(), refs)

    def _take(self, reports: list[tuple[Any, ...]], refs: list[Any]) -> None:
        self._there -= 1
        self._values = dict(zip(("value", "state"), refs, strict=True))
        for report in reports:
            self.host.heard(self, report)
        self._values = {}
        self.host.pump()
        if not self._there and self.host.flying and self._actor is not None:
            self.tell(Messages([]))

    def kept(self, number: int, what: str) -> Any:
        handle = self.engine.handle()
        handle.ref = self._values[what]
        return handle

    def kill(self) -> None:
        ray.kill(self._actor)

    def find_journal(self, then: Callable[[Entries | None], None]) -> None:
        self._actor = self._exchange = None
        found = journal.read(self._path) if self._path else (0, [])  # no call can have begun
        if found is not None:
            then(found)
            return
        there = NodeAffinitySchedulingStrategy(self._node, soft=False)
        read = ray.remote(journal.read).options(
            num_cpus=0, max_retries=0, scheduling_strategy=there, name="lazyflow_actor")
        read.remote(self._path).future().add_done_callback(
            lambda future: then(None if future.exception() else future.result()))

    def end(self) -> None:
        self._actor = self._exchange = None
        journal.remove(self._path)  # an actor of this machine may be killed before it does
