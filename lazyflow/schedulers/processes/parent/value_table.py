"""Values of nodes in the driver's thread: given, packed, fetched for this process, and let go."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from lazyflow.schedulers.processes.decisions import values
from lazyflow.schedulers.processes.decisions.instructions import Arrived, Free, Lost, Pack
from lazyflow.schedulers.processes.decisions.nodes import MISSING, WAITING, Job, Literal, Node
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent import packing
from lazyflow.schedulers.processes.parent.pool_value import PoolValue
from lazyflow.schedulers.remote.calls import is_quick, is_short


class ValuesDriver(packing.PackingDriver, Protocol):
    """What the values need of the driver."""

    state: State
    why: BaseException

    def perform(self) -> None:
        """Do what the state has decided."""


class ValueTable:
    """Handles instructions for values, and steps that other threads post.

    unpacked
        Nodes that a thread has to pickle, by job.
    """

    def __init__(self, driver: ValuesDriver) -> None:
        self._driver = driver
        self._state = driver.state
        self._memory = driver.memory
        self._fetches: dict[Node, list[Any]] = {}
        self.unpacked: dict[Job, list[Node]] = {}

    # -- given ------------------------------------------------------------------------------

    def take_outcome(self, node: Node, future: Any) -> None:
        """Take the outcome of a future that a node stands for."""
        value, error = future.local_outcome()
        if error is not None:
            values.fail(self._state, node, error)
        elif not node.inputs and node.phase == WAITING and not node.job.over:
            if future.is_elsewhere():  # of another pool, or an engine: a thread brings it here
                threading.Thread(
                    target=self._bring, args=(node, value), name="lazyflow-fetch", daemon=True
                ).start()
            else:
                self.provide(node, value)

    def _bring(self, node: Node, remote: Any) -> None:
        try:
            self._driver.loop.post(self.provide, node, remote.get())
        except BaseException as error:
            self._driver.loop.post(values.fail, self._state, node, error)

    def provide(self, node: Node, value: Any) -> None:
        """Provide a node with a value; tasks that need it wait until it is pickled."""
        if node.phase != WAITING or is_short(value):
            values.provide(self._state, node, value)
        elif not node.users or is_quick((value,), self._memory.least):
            values.provide(self._state, node, Literal(value))
        else:
            node.value, node.packed = Literal(value), ()
            self.pack(Pack(node))

    def delivered(self, run: Any, i: int, value: Any, error: BaseException | None) -> None:
        """Take what was made in the place of a task that returned a lazy value, or why it was not.
        """
        if run.nodes and not run.over:
            self.remade(run.nodes[i], value, error)

    def remade(self, node: Node, value: Any, error: BaseException | None) -> None:
        """Take the value of a node that a run of its own has made, unless it was given up."""
        if node not in node.job.later:
            return
        if error is not None:
            values.fail(self._state, node, error)
        elif type(value) is PoolValue:
            self._memory.add(value.value)
            values.provide(self._state, node, value.value, value.value.size)
        else:
            self.provide(node, value)

    # -- packed -----------------------------------------------------------------------------

    def pack(self, do: Pack) -> None:
        """Have a node's arguments pickled, when all instructions are done."""
        self.unpacked.setdefault(do.node.job, []).append(do.node)

    def begin_packing(self) -> None:
        """Start a thread for each job whose nodes have to be packed."""
        while self.unpacked:
            packing.begin(self._driver, self.unpacked.popitem()[1], self.packed)

    def packed(self, outcomes: list[packing.Packed]) -> None:
        """Take what another thread has pickled of nodes: their arguments, or their values."""
        ready = [each for each in outcomes if self._is_ready(*each)]
        values.packed(self._state, [(node, arguments) for node, _, arguments, *_ in ready])
        self._driver.perform()

    def _is_ready(
        self,
        node: Node,
        literal: Any,
        found: Any,
        error: BaseException | None,
        written: dict[Any, Any],
    ) -> bool:
        """Take in what was pickled of a node; tell whether its arguments are.

        `literal` is the node's value then: a `Literal`, or MISSING when `found` is arguments;
        `written` is memory that was copied for it, for `PoolMemory.keep_constants`.
        """
        is_value = literal is not MISSING
        if is_value and found is not None:
            self._memory.take_own(found)
        run = node.job.run
        self._memory.keep_constants(None if run is None else run.literals, written)
        if node.phase != WAITING or node.packed != () or node.value is not literal:
            self._memory.remove(found)
        elif error is not None:
            values.fail(self._state, node, error)
        elif is_value:
            literal.encoded = found
            values.provide(self._state, node, literal)
        else:
            return True
        return False

    # -- fetched for this process -----------------------------------------------------------

    def fetch(self, node: Node, waits: Any) -> None:
        """Have ``waits.done(value, error)`` called with a value that a worker has."""
        if self._driver.closing:
            waits.done(None, self._driver.why)
            return
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

    def free(self, do: Free) -> None:
        """Count out a value that nobody needs."""
        self._memory.remove(do.value)
