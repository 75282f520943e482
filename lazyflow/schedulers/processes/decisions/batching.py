"""Which task goes where, and how many go together.

A task goes to the worker that has most bytes of its inputs, unless that one is busy and another
has nothing to do; without inputs in any worker, to any that is free. What follows from tasks in a
flight goes into the same flight, so a flight is a subtree or a chain, and its inner values never
leave the worker.

How much goes into a flight follows from the measured durations. A task of a function that was never
measured goes alone, then at most four times as many go as were measured, up to about `TARGET`
seconds of work, and more if there are more workers than `SERVED`: a flight costs the process that
sends it a tenth of a millisecond, and it serves all of them. Only so many go that the flights of
all workers end together, since with flights of five one of two workers would get ten tasks of
sixteen. A flight that ends within subtrees goes on to where one value of it waits for inputs from
elsewhere, up to twice as long: several would wait for what other workers make of the same subtrees,
and be held meanwhile. Of what is ready in a background job each worker gets as many tasks, so that
values which somebody holds lie evenly. A second flight may wait at the worker behind a short one;
behind a long one, or one of unknown length, it would be held up.
"""

from __future__ import annotations

from lazyflow.schedulers.processes.decisions.instructions import Send, Start
from lazyflow.schedulers.processes.decisions.nodes import (
    FETCHING,
    MIXED,
    SENT,
    WAITING,
    Flight,
    Job,
    Lane,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.queues import is_at
from lazyflow.schedulers.processes.decisions.selection import another, first, is_at_hand, put_back
from lazyflow.schedulers.processes.decisions.state import State

AHEAD = 8  # tasks that may wait for inputs on their way to one worker
TARGET = 0.003  # seconds of work in one flight
SERVED = 4  # workers with flights of `TARGET`: 16 would keep the caller's process busy
_PLENTY = 4  # flights for each worker: equal ones are of `_target` to within an eighth
LEAST = TARGET / 3  # seconds; a smaller one costs more messages than the balance is worth


def assign(state: State) -> None:
    """Send what can be sent, and ask for workers when there is more."""
    if state.refcounts.ended:
        state.lineage.sweep()
    state.has_moved = True
    while state.has_moved:
        state.has_moved = False
        for busy in (0, 1):  # workers without work come first
            for worker in _in_turn(state):
                if len(worker.flights) == busy and _has_room(worker):
                    flight = _fill(state, worker)
                    if flight is not None:
                        state.out.append(Send(worker, flight))
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
    coming += sum(not w.up or not (w.flights or w.doomed) for w in state.workers)
    count = min(wanted - coming, state.size - len(state.workers) - state.starting)
    if count > 0:
        state.starting += count
        state.out.append(Start(count))


def _has_room(worker: WorkerRecord) -> bool:
    if not worker.up or worker.doomed or worker.recalling:
        return False
    if not worker.flights:
        return True
    last = worker.flights[-1]
    return last.is_short and not last.is_late


# -- one flight -----------------------------------------------------------------------------


def _fill(state: State, worker: WorkerRecord) -> Flight | None:
    """Make a flight of what the worker should do next; None when there is nothing."""
    node = _first_there(state, worker)
    if node is None:
        return None
    state.flight_count += 1
    flight = Flight(state.flight_count)
    _place(worker, node, flight)
    node.job.last = worker
    pace = state.paces[node.function]
    if not pace.allowed or node.task._options.crash_retries == 0:
        flight.is_short = False
    else:
        flight.cost = pace.mean
        more = pace.allowed - 1
        if node.job.background:
            more = min(more, _even(state, worker, node.job))
        _extend(state, worker, flight, [more, pace.mean])
        flight.is_short = flight.cost < 2 * _target(state)
    flight.unanswered = len(flight.nodes)
    flight.forget, worker.forget = worker.forget, []
    worker.flights.append(flight)
    return flight


def _first_there(state: State, worker: WorkerRecord) -> Node | None:
    """Take the next task that can be sent at once; those before it wait for their inputs."""
    while True:
        node = first(state, worker)
        if node is None or node.flying == len(node.distinct):
            return node
        found = _has_inputs(state, worker, node)
        if found:
            return node
        if found is None:
            return None


def _extend(state: State, worker: WorkerRecord, flight: Flight, budget: list[float]) -> None:
    """Let more tasks of the same job go along; `budget` is that of the first task's function.

    A budget is how many more tasks of a function may go, and the seconds that one takes.
    """
    first = flight.nodes[0]
    job = first.job
    lane = worker.lanes[job.background]
    budgets = {first.function: budget}
    cost = flight.cost
    limit = _fair(state, worker, lane, job, cost)
    most = limit + min(limit, _target(state))
    while cost < limit or (cost < most and _is_within(lane, flight)):
        node = another(state, worker, lane, job)
        if node is None:
            break
        if node.flying < len(node.distinct):
            found = _has_inputs(state, worker, node)
            if found is None:
                break
            if not found:
                continue
        function = node.function
        known = budgets.get(function)
        if known is None:
            pace = state.paces[function]
            known = budgets[function] = [pace.allowed, pace.mean]
        if not known[0] or node.task._options.crash_retries == 0:
            put_back(state.queues, worker, node)
            break
        _place(worker, node, flight)
        known[0] -= 1
        cost += known[1]
    flight.cost = cost


def _is_within(lane: Lane, flight: Flight) -> bool:
    """Tell whether a flight that ended here would leave several values for what comes later."""
    following = lane.following
    return flight.joins > 1 or bool(following and len(following[-1].distinct) > 1)


def _target(state: State) -> float:
    """Return the seconds of work that a flight should have, where there is enough of it."""
    return TARGET * max(1.0, len(state.workers) / SERVED)


def _fair(state: State, worker: WorkerRecord, lane: Lane, job: Job, mean: float) -> float:
    """Return the seconds of work up to which one more task goes into a flight.

    The worker's part of all the work that is sent and ready goes in equal flights of about
    `_target`, or in one flight where two would be sent at once anyway. What is queued for the
    worker is its own, unless all can have the inputs, and so is what follows from what it was sent.
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
        flying = sum(f.cost for w in there for f in w.flights)
        queues = [w.lanes[job.background].queue for w in there]
        shared = sum(len(queue) for queue in queues if queue and is_at_hand(queue[0]))
        whole = (len(job.ready) + shared + 1) * mean + flying
        part = whole / max(1, min(len(there), job.cap)) - sum(f.cost for f in worker.flights)
    flights = round(part / target)
    return max(part if flights <= 2 else part / flights, LEAST) - mean / 2


def _even(state: State, worker: WorkerRecord, job: Job) -> int:
    """Return how many more tasks a worker may have of a job whose values stay where they are made.

    All work that follows goes where they are: their number counts, however short the tasks are.
    """
    left = len(job.ready) + sum(job.active.values())
    return -(-left // max(1, min(state.size, job.cap))) - job.active[worker]


def _place(worker: WorkerRecord, node: Node, flight: Flight) -> None:
    """Count a task as sent: what follows from it can go along."""
    job = node.job
    if node.phase == FETCHING:
        del worker.fetching[node]
    node.phase = SENT
    node.home = worker
    job.active[worker] = job.active.get(worker, 0) + 1
    flight.nodes.append(node)
    followers = []
    for user in node.users:
        user.open -= 1
        user.flying += 1
        if user.site is None:
            user.site = worker
            if user.open:
                flight.joins += 1
        elif user.site is worker:
            if not user.open:
                flight.joins -= 1
        else:
            user.site = MIXED
            continue
        if not user.open and user.phase == WAITING and not user.job.has_priorities:
            if user.job is job:
                followers.append(user)
            else:
                worker.lanes[user.job.background].following.append(user)
    if followers:
        worker.lanes[job.background].following += followers[::-1]
    drops = []
    for source in node.distinct:
        source.unsent -= 1
        if source.phase == SENT or source.holder is worker:
            is_only = source.copies is None
        else:
            is_only = _load(worker, source, flight)
        if is_only and not source.unsent and not source.stays:
            source.dropped = True
            drops.append(source.id)
    flight.drops.append(tuple(drops))


def _load(worker: WorkerRecord, source: Node, flight: Flight) -> bool:
    """Send a value along if the worker does not have it; return whether no other has it."""
    copies = source.copies
    if copies is None:
        copies = source.copies = []
    if worker not in copies:
        copies.append(worker)
        flight.loads.append(source)
        worker.holding[source.id] = source
    return source.holder is None and len(copies) == 1


def _has_inputs(state: State, worker: WorkerRecord, node: Node) -> bool | None:
    """Tell whether all inputs are at the worker or at hand; else ask for them.

    None: the worker waits for enough, and should take no more such tasks.
    """
    missing = [s for s in node.distinct if s.phase != SENT and not is_at(s, worker)]
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
    elif not node.flying:
        assert source.holder is not None
        queues.queue_at(source.holder, node)
        state.has_moved = True
