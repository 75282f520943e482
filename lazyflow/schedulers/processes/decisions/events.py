"""The events: workers answer or die, values come or are not needed any more, jobs begin or end.

Each event is a function of the `State` (pool_state.py), called by the driver. It changes the state
and appends instructions to ``state.out``; where tasks may have become ready, it ends with `assign`,
which sends all that can be sent. Here one worker gets two tasks, the second of which kills it::

    load --> total (wanted by the caller)

>>> from lazyflow import delayed
>>> state, worker = State(), WorkerRecord(serial=1)
>>> job = Job(run=None, cap=1)
>>> load, total = Node(job, 0, delayed(abs)(-1), 0), Node(job, 1, delayed(str)(1), 1)
>>> job.nodes = [load, total]
>>> load.users, load.left, load.unsent = [total], 1, 1   # it has one user, which was not sent
>>> total.inputs = total.distinct = (load,)
>>> total.want = ALWAYS
>>> add_worker(state, worker); worker_up(state, worker); add_job(state, job)
>>> send, = state.out                        # `load` goes alone: its function was never measured
>>> send.batch.nodes == [load], worker.lanes[0].following == [total]
(True, True)

It answers that it has the value, of 24 bytes, and that one call took 10 µs:

>>> state.out.clear()
>>> answered(state, worker, 1, [(load, MISSING, 24, True)], [], {0: (1, 1e-5)})
>>> load.phase == DONE, load.holder is worker, state.paces[0].mean
(True, True, 1e-05)
>>> send, = state.out                        # the worker drops the value after `total`
>>> send.batch.nodes == [total], send.batch.drops == [(load.id,)]
(True, True)

It dies. `total` is charged, and `load` has to be made again by a new worker:

>>> state.out.clear()
>>> lost(state, worker, charged=total.id, died=None)
>>> job.crashes == {total: 1}, load.phase == READY, total.phase == WAITING, list(state.out)
(True, True, True, [Start(number=1)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lazyflow.errors import StoreFull
from lazyflow.graph.task import HELD
from lazyflow.schedulers.processes.decisions.assignment import assign, may_spread
from lazyflow.schedulers.processes.decisions.nodes import (
    ALWAYS,
    DONE,
    FAILED,
    MISSING,
    READY,
    SENT,
    WAITING,
    Arrived,
    Batch,
    Free,
    Job,
    Lost,
    Node,
    Pace,
    Recall,
    ToWorker,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.pool_state import State, purge

GROWTH = 4  # times as many tasks of one function in a batch as were measured so far; a guess
_MAX_CALLS = 1 << 20  # of one function in a batch; a guess

# -- events of answers: a worker's tasks are done, have failed, come back, or returned lazy values


def answered(
    state: State,
    worker: WorkerRecord,
    number: int,
    done: Sequence[tuple[Node, Any, int, bool]],
    failed: Sequence[tuple[Node, Any]],
    times: dict[int, tuple[int, float]],
    deferred: Sequence[Node] = (),
) -> None:
    """Take a worker's answer to a batch, or to a part of it.

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
    batch = _batch_of(worker, number)
    for function, (calls, seconds) in times.items():
        _measured(state.paces[function], calls, seconds)
        if batch is not None:
            batch.nodes[0].job.seconds += seconds
    for node, value, size, is_there in done:
        state.done(node, worker, value, size, is_there)
    for node, error in failed:
        state.refcounts.leave(node, worker)
        state.refcounts.fail_all(node, error, worker)
    if deferred:
        _defer(state, worker, deferred)
    _count_answers(worker, batch, len(done) + len(failed) + len(deferred))
    assign(state)


def _batch_of(worker: WorkerRecord, number: int) -> Batch | None:
    """Return the batch of a number, unless all of it was answered."""
    return next((batch for batch in worker.batches if batch.number == number), None)


def _measured(pace: Pace, calls: int, seconds: float) -> None:
    """Learn that so many calls of a function took so long."""
    mean = seconds / calls
    # Recent calls count for more: the last answer has half of the weight.
    pace.mean = (pace.mean + mean) / 2 if pace.allowed else mean
    pace.allowed = max(pace.allowed, min(calls * GROWTH, _MAX_CALLS))


def recalled(
    state: State, worker: WorkerRecord, groups: Iterable[tuple[int, Sequence[Node]]]
) -> None:
    """Take back tasks that a worker did not begin: the nodes of each batch, the last sent first."""
    worker.recalling = False
    back: list[Node] = []
    for number, nodes in groups:
        for node in nodes:
            state.refcounts.unsend(node, worker)
        back += nodes
        _count_answers(worker, _batch_of(worker, number), len(nodes))
    for node in back:
        state.refcounts.requeue(node)
    assign(state)


def postponed(state: State, worker: WorkerRecord, number: int, node: Node) -> None:
    """Learn that a task returned a lazy value: `provide` or `fail` comes later."""
    state.refcounts.postponed(node, worker)
    _count_answers(worker, _batch_of(worker, number), 1)
    if node.job.over:
        state.refcounts.abandon([node])


def _defer(state: State, worker: WorkerRecord, nodes: Sequence[Node]) -> None:
    """Take tasks back that met a lazy value; their worker keeps their inputs."""
    for node in reversed(nodes):
        state.refcounts.unsend(node, worker)
    for node in nodes:
        worker.to_drop.append(node.id)  # it knows that another run makes it
        node.stays = True  # tasks that were sent after it will come back, too
        for source in node.distinct:
            source.stays = True
        state.refcounts.requeue(node)


def _count_answers(worker: WorkerRecord, batch: Batch | None, count: int) -> None:
    if batch is not None:
        batch.unanswered -= count
        if not batch.unanswered:
            worker.batches.remove(batch)


# -- events of values: they are given, arrive, are lost, asked for, or held no more


def provide(state: State, node: Node, value: Any, size: int = 0) -> None:
    """Take the value of a node that no task of its own makes, and its size if it is encoded."""
    if node.phase != WAITING:
        state.out.append(Free(value))
        return
    state.provided(node, value, size)
    assign(state)


def packed(state: State, outcomes: Iterable[tuple[Node, tuple[Any, ...]]]) -> None:
    """Take the arguments of some tasks as they are sent."""
    for node, arguments in outcomes:
        state.lineage.packed(node, arguments)
    assign(state)


def fail(state: State, node: Node, error: Any) -> None:
    """Let a task fail that did not run, and those that need it.

    A task that was sent to a worker may still succeed there, or come back and fail.
    """
    if node.phase == SENT:
        node.job.verdicts[node] = error
    state.refcounts.fail_all(node, error)
    state.lineage.sweep()


def shared(state: State, node: Node, value: Any) -> None:
    """Take the encoded value that a worker was asked for."""
    node.sharing = False
    if node.phase != DONE or node.value is not MISSING:
        state.out.append(Free(value))
        return
    node.value = value
    state.queues.stuck.pop(node, None)
    state.queues.fetched(node)
    if node.want:
        state.lineage.offer(node)
    assign(state)


def unshareable(state: State, node: Node, error: Any) -> None:
    """Learn that a value can't leave its worker: tasks that need it have to run there."""
    node.sharing = False
    if node.phase != DONE or node.value is not MISSING:
        return
    state.queues.stuck[node] = error
    state.refcounts.unsafe.pop(node, None)
    for user in state.queues.waiters.pop(node, ()):
        state.queues.unqueue(user)
        state.refcounts.requeue(user)
    if node in node.job.delivered:
        state.out.append(Lost(node, error))
    assign(state)


def want(state: State, node: Node) -> None:
    """Have a held value sent to the parent; the instruction `Arrived` follows, or `Lost`."""
    node.want = ALWAYS
    stuck = state.queues.stuck.get(node)
    if node.phase == DONE:
        if node.value is not MISSING:
            state.out.append(Arrived(node, node.value))
        elif stuck is not None and type(stuck) is not StoreFull:  # there may be room by now
            state.out.append(Lost(node, stuck))
        else:
            state.queues.share(node)
    elif node.phase == FAILED:
        state.out.append(Lost(node, node.value))
    # else it is being made again, and comes when it is done


def unpin(state: State, node: Node) -> None:
    """Learn that no one outside the pool holds the value of a node any more."""
    if node.pinned:
        state.refcounts.unpin(node)
        state.refcounts.not_unsafe(node)
        if not node.left:
            state.refcounts.let_go(node)
        state.lineage.sweep()


def make_safe(state: State, most: int = 1) -> None:
    """Copy held values out of their workers, so many at once, while nothing else is to be done."""
    lineage = state.lineage
    while lineage.unshared and len(lineage.copies_to_come()) < most:
        node = lineage.unshared.popleft()
        if node in state.refcounts.unsafe and node.phase == DONE and not node.sharing:
            lineage.copy_if_room(node)


# -- events of jobs: they begin, end, or need less than they did --------------------------


def add_job(state: State, job: Job, failed: Iterable[tuple[Node, Any]] = ()) -> None:
    """Take in a job whose nodes are linked; its inputs from other jobs are counted in here.

    `failed` are nodes that can't run, with their errors.
    """
    failed = list(failed)
    for node in job.nodes:
        if node.pinned:
            node.stays = True
        if node.phase == DONE or node.open or node.value is not MISSING:
            job.given.add(node)
        if node.phase == DONE:
            continue
        if node.packed == ():
            state.lineage.pack(node)
        for source in node.distinct:
            if source.phase == FAILED:
                failed.append((node, source.value))
            state.lineage.wait_for(node, source)
            if source.job is not job:
                state.lineage.depend(node, source)
    job.lineage_size = len(job.nodes) + sum(d.lineage_size for d in job.depends)
    job.seconds = sum(d.seconds for d in job.depends)
    state.size = max(state.size, job.cap)
    state.jobs[job.background][job] = None
    for node, error in failed:
        state.refcounts.fail_all(node, error)
    for node in reversed(job.nodes):  # the first in the plan on top of the stacks
        if node.phase == WAITING and not node.open and not node.under_way:
            state.queues.make_ready(node)
    assign(state)


def end_job(state: State, job: Job) -> None:
    """Give up the results that an ended job still wanted; values of it that are held stay."""
    if job.over:
        return
    job.over = True
    state.jobs[job.background].pop(job, None)
    was_needed = False
    for node in reversed(job.nodes):
        is_wanted = node.want and node not in job.delivered
        if node.pinned and node not in job.delivered:
            state.refcounts.unpin(node)
        phase = node.phase
        if phase < SENT:
            if is_wanted or not node.left:  # tasks of other jobs that wait for it fail
                was_needed = True
                state.refcounts.abandon(state.refcounts.give_up_one(node))
        elif not node.left:
            state.refcounts.let_go(node)
    if was_needed:
        purge(state.workers)
    if job.later:
        _run_later_again(state, job)
    state.refcounts.ended.append(job)
    state.lineage.sweep()


def _run_later_again(state: State, job: Job) -> None:
    """Run the tasks of an ended job again that returned a lazy value, and that others need.

    The runs that made those values are over with the job.
    """
    later, job.later = job.later, {}
    lost = []
    for node in later:
        node.distinct = tuple(dict.fromkeys(node.inputs))
        node.value = MISSING  # it may be at hand, and not be pickled yet
        lost += state.lineage.count_in(node)
    for node in (*later, *state.lineage.remake(lost)):
        state.refcounts.requeue(node)
    assign(state)


def give_up(state: State, nodes: Iterable[Node]) -> None:
    """Give up tasks that are not needed any more."""
    unneeded = set(nodes)
    for node in unneeded:
        if node.pinned and node.phase < SENT and node not in node.job.delivered:
            state.refcounts.unpin(node)
    state.refcounts.abandon([n for n in unneeded if n.phase < SENT], unneeded)
    state.lineage.sweep()


# -- workers ------------------------------------------------------------------------------
#
# Events of workers: they are started, can be sent tasks, take longer than they should, or die.
#
# When a worker dies, the task that ran, or whose result was being pickled, is charged; what else
# was sent there goes back without a mark. A value that only the dead worker had is made again by
# its task, as long as its lineage is kept (`Lineage`). Values that were shared are in memory of
# which the parent has a descriptor, and outlive their worker.


def add_worker(state: State, worker: WorkerRecord) -> None:
    """Learn that a worker is being started."""
    state.starting = max(0, state.starting - 1)
    state.workers.append(worker)


def starting_failed(state: State, count: int) -> None:
    """Learn that the system allows no more than `count` workers."""
    state.starting = 0
    state.size = max(1, count)


def worker_up(state: State, worker: WorkerRecord) -> None:
    """Learn that a worker can be sent tasks."""
    worker.up = True
    assign(state)


def overdue(state: State, worker: WorkerRecord, number: int) -> None:
    """Learn that a batch takes longer than it should while other workers have nothing."""
    batch = _batch_of(worker, number)
    if batch is not None:
        batch.is_late = True
        is_behind = batch.unanswered > 1 or len(worker.batches) > 1
        if is_behind and any(may_spread(each.nodes[0].job) for each in worker.batches):
            recall(state, worker)
        for node in tuple(worker.fetching):  # other workers can use its inputs
            if may_spread(node.job):
                state.queues.unqueue(node)
                state.refcounts.requeue(node)
    assign(state)


def recall(state: State, worker: WorkerRecord) -> None:
    """Have a worker give back the tasks that it did not begin."""
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
    again = state.lineage.remake(state.refcounts.holder_lost(worker), died)
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
    for batch in worker.batches:
        for node in batch.nodes:
            if node.id == charged and node.phase == SENT and node.home is worker:
                return node
    return None


def _take_back(state: State, worker: WorkerRecord) -> list[Node]:
    """Take back the tasks that were sent to a worker or queued for it, last first."""
    back = []
    for batch in reversed(worker.batches):
        for node in reversed(batch.nodes):
            if node.phase == SENT and node.home is worker:
                state.refcounts.unsend(node, worker)
                back.append(node)
    worker.batches.clear()
    waiting = list(worker.fetching)
    for lane in worker.lanes:
        waiting += [n for n in lane.queue if n.phase == READY and n.home is worker]
        lane.queue.clear()
        lane.following.clear()
        lane.arrived.clear()
    for node in waiting:
        state.queues.unqueue(node)
    return back + waiting
