"""Events of workers: they are started, can be sent tasks, or take longer than they should."""

from __future__ import annotations

from lazyflow.schedulers.processes.decisions.batching import assign
from lazyflow.schedulers.processes.decisions.instructions import Recall
from lazyflow.schedulers.processes.decisions.nodes import WorkerRecord
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
