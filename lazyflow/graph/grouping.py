"""Groups the tasks of a plan for schedulers for which a message is expensive.

`clusters` groups the tasks that are still to run: such schedulers call it again when they have
measured what the functions cost. It makes two kinds of groups:

* a task joins the tasks that it needs, when no other task needs them: always if that makes a
  chain, and otherwise as long as the whole subtree is small and needs few results of others;
* groups that are still small are packed together with others on the same level, in the order of
  the plan.

A task of unknown cost is packed with nothing and joins only a chain: it may take an hour, or wait
for another task. No group contains different priorities, resources or workers. No group needs
itself through another group: only the last task of a subtree has users outside it, and packed
groups are on one level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazyflow.graph.options import Options
    from lazyflow.graph.plan import Plan

_FEW = 8  # results of others that a subtree may need, all held until it starts; a guess


def clusters(
    plan: Plan,
    todo: Sequence[int],
    cost: Callable[[int], float | None],
    budget: float,
    shown: Collection[int] = frozenset(),
    apart: Collection[int] = frozenset(),
) -> list[list[int]]:
    """Return groups of tasks, each in the order of the plan and after the groups that it needs.

    Parameters
    ----------
    plan
        The plan that has the tasks.
    todo
        Numbers of the tasks to group, ascending; the results of others are there or will be.
    cost
        Returns the seconds that a task takes, None if that is not known.
    budget
        Seconds that a group may take, unless a single task or chain takes longer.
    shown
        Tasks whose results the caller may read before the rest is done: they share groups with
        others only where those take no longer than the budget.
    apart
        Those of them that share no group with another shown task, so that each result can be
        moved and freed alone.

    Examples
    --------
    >>> from lazyflow import delayed
    >>> from lazyflow.graph.passes import make_plan
    >>> f, add = delayed(abs), delayed(max)
    >>> plan = make_plan([add(add(f(f(1)), f(2)), add(f(3), f(4)))])
    >>> clusters(plan, range(len(plan)), lambda i: 1.0, budget=4.0)
    [[0, 1, 2, 3], [4, 5, 6], [7]]
    >>> clusters(plan, range(len(plan)), lambda i: None, budget=4.0)
    [[0, 1], [2], [4], [5], [3], [6], [7]]
    """
    return _Grouping(plan, todo, cost, budget, frozenset(shown), frozenset(apart)).groups()


def scheduling_options(options: Options) -> Any:
    """Return the options that tasks of one group share and the engine needs, None without any."""
    if not options.priority and not options.resources and options.workers is None:
        return None
    return options.priority, tuple(sorted((options.resources or {}).items())), options.workers


class _Grouping:
    """The state of one grouping.

    into
        For each task that has joined another one: that task.
    weight
        Seconds of the subtree of which a task is the last; None: not known.
    needed
        How many results of others that subtree needs.
    showing
        The last tasks of subtrees in which results are shown.
    branching
        The last tasks of subtrees that are no chains: they stay within the budget to their end.
    """

    def __init__(
        self,
        plan: Plan,
        todo: Sequence[int],
        cost: Callable[[int], float | None],
        budget: float,
        shown: frozenset[int],
        apart: frozenset[int],
    ) -> None:
        self.plan = plan
        self.todo = todo
        self.cost = {i: cost(i) for i in todo}
        self.budget = budget
        self.showing = set(shown)
        self.apart = apart
        self.branching: set[int] = set()
        self.into: dict[int, int] = {}
        self.weight: dict[int, float | None] = {}
        self.needed: dict[int, int] = {}

    def groups(self) -> list[list[int]]:
        for i in self.todo:
            self._join(i)
        root: dict[int, int] = {}
        members: dict[int, list[int]] = {}
        for i in reversed(self.todo):
            after = self.into.get(i)
            root[i] = i if after is None else root[after]
        for i in self.todo:
            members.setdefault(root[i], []).append(i)
        return self._packed(root, members)

    def _join(self, i: int) -> None:
        """Join the subtrees that only this task needs to it."""
        waits = [j for j in dict.fromkeys(self.plan.inputs[i] or ()) if j in self.cost]
        mine = [j for j in waits if self._is_only_for(j, i)]
        weight = self.cost[i]
        self.needed[i] = len(waits)
        if len(waits) == 1 and mine and not self._has_bounds(mine[0]):
            before = self.weight[waits[0]]
            self.into[waits[0]] = i
            self.weight[i] = None if weight is None or before is None else weight + before
            self.needed[i] = self.needed[waits[0]]
            return
        if weight is not None and len(mine) == len(waits):
            total, needed = weight, 0
            for j in mine:
                before = self.weight[j]
                total = self.budget + 1 if before is None else total + before
                needed += self.needed[j]
            if total <= self.budget and needed <= _FEW:
                for j in mine:
                    self.into[j] = i
                weight, self.needed[i] = total, needed
                if len(mine) > 1 or not self.branching.isdisjoint(mine):
                    self.branching.add(i)
                if not self.showing.isdisjoint(mine):
                    self.showing.add(i)
        self.weight[i] = weight

    def _has_bounds(self, j: int) -> bool:
        """Tell whether the subtree of a task has to fit the budget with whatever joins it."""
        return j in self.showing or j in self.branching

    def _is_only_for(self, j: int, i: int) -> bool:
        plan = self.plan
        users = plan.consumers[j]
        if users.__class__ is list:
            if any(user != i and user != plan.end for user in users):
                return False
        elif users != i:
            return False
        if j in self.apart or (i in self.apart and j in self.showing):
            return False
        one, other = plan.tasks[j]._options, plan.tasks[i]._options
        return scheduling_options(one) == scheduling_options(other)

    def _packed(self, root: dict[int, int], members: dict[int, list[int]]) -> list[list[int]]:
        levels: dict[int, int] = {}
        found: list[tuple[int, list[int]]] = []  # with their levels
        opened: dict[Any, tuple[list[int], float]] = {}
        for last in sorted(members):  # after those whose results it needs
            group = members[last]
            level = self._level(group, root, levels)
            levels[last] = level
            weight = self.weight[last]
            if weight is None or not self._may_be_packed(last):
                found.append((level, group))
                continue
            key = (level, scheduling_options(self.plan.tasks[last]._options))
            pack, so_far = opened.get(key, ([], 0.0))
            if not pack or so_far + weight > self.budget:
                pack, so_far = [], 0.0
                found.append((level, pack))
            pack.extend(group)
            opened[key] = (pack, so_far + weight)
        found.sort(key=lambda pair: pair[0])
        for _, group in found:
            group.sort()
        return [group for _, group in found]

    def _level(self, group: list[int], root: dict[int, int], levels: dict[int, int]) -> int:
        level = 0
        for i in group:
            for j in self.plan.inputs[i] or ():
                if j in root and root[j] != root[i]:
                    level = max(level, levels[root[j]] + 1)
        return level

    def _may_be_packed(self, last: int) -> bool:
        """Tell whether a result may be made some time before its users can run."""
        if last in self.apart:
            return False
        plan = self.plan
        for user in plan.uses(last):
            is_known = user == plan.end or self.cost.get(user, 0.0) is not None
            if not is_known and len(plan.inputs[user] or ()) <= _FEW:
                return False
        return True
