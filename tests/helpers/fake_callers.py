"""Callers without a program: runs, futures, and jobs of random tasks."""

import random
from types import SimpleNamespace
from typing import Any

from fake_worker import LARGE, SHORT, SMALL, Literal, Task, Value, number_of

from lazyflow.graph.task import HELD
from lazyflow.schedulers.processes.decisions.nodes import DONE, WAITING, Job, Node
from lazyflow.schedulers.processes.decisions.pool_state import State

RETRIES = 1  # crash_retries of a task that says nothing


class Passed(Task):
    """A task that hands its only input on."""

    def __init__(self, uid: int, kind: str = SHORT) -> None:
        super().__init__(uid, "ok", kind)
        self._func = HELD

    def result(self, numbers: list[int]) -> int:
        return numbers[0] if numbers else super().result(numbers)


class Future:
    """A wanted result of a run that goes on while the caller does other things."""

    def __init__(self, run: Any, node: Node) -> None:
        self.run, self.node = run, node
        self.is_dropped = False
        self.outcome: Any = None  # a number, a Remote, or ("error", ...)
        self.linked: list[Node] = []  # who waits for it


class Remote:
    """A value that somebody holds, and that is where it was made."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.holders = 1


class Run:
    """What the caller sees of a job."""

    def __init__(self, job: Job, is_held: bool, collect: bool) -> None:
        self.job = job
        self.is_held = is_held
        self.collect = collect
        self.own: list[Node] = []
        self.nodes: list[Node] = []
        self.outputs: list[Node] = []
        self.wanted: set[Node] = set()
        self.futures: dict[Node, Future] = {}
        self.pending: list[tuple[Future, Node]] = []
        self.holds: list[Any] = []  # futures and remotes that its tasks name
        self.results: dict[Node, Any] = {}
        self.error: Any = None
        self.is_cancelled = False
        self.is_added = False
        self.is_cleared = False
        self.expected: dict[Node, int] = {}

    @property
    def over(self) -> bool:
        return self.job.over


class Callers:
    """Who wants results: makes jobs of random tasks."""

    def __init__(self, seed: int, **limits: float) -> None:
        self.rng = random.Random(seed)
        self.state = State()
        self.runs: list[Run] = []
        self.unread: list[Run] = []  # linked, and not known to the state yet
        self.held: set[Value] = set()  # of the parent's values, those that were not freed
        self.remotes: list[Remote] = []
        self.outside: dict[Node, Any] = {}  # nodes whose values come from elsewhere
        self.origin: dict[Node, Node] = {}  # of what stands for a value of another run
        self.tasks: dict[Node, Task] = {}
        self.inputs: dict[Node, tuple[Node, ...]] = {}  # known also when the job is cleared
        self.uids = 0
        self.limits = SimpleNamespace(
            workers=3, nodes=9, jobs=4, lazy=0.1, fails=0.06, dies=0.06, sticks=0.05, kills=1.0,
            checks=1.0, batches=0.2, once=0.0, room=1 << 30,
        )
        self.limits.__dict__.update(limits)
        self.state.refcounts.room = self.limits.room

    def chance(self, of: float) -> bool:
        return self.rng.random() < of

    def _task(self, is_leaf: bool = False) -> Task:
        self.uids += 1
        rng, limits = self.rng, self.limits
        fate = "ok"
        if self.chance(limits.fails):
            fate = "fails"
        elif self.chance(limits.lazy):
            fate = "lazy"
        task = Task(self.uids, fate, rng.choice((SHORT, SMALL, LARGE, LARGE)))
        if self.chance(limits.dies):
            task.deaths = rng.randint(1, 3)
        task.sticks = fate == "ok" and task.kind == LARGE and self.chance(limits.sticks)
        if self.chance(0.1):
            task._options = task._options.replace(crash_retries=rng.randint(0, 2))
        if self.limits.once and self.chance(self.limits.once):
            task._options = task._options.replace(crash_retries=0)
        return task

    def received(self, number: int, kind: str) -> Any:
        """Return what the parent keeps of a value that came in."""
        if kind == SHORT:
            return number
        value = Value(number)
        self.held.add(value)
        return value

    def link(self) -> None:
        """Make a job of random tasks, some of which use values that are held already."""
        rng = self.rng
        has_priorities = self.chance(0.2)
        is_held = self.chance(0.6)
        cap = rng.randint(1, self.limits.workers)
        job = Job(None, cap, is_held and self.chance(0.5), has_priorities)
        run = Run(job, is_held, self.chance(0.4))
        job.run = run
        job.crash_retries = RETRIES
        futures = [f for r in self.runs for f in r.futures.values() if not f.is_dropped]
        for i in range(rng.randint(1, self.limits.nodes)):
            form = rng.random()
            if form < 0.12 and futures:
                run.nodes.append(self._leaf(run, rng.choice(futures)))
            elif form < 0.2:
                run.nodes.append(self._literal(run))
            elif form < 0.24:
                run.nodes.append(self._external(run))
            else:
                self._call_node(run, i, has_priorities)
        for node in run.own:
            node.left = node.unsent = len(node.users)
            node.keep = 1 if node.users else 0
        self._want(run)
        for node in run.own:
            is_literal = node.phase == DONE and type(node.value) is Literal
            if is_literal and node.users and not node.pinned and self.chance(0.4):
                node.phase, node.packed = WAITING, ()
        job.nodes = list(run.own)
        job.once = dict.fromkeys(filter(self.is_once, run.own), False)
        self.runs.append(run)
        self.unread.append(run)

    def _node(self, run: Run, task: Task, function: int = 0) -> Node:
        node = Node(run.job, len(run.own), task, function)
        run.own.append(node)
        self.tasks[node] = task
        return node

    def _call_node(self, run: Run, i: int, has_priorities: bool) -> None:
        rng = self.rng
        task = self._task()
        if has_priorities:
            task._options = task._options.replace(priority=rng.randint(0, 3))
        node = self._node(run, task, rng.randint(1, 3))
        count = min(len(run.nodes), rng.choice((0, 1, 1, 2, 2, 3)))
        recent = run.nodes[-5:] if self.chance(0.7) else run.nodes
        node.inputs = tuple(rng.choice(recent) for _ in range(count))
        node.distinct = tuple(dict.fromkeys(node.inputs))
        if self.chance(0.2):
            node.packed = ()
        for source in node.distinct:
            if source.job is run.job:
                source.users.append(node)
        run.nodes.append(node)

    def _leaf(self, run: Run, future: Future) -> Node:
        """Link to a value that a future stands for; see pool_run.py."""
        run.holds.append(future)
        outcome = future.outcome
        if outcome is None:
            node = self._passed(run, future.node)
            self.origin[node] = future.node
            run.pending.append((future, node))
            return node
        if isinstance(outcome, Remote):
            outcome.holders += 1
            run.holds.append(outcome)
            return outcome.node
        if isinstance(outcome, tuple):
            node = self._node(run, Passed(0))
            run.pending.append((future, node))
            self.origin[node] = future.node
            return node
        return self._literal(run, outcome)

    def _passed(self, run: Run, source: Node) -> Node:
        self.uids += 1
        task = Passed(self.uids, self.tasks[source].kind)
        task.sticks = self.tasks[source].sticks
        node = self._node(run, task, 99)
        node.inputs = node.distinct = (source,)
        if source.job is run.job:
            source.users.append(node)
        return node

    def _literal(self, run: Run, number: int | None = None) -> Node:
        self.uids += 1
        task = Task(self.uids)
        node = self._node(run, task)
        node.phase = DONE
        if number is None:
            number = task.result([])
        node.value = self.literal(number)
        run.expected[node] = number
        return node

    def literal(self, number: int) -> Any:
        return number if self.chance(0.3) else Literal(number)

    def _external(self, run: Run) -> Node:
        """A node whose value another scheduler makes."""
        self.uids += 1
        task = Task(self.uids)
        node = self._node(run, task, 99)
        node.open = 1
        run.expected[node] = task.result([])
        self.outside[node] = run.expected[node]
        return node

    def _want(self, run: Run) -> None:
        rng = self.rng
        unused = [n for n in run.nodes if not (n.job is run.job and n.users)]
        others = [n for n in run.nodes if n not in unused]
        chosen = unused + rng.sample(others, min(len(others), rng.choice((0, 0, 1, 2))))
        for node in dict.fromkeys(chosen):
            if node.job is run.job and node.phase == DONE:
                node.pinned = True
                node.left += 1
                run.outputs.append(node)
                run.results[node] = number_of(node.value)
                continue
            if node.job is not run.job:
                node = self._passed(run, node)
            node.want = 1 if run.is_held else 2
            if run.is_held:
                node.keep = 1
                node.pinned = True
                node.left += 1
            run.outputs.append(node)
            run.wanted.add(node)
            if run.is_held:
                run.futures[node] = Future(run, node)

    def expect(self, node: Node) -> int:
        """Return the number that a node's value has when nothing goes wrong."""
        todo = [node]
        while todo:
            node = todo[-1]
            known = node.job.run.expected
            if node in known:
                todo.pop()
                continue
            new = [s for s in node.inputs if s not in s.job.run.expected]
            if new:
                todo += new
            else:
                known[node] = self.tasks[node].result([s.job.run.expected[s] for s in node.inputs])
        return node.job.run.expected[node]

    def inputs_of(self, node: Node) -> tuple[Node, ...]:
        """Return what a node's value is made of, whatever the state has forgotten."""
        known = self.inputs.get(node)
        if known is None or (node.inputs and known != node.inputs):
            known = self.inputs[node] = node.inputs
        origin = self.origin.get(node)
        return known if origin is None else (*known, origin)

    def ancestors(self, node: Node) -> set[Node]:
        found, todo = {node}, [node]
        while todo:
            for source in self.inputs_of(todo.pop()):
                if source not in found:
                    found.add(source)
                    todo.append(source)
        return found
