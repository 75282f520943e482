"""Tasks that could run now, and tasks that wait until a value can be had at their worker.

A ready task is in the queue of the worker that has most bytes of its inputs, or else in that of
its job, where any worker finds it. Taking a task out does not search a queue: its phase and home
change, and whatever meets the entry sees that it is out of date.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from lazyflow.schedulers.core.priorities import FairQueue
from lazyflow.schedulers.processes.decisions.instructions import Instruction, Share
from lazyflow.schedulers.processes.decisions.nodes import (
    FETCHING,
    MISSING,
    READY,
    WAITING,
    Job,
    Node,
    WorkerRecord,
)


def _rank(job: Job) -> int | None:
    """Return the negated priority of the next task of a job that has priorities."""
    return job.ready[0][0] if job.ready else None


class Queues:
    """The tasks that wait for a worker, or for an input at their worker.

    Attributes
    ----------
    rota
        Jobs with ready tasks that may go anywhere, the next one first: foreground jobs, and
        background jobs.
    by_priority
        Likewise, jobs whose tasks have priorities.
    queued
        The number of ready tasks in queues of workers.
    waiters
        By value that its holder was asked for: the tasks that wait for it.
    stuck
        Values that can't leave their worker, and why.
    """

    def __init__(self, out: deque[Instruction]) -> None:
        self._out = out
        self.rota: tuple[deque[Job], deque[Job]] = (deque(), deque())
        self.by_priority = FairQueue[Job](_rank), FairQueue[Job](_rank)
        self.queued = 0
        self.waiters: dict[Node, dict[Node, None]] = {}
        self.stuck: dict[Node, Any] = {}
        self._pushes = 0

    # -- ready ------------------------------------------------------------------------------

    def make_ready(self, node: Node) -> None:
        """Queue a task whose inputs are all made."""
        node.phase = READY
        best = None
        if self.stuck:
            best = next((s.holder for s in node.distinct if s in self.stuck), None)
        if best is None and node.distinct and not node.job.has_priorities:
            best = _best_worker(node.distinct)
        if best is None:
            self.push(node)
        else:
            self.queue_at(best, node)

    def queue_at(self, worker: WorkerRecord, node: Node) -> None:
        """Let a ready task run at a worker, unless another steals it."""
        node.phase = READY
        node.home = worker
        worker.lanes[node.job.background].queue.append(node)
        self.queued += 1

    def push(self, node: Node) -> None:
        """Let a ready task run anywhere."""
        node.home = None
        job = node.job
        if job.has_priorities:
            self._pushes += 1
            rank = -node.task._options.priority
            heappush(job.ready, (rank, node.id, self._pushes, node))
            self.by_priority[job.background].put(job)
            return
        job.ready.append(node)
        if not job.listed:
            job.listed = True
            self.rota[job.background].append(job)

    def unqueue(self, node: Node) -> None:
        """Have a ready or fetching task wait again; the caller may end it."""
        if node.phase == FETCHING:
            self._unfetch(node)
        elif node.phase == READY and node.home is not None:
            self.queued -= 1
        node.home = None
        node.phase = WAITING

    # -- fetching ---------------------------------------------------------------------------

    def share(self, node: Node) -> None:
        """Have the holder of a value send it to the parent."""
        node.stays = True
        if not node.sharing:
            node.sharing = True
            assert node.holder is not None
            self._out.append(Share(node.holder, node))

    def fetch(self, worker: WorkerRecord, node: Node, missing: list[Node]) -> None:
        """Let a task wait until these inputs can be had at its worker."""
        node.phase = FETCHING
        node.home = worker
        worker.fetching[node] = len(missing)
        for source in missing:
            self.waiters.setdefault(source, {})[node] = None
            self.share(source)

    def _unfetch(self, node: Node) -> None:
        """Let a task wait for no input from elsewhere any more."""
        assert node.home is not None
        if node.home.fetching.pop(node):
            for source in node.distinct:
                waiters = self.waiters.get(source)
                if waiters is not None:
                    waiters.pop(node, None)
                    if not waiters:
                        del self.waiters[source]

    def fetched(self, source: Node) -> None:
        """Queue the tasks that waited for this value alone."""
        for node in self.waiters.pop(source, ()):
            worker = node.home
            assert worker is not None
            worker.fetching[node] -= 1
            if not worker.fetching[node]:
                worker.lanes[node.job.background].arrived.append(node)


def pop(job: Job) -> Node | None:
    """Take a ready task that may go anywhere; None when there is none."""
    ready = job.ready
    while ready:
        node: Node = heappop(ready)[3] if job.has_priorities else ready.pop()
        if node.phase == READY and node.home is None:
            return node
    return None


def _best_worker(sources: Sequence[Node]) -> WorkerRecord | None:
    """Return the worker that has most bytes of these values."""
    if len(sources) == 1:
        source = sources[0]
        best = source.holder if source.size or source.value is MISSING else None
    else:
        sizes: dict[WorkerRecord, int] = {}
        for source in sources:
            size = source.size or source.value is MISSING
            if size and source.holder is not None:
                for at in (source.holder, *(source.copies or ())):
                    sizes[at] = sizes.get(at, 0) + size
        best = max(sizes, key=sizes.__getitem__) if sizes else None
    return None if best is None or best.doomed else best


def is_at(source: Node, worker: WorkerRecord) -> bool:
    """Tell whether a made value is at a worker, or in this process, from which it can be sent."""
    return (
        source.value is not MISSING
        or source.holder is worker
        or (source.copies is not None and worker in source.copies)
    )


def purge(workers: Iterable[WorkerRecord]) -> None:
    """Forget entries of workers' lanes that are out of date: they keep tasks in memory."""
    for worker in workers:
        for lane in worker.lanes:
            lane.following = [n for n in lane.following if n.phase in (WAITING, READY)]
            lane.queue = deque(n for n in lane.queue if n.phase == READY and n.home is worker)
