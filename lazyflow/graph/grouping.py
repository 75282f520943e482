"""Groups the tasks of a plan for schedulers for which a message is expensive.

`clusters` groups the tasks that are still to run: such schedulers call it again when they have
measured the costs and result sizes of functions. It makes two kinds of groups:

* a task joins the tasks that it needs, when no other task needs them: always if that makes a
  chain, and otherwise as long as the whole subtree is small, needs few results of others and holds
  little at once;
* groups that are still small are packed with others of the same level, in the order of the plan.
  Either all of them read and return little. Or all need the same large results and nothing else
  that is still to be made; then they may return much. The task that makes such a large result
  joins them, however long it takes, if only they need it. So none of
  these tasks waits for an input that only another one needs.

Large results are not brought together: tasks are in one group only if one of them reads all the
large results that any of them reads. So each runs where its own large inputs are.

A task of unknown cost is packed with nothing and joins only a chain: it may take an hour, or wait
for another task. No group contains different priorities, resources, workers or crash_retries. No
group needs itself through another group: only the last task of a subtree has users outside it, and
packed groups are on one level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyflow.graph.options import scheduling_options

if TYPE_CHECKING:
    from lazyflow.graph.plan import Plan

_FEW = 8  # results of others that a subtree may need, all held until it starts; a guess
_NOTED = 4096  # bytes of a result that count where tasks are packed; a guess

_NOTHING: frozenset[int] = frozenset()


class Limits(NamedTuple):
    """Limits of a group; a single task or chain may exceed them.

    seconds
        Of work.
    packed
        Bytes that tasks which are packed together read and return. A result of more is large.
    held
        Bytes of results that a subtree holds at once.
    """

    seconds: float
    packed: float = inf
    held: float = inf


def clusters(
    plan: Plan,
    todo: Sequence[int],
    cost: Callable[[int], float | None],
    size: Callable[[int], float | None],
    limits: Limits,
    shown: Collection[int] = frozenset(),
    apart: Collection[int] = frozenset(),
    alone: Collection[int] = frozenset(),
) -> list[list[int]]:
    """Return groups of tasks, each in the order of the plan and after the groups that it needs.

    Parameters
    ----------
    plan
        The plan that has the tasks.
    todo
        Numbers of the tasks to group, ascending; the results of others are there or will be.
    cost
        Returns the seconds that a task takes; None: unknown.
    size
        Returns the bytes of a task's result, None if that is not known.
    shown
        Tasks whose results the caller may read before the rest is done: they share groups with
        others only where those take no longer than a group may.
    apart
        Those of them that share no group with another shown task, so that each result can be
        moved and freed alone.
    alone
        Tasks that share a group with no other one.

    Examples
    --------
    >>> from lazyflow import delayed
    >>> from lazyflow.graph.plan import make_plan
    >>> f, add = delayed(abs), delayed(max)
    >>> plan = make_plan([add(add(f(f(1)), f(2)), add(f(3), f(4)))])
    >>> one, tasks = (lambda i: 1.0), range(len(plan))
    >>> clusters(plan, tasks, one, one, Limits(seconds=4.0))
    [[0, 1, 2, 3], [4, 5, 6], [7]]
    >>> clusters(plan, tasks, lambda i: None, one, Limits(seconds=4.0))
    [[0, 1], [2], [4], [5], [3], [6], [7]]
    >>> clusters(plan, tasks, one, one, Limits(seconds=4.0, packed=0.5, held=2.0))
    [[0, 1], [2], [4], [5], [3], [6], [7]]
    """
    return _Grouping(plan, todo, cost, size, limits, shown, apart, alone).groups()


class _Grouping:
    """The state of one grouping.

    into
        For each task that has joined another one: that task.
    weight
        Seconds of the subtree of which a task is the last; None: not known.
    needed
        How many results of others that subtree needs.
    large
        The large ones among all that it reads.
    noted
        Those that are not large and count where subtrees are packed.
    peak
        Bytes of results made in it that it holds at once.
    showing
        The last tasks of subtrees in which results are shown.
    branching
        The last tasks of subtrees that are no chains: they stay within the limits to their end.
    """

    def __init__(
        self,
        plan: Plan,
        todo: Sequence[int],
        cost: Callable[[int], float | None],
        size: Callable[[int], float | None],
        limits: Limits,
        shown: Collection[int],
        apart: Collection[int],
        alone: Collection[int],
    ) -> None:
        self.plan = plan
        self.todo = todo
        self.cost = {i: cost(i) for i in todo}
        self.size = {i: size(i) for i in todo}
        self.size_of_others = size
        self.limits = limits
        self.shown = frozenset(shown)
        self.showing = set(shown)
        self.apart = frozenset(apart)
        self.alone = frozenset(alone)
        self.branching: set[int] = set()
        self.into: dict[int, int] = {}
        self.weight: dict[int, float | None] = {}
        self.needed: dict[int, int] = {}
        self.large: dict[int, frozenset[int]] = {}
        self.noted: dict[int, set[int]] = {}
        self.peak: dict[int, float] = {}

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

    # -- subtrees -----------------------------------------------------------------------------

    def _join(self, i: int) -> None:
        """Join the subtrees that only this task needs to it."""
        inputs = dict.fromkeys(self.plan.inputs[i] or ())
        waits = [j for j in inputs if j in self.cost]
        mine = [j for j in waits if self._is_only_for(j, i)]
        weight = self.cost[i]
        self.needed[i] = len(waits)
        self.peak[i] = self.size[i] or 0.0
        is_chain = len(waits) == 1 and bool(mine) and not self._has_bounds(mine[0])
        if is_chain and self._take(i, mine, inputs):
            before = self.weight[waits[0]]
            self.weight[i] = None if weight is None or before is None else weight + before
            self.needed[i] = self.needed[waits[0]]
            return
        if weight is not None and len(mine) == len(waits):
            total, needed = weight, 0
            for j in mine:
                before = self.weight[j]
                total = inf if before is None else total + before
                needed += self.needed[j]
            peak = self._peak(i, mine)
            fits = total <= self.limits.seconds and peak <= self.limits.held and needed <= _FEW
            if mine and fits and self._take(i, mine, inputs):
                weight, self.needed[i], self.peak[i] = total, needed, peak
                if len(mine) > 1 or not self.branching.isdisjoint(mine):
                    self.branching.add(i)
                if not self.showing.isdisjoint(mine):
                    self.showing.add(i)
                self.weight[i] = weight
                return
        self.weight[i] = weight
        self._take(i, (), inputs)

    def _peak(self, i: int, parts: Sequence[int]) -> float:
        """Return the bytes that a task and subtrees before it hold at once, as far as is known.

        Of several subtrees the results are held until all are done.
        """
        peak = held = 0.0
        for j in sorted(parts):
            peak = max(peak, held + self.peak[j])
            size = self.size[j]
            held += (inf if len(parts) > 1 else 0.0) if size is None else size
        return max(peak, held + (self.size[i] or 0.0))

    def _take(self, i: int, parts: Sequence[int], inputs: Iterable[int]) -> bool:
        """Join subtrees to a task if that brings no large results together; tell whether it did.

        Sets are handed on from subtree to subtree, so that the work stays that of the tasks.
        """
        own: list[int] = []
        noted: set[int] = set()
        inside = frozenset(parts)
        for j in inputs:
            if j not in inside:
                size = self._size(j)
                if size is None or size > self.limits.packed:
                    own.append(j)
                elif size >= _NOTED:
                    noted.add(j)
        reads = [self.large[j] for j in parts]
        if own:
            reads.append(frozenset(own))
        most = max(reads, key=len, default=_NOTHING)
        if not all(most.issuperset(each) for each in reads):
            return False
        for j in parts:
            other = self.noted.pop(j)
            if len(other) > len(noted):
                noted, other = other, noted
            noted |= other
            self.into[j] = i
        if len(parts) == 1:
            self.peak[i] = self._peak(i, parts)
        self.large[i], self.noted[i] = most, noted
        return True

    def _size(self, j: int) -> float | None:
        return self.size[j] if j in self.size else self.size_of_others(j)

    def _has_bounds(self, j: int) -> bool:
        """Tell whether the subtree of a task has to fit the limits with whatever joins it."""
        return j in self.showing or j in self.branching

    def _is_only_for(self, j: int, i: int) -> bool:
        plan = self.plan
        users = plan.consumers[j]
        if users.__class__ is list:
            if any(user != i and user != plan.end for user in users):
                return False
        elif users != i:
            return False
        is_shown = i in self.apart and j in self.showing
        if is_shown or j in self.apart or not self.alone.isdisjoint((i, j)):
            return False
        one, other = plan.tasks[j]._options, plan.tasks[i]._options
        return scheduling_options(one) == scheduling_options(other)

    # -- packs --------------------------------------------------------------------------------

    def _packed(self, root: dict[int, int], members: dict[int, list[int]]) -> list[list[int]]:
        levels: dict[int, int] = {}
        packs: list[_Pack] = []
        opened: dict[Any, _Pack] = {}
        for last in sorted(members):  # after those whose results it needs
            group = members[last]
            levels[last] = level = self._level(group, root, levels)
            options = scheduling_options(self.plan.tasks[last]._options)
            given, weight, large = self._given(last, group), self.weight[last], self.large[last]
            is_cut = bool(large) and self._needs_only(large, group)
            is_little = given <= (self.limits.held if is_cut else self.limits.packed)
            is_fixed = weight is None or not is_little or not self._may_be_packed(last)
            is_fixed |= last in self.alone
            key = level, options, large, is_cut
            pack = None if is_fixed else opened.get(key)
            if pack is None or not self._fits(pack, last, given):
                pack = _Pack(level, options, large, is_cut)
                packs.append(pack)
                if not is_fixed:
                    opened[key] = pack
            pack.parts.append(last)
            pack.members.extend(group)
            pack.weight += inf if weight is None else weight
            pack.bytes += self._moved(pack, last, given)
            pack.given += given
            pack.noted |= self.noted[last]
        packs = self._with_sources(packs)
        packs.sort(key=lambda pack: pack.level)
        for pack in packs:
            pack.members.sort()
        return [pack.members for pack in packs]

    def _with_sources(self, packs: list[_Pack]) -> list[_Pack]:
        """Put the subtree that makes a large result into the pack that alone reads it."""
        alone = {pack.parts[0]: pack for pack in packs if len(pack.parts) == 1}
        gone: set[int] = set()
        for pack in packs:
            is_of_one = pack.is_cut and len(pack.large) == 1 and len(pack.parts) > 1
            source = alone.get(next(iter(pack.large))) if is_of_one else None
            if source is None or source.options != pack.options:
                continue
            (last,) = source.parts
            held = self.peak[last] + pack.given
            if (
                source.weight < inf and pack.weight <= self.limits.seconds
                and held <= self.limits.held and last not in self.showing | self.alone
                and set(self.plan.uses(last)) <= set(pack.members)
            ):
                pack.members += source.members
                gone.add(last)
        return [pack for pack in packs if len(pack.parts) > 1 or pack.parts[0] not in gone]

    def _given(self, last: int, group: list[int]) -> float:
        """Return the bytes of the results of a subtree that are used outside of it."""
        if last not in self.showing:
            size = self.size[last]
            return inf if size is None else size
        sizes = [self.size[i] for i in group if i == last or i in self.shown]
        return inf if None in sizes else sum(sizes)  # type: ignore[arg-type]

    def _fits(self, pack: _Pack, last: int, given: float) -> bool:
        weight = self.weight[last]
        return (
            weight is not None and pack.weight + weight <= self.limits.seconds
            and pack.bytes + self._moved(pack, last, given) <= self.limits.packed
            and pack.given + given <= self.limits.held
        )

    def _moved(self, pack: _Pack, last: int, given: float) -> float:
        """Return the bytes that a pack moves in addition with a subtree.

        Pieces cut from large results go to their own users.
        """
        new = self.noted[last] - pack.noted
        return sum([self._size(j) or 0 for j in new]) + (0.0 if pack.is_cut else given)

    def _needs_only(self, large: frozenset[int], group: list[int]) -> bool:
        """Tell whether, of results still to be made, a subtree needs only these large ones."""
        inside = large.union(group)
        return all(
            j in inside for i in group for j in self.plan.inputs[i] or () if j in self.cost
        )

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


class _Pack:
    """Subtrees that are packed together.

    parts
        The last task of each subtree.
    large
        The large results that all of them read.
    is_cut
        Whether they need nothing else that is still to be made.
    bytes
        Bytes that it moves, see `_Grouping._moved`.
    given
        Bytes of all that they return.
    noted
        The results of others that are counted.
    """

    def __init__(
        self, level: int, options: Any, large: frozenset[int], is_cut: bool
    ) -> None:
        self.level = level
        self.options = options
        self.large = large
        self.is_cut = is_cut
        self.parts: list[int] = []
        self.members: list[int] = []
        self.weight = 0.0
        self.bytes = 0.0
        self.given = 0.0
        self.noted: set[int] = set()
