"""Groups the tasks of a plan for schedulers to whom a message is dear.

`clusters` is a pass like those of pipeline.py, but over what is left of a plan: such schedulers
run it again when they have learnt what the functions cost. Two kinds of groups are made:

* a task joins what it needs, when nobody else needs that: always if what it makes is a chain, and
  as long as the whole subtree is small and needs few others otherwise;
* what is still small is packed with others on the same level, in the order of the plan.

A task whose cost is not known is packed with nothing and joins nothing but a chain: it may take
an hour, or wait for another task. No group reaches across different priorities, resources or
workers. No group needs itself through another: a subtree is left by its last task only, and
packed ones are on one level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazyflow.graph.options import Options
    from lazyflow.graph.plan import Plan

_FEW = 8  # results of others that a subtree may need; all of them are held until it starts


def clusters(
    plan: Plan,
    todo: Sequence[int],
    cost: Callable[[int], float | None],
    budget: float,
    shown: Collection[int] = frozenset(),
    apart: Collection[int] = frozenset(),
) -> list[list[int]]:
    """Group tasks; each group in the order of the plan, and each after those that it needs.

    Parameters
    ----------
    plan
        Whose tasks.
    todo
        Numbers of the tasks to group, ascending; results of others are there or will be.
    cost
        Seconds that a task takes; None: not known.
    budget
        Seconds that a group may take, unless a single task or chain takes longer.
    shown
        Tasks whose results somebody may look at before the rest is done: they are in groups with
        others only where those take no longer than the budget.
    apart
        Those of them that are in groups with nothing else that is shown, so that each result can
        be moved and freed alone.

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
    """Return the options that all tasks of a group share, which the engine gets; None: none."""
    if not options.priority and not options.resources and options.workers is None:
        return None
    return options.priority, tuple(sorted((options.resources or {}).items())), options.workers


class _Grouping:
    """The state of one pass.

    into
        For a task that was joined: the task that took it in.
    weight
        Seconds of the subtree of a task, of which it is the last; None: not known.
    needed
        Results of others that the subtree needs.
    showing
        Last tasks of the subtrees in which results are shown.
    branching
        Last tasks of the subtrees that are no chains: they stay within the budget to their end.
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
        """Let a task take in the subtrees that only it needs."""
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
        """Tell whether what joins the subtree of a task has to fit the budget with it."""
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
        """Tell whether a result may be made some time before others can use it."""
        if last in self.apart:
            return False
        plan = self.plan
        for user in plan.uses(last):
            is_known = user == plan.end or self.cost.get(user, 0.0) is not None
            if not is_known and len(plan.inputs[user] or ()) <= _FEW:
                return False
        return True
