"""What the death of a worker costs: tasks that go back in the queue, values to be made again.

The task that ran, or whose result was being pickled, is charged; what else was sent there goes
back without a mark. A value that only the dead worker had is made again by its task, as long as
its lineage is kept (lineage.py). Values that were shared are in memory of which the parent has a
descriptor, and outlive their worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyflow.graph.task import HELD
from lazyflow.schedulers.processes.decisions.batching import assign
from lazyflow.schedulers.processes.decisions.instructions import ToWorker
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    MISSING,
    READY,
    SENT,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.state import State


def lost(
    state: State,
    worker: WorkerRecord,
    charged: int,
    died: Callable[[Node, int], Any],
    pickled: int = 0,
) -> None:
    """Take in that a worker has died.

    Parameters
    ----------
    charged
        The id of the task that ran last, or 0: to blame unless its result has come.
    died
        Makes the error of a task that has killed so many workers.
    pickled
        The id of the task whose result was just being pickled for others, or 0: to blame instead.
    """
    guilty = _guilty(worker, charged, pickled)
    state.workers.remove(worker)
    worker.up = False
    _drop_instructions(state, worker)
    back = _take_back(state, worker)
    again = state.lineage.remake(_drop_values(worker))
    if guilty is not None:
        crashes = guilty.job.crashes
        attempts = crashes[guilty] = crashes.get(guilty, 0) + 1
        if attempts > guilty.job.crash_retries_of(_maker(guilty).task):
            state.refcounts.fail_all(guilty, died(guilty, attempts))
    for node in (*back, *again):
        state.refcounts.requeue(node)
    assign(state)


def _drop_instructions(state: State, worker: WorkerRecord) -> None:
    """Drop instructions for a worker that is dead."""
    others = [i for i in state.out if not (isinstance(i, ToWorker) and i.worker is worker)]
    state.out.clear()
    state.out.extend(others)


def _maker(node: Node) -> Node:
    """Return the node whose value a node hands on, or itself."""
    while node.task._func is HELD and node.distinct:
        node = node.distinct[0]
    return node


def _guilty(worker: WorkerRecord, charged: int, pickled: int) -> Node | None:
    if pickled:
        node = worker.holding.get(pickled)
        return node if node is not None and node.phase == DONE and node.sharing else None
    for flight in worker.flights:
        for node in flight.nodes:
            if node.id == charged and node.phase == SENT and node.home is worker:
                return node
    return None


def _take_back(state: State, worker: WorkerRecord) -> list[Node]:
    """Undo what was sent to a worker or queued for it, last first."""
    back = []
    for flight in reversed(worker.flights):
        for node in reversed(flight.nodes):
            if node.phase == SENT and node.home is worker:
                state.refcounts.unsend(node, worker)
                back.append(node)
    worker.flights.clear()
    waiting = list(worker.fetching)
    for lane in worker.lanes:
        waiting += [n for n in lane.queue if n.phase == READY and n.home is worker]
        lane.queue.clear()
        lane.following.clear()
        lane.arrived.clear()
    for node in waiting:
        state.queues.unqueue(node)
    return back + waiting


def _drop_values(worker: WorkerRecord) -> list[Node]:
    """Take a worker out as a holder; return the nodes whose values are nowhere now."""
    missing = []
    for node in worker.holding.values():
        copies = node.copies
        if copies is not None and worker in copies:
            copies.remove(worker)
            if not copies:
                node.copies = None
        if node.holder is worker:
            node.holder = None
            node.sharing = False
            if node.phase == DONE and node.value is MISSING:
                missing.append(node)
    worker.holding.clear()
    return missing
