"""Which task goes to which worker, and how many go together in a batch.

Every event ends with `assign`. For each worker that has room it takes the next task (`first`) and
adds more of the same job (`another`) up to the seconds of work that a batch should have (`_fair`).
The policy is told in words above the two parts of this module: where a task goes, and how much
goes into a batch. The module has no state of its own: it takes tasks out of the queues of a `State`
(pool_state.py), in the driver's thread, and writes::

    WorkerRecord.batches :: deque[Batch]    a batch is added; events remove it when it is answered
    WorkerRecord.to_drop :: [id]            moved to the batch
    Lane.following, arrived, queue          tasks are taken out, or put back
    Job.last :: WorkerRecord                the worker of the job's last batch
    Job.listed :: bool                      False when the job has no ready task any more
    State.starting, batch_count :: int      workers that are asked for, and batches
    State.has_moved :: bool                 a worker that was passed over may have a task now
    State.out :: deque[Instruction]         `Send` and `Start`

From where the next task of a worker comes, the first that has one; foreground jobs go first, and
tasks with priorities are told of below::

    following --> arrived --> queue --> rota --> queue of another worker
    its inputs    inputs      most of   of all   stolen, if moving the inputs
    are made      were        its input jobs     takes less time than waiting
    there         fetched     is here

The first batch of a function that was never measured is one task; then four times as many go as
were measured:

>>> from lazyflow import delayed
>>> state, worker, job = State(), WorkerRecord(serial=1), Job(run=None, cap=1)
>>> worker.up, state.workers, state.size = True, [worker], 1
>>> for i in range(9):
...     state.queues.push(Node(job, i, delayed(abs)(-i), function=0))
>>> assign(state)
>>> [len(batch.nodes) for batch in worker.batches]
[1]
>>> state.paces[0].allowed, state.paces[0].mean = 4, 1e-5      # as events.py notes it
>>> worker.batches.clear()
>>> assign(state)
>>> [len(batch.nodes) for batch in worker.batches]             # the next waits behind it
[4, 4]
"""

from __future__ import annotations

from collections import deque
from functools import partial
from heapq import heappop
from itertools import islice

from lazyflow.schedulers.core.priorities import FairQueue
from lazyflow.schedulers.processes.decisions.nodes import (
    BANDWIDTH,
    FETCH,
    FETCHING,
    MAPPING,
    MISSING,
    READY,
    SENT,
    WAITING,
    Batch,
    Job,
    Lane,
    Node,
    Send,
    Start,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.pool_state import Queues, State

# -- which task is next -------------------------------------------------------------------
#
# The next task for a worker: its own first, then those that may go anywhere, then others'.
#
# Foreground jobs go before background jobs, at every step, and of each kind tasks with priorities
# above 0 before all others, and those below 0 after them. A worker's own tasks are those that
# follow from what it was sent, those for which inputs were fetched, and those that are queued for
# it since most bytes of the inputs are there. A worker with nothing of all that steals from one
# that is busy, when moving the inputs takes less time than the task would have to wait. Values in
# shared memory move by being mapped once, so tasks on them are shared out evenly, wherever they
# were made.

_LATE = 1e9  # seconds left, as assumed, of a batch that takes longer than it should
_LOOKED_AT = 8  # tasks of a queue, before nothing is stolen from it; a guess


def another(state: State, worker: WorkerRecord, lane: Lane, job: Job) -> Node | None:
    """Take a further task of the same job; None when a task of another job should be the next."""
    queues = state.queues
    urgent = queues.by_priority[job.background]
    if urgent.entries and _is_outranked(queues, job, urgent):
        return None
    following = lane.following
    if following:
        node = following[-1]
        is_valid = node.phase == WAITING and not node.open and node.site is worker
        if is_valid and node.job is job:
            return following.pop()
    if following or lane.arrived or lane.queue:
        own = _local(queues, worker, lane, job)
        if own is not None or following or lane.arrived or lane.queue:
            return own
    free = _pop(job) if job.ready else None
    return _steal(state, worker, job) if free is None and queues.queued else free


def first(state: State, worker: WorkerRecord) -> Node | None:
    """Take the next task for a worker out of the queues."""
    queues = state.queues
    for lane, rota, urgent in zip(worker.lanes, queues.rota, queues.by_priority, strict=True):
        node = None
        rank = urgent.first_rank() if urgent.entries else None
        if rank is not None and rank < 0:
            node = _from_priorities(worker, urgent)
        if node is None:
            node = _local(queues, worker, lane, None)
        if node is None and rank == 0 and urgent.goes_first():
            node = _from_priorities(worker, urgent)
        if node is None and rota:
            node = _from_rota(worker, rota)
        if node is None and rank is not None:
            node = _from_priorities(worker, urgent)
        if node is not None:
            return node
    if queues.queued and not worker.batches and not worker.fetching:
        return _steal(state, worker)
    return None


def _local(queues: Queues, worker: WorkerRecord, lane: Lane, job: Job | None) -> Node | None:
    """Take the next of a worker's own tasks; None also when that is not of `job`."""
    following = lane.following
    while following:
        node = following[-1]
        phase = node.phase
        if phase == WAITING:
            is_valid = not node.open and node.site is worker
        else:
            is_valid = phase == READY and (node.home is None or node.home is worker)
        if is_valid and job is not None and node.job is not job:
            return None
        following.pop()
        if is_valid and may(worker, node.job):
            if node.home is not None:  # it is in the queue, too
                queues.take(node)
            return node
    if lane.arrived:
        fetched = _arrived(queues, worker, lane, job)
        if fetched is not None or lane.arrived:
            return fetched
    return _queued(queues, worker, lane, job) if lane.queue else None


def _queued(queues: Queues, worker: WorkerRecord, lane: Lane, job: Job | None) -> Node | None:
    queue = lane.queue
    bound = []
    chosen = None
    while queue:
        node = queue[-1]
        if node.phase != READY or node.home is not worker:
            queue.pop()
            continue
        if job is not None and node.job is not job:
            break
        queue.pop()
        is_allowed = may(worker, node.job)
        if not is_allowed and is_bound(queues, node):
            bound.append(node)
            continue
        queues.take(node)
        if is_allowed:
            chosen = node
            break
        queues.push(node)
    queue.extend(reversed(bound))
    return chosen


def _arrived(queues: Queues, worker: WorkerRecord, lane: Lane, job: Job | None) -> Node | None:
    arrived = lane.arrived
    while arrived:
        node = arrived[0]
        if worker.fetching.get(node) != 0:  # it was taken back meanwhile
            arrived.popleft()
            continue
        if job is not None and node.job is not job:
            return None
        arrived.popleft()
        if node.open or (node.under_way and node.site is not worker):  # an input was lost
            queues.unqueue(node)
        elif not may(worker, node.job):
            queues.unqueue(node)
            queues.make_ready(node)
        else:
            return node
    return None


def _any_arrived(state: State, worker: WorkerRecord) -> Node | None:
    for lane in worker.lanes:
        node = _arrived(state.queues, worker, lane, None)
        if node is not None:
            return node
    return None


def _from_rota(worker: WorkerRecord, rota: deque[Job]) -> Node | None:
    """Take a task that may run anywhere; the next batch begins with the next job."""
    for _ in range(len(rota)):
        job = rota[0]
        node = _pop(job) if may(worker, job) else None
        if job.ready:
            rota.rotate(-1)
        else:
            rota.popleft()
            job.listed = False
        if node is not None:
            return node
    return None


def _from_priorities(worker: WorkerRecord, urgent: FairQueue[Job]) -> Node | None:
    """Take the task with the highest priority that may run anywhere."""
    while (job := urgent.take(partial(may, worker))) is not None:
        node = _pop(job)
        if node is not None:
            return node
    return None


def _pop(job: Job) -> Node | None:
    """Take a ready task that may go anywhere; None when there is none."""
    ready = job.ready
    while ready:
        node: Node = heappop(ready)[3] if job.has_priorities else ready.pop()
        if node.phase == READY and node.home is None:
            return node
    return None


def _is_outranked(queues: Queues, job: Job, urgent: FairQueue[Job]) -> bool:
    """Tell whether a task of another job is more urgent than the next one of this."""
    rank = job.ready[0][0] if job.has_priorities and job.ready else 0
    first = urgent.first_rank()
    if first is not None and first < rank:
        return True
    return rank > 0 and bool(queues.rota[job.background])


def may(worker: WorkerRecord, job: Job) -> bool:
    """Tell whether a worker may take tasks of a job, without more workers than its cap."""
    return worker in job.active or len(job.active) < job.cap


def may_spread(job: Job) -> bool:
    """Tell whether one more worker may take tasks of a job."""
    return len(job.active) < job.cap


def _steal(state: State, thief: WorkerRecord, job: Job | None = None) -> Node | None:
    """Take the oldest task of another worker's queue, when moving its inputs is worth it.

    One for a further place in a batch is of a given job, and has inputs that are at hand.
    """
    for at in (0, 1) if job is None else (job.background,):
        for victim in sorted(state.workers, key=lambda w: -len(w.lanes[at].queue)):
            if victim is not thief:
                node = _steal_from(state, victim, victim.lanes[at], thief, job)
                if node is not None:
                    return node
    return None


def _steal_from(
    state: State, victim: WorkerRecord, lane: Lane, thief: WorkerRecord, job: Job | None
) -> Node | None:
    queues, queue = state.queues, lane.queue
    while queue and (queue[0].phase != READY or queue[0].home is not victim):
        queue.popleft()
    if not queue:
        return None
    is_busy = bool(victim.batches or victim.fetching or victim.recalling)
    wait = sum(_LATE if batch.is_late else batch.cost for batch in victim.batches)
    wait += state.paces[queue[0].function].mean * (len(queue) - (not is_busy))
    for at, node in enumerate(islice(queue, _LOOKED_AT)):
        if node.phase != READY or node.home is not victim or not may(thief, node.job):
            continue
        if is_bound(queues, node):
            continue
        if job is not None and node.job is not job:
            continue
        if (job is not None or not is_busy) and not is_at_hand(node):
            continue
        if wait > _seconds_to_move(node, thief):
            del queue[at]
            queues.take(node)
            return node
    return None


def _seconds_to_move(node: Node, thief: WorkerRecord) -> float:
    """Return how long it takes until a worker has the inputs of a task, roughly."""
    seconds = FETCH
    for source in node.distinct:
        if source.value is MISSING:
            seconds += 0 if _is_at(source, thief) else source.size / BANDWIDTH
        elif source.holder is not thief and thief not in (source.copies or ()):
            seconds += source.size / MAPPING
    return seconds


def _is_at(source: Node, worker: WorkerRecord) -> bool:
    """Tell whether a made value is at a worker, or in this process, from which it can be sent."""
    return (
        source.value is not MISSING
        or source.holder is worker
        or (source.copies is not None and worker in source.copies)
    )


def is_at_hand(node: Node) -> bool:
    """Tell whether any worker can have the inputs of a task without asking another for them."""
    return all(source.value is not MISSING for source in node.distinct)


def is_bound(queues: Queues, node: Node) -> bool:
    """Tell whether a task can run at one worker only, which an input of it can't leave."""
    return bool(queues.stuck) and not queues.stuck.keys().isdisjoint(node.distinct)


def put_back(queues: Queues, worker: WorkerRecord, node: Node) -> None:
    """Leave a task that was taken out of a queue for the worker's next batch."""
    lane = worker.lanes[node.job.background]
    if node.phase == FETCHING:
        lane.arrived.appendleft(node)
    elif node.phase == WAITING:
        lane.following.append(node)
    else:
        queues.make_ready(node)
        home = node.home
        if home is not None and not may(home, node.job) and not is_bound(queues, node):
            # There it would wait for a worker that may not run it, and a later job go first.
            queues.unqueue(node)
            queues.push(node)


# -- which task goes where, and how many go together --------------------------------------
#
# A task goes to the worker that has most bytes of its inputs, unless that one is busy and another
# has nothing to do; without inputs in any worker, to any that is free. Users of the tasks in a
# batch go into the same batch, so a batch is a subtree or a chain, and its inner values never leave
# the worker.
#
# How much goes into a batch follows from the measured durations. A task of a function that was
# never measured goes alone, then at most four times as many go as were measured, up to about
# `TARGET` seconds of work, and more if there are more workers than `SERVED`: a batch costs the
# process that sends it a tenth of a millisecond, and it serves all of them. Only so many go that
# the batches of all workers end together, since with batches of five one of two workers would get
# ten tasks of sixteen. A batch that ends within subtrees goes on to where one value of it waits
# for inputs from elsewhere, up to twice as long: several would wait for what other workers make of
# the same subtrees, and be held meanwhile. Of what is ready in a background job each worker gets as
# many tasks, so that values held by the caller lie evenly. A second batch may wait at the worker
# behind a short one; behind a long one, or one of unknown length, it would be held up.

AHEAD = 8  # tasks that may wait for inputs on their way to one worker; a guess
TARGET = 0.003  # seconds of work in one batch; a guess: thirty times what sending it costs
SERVED = 4  # workers with batches of `TARGET`: 16 would keep the caller's process busy; a guess
_PLENTY = 4  # batches for each worker: equal ones are of `_target` within an eighth; a guess
LEAST = TARGET / 3  # seconds; a smaller one costs more messages than balance is worth; a guess


def assign(state: State) -> None:
    """Send all tasks that workers have room for, and ask for workers when there are more."""
    if state.refcounts.ended:
        state.lineage.sweep()
    state.has_moved = True
    while state.has_moved:
        state.has_moved = False
        for busy in (0, 1):  # workers without work come first
            for worker in _in_turn(state):
                if len(worker.batches) == busy and _has_room(worker):
                    batch = _fill(state, worker)
                    if batch is not None:
                        state.out.append(Send(worker, batch))
    if len(state.workers) + state.starting < state.size:
        _ask_for_workers(state)


def _in_turn(state: State) -> list[WorkerRecord]:
    """Return the workers, those after the one that the next job had last first.

    Tasks that become ready one by one would all go to the first worker, and their values lie there.
    If the job may have few workers the last one itself comes first: with another one each time its
    values would lie here and there, and more of them at once.
    """
    workers = state.workers
    for rota in state.queues.rota:
        if rota and rota[0].last in workers:
            at = workers.index(rota[0].last) + (rota[0].cap >= len(workers))
            return workers[at:] + workers[:at]
    return workers


def _ask_for_workers(state: State) -> None:
    queues = state.queues
    wanted = queues.queued
    for jobs in (*queues.rota, *queues.by_priority):
        for job in jobs:
            wanted += min(len(job.ready), max(0, job.cap - len(job.active)))
    coming = state.starting
    coming += sum(not w.up or not (w.batches or w.doomed) for w in state.workers)
    count = min(wanted - coming, state.size - len(state.workers) - state.starting)
    if count > 0:
        state.starting += count
        state.out.append(Start(count))


def _has_room(worker: WorkerRecord) -> bool:
    if not worker.up or worker.doomed or worker.recalling:
        return False
    if not worker.batches:
        return True
    last = worker.batches[-1]
    return last.is_short and not last.is_late


# -- one batch -----------------------------------------------------------------------------


def _fill(state: State, worker: WorkerRecord) -> Batch | None:
    """Make a batch of the tasks that the worker should run next; None when there are none."""
    node = _first_there(state, worker)
    if node is None:
        return None
    state.batch_count += 1
    batch = Batch(state.batch_count)
    state.refcounts.sent(node, worker, batch)
    node.job.last = worker
    pace = state.paces[node.function]
    if not pace.allowed or node.task._options.crash_retries == 0:
        batch.is_short = False
    else:
        batch.cost = pace.mean
        more = pace.allowed - 1
        if node.job.background:
            more = min(more, _even(state, worker, node.job))
        _extend(state, worker, batch, [more, pace.mean])
        batch.is_short = batch.cost < 2 * _target(state)
    batch.unanswered = len(batch.nodes)
    batch.to_drop, worker.to_drop = worker.to_drop, []
    worker.batches.append(batch)
    return batch


def _first_there(state: State, worker: WorkerRecord) -> Node | None:
    """Take the next task that can be sent at once; those before it wait for their inputs."""
    is_full = False
    while True:
        # If it waits for as many as it may, only those whose inputs have come can begin.
        node = _any_arrived(state, worker) if is_full else first(state, worker)
        if node is None or node.under_way == len(node.distinct):
            return node
        is_there = _has_inputs(state, worker, node)
        if is_there:
            return node
        is_full = is_full or is_there is None


def _extend(state: State, worker: WorkerRecord, batch: Batch, budget: list[float]) -> None:
    """Let more tasks of the same job go along; `budget` is that of the first task's function.

    A budget is how many more tasks of a function may go, and the seconds that one takes.
    """
    first = batch.nodes[0]
    job = first.job
    lane = worker.lanes[job.background]
    budgets = {first.function: budget}
    sent = state.refcounts.sent
    cost = batch.cost
    limit = _fair(state, worker, lane, job, cost)
    most = limit + min(limit, _target(state))
    while cost < limit or (cost < most and _is_within(lane, batch)):
        node = another(state, worker, lane, job)
        if node is None:
            break
        if node.under_way < len(node.distinct):
            is_there = _has_inputs(state, worker, node)
            if is_there is None:
                break
            if not is_there:
                continue
        function = node.function
        known = budgets.get(function)
        if known is None:
            pace = state.paces[function]
            known = budgets[function] = [pace.allowed, pace.mean]
        if not known[0] or node.task._options.crash_retries == 0:
            put_back(state.queues, worker, node)
            break
        sent(node, worker, batch)
        known[0] -= 1
        cost += known[1]
    batch.cost = cost


def _is_within(lane: Lane, batch: Batch) -> bool:
    """Tell whether a batch that ended here would leave several values for later tasks."""
    following = lane.following
    return batch.joins > 1 or bool(following and len(following[-1].distinct) > 1)


def _target(state: State) -> float:
    """Return the seconds of work that a batch should have, where there is enough of it."""
    return TARGET * max(1.0, len(state.workers) / SERVED)


def _fair(state: State, worker: WorkerRecord, lane: Lane, job: Job, mean: float) -> float:
    """Return the seconds of work up to which one more task goes into a batch.

    The worker's part of all the work that is sent and ready goes in equal batches of about
    `_target`, or in one batch where two would be sent at once anyway. Tasks queued for the worker
    are its own, unless all can have the inputs, and so are users of its tasks.
    """
    target = _target(state)
    if lane.following:
        return target
    if lane.queue and not is_at_hand(lane.queue[0]):
        part = (len(lane.queue) + 1) * mean
    elif len(job.ready) * mean > _PLENTY * target * len(state.workers):
        return target - mean / 2
    else:
        there = [w for w in state.workers if w.up and not w.doomed]
        under_way = sum(batch.cost for w in there for batch in w.batches)
        queues = [w.lanes[job.background].queue for w in there]
        shared = sum(len(queue) for queue in queues if queue and is_at_hand(queue[0]))
        whole = (len(job.ready) + shared + 1) * mean + under_way
        part = whole / max(1, min(len(there), job.cap)) - sum(b.cost for b in worker.batches)
    batches = round(part / target)
    return max(part if batches <= 2 else part / batches, LEAST) - mean / 2


def _even(state: State, worker: WorkerRecord, job: Job) -> int:
    """Return how many more tasks a worker may have of a job whose values stay where they are made.

    All work that follows goes where they are: their number counts, however short the tasks are.
    """
    left = len(job.ready) + sum(job.active.values())
    return -(-left // max(1, min(state.size, job.cap))) - job.active[worker]


def _has_inputs(state: State, worker: WorkerRecord, node: Node) -> bool | None:
    """Tell whether all inputs are at the worker or at hand; else ask for them.

    None: the worker waits for enough, and should take no more such tasks.
    """
    missing = [s for s in node.distinct if s.phase != SENT and not _is_at(s, worker)]
    if not missing:
        return True
    queues = state.queues
    if queues.stuck:
        there = next((s for s in missing if s in queues.stuck), None)
        if there is not None:
            _send_to_stuck(state, node, there)
            return False
    if len(worker.fetching) >= AHEAD and node not in worker.fetching:
        put_back(queues, worker, node)
        return None
    queues.fetch(worker, node, missing)
    return False


def _send_to_stuck(state: State, node: Node, source: Node) -> None:
    """Let a task run at the worker that a value of it can't leave, or let it fail."""
    queues = state.queues
    stuck = queues.stuck
    others = (s for s in node.distinct if s in stuck and s.holder is not source.holder)
    queues.unqueue(node)
    if next(others, None) is not None:
        state.refcounts.fail_all(node, stuck[source])
    elif not node.under_way:
        assert source.holder is not None
        queues.queue_at(source.holder, node)
        state.has_moved = True
