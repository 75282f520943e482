"""The next task for a worker: its own first, then those that may go anywhere, then others'.

Foreground jobs go before background jobs, at every step, and of each kind tasks with priorities
above 0 before all others, and those below 0 after them. A worker's own tasks are those that follow
from what it was sent, those for which inputs were fetched, and those that are queued for it since
most bytes of the inputs are there. A worker with nothing of all that steals from one that is busy,
when moving the inputs takes less time than the task would have to wait. What is in shared memory
moves by mapping it once, so tasks on such values are shared out evenly, wherever they were made.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice

from lazyflow.schedulers.core.priorities import FairQueue
from lazyflow.schedulers.processes.decisions.nodes import (
    BANDWIDTH,
    FETCH,
    FETCHING,
    MAPPING,
    MISSING,
    READY,
    WAITING,
    Job,
    Lane,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.queues import Queues, is_at, pop
from lazyflow.schedulers.processes.decisions.state import State

_LATE = 1e9  # seconds; what is left of a flight that takes longer than it should
_LOOKED_AT = 8  # tasks of a queue, before nothing is stolen from it


def another(state: State, worker: WorkerRecord, lane: Lane, job: Job) -> Node | None:
    """Take a further task of the same job; None when a task of another job should be the next."""
    queues = state.queues
    urgent = queues.by_priority[job.background]
    if urgent and _is_outranked(queues, job, urgent):
        return None
    following = lane.following
    if following:
        node = following[-1]
        is_valid = node.phase == WAITING and not node.open and node.site is worker
        if is_valid and node.job is job:
            return following.pop()
    if following or lane.arrived or lane.queue:
        found = _local(queues, worker, lane, job)
        if found is not None or following or lane.arrived or lane.queue:
            return found
    free = pop(job) if job.ready else None
    return _steal(state, worker, job) if free is None and queues.queued else free


def first(state: State, worker: WorkerRecord) -> Node | None:
    """Take the next task for a worker out of the queues."""
    queues = state.queues
    for lane, rota, urgent in zip(worker.lanes, queues.rota, queues.by_priority, strict=True):
        node = None
        rank = urgent.first_rank() if urgent else None
        if rank is not None and rank < 0:
            node = _from_priorities(worker, urgent)
        if node is None:
            node = _local(queues, worker, lane, None)
        if node is None and rank == 0:
            state.is_job_of_priorities_next = not state.is_job_of_priorities_next
            if state.is_job_of_priorities_next:
                node = _from_priorities(worker, urgent)
        if node is None and rota:
            node = _from_rota(worker, rota)
        if node is None and rank is not None:
            node = _from_priorities(worker, urgent)
        if node is not None:
            return node
    if queues.queued and not worker.flights and not worker.fetching:
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
                queues.queued -= 1
                node.home = None
            return node
    if lane.arrived:
        fetched = _arrived(queues, worker, lane, job)
        if fetched is not None or lane.arrived:
            return fetched
    return _queued(queues, worker, lane, job) if lane.queue else None


def _queued(queues: Queues, worker: WorkerRecord, lane: Lane, job: Job | None) -> Node | None:
    queue = lane.queue
    bound = []
    found = None
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
        queues.queued -= 1
        node.home = None
        if is_allowed:
            found = node
            break
        queues.push(node)
    queue.extend(reversed(bound))
    return found


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
        if node.open or (node.flying and node.site is not worker):  # an input was lost
            queues.unqueue(node)
        elif not may(worker, node.job):
            queues.unqueue(node)
            queues.make_ready(node)
        else:
            return node
    return None


def _from_rota(worker: WorkerRecord, rota: deque[Job]) -> Node | None:
    """Take a task that may run anywhere; the next flight begins with the next job."""
    for _ in range(len(rota)):
        job = rota[0]
        node = pop(job) if may(worker, job) else None
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
        node = pop(job)
        if node is not None:
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

    One for a further place in a flight is of a given job, and has inputs that are at hand.
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
    is_busy = bool(victim.flights or victim.fetching or victim.recalling)
    wait = sum(_LATE if f.is_late else f.cost for f in victim.flights)
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
            queues.queued -= 1
            node.home = None
            return node
    return None


def _seconds_to_move(node: Node, thief: WorkerRecord) -> float:
    """Return how long it takes until a worker has the inputs of a task, roughly."""
    seconds = FETCH
    for source in node.distinct:
        if source.value is MISSING:
            seconds += 0 if is_at(source, thief) else source.size / BANDWIDTH
        elif source.holder is not thief and thief not in (source.copies or ()):
            seconds += source.size / MAPPING
    return seconds


def is_at_hand(node: Node) -> bool:
    """Tell whether any worker can have the inputs of a task without asking another for them."""
    return all(source.value is not MISSING for source in node.distinct)


def is_bound(queues: Queues, node: Node) -> bool:
    """Tell whether a task can run at one worker only, which an input of it can't leave."""
    return bool(queues.stuck) and not queues.stuck.keys().isdisjoint(node.distinct)


def put_back(queues: Queues, worker: WorkerRecord, node: Node) -> None:
    """Leave a task that was taken out of a queue for the worker's next flight."""
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
            node.phase = READY
            queues.push(node)
