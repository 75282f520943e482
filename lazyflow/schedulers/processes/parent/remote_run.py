"""Runs whose tasks other processes compute, as the rest of the library sees them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import Any

from lazyflow.graph.task import Task, is_leaf
from lazyflow.schedulers.core.base import Request, Worker
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.lifecycle import Lifecycle, plan_of
from lazyflow.schedulers.core.observing import RunObservers
from lazyflow.schedulers.processes.decisions.nodes import Job, Node
from lazyflow.schedulers.processes.parent.functions import Function
from lazyflow.schedulers.processes.parent.merging import merge
from lazyflow.schedulers.processes.parent.pool_value import PoolValue
from lazyflow.schedulers.processes.protocol import TaskNote, TaskSpan
from lazyflow.schedulers.remote.calls import BLOB, Record

_numbers = count(1)


class _Nudge:
    """Stands in for `Run.attention`: an append to it wakes the driver. Never locks."""

    def __init__(self, run: RemoteRun) -> None:
        self._run = weakref.ref(run)

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None and run.driver is not None:
            run.driver.loop.post(run.driver.runs.cull, self._run)


class RemoteRun(Lifecycle):
    """A run on worker processes; everything but waiting happens in the driver's thread."""

    job: Job
    driver: Any = None  # a Driver, from `start` on
    is_known = False  # whether the driver has taken it in
    environment: bytes

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.attention = _Nudge(self)
        self.number = next(_numbers)
        self.is_inner = self.parent is not None  # a task returned what it computes
        self.nodes: list[Node] = []  # by number in the plan
        self.wanted: set[int] = set()  # numbers of results that are not there yet
        self.reported: dict[int, BaseException] = {}  # failures that observers were called with
        self.start_told: set[int] = set()  # tasks of whose start observers heard
        self.functions: dict[int, Function] = {}  # of its tasks
        self.literals: dict[Any, Any] = {}  # memory of arguments that was copied for workers
        self.merges: dict[int, None] = {}  # tasks that the caller runs, when all else is there

    def task(self, i: int) -> Task:
        """Return the task of a number."""
        return self.plan.tasks[i]

    def node_of(self, i: int) -> Node | None:
        """Return the node of a number; None when the run is over."""
        return self.nodes[i] if self.nodes else None

    def begin(self) -> None:
        """Hand a run that a task turned into to the workers."""
        self.scheduler.begin(self)

    def deliver(self, i: int, value: Any) -> None:
        """Take what a run made in the place of task `i`."""
        self.driver.loop.post(self.driver.values.delivered, self, i, value, None)

    def refuse(self, i: int, error: BaseException) -> None:
        """Take the failure of what was made in the place of task `i`."""
        self.driver.loop.post(self.driver.values.delivered, self, i, None, error)

    def _clear_queue(self) -> None:
        if self.driver is not None:  # else it was cancelled before it was started
            self.driver.loop.post(self.driver.runs.end, self)

    def _on_drop(self) -> tuple[list[Callable[[Any], Any]], Any]:
        if self.driver is None:
            return [], None
        callbacks, then = self.driver.loop.on_drop(self.driver.runs.cull, weakref.ref(self))
        return callbacks, then

    def arrived(self, i: int, value: Any) -> None:
        """Take a wanted value. Called by the driver; a value that was lost may come twice."""
        if i not in self.wanted:
            return
        self.wanted.discard(i)
        if self.futures is not None:
            reference = self.futures.pop(i, None)
            future = reference() if reference is not None else None
            if future is not None:
                error = self.failed.get(i)
                if error is not None:
                    future.set_error(error)
                else:
                    future.set_value(value)
        elif self.values:
            self.values[i] = value

    def finish(self) -> None:
        """End the run: every wanted value is there, or has failed."""
        if not self.merges:
            self._complete()
            return
        try:
            self._closing.pop()
        except IndexError:
            return
        self._ended.set()  # the caller ends it

    def merge(self) -> None:
        """Run what is left for the caller, which has waited for the end, and tell of that."""
        try:
            for i in self.merges:
                if self.error is not None:
                    return
                merge(self, i)
        finally:
            self.observers.run_ended(self)

    def fetch(self) -> None:
        """Open the wanted values, in the caller's thread: that may run the user's code."""
        for i in dict.fromkeys(self.plan.outputs):
            value = self.values[i]
            if type(value) is not PoolValue or i in self.failed:
                continue
            try:
                self.values[i] = value.get()
            except BaseException as error:
                if not isinstance(error, Exception):
                    raise
                if not self.request.collect:
                    raise
                self.failed[i] = error
                self.values[i] = None


class EndedRun:
    """What is kept of a run that is over while its tasks may have to run again."""

    over = True
    observers = RunObservers()  # they were told of its end

    def __init__(self, run: RemoteRun) -> None:
        self.driver = run.driver
        self.scheduler = run.scheduler
        self.request = run.request
        self.number = run.number
        self.is_inner = run.is_inner
        self.environment = run.environment
        self.functions = run.functions
        self.literals = run.literals
        self.watches = run.watches


class RemakingParent:
    """The parent of a run that makes a lost value again, whose task had returned a lazy value.

    The run of that task is over, so this takes its place: observers are not called, and an error is
    that of the value alone.
    """

    attached = deadline = None
    stop = ()

    def __init__(self, node: Node, ended: EndedRun) -> None:
        self.driver = ended.driver
        self.node = node
        self.job = node.job
        self.environment = ended.environment
        old = ended.request
        self.request = Request(old.num_workers, True, old.background, old.check_mutation)
        self.children: set[Any] = set()
        self._scheduler = ended.scheduler

    def compute(self, lazy: Any) -> None:
        """Begin the run."""
        i = self.node.i
        try:
            plan = plan_of(lazy)
        except BaseException as error:
            self.refuse(i, dressed(error, self.node.task, None))
            return
        self.job.later[self.node] = self
        run = RemoteRun(plan, self.request, self._scheduler, (self, i))
        self.children.add(run)
        run.begin()

    def task(self, _: int) -> Task:
        """Return the task that the run is for."""
        return self.node.task

    def node_of(self, _: int) -> Node:
        """Return the node that the run is for."""
        return self.node

    def deliver(self, _: int, value: Any) -> None:
        """Take the result, from any thread."""
        self.driver.loop.post(self.driver.values.remade, self.node, value, None)

    def refuse(self, _: int, error: BaseException) -> None:
        """Take the failure, from any thread."""
        self.driver.loop.post(self.driver.values.remade, self.node, None, error)


class ProcessInside(Worker):
    """A worker process as a run sees it: what it runs is read from the shared word."""

    __slots__ = ("_owner",)

    kind = "process"

    def __init__(self, name: str, owner: Any) -> None:
        self._owner = owner
        super().__init__(name)

    def now(self) -> tuple[Any, int]:
        """Return the run and the number of the task that runs there; (None, -1) when none does."""
        node = self._owner.running()
        if node is None or node.job.run is None:
            return None, -1
        return node.job.run, node.i


def report_start(run: RemoteRun, node: Node) -> None:
    """Tell observers that a task starts; once, though it may be taken back and sent again."""
    if node.i not in run.start_told and run.observers.on_start and not is_leaf(node.task):
        run.start_told.add(node.i)
        run.observers.task_started(run, node.i)


def report_result(
    run: RemoteRun, node: Node, member: Any, span: TaskSpan | None, size: int
) -> None:
    """Call the observers of a task that a worker, `member`, has done."""
    report_call(run, node, member, span, size)
    if not is_leaf(node.task):  # a worker passes on a value of another run
        run.observers.task_ended(run, node.i)


def report_call(
    run: RemoteRun, node: Node, member: Any, span: TaskSpan | None, size: int
) -> None:
    """Tell observers that a worker called a task, and when if it was timed."""
    report_start(run, node)
    if span is not None and not is_leaf(node.task):
        _, start, end, cpu = span
        name = f"process {member.inside.name}"
        run.observers.task_ran(run, node.i, name, start, end, cpu, size or None)


def report_moved(
    run: RemoteRun, nodes: list[Node], records: list[Record], loads: list[tuple[int, Any]]
) -> None:
    """Tell observers how much is sent for tasks; a value for several, for the first of them."""
    sizes = {i: value[2] for i, value in loads if type(value) is tuple}
    for node, (_, _, arguments, inputs, _, flags, _) in zip(nodes, records, strict=True):
        size = arguments[2] if flags & BLOB else 0
        for i in inputs or () if sizes else ():
            size += sizes.pop(i, 0)
        if size and not is_leaf(node.task):
            run.observers.task_moved(run, node.i, size)


def report_notes(member: Any, notes: list[TaskNote]) -> None:
    """Tell observers what a worker, `member`, has noted of tasks that it has not answered yet."""
    for i, *note in notes:
        node = member.nodes.get(i)
        run = None if node is None else node.job.run
        if node is None or run is None or node.job.over or is_leaf(node.task):
            continue
        if len(note) == 1:
            run.observers.task_compiled(run, node.i, *note)
        else:
            run.observers.task_sampled(run, node.i, *note)
