"""A driver without sockets: does with the instructions of `State` what the driver does."""

from collections import Counter, deque
from types import SimpleNamespace
from typing import Any, ClassVar

from fake_callers import Callers, Future, Passed, Remote, Run
from fake_worker import LARGE, SHORT, Fake, Literal, Value, number_of

from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    MISSING,
    SENT,
    WAITING,
    Arrived,
    Deliver,
    DropJob,
    EndLater,
    Free,
    Lost,
    Node,
    Pack,
    Recall,
    ReportFailure,
    Send,
    Share,
    Start,
    WorkerRecord,
)


class Driver(Callers):
    """Carries out instructions, and turns messages into events."""

    def __init__(self, seed: int, **limits: float) -> None:
        super().__init__(seed, **limits)
        self.fakes: dict[WorkerRecord, Fake] = {}
        self.inbox: deque[tuple[Any, ...]] = deque()
        self.fetches: Counter[Node] = Counter()  # that wait for a held value
        self.unpacked: list[Node] = []  # that another thread pickles
        self.lazy: list[tuple[Node, int]] = []  # what other runs are computing
        self.postponed: set[Node] = set()
        self.batch_of: dict[Node, int] = {}
        self.sent: list[tuple[WorkerRecord, Any]] = []  # in this event
        self.made: set[Node] = set()  # of the tasks that must not run twice
        self.charges: Counter[Node] = Counter()
        self.crashed: Counter[Node] = Counter()  # how often a task killed its worker
        self.serials = 0
        self.deaths = 0
        self.has_failed = False  # to start a worker
        self.log: list[Any] = []

    def add(self, run: Run) -> None:
        run.is_added = True
        failed = []
        for node in run.own:  # for the checks, while the inputs are known
            run.expected.setdefault(node, self.expect(node))
        for future, node in run.pending:
            outcome = future.outcome
            if isinstance(outcome, tuple):
                failed.append((node, outcome))
            elif outcome is not None and not isinstance(outcome, Remote):
                node.inputs = node.distinct = ()
                node.open = 0
                node.phase = DONE
                node.value = self.literal(outcome)
                if node.want:
                    run.results[node] = outcome
                    run.wanted.discard(node)
                    if node in run.futures:
                        self._resolve(run.futures[node], outcome)
            else:
                future.linked.append(node)
        for node in run.own:
            self.inputs_of(node)
        events.add_job(self.state, run.job, failed)
        self._finish_if_made(run)

    def perform(self) -> None:
        out = self.state.out
        while out:
            todo = out.popleft()
            self.log.append(todo)
            self._handlers[type(todo)](self, todo)

    def _do_start(self, do: Start) -> None:
        count = do.number
        assert len(self.state.workers) + count <= self.state.size or self.has_failed
        for _ in range(count):
            if self.state.workers and self.chance(0.03):
                events.starting_failed(self.state, len(self.state.workers))
                self.has_failed = True
                return
            self.serials += 1
            worker = WorkerRecord(self.serials)
            self.fakes[worker] = Fake(self, worker)
            events.add_worker(self.state, worker)

    def _do_send(self, do: Send) -> None:
        worker, batch = do.worker, do.batch
        fake = self.fakes[worker]
        assert worker.up and not fake.is_recalled
        self.sent.append((worker, batch))
        job = batch.nodes[0].job
        assert len(batch.nodes) == len(batch.drops) == len(set(batch.nodes))
        records = []
        for node, drops in zip(batch.nodes, batch.drops, strict=True):
            assert node.job is job and node.packed != ()
            inputs = [source.id for source in node.inputs]
            records.append(
                SimpleNamespace(
                    node=node, inputs=inputs, drops=drops, keep=node.keep, want=node.want
                )
            )
            assert node.id not in fake.nodes
            fake.nodes[node.id] = node
            self.batch_of[node] = batch.number
        loads = []
        for source in batch.loads:
            assert source.value is not MISSING and source.phase == DONE
            if type(source.value) is Literal:
                source.value.is_encoded = True
            else:
                assert type(source.value) is int or source.value in self.held
            loads.append((source.id, number_of(source.value)))
        self._message(fake, batch.number, batch.to_drop, loads, records)

    def send_drops(self, fake: Fake) -> None:
        """Tell a worker by a message of its own what it can drop."""
        to_drop, fake.worker.to_drop = fake.worker.to_drop, []
        self._message(fake, 0, to_drop, (), ())

    def _message(
        self, fake: Fake, number: int, to_drop: list[int], loads: Any, records: Any
    ) -> None:
        fake.batches.append(
            SimpleNamespace(number=number, to_drop=to_drop, loads=loads, records=records)
        )

    def _do_share(self, do: Share) -> None:
        worker, node = do.worker, do.node
        self.fakes[worker].requests.append(("share", node))

    def _do_recall(self, do: Recall) -> None:
        worker = do.worker
        numbers = [f.number for f in reversed(worker.batches)]
        self.fakes[worker].requests.append(("recall", numbers))
        self.fakes[worker].is_recalled = True

    def _do_free(self, do: Free) -> None:
        value = do.value
        if type(value) is Value:
            self.held.remove(value)  # KeyError: freed twice
        elif type(value) is Literal:
            value.is_encoded = False

    def _do_drop_job(self, do: DropJob) -> None:
        job = do.job
        run = job.run
        assert run.over and not run.is_cleared and not job.nodes
        run.is_cleared = True
        for node in run.own:
            assert node.phase > SENT, "cleared, and not done yet"
        self._let_go(run)

    def _do_deliver(self, do: Deliver) -> None:
        job, node, value = do.node.job, do.node, do.value
        run = job.run
        self._check_value(node, value)
        if run.over:  # it ended meanwhile, and nobody will have the value
            events.unpin(self.state, node)
            return
        if not run.is_held:
            assert value is not MISSING
        elif type(value) is int:
            if node.pinned:
                events.unpin(self.state, node)
        else:
            value = Remote(node)
            self.remotes.append(value)
        self._arrived(run, node, value)
        self._finish_if_made(run)

    def _do_arrived(self, do: Arrived) -> None:
        node, value = do.node, do.value
        self._check_value(node, value)
        self._brought(node)

    def _do_lost(self, do: Lost) -> None:
        node, error = do.node, do.error
        self._check_error(node, error)
        self._brought(node)

    def _brought(self, node: Node) -> None:
        self.fetches.pop(node, None)

    def _check_value(self, node: Node, value: Any) -> None:
        if value is not MISSING:
            assert type(value) in (int, Literal) or value in self.held
            assert number_of(value) == node.job.run.expected[node]

    def _check_error(self, node: Node, error: Any) -> None:
        what, uid = error[:2]
        culprit = next((n for n in self.ancestors(node) if self.tasks[n].uid == uid), None)
        ends = {n.job.run.error for n in self.ancestors(node) if n.job is not node.job}
        if what == "outside" or error in ends:  # all futures of a run that failed have its error
            return
        assert culprit is not None, f"{error} has nothing to do with {node}"
        task = self.tasks[culprit]
        if what == "died":
            maker = culprit
            while isinstance(self.tasks[maker], Passed) and self.inputs_of(maker):
                maker = self.inputs_of(maker)[0]
            if error[2]:
                assert error[2] == maker.job.crash_retries_of(self.tasks[maker]) + 1
                assert self.charges[culprit] >= error[2]
            else:
                assert culprit in self.made and self.limits.room < 1 << 30
        elif what == "fails":
            assert task.fate == "fails"
        elif what == "sticks":
            assert task.sticks
            assert culprit is node or culprit.want == 2 or self.is_once(culprit) or any(
                sum(self.tasks[s].sticks for s in dict.fromkeys(self.inputs_of(n))) > 1
                for n in self.ancestors(node)
            ), "it could have run where its input is"
        else:
            raise AssertionError(f"nothing fails by {what}")

    def _do_report_failure(self, do: ReportFailure) -> None:
        job, node, error = do.node.job, do.node, do.error
        run = job.run
        self._check_error(node, error)
        self._brought(node)
        if run.over:
            return
        if run.collect:
            if node.want or node.pinned:
                if node.pinned:
                    events.unpin(self.state, node)
                self._arrived(run, node, ("error", *error))
            self._finish_if_made(run)
        else:
            run.error = error
            for future in run.futures.values():
                if future.outcome is None:
                    self._resolve(future, error)
            self._end(run)

    def _arrived(self, run: Run, node: Node, value: Any) -> None:
        if node not in run.wanted:
            if isinstance(value, Remote):
                self._release(value)
            return
        run.wanted.discard(node)
        run.results[node] = value
        future = run.futures.get(node)
        if future is not None:
            if future.is_dropped:
                if isinstance(value, Remote):
                    self._release(value)
            else:
                self._resolve(future, value[1:] if isinstance(value, tuple) else value)

    def _resolve(self, future: Future, outcome: Any) -> None:
        assert future.outcome is None
        future.outcome = outcome
        for node in future.linked:
            self.inbox.append(("future_done", node, outcome))

    def _finish_if_made(self, run: Run) -> None:
        if run.is_added and not run.wanted and not run.over:
            self._end(run)

    def _end(self, run: Run) -> None:
        """End a run, and those that made what its tasks returned."""
        self.lazy = [each for each in self.lazy if each[0].job is not run.job]
        self.postponed = {node for node in self.postponed if node.job is not run.job}
        events.end_job(self.state, run.job)
        if self.chance(0.5):
            self._let_go(run)

    def _let_go(self, run: Run) -> None:
        """The tasks of a run are gone, and with them what they named."""
        for held in run.holds:
            if isinstance(held, Remote):
                self._release(held)
        run.holds = []

    def _release(self, remote: Remote) -> None:
        remote.holders -= 1
        if not remote.holders:
            self.remotes.remove(remote)
            self.inbox.append(("unpin", remote.node))

    # -- what comes from workers ------------------------------------------------------------

    # -- what comes from workers ------------------------------------------------------------

    def read_answer(self, fake: Fake) -> None:
        number, entries, failed, deferred, calls = fake.answers.popleft()
        done = []
        for entry in entries:
            node = fake.nodes.pop(entry[0].id)
            keep = bool(node.keep)
            if self.is_once(node) and entry[1:2] != ("lazy",):
                self.made.add(node)
            if len(entry) == 1:
                done.append((node, MISSING, 0, False))
            elif entry[1] == "lazy":
                self._became_lazy(fake.worker, number, node, entry[2])
            elif entry[1] == "large":
                done.append((node, MISSING, self.rng.randint(1, 10**6), True))
            else:
                value = self.received(entry[2], self.tasks[node].kind)
                done.append((node, value, 0 if self.tasks[node].kind == SHORT else 100, keep))
        broken = [(fake.nodes.pop(node.id), error) for node, error in failed]
        later = [fake.nodes.pop(node.id) for node in deferred]
        times = {f: (n, n * self.takes(f)) for f, n in calls.items()}
        events.answered(self.state, fake.worker, number, done, broken, times, later)

    def is_once(self, node: Node) -> bool:
        """Tell whether a task must not run twice."""
        return self.tasks[node]._options.crash_retries == 0

    def takes(self, function: int) -> float:
        """Return the seconds that a call of a function took."""
        return self.rng.choice((1e-6, 1e-6, 1e-4, 0.004))

    def _became_lazy(self, worker: WorkerRecord, number: int, node: Node, result: int) -> None:
        events.postponed(self.state, worker, number, node)
        if node.phase != WAITING:
            return
        self.postponed.add(node)
        self.lazy.append((node, result))

    def provide(self) -> None:
        """Let another run come to its end."""
        node, number = self.lazy.pop(self.rng.randrange(len(self.lazy)))
        self.postponed.discard(node)
        if node not in node.job.later:
            return
        if self.chance(0.1):
            events.fail(self.state, node, ("outside", self.tasks[node].uid))
        else:
            if self.is_once(node):
                self.made.add(node)
            if self.chance(0.5):
                events.provide(self.state, node, self.received(number, LARGE), 100)
            else:
                events.provide(self.state, node, self.literal(number))

    def _do_end_later(self, do: EndLater) -> None:
        self.postponed.discard(do.node)
        self.lazy = [each for each in self.lazy if each[0] is not do.node]

    def _do_pack(self, do: Pack) -> None:
        node = do.node
        assert node.packed == ()
        self.unpacked.append(node)

    def pack(self) -> None:
        """Let the arguments of a task be pickled, or a literal value."""
        node = self.unpacked.pop(self.rng.randrange(len(self.unpacked)))
        if node.phase != WAITING or node.packed != ():
            return
        if self.chance(0.05):
            events.fail(self.state, node, ("outside", self.tasks[node].uid))
        elif node.value is MISSING:
            events.packed(self.state, [(node, ("packed",))])
        else:
            node.value.is_encoded = True
            events.provide(self.state, node, node.value)

    def provide_outside(self, node: Node) -> None:
        number = self.outside.pop(node)
        if node.phase >= SENT or node.job.over:
            return
        if self.chance(0.1):
            events.fail(self.state, node, ("outside", self.tasks[node].uid))
        else:
            events.provide(self.state, node, self.literal(number))

    def read_told(self, fake: Fake) -> None:
        what, *details = fake.told.popleft()
        if what == "shared":
            node, number = details
            events.shared(self.state, node, self.received(number, LARGE))
        elif what == "sticks":
            (node,) = details
            events.unshareable(self.state, node, ("sticks", self.tasks[node].uid))
        elif what == "recalled":
            sent = {f.number: f.nodes for f in fake.worker.batches}
            back = []
            for number, nodes in details[0]:
                if nodes is None:
                    nodes = list(reversed(sent[number]))
                back.append((number, [fake.nodes.pop(n.id) for n in nodes]))
            fake.is_recalled = False
            events.recalled(self.state, fake.worker, back)

    def dies_of(self, node: Node) -> bool:
        if self.crashed[node] < self.tasks[node].deaths:
            self.crashed[node] += 1
            return True
        return False

    def kill(self, fake: Fake, forced: bool = False) -> None:
        """End a worker: its messages are read, then its death."""
        worker = fake.worker
        self.deaths += 1
        running, pickling = fake.word, fake.pickling
        if fake.answers or self.chance(0.5):
            self.perform()
        answered = {e[0].id for message in fake.answers for e in message[1]}
        is_genuine = fake.nodes.get(running) is not None and running not in answered
        while fake.answers:
            self.read_answer(fake)
            self.perform()
        while fake.told:
            self.read_told(fake)
            self.perform()
        del self.fakes[worker]
        charged = 0 if forced else running
        pickled = 0 if forced or pickling is None else pickling.id
        culprit = None
        if not forced:
            culprit = pickling if pickling is not None else fake.nodes.get(running)
        before = self._crashes()
        died = []

        def death(node: Node, attempts: int) -> Any:
            if attempts:
                died.append(node)
            return ("died", self.tasks[node].uid, attempts)

        if culprit is not None and (pickling is not None or is_genuine):
            self.charges[culprit] += 1
        events.lost(self.state, worker, charged, death, pickled)
        new = self._crashes() - before
        assert sum(new.values()) <= 1
        assert set(new) <= {culprit}, f"charged {new} for {culprit}, {running}, {pickling}"
        assert set(died) <= {culprit}
        if pickling is None and is_genuine and culprit is not None and charged:
            assert new[culprit] == 1 or culprit.job.over
        self.perform()

    def _crashes(self) -> Counter[Node]:
        found: Counter[Node] = Counter()
        for run in self.runs:
            found.update(run.job.crashes)
        return found

    _handlers: ClassVar[dict[type, Any]] = {
        Start: _do_start,
        Send: _do_send,
        Share: _do_share,
        Recall: _do_recall,
        Free: _do_free,
        DropJob: _do_drop_job,
        Deliver: _do_deliver,
        Arrived: _do_arrived,
        Lost: _do_lost,
        ReportFailure: _do_report_failure,
        Pack: _do_pack,
        EndLater: _do_end_later,
    }
