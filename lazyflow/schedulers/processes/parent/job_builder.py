"""A job is built from the plan of a run: a node for each task, linked to nodes of held values.

This is done in the caller's thread, so that what pickling a function runs, and what it raises, is
the caller's; no other thread knows of the job before the driver takes it in.
"""

from __future__ import annotations

from typing import Any, Protocol

from lazyflow import config
from lazyflow.graph.task import HELD, VALUE, Task, place_text, task_name
from lazyflow.schedulers.core.errors.failures import dressed
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
from lazyflow.schedulers.processes.parent.functions import FunctionTable
from lazyflow.schedulers.processes.parent.merging import merges_of, wanted_of
from lazyflow.schedulers.processes.parent.pool_value import Owner, PoolValue
from lazyflow.schedulers.processes.parent.remote_run import RemoteRun
from lazyflow.schedulers.remote.calls import is_quick, is_quickly_packed, is_short
from lazyflow.schedulers.remote.task_stub import name_only, without_inputs
from lazyflow.store.pickling.serialize import Unpicklable, serialization_error


class BuildingDriver(Owner, Protocol):
    """What the making of a job needs of the driver."""

    functions: FunctionTable


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

    def __init__(self, run: RemoteRun, driver: BuildingDriver) -> None:
        self.run = run
        self.driver = driver
        plan, request = run.plan, run.request
        is_background = request.background
        if run.parent is None:
            # That may have tasks of the run at once.
            count = request.num_workers or config.get("num_workers") or config.default_workers()
            workers, crash_retries = int(count), config.get("crash_retries")
        else:  # this is the driver's thread, where the caller's settings are not seen
            maker, i = run.parent
            workers, crash_retries = maker.job.cap, maker.job.crash_retries_of(maker.task(i))
        self.job = run.job = Job(
            run, workers, is_background, has_priorities=bool(plan.priorities)
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
    def _keep_once(maker: RemoteRun, i: int) -> None:
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
            found = function.number
        except Unpicklable as error:
            found = -1 - len(self._errors)
            text = f"{task_name(task)}, made at {place_text(task)}"
            failure = serialization_error(text, "function", error)
            self._errors[found] = dressed(failure, task, None)
        self._functions[id(func)] = found
        return found

    def _leaf(self, i: int, task: Task) -> Node:
        """Return the node of a value: literal, or held by a future."""
        if task._func is VALUE:
            return self._literal(i, task, self.run.leaf_values.get(i, task._args[0]))
        future = task._args[0]
        if not future.done():
            found = self._coming(i, task, future)
            if found is not None:
                return found
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
        """Take what came while the job was linked: small values need no node any more."""
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
        """Mark what the end of the run needs, and have held values of other runs handed on."""
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
            node.want = IF_SMALL if is_held else ALWAYS
            if is_held:
                node.keep = 1
                node.task = without_inputs(node.task)
                node.pinned = True
                node.left += 1
            elif node.task._options.crash_retries == 0:
                node.want = ALWAYS
            self.run.wanted.add(i)
