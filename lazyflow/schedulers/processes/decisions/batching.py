"""Which task goes where, and how many go together.

To the worker that has most bytes of its inputs, unless that one is busy and another has nothing
to do; without inputs in any worker, to whoever is free. What follows from tasks in a flight goes
into the same flight, so a flight is a subtree or a chain, and its inner values never leave the
worker. How much goes into a flight follows from the measured durations: a function that was never
seen goes alone, then at most four times as many as were measured, up to about `TARGET` seconds: as
much as makes the flights of all workers end together, since with flights of five one of two workers
would get ten tasks of sixteen. A second flight may wait at the worker behind a short one; behind a
long one, or one of unknown length, it would be held up.
"""

from __future__ import annotations

from lazyflow.schedulers.processes.decisions.nodes import (
    FETCHING,
    MIXED,
    SENT,
    WAITING,
    Flight,
    Job,
    Lane,
    Node,
    Worker,
)
from lazyflow.schedulers.processes.decisions.selection import Choosing

AHEAD = 8  # tasks that may wait for inputs on their way to one worker
TARGET = 0.003  # seconds of work in one flight
LEAST = TARGET / 3  # seconds; a smaller one costs more messages than the balance is worth


class Placing(Choosing):
    """Makes flights of what is ready.

    Attributes
    ----------
    size
        Workers wanted at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        self._flights = 0
        self._starting = 0  # workers that were asked for and are not known yet
        self._has_moved = False  # a task went to a worker that was looked after already

    def assign(self) -> None:
        """Send what can be sent, and ask for workers when there is more."""
        if self.ended:
            self.sweep()
        self._has_moved = True
        while self._has_moved:
            self._has_moved = False
            for busy in (0, 1):  # those without work come first
                for worker in self._in_turn():
                    if len(worker.flights) == busy and self._has_room(worker):
                        flight = self._fill(worker)
                        if flight is not None:
                            self.out.append(("send", worker, flight))
        if len(self.workers) + self._starting < self.size:
            self._ask_for_workers()

    def _in_turn(self) -> list[Worker]:
        """Return the workers, the one first where the next job has been, if that may have few.

        With another each time its values would lie here and there, and more of them at once.
        """
        for rota in self.rota:
            if rota and rota[0].cap < len(self.workers):
                last = rota[0].last
                return sorted(self.workers, key=lambda worker: worker is not last)
        return self.workers

    def _ask_for_workers(self) -> None:
        wanted = self.queued
        for jobs in (*self.rota, *self.graded):
            for job in jobs:
                wanted += min(len(job.ready), max(0, job.cap - len(job.active)))
        coming = self._starting
        coming += sum(not w.up or not (w.flights or w.doomed) for w in self.workers)
        count = min(wanted - coming, self.size - len(self.workers) - self._starting)
        if count > 0:
            self._starting += count
            self.out.append(("start", count))

    @staticmethod
    def _has_room(worker: Worker) -> bool:
        if not worker.up or worker.doomed or worker.recalling:
            return False
        if not worker.flights:
            return True
        last = worker.flights[-1]
        return last.is_short and not last.is_late

    # -- one flight -------------------------------------------------------------------------

    def _fill(self, worker: Worker) -> Flight | None:
        """Make a flight of what the worker should do next; None when there is nothing."""
        node = self._first_there(worker)
        if node is None:
            return None
        self._flights += 1
        flight = Flight(self._flights)
        self._place(worker, node, flight)
        node.job.last = worker
        pace = self.paces.get(node.function)
        if pace is None or node.task._options.crash_retries == 0:
            flight.is_short = False
        else:
            flight.cost = pace.mean
            self._extend(worker, flight, [pace.allowed - 1, pace.mean])
            flight.is_short = flight.cost < 2 * TARGET
        flight.unanswered = len(flight.nodes)
        worker.flights.append(flight)
        return flight

    def _first_there(self, worker: Worker) -> Node | None:
        """Take the next task that can be sent at once; those before it wait for their inputs."""
        while True:
            node = self.first(worker)
            if node is None or node.flying == len(node.distinct):
                return node
            found = self._has_inputs(worker, node)
            if found:
                return node
            if found is None:
                return None

    def _extend(self, worker: Worker, flight: Flight, budget: list[float]) -> None:
        """Let more tasks of the same job go along; `budget` is that of the first's function.

        A budget: how many more tasks of a function may go, and the seconds that one takes.
        """
        first = flight.nodes[0]
        job = first.job
        lane = worker.lanes[job.background]
        budgets = {first.function: budget}
        cost = flight.cost
        limit = self._fair(worker, lane, job, cost)
        while cost < limit:
            node = self.another(worker, lane, job)
            if node is None:
                break
            if node.flying < len(node.distinct):
                found = self._has_inputs(worker, node)
                if found is None:
                    break
                if not found:
                    continue
            function = node.function
            known = budgets.get(function)
            if known is None:
                pace = self.paces.get(function)
                known = [0, 0.0] if pace is None else [pace.allowed, pace.mean]
                budgets[function] = known
            if not known[0] or node.task._options.crash_retries == 0:
                self.put_back(worker, node)
                break
            self._place(worker, node, flight)
            known[0] -= 1
            cost += known[1]
        flight.cost = cost

    def _fair(self, worker: Worker, lane: Lane, job: Job, mean: float) -> float:
        """Return the seconds of work up to which one more task goes into a flight.

        The worker's part of what all have and what is ready goes in equal flights of about
        `TARGET`; in one where two would be sent at once anyway. What is queued for the worker, or
        follows from what it was sent, is its own.
        """
        if lane.following:
            return TARGET
        if lane.queue:
            part = (len(lane.queue) + 1) * mean
        else:
            there = [w for w in self.workers if w.up and not w.doomed]
            flying = sum(f.cost for w in there for f in w.flights)
            whole = (len(job.ready) + 1) * mean + flying
            part = whole / max(1, min(len(there), job.cap)) - sum(f.cost for f in worker.flights)
        flights = 1 if part <= 2 * TARGET else round(part / TARGET)
        return max(part / flights, LEAST) - mean / 2

    def _place(self, worker: Worker, node: Node, flight: Flight) -> None:
        """Count a task as sent: what follows from it can go along."""
        job = node.job
        if node.phase == FETCHING:
            del worker.fetching[node]
        node.phase = SENT
        node.home = worker
        active = job.active
        active[worker] = active.get(worker, 0) + 1
        flight.nodes.append(node)
        followers: list[Node] | None = None
        for user in node.users:
            user.open -= 1
            user.flying += 1
            site = user.site
            if site is None:
                user.site = worker
            elif site is not worker:
                user.site = MIXED
                continue
            if not user.open and user.phase == WAITING and not user.job.ranked:
                if user.job is not job:
                    worker.lanes[user.job.background].following.append(user)
                elif followers is None:
                    followers = [user]
                else:
                    followers.append(user)
        if followers is not None:
            if len(followers) > 1:
                followers.reverse()
            worker.lanes[job.background].following += followers
        drops: list[int] | None = None
        for source in node.distinct:
            source.unsent -= 1
            if source.phase == SENT or source.holder is worker:
                is_only = source.copies is None
            else:
                is_only = self._load(worker, source, flight)
            if is_only and not source.unsent and not source.stays:
                source.dropped = True
                if drops is None:
                    drops = [source.id]
                else:
                    drops.append(source.id)
        flight.drops.append(() if drops is None else tuple(drops))

    @staticmethod
    def _load(worker: Worker, source: Node, flight: Flight) -> bool:
        """Send a value along, if the worker has it not; tells whether no other has it."""
        copies = source.copies
        if copies is None:
            copies = source.copies = []
        if worker not in copies:
            copies.append(worker)
            flight.loads.append(source)
            worker.holding[source.id] = source
        return source.holder is None and len(copies) == 1

    def _has_inputs(self, worker: Worker, node: Node) -> bool | None:
        """Tell whether all inputs are at the worker or at hand; else ask for them.

        None: the worker waits for enough, and should take no more such tasks.
        """
        missing = [
            s for s in node.distinct if s.phase != SENT and not self.is_at(s, worker)
        ]
        if not missing:
            return True
        if self.stuck:
            there = next((s for s in missing if s in self.stuck), None)
            if there is not None:
                self._send_to_stuck(node, there)
                return False
        if len(worker.fetching) >= AHEAD and node not in worker.fetching:
            self.put_back(worker, node)
            return None
        self.fetch(worker, node, missing)
        return False

    def _send_to_stuck(self, node: Node, source: Node) -> None:
        """Let a task run where a value is that can't leave its worker; or fail."""
        others = (s for s in node.distinct if s in self.stuck and s.holder is not source.holder)
        self.unqueue(node)
        if next(others, None) is not None:
            self.fail_all(node, self.stuck[source])
        elif not node.flying:
            assert source.holder is not None
            self.queue_at(source.holder, node)
            self._has_moved = True
