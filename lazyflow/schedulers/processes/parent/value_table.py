"""Values of nodes in the driver's thread: given, packed, fetched for this process, and let go."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from lazyflow.schedulers.processes.decisions import values
from lazyflow.schedulers.processes.decisions.instructions import Arrived, Free, Lost, Pack
from lazyflow.schedulers.processes.decisions.nodes import MISSING, WAITING, Job, Literal, Node
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent import packing
from lazyflow.schedulers.processes.parent.messages import (
    CountIn,
    Delivered,
    FailNode,
    FetchValue,
    LetGo,
    NotRemade,
    Packed,
    Provide,
    Refused,
    Remade,
    Synchronize,
    TakeOutcome,
    Viewed,
)
from lazyflow.schedulers.processes.parent.pool_value import PoolValue
from lazyflow.schedulers.remote.calls import is_quick, is_short


class ValuesDriver(packing.PackingDriver, Protocol):
    """What the values need of the driver."""

    state: State

    def perform(self) -> None:
        """Do what the state has decided."""

    def release(self, number: int) -> None:
        """Forget the record of a `PoolValue` that has gone."""


class ValueTable:
    """Handles instructions and messages of values."""

    def __init__(self, driver: ValuesDriver) -> None:
        self._driver = driver
        self._state = driver.state
        self._memory = driver.memory
        self._fetches: dict[Node, list[Any]] = {}
        self._unpacked: dict[Job, list[Node]] = {}  # that a thread has to pickle

    # -- given ------------------------------------------------------------------------------

    def take_outcome(self, message: TakeOutcome) -> None:
        """Take the outcome of a future that a node stands for."""
        node, future = message.node, message.future
        value, error = future.local_outcome()
        if error is not None:
            values.fail(self._state, node, error)
        elif not node.inputs and node.phase == WAITING and not node.job.over:
            if future.is_elsewhere():  # of another pool, or an engine: a thread brings it here
                threading.Thread(
                    target=self._bring, args=(node, value), name="lazyflow-fetch", daemon=True
                ).start()
            else:
                self._provide(node, value)

    def _bring(self, node: Node, remote: Any) -> None:
        try:
            self._driver.post(Provide(node, remote.get()))
        except BaseException as error:
            self._driver.post(FailNode(node, error))

    def provide(self, message: Provide) -> None:
        """Provide a node with a value of this process."""
        self._provide(message.node, message.value)

    def _provide(self, node: Node, value: Any) -> None:
        """Provide a node with a value; tasks that need it wait until it is pickled."""
        if node.phase != WAITING or is_short(value):
            values.provide(self._state, node, value)
        elif not node.users or is_quick((value,), self._memory.least):
            values.provide(self._state, node, Literal(value))
        else:
            node.value, node.packed = Literal(value), ()
            self.pack(Pack(node))

    def fail_node(self, message: FailNode) -> None:
        """Let a node fail whose value can't be had."""
        values.fail(self._state, message.node, message.error)

    def delivered(self, message: Delivered) -> None:
        """Take what a run made in the place of a task that returned a lazy value."""
        run = message.run
        if run.nodes and not run.over:
            self._remade(run.nodes[message.i], message.value)

    def remade(self, message: Remade) -> None:
        """Take what a run made for a node of a run that is over."""
        self._remade(message.node, message.value)

    def _remade(self, node: Node, value: Any) -> None:
        """Take the value of a node that a run of its own has made, unless it was given up."""
        if node not in node.job.later:
            return
        if type(value) is PoolValue:
            self._memory.add(value.value)
            values.provide(self._state, node, value.value)
        else:
            self._provide(node, value)

    def refused(self, message: Refused) -> None:
        """Take the failure of what a task returned."""
        run = message.run
        if run.nodes and not run.over:
            self._not_remade(run.nodes[message.i], message.error)

    def not_remade(self, message: NotRemade) -> None:
        """Take the failure of a run that a node of a run that is over needed."""
        self._not_remade(message.node, message.error)

    def _not_remade(self, node: Node, error: BaseException) -> None:
        if node in node.job.later:
            values.fail(self._state, node, error)

    # -- packed -----------------------------------------------------------------------------

    def pack(self, do: Pack) -> None:
        """Have a node's arguments pickled, when all instructions are done."""
        self._unpacked.setdefault(do.node.job, []).append(do.node)

    def begin_packing(self) -> None:
        """Start a thread for each job whose nodes have to be packed."""
        while self._unpacked:
            packing.begin(self._driver, self._unpacked.popitem()[1])

    def packed(self, message: Packed) -> None:
        """Take what another thread has pickled of a node: its arguments, or its `Literal`."""
        node, literal, found = message.node, message.literal, message.found
        is_value = literal is not MISSING
        if is_value and found is not None:
            self._memory.written(found)
        run = node.job.run
        self._memory.keep_constants(None if run is None else run.literals, message.written)
        if node.phase != WAITING or node.packed != () or node.value is not literal:
            self._memory.remove(found)
        elif message.error is not None:
            values.fail(self._state, node, message.error)
        elif is_value:
            literal.encoded = found
            values.provide(self._state, node, literal)
        else:
            values.packed(self._state, node, found)
        self._driver.perform()

    # -- fetched for this process -----------------------------------------------------------

    def fetch_value(self, message: FetchValue) -> None:
        """Have the value of a node brought here."""
        self.fetch(message.node, message.fetch)

    def fetch(self, node: Node, waits: Any) -> None:
        """Have ``waits.done(value, error)`` called with a value that a worker has."""
        self._fetches.setdefault(node, []).append(waits)
        values.want(self._state, node)

    def arrived(self, do: Arrived) -> None:
        """Hand a value to all that wait for it."""
        for fetch in self._fetches.pop(do.node, ()):
            fetch.done(do.value)

    def lost(self, do: Lost) -> None:
        """Wake all that wait for a value that can't be had."""
        for fetch in self._fetches.pop(do.node, ()):
            fetch.done(None, do.value)

    def refuse_fetches(self, why: BaseException) -> None:
        """Wake all that wait for a value: none comes any more."""
        for waiting in self._fetches.values():
            for fetch in waiting:
                fetch.done(None, why)
        self._fetches.clear()

    def synchronize(self, message: Synchronize) -> None:
        """Wake the thread that waits for what it has posted before."""
        message.fetch.done(None)

    # -- counts of memory -------------------------------------------------------------------

    def count_in(self, message: CountIn) -> None:
        """Count in a value that this process has encoded."""
        self._memory.take_own(message.encoded)

    def viewed(self, message: Viewed) -> None:
        """Count in a segment that is mapped here."""
        self._memory.segments.add([message.segment])

    def free(self, do: Free) -> None:
        """Count out a value that nobody needs."""
        self._memory.remove(do.value)

    def let_go(self, message: LetGo) -> None:
        """Let go of a value whose `PoolValue` has gone."""
        self._driver.release(message.number)
        if message.node is not None:
            values.unpin(self._state, message.node)
        self._memory.remove(message.value)
