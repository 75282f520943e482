"""The end of actors on the caller's side of an engine, which keeps each in a worker of its own.

Values that the engine holds go to an actor as names: it fetches them in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import ActorCall
from lazyflow.schedulers.actors.deaths import shut_down
from lazyflow.schedulers.actors.ports import NOT_HERE, ActorLink, TakeValue, bring_in_thread
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actor_messages import PACKED, PLAIN, HeldInput, pickled
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.outcome import PackedValue
from lazyflow.schedulers.cluster.results import EngineResult
from lazyflow.schedulers.remote.calls import is_short
from lazyflow.schedulers.remote.failures import unsendable


class EnginePort:
    """The way to an engine. A packed value is a `PackedValue`."""

    driver = None  # no pool of processes can wait for results of calls

    def __init__(self, engine: Engine, new_link: Callable[[RemoteActor], ActorLink]) -> None:
        self.engine = self.keeper = engine
        self._new_link = new_link
        self.post = engine.post

    def why_closed(self, label: str) -> BaseException:
        return shut_down(label)

    def look(self) -> None:
        """Do nothing: workers of an engine do not follow reloads."""

    def encode(self, value: Any) -> PackedValue:
        return pickled(value)

    def own(self, packed: Any) -> None:
        """Do nothing: packed values are not counted."""

    def release(self, *packed: Any) -> None:
        """Do nothing: packed values are not counted."""

    def unsendable(self, task: Task, role: str, error: BaseException) -> BaseException:
        return unsendable(task, role, error)

    def bring(self, value: Any, have: TakeValue) -> Any:
        if self.engine.holds(value):
            return value
        if type(value) is EngineResult and value.short is not None:
            return value.short
        bring_in_thread(self.post, value.get, have)  # it is in a pool's worker, or another engine
        return NOT_HERE

    def load(self, value: Any) -> Any:
        if type(value) is PackedValue:
            return PACKED, value
        if self.engine.holds(value):
            return HeldInput(value)
        return (PLAIN, value) if is_short(value) else (PACKED, pickled(value))

    def add(self, actor: RemoteActor) -> None:
        """Do nothing: the engine's scheduler has a table of its actors."""

    def discard(self, actor: RemoteActor) -> None:
        """Do nothing: the engine's scheduler has a table of its actors."""

    def pump_soon(self, actor: RemoteActor) -> None:
        actor.pump()

    def start(self, actor: RemoteActor) -> ActorLink:
        return self._new_link(actor)

    def node_of(self, call: ActorCall) -> Any:
        raise AssertionError("only pools of processes have nodes")
