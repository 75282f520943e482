"""A run whose tasks an engine's workers compute, group by group.

Everything here but `fetch` happens in the scheduler's thread, one step after the other. Groups
are made again when it is learnt what functions cost: until then tasks go singly, a few at a time.
"""

from __future__ import annotations

import weakref
from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow import config
from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.graph.cluster import clusters
from lazyflow.graph.items import Item
from lazyflow.graph.task import HELD, place_text, task_name
from lazyflow.schedulers import careful
from lazyflow.schedulers.base import Worker
from lazyflow.schedulers.engine.held import Put, Remote
from lazyflow.schedulers.engine.outcome import identity
from lazyflow.schedulers.engine.packing import Packer, Unsendable, unsendable
from lazyflow.schedulers.engine.work import ENDED, FAILED, STARTED
from lazyflow.schedulers.error_records import rebuilt
from lazyflow.schedulers.failures import dressed
from lazyflow.schedulers.future import Future
from lazyflow.schedulers.lifecycle import Lifecycle, doing
from lazyflow.store.serialize import Unpicklable

if TYPE_CHECKING:
    from lazyflow.schedulers.engine.scheduler import Engine

LEAST, MOST = 0.005, 0.1  # seconds of work of a group
_SHARES = 3  # groups for each worker, at least, where the work is enough
_OWN = 20e-6  # seconds that a task costs beside what its function takes
_MOST_NAMES = 5  # of tasks that wait for a worker, in a message
_TRIES = 10  # of a group whose inputs were lost
_names = count(1)
_numbers = count(1)


class Group:
    """Some tasks of a run that are one task of the engine.

    handle
        What the engine keeps of it; None: it was not handed over, or nobody needs it.
    last
        The last of its tasks, for its name.
    outputs
        Tasks whose results others ask for.
    waits
        Groups that it needs and that were not handed over.
    uses
        Times that results of it are used by groups that are not done.
    """

    __slots__ = (
        "done", "handle", "last", "members", "number", "outputs", "puts", "tries", "uses", "waits",
    )

    def __init__(self, run: EngineRun, members: list[int]) -> None:
        self.number = next(_numbers)
        self.members = members
        self.last = run.plan.tasks[members[-1]]
        self.handle: Any = None
        self.done = False
        self.tries = 0
        self.waits = 0
        self.puts: list[Put] = []
        inside = frozenset(members)
        self.outputs: list[int] = []
        self.uses = 0
        end = run.plan.end
        for i in members:
            outside = [user for user in run.plan.uses(i) if user not in inside]
            if outside:
                self.outputs.append(i)
                self.uses += sum(user != end for user in outside)


class _Nudge:
    """In the place of `Run.odd`: whoever appends to it wakes the scheduler. Never locks."""

    def __init__(self, run: EngineRun) -> None:
        self._run = weakref.ref(run)  # finalizers of futures hold this

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None and run.begun:
            run.engine.post(run.culled)


class EngineRun(Lifecycle):
    """A run on the workers of an engine.

    Attributes
    ----------
    group_of
        By number of a task, its group: handed over, or about to be.
    todo
        Tasks that were not handed over.
    suspects
        Tasks whose worker died; each is run alone, to find out which ended it.
    """

    engine: Engine
    surroundings: bytes = b""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.odd = _Nudge(self)
        self.name = f"{next(_names)}"
        self.functions: dict[int, tuple[bytes, bytes]] = {}
        self.group_of: dict[int, Group] = {}
        self.todo: set[int] = set()
        self.under_way: dict[int, Group] = {}
        self.wanted: set[int] = set()
        self.suspects: deque[int] = deque()
        self.errors: dict[int, BaseException] = {}
        self.puts: dict[Any, tuple[Any, Put]] = {}
        self._next: list[tuple[int, int, int, Group]] = []
        self._leaf: dict[int, Any] = {}
        self._after: dict[int, list[Group]] = {}  # groups that wait, by number of the group
        self._has_learnt = False
        self._knows_all = False
        self._done = self._done_before = 0
        self._asked = self.request.num_workers or config.get("num_workers")

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """Return what workers have to know of the request: see work.py."""
        request = self.request
        return bool(request.collect), bool(request.check_mutation), bool(self.observers)

    # -- the beginning ----------------------------------------------------------------------

    def begin(self) -> None:
        """Look at the leaves; go on when those that are pending are there."""
        self.begun = True
        careful.tell(self, "run_started")
        self.wanted = set(self.plan.outputs)
        if not self.wanted:
            self._complete()
            return
        pending = []
        for i in self.plan.leaves:
            task = self.plan.tasks[i]
            if task._func is HELD:
                pending.append((i, task._args[0]))
            else:
                self._leaf[i] = self.leaf_values.get(i, task._args[0])
        left = iter((None,) * len(pending))

        def one_more(_: Any) -> None:
            if next(left, self) is self:  # with the call below they are one more than items
                self.engine.post(self._go, pending)

        for _, future in pending:
            future.add_callback(one_more)
        one_more(None)

    def deliver(self, i: int, value: Any) -> None:
        """Not called: what tasks turn into is run where they are."""
        raise AssertionError("runs that tasks turn into are the workers' own")

    def refuse(self, i: int, error: BaseException) -> None:
        """Not called, as `deliver`."""
        raise AssertionError("runs that tasks turn into are the workers' own")

    def leaf_value(self, i: int) -> Any:
        """Return the value of a leaf, or what the engine holds of it."""
        return self._leaf[i]

    def put_literal(self, value: Any) -> Put:
        """Return what the engine holds, or will, of a large literal: once for this run."""
        key = identity(value)
        known = self.puts.get(key)
        if known is None:
            known = self.puts[key] = (value, Put(self.engine, value))  # held: the key stays its own
        return known[1]

    def _go(self, pending: list[tuple[int, Future]]) -> None:
        for i, future in pending:
            value, error = future.local_outcome()
            if error is not None:
                self.note_failure(i, error)
            elif self.engine.holds(value):
                self._leaf[i] = value
            else:
                self._leaf[i], error = future.outcome()
                if error is not None:
                    self.note_failure(i, error)
            if self.over:
                return
        leaves = set(self.plan.leaves)
        for i in leaves & self.wanted:
            self._arrived(i, self._leaf.get(i))
        self.todo = set(range(self.plan.end)) - leaves
        if not self.over and self._look_at_functions():
            self._regroup()
            self._feed()

    def _look_at_functions(self) -> bool:
        """Pickle each function once; tell whether the run goes on."""
        known: dict[int, Any] = {}
        for i in sorted(self.todo):
            task = self.plan.tasks[i]
            found = known.get(id(task._func))
            if found is None:
                try:
                    found = self.engine.digests.of(task._func)
                except Unpicklable as failed:
                    found = failed
                known[id(task._func)] = found
            if isinstance(found, Unpicklable):
                self._fail_task(i, unsendable(task, "function", found))
                if self.over:
                    return False
            else:
                self.functions[i] = found
        self._check_resources()
        return not self.over

    def _check_resources(self) -> None:
        if not self.plan.unusual:
            return
        for i in self.todo:
            options = self.plan.tasks[i]._options
            if options.resources:
                refusal = self.engine.refusal_of(options.resources)
                if refusal:
                    self._fail_task(i, dressed(ValueError(refusal), self.plan.tasks[i], None))
                    return

    # -- groups -----------------------------------------------------------------------------

    def _cost(self, i: int) -> float | None:
        if self.plan.tasks[i]._func.__class__ is Item:
            return 0.0
        known = self.engine.costs.get(self.functions[i][0])
        return None if known is None else known + _OWN

    def _width(self) -> int:
        width = self.engine.width()
        return min(width, self._asked) if self._asked else width

    def _regroup(self) -> None:
        """Group what was not handed over, by what is known of the costs now."""
        self._has_learnt = False
        self._done_before = self._done
        todo = sorted(self.todo)
        costs = {i: self._cost(i) for i in todo}
        total = 0.0
        self._knows_all = True
        for cost in costs.values():
            if cost is None:
                self._knows_all = False
            else:
                total += cost
        if self._knows_all and total <= LEAST and self.futures is None and not self.plan.unusual:
            found = [todo] if todo else []
        else:
            width = self._width()
            shares = _SHARES * width if width > 1 else 1
            budget = min(max(total / shares, LEAST), MOST)
            apart = self.futures is not None
            found = clusters(self.plan, todo, costs.__getitem__, budget, apart)
        self._next = []
        self._after = {}
        groups = [Group(self, members) for members in found]
        for group in groups:
            self.group_of.update(dict.fromkeys(group.members, group))
        for group in groups:
            self._line_up(group)

    def _line_up(self, group: Group) -> None:
        """Let a group go when those that it needs are gone."""
        needed = {id(g): g for g in self._needed(group) if g.handle is None}
        group.waits = len(needed)
        for other in needed.values():
            self._after.setdefault(other.number, []).append(group)
        if not needed:
            self._is_next(group)

    def _is_next(self, group: Group) -> None:
        priority = self.plan.priorities.get(group.members[0], 0)
        heappush(self._next, (-priority, group.members[-1], group.number, group))

    def _needed(self, group: Group) -> list[Group]:
        found = []
        for i in group.members:
            for j in self.plan.inputs[i] or ():
                other = self.group_of.get(j)
                if other is not None and other is not group and j not in self.failed:
                    found.append(other)
        return found

    def _feed(self) -> None:
        """Hand over what may go now."""
        if self.over:
            return
        if self.suspects:
            self._try_suspect()
            return
        goes_by_itself = self.engine.has_priorities or not self.plan.priorities
        limit = 1 << 62 if self._knows_all and goes_by_itself else 2 * self.engine.width()
        if self._asked:
            limit = min(limit, self._asked)
        calls = []
        while self._next and len(self.under_way) < limit:
            group = heappop(self._next)[-1]
            if group.handle is None and not group.done:
                calls += self._call_of(group)
                if self.stop:
                    return
        if calls:
            self.engine.submit(calls)

    def _call_of(self, group: Group) -> list[tuple[Any, ...]]:
        """Pack a group; nothing when a task of it can't be packed."""
        packer = Packer(self, group)
        try:
            payload = packer.packed()
        except Unsendable as refused:
            i, error = refused.args
            self._fail_task(i, error)
            if not self.over:
                self._regroup()
            return []
        group.puts = [dep for dep in packer.deps if type(dep) is Put]
        group.handle = self.engine.new_handle(group)
        self.under_way[group.number] = group
        self.todo.difference_update(group.members)
        for other in self._after.pop(group.number, ()):
            other.waits -= 1
            if not other.waits:
                self._is_next(other)
        options = self.plan.tasks[group.members[0]]._options
        return [(self, group, payload, packer.deps, options.priority, options.resources)]

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
        if self.observers:
            self._tell(events)
        for i in records:
            self.note_failure(i, self.errors[i])
            if self.stop:
                return
        for i in group.outputs:
            if i in failed:
                self._inherit(i, failed[i])
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
                careful.hear(self, self.on_start, i)
            elif what == ENDED:
                careful.hear(self, self.on_done, i)
            elif what == FAILED and i in self.errors:
                careful.tell(self, "task_failed", i, self.errors[i])

    def _fail_task(self, i: int, error: BaseException) -> None:
        """Let a task fail that no worker ran."""
        self.todo.discard(i)
        self.errors[i] = error
        careful.tell(self, "task_failed", i, error)
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
        careful.cull(self)
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
            worker = _There(where)
            worker.run, worker.task = self, i  # type: ignore[assignment]
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


class _There(Worker):
    """A worker of an engine, as messages name it."""

    __slots__ = ()
    kind = "worker"
