"""A run on worker processes, and the job that is made of its plan.

The caller waits for a `PoolRun`. `NewJob` makes the nodes (decisions/nodes.py) that the pool works
on, in the caller's thread, since pickling may run the user's code. `EndedRun` stays while tasks of
the job may have to run again. The `report_` functions call the observers.

Who does what::

    caller's thread                       driver's thread
    PoolRun._begin_tasks
      NewJob(plan): nodes, links
      driver.add(new job)  ------------>  takes the job in, sends its batches
      waits                               report_start, report_result, ... for each answer
      |                                   arrived(i, value) for each wanted value
      |  <------------------------------  finish: all that is wanted is there
      merge: the last small steps
      fetches results                     an `EndedRun` takes the place of the run, while a
                                          value that the caller holds could be lost

State of a `PoolRun`, beside that of `BaseRun`, and who writes it::

    job :: Job                       `NewJob`; afterwards the decisions change it
    nodes :: [Node]                  `NewJob`, by number in the plan; [] from the end on
    merges :: {task: None}           `NewJob`: the tasks that the caller runs, in their order
    functions :: {number: Function}  `NewJob`; the driver releases them when it drops the job
    literals :: {memory: copy}       whoever pickles arguments; dropped by the driver
    is_known :: bool                 the driver, when it has taken the job in
    reported :: {id: error}          the driver: failures that observers were called with
    start_told :: {task}             `report_start`: told once, though a task may be sent twice
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter, thread_time
from typing import Any

from lazyflow import config
from lazyflow.clock import NEVER
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.plan import Plan, plan_of_lazy
from lazyflow.graph.task import HELD, VALUE, Task, call_arguments, is_leaf, place_text, task_name
from lazyflow.schedulers.core.base import Observer, Request, Worker
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.observing import RunObservers
from lazyflow.schedulers.core.run import OffloadedRun
from lazyflow.schedulers.processes.decisions.nodes import (
    ALWAYS,
    DONE,
    IF_SMALL,
    MISSING,
    WAITING,
    Job,
    Literal,
    Node,
)
from lazyflow.schedulers.processes.parent.values import Function, Owner, PoolValue
from lazyflow.schedulers.processes.protocol import NOTED, TaskNote, TaskSpan
from lazyflow.schedulers.remote.calls import (
    BLOB,
    Record,
    is_quick,
    is_quickly_packed,
    is_short,
    name_only,
    without_inputs,
)
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error

# -- merging ------------------------------------------------------------------------------
#
# The last steps of reductions, run by the caller that waits for them instead of a worker.
#
# The partial results of blocks come with the answers of the workers. To send them to a worker and
# wait for its answer takes 0.3 ms, to merge them here some 20 µs. Only functions whose authors say
# so by an attribute ``_lazyflow_by_caller = True`` are run here: their inputs are small, they don't
# wait, have no effects, and fail only if an input is wrong. All other functions, and so the user's
# own, stay in the workers.


def merges_of(plan: Plan, request: Request) -> dict[int, None]:
    """Return the numbers of the tasks that the caller runs, each after those that it needs.

    Nothing that a worker runs needs their results.
    """
    first = max((i for i in plan.outputs if _is_merge(plan.tasks[i])), default=-1)
    if first < 0 or request.background:
        return {}
    merged: set[int] = {plan.end}
    for i in range(first, -1, -1):
        if _is_merge(plan.tasks[i]) and merged.issuperset(plan.uses(i)) and not any(
            plan.tasks[j]._func in (VALUE, HELD) for j in plan.inputs[i] or ()
        ):
            merged.add(i)
    return dict.fromkeys(sorted(merged - {plan.end}))


def _is_merge(task: Task) -> bool:
    return task._options is DEFAULT and getattr(task._func, "_lazyflow_by_caller", False) is True


def wanted_of(plan: Plan, merges: dict[int, None]) -> Iterable[int]:
    """Return the numbers of the tasks whose values the caller needs of the workers."""
    needed = [*plan.outputs, *(j for i in merges for j in plan.inputs[i] or ())]
    return [i for i in dict.fromkeys(needed) if i not in merges]


def merge(run: Any, i: int) -> None:
    """Run a task of a run whose inputs have come."""
    task, numbers = run.plan.tasks[i], run.plan.inputs[i]
    broken = next((j for j in numbers if j in run.failed), None)
    if broken is not None:
        run.failed[i] = run.failed[broken]
        return
    observers, values = run.observers, run.values
    if observers.on_start:
        observers.tell(Observer.task_started, run, i)
    given: list[Any] = []
    start, cpu = (perf_counter(), thread_time()) if observers.on_ran else (0.0, 0.0)
    try:
        for j in numbers:
            if type(values[j]) is PoolValue:
                values[j] = values[j].get()
            given.append(values[j])
        args, kwargs = call_arguments(task, given)
        values[i] = task._func(*args, **kwargs)
    except Exception as error:
        _fail(run, i, dressed(error, task, given), given)
        return
    finally:
        if observers.on_ran:
            name = threading.current_thread().name
            observers.tell(
                Observer.task_ran, run, i, name, start, perf_counter(), thread_time() - cpu, None
            )
    if observers.on_end:
        observers.tell(Observer.task_ended, run, i)


def _fail(run: Any, i: int, error: BaseException, given: list[Any]) -> None:
    run._keep_call(i, error, given)
    run.observers.tell(Observer.task_failed, run, i, error)
    if run.request.collect:
        run.failed[i] = error
    else:
        run.error = error


# -- runs ---------------------------------------------------------------------------------

_numbers = count(1)


class _Nudge:
    """Stands in for `Run.attention`: an append to it wakes the driver. Never locks."""

    def __init__(self, run: PoolRun) -> None:
        self._run = weakref.ref(run)

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None and run.driver is not None:
            run.driver.loop.post(run.driver.runs.cull, self._run)


class PoolRun(OffloadedRun):
    """A run on worker processes.

    The caller's thread makes the job, runs `merges` and fetches results; the driver does the rest.
    """

    held_type = PoolValue
    job: Job
    driver: Any = None  # a Driver, from `start` on
    is_known = False  # whether the driver has taken it in
    environment: bytes

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.attention = _Nudge(self)
        self.number = next(_numbers)
        self.is_inner = self.parent is not None  # it computes a lazy value that a task returned
        if self.parent is not None:
            self.driver, self.environment = self.parent[0].driver, self.parent[0].environment
        self.nodes: list[Node] = []  # by number in the plan
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

    def _begin_tasks(self) -> None:
        self.driver.add(NewJob(self, self.driver))

    def deliver(self, i: int, value: Any) -> None:
        """Take the value of the lazy value that task `i` returned."""
        self.driver.loop.post(self.driver.values.delivered, self, i, value, None)

    def deliver_error(self, i: int, error: BaseException) -> None:
        """Take the failure of the lazy value that task `i` returned."""
        self.driver.loop.post(self.driver.values.delivered, self, i, None, error)

    def _clear_queue(self) -> None:
        if self.driver is not None:  # else it was cancelled before it was started
            self.driver.loop.post(self.driver.runs.end, self)

    def _on_drop(self) -> tuple[list[Callable[[Any], Any]], Any]:
        if self.driver is None:
            return [], None
        callbacks, then = self.driver.loop.on_drop(self.driver.runs.cull, weakref.ref(self))
        return callbacks, then

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
        """Run the tasks left for the caller, in its thread, and tell observers of the end."""
        try:
            for i in self.merges:
                if self.error is not None:
                    return
                merge(self, i)
            if self.edits is not None and (edited := self.edits()) is not None:
                raise edited
        finally:
            self.observers.tell(Observer.run_ended, self)


class EndedRun:
    """The part of an ended run that is kept while its tasks may have to run again.

    It is the parent of the runs that make lost values again whose tasks had returned lazy ones.
    Observers are not called then, and an error is that of the value alone.
    """

    over = True
    attached, deadline = None, NEVER
    stop = ()
    observers = RunObservers()  # they were told of its end

    def __init__(self, run: PoolRun) -> None:
        old = run.request
        self.request = old._replace(collect=True, observers=(), light=False)
        self.driver = run.driver
        self.job = run.job
        self.number = run.number
        self.is_inner = run.is_inner
        self.environment = run.environment
        self.functions = run.functions
        self.literals = run.literals
        self.watches = run.watches
        self.children: set[Any] = set()
        self._scheduler = run.scheduler
        self._remade: dict[int, Node] = {}

    def remake(self, node: Node, lazy: Any) -> None:
        """Compute the lazy value that the task of a node has returned again."""
        self._remade[node.i] = node
        try:
            plan = plan_of_lazy(lazy)
        except BaseException as error:
            self.deliver_error(node.i, dressed(error, node.task, None))
            return
        self.job.later[node] = self
        run = PoolRun(plan, self.request, self._scheduler, (self, node.i))
        self.children.add(run)
        run.begin()

    def task(self, i: int) -> Task:
        """Return a task that ran again."""
        return self._remade[i].task

    def node_of(self, i: int) -> Node:
        """Return the node of a task that ran again."""
        return self._remade[i]

    def deliver(self, i: int, value: Any) -> None:
        """Take a value that was made again, from any thread."""
        self.driver.loop.post(self.driver.values.remade, self._remade[i], value, None)

    def deliver_error(self, i: int, error: BaseException) -> None:
        """Take the failure of such a value, from any thread."""
        self.driver.loop.post(self.driver.values.remade, self._remade[i], None, error)


class ProcessInside(Worker):
    """A worker process as a run sees it: the shared word has the id of the task that it runs."""

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


def report_start(run: PoolRun, node: Node) -> None:
    """Tell observers that a task starts; once, though it may be taken back and sent again."""
    if node.i not in run.start_told and run.observers.on_start and not is_leaf(node.task):
        run.start_told.add(node.i)
        run.observers.tell(Observer.task_started, run, node.i)


def report_result(
    run: PoolRun, node: Node, member: Any, span: TaskSpan | None, size: int
) -> None:
    """Call the observers of a task that a worker, `member`, has done."""
    report_call(run, node, member, span, size)
    if not is_leaf(node.task):  # a worker passes on a value of another run
        run.observers.tell(Observer.task_ended, run, node.i)


def report_call(
    run: PoolRun, node: Node, member: Any, span: TaskSpan | None, size: int
) -> None:
    """Tell observers that a worker called a task, and when if it was timed."""
    report_start(run, node)
    if span is not None and not is_leaf(node.task):
        _, start, end, cpu = span
        name = f"process {member.inside.name}"
        run.observers.tell(
            Observer.task_ran, run, node.i, name, start, end, cpu, size or None
        )


def report_moved(
    run: PoolRun, nodes: list[Node], records: list[Record], loads: list[tuple[int, Any]]
) -> None:
    """Tell observers how much is sent for tasks; a value for several, for the first of them."""
    sizes = {i: value[2] for i, value in loads if type(value) is tuple}
    for node, (_, _, arguments, inputs, _, flags, _) in zip(nodes, records, strict=True):
        size = arguments[2] if flags & BLOB else 0
        for i in inputs or () if sizes else ():
            size += sizes.pop(i, 0)
        if size and not is_leaf(node.task):
            run.observers.tell(Observer.task_moved, run, node.i, size)


def report_notes(member: Any, notes: list[TaskNote]) -> None:
    """Tell observers of the notes of a worker, `member`, on tasks that it has not answered yet."""
    for event, i, *note in notes:
        node = member.nodes.get(i)
        run = None if node is None else node.job.run
        if node is None or run is None or node.job.over or is_leaf(node.task):
            continue
        run.observers.tell(NOTED[event], run, node.i, *note)


# -- jobs of plans ------------------------------------------------------------------------
#
# A job is built from the plan of a run: a node for each task, linked to nodes of held values.
#
# The caller's thread does this, since pickling a function may run the user's code and raise; no
# other thread knows of the job before the driver takes it in.


class NewJob:
    """A job in the making.

    Attributes
    ----------
    given
        Wanted values that are there already, by number.
    broken
        Nodes that can't run, and why.
    pending
        Futures of other schedulers whose values come later, and the nodes that stand for them.
    """

    def __init__(self, run: PoolRun, driver: Owner) -> None:
        self.run = run
        self.driver = driver
        plan, request = run.plan, run.request
        is_background = request.background
        if run.parent is None:
            workers = request.num_workers or config.default_workers()
            crash_retries = request.crash_retries
        else:
            maker, i = run.parent
            workers, crash_retries = maker.job.cap, maker.job.crash_retries_of(maker.task(i))
        self.job = run.job = Job(
            run, workers, is_background, has_priorities=bool(plan.priorities),
            is_limited=request.memory_limit is not None,
        )
        self.job.crash_retries = crash_retries
        self.given: dict[int, Any] = {}
        self.broken: list[tuple[Node, BaseException]] = []
        self.pending: list[tuple[Any, Node]] = []
        self._functions: dict[int, int] = {}
        self._errors: dict[int, BaseException] = {}  # of functions that can't be sent
        self._nodes: list[Node] = []
        self._literals: list[Node] = []
        if run.parent is None:
            run.merges = merges_of(plan, request)
        self._link_all()
        self._want_outputs(is_background and run.parent is None)

    def _link_all(self) -> None:
        run, plan, job = self.run, self.run.plan, self.job
        nodes, own = self._nodes, job.nodes
        has_held = any(plan.tasks[i]._func is HELD for i in plan.leaves)
        known, least = self._functions, self.driver.memory.least
        for i, (task, numbers) in enumerate(zip(plan.tasks, plan.inputs, strict=True)):
            func = task._func
            if numbers is None and (func is VALUE or func is HELD):
                nodes.append(self._leaf(i, task))
                continue
            if i in run.merges:
                nodes.append(Node(job, i, task, 0))  # in no list of the job: no worker gets it
                continue
            function = known.get(id(func))
            if function is None:
                function = self._function(task, func)
            if has_held and any(t._func is HELD for t in task._inputs):
                task = without_inputs(task)
            node = Node(job, i, task, function)
            if i in run.watches or not is_quickly_packed(task, least):
                node.packed = ()
            if numbers is not None:
                if len(numbers) == 1:
                    source = nodes[numbers[0]]
                    node.inputs = node.distinct = (source,)
                else:
                    node.inputs = tuple([nodes[j] for j in numbers])
                    distinct = node.inputs
                    if len(set(distinct)) < len(distinct):
                        distinct = tuple(dict.fromkeys(distinct))
                    node.distinct = distinct
                for source in node.distinct:
                    if source.job is job:
                        source.users.append(node)
            if function < 0:
                self.broken.append((node, self._errors[function]))
            nodes.append(node)
            own.append(node)
        for node in own:
            node.left = node.unsent = len(node.users)
            node.keep = 1 if node.users else 0
        for node in self._literals:
            self._pack_first(node)
        if plan.has_scheduler_options:
            job.once = {node: False for node in own if node.task._options.crash_retries == 0}
        run.nodes = nodes
        if job.once and run.parent is not None:
            self._keep_once(*run.parent)

    @staticmethod
    def _keep_once(maker: PoolRun, i: int) -> None:
        """Keep a task from running again that returned some which must run once."""
        made = maker.node_of(i)
        if made is not None:
            made.job.once.setdefault(made, False)

    def _pack_first(self, node: Node) -> None:
        """Have a value that tasks need wait until another thread has pickled it, if need be."""
        value = node.value.value
        if node.users and not is_quick((value,), self.driver.memory.least):
            node.phase, node.packed = WAITING, ()

    def _function(self, task: Task, func: Any) -> int:
        try:
            function = self.driver.functions.function_of(func)
            self.run.functions[function.number] = function
            number = function.number
        except Unpicklable as error:
            number = -1 - len(self._errors)
            text = f"{task_name(task)}, made at {place_text(task)}"
            failure = serialization_error(text, "function", error)
            self._errors[number] = dressed(failure, task, None)
        self._functions[id(func)] = number
        return number

    def _leaf(self, i: int, task: Task) -> Node:
        """Return the node of a value: literal, or held by a future."""
        if task._func is VALUE:
            return self._literal(i, task, self.run.leaf_values.get(i, task._args[0]))
        future = task._args[0]
        if not future.done():
            coming = self._coming(i, task, future)
            if coming is not None:
                return coming
        value, error = future.local_outcome()
        if error is not None:
            node = Node(self.job, i, without_inputs(task), 0)
            self.job.nodes.append(node)
            self.broken.append((node, error))
            return node
        if type(value) is PoolValue and value.driver is self.driver and value.node is not None:
            return value.node
        if future.is_elsewhere():
            value = value.get()
        return self._literal(i, task, value)

    def _coming(self, i: int, task: Task, future: Any) -> Node | None:
        """Return a node for a value that is being made; None when it came just now."""
        run = future.run
        node = Node(self.job, i, without_inputs(task), self.driver.functions.identity)
        if run is not None and getattr(run[0], "driver", None) is self.driver:
            try:
                source = run[0].nodes[run[1]]
            except IndexError:
                return None
            node.inputs = node.distinct = (source,)
        else:
            node.open = 1  # until the value is delivered
        self.job.nodes.append(node)
        self.pending.append((future, node))
        return node

    def settle(self) -> None:
        """Take values that came while the job was linked: small ones need no node any more."""
        for future, node in self.pending:
            if not future.done():
                continue
            value, error = future.local_outcome()
            if error is not None:
                self.broken.append((node, error))
            elif type(value) is PoolValue:
                if value.driver is self.driver and value.node is not None:
                    node.inputs = node.distinct = (value.node,)
                    node.open = 0
            elif not future.is_elsewhere():  # else the driver has it brought
                node.inputs = node.distinct = ()
                node.open = 0
                node.phase = DONE
                node.value = value if is_short(value) else Literal(value)
                if node.want:
                    self.given[node.i] = value
                if type(node.value) is Literal:
                    self._pack_first(node)

    def _literal(self, i: int, task: Task, value: Any) -> Node:
        node = Node(self.job, i, name_only(task), 0)
        node.phase = DONE
        if is_short(value):
            node.value = value
        else:
            node.value = Literal(value)
            self._literals.append(node)
        self.job.nodes.append(node)
        return node

    def _want_outputs(self, is_held: bool) -> None:
        """Mark the tasks that the end of the run needs; pass on values that other runs hold.

        The value of a future stays in its worker, unless the function says that it is to come.
        """
        job, nodes = self.job, self._nodes
        for i in wanted_of(self.run.plan, self.run.merges):
            node = nodes[i]
            if node.job is job and (node.phase == DONE or type(node.value) is Literal):
                value = node.value
                self.run.wanted.add(i)
                self.given[i] = value.value if type(value) is Literal else value
                node.pinned = True  # the end of the job lets it go
                node.left += 1
                continue
            if node.job is not job:
                if not is_held and node.phase == DONE and node.value is not MISSING:
                    self.run.wanted.add(i)  # it is held, and stays here
                    self.given[i] = self.run.plan.tasks[i]._args[0].local_outcome()[0]
                    continue
                task = without_inputs(self.run.plan.tasks[i])
                passed = Node(job, i, task, self.driver.functions.identity)
                passed.inputs = passed.distinct = (node,)
                job.nodes.append(passed)
                nodes[i] = node = passed
            stays = is_held and not getattr(node.task._func, "_lazyflow_brought", False)
            node.want = IF_SMALL if stays else ALWAYS
            if stays:
                node.keep = 1
                node.task = without_inputs(node.task)
                node.pinned = True
                node.left += 1
            self.run.wanted.add(i)
