"""Workers of a `State` that do what they are sent at once, and jobs that a test draws."""


from fake_callers import Future, Remote, Run
from fake_worker import SHORT, Task
from state_checks import Checked

from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import (
    SENT,
    Job,
    Node,
    Start,
)


class Scene(Checked):
    """Workers that do what they are told at once, and jobs that the test makes."""

    def __init__(self, workers=2):
        super().__init__(0)
        self.known = {}
        self.is_checked = True
        self.width = workers
        self.has_failed = True  # the test says how many workers there are
        for _ in range(workers):
            self._do_start(Start(1))
        for worker in tuple(self.fakes):
            events.worker_up(self.state, worker)
        self.perform()

    def chance(self, of):
        return False

    def check(self):
        if self.is_checked:
            super().check()

    def takes(self, function):
        return self.known.get(function, 1e-6)

    def job(
        self, wanted, *, cap=None, held=False, background=False, has_priorities=False, retries=1,
        unpacked=False,
    ):
        """Take in a job with these outputs, and all that they need which is in no job yet.

        If its tasks are `unpacked`, `pack` lets them run.
        """
        job = Job(None, cap or self.width, background, has_priorities)
        job.crash_retries = retries
        run = job.run = Run(job, held, False)
        nodes = []
        for plan in wanted:
            plan.collect(nodes)
        for plan in nodes:
            node = plan.node = self._node(run, plan.task, plan.function)
            node.job = job
            node.inputs = tuple(p.node for p in plan.inputs)
            node.packed = () if unpacked else None
            node.distinct = tuple(dict.fromkeys(node.inputs))
            run.nodes.append(node)
            for source in node.distinct:
                if source.job is job:
                    source.users.append(node)
        for node in run.own:
            node.left = node.unsent = len(node.users)
            node.keep = 1 if node.users else 0
        for plan in wanted:
            node = plan.node
            node.want = 1 if held else 2
            run.outputs.append(node)
            run.wanted.add(node)
            if held:
                node.keep, node.pinned = 1, True
                node.left += 1
                run.futures[node] = Future(run, node)
        job.nodes = list(run.own)
        job.once = dict.fromkeys(filter(self.is_once, run.own), False)
        self.runs.append(run)
        self.add(run)
        self.perform()
        self.check()
        return run

    def packed(self, plans):
        """Let the arguments of some tasks be pickled, all at once."""
        events.packed(self.state, [(plan.node, ("packed",)) for plan in plans])
        self.perform()

    def to_run(self):
        """Return what each worker was sent and has not answered."""
        return [
            [
                [n for n in f.nodes if n.phase == SENT and self.batch_of[n] == f.number]
                for f in w.batches
            ]
            for w in self.state.workers
        ]

    def fake(self, at):
        return self.fakes[self.state.workers[at]]

    def steps(self, at, count=1):
        for _ in range(count):
            self.fake(at).step()

    def act(self, at):
        """Let a worker do all it can, and read all it says."""
        fake = self.fake(at)
        moved = False
        while fake.worker in self.fakes and (
            fake.can_step() or fake.requests or fake.answers or fake.told
        ):
            moved = True
            if fake.requests:
                fake.serve()
            elif fake.can_step():
                fake.step()
            elif fake.answers:
                self.read_answer(fake)
            else:
                self.read_told(fake)
            self.perform()
            self.check()
        return moved

    def fly(self, at=0):
        """Let a worker run one batch to its end."""
        fake = self.fake(at)
        while not fake.answers:
            fake.step()
        self.read_answer(fake)
        self.perform()
        self.check()

    def finish(self):
        while True:
            moved = [self.act(at) for at in reversed(range(len(self.state.workers)))]
            for worker, fake in tuple(self.fakes.items()):
                if not worker.up:
                    events.worker_up(self.state, worker)
                    moved.append(True)
                if worker.to_drop:
                    self.send_drops(fake)
            while self.inbox:
                what, *details = self.inbox.popleft()
                assert what == "unpin"
                events.unpin(self.state, *details)
            self.perform()
            if not any(moved):
                self.check()
                return

    def learn(self, function, seconds=0.0005, calls=1000):
        """Let it be known how long a function takes."""
        self.known[function] = seconds
        worker = self.state.workers[0]
        events.answered(self.state, worker, 0, [], [], {function: (calls, calls * seconds)})
        self.perform()

    def value(self, run, plan):
        value = run.results[plan.node]
        return value.node.value if isinstance(value, Remote) else value


class Plan:
    """A task in the making."""

    uids = iter(range(1, 10**9))

    def __init__(self, *inputs, kind=SHORT, fate="ok", function=1, deaths=0, sticks=False):
        self.inputs = inputs
        self.task = Task(next(self.uids), fate, kind)
        self.task.deaths = deaths
        self.task.sticks = sticks
        self.function = function
        self.node: Node | None = None

    def collect(self, nodes):
        if self.node is None and self not in nodes:
            for plan in self.inputs:
                plan.collect(nodes)
            nodes.append(self)

    @property
    def at(self):
        return self.node.home or self.node.holder


def option(plan, **options):
    for name, value in options.items():
        object.__setattr__(plan.task._options, name, value)
    return plan


def chain(length, **more):
    x = Plan(**more)
    for _ in range(length - 1):
        x = Plan(x, **more)
    return x
