"""A run whose tasks an engine's workers compute, group by group.

The caller's thread makes a run and fetches its results; the engine's thread does the rest, one
step after the other. The run's `GroupQueue` decides which tasks go together; its `RunValues`
has their values from outside.

Policy: groups are made anew when more is known about the costs of their tasks. A group whose inputs
were lost is submitted again, after the groups that make them, and at most ten times. When a worker
dies, the tasks of its groups become suspects: each is run alone, with nothing else of the run
under way, until all of them are done or one has had all its runs. So only the task that ends
workers fails with `WorkerDied`.

A group, and the methods that move it::

              _regroup           submit               reported
    todo  ------------>  group  --------> under_way ------------> done: values arrive
      ^                                     |   |
      |         lost: inputs were lost      |   |  died: its worker died
      +-------------------------------------+   +----> suspects ---> alone, as a group of its own
                                                                     until it is done, or guilty

State of an `EngineRun`, which the engine's thread changes once the run has begun::

    under_way :: {number: TaskGroup}   submitted, and neither reported, lost nor given up
    queue :: GroupQueue                the tasks that are not submitted, `queue.todo`
    suspects :: Suspects               tasks to be run alone, and how many runs each has had
    errors :: {task: error}            of failed tasks, as they are raised
    wanted :: {task}                   results that did not arrive yet
    head :: (name, environment, flags) made as the run begins, never changed
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import count
from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.graph.plan import Plan
from lazyflow.graph.task import place_text
from lazyflow.schedulers.cluster.engine import Engine, HeldValue
from lazyflow.schedulers.cluster.group_queue import LONG, GroupQueue, Submission, TaskGroup
from lazyflow.schedulers.cluster.packing import Packer, RunValues, Unsendable, unsendable_tasks
from lazyflow.schedulers.cluster.results import EngineResult, Put, died_alone, gone, lost_for_good
from lazyflow.schedulers.cluster.work import GroupReport, tell_observers
from lazyflow.schedulers.core.base import Observer, Request
from lazyflow.schedulers.core.errors.records import rebuilt
from lazyflow.schedulers.core.future import TaskFuture, when_all_done
from lazyflow.schedulers.core.run import OffloadedRun
from lazyflow.schedulers.remote import environment

# -- the groups that a run waits for, in words --------------------------------------------


MOST_NAMES = 5  # of tasks, in a message


def pending_tasks(run: Any) -> list[str]:
    """Describe the tasks of an `EngineRun` that run now, if workers answer, and the next ones."""
    running = [(i, f"worker {where}") for where, i in run.engine.running(run)]
    named = {i for i, _ in running}
    waiting = [
        group.members[0] for group in tuple(run.under_way.values())
        if named.isdisjoint(group.members)
        and all(other.done for other in run.queue.needed(group))
    ]
    if not running and not waiting:
        waiting = run.plan.ready[-1:]
    running += [(i, "handed to the cluster") for i in waiting[:MOST_NAMES]]
    return [
        f"{run.task_name(i)}, made at {place_text(run.plan.tasks[i])} ({where})"
        for i, where in running
    ]


# -- the tasks of a run whose workers died: each is run alone, to find the one that ends workers


class Suspects:
    """Tasks that may have ended their workers, and the most runs that each may have had.

    tasks
        Those that are still to be run alone.
    """

    def __init__(self, queue: GroupQueue) -> None:
        self._queue = queue
        self._spent: dict[int, int] = {}
        self.tasks: set[int] = set()

    def charge(self, group: TaskGroup, runs: int) -> None:
        """Note that a group had so many runs, or none if it still waits for inputs."""
        if all(other.done for other in self._queue.needed(group)):
            for i in group.members:
                self._spent[i] = self._spent.get(i, 0) + runs
            group.runs -= runs

    def is_guilty(self, group: TaskGroup) -> bool:
        """Return whether the task of a group has had all its runs, the last one alone."""
        return group.is_counted and self._runs_left(group.members[0]) <= 0

    def _runs_left(self, i: int) -> int:
        return self._queue.crash_retries_of(i) + 1 - self._spent.get(i, 0)

    def error_of(self, group: TaskGroup, cause: BaseException) -> BaseException:
        """Return the error of a group whose task is guilty."""
        (i,) = group.members
        return died_alone(self._queue.plan.tasks[i], self._queue.crash_retries_of(i) + 1, cause)

    def add(self, group: TaskGroup) -> None:
        """Have the tasks of a group run alone."""
        self._queue.todo.update(group.members)
        self.tasks.update(group.members)

    def pop(self) -> TaskGroup | None:
        """Return the first one as a group of its own, or None if it is not needed any more."""
        first = min(self.tasks)
        self.tasks.remove(first)
        if first not in self._queue.todo:
            return None
        group = self._queue.group_of[first] = TaskGroup(self._queue.plan, [first], 0)
        group.runs = self._runs_left(first)
        return group


# -- runs ---------------------------------------------------------------------------------

_TRIES = 10  # of a group whose inputs were lost; a guess
_names = count(1)


def _drop_unneeded(reference: weakref.ref[EngineRun]) -> None:
    """Have a run look for tasks that it does not need any more: a future of it is gone."""
    run = reference()
    if run is not None and run.begun:
        run.engine.post(run.culled)


class EngineRun(OffloadedRun):
    """A run on the workers of an engine.

    Attributes
    ----------
    name
        The name of the run for workers.
    head
        The head of all groups' messages: that name, the caller's environment for tasks, and the
        options of the request that workers need (see work.py).
    under_way
        Groups that are submitted and not done, by number.
    suspects
        Tasks whose worker died.
    errors
        Errors of tasks, by number.
    """

    held_type = HeldValue

    def __init__(self, plan: Plan, request: Request, scheduler: Any, engine: Engine) -> None:
        super().__init__(plan, request, scheduler)
        self.engine = engine
        self.name = f"{next(_names)}"
        limit = request.num_workers
        self.inputs = RunValues(engine, engine.annotated_retries())
        self.queue = GroupQueue(
            plan, engine, self.failed, limit, self.inputs.leaves, request.crash_retries,
            engine.now,
        )
        self.under_way: dict[int, TaskGroup] = {}
        self.suspects = Suspects(self.queue)
        self.errors: dict[int, BaseException] = {}

    # -- the beginning ----------------------------------------------------------------------

    def _begin_tasks(self) -> None:
        """Collect the leaves; go on when all pending ones are done."""
        observers = self.observers
        observed = bool(observers.members), bool(observers.on_ran), observers.sampling
        flags = self.request.collect, self.request.check_mutation, *observed
        self.head = self.name, self.context.copy().run(environment.packed), flags
        self.wanted = set(self.plan.outputs)
        pending = self.inputs.take_leaves(self.plan, self.leaf_values)
        when_all_done(
            [future for _, future in pending], partial(self.engine.post, self._go, pending))

    def deliver(self, i: int, value: Any) -> None:
        """Never called: workers run the lazy values that their tasks return."""
        raise AssertionError("runs that tasks turn into are the workers' own")

    def deliver_error(self, i: int, error: BaseException) -> None:
        """Never called, as `deliver`."""
        raise AssertionError("runs that tasks turn into are the workers' own")

    def _go(self, pending: list[tuple[int, TaskFuture]]) -> None:
        for i, error in self.inputs.take_pending(pending):
            self.note_failure(i, error)
            if self.over:
                return
        leaves = set(self.plan.leaves)
        for i in leaves & self.wanted:
            self.arrived(i, self.inputs.leaves.get(i))
        self.queue.todo = set(range(self.plan.end)) - leaves
        if not self.over and self._admit():
            self._regroup()
            self.submit()

    def _admit(self) -> bool:
        """Fail the tasks that can't run on the cluster; return whether the run goes on."""
        for i, error in unsendable_tasks(self.queue):
            self._fail_task(i, error)
            if self.over:
                return False
        return True

    # -- handing over -----------------------------------------------------------------------

    def _regroup(self) -> None:
        self.queue.regroup(() if self.futures is None else self.wanted)

    def submit(self) -> None:
        """Submit the groups that may go now."""
        if self.over:
            return
        if self.suspects.tasks:
            self._try_suspect()
            return
        submissions: list[Submission] = []
        for group in self.queue.departing(self.under_way):
            submissions += self._packed(group)
            if self.stop:
                return
        if submissions:
            self.engine.submit(submissions)
        if self.queue.is_held_back():
            self.engine.later(LONG, self.submit)

    def _packed(self, group: TaskGroup) -> list[Submission]:
        """Pack a group; return an empty list if one of its tasks can't be packed."""
        packer = Packer(self)
        try:
            payload = packer.packed(group)
        except Unsendable as unsendable:
            i, error = unsendable.args
            self._fail_task(i, error)
            if not self.over:
                self._regroup()
            return []
        group.puts = [dep for dep in packer.deps if type(dep) is Put]
        group.handle = self.engine.new_handle(self, group)
        for part in group.parts:
            part.handle = self.engine.new_handle(self, group, is_part=True)
        self.under_way[group.number] = group
        self.queue.handed_over(group)
        options = self.plan.tasks[group.members[0]]._options
        return [Submission(self, group, payload, packer.deps, options)]

    def _on_drop(self) -> tuple[list[Callable[[Any], Any]], Any]:
        return [self.engine.post_end], (_drop_unneeded, (weakref.ref(self),))

    def cancel_task(self, i: int) -> None:
        super().cancel_task(i)
        if self.begun:
            self.engine.post(self.culled)

    # -- results ----------------------------------------------------------------------------

    def reported(self, group: TaskGroup, details: Iterable[Any]) -> None:
        """Handle the report on a group. A group whose result was lost may report twice."""
        if self.over or group.done or group.number not in self.under_way:
            return
        report = GroupReport(*details)
        del self.under_way[group.number]
        group.done = True
        self.queue.learn(report.times)
        for i, error in report.errors.items():
            self.errors[i] = rebuilt(error)
        tell_observers(self, report.events, report.sizes)
        for i in report.errors:
            self.note_failure(i, self.errors[i])
            if self.stop:
                return
        for i in group.outputs:
            if i in report.failed:
                self._inherit(i, report.failed[i])
            else:
                self.queue.learn_size(i, report.sizes.get(i, 0))
        self._settle(group, report)

    def _inherit(self, i: int, culprit: tuple[str, int]) -> None:
        run, j = culprit
        error = self.errors.get(j, self.failed.get(j)) if run == self.name else None
        if error is None:
            error = Cancelled("an input of the task failed in an earlier run")
        self.failed[i] = error

    def _settle(self, group: TaskGroup, report: GroupReport) -> None:
        """Deliver the results of a group, and release its inputs."""
        self.queue.note_done(group)
        for i in group.outputs:
            if i in self.wanted:
                value = None
                if i not in self.failed:
                    task = self.plan.tasks[i]
                    size, short = report.sizes.get(i, 0), report.short.get(i)
                    handle = group.part_of(i).handle
                    value = EngineResult(self.engine, handle, i, task, size, short)
                self.arrived(i, value)
        for kept in group.kept():
            if not kept.uses:
                self.queue.let_go(kept)
        if self.over:
            return
        if not self.suspects.tasks and self.queue.is_worth_regrouping():
            self._regroup()
        self.submit()

    def arrived(self, i: int, value: Any) -> None:
        super().arrived(i, value)
        if not self.wanted and not self.over:
            self._complete()
            self._clear_queue()

    def _fail_task(self, i: int, error: BaseException) -> None:
        """Fail a task that no worker has run."""
        self.queue.todo.discard(i)
        self.errors[i] = error
        self.observers.tell(Observer.task_failed, self, i, error)
        self.note_failure(i, error)
        if not self.over:
            self.arrived(i, None)

    # -- failures ---------------------------------------------------------------------------

    def lost(self, group: TaskGroup, error: BaseException) -> None:
        """Submit a group again, after an input was lost with the worker that held it."""
        if self.over or group.number not in self.under_way:
            return
        del self.under_way[group.number]
        group.tries += 1
        if group.tries > _TRIES:
            names = [self.task_name(i) for i in group.members[:MOST_NAMES]]
            self.cancel(lost_for_good(names, group.tries, error))
            return
        group.drop_puts()
        for j, task in self.inputs.lost(self.plan, group.members):
            if j not in self.failed:  # a result of an earlier run
                self.note_failure(j, gone(task, error))
        if group.is_counted:
            self.suspects.charge(group, self.engine.begun(group))
        for other in self.queue.needed(group):
            if other.done and any(self.engine.is_lost(k.handle) for k in other.kept() if k.uses):
                self._make_again(other, error)
        if self.stop:
            return
        if self.suspects.is_guilty(group):
            self._give_up_on(group, error)
        else:
            self.queue.take_back(group)
        self.submit()

    def _make_again(self, group: TaskGroup, error: BaseException) -> None:
        """Queue a group whose results are lost, unless its task must not run twice."""
        (*_, i) = group.members
        if self.queue.crash_retries_of(i):
            group.drop_puts()
            self.queue.take_back(group)
        else:
            self.note_failure(i, gone(self.plan.tasks[i], error))

    def died(self, group: TaskGroup, error: BaseException, runs: int) -> None:
        """Run the tasks of a group alone, one after the other: workers died over so many runs."""
        if self.over or group.number not in self.under_way:
            return
        del self.under_way[group.number]
        group.release()
        self.suspects.charge(group, runs)
        if self.suspects.is_guilty(group):
            self._give_up_on(group, error)
        else:
            self.suspects.add(group)
        self.submit()

    def _give_up_on(self, group: TaskGroup, error: BaseException) -> None:
        group.done = True
        self._fail_task(group.members[0], self.suspects.error_of(group, error))

    def refused(self, group: TaskGroup, error: BaseException, is_cause: bool) -> None:
        """Fail a task whose inputs no worker can hold; submit again a group that waited for one."""
        if self.over or group.number not in self.under_way:
            return
        del self.under_way[group.number]
        group.tries += not is_cause
        if is_cause or group.tries > _TRIES:
            group.release()
            group.done = True
            i = max(group.members, key=self.queue.needs)
            failed = self.queue.shortage(i, error)
            for j in dict.fromkeys((i, *group.outputs)):
                self._fail_task(j, failed)
        else:
            self.queue.take_back(group)
        self.submit()

    def _try_suspect(self) -> None:
        """Run one of the suspects, once nothing else of the run is under way."""
        if self.under_way:
            return
        group = self.suspects.pop()
        submissions = [] if group is None else self._packed(group)
        if submissions:
            self.engine.submit(submissions)
        if not self.suspects.tasks:
            self._regroup()
        if not submissions:
            self.submit()

    # -- the end ----------------------------------------------------------------------------

    def culled(self) -> None:
        """Drop the tasks that only dropped futures needed."""
        self.cull()
        if self.over or not self.unneeded:
            return
        dropped = [g for g in self.under_way.values() if self.unneeded.issuperset(g.members)]
        for group in dropped:
            del self.under_way[group.number]
        self.engine.give_up(self, [g for g in dropped if g.handle is not None])
        todo = self.queue.todo
        before = len(todo)
        todo -= self.unneeded
        self.wanted -= self.unneeded
        if not self.wanted:
            self._complete()
            self._clear_queue()
            return
        if len(todo) != before:
            self._regroup()
        self.submit()

    def _clear_queue(self) -> None:
        if self.begun:
            self.engine.post(self._let_go)

    def _let_go(self) -> None:
        self.engine.give_up(self, list(self.under_way.values()))
        self.under_way.clear()
        self.queue.clear()
        self.inputs.clear()
        self.errors = {}

    def _bring(self, held: Collection[Any]) -> None:
        missing = [r for r in held if type(r) is EngineResult and r.short is None]
        if missing:
            self.engine.bring(missing)

    def running(self) -> list[str]:
        """Describe the tasks that run now, as far as workers answer, and the next ones."""
        return pending_tasks(self) if self.begun else []
