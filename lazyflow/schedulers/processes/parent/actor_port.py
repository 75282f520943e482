"""The end of actors on the caller's side of a pool: each has a process of its own.

Values of the pool's workers reach an actor by shared memory, and its own reach the pool in the
same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lazyflow import config
from lazyflow.graph.task import Task, place_text
from lazyflow.schedulers.actors.calls import MISSING, ActorCall, PackedCall
from lazyflow.schedulers.actors.ports import (
    PACKED,
    ActorLink,
    HostPort,
    MakeActor,
    ProcessEnd,
    SentCall,
    TakeValue,
)
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import Literal, Node, WorkerRecord
from lazyflow.schedulers.processes.parent.pool import no_process
from lazyflow.schedulers.processes.parent.values import PoolValue, held_node, not_here, unsendable
from lazyflow.schedulers.processes.parent.worker_handle import WorkerHandle
from lazyflow.schedulers.processes.protocol import SKIP
from lazyflow.schedulers.remote.calls import CALLS, MAKE, is_short, name_only
from lazyflow.schedulers.remote.environment import notices, process_settings, versions
from lazyflow.store.pickling.serialize import Encoded

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.parent.driver import Driver


class _Arrival:
    """In the place of a `Fetch`: a call waits for a value that a worker has."""

    def __init__(self, have: TakeValue) -> None:
        self._have = have

    def done(self, value: Any, error: BaseException | None = None) -> None:
        self._have(value, error)


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
            return self._actor.under_way.get(self.process.words[0])
        except ValueError:  # it ended, and another thread asks
            return None

    def info(self) -> dict[str, Any]:
        """Return figures."""
        item, actor = self._running_call(), self._actor
        return super().info() | {
            "actor": actor.spec.label,
            "running": None if item is None else item.name,
            "queued": len(actor.under_way) + len(actor.waiting) + len(actor.late),
        }

    def doing(self) -> str | None:
        """Describe the call that it runs, for people."""
        item = self._running_call()
        if item is None:
            return None
        return f"{item.name}, made at {place_text(item.task)} (actor, process {self.process.pid})"


class ProcessPort(HostPort):
    """The port of actors whose processes a pool's driver keeps. Packed values are `Encoded`."""

    driver: Driver

    def __init__(self, driver: Driver) -> None:
        self.driver = self.keeper = driver
        self.post = driver.loop.post_always
        self.encode = driver.memory.encode
        self._lock = threading.Lock()  # any thread asks for the node of a call: there is one

    def why_closed(self, label: str) -> BaseException:
        if self.driver.is_left:
            return not_here(f"the actor {label}")
        return super().why_closed(label)

    def look(self) -> None:
        versions.look()
        notices.look()
        process_settings.look()

    # -- values -----------------------------------------------------------------------------

    def own(self, packed: Any) -> None:
        if type(packed) is Encoded:
            self.driver.memory.take_own(packed)

    def release(self, *packed: Any) -> None:
        for encoded in packed:
            self.driver.memory.remove(encoded)

    def unsendable(self, task: Task, role: str, error: BaseException) -> BaseException:
        return unsendable(task, role, error, self.driver.memory.least)

    def bring(self, value: Any, have: TakeValue) -> Any:
        if type(value) is not PoolValue or value.driver is not self.driver:
            return super().bring(value, have)
        if value.value is None:
            assert value.node is not None
            self.driver.values.fetch(value.node, _Arrival(have))
            return MISSING
        return value.value

    def load(self, value: Any) -> Any:
        if type(value) is Literal:
            value = value.value
        if type(value) is Encoded:
            self.driver.memory.add(value)
            return value
        return [value] if is_short(value) else self.driver.memory.encoded(value)

    # -- processes --------------------------------------------------------------------------

    def add(self, actor: RemoteActor) -> None:
        self.driver.actors.add(actor)

    def discard(self, actor: RemoteActor) -> None:
        self.driver.actors.discard(actor)

    def pump_soon(self, actor: RemoteActor) -> None:
        self.driver.pumps.add(actor)

    def start(self, actor: RemoteActor) -> ProcessLink:
        pool = self.driver.pool
        worker = pool.new_worker()
        try:
            member = ActorMember(actor, worker, pool.settings(worker))
        except OSError as error:
            raise no_process(f"no process for the actor {actor.spec.label}", error) from error
        link = member.host = ProcessLink(self, actor, member)
        pool.adopt(member)
        return link

    def node_of(self, call: ActorCall) -> Node:
        with self._lock:
            if call.node is None:
                call.node = held_node(call.task)
            node: Node = call.node
            return node


class ProcessLink(ActorLink):
    """The way to the process of an actor."""

    def __init__(self, port: ProcessPort, actor: RemoteActor, member: ActorMember) -> None:
        self._port = port
        self._driver = port.driver
        self._actor = actor
        self._member = member

    # -- messages of the process, in the driver's thread -------------------------------------

    def answer(self, member: ActorMember, message: Any, descriptors: list[int]) -> None:
        """Take the outcome of a call."""
        number, outcome, state, released, arenas, stats = message
        memory = self._driver.memory
        if arenas:
            memory.note_arenas(arenas, descriptors)
        if released:
            memory.segments.remove(released, member)
        member.stats = stats
        self._actor.answered(self, number, outcome, state)
        self._port.pump_soon(self._actor)

    def died(self, charged: int, how: str, pid: int) -> None:
        """Take the end of the process in; `charged` is the last call that it had begun."""
        if self._actor.broken(self):
            self._actor.died(self, ProcessEnd(f"ended by {how}", f"process {pid}", charged))

    # -- for the actor ----------------------------------------------------------------------

    def is_free(self) -> bool:
        return not (self._member.worker.doomed or self._driver.closing)

    def lend(self, packed: Any) -> Any:
        if type(packed) is not Encoded:
            return packed
        self._driver.memory.lend(self._member, packed.segments())
        return packed.payload, packed.buffers, packed.size

    def make(self, message: MakeActor) -> None:
        self._send(MAKE, tuple(message))

    def call(self, batch: list[SentCall]) -> None:
        if batch:
            self._send(CALLS, batch)

    def _send(self, kind: int, content: Any) -> None:
        driver, member = self._driver, self._member
        driver.sender.send_to_actor(member, kind, content)
        driver.pool.watch_writes(member)

    def skip(self, number: int) -> None:
        self._driver.pool.request(self._member, SKIP, number)

    def result(self, item: PackedCall, number: int, outcome: tuple[Any, ...]) -> Any:
        """Give the result to tasks that wait for it, too."""
        kind, value = outcome
        driver, node = self._driver, item.call.node
        if kind == PACKED:
            value = Encoded(*value)
            driver.memory.add(value)
            if node is None:
                node = self._port.node_of(item.call)
            node.size = value.size
        if node is not None:
            events.provide(driver.state, node, value)
        if kind == PACKED:
            return PoolValue(driver, node, name_only(item.task), None)
        if node is not None:
            events.unpin(driver.state, node)
        return value

    def take_state(self, number: int, state: Any, have: Callable[[Any], None]) -> None:
        have(Encoded(*state))

    def last_begun(self) -> int:
        try:
            return int(self._member.process.words[0])
        except ValueError:  # the process has ended meanwhile
            return 0

    def kill(self) -> None:
        self._member.process.kill()

    def end(self) -> None:
        member = self._member
        if not member.worker.doomed:
            member.worker.doomed = True
            member.process.close_gently()
            self._driver.pool.end_soon(member)


