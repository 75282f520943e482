"""Reference counts: what needs a value still, and what can be dropped, fails or is given up."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import Any

from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.schedulers.processes.decisions.instructions import (
    EndLater,
    Free,
    Instruction,
    Lost,
    ReportFailure,
)
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    FAILED,
    GONE,
    MISSING,
    SENT,
    WAITING,
    Job,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.decisions.queues import Queues


class RefCounts:
    """What follows for others when a task is done, goes back, fails, or is given up.

    Attributes
    ----------
    unsafe
        Values that somebody outside holds, and that are in a worker only; by age.
    ended
        Jobs that are over and may be forgotten, unless something can need them.
    kept
        Large values that are kept since their tasks must not run again; by age.
    room
        Bytes that these may take together; the oldest are dropped for newer ones.
    """

    def __init__(self, out: deque[Instruction], queues: Queues) -> None:
        self._out = out
        self._queues = queues
        self.unsafe: dict[Node, None] = {}
        self.ended: list[Job] = []
        self.kept: dict[Node, None] = {}
        self.room = 1 << 30
        self._kept_bytes = 0

    # -- tasks that ran, or did not ---------------------------------------------------------

    def leave(self, node: Node, worker: WorkerRecord) -> None:
        """Count a task as not on its way any more."""
        self.not_active(node.job, worker)
        for user in node.users:
            user.flying -= 1
            if not user.flying:
                user.site = None

    def not_active(self, job: Job, worker: WorkerRecord) -> None:
        """Lower the number of tasks that a job has at a worker by one."""
        count = job.active[worker] - 1
        if count:
            job.active[worker] = count
            return
        del job.active[worker]
        if job.over and not job.active:
            self.ended.append(job)

    def unsend(self, node: Node, worker: WorkerRecord) -> None:
        """Take back a task that did not run; those sent after it come first."""
        self.await_again(node, worker)
        for source in node.distinct:
            source.unsent += 1
            source.dropped = False

    def await_again(self, node: Node, worker: WorkerRecord) -> None:
        """Have the users of a task that was sent wait for its value again."""
        self.leave(node, worker)
        node.phase = WAITING
        node.home = None
        node.dropped = False
        for user in node.users:
            user.open += 1

    def requeue(self, node: Node) -> None:
        """Queue a task that was taken back, when its inputs are there and it is needed."""
        if node.phase != WAITING:
            return
        if not node.left and (node.job.over or not node.want):
            self.abandon([node])
            return
        broken = next((s for s in node.distinct if s.phase == FAILED), None)
        verdict = broken.value if broken is not None else node.job.verdicts.get(node)
        if verdict is not None:
            self.fail_all(node, verdict)
        elif not node.open and not node.flying:
            self._queues.make_ready(node)

    # -- tasks that will not run ------------------------------------------------------------

    def abandon(self, todo: list[Node], unneeded: Set[Node] = frozenset()) -> None:
        """Give tasks up that nobody uses, and their inputs that only they used.

        Of the inputs, those that are in `unneeded` or of a job that is over.
        """
        while todo:
            node = todo.pop()
            if node.phase < SENT and not node.left:
                todo += self.give_up_one(node, unneeded)

    def give_up_one(self, node: Node, unneeded: Set[Node] = frozenset()) -> list[Node]:
        """Give a task up; return those inputs that can be given up, too."""
        self._queues.unqueue(node)
        node.phase = GONE
        self._made_no_more(node)
        unused = []
        for source in node.distinct:
            source.unsent -= 1
            source.left -= 1
            if not source.left:
                if source.phase >= SENT:
                    self.let_go(source)
                elif source.job.over or source in unneeded:
                    unused.append(source)
        return unused

    def _made_no_more(self, node: Node) -> None:
        """End what another run makes in the place of a task."""
        later = node.job.later
        if node in later:
            self._out.append(EndLater(node, later.pop(node)))

    def uses_no_more(self, node: Node, was_sent: bool) -> None:
        """Count a task out at its inputs."""
        for source in node.distinct:
            if not was_sent:
                source.unsent -= 1
            source.left -= 1
            if not source.left:
                self.let_go(source)

    def fail_all(self, node: Node, error: Any, sent_to: WorkerRecord | None = None) -> None:
        """Let a task fail, and all that need it; `sent_to` is the worker where it ran, if any."""
        todo = [node]
        while todo:
            node = todo.pop()
            if sent_to is None:
                if node.phase >= SENT:  # one that was sent fails by itself
                    continue
                self._queues.unqueue(node)
            elif node.keep:  # the worker remembers it, for what was sent along
                node.holder = sent_to
                sent_to.holding[node.id] = node
            node.phase = FAILED
            node.home = None
            node.value = error
            self.uses_no_more(node, sent_to is not None)
            sent_to = None
            self._made_no_more(node)
            if node in node.job.delivered:
                self.not_unsafe(node)
                self._out.append(Lost(node, error))
            else:
                self._out.append(ReportFailure(node, error))
            todo.extend(node.users)
            if not node.left:
                self.let_go(node)

    # -- values -----------------------------------------------------------------------------

    def let_go(self, node: Node) -> None:
        """Let go of a node whose value nothing will ask for."""
        phase = node.phase
        if phase == DONE:
            self.release(node)
        elif phase == FAILED:
            self.forget(node)
        elif phase < SENT and node.job.over:
            self.abandon([node])

    def release(self, node: Node) -> None:
        """Drop a value that nothing will ask for."""
        node.phase = GONE
        if node.holder is not None or node.copies is not None:
            self.forget(node)
        value = node.value
        if value is MISSING:
            return
        job = node.job
        is_once = node in job.once
        if is_once or (job.dependents and not job.nodes):  # the only lineage of theirs
            node.packed = None
            job.given.add(node)
            if is_once:
                self._keep(node)
            return
        if value.__class__ not in IMMUTABLE:
            self._out.append(Free(value))
        if node not in job.given:  # what no task makes may be needed to make others again
            node.value = MISSING

    def _keep(self, node: Node) -> None:
        """Keep a value whose task must not run again; drop the oldest ones for it."""
        if node.size and node not in self.kept:
            self.kept[node] = None
            self._kept_bytes += node.size
            while self._kept_bytes > self.room:
                oldest = next(iter(self.kept))
                self.drop_given(oldest)
                oldest.job.given.discard(oldest)

    def drop_given(self, node: Node) -> None:
        """Drop a value that only a lineage could need."""
        if node in self.kept:
            del self.kept[node]
            self._kept_bytes -= node.size
        if node.phase == GONE and node.value is not MISSING:
            if node.value.__class__ not in IMMUTABLE:
                self._out.append(Free(node.value))
            node.value = MISSING

    def forget(self, node: Node) -> None:
        """Have the workers that have a value drop it."""
        holder = node.holder
        if holder is not None:
            node.holder = None
            del holder.holding[node.id]
            if not node.dropped:
                holder.forget.append(node.id)
        if node.copies is not None:
            for worker in node.copies:
                del worker.holding[node.id]
                if not node.dropped:
                    worker.forget.append(node.id)
            node.copies = None
        if self._queues.stuck:
            self._queues.stuck.pop(node, None)

    def treat_as_dropped(self, node: Node) -> None:
        """Treat a value as gone from its worker, since a task on its way drops it there.

        The worker gets the id to drop as well, for the case that the task comes back; what it is
        sent after that may bring the value again.
        """
        node.dropped = False
        node.stays = True
        self.forget(node)

    def not_unsafe(self, node: Node) -> None:
        """Keep no lineage for a value any more: it is here, or nobody holds it, or it failed."""
        self.unsafe.pop(node, None)
        job = node.job
        if node in job.unsafe:
            job.unsafe.discard(node)
            if job.over and not job.unsafe:
                self.ended.append(job)
