"""The process of an actor, as one of the pool's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyflow import config
from lazyflow.graph.task import place_text
from lazyflow.schedulers.processes.decisions.nodes import WorkerRecord
from lazyflow.schedulers.processes.parent.worker_handle import WorkerHandle

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.parent.actor_host import ActorHost


class ActorMember(WorkerHandle):
    """The process of an actor among those of the pool; no task of a graph is ever sent to it."""

    def __init__(self, host: ActorHost, worker: WorkerRecord, settings: dict[str, Any]) -> None:
        super().__init__(worker, settings | {"actor": True}, config.default_workers())
        self.host = host
        self.has_answered = True  # so that its end does not count as one of a pool that can't start

    def running(self) -> None:
        """Return None: it runs no node."""

    def info(self) -> dict[str, Any]:
        """Return figures."""
        assert self.host is not None
        running, flying = self.process.words[0], self.host.flying
        item = flying.get(running)
        return super().info() | {
            "actor": self.host.spec.label,
            "running": None if item is None else item.name,
            "queued": len(flying) + len(self.host.waiting),
        }

    def doing(self) -> str | None:
        """Say which call it runs, for people."""
        try:
            number = self.process.words[0]
        except ValueError:  # it ended, and another thread asks
            return None
        assert self.host is not None
        item = self.host.flying.get(number)
        if item is None:
            return None
        return f"{item.name}, made at {place_text(item.task)} (actor, process {self.process.pid})"
