"""Events of workers: they are started, can be sent tasks, take longer than they should, or die.

When a worker dies, the task that ran, or whose result was being pickled, is charged; what else was
sent there goes back without a mark. A value that only the dead worker had is made again by its
task, as long as its lineage is kept (lineage.py). Values that were shared are in memory of which
the parent has a descriptor, and outlive their worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyflow.graph.task import HELD
from lazyflow.schedulers.processes.decisions.batching import assign
from lazyflow.schedulers.processes.decisions.instructions import Recall, ToWorker
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    MISSING,
    READY,
    SENT,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.selection import may_spread
from lazyflow.schedulers.processes.decisions.state import State


def add_worker(state: State, worker: WorkerRecord) -> None:
    """Learn that a worker is being started."""
    state.starting = max(0, state.starting - 1)
    state.workers.append(worker)


def starting_failed(state: State, count: int) -> None:
    """Learn that no more than `count` workers can be had."""
    state.starting = 0
    state.size = max(1, count)


def worker_up(state: State, worker: WorkerRecord) -> None:
    """Learn that a worker can be sent tasks."""
    worker.up = True
    assign(state)


def overdue(state: State, worker: WorkerRecord, number: int) -> None:
    """Learn that a flight takes longer than it should while other workers have nothing."""
    flight = worker.flight(number)
    if flight is not None:
        flight.is_late = True
        is_behind = flight.unanswered > 1 or len(worker.flights) > 1
        if is_behind and any(may_spread(f.nodes[0].job) for f in worker.flights):
            recall(state, worker)
        for node in tuple(worker.fetching):  # what it waits for is of use elsewhere
            if may_spread(node.job):
                state.queues.unqueue(node)
                state.refcounts.requeue(node)
    assign(state)


def recall(state: State, worker: WorkerRecord) -> None:
    """Have a worker give back what it did not begin."""
    if not worker.recalling:
        worker.recalling = True
        state.out.append(Recall(worker))


# -- the death of a worker -----------------------------------------------------------------


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
        Makes the error of a task that has killed so many workers; 0: its value is lost, and it
        must not run again.
    pickled
        The id of the task whose result was just being pickled for others, or 0: to blame instead.
    """
    guilty = _guilty(worker, charged, pickled)
    state.workers.remove(worker)
    worker.up = False
    for_others = [i for i in state.out if not (isinstance(i, ToWorker) and i.worker is worker)]
    state.out.clear()
    state.out.extend(for_others)
    back = _take_back(state, worker)
    again = state.lineage.remake(_drop_values(worker), died)
    if guilty is not None:
        crashes = guilty.job.crashes
        attempts = crashes[guilty] = crashes.get(guilty, 0) + 1
        if attempts > guilty.job.crash_retries_of(_maker(guilty).task):
            state.refcounts.fail_all(guilty, died(guilty, attempts))
    for node in (*back, *again):
        state.refcounts.requeue(node)
    assign(state)


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
