"""The half of a run on an engine that hands groups over: which tasks go together, and when.

Groups are made again when it is learnt what functions cost: until then tasks go singly, a few at
a time.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow import config
from lazyflow.graph.grouping import clusters, scheduling_options
from lazyflow.graph.items import Item
from lazyflow.graph.task import HELD
from lazyflow.schedulers.cluster.groups import Group, Nudge, look
from lazyflow.schedulers.cluster.outcome import Repeats, identity
from lazyflow.schedulers.cluster.packing import Packer, Unsendable, unsendable
from lazyflow.schedulers.cluster.results import Put
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import Lifecycle
from lazyflow.store.pickling.serialize import Unpicklable

if TYPE_CHECKING:
    from lazyflow.schedulers.cluster.scheduler import Engine

LEAST, MOST = 0.005, 0.1  # seconds of work of a group
_SHARES = 3  # groups for each worker, at least, where the work is enough
_OWN = 20e-6  # seconds that a task costs beside what its function takes
_names = count(1)


class Feeding(Lifecycle):
    """A run on the workers of an engine, as far as what goes there.

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
        self.attention = Nudge(self)
        self.name = f"{next(_names)}"
        self.functions: dict[int, tuple[bytes, bytes]] = {}
        self.group_of: dict[int, Group] = {}
        self.todo: set[int] = set()
        self.under_way: dict[int, Group] = {}
        self.wanted: set[int] = set()
        self.suspects: deque[int] = deque()
        self.errors: dict[int, BaseException] = {}
        self.puts: dict[Any, tuple[Any, Put]] = {}
        self.repeats = Repeats()
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
        return bool(request.collect), bool(request.check_mutation), bool(self.observers.members)

    # -- the beginning ----------------------------------------------------------------------

    def begin(self) -> None:
        """Look at the leaves; go on when those that are pending are there."""
        self.begun = True
        self.observers.run_started(self)
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

    def _go(self, pending: list[tuple[int, TaskFuture]]) -> None:
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
                    found = self.engine.packed_functions.of(task._func)
                except Unpicklable as failed:
                    found = failed
                known[id(task._func)] = found
            if isinstance(found, Unpicklable):
                self._fail_task(i, unsendable(task, "function", found))
                if self.over:
                    return False
            else:
                self.functions[i] = found
        self._check_needs()
        return not self.over

    def _check_needs(self) -> None:
        """Let tasks fail that no worker may run."""
        if not self.plan.has_scheduler_options:
            return
        known: dict[Any, str] = {}
        for i in sorted(self.todo):
            options = self.plan.tasks[i]._options
            if not options.resources and options.workers is None:
                continue
            needs = scheduling_options(options)
            if needs not in known:
                known[needs] = self.engine.refusal_of(options)
            if known[needs]:
                self._fail_task(i, dressed(ValueError(known[needs]), self.plan.tasks[i], None))
                if self.over:
                    return

    # -- groups -----------------------------------------------------------------------------

    def _cost(self, i: int) -> float | None:
        if self.plan.tasks[i]._func.__class__ is Item:
            return 0.0
        known = self.engine.costs.get(self.functions[i][0])
        return None if known is None else known + _OWN

    def _apart(self) -> list[int]:
        """Return the tasks whose results are futures' and not known to be short."""
        if self.futures is None:
            return []
        return [i for i in self.wanted & self.todo if not self._is_short_result(i)]

    def _is_short_result(self, i: int) -> bool | None:
        """Tell whether a function gives what comes with the report; None: not known."""
        return self.engine.gives_short.get(self.functions[i][0])

    def is_short(self, group: Group) -> bool:
        """Tell whether a group is known to end soon."""
        costs = [self._cost(i) for i in group.members]
        return None not in costs and sum(costs) <= MOST  # type: ignore[arg-type]

    def _width(self) -> int:
        width = self.engine.width()
        return min(width, self._asked) if self._asked else width

    def _regroup(self) -> None:
        """Group what was not handed over, by what is known of the costs now."""
        self._has_learnt = False
        self._done_before = self._done
        todo = sorted(self.todo)
        apart = self._apart()
        costs = {i: self._cost(i) for i in todo}
        total = 0.0
        self._knows_all = all(self._is_short_result(i) is not None for i in apart)
        for cost in costs.values():
            if cost is None:
                self._knows_all = False
            else:
                total += cost
        if self._knows_all and total <= LEAST and not apart and not self.plan.has_scheduler_options:
            found = [todo] if todo else []
        else:
            width = self._width()
            shares = _SHARES * width if width > 1 else 1
            budget = min(max(total / shares, LEAST), MOST)
            shown = () if self.futures is None else self.wanted
            found = clusters(self.plan, todo, costs.__getitem__, budget, shown, apart)
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
        return [(self, group, payload, packer.deps, options)]

    def _on_drop(self) -> tuple[list[Callable[[Any], Any]], Any]:
        return [self.engine.post_end], (look, (weakref.ref(self),))

    # -- for the subclass -------------------------------------------------------------------

    @abstractmethod
    def culled(self) -> None:
        """Drop what only dropped futures needed."""

    @abstractmethod
    def _arrived(self, i: int, value: Any) -> None:
        """Take a wanted value."""

    @abstractmethod
    def _fail_task(self, i: int, error: BaseException) -> None:
        """Let a task fail that no worker ran."""

    @abstractmethod
    def _try_suspect(self) -> None:
        """Run a task alone whose worker died."""
