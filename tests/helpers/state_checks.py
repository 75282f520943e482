"""What has to hold after every event, counted again from the phases alone."""

from collections import Counter

from fake_driver import Driver
from fake_worker import Literal, Value

from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    FAILED,
    FETCHING,
    GONE,
    MISSING,
    MIXED,
    READY,
    SENT,
    WAITING,
    Job,
    Node,
    WorkerRecord,
)


class Checked(Driver):
    """A driver that looks whether the books are right."""

    def waiting_in_front(self) -> list[Node]:
        """Return ready tasks that may go anywhere, of jobs that somebody waits for."""
        return [
            n for run in self.runs if not run.job.background and run.is_added
            for n in run.own if n.phase == READY and n.home is None
        ]

    def check_order(self, waiting: list[Node]) -> None:
        """Background tasks were sent only where none of these could go."""
        for worker, batch in self.sent:
            if batch.nodes[0].job.background and worker in self.state.workers:
                for node in waiting:
                    if node.phase == READY and node.home is None:
                        assert not self._may(worker, node.job), f"{batch.nodes} before {node}"

    def check(self) -> None:
        """Count everything again, from the phases alone."""
        nodes = [n for run in self.runs if run.is_added for n in run.own]
        for node in nodes:
            self.inputs_of(node)
        self._check_counts(nodes)
        for node in nodes:
            check = self._checks.get(node.phase)
            if check is not None:
                check(self, node)
            self._check_place(node)
        self._check_workers(nodes)
        self._check_jobs()
        self._check_idle(nodes)

    def _check_counts(self, nodes: list[Node]) -> None:
        left: Counter[Node] = Counter()
        unsent: Counter[Node] = Counter()
        for node in nodes:
            left[node] += node.pinned
            if node.phase > SENT:
                continue
            is_open = self.is_postponed(node)
            sources = dict.fromkeys(node.inputs)
            if not is_open:
                for source in sources:
                    left[source] += 1
                    unsent[source] += node.phase < SENT
            if all(s.phase < FAILED for s in sources) and not node.job.run.is_cleared:
                gone = [s for s in sources if s.phase == GONE]
                assert not gone or is_open or all(s.job.over for s in gone), f"{node} of {gone}"
                if gone or is_open:
                    assert node.open > 0
                    continue
                outside = (self.outside.get(node) is not None) + (node.packed == ())
                assert node.open == sum(s.phase < SENT for s in sources) + outside, node
                under_way = [s.home for s in sources if s.phase == SENT]
                assert node.under_way == len(under_way), node
                if not under_way:
                    assert node.site is None
                elif node.site is not MIXED:
                    assert set(under_way) == {node.site}
        for node in nodes:
            if node.phase < FAILED:
                assert node.left == left[node], f"{node}.left is {node.left}, not {left[node]}"
                assert node.unsent == unsent[node], f"{node}.unsent is not {unsent[node]}"

    def is_postponed(self, node: Node) -> bool:
        return node in self.postponed and node.phase == WAITING

    def _check_waiting(self, node: Node) -> None:
        assert node.home is None
        failed = [s for s in node.inputs if s.phase == FAILED]
        assert not failed, f"{node} waits for {failed}"
        assert node.open or node.under_way, f"{node} waits for nothing"
        self._check_needed(node)

    def _check_needed(self, node: Node) -> None:
        if node.job.over:
            assert node.left, f"{node} of a job that is over is to run, and nobody needs it"

    def _check_ready(self, node: Node) -> None:
        assert not node.open and not node.under_way
        if node.home is None:
            found = [e[3] if node.job.has_priorities else e for e in node.job.ready]
            if node.job.has_priorities:
                assert node.job in self.state.queues.by_priority[node.job.background]
            else:
                assert node.job in self.state.queues.rota[node.job.background] and node.job.listed
        else:
            found = list(node.home.lanes[node.job.background].queue)
            assert node.home in self.state.workers
        assert node in found, f"{node} is in no queue"
        self._check_needed(node)

    def _check_fetching(self, node: Node) -> None:
        worker = node.home
        assert worker in self.state.workers and node in worker.fetching
        waiters = self.state.queues.waiters
        waits = [s for s in dict.fromkeys(node.inputs) if node in waiters.get(s, ())]
        assert all(s.sharing for s in waits)
        assert len(waits) == worker.fetching[node]
        if not waits:
            assert node in worker.lanes[node.job.background].arrived
        self._check_needed(node)

    def _check_sent(self, node: Node) -> None:
        worker = node.home
        assert worker in self.state.workers
        assert self.batch_of[node] in [f.number for f in worker.batches if node in f.nodes]
        assert self.fakes[worker].nodes.get(node.id) is node or self.state.out

    def _check_done(self, node: Node) -> None:
        assert node.value is not MISSING or node.holder is not None
        assert node.left or node in node.job.given, f"{node} is kept and nobody needs it"
        assert node not in self.state.queues.waiters or node.sharing
        if node.dropped:
            assert not node.unsent, f"{node} will be dropped before it is used"
        if type(node.value) is Value:
            assert node.value in self.held

    def _check_gone(self, node: Node) -> None:
        if type(node.value) is Value or self.is_encoded(node):
            assert node in node.job.given
            assert node in node.job.once or (node.job.run.is_cleared and node.job.dependents)
        elif node.value is not MISSING:
            assert node in node.job.given
        assert node.holder is None and not node.copies
        assert node not in self.state.queues.waiters
        assert not node.pinned, f"{node} is held and gone"

    _checks = {
        WAITING: _check_waiting,
        READY: _check_ready,
        FETCHING: _check_fetching,
        SENT: _check_sent,
        DONE: _check_done,
        GONE: _check_gone,
    }

    @staticmethod
    def is_encoded(node: Node) -> bool:
        return type(node.value) is Literal and node.value.is_encoded

    def _check_place(self, node: Node) -> None:
        for worker in (node.holder, *(node.copies or ())):
            if worker is not None:
                assert worker in self.state.workers
                assert worker.holding.get(node.id) is node

    def _check_workers(self, nodes: list[Node]) -> None:
        state = self.state
        assert set(state.workers) == set(self.fakes)
        values = {n.value for n in nodes if type(n.value) is Value}
        assert values == self.held, "values of the parent that nobody knows"
        queued = 0
        for worker in state.workers:
            for i, node in worker.holding.items():
                assert i == node.id
                assert worker is node.holder or (node.copies and worker in node.copies)
            for node in worker.fetching:
                assert node.phase == FETCHING and node.home is worker
            queued += sum(
                n.phase == READY and n.home is worker for lane in worker.lanes
                for n in set(lane.queue)
            )
            for batch in worker.batches:
                pending = [
                    n for n in batch.nodes
                    if n.phase == SENT and n.home is worker and self.batch_of[n] == batch.number
                ]
                assert batch.unanswered == len(pending) > 0
        assert state.queues.queued == queued

    def _check_jobs(self) -> None:
        state = self.state
        for run in self.runs:
            job = run.job
            sent = Counter(n.home for n in run.own if n.phase == SENT)
            assert job.active == sent
            assert len(job.active) <= job.cap, "more workers than the job may have"
            is_listed = job in state.jobs[job.background]
            if run.is_added and not run.over:
                assert is_listed
            if run.is_cleared:
                assert not is_listed
                assert all(n.phase > SENT for n in run.own)
        for node in state.refcounts.unsafe:
            assert node.pinned and node.phase == DONE and node.value is MISSING

    def _check_idle(self, nodes: list[Node]) -> None:
        """Nothing that could run waits beside a worker that has nothing to do."""
        for worker in self.state.workers:
            is_free = worker.up and not worker.doomed and not worker.recalling
            if not is_free or worker.batches or worker.fetching:
                continue
            for node in nodes:
                if node.phase == READY and node.home in (None, worker):
                    assert not self._may(worker, node.job), f"{worker} could run {node}"

    @staticmethod
    def _may(worker: WorkerRecord, job: Job) -> bool:
        return worker in job.active or len(job.active) < job.cap
