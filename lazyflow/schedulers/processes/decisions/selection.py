"""The next task for a worker: its own first, then those that may go anywhere, then others'.

Jobs that somebody waits for go before background ones, at every step, and of each kind those with
priorities above 0 before all others, those below 0 after them. A worker's own are what
follows from tasks that it was sent, what it had inputs fetched for, and what is queued for it as
most bytes of the inputs are there. A worker with nothing of all that steals from one that is
busy, when moving the inputs takes less time than the task would have to wait.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice

from lazyflow.schedulers.core.graded import Graded
from lazyflow.schedulers.processes.decisions.lineage import Recipes
from lazyflow.schedulers.processes.decisions.nodes import (
    BANDWIDTH,
    FETCH,
    FETCHING,
    READY,
    WAITING,
    Job,
    Lane,
    Node,
    Worker,
)

GROWTH = 4  # times as many tasks of one function in a flight as were measured so far
_MOST = 1 << 20  # tasks of one function in a flight
_UNKNOWN = 0.01  # seconds; what a function that was never measured is taken for
_LATE = 1e9  # seconds; what is left of a flight that takes longer than it should
_LOOKED_AT = 8  # tasks of a queue, before nothing is stolen from it


class Pace:
    """What was measured of one function: mean seconds, and how many may fly together."""

    __slots__ = ("allowed", "mean")

    def __init__(self) -> None:
        self.mean = 0.0
        self.allowed = 1

    def measured(self, calls: int, seconds: float) -> None:
        """Take in that so many calls took so long."""
        mean = seconds / calls
        if self.allowed == 1:
            self.mean = mean
        else:  # recent calls count for more: half of what is known comes from the last answer
            self.mean = (self.mean + mean) / 2
        self.allowed = max(self.allowed, min(calls * GROWTH, _MOST))


class Choosing(Recipes):
    """Takes tasks out of the queues.

    Attributes
    ----------
    paces
        By function.
    """

    def __init__(self) -> None:
        super().__init__()
        self.paces: dict[int, Pace] = {}
        self._turn = False  # of jobs with priorities, among those whose priority is 0

    def another(self, worker: Worker, lane: Lane, job: Job) -> Node | None:
        """Take a further task of the same job; None when one of another should be the next."""
        graded = self.graded[job.background]
        if graded and self._is_outranked(job, graded):
            return None
        following = lane.following
        if following:
            node = following[-1]
            if (
                node.phase == WAITING and not node.open and node.site is worker
                and node.job is job
            ):
                return following.pop()
        if following or lane.arrived or lane.queue:
            found = self._local(worker, lane, job)
            if found is not None or following or lane.arrived or lane.queue:
                return found
        return self.pop(job) if job.ready else None

    def first(self, worker: Worker) -> Node | None:
        """Take the next task for a worker out of the queues."""
        for lane, rota, graded in zip(worker.lanes, self.rota, self.graded, strict=True):
            node = None
            rank = graded.first_rank() if graded else None
            if rank is not None and rank < 0:
                node = self._from_graded(worker, graded)
            if node is None:
                node = self._local(worker, lane, None)
            if node is None and rank == 0:
                self._turn = not self._turn
                node = self._from_graded(worker, graded) if self._turn else None
            if node is None and rota:
                node = self._from_rota(worker, rota)
            if node is None and rank is not None:
                node = self._from_graded(worker, graded)
            if node is not None:
                return node
        if self.queued and not worker.flights and not worker.fetching:
            return self._steal(worker)
        return None

    def _local(self, worker: Worker, lane: Lane, job: Job | None) -> Node | None:
        """Take the next task of a worker's own; None also when it is not of `job`."""
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
            if is_valid and self.may(worker, node.job):
                if node.home is not None:  # it is in the queue, too
                    self.queued -= 1
                    node.home = None
                return node
        if lane.arrived:
            fetched = self._arrived(worker, lane, job)
            if fetched is not None or lane.arrived:
                return fetched
        return self._queued(worker, lane, job) if lane.queue else None

    def _queued(self, worker: Worker, lane: Lane, job: Job | None) -> Node | None:
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
            may = self.may(worker, node.job)
            if not may and self.is_bound(node):
                bound.append(node)
                continue
            self.queued -= 1
            node.home = None
            if may:
                found = node
                break
            self.push(node)
        queue.extend(reversed(bound))
        return found

    def _arrived(self, worker: Worker, lane: Lane, job: Job | None) -> Node | None:
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
                self.unfetch(node)
            elif not self.may(worker, node.job):
                self.unfetch(node)
                self.make_ready(node)
            else:
                return node
        return None

    def _from_rota(self, worker: Worker, rota: deque[Job]) -> Node | None:
        """Take a task that may run anywhere; the next flight begins with the next job."""
        for _ in range(len(rota)):
            job = rota[0]
            node = None
            if self.may(worker, job):
                node = self.pop(job)
            if job.ready:
                rota.rotate(-1)
            else:
                rota.popleft()
                job.listed = False
            if node is not None:
                return node
        return None

    def _from_graded(self, worker: Worker, graded: Graded[Job]) -> Node | None:
        """Take the task with the highest priority that may run anywhere."""
        while (job := graded.take(partial(self.may, worker))) is not None:
            node = self.pop(job)
            if node is not None:
                return node
        return None

    def _is_outranked(self, job: Job, graded: Graded[Job]) -> bool:
        """Tell whether a task of another job is more urgent than the next one of this."""
        rank = job.ready[0][0] if job.ranked and job.ready else 0
        first = graded.first_rank()
        if first is not None and first < rank:
            return True
        return rank > 0 and bool(self.rota[job.background])

    @staticmethod
    def may(worker: Worker, job: Job) -> bool:
        return worker in job.active or len(job.active) < job.cap

    @staticmethod
    def may_spread(job: Job) -> bool:
        """Tell whether one more worker may take tasks of a job."""
        return len(job.active) < job.cap

    def _steal(self, thief: Worker) -> Node | None:
        """Take the oldest task of a busy worker's queue, when moving its inputs is worth it."""
        for at in (0, 1):
            for victim in sorted(self.workers, key=lambda w: -len(w.lanes[at].queue)):
                if victim is not thief and (victim.flights or victim.fetching or victim.recalling):
                    node = self._steal_from(victim, victim.lanes[at], thief)
                    if node is not None:
                        return node
        return None

    def _steal_from(self, victim: Worker, lane: Lane, thief: Worker) -> Node | None:
        queue = lane.queue
        while queue and (queue[0].phase != READY or queue[0].home is not victim):
            queue.popleft()
        if not queue:
            return None
        wait = sum(_LATE if f.is_late else f.cost for f in victim.flights)
        wait += self._mean(queue[0]) * len(queue)
        for at, node in enumerate(islice(queue, _LOOKED_AT)):
            if node.phase != READY or node.home is not victim or not self.may(thief, node.job):
                continue
            if self.is_bound(node):
                continue
            size = sum(s.size for s in node.distinct if not self.is_at(s, thief))
            if wait > FETCH + size / BANDWIDTH:
                del queue[at]
                self.queued -= 1
                node.home = None
                return node
        return None

    def is_bound(self, node: Node) -> bool:
        """Tell whether a task can run at one worker only, for an input that can't leave it."""
        return bool(self.stuck) and not self.stuck.keys().isdisjoint(node.distinct)

    def _mean(self, node: Node) -> float:
        pace = self.paces.get(node.function)
        return pace.mean if pace is not None else _UNKNOWN

    def put_back(self, worker: Worker, node: Node) -> None:
        """Leave a task that was taken out of a queue for the worker's next flight."""
        lane = worker.lanes[node.job.background]
        if node.phase == FETCHING:
            lane.arrived.appendleft(node)
        elif node.phase == WAITING:
            lane.following.append(node)
        else:
            self.make_ready(node)
