"""Groups of the tasks of a run, in the order in which they are submitted.

A group is one task of the engine. Until the costs of functions are known, tasks go singly, a few at
a time; when more is known, groups are made again of what is left. Here four loads are added: task 2
adds 0 and 1, task 5 adds 3 and 4, and task 6 adds 2 and 5. A load turns out to take 20 ms, and an
addition a microsecond:

>>> from types import SimpleNamespace
>>> from lazyflow import delayed
>>> from lazyflow.graph.plan import make_plan
>>> load, add = delayed(abs), delayed(max)
>>> plan = make_plan([add(add(load(1), load(2)), add(load(3), load(4)))])
>>> engine = SimpleNamespace(
...     costs={}, sizes={}, has_priorities=True, width=lambda: 2, memory=lambda: 1e9,
...     holds=lambda value: False)
>>> queue = GroupQueue(
...     plan, engine, failed={}, limit=None, leaves={}, crash_retries=2, now=lambda: 0.0)
>>> queue.todo = set(range(7))
>>> queue.functions = {i: (plan.tasks[i]._func.__name__, b"") for i in queue.todo}
>>> queue.regroup(shown=plan.outputs)
>>> [group.members for group in dict.fromkeys(queue.group_of.values())]
[[0], [1], [3], [4], [2], [5], [6]]
>>> engine.costs |= {"abs": 0.02, "max": 1e-6}          # seconds
>>> engine.sizes |= {"abs": 0, "max": 0}                # bytes; 0: few
>>> queue.regroup(shown=plan.outputs)
>>> [group.members for group in dict.fromkeys(queue.group_of.values())], queue.knows_all
([[0], [1], [3], [4], [2, 5, 6]], True)
>>> [group.members for group in queue.departing(under_way=[])]
[[0], [1], [3], [4]]

State of a `GroupQueue`, which the engine's thread changes::

    todo :: {task}                     those that are not submitted
    group_of :: {task: TaskGroup}      also of submitted tasks
    functions :: {task: (digest, payload)}
    knows_all :: bool                  all costs were known when the groups were made
    _ready :: heap of (-priority, last task, number, group)    those that may be submitted
    _after :: {number: [TaskGroup]}    those that wait until the group of the number is submitted
    _sizes :: {task: bytes}            results of this run; `engine.sizes` has those by function
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from lazyflow import config
from lazyflow.clock import Clock
from lazyflow.graph.grouping import Limits, clusters
from lazyflow.graph.items import Item
from lazyflow.graph.options import Options
from lazyflow.graph.plan import Plan, counted, log_pass, pass_log
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.results import Put, too_much
from lazyflow.store.sizes import size_of

# -- a group of tasks that is one task of the engine, and the results that the engine keeps

_numbers = count(1)


class GroupPart:
    """Results of a group that go to the same users, and that the engine keeps by themselves.

    handle, is_given, uses
        As of the group.
    """

    __slots__ = ("handle", "is_given", "outputs", "uses")

    def __init__(self) -> None:
        self.outputs: list[int] = []
        self.is_given = False
        self.uses = 0
        self.handle: Any = None

    def current_handle(self) -> Any:
        """Return the handle, as of a `HeldValue`."""
        return self.handle


class TaskGroup:
    """Tasks of a run that are one task of the engine.

    handle
        The engine's handle; None if the group is not submitted, or not needed any more.
    name
        Its name on the engine's own pages.
    outputs
        Tasks whose results are used outside of the group.
    parts
        Those in parts, where not all have the same users; else empty: they are kept as one.
    place
        The worker that should run it, if its inputs are near to all; empty: the engine chooses.
    share
        A number of the groups there that get their inputs together.
    waits
        The number of groups that it needs and that are not submitted.
    uses
        How often groups that are not done use its results.
    is_given
        Whether the caller gets any of them, and may hold the handle when the run does not.
    is_counted
        What `runs` counts. True: runs of its only task. False: deaths of workers that had the
        group, whether or not it ran there.
    runs
        How many of these runs, or deaths, are left.
    is_known
        Whether the costs of its tasks, and the sizes of results of theirs that the caller wants,
        were known when it was made.

    Parameters
    ----------
    crash_retries
        Of each of its tasks. One run is left for when it is clear which task ended the worker.
    """

    __slots__ = (
        "_part_of", "done", "handle", "is_counted", "is_given", "is_known", "members", "name",
        "number", "outputs", "parts", "place", "puts", "runs", "share", "tries", "uses", "waits",
    )

    def __init__(self, plan: Plan, members: list[int], crash_retries: int) -> None:
        self.is_counted = not crash_retries
        self.runs = crash_retries or 1
        self.is_known = False
        self.number = next(_numbers)
        self.members = members
        self.name = ""
        self.place, self.share = "", 0
        self.handle: Any = None
        self.done = False
        self.tries = 0
        self.waits = 0
        self.puts: list[Put] = []
        inside = frozenset(members)
        self.outputs: list[int] = []
        self.parts: list[GroupPart] = []
        self._part_of: dict[int, GroupPart] = {}
        self.is_given = False
        self.uses = 0
        end = plan.end
        for i in members:
            outside = [user for user in plan.uses(i) if user not in inside]
            if outside:
                self.outputs.append(i)
                self.uses += sum(user != end for user in outside)
                self.is_given |= end in outside

    def current_handle(self) -> Any:
        """Return the handle, as of a `HeldValue`."""
        return self.handle

    def kept(self) -> Sequence[GroupPart | TaskGroup]:
        """Return the results that the engine keeps: its parts, or itself."""
        return self.parts or [self]

    def part_of(self, i: int) -> GroupPart | TaskGroup:
        """Return the part that holds a result, or the group itself."""
        return self._part_of.get(i, self)

    def divide(self, plan: Plan, group_of: Mapping[int, TaskGroup]) -> None:
        """Have the results kept in parts, unless all go to the same groups.

        All groups of one share read the same part. So where rows become columns, the engine gets a
        few tasks for each source, not one for each pair.
        """
        inside = frozenset(self.members)
        parts: dict[frozenset[Any], GroupPart] = {}
        for i in self.outputs:
            outside = [user for user in plan.uses(i) if user not in inside]
            users = [group_of[user] for user in outside if user in group_of]
            goes_to = frozenset([(u.place, u.share) if u.place else u.number for u in users])
            part = parts.setdefault(goes_to, GroupPart())
            part.outputs.append(i)
            part.uses += sum(user != plan.end for user in outside)
            part.is_given |= plan.end in outside
        if len(parts) > 1:
            self.parts = list(parts.values())
            self._part_of = {i: part for part in self.parts for i in part.outputs}

    def release(self) -> None:
        """Drop all handles: it is not submitted, or not needed."""
        self.handle = None
        for part in self.parts:
            part.handle = None

    def drop_puts(self) -> None:
        """Have the values that were put for it sent again."""
        for put in self.puts:
            put.handle = None


# -- the queue of groups ------------------------------------------------------------------


class Submission(NamedTuple):
    """A group with all that its submission needs.

    deps
        Groups, results of earlier runs and put values to which the payload refers.
    """

    run: Any
    group: TaskGroup
    payload: bytes
    deps: list[Any]
    options: Options


LEAST, MOST = 0.005, 0.1  # seconds of work of a group; a guess
_PACKED = 300_000  # bytes that packed tasks read and return at most (see Limits); a guess
_FEW_DONE = 64  # tasks: until so many are done, groups are made anew when more is known; a guess
LONG = 0.5  # seconds after which tasks are taken to be long; a guess
_SHOWN = 100  # tasks that are handed over singly when those before take long; a guess
_SHARES = 3  # groups for each worker, at least, where the work is enough; a guess
_OWN = 20e-6  # seconds that a task costs beside its function; a guess


class GroupQueue:
    """The tasks of one run that are not submitted, in groups.

    Parameters
    ----------
    failed
        The errors of tasks that have failed: no group waits for them.
    limit
        The most workers that the run may use; None or 0: all.
    leaves
        The values of leaves, or references to those that the engine holds.
    crash_retries
        Of tasks that have none of their own.
    now
        Returns the time in seconds.

    The module's docstring has its state.
    """

    def __init__(
        self, plan: Plan, engine: Engine, failed: Mapping[int, BaseException], limit: int | None,
        leaves: Mapping[int, Any], crash_retries: int, now: Clock,
    ) -> None:
        self.plan = plan
        self.engine = engine
        self.failed = failed
        self._limit = limit
        self._leaves = leaves
        self._crash_retries = crash_retries
        self._now = now
        self._sizes: dict[int, int] = {}
        self.functions: dict[int, tuple[bytes, bytes]] = {}
        self.group_of: dict[int, TaskGroup] = {}
        self.todo: set[int] = set()
        self.knows_all = False
        self._has_learnt = False  # more of the functions than was known when groups were made
        # tasks that are done: now, when groups were made, and when none had ended for some time
        self._done = self._done_before = 0
        self._stuck_at = -1
        self._watched: tuple[int, float] | None = None  # tasks done when groups had to wait, time
        self._ready: list[tuple[int, int, int, TaskGroup]] = []
        self._after: dict[int, list[TaskGroup]] = {}
        self._places: dict[int, tuple[str, int]] = {}  # and shares, by the last task of a group
        self._given: Counter[str] = Counter()  # bytes that groups read, by place

    # -- facts about functions ----------------------------------------------------------------

    def crash_retries_of(self, i: int) -> int:
        """Return how often a task runs again after the death of a worker that ran it."""
        own: int | None = self.plan.tasks[i]._options.crash_retries
        return self._crash_retries if own is None else own

    def learn(self, times: dict[bytes, tuple[int, float]]) -> None:
        """Note the number and the seconds of calls, by digest of the function."""
        for digest, (calls, seconds) in times.items():
            if digest not in self.engine.costs:
                self._has_learnt = True
            self.engine.learn(digest, calls, seconds)

    def learn_size(self, i: int, size: int) -> None:
        """Note the bytes of the result of a task; 0: it was short."""
        self._sizes[i] = size
        is_item = self.plan.tasks[i]._func.__class__ is Item
        if not is_item and self.engine.learn_size(self.functions[i][0], size):
            self._has_learnt = True

    def is_short(self, group: TaskGroup) -> bool:
        """Return whether a group is known to end soon."""
        costs = [self._cost(i) for i in group.members]
        return None not in costs and sum(costs) <= MOST  # type: ignore[arg-type]

    def _cost(self, i: int) -> float | None:
        if self.plan.tasks[i]._func.__class__ is Item:
            return 0.0
        known = self.engine.costs.get(self.functions[i][0])
        return None if known is None else known + _OWN

    def size(self, i: int) -> int | None:
        """Return about how many bytes the result of a task takes; 0: it is short; None: unknown."""
        known_size = self._sizes.get(i)
        if known_size is not None:
            return known_size
        func = self.plan.tasks[i]._func
        if i in self._leaves:
            value = self._leaves[i]
            held: int | None = value.size if self.engine.holds(value) else size_of(value)
            return held
        if func.__class__ is Item:
            (whole,) = self.plan.inputs[i] or (i,)
            size = self.size(whole)
            return None if size is None else size // max(func.length, 1)
        known = self.functions.get(i)
        return None if known is None else self.engine.sizes.get(known[0])

    def needs(self, i: int) -> int:
        """Return the bytes of the results that a task reads, as far as they are known."""
        return sum([self.size(j) or 0 for j in set(self.plan.inputs[i] or ())])

    def shortage(self, i: int, cause: BaseException | None = None) -> BaseException:
        """Return the error of a task whose inputs no worker can hold at once."""
        return too_much(self.plan.tasks[i], self.needs(i), self.engine.memory(), cause)

    def too_large(self) -> Iterator[int]:
        """Yield the tasks that need more existing values than a worker can hold."""
        memory = self.engine.memory()
        if sum([self.size(i) or 0 for i in self._leaves]) > memory:
            for i in sorted(self.todo):
                kept = self._leaves.keys() & (self.plan.inputs[i] or ())
                if kept and sum([self.size(j) or 0 for j in kept]) > memory:
                    yield i

    # -- groups -------------------------------------------------------------------------------

    def regroup(self, shown: Collection[int]) -> None:
        """Make groups of the tasks that are not submitted, by the costs that are known now.

        Parameters
        ----------
        shown
            Tasks whose results may be asked for before the rest is done.
        """
        self._has_learnt = False
        self._done_before = self._done
        plan, todo = self.plan, sorted(self.todo)
        apart = [i for i in shown if i in self.todo and self.size(i) != 0]
        costs = {i: self._cost(i) for i in todo}
        known = [cost for cost in costs.values() if cost is not None]
        total = sum(known, 0.0)
        unsized = {i for i in apart if self.size(i) is None}
        self.knows_all = not unsized and len(known) == len(costs)
        is_tiny = self.knows_all and total <= LEAST and not apart and self._moves_little(todo)
        held = config.get("group_memory") * self.engine.memory()
        seconds = LEAST
        if is_tiny and not plan.has_scheduler_options and self._crash_retries:
            member_lists = [todo] if todo else []
        else:
            width = self._width()
            shares = _SHARES * width if width > 1 else 1
            seconds = min(max(total / shares, LEAST), MOST)
            limits = Limits(seconds, min(_PACKED, held), held)
            alone: Collection[int] = ()  # they must not run again if another one ends the worker
            if plan.has_scheduler_options or not self._crash_retries:
                alone = [i for i in todo if not self.crash_retries_of(i)]
            member_lists = clusters(
                plan, todo, costs.__getitem__, self.size, limits, shown, apart, alone)
        log = pass_log() if todo else None
        if log is not None:
            log_pass(log, "groups", _explain_groups, member_lists, seconds, len(todo) - len(known))
        self._ready = []
        self._after = {}
        groups = [
            TaskGroup(plan, members, self.crash_retries_of(members[0])) for members in member_lists
        ]
        for group in groups:
            group.is_known = unsized.isdisjoint(group.members) and None not in map(
                costs.__getitem__, group.members)
            self.group_of.update(dict.fromkeys(group.members, group))
            self._choose_place(group, held)
        for group in groups:
            given = sum([self.size(i) or 0 for i in group.outputs])
            if _PACKED < given <= held:  # each part is made where all of them are
                group.divide(plan, self.group_of)
            self.line_up(group)

    def _moves_little(self, todo: Collection[int]) -> bool:
        """Tell whether all that some tasks read and return to the caller may be brought together.

        Large results that the caller gets are made, and copied to it, by several workers.
        """
        inputs = self.plan.inputs
        read = {j for i in todo for j in inputs[i] or () if j not in self.todo}
        wanted = self.todo.intersection(self.plan.outputs)
        return all(
            len(some) < 2 or sum([self.size(j) or 0 for j in some]) <= _PACKED
            for some in (read, wanted)
        )

    def _width(self) -> int:
        width = self.engine.width()
        return min(width, self._limit) if self._limit else width

    def departing(self, under_way: Sized) -> Iterator[TaskGroup]:
        """Yield the groups that may go now, while the caller adds them to those under way.

        Groups of unknown costs wait for the first results, by which they may be made anew.
        """
        goes_by_itself = self.engine.has_priorities or not self.plan.priorities
        most = most_known = 2 * self.engine.width()
        if goes_by_itself:
            most_known = sys.maxsize
            if self._is_stuck():
                most = max(most, _SHOWN)  # an engine starts workers by the number of its tasks
        if self._limit:
            most = min(most, self._limit)
            if not self.engine.is_within(self._limit):
                most_known = min(most_known, self._limit)
        while self._ready:
            group = self._ready[0][-1]
            goes = group.handle is None and not group.done
            if goes and len(under_way) >= (most_known if group.is_known else most):
                return
            heappop(self._ready)
            if goes:
                yield group

    def is_held_back(self) -> bool:
        """Tell, once in a while, whether groups wait until more is known of functions."""
        is_new = self._watched is None and self._stuck_at != self._done
        if is_new and self._ready and not self.knows_all:
            self._watched = self._done, self._now()
            return True
        return False

    def _is_stuck(self) -> bool:
        """Tell whether no task has ended for some time: they take long, or there is no worker."""
        if self._watched is not None and self._now() - self._watched[1] >= LONG:
            if self._watched[0] == self._done:
                self._stuck_at = self._done
                self.engine.hear_of_workers()
            self._watched = None
        return self._stuck_at == self._done

    def take_back(self, group: TaskGroup) -> None:
        """Queue a submitted group again, whether it has run or not."""
        group.release()
        group.done = False
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
        priority = self.plan.priorities.get(group.members[0], 0)
        heappush(self._ready, (-priority, group.members[-1], group.number, group))

    def needed(self, group: TaskGroup) -> list[TaskGroup]:
        """Return the groups that compute inputs of a group."""
        return [other for j, other in self._makers(group) if j not in self.failed]

    def _choose_place(self, group: TaskGroup, most: float) -> None:
        """Choose the place and the share of a group that reads parts of results on all workers.

        Its inputs were cut for at least two readers for each worker, and it reads as many of them.
        A share is of `most` bytes: a worker has to have room for all parts that a group needs.
        """
        tasks, inputs, least = self.plan.tasks, self.plan.inputs, 2 * self.engine.width()
        last = group.members[-1]  # it has its place also when groups are made anew
        if last not in self._places:
            read = {j for i in group.members for j in inputs[i] or ()}
            items = {j: tasks[j]._func for j in read}
            cut = [j for j, f in items.items() if f.__class__ is Item and f.length >= least]
            sizes = [size for j in cut if (size := self.size(j)) is not None]
            if len(sizes) < max(least, len(cut)):
                return
            place = self.engine.next_place()
            share = int(self._given[place] // max(most, 1))
            self._given[place] += sum(sizes)
            self._places[last] = place, share
        group.place, group.share = self._places[last]

    def is_a_share(self, group: TaskGroup) -> bool:
        """Tell whether a group that reads nothing makes one of the caller's many large results.

        False until all costs are known: the first groups go to any free worker.
        """
        is_large = any((self.size(i) or 0) > _PACKED for i in group.outputs)
        many = len(self.plan.outputs) >= 2 * self.engine.width()
        return self.knows_all and not group.uses and is_large and many

    def _makers(self, group: TaskGroup) -> Iterator[tuple[int, TaskGroup]]:
        """Yield each input of a group that another group computes, with that group."""
        for i in group.members:
            for j in self.plan.inputs[i] or ():
                other = self.group_of.get(j)
                if other is not None and other is not group:
                    yield j, other

    def handed_over(self, group: TaskGroup) -> None:
        """Note that a group is submitted; others that waited for it may be ready now."""
        self.todo.difference_update(group.members)
        for other in self._after.pop(group.number, ()):
            other.waits -= 1
            if not other.waits:
                self._is_ready(other)

    def is_worth_regrouping(self) -> bool:
        """Return whether more is known than when groups were made, and enough tasks are left."""
        left, newly_done = len(self.todo), self._done - self._done_before
        is_time = newly_done >= left // 8 or self._done < _FEW_DONE
        return self._has_learnt and left > 0 and is_time

    def note_done(self, group: TaskGroup) -> None:
        """Release the results that no group needs any more, now that this one is done."""
        self._done += len(group.members)
        for j, other in self._makers(group):
            other.uses -= 1
            part = other.part_of(j)
            if part is not other:
                part.uses -= 1
            if not part.uses and other.done:
                self.let_go(part)

    def let_go(self, kept: GroupPart | TaskGroup) -> None:
        """Release results that no group needs any more, unless the caller holds some of them."""
        handle, kept.handle = kept.handle, None
        if handle is not None and not kept.is_given:
            self.engine.drop(handle)

    def clear(self) -> None:
        """Drop all groups: the run is over."""
        self.group_of.clear()
        self._ready.clear()
        self._after.clear()
        self.todo.clear()


def _explain_groups(member_lists: list[list[int]], seconds: float, unknown: int) -> str:
    """Say what one grouping made of the tasks that are left."""
    sizes = [len(members) for members in member_lists]
    costs = f"{counted(unknown)} of unknown cost" if unknown else "all costs are known"
    return (
        f"{counted(sum(sizes))} left make {counted(len(sizes), 'group', 'groups')}, the largest of "
        f"{counted(max(sizes))}; the limit is {seconds:.3g} s of work; {costs}"
    )
