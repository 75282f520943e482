"""The state of the pool: queues of ready tasks, counts of uses, and the lineage of lost values.

Policy: a value stays in the worker that made it until its last user has run; then it is dropped
there. A ready task waits in the queue of the worker that has most bytes of its inputs, or, if no
worker has any, where all find it. The tasks of a job are kept as long as a value of it that is
needed could be lost, and a lost value is made again by its task.

Once a job has been added, this module alone changes where a task is (`Node.phase`, its worker)
and its counts: in `RefCounts.sent`, `State.done`, `RefCounts.fail_all`, `Lineage.remake` and
`RefCounts.release`. Tests play random histories of events and count everything again after each.

State, which the driver's thread alone reads and changes; written by::

    State.out :: deque[Instruction]         all; the driver carries them out, the oldest first
    State.workers :: [WorkerRecord]         events
    State.jobs :: ({Job}, {Job})            events: jobs begin and end
    State.paces :: {function: Pace}         events: measured with each answer
    State.size, starting :: int             events; `starting` also by assignment
    Queues.rota, by_priority                here and by assignment, which takes from them
    Queues.waiters :: {Node: {Node}}        here: a value on its way, and the tasks that wait for it
    Queues.stuck :: {Node: why}             events; entries are removed here
    RefCounts.unsafe, kept :: {Node}        here, and events where a value was lost for good
    Lineage.unshared :: deque[Node]         here; events take from it

How a value y = f(x) is made: the worker that makes x gets y as well, or y is queued for it::

    make_ready(x)     x: READY
    sent(x)           x: SENT      y.open 1 -> 0, y.under_way 0 -> 1; y is in `following`
    done(x)           x: DONE      y.under_way 1 -> 0; y: READY in the queue of the holder of x
    sent(y)           y: SENT      x.unsent 1 -> 0: the worker drops x after y
    done(y)           x: GONE      x.left 1 -> 0

>>> from lazyflow import delayed
>>> state, worker, job = State(), WorkerRecord(serial=1), Job(run=None, cap=1)
>>> x, y = Node(job, 0, delayed(abs)(-1), 0), Node(job, 1, delayed(str)(1), 0)
>>> x.users, x.left, x.unsent = [y], 1, 1
>>> y.inputs, y.distinct, y.open = (x,), (x,), 1
>>> state.queues.make_ready(x)
>>> state.refcounts.sent(x, worker, Batch(1))
>>> y.open, y.under_way, worker.lanes[0].following == [y]
(0, 1, True)
>>> state.done(x, worker, MISSING, size=24, is_there=True)
>>> y.phase == READY, y.home is worker
(True, True)
>>> batch = Batch(2)
>>> state.refcounts.sent(y, worker, batch)
>>> batch.drops == [(x.id,)]
True
>>> state.done(y, worker, "1", size=50, is_there=True)
>>> x.phase == GONE, worker.holding                # nothing uses y either
(True, {})
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence, Set
from heapq import heappush
from math import inf
from typing import Any

from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.schedulers.core.priorities import FairQueue
from lazyflow.schedulers.processes.decisions.nodes import (
    ALWAYS,
    BANDWIDTH,
    DONE,
    FAILED,
    FETCH,
    FETCHING,
    GONE,
    MISSING,
    MIXED,
    READY,
    SENT,
    WAITING,
    Arrived,
    Batch,
    Deliver,
    DropJob,
    EndLater,
    Free,
    Instruction,
    Job,
    Lost,
    Node,
    Pace,
    Pack,
    ReportFailure,
    Share,
    WorkerRecord,
)
from lazyflow.schedulers.remote.calls import NOTHING, name_only

# -- queues -------------------------------------------------------------------------------
#
# Tasks that could run now, and tasks that wait for a value to reach their worker.
#
# A ready task is in the queue of the worker that has most bytes of its inputs, or else in that of
# its job, where any worker finds it. A task is taken out without a search: its phase and home
# change, so that its entry, when it comes up, is seen to be out of date.


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
        node.phase = READY
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

    def take(self, node: Node) -> None:
        """Take a ready task out of the queue of its worker."""
        self.queued -= 1
        node.home = None

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
        """Let a task wait until these inputs have reached its worker."""
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


def purge(workers: Iterable[WorkerRecord]) -> None:
    """Forget entries of workers' lanes that are out of date: they keep tasks in memory."""
    for worker in workers:
        for lane in worker.lanes:
            lane.following = [n for n in lane.following if n.phase in (WAITING, READY)]
            lane.queue = deque(n for n in lane.queue if n.phase == READY and n.home is worker)


# -- reference counts: the users of values; tasks that fail or are given up


class RefCounts:
    """Effects on other tasks when a task is done, goes back, fails, or is given up.

    Attributes
    ----------
    unsafe
        Values that the caller holds, and that only a worker has; by age.
    ended
        Jobs that are over, and forgotten unless a lost value could need them.
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

    # -- tasks that are sent, ran, or did not run -------------------------------------------

    def sent(self, node: Node, worker: WorkerRecord, batch: Batch) -> None:
        """Count a task as sent, so that its users can go to the same worker."""
        job = node.job
        if node.phase == FETCHING:
            del worker.fetching[node]
        node.phase = SENT
        node.home = worker
        job.active[worker] = job.active.get(worker, 0) + 1
        batch.nodes.append(node)
        followers = []
        for user in node.users:
            user.open -= 1
            user.under_way += 1
            if user.site is None:
                user.site = worker
                if user.open:
                    batch.joins += 1
            elif user.site is worker:
                if not user.open:
                    batch.joins -= 1
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
                is_only = self._load(source, worker, batch)
            if is_only and not source.unsent and not source.stays:
                source.dropped = True
                drops.append(source.id)
        batch.drops.append(tuple(drops))

    @staticmethod
    def _load(source: Node, worker: WorkerRecord, batch: Batch) -> bool:
        """Send a value along if the worker does not have it; return whether no other has it."""
        copies = source.copies
        if copies is None:
            copies = source.copies = []
        if worker not in copies:
            copies.append(worker)
            batch.loads.append(source)
            worker.holding[source.id] = source
        return source.holder is None and len(copies) == 1

    def leave(self, node: Node, worker: WorkerRecord) -> None:
        """Count a task as not on its way any more."""
        for user in node.users:
            user.under_way -= 1
            if not user.under_way:
                user.site = None
        job = node.job
        active = job.active
        active[worker] -= 1
        if not active[worker]:
            del active[worker]
            if job.over and not active:
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

    def postponed(self, node: Node, worker: WorkerRecord) -> None:
        """Have a task wait for the lazy value that it returned; it ran, so it drops its inputs."""
        self.await_again(node, worker)
        self.uses_no_more(node, was_sent=True)
        node.distinct = ()
        node.open += 1
        node.stays = True  # tasks that were sent after it will come back and need it again
        worker.to_drop.append(node.id)
        node.job.later[node] = None

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
        elif not node.open and not node.under_way:
            self._queues.make_ready(node)

    # -- tasks that will not run ------------------------------------------------------------

    def abandon(self, todo: list[Node], unneeded: Set[Node] = frozenset()) -> None:
        """Give up tasks whose results are not used, and their inputs that only they used.

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
        """End the run that makes a value in the place of a task."""
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
            elif node.keep:  # the worker remembers it, for tasks that were sent along
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
            self.drop_everywhere(node)
        elif phase < SENT and node.job.over:
            self.abandon([node])

    def release(self, node: Node) -> None:
        """Drop a value that nothing will ask for."""
        node.phase = GONE
        if node.holder is not None or node.copies is not None:
            self.drop_everywhere(node)
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
        if node not in job.given:  # a value that no task makes may be needed to make others again
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

    def drop_everywhere(self, node: Node) -> None:
        """Have the workers that have a value drop it."""
        holder = node.holder
        if holder is not None:
            node.holder = None
            del holder.holding[node.id]
            if not node.dropped:
                holder.to_drop.append(node.id)
        if node.copies is not None:
            for worker in node.copies:
                del worker.holding[node.id]
                if not node.dropped:
                    worker.to_drop.append(node.id)
            node.copies = None
        if self._queues.stuck:
            self._queues.stuck.pop(node, None)

    def treat_as_dropped(self, node: Node) -> None:
        """Treat a value as gone from its worker: a task that was sent there drops it.

        The worker is told to drop it, too: the task may be taken back, and then it drops nothing.
        A later message may bring the value to that worker again.
        """
        node.dropped = False
        node.stays = True
        self.drop_everywhere(node)

    def unpin(self, node: Node) -> None:
        """Note that the caller has dropped a value."""
        node.pinned = False
        node.left -= 1

    def holder_lost(self, worker: WorkerRecord) -> list[Node]:
        """Take a worker out as a holder; return the nodes whose values are nowhere now."""
        missing = []
        for node in worker.holding.values():
            copies = node.copies
            if copies is not None and worker in copies:
                copies.remove(worker)
                if not copies:
                    node.copies = None
            if node.holder is worker:
                node.holder = None
                node.sharing = False
                if node.phase == DONE and node.value is MISSING:
                    missing.append(node)
        worker.holding.clear()
        return missing

    def not_unsafe(self, node: Node) -> None:
        """Drop the lineage of a value: it is here, or no holder is left, or it failed."""
        self.unsafe.pop(node, None)
        job = node.job
        if node in job.unsafe:
            job.unsafe.discard(node)
            if job.over and not job.unsafe:
                self.ended.append(job)


# -- lineage ------------------------------------------------------------------------------
#
# Lineage: the tasks that are kept so that a lost value can be made again, and how that is done.
#
# A job that is over is kept as long as the caller holds a value of it that only a worker has, or
# another job that is kept uses one: its tasks are the value's lineage. A value that was lost is
# made again by its task, and so are those inputs of that task that were dropped meanwhile.


LONGEST = 1000  # tasks; a held value with a longer lineage is copied out of its worker at once
#: A value that took so many times longer to make than a copy takes is copied at once, too. The
#: copies take at most a tenth of the work then, and a death costs ten times a copy.
WORTH = 10


class Lineage:
    """Results that the caller holds, and the jobs that may be needed to make them again.

    Attributes
    ----------
    unshared
        Unsafe values that may not have been asked for; entries may be out of date.
    room
        Returns the bytes that copies may take: larger values stay where they are, and can be made
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
            if not is_new:
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
        if node.job.is_limited:
            return
        if node.size <= self.room() - sum(n.size for n in self.copies_to_come()):
            self._queues.share(node)
            self._copying.append(node)

    # -- the end of a job -------------------------------------------------------------------

    def sweep(self) -> None:
        """Forget jobs that are over and that no lost value could need."""
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
                self._out.append(DropJob(job))

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
        if job.has_priorities:
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
        node.open = node.under_way = 0
        node.site = None
        lost = []
        for source in node.distinct:
            source.left += 1
            source.unsent += 1
            self.wait_for(node, source)
            phase = source.phase
            if phase == GONE:
                lost.append(source)  # it counts itself in at its users
            elif phase == DONE and source.dropped:
                self._refcounts.treat_as_dropped(source)
                if source.value is MISSING:
                    lost.append(source)
        if node.packed == ():
            self.pack(node)
        return lost

    @staticmethod
    def wait_for(node: Node, source: Node) -> None:
        """Count an input of a task that is not made yet."""
        if source.phase == SENT:
            node.under_way += 1
            # Batches to that worker take the value along, so this task must not follow.
            at = MIXED if source.dropped else source.home
            node.site = at if node.under_way == 1 or node.site is at else MIXED
        elif source.phase < SENT:
            node.open += 1

    @staticmethod
    def depend(node: Node, source: Node) -> None:
        """Let a node use a value of another job."""
        source.users.append(node)
        source.left += 1
        source.unsent += 1
        job = node.job
        if source.job not in job.depends:
            job.depends.add(source.job)
            source.job.dependents += 1

    def pack(self, node: Node) -> None:
        """Have another thread pickle the arguments or the literal of a node; the node waits."""
        node.open += 1
        self._out.append(Pack(node))

    def packed(self, node: Node, arguments: tuple[Any, ...]) -> None:
        """Take the arguments of a node as they are sent."""
        node.packed = arguments
        node.open -= 1
        if not node.open and not node.under_way:
            self._queues.make_ready(node)

    def remake_dropped(self, node: Node) -> None:
        """Have a value made again that was just made and is dropped before all have used it."""
        self._refcounts.treat_as_dropped(node)
        if node.value is MISSING:
            for lost in self.remake([node]):
                self._refcounts.requeue(lost)


# -- all of it ----------------------------------------------------------------------------


class State:
    """All workers, jobs and values of one pool.

    Attributes
    ----------
    out
        Instructions for the driver, the oldest first.
    jobs
        Those that are not over: foreground jobs, and background jobs.
    queues
        Tasks that wait for a worker, or for an input at their worker.
    refcounts
        The users of each value, and the values to drop.
    lineage
        The jobs that are kept so that lost values can be made again.
    paces
        Measurements of each function.
    size
        The number of workers that are wanted at most.
    starting
        The number of workers that were asked for and are not known yet.
    batch_count
        The number of batches so far.
    has_moved
        Whether a task went to a worker for which work was looked for already.
    """

    def __init__(self) -> None:
        self.out: deque[Instruction] = deque()
        self.workers: list[WorkerRecord] = []
        self.jobs: tuple[dict[Job, None], dict[Job, None]] = ({}, {})
        self.queues = Queues(self.out)
        self.refcounts = RefCounts(self.out, self.queues)
        self.lineage = Lineage(self.out, self.queues, self.refcounts)
        self.paces: defaultdict[int, Pace] = defaultdict(Pace)
        self.size = 0
        self.starting = 0
        self.batch_count = 0
        self.has_moved = False

    def done(
        self, node: Node, worker: WorkerRecord, value: Any, size: int, is_there: bool
    ) -> None:
        """Take the value that a worker has made, and may have still."""
        if node.packed:
            node.packed = ()
        if is_there or node.dropped:  # dropped already, as its last user began: lost with that
            node.holder = worker
            worker.holding[node.id] = node
        self.refcounts.leave(node, worker)
        if node.distinct:
            self.refcounts.uses_no_more(node, was_sent=True)
        self._made(node, value, size)
        if node.dropped and node.left and node.unsent:
            self.lineage.remake_dropped(node)

    def provided(self, node: Node, value: Any, size: int) -> None:
        """Take a value that no task of its own makes."""
        node.open = 0
        node.job.later.pop(node, None)
        for user in node.users:
            user.open -= 1
        self._made(node, value, size)

    def _made(self, node: Node, value: Any, size: int) -> None:
        """Take a value, for which no user waits any more."""
        node.phase = DONE
        node.home = None
        node.value = value
        node.size = size
        if node in node.job.once:
            node.job.once[node] = True
        for user in node.users:
            if not user.open and not user.under_way and user.phase == WAITING:
                self.queues.make_ready(user)
        if node.want:
            self.lineage.offer(node)
        if not node.left:
            self.refcounts.release(node)
