"""Events of answers: a worker's tasks are done, have failed, come back, or returned lazy values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lazyflow.schedulers.processes.decisions.batching import assign
from lazyflow.schedulers.processes.decisions.nodes import DONE, WAITING, Node, WorkerRecord
from lazyflow.schedulers.processes.decisions.state import State


def answered(
    state: State,
    worker: WorkerRecord,
    number: int,
    done: Sequence[tuple[Node, Any, int, bool]],
    failed: Sequence[tuple[Node, Any]],
    times: dict[int, tuple[int, float]],
    deferred: Sequence[Node] = (),
) -> None:
    """Take a worker's answer to a flight, or to a part of it.

    Parameters
    ----------
    done
        Node, value or MISSING, its size in bytes, and whether the worker has it still.
    failed
        Node and error.
    times
        The number of calls and their seconds, by function.
    deferred
        Nodes that were not run, since an input turned out to be a lazy value.
    """
    flight = worker.flight(number)
    if flight is not None and times:
        flight.nodes[0].job.seconds += sum(seconds for _, seconds in times.values())
    for function, (calls, seconds) in times.items():
        state.paces[function].measured(calls, seconds)
    for node, value, size, is_there in done:
        _done(state, node, worker, value, size, is_there)
    for node, error in failed:
        state.refcounts.leave(node, worker)
        state.refcounts.fail_all(node, error, worker)
    if deferred:
        _defer(state, worker, deferred)
    _count_answers(worker, number, len(done) + len(failed) + len(deferred))
    assign(state)


def recalled(
    state: State, worker: WorkerRecord, groups: Iterable[tuple[int, Sequence[Node]]]
) -> None:
    """Take back what a worker did not begin: the nodes of each flight; the last sent come first."""
    worker.recalling = False
    back: list[Node] = []
    for number, nodes in groups:
        for node in nodes:
            state.refcounts.unsend(node, worker)
        back += nodes
        _count_answers(worker, number, len(nodes))
    for node in back:
        state.refcounts.requeue(node)
    assign(state)


def postponed(state: State, worker: WorkerRecord, number: int, node: Node) -> None:
    """Learn that a task returned a lazy value: `provide` or `fail` comes later."""
    state.refcounts.await_again(node, worker)  # it ran: what drops its inputs drops them still
    state.refcounts.uses_no_more(node, was_sent=True)
    node.distinct = ()
    node.open += 1  # for what it returned
    node.stays = True  # tasks that were sent after it will come back and need it again
    worker.forget.append(node.id)
    _count_answers(worker, number, 1)
    node.job.later[node] = None
    if node.job.over:
        state.refcounts.abandon([node])


def _defer(state: State, worker: WorkerRecord, nodes: Sequence[Node]) -> None:
    """Take tasks back that met a lazy value; their worker keeps what they need."""
    for node in reversed(nodes):
        state.refcounts.unsend(node, worker)
    for node in nodes:
        worker.forget.append(node.id)  # it knows that another run makes it
        node.stays = True  # what was sent after it will come back, too
        for source in node.distinct:
            source.stays = True
        state.refcounts.requeue(node)


def _done(
    state: State, node: Node, worker: WorkerRecord, value: Any, size: int, is_there: bool
) -> None:
    refcounts = state.refcounts
    node.phase = DONE
    node.home = None
    node.value = value
    node.size = size
    if node in node.job.once:
        node.job.once[node] = True
    if node.packed:
        node.packed = ()
    if is_there or node.dropped:  # dropped already, as its last user began: lost with that
        node.holder = worker
        worker.holding[node.id] = node
    for user in node.users:
        user.flying -= 1
        if not user.flying:
            user.site = None
            if not user.open and user.phase == WAITING:
                state.queues.make_ready(user)
    for source in node.distinct:
        source.left -= 1
        if not source.left:
            refcounts.let_go(source)
    if node.want:
        state.lineage.offer(node)
    if not node.left:
        refcounts.release(node)
    elif node.dropped and node.unsent:
        state.lineage.remake_dropped(node)
    refcounts.not_active(node.job, worker)


def _count_answers(worker: WorkerRecord, number: int, count: int) -> None:
    flight = worker.flight(number)
    if flight is not None:
        flight.unanswered -= count
        if not flight.unanswered:
            worker.flights.remove(flight)
