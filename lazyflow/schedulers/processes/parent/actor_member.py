"""The process of an actor, as one of the pool's."""

from __future__ import annotations

from typing import Any

from lazyflow import config
from lazyflow.graph.task import place_text
from lazyflow.schedulers.actors.calls import PackedCall
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.processes.decisions.nodes import WorkerRecord
from lazyflow.schedulers.processes.parent.worker_handle import WorkerHandle


class ActorMember(WorkerHandle):
    """The process of an actor among those of the pool; no task of a graph is ever sent to it."""

    def __init__(self, actor: RemoteActor, worker: WorkerRecord, settings: dict[str, Any]) -> None:
        super().__init__(worker, settings | {"actor": True}, config.default_workers())
        self._actor = actor
        self.has_answered = True  # so that its end does not count as one of a pool that can't start

    def running(self) -> None:
        """Return None: it runs no node."""

    def _running_call(self) -> PackedCall | None:
        """Return the call that it runs, as far as that is known here."""
        try:
            return self._actor.flying.get(self.process.words[0])
        except ValueError:  # it ended, and another thread asks
            return None

    def info(self) -> dict[str, Any]:
        """Return figures."""
        item, actor = self._running_call(), self._actor
        return super().info() | {
            "actor": actor.spec.label,
            "running": None if item is None else item.name,
            "queued": len(actor.flying) + len(actor.waiting),
        }

    def doing(self) -> str | None:
        """Describe the call that it runs, for people."""
        item = self._running_call()
        if item is None:
            return None
        return f"{item.name}, made at {place_text(item.task)} (actor, process {self.process.pid})"
