"""A run whose tasks an engine's workers compute, group by group.

Everything here but `fetch` happens in the scheduler's thread, one step after the other.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.cluster.groups import Group, There
from lazyflow.schedulers.cluster.results import Put, Remote, gone
from lazyflow.schedulers.cluster.submission import Feeding
from lazyflow.schedulers.cluster.work import ENDED, FAILED, STARTED
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.errors.records import rebuilt
from lazyflow.schedulers.core.lifecycle import doing

_MOST_NAMES = 5  # of tasks that wait for a worker, in a message
_TRIES = 10  # of a group whose inputs were lost


class EngineRun(Feeding):
    """A run on the workers of an engine."""

    # -- what arrives -----------------------------------------------------------------------

    def reported(self, group: Group, report: tuple[Any, ...]) -> None:
        """Take what a worker says of a group; one whose result was lost may come twice."""
        if self.over or group.done or group.number not in self.under_way:
            return
        _, short, failed, records, times, events = report
        del self.under_way[group.number]
        group.done = True
        self._done += len(group.members)
        for digest, (times_run, seconds) in times.items():
            if digest not in self.engine.costs:
                self._has_learnt = True
            self.engine.learn(digest, times_run, seconds)
        for i, error in records.items():
            self.errors[i] = rebuilt(error)
        if self.observers.members:
            self._tell(events)
        for i in records:
            self.note_failure(i, self.errors[i])
            if self.stop:
                return
        for i in group.outputs:
            if i in failed:
                self._inherit(i, failed[i])
            elif i in self.wanted and self.engine.learn_size(self.functions[i][0], i in short):
                self._has_learnt = True
        self._settle(group, short)

    def _inherit(self, i: int, culprit: tuple[str, int]) -> None:
        run, j = culprit
        error = None
        if run == self.name:
            error = self.errors.get(j, self.failed.get(j))
        if error is None:
            error = Cancelled("an input of the task failed in an earlier run")
        self.failed[i] = error

    def _settle(self, group: Group, short: dict[int, Any]) -> None:
        """Hand on what a group has made, and let go of what it needed."""
        for i in group.members:
            for j in self.plan.inputs[i] or ():
                other = self.group_of.get(j)
                if other is not None and other is not group:
                    other.uses -= 1
                    if not other.uses and other.done:
                        other.handle = None
        for i in group.outputs:
            if i in self.wanted:
                value = None
                if i not in self.failed:
                    task = self.plan.tasks[i]
                    value = Remote(self.engine, group.handle, i, task, short.get(i))
                self._arrived(i, value)
        if not group.uses:
            group.handle = None
        if self.over:
            return
        remaining = len(self.todo)
        is_worth_it = self._done - self._done_before >= remaining // 8 or self._done < 64
        if self._has_learnt and remaining and is_worth_it and not self.suspects:
            self._regroup()
        self._feed()

    def _arrived(self, i: int, value: Any) -> None:
        if i not in self.wanted:
            return
        self.wanted.discard(i)
        error = self.failed.get(i)
        if self.futures is not None:
            reference = self.futures.pop(i, None)
            future = reference() if reference is not None else None
            if future is not None:
                if error is not None:
                    future.set_error(error)
                else:
                    future.set_value(value)
        elif self.values:
            self.values[i] = value
        if not self.wanted:
            self._complete()
            self._clear_queue()

    def _tell(self, events: Any) -> None:
        for what, i in events:
            if what == STARTED:
                self.observers.task_started(self, i)
            elif what == ENDED:
                self.observers.task_ended(self, i)
            elif what == FAILED and i in self.errors:
                self.observers.task_failed(self, i, self.errors[i])

    def _fail_task(self, i: int, error: BaseException) -> None:
        """Let a task fail that no worker ran."""
        self.todo.discard(i)
        self.errors[i] = error
        self.observers.task_failed(self, i, error)
        self.note_failure(i, error)
        if not self.over:
            self._arrived(i, None)

    def note_failure(self, i: int, error: BaseException) -> None:
        """End the run with the error, or leave it to the users of the result."""
        if self.request.collect:
            self.failed[i] = error
        else:
            super().note_failure(i, error)

    # -- what goes wrong --------------------------------------------------------------------

    def lost(self, group: Group, error: BaseException) -> None:
        """Take that an input of a group is gone, with whoever held it: send it again."""
        if self.over or group.number not in self.under_way:
            return
        del self.under_way[group.number]
        group.tries += 1
        if group.tries > _TRIES:
            self.cancel(self._lost_for_good(group, error))
            return
        for put in group.puts:
            put.handle = None
        self._fail_leaves(group, error)
        if self.stop:
            return
        for other in self._needed(group):
            if other.done and self.engine.is_lost(other.handle):
                other.handle, other.done = None, False
                self.todo.update(other.members)
                for put in other.puts:
                    put.handle = None
                self._line_up(other)
        group.handle = None
        self.todo.update(group.members)
        self._line_up(group)
        self._feed()

    def _fail_leaves(self, group: Group, error: BaseException) -> None:
        """Give up results of earlier runs that a group needs and the engine has lost."""
        for i in group.members:
            for j in self.plan.inputs[i] or ():
                value = self._leaf.get(j)
                if (
                    type(value) is Remote and j not in self.failed
                    and self.engine.is_lost(value.handle)
                ):
                    self.note_failure(j, gone(value, error))

    def _lost_for_good(self, group: Group, error: BaseException) -> WorkerDied:
        names = ", ".join(dict.fromkeys(self.task_name(i) for i in group.members[:5]))
        died = WorkerDied(
            f"the inputs of {names} were lost {group.tries} times, with the workers that held "
            "them. Look at the workers' logs for why they end."
        )
        died.__cause__ = error
        return died

    def died(self, group: Group, error: BaseException, deaths: str) -> None:
        """Take that workers died over a group: run its tasks one at a time to find the cause."""
        if self.over or group.number not in self.under_way:
            return
        del self.under_way[group.number]
        group.handle = None
        if len(group.members) == 1 and group.tries < 0:
            i = group.members[0]
            died = WorkerDied(
                f"{deaths} ended while running this task alone. It may have run out of memory, "
                "crashed in C code or called os._exit: run it with scheduler=\"sync\" to see."
            )
            died.__cause__ = error
            group.done = True
            self._fail_task(i, dressed(died, self.plan.tasks[i], None))
        else:
            self.todo.update(group.members)
            self.suspects.extend(group.members)
        self._feed()

    def _try_suspect(self) -> None:
        """Run one of the suspects, when nothing else of the run is under way."""
        if self.under_way:
            return
        ordered = sorted(set(self.suspects))
        first = ordered[0]
        self.suspects = deque(ordered[1:])
        if first not in self.todo:
            if not self.suspects:
                self._regroup()
            self._feed()
            return
        group = Group(self, [first])
        group.tries = -1
        self.group_of[first] = group
        calls = self._call_of(group)
        if calls:
            self.engine.submit(calls)
        if not self.suspects:
            self._regroup()

    # -- the end ----------------------------------------------------------------------------

    def culled(self) -> None:
        """Drop what only dropped futures needed."""
        self.cull()
        if self.over or not self.unneeded:
            return
        gone = [g for g in self.under_way.values() if self.unneeded.issuperset(g.members)]
        for group in gone:
            del self.under_way[group.number]
        self.engine.cancel(self, [g for g in gone if g.handle is not None])
        before = len(self.todo)
        self.todo -= self.unneeded
        self.wanted -= self.unneeded
        if not self.wanted:
            self._complete()
            self._clear_queue()
            return
        if len(self.todo) != before:
            self._regroup()
        self._feed()

    def _clear_queue(self) -> None:
        if self.begun:
            self.engine.post(self._let_go)

    def _let_go(self) -> None:
        self.engine.cancel(self, list(self.under_way.values()))
        self.under_way.clear()
        self.group_of.clear()
        self._next.clear()
        self._after.clear()
        self.puts.clear()
        self._leaf.clear()
        self.todo.clear()
        self.errors = {}

    def fetch(self) -> None:
        """Bring the wanted values here, in the caller's thread."""
        remote = {
            i: self.values[i] for i in dict.fromkeys(self.plan.outputs)
            if type(self.values[i]) in (Remote, Put) and i not in self.failed
        }
        self.engine.bring([r for r in remote.values() if type(r) is Remote])
        for i, value in remote.items():
            try:
                self.values[i] = value.get()
            except BaseException as error:
                if not isinstance(error, Exception) or not self.request.collect:
                    raise
                self.failed[i] = error
                self.values[i] = None

    def running(self) -> list[str]:
        """Name the tasks that run now, as far as workers answer, and those on their way there."""
        if not self.begun:
            return []
        found, heard_of = [], set()
        for where, i in self.engine.running(self):
            worker = There(where)
            worker.run, worker.task = self, i
            found.append(doing(worker))
            heard_of.add(i)
        waiting = [
            group.members[0] for group in tuple(self.under_way.values())
            if heard_of.isdisjoint(group.members)
            and all(other.done for other in self._needed(group))
        ]
        if not found and not waiting:
            waiting = self.plan.ready[-1:]
        for i in waiting[:_MOST_NAMES]:
            task = self.plan.tasks[i]
            found.append(f"{task_name(task)}, made at {place_text(task)} (handed to the cluster)")
        return found
