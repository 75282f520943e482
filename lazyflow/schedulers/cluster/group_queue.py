"""Groups the tasks of a run, and orders the groups for submission.

Groups are made again when the costs of functions become known: until then tasks go singly, a few
at a time.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from lazyflow.graph.grouping import clusters
from lazyflow.graph.items import Item
from lazyflow.graph.plan import Plan
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.groups import TaskGroup

LEAST, MOST = 0.005, 0.1  # seconds of work of a group
_SHARES = 3  # groups for each worker, at least, where the work is enough
_OWN = 20e-6  # seconds that a task costs beside what its function takes


class GroupQueue:
    """The tasks of one run that are not submitted, in groups.

    Parameters
    ----------
    failed
        Tasks that have failed: no group waits for them.
    limit
        The most workers that the run may use; None or 0: all.

    Attributes
    ----------
    functions
        Digest and payload of each task's function.
    group_of
        The group of each task, by number: submitted, or about to be.
    todo
        Tasks that are not submitted.
    has_learnt
        Whether more is known of the functions than when the groups were made.
    knows_all
        Whether all costs were known when the groups were made.
    """

    def __init__(
        self, plan: Plan, engine: Engine, failed: Collection[int], limit: int | None
    ) -> None:
        self._plan = plan
        self._engine = engine
        self._failed = failed
        self._limit = limit
        self.functions: dict[int, tuple[bytes, bytes]] = {}
        self.group_of: dict[int, TaskGroup] = {}
        self.todo: set[int] = set()
        self.has_learnt = False
        self.knows_all = False
        self._ready: list[tuple[int, int, int, TaskGroup]] = []
        self._after: dict[int, list[TaskGroup]] = {}  # groups that wait, by number of the group

    # -- what is known of functions -----------------------------------------------------------

    def learn(self, times: dict[bytes, tuple[int, float]]) -> None:
        """Note the number and the seconds of calls, by digest of the function."""
        for digest, (calls, seconds) in times.items():
            if digest not in self._engine.costs:
                self.has_learnt = True
            self._engine.learn(digest, calls, seconds)

    def learn_size(self, i: int, is_short: bool) -> None:
        """Note whether the result of a task was short."""
        if self._engine.learn_size(self.functions[i][0], is_short):
            self.has_learnt = True

    def is_short(self, group: TaskGroup) -> bool:
        """Return whether a group is known to end soon."""
        costs = [self._cost(i) for i in group.members]
        return None not in costs and sum(costs) <= MOST  # type: ignore[arg-type]

    def _cost(self, i: int) -> float | None:
        if self._plan.tasks[i]._func.__class__ is Item:
            return 0.0
        known = self._engine.costs.get(self.functions[i][0])
        return None if known is None else known + _OWN

    def _gives_short(self, i: int) -> bool | None:
        """Return whether a task's function returns short results; None if unknown."""
        return self._engine.gives_short.get(self.functions[i][0])

    # -- groups -------------------------------------------------------------------------------

    def regroup(self, shown: Collection[int]) -> None:
        """Make groups of the tasks that are not submitted, by the costs that are known now.

        Parameters
        ----------
        shown
            Tasks whose results may be asked for before the rest is done.
        """
        self.has_learnt = False
        plan, todo = self._plan, sorted(self.todo)
        apart = [i for i in shown if i in self.todo and not self._gives_short(i)]
        costs = {i: self._cost(i) for i in todo}
        known = [cost for cost in costs.values() if cost is not None]
        total = sum(known, 0.0)
        sizes_known = all(self._gives_short(i) is not None for i in apart)
        self.knows_all = sizes_known and len(known) == len(costs)
        if self.knows_all and total <= LEAST and not apart and not plan.has_scheduler_options:
            found = [todo] if todo else []
        else:
            width = self._width()
            shares = _SHARES * width if width > 1 else 1
            budget = min(max(total / shares, LEAST), MOST)
            found = clusters(plan, todo, costs.__getitem__, budget, shown, apart)
        self._ready = []
        self._after = {}
        groups = [TaskGroup(plan, members) for members in found]
        for group in groups:
            self.group_of.update(dict.fromkeys(group.members, group))
        for group in groups:
            self.line_up(group)

    def _width(self) -> int:
        width = self._engine.width()
        return min(width, self._limit) if self._limit else width

    def most_under_way(self) -> int:
        """Return how many groups may be under way at a time."""
        goes_by_itself = self._engine.has_priorities or not self._plan.priorities
        most = 1 << 62 if self.knows_all and goes_by_itself else 2 * self._engine.width()
        return min(most, self._limit) if self._limit else most

    def take_back(self, group: TaskGroup) -> None:
        """Queue a submitted group again, whether it has run or not."""
        group.handle, group.done = None, False
        self.todo.update(group.members)
        self.line_up(group)

    def line_up(self, group: TaskGroup) -> None:
        """Queue a group: it is ready once all groups that it needs are submitted."""
        needed = {id(g): g for g in self.needed(group) if g.handle is None}
        group.waits = len(needed)
        for other in needed.values():
            self._after.setdefault(other.number, []).append(group)
        if not needed:
            self._is_ready(group)

    def _is_ready(self, group: TaskGroup) -> None:
        priority = self._plan.priorities.get(group.members[0], 0)
        heappush(self._ready, (-priority, group.members[-1], group.number, group))

    def needed(self, group: TaskGroup) -> list[TaskGroup]:
        """Return the groups that compute inputs of a group."""
        found = []
        for i in group.members:
            for j in self._plan.inputs[i] or ():
                other = self.group_of.get(j)
                if other is not None and other is not group and j not in self._failed:
                    found.append(other)
        return found

    def pop(self) -> TaskGroup | None:
        """Return the next group that is ready, or None."""
        while self._ready:
            group = heappop(self._ready)[-1]
            if group.handle is None and not group.done:
                return group
        return None

    def handed_over(self, group: TaskGroup) -> None:
        """Note that a group is submitted; others that waited for it may be ready now."""
        self.todo.difference_update(group.members)
        for other in self._after.pop(group.number, ()):
            other.waits -= 1
            if not other.waits:
                self._is_ready(other)

    def release_inputs(self, group: TaskGroup) -> None:
        """Release the results that no group needs any more, now that this one is done."""
        for i in group.members:
            for j in self._plan.inputs[i] or ():
                other = self.group_of.get(j)
                if other is not None and other is not group:
                    other.uses -= 1
                    if not other.uses and other.done:
                        other.handle = None

    def clear(self) -> None:
        """Drop all groups: the run is over."""
        self.group_of.clear()
        self._ready.clear()
        self._after.clear()
        self.todo.clear()
