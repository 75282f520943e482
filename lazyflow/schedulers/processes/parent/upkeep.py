"""What the driver looks after besides events: late flights, idle memory, values to be copied."""

from __future__ import annotations

from time import monotonic

from lazyflow.schedulers.processes.decisions import values, workers
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.processes.parent.pool import WorkerPool
from lazyflow.schedulers.processes.parent.sending import Sender
from lazyflow.schedulers.processes.protocol import TRIM

OVERDUE = 0.005  # seconds that a flight may take while others have nothing to do
IDLE = 1.0  # seconds without work after which memory kept for later is given back


class Upkeep:
    """Looks after workers between events; in the driver's thread."""

    def __init__(
        self, state: State, loop: EventLoop, memory: PoolMemory, pool: WorkerPool, sender: Sender
    ) -> None:
        self._state = state
        self._loop = loop
        self._memory = memory
        self._pool = pool
        self._sender = sender
        self._busy_since = monotonic()
        self._is_trimmed = True

    def until(self) -> float | None:
        """Return until when nothing has to be done; look after late flights meanwhile."""
        now = monotonic()
        soonest = self._loop.next_timer()
        workers = self._state.workers
        if any(w.flights for w in workers):
            self._busy_since, self._is_trimmed = now, False
            if any(w.up and not w.flights for w in workers) or len(workers) < self._state.size:
                due = self._look_for_late(now)
                soonest = due if soonest is None else min(soonest, due or soonest)
        elif self._pool.members:
            if self._state.refcounts.unsafe:
                values.make_safe(self._state)
            if not self._is_trimmed:
                due = self._busy_since + IDLE
                if due <= now:
                    self._trim()
                else:
                    soonest = due if soonest is None else min(soonest, due)
        return soonest

    def _look_for_late(self, now: float) -> float | None:
        """Report flights that take too long; return when the next one will."""
        soonest = None
        for worker in self._state.workers:
            flight = worker.flights[0] if worker.flights else None
            if flight is None or flight.is_late:
                continue
            if flight.unanswered < 2 and len(worker.flights) < 2 and not worker.queue:
                continue  # there is nothing that others could have
            due = self._pool.members[worker].since + max(OVERDUE, 2 * flight.cost)
            if due <= now:
                workers.overdue(self._state, worker, flight.number)
                soonest = now  # what is decided now is done first, and may be late in its turn
            else:
                soonest = due if soonest is None else min(soonest, due)
        return soonest

    def _trim(self) -> None:
        self._is_trimmed = True
        self._memory.arenas.trim()
        for member in self._pool.members.values():
            self._pool.request(member, TRIM, None)

    def send_forgotten(self) -> None:
        """Send ids of values that workers can drop and that no other message took along."""
        for worker in self._state.workers:
            if worker.forget and worker.up:
                member = self._pool.members[worker]
                self._sender.forget(member)
                self._pool.watch_writes(member)
