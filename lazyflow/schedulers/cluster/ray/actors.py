"""Actors on Ray: what is in the actor's process, and the way to it.

An actor is a Ray actor with an event loop, in a process of its own. Not Ray starts it again but
`RemoteActor`, which knows the calls that have run. Ray returns nothing but results of calls, so
`exchange` brings messages there, and returns when there are reports or it is called again.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lazyflow import config
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.cluster.actors.link import EngineLink
from lazyflow.schedulers.cluster.actors.protocol import ActorMessages, Report
from lazyflow.schedulers.cluster.actors.worker import EngineActor
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue

_AT_ONCE = 2  # calls of `exchange` under way: one that waits for reports, and one with messages

# -- in the actor's process -----------------------------------------------------------------


class _ActorOnRay(EngineActor):
    """Collects reports until a call of `exchange` returns them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: str | None) -> None:
        super().__init__("ray", folder)
        self._loop = loop
        self._reports: list[Report] = []
        self._kept: dict[str, dict[int, PackedValue]] = {"value": {}, "state": {}}
        self._waiter: asyncio.Future[None] | None = None

    def report(
        self, report: Report, value: PackedValue | None = None, state: PackedValue | None = None
    ) -> None:
        self._loop.call_soon_threadsafe(self._add, report, value, state)

    def _add(self, report: Report, value: PackedValue | None, state: PackedValue | None) -> None:
        self._reports.append(report)
        for what, packed in (("value", value), ("state", state)):
            if packed is not None:
                self._kept[what][report.number] = packed
        self.wake()

    def wake(self) -> None:
        """End the call that waits here."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def reply(self) -> tuple[list[Report], GroupOutcome, GroupOutcome]:
        """Wait for a report, or for the next call; return the reports and kept values."""
        self.wake()
        if not self._reports:
            waiter = self._waiter = self._loop.create_future()
            await waiter
        reports, self._reports = self._reports, []
        kept, self._kept = self._kept, {"value": {}, "state": {}}
        return reports, GroupOutcome(dict(kept["value"])), GroupOutcome(dict(kept["state"]))

    async def fetched(self, token: list[Any]) -> Any:
        return await token[0]


class RayActor:
    """The actor, as Ray sees it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder if os.path.isdir(folder) else None
        self._actor: _ActorOnRay | None = None
        self._early: dict[int, ActorMessages] = {}  # calls of `exchange` may begin in another order
        self._next = 0

    async def where(self) -> tuple[int, str, str]:
        """Return the process, its node, and the path of its journal."""
        self._actor = _ActorOnRay(asyncio.get_running_loop(), self._folder)
        node = ray.get_runtime_context().get_node_id()
        return os.getpid(), node, self._actor.journal.path

    async def exchange(
        self, serial: int, messages: ActorMessages
    ) -> tuple[list[Report], GroupOutcome, GroupOutcome]:
        """Handle messages; return the reports that there are, or wait for the first."""
        assert self._actor is not None
        self._early[serial] = messages
        while self._next in self._early:
            contextvars.Context().run(self._actor.take, self._early.pop(self._next))
            self._next += 1
        return await self._actor.reply()


# -- with the caller ------------------------------------------------------------------------


class RayLink(EngineLink):
    """The way to an actor, which is free while few calls of `exchange` are under way."""

    def __init__(self, engine: Engine, actor: RemoteActor, remote_class: Any, folder: str) -> None:
        super().__init__(engine, actor)
        self._serial = 0
        self._there = 0
        self._node = ""
        self._values: dict[str, Any] = {}
        self._theirs: Any = remote_class.options(
            **{"num_cpus": 0, **(config.get("ray_options") or {})},
            max_restarts=0, max_concurrency=1000, name=None,
        ).remote(folder)
        self._exchange: Any = self._theirs.exchange.options(num_returns=3)
        self._when_done(self._theirs.where.remote(), self._is_there)

    def _when_done(self, ref: Any, step: Callable[..., None], *details: Any) -> None:
        """Post a step for the result of a call of the actor, or its end if the call fails."""
        def post(future: Any) -> None:
            error = future.exception()
            if error is not None:
                self.engine.post(self.broken, error)
            else:
                self.engine.post(step, future.result(), *details)

        ref.future().add_done_callback(post)

    def _is_there(self, found: tuple[int, str, str]) -> None:
        pid, self._node, self.path = found
        self.where = f"process {pid}"
        self.actor.pump()

    def is_free(self) -> bool:
        return bool(self.path) and self._there < _AT_ONCE

    def send(self, messages: ActorMessages) -> None:
        self._there += 1
        reports, *kept = self._exchange.remote(self._serial, messages)
        self._serial += 1
        self._when_done(reports, self._take, kept)

    def _take(self, reports: list[Report], refs: list[Any]) -> None:
        self._there -= 1
        self._values = dict(zip(("value", "state"), refs, strict=True))
        for report in reports:
            self.receive(report)
        self._values = {}
        self.actor.pump()
        if not self._there and self.actor.flying and self._theirs is not None:
            self.send(ActorMessages())

    def kept(self, number: int, what: str) -> Any:
        return SimpleNamespace(ref=self._values[what])

    def kill(self) -> None:
        ray.kill(self._theirs)

    def ask_for_journal(self, then: Callable[[journal.Entries | None], None]) -> None:
        there = NodeAffinitySchedulingStrategy(self._node, soft=False)
        read = ray.remote(journal.read).options(
            num_cpus=0, max_retries=0, scheduling_strategy=there, name="lazyflow_actor")
        read.remote(self.path).future().add_done_callback(
            lambda future: then(None if future.exception() else future.result()))

    def forget(self) -> None:
        self._theirs = self._exchange = None
