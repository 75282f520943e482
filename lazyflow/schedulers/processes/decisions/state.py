"""The decisions of the processes scheduler: events in, instructions out.

Nothing here knows a clock, a process or a socket, so it is tested by itself with random
histories. Events are methods; what has to be done is appended to `out`, in order:

    ("send", worker, flight)       ("share", worker, node)      send node's value to the parent
    ("recall", worker)             give back what was not begun; answer what is done
    ("fulfil", job, node, value)   a wanted value was made; MISSING: it is at `node.holder`
    ("fail", job, node, error)     a task of the job failed, or something that it needs did
    ("here", node, value)          a value that was told of is here, or here again
    ("lost", node, error)          a value that was told of can't be had any more
    ("pack", node)                 have its arguments pickled, or its `Literal`: `packed` follows
    ("cleared", job)               nothing of it can be needed again
    ("free", value)                this `Encoded`, or that of this `Literal`, is not needed
    ("start", count)               so many more workers are wanted

and workers have ids in `worker.forget` that go with the next message, or with one of its own.

In layers, each in a file: queues.py, refcounts.py, lineage.py, selection.py, batching.py, and
the events here; the death of a worker is in recovery.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lazyflow.schedulers.processes.decisions.batching import Placing
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    FAILED,
    MISSING,
    MIXED,
    SENT,
    WAITING,
    Flight,
    Job,
    Node,
    Worker,
)
from lazyflow.schedulers.processes.decisions.selection import Pace


class State(Placing):
    """All workers, jobs and values of one pool.

    Attributes
    ----------
    jobs
        Those that are not over: that somebody waits for, and background ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jobs: tuple[dict[Job, None], dict[Job, None]] = ({}, {})

    # -- workers ----------------------------------------------------------------------------

    def add_worker(self, worker: Worker) -> None:
        """Learn that a worker is being started."""
        self._starting = max(0, self._starting - 1)
        self.workers.append(worker)

    def starting_failed(self, count: int) -> None:
        """Learn that no more than `count` workers can be had."""
        self._starting = 0
        self.size = max(1, count)

    def worker_up(self, worker: Worker) -> None:
        """Learn that it can be sent tasks."""
        worker.up = True
        self.assign()

    def overdue(self, worker: Worker, number: int) -> None:
        """Learn that a flight takes longer than it should while other workers have nothing."""
        flight = self._flight(worker, number)
        if flight is not None:
            flight.is_late = True
            is_behind = flight.unanswered > 1 or len(worker.flights) > 1
            if is_behind and any(self.may_spread(f.nodes[0].job) for f in worker.flights):
                self.recall(worker)
            for node in tuple(worker.fetching):  # what it waits for is of use elsewhere
                if self.may_spread(node.job):
                    self.unqueue(node)
                    self.requeue(node)
        self.assign()

    def recall(self, worker: Worker) -> None:
        """Have a worker give back what it did not begin."""
        if not worker.recalling:
            worker.recalling = True
            self.out.append(("recall", worker))

    def recalled(self, worker: Worker, groups: Iterable[tuple[int, Sequence[Node]]]) -> None:
        """Take back what a worker did not begin: nodes by flight, in both the last first."""
        worker.recalling = False
        back: list[Node] = []
        for number, nodes in groups:
            for node in nodes:
                self.unsend(node, worker)
            back += nodes
            self._count_answers(worker, number, len(nodes))
        for node in back:
            self.requeue(node)
        self.assign()

    # -- answers ----------------------------------------------------------------------------

    def answered(
        self,
        worker: Worker,
        number: int,
        done: Sequence[tuple[Node, Any, int, bool]],
        failed: Sequence[tuple[Node, Any]],
        times: dict[int, tuple[int, float]],
        deferred: Sequence[Node] = (),
    ) -> None:
        """Take a worker's answer to a flight, or to a part of it.

        Parameters
        ----------
        done
            Node, value or MISSING, bytes, and whether the worker has it still.
        failed
            Node and error.
        times
            Calls and seconds, by function.
        deferred
            Nodes that were not run, since an input turned out to be a lazy value.
        """
        flight = self._flight(worker, number)
        if flight is not None and times:
            flight.nodes[0].job.seconds += sum(seconds for _, seconds in times.values())
        for function, (calls, seconds) in times.items():
            pace = self.paces.get(function)
            if pace is None:
                pace = self.paces[function] = Pace()
            pace.measured(calls, seconds)
        for node, value, size, is_there in done:
            self._done(node, worker, value, size, is_there)
        for node, error in failed:
            self.leave(node, worker)
            self.fail_all(node, error, worker)
        if deferred:
            self._defer(worker, deferred)
        self._count_answers(worker, number, len(done) + len(failed) + len(deferred))
        self.assign()

    @staticmethod
    def _flight(worker: Worker, number: int) -> Flight | None:
        return next((f for f in worker.flights if f.number == number), None)

    def _count_answers(self, worker: Worker, number: int, count: int) -> None:
        flight = self._flight(worker, number)
        if flight is not None:
            flight.unanswered -= count
            if not flight.unanswered:
                worker.flights.remove(flight)

    def _done(self, node: Node, worker: Worker, value: Any, size: int, is_there: bool) -> None:
        node.phase = DONE
        node.home = None
        node.value = value
        node.size = size
        if node.packed:
            node.packed = ()
        if is_there or node.dropped:  # dropped already, as its last user began: lost with that
            node.holder = worker
            worker.holding[node.id] = node
        for user in node.users:
            user.flying -= 1
            if not user.flying:
                user.site = None
                if not user.open and user.phase == WAITING:
                    self.make_ready(user)
        for source in node.distinct:
            source.left -= 1
            if not source.left:
                self.unused(source)
        if node.want:
            self.offer(node)
        if not node.left:
            self.release(node)
        elif node.dropped and node.unsent:
            self.remake_dropped(node)
        self.not_active(node.job, worker)

    def _defer(self, worker: Worker, nodes: Sequence[Node]) -> None:
        """Take tasks back that met a lazy value; their worker keeps what they need."""
        for node in reversed(nodes):
            self.unsend(node, worker)
        for node in nodes:
            worker.forget.append(node.id)  # it knows that another run makes it
            node.stays = True  # what was sent after it will come back, too
            for source in node.distinct:
                source.stays = True
            self.requeue(node)

    def postponed(self, worker: Worker, number: int, node: Node) -> None:
        """Learn that a task returned a lazy value: `provide` or `fail` comes later."""
        self.unsend(node, worker)
        self.uses_no_more(node, was_sent=False)
        node.distinct = ()
        node.open += 1  # for what it returned
        node.stays = True  # tasks that were sent after it will come back and need it again
        worker.forget.append(node.id)
        self._count_answers(worker, number, 1)
        node.job.later.add(node)
        if node.job.over:
            self.abandon([node])

    def _run_later_again(self, job: Job) -> None:
        """Run what returned a lazy value again: the run that made it is over with this job, and
        others need it."""
        later, job.later = job.later, set()
        lost = []
        for node in later:
            node.distinct = tuple(dict.fromkeys(node.inputs))
            node.value = MISSING  # it may be at hand, and not be pickled yet
            lost += self.count_in(node)
        for node in (*later, *self.remake(lost)):
            self.requeue(node)
        if later:
            self.assign()

    def provide(self, node: Node, value: Any) -> None:
        """Take the value of a node that no task of its own makes."""
        if node.phase != WAITING:
            self.out.append(("free", value))
            return
        node.phase = DONE
        node.open = 0
        node.value = value
        node.job.later.discard(node)
        for user in node.users:
            user.open -= 1
            if not user.open and not user.flying and user.phase == WAITING:
                self.make_ready(user)
        if node.want:
            self.offer(node)
        if not node.left:
            self.release(node)
        self.assign()

    def packed(self, node: Node, packed: tuple[Any, ...]) -> None:
        """Take a task's arguments as they are sent."""
        node.packed = packed
        node.open -= 1
        if not node.open and not node.flying:
            self.make_ready(node)
        self.assign()

    def fail(self, node: Node, error: Any) -> None:
        """Let a task fail that did not run, and what needs it.

        One that was sent somewhere may yet come to an end there, or come back and fail.
        """
        if node.phase == SENT:
            node.job.verdicts[node] = error
        self.fail_all(node, error)
        self.sweep()

    # -- values -----------------------------------------------------------------------------

    def shared(self, worker: Worker, node: Node, value: Any) -> None:
        """Take the encoded value of a node that a worker was asked for."""
        node.sharing = False
        if node.phase != DONE or node.value is not MISSING:
            self.out.append(("free", value))
            return
        node.value = value
        self.fetched(node)
        if node.want:
            self.offer(node)
        self.assign()

    def unshareable(self, worker: Worker, node: Node, error: Any) -> None:
        """Learn that a value can't leave its worker: what needs it has to run there."""
        node.sharing = False
        if node.phase != DONE or node.value is not MISSING:
            return
        self.stuck[node] = error
        self.unsafe.pop(node, None)
        for user in self.waiters.pop(node, ()):
            self.unqueue(user)
            self.requeue(user)
        if node in node.job.delivered:
            self.out.append(("lost", node, error))
        self.assign()

    def want(self, node: Node) -> None:
        """Have a held value sent to the parent; ("here", ...) follows, or ("lost", ...)."""
        node.want = 2
        if node.phase == DONE:
            if node.value is not MISSING:
                self.out.append(("here", node, node.value))
            elif node in self.stuck:
                self.out.append(("lost", node, self.stuck[node]))
            else:
                self.share(node)
        elif node.phase == FAILED:
            self.out.append(("lost", node, node.value))
        # else it is being made again, and comes when it is done

    def unpin(self, node: Node) -> None:
        """Learn that nobody outside holds the value of a node any more."""
        if node.pinned:
            node.pinned = False
            node.left -= 1
            self.not_unsafe(node)
            if not node.left:
                self.unused(node)
            self.sweep()

    def make_safe(self, most: int = 1) -> None:
        """While nothing else is to do: copy held values out of their workers."""
        unshared = self.unshared
        while unshared and most:
            node = unshared.popleft()
            if node in self.unsafe and node.phase == DONE and not node.sharing:
                self.share(node)
                most -= 1

    # -- jobs -------------------------------------------------------------------------------

    def add_job(self, job: Job, failed: Iterable[tuple[Node, Any]] = ()) -> None:
        """Take in a job whose nodes are linked; its foreign inputs are counted in here.

        `failed` are nodes that can't run, with their errors.
        """
        failed = list(failed)
        for node in job.nodes:
            if node.pinned:
                node.stays = True
            if node.phase == DONE or node.open or node.value is not MISSING:
                job.given.add(node)
            if node.phase == DONE:
                continue
            if node.packed == ():
                self.pack(node)
            for source in node.distinct:
                phase = source.phase
                if phase == SENT:
                    node.flying += 1
                    if node.site is not source.home:
                        node.site = source.home if node.site is None else MIXED
                elif phase != DONE:
                    node.open += 1
                    if phase == FAILED:
                        failed.append((node, source.value))
                if source.job is not job:
                    self._depend(job, node, source)
        job.recipe = len(job.nodes) + sum(d.recipe for d in job.depends)
        job.seconds = sum(d.seconds for d in job.depends)
        self.size = max(self.size, job.cap)
        self.jobs[job.background][job] = None
        for node, error in failed:
            self.fail_all(node, error)
        for node in reversed(job.nodes):  # the first in the plan on top of the stacks
            if node.phase == WAITING and not node.open and not node.flying:
                self.make_ready(node)
        self.assign()

    @staticmethod
    def _depend(job: Job, node: Node, source: Node) -> None:
        """Let a node use a value of another job."""
        source.users.append(node)
        source.left += 1
        source.unsent += 1
        if source.job not in job.depends:
            job.depends.add(source.job)
            source.job.dependents += 1

    def end_job(self, job: Job) -> None:
        """Forget what a job still wanted: it is over. Values of it that are held stay."""
        if job.over:
            return
        job.over = True
        self.jobs[job.background].pop(job, None)
        was_needed = False
        for node in reversed(job.nodes):
            is_wanted = node.want and node not in job.delivered
            if node.pinned and node not in job.delivered:
                node.pinned = False
                node.left -= 1
            phase = node.phase
            if phase < SENT:
                if is_wanted or not node.left:  # who waits for it in another job is told
                    was_needed = True
                    self.abandon(self.give_up_one(node))
            elif not node.left:
                self.unused(node)
        if was_needed:
            self.purge()
        self._run_later_again(job)
        self.ended.append(job)
        self.sweep()

    def give_up(self, nodes: Iterable[Node]) -> None:
        """Run these no more: nobody needs them."""
        unneeded = set(nodes)
        for node in unneeded:
            if node.pinned and node.phase < SENT and node not in node.job.delivered:
                node.pinned = False
                node.left -= 1
        self.abandon([n for n in unneeded if n.phase < SENT], unneeded)
        self.sweep()
