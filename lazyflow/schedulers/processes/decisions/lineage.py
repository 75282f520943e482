"""Lineage: what is kept so that a lost value can be made again, and how it is made.

A job that is over is kept as long as somebody holds a value of it that only a worker has, or
another job that is kept uses one: its tasks are the value's lineage. A value that was lost is made
again by its task, and so are those inputs of that task that were dropped meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

from lazyflow.schedulers.processes.decisions.instructions import (
    Arrived,
    Deliver,
    Forget,
    Instruction,
    Pack,
)
from lazyflow.schedulers.processes.decisions.nodes import (
    ALWAYS,
    BANDWIDTH,
    DONE,
    FETCH,
    FETCHING,
    GONE,
    MISSING,
    MIXED,
    READY,
    SENT,
    WAITING,
    Job,
    Node,
)
from lazyflow.schedulers.processes.decisions.queues import Queues
from lazyflow.schedulers.processes.decisions.refcounts import RefCounts
from lazyflow.schedulers.remote.task_stub import NOTHING, name_only

LONGEST = 1000  # tasks; a held value with a longer lineage is copied out of its worker at once
#: A value that took so many times longer to make than a copy takes is copied at once, too. The
#: copies take at most a tenth of the work then, and a death costs ten times a copy.
WORTH = 10


class Lineage:
    """Results that somebody holds, and the jobs that may be needed to make them again.

    Attributes
    ----------
    unshared
        Unsafe values that may not have been asked for; entries may be out of date.
    room
        Returns the bytes that copies may take: what is larger stays where it is, and can be made
        again.
    """

    def __init__(self, out: deque[Instruction], queues: Queues, refcounts: RefCounts) -> None:
        self._out = out
        self._queues = queues
        self._refcounts = refcounts
        self.unshared: deque[Node] = deque()
        self.room: Callable[[], float] = lambda: inf
        self._copying: list[Node] = []

    # -- results ----------------------------------------------------------------------------

    def offer(self, node: Node) -> None:
        """Deliver a wanted value that was made, or report that a delivered one has arrived."""
        job = node.job
        delivered = job.delivered
        is_new = node not in delivered
        if is_new:
            if job.over:
                return
            delivered.add(node)
        if node.value is not MISSING:
            self._refcounts.not_unsafe(node)
        elif node.pinned:
            job.unsafe.add(node)
            self._refcounts.unsafe[node] = None
            self.unshared.append(node)
            dear = job.seconds > WORTH * (FETCH + node.size / BANDWIDTH)
            if node.want == ALWAYS or job.lineage_size > LONGEST:
                self._queues.share(node)
            elif dear:
                self.copy_if_room(node)
        if is_new:
            self._out.append(Deliver(node, node.value))
        elif node.value is not MISSING:
            self._out.append(Arrived(node, node.value))

    def copies_to_come(self) -> list[Node]:
        """Return the values that were asked for by `copy_if_room` and did not come yet."""
        self._copying = [n for n in self._copying if n.sharing and n.phase == DONE]
        return self._copying

    def copy_if_room(self, node: Node) -> None:
        """Copy a value out of its worker, unless that needs too much memory."""
        if node.size <= self.room() - sum(n.size for n in self.copies_to_come()):
            self._queues.share(node)
            self._copying.append(node)

    # -- the end of a job -------------------------------------------------------------------

    def sweep(self) -> None:
        """Forget jobs that are over and that nothing can need."""
        todo, self._refcounts.ended = self._refcounts.ended, []
        while todo:
            job = todo.pop()
            if job.over and job.nodes and not (job.unsafe or job.dependents or job.active):
                self._clear(job)
                for depended in job.depends:
                    depended.dependents -= 1
                    if not depended.dependents and not depended.nodes:
                        self._drop_kept(depended)
                    todo.append(depended)
                job.depends = set()
                self._out.append(Forget(job))

    def _drop_kept(self, job: Job) -> None:
        """Drop values that only a lineage could need."""
        for node in job.given:
            self._refcounts.drop_given(node)
        job.given = set()

    def _clear(self, job: Job) -> None:
        """Undo the links between the nodes of a job, and to nodes of other jobs."""
        foreign: set[Node] = set()
        for node in job.nodes:
            if job.depends:
                foreign.update(s for s in node.inputs if s.job is not job)
            node.inputs = node.distinct = ()
            if node.want:
                node.users = [u for u in node.users if u.job is not job]
                is_held = node.pinned or node.users  # by others; else it is in some old list only
                node.task = name_only(node.task) if is_held else NOTHING
        for source in foreign:
            source.users = [u for u in source.users if u.job is not job]
        if job.listed:
            self._queues.rota[job.background].remove(job)
            job.listed = False
        self._queues.by_priority[job.background].remove(job)
        job.nodes = []
        job.ready = []
        job.lineage_size = 0
        job.seconds = 0.0
        job.crashes = {}
        job.verdicts = {}
        job.once = {}
        self._drop_kept(job)

    # -- made again -------------------------------------------------------------------------

    def remake(
        self, missing: list[Node], died: Callable[[Node, int], Any] | None = None
    ) -> list[Node]:
        """Make tasks wait again whose values are lost, and those whose values they need.

        Return all of them; the caller requeues them when it has taken back all else. After a death
        those that must not run again have an error, which `died` makes: that is their verdict.
        """
        todo = list(missing)
        again: list[Node] = []
        while todo:
            node = todo.pop()
            if node.phase != DONE and node.phase != GONE:
                continue
            if node.value is not MISSING:  # no task makes it
                node.phase = DONE
                node.dropped = False
                if node.packed == () and node.value.encoded is None:
                    node.phase, node.open = WAITING, 0
                    self.pack(node)
                    self._demote_users(node)
                continue
            self._refcounts.unsafe.pop(node, None)  # its job is kept
            self._queues.stuck.pop(node, None)
            node.phase = WAITING
            node.home = node.holder = node.copies = None
            node.dropped = node.sharing = False
            again.append(node)
            if died is not None and node.job.once.get(node):
                node.job.verdicts[node] = died(node, 0)
                node.distinct = ()
            else:
                node.distinct = tuple(dict.fromkeys(node.inputs))  # empty, when it became lazy
            self._demote_users(node)
            todo += self.count_in(node)
        return again

    def _demote_users(self, node: Node) -> None:
        """Have the tasks that still need a lost value wait for it."""
        self._queues.waiters.pop(node, None)
        for user in node.users:
            if user.phase == READY or user.phase == FETCHING:
                self._queues.unqueue(user)
            if user.phase <= SENT:
                user.open += 1

    def count_in(self, node: Node) -> list[Node]:
        """Count a task in at its inputs; return those that have to be made again."""
        node.open = node.flying = 0
        node.site = None
        lost = []
        for source in node.distinct:
            source.left += 1
            source.unsent += 1
            phase = source.phase
            if phase == SENT:
                node.flying += 1
                # What is sent there takes the value along, so this task must not follow.
                at = MIXED if source.dropped else source.home
                node.site = at if node.flying == 1 or node.site is at else MIXED
            elif phase < SENT:
                node.open += 1
            elif phase == GONE:
                lost.append(source)  # it counts itself in at its users
            elif phase == DONE and source.dropped:
                self._refcounts.treat_as_dropped(source)
                if source.value is MISSING:
                    lost.append(source)
        if node.packed == ():
            self.pack(node)
        return lost

    def pack(self, node: Node) -> None:
        """Have another thread pickle what is sent of a node; the node waits for it."""
        node.open += 1
        self._out.append(Pack(node))

    def remake_dropped(self, node: Node) -> None:
        """Have a value made again that was just made and is dropped before all have used it."""
        self._refcounts.treat_as_dropped(node)
        if node.value is MISSING:
            for lost in self.remake([node]):
                self._refcounts.requeue(lost)
