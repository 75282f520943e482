"""A group of tasks that is one task of the engine, and what the engine keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from lazyflow.graph.options import Options
from lazyflow.graph.plan import Plan
from lazyflow.schedulers.cluster.results import Put

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
        What the engine's own pages call it.
    outputs
        Tasks whose results are used outside of the group.
    parts
        Those in parts, where not all have the same users; else empty: they are kept as one.
    waits
        The number of groups that it needs and that are not submitted.
    uses
        How often groups that are not done use its results.
    is_given
        Whether the caller gets any of them, and may hold the handle when the run does not.
    is_counted
        Whether it has one task, and each of its runs counts. Else the deaths of workers count that
        had it, whether they ran it or not.
    runs
        How many of those there may be.

    Parameters
    ----------
    crash_retries
        Of each of its tasks. One run is left for when it is clear which task ended the worker.
    """

    __slots__ = (
        "_part_of", "done", "handle", "is_counted", "is_given", "members", "name", "number",
        "outputs", "parts", "puts", "runs", "tries", "uses", "waits",
    )

    def __init__(self, plan: Plan, members: list[int], crash_retries: int) -> None:
        self.is_counted = not crash_retries
        self.runs = crash_retries or 1
        self.number = next(_numbers)
        self.members = members
        self.name = ""
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
        """Return what the engine keeps of it: its parts, or itself."""
        return self.parts or [self]

    def part_of(self, i: int) -> GroupPart | TaskGroup:
        """Return what the engine keeps with a result: a part, or the group itself."""
        return self._part_of.get(i, self)

    def divide(self, plan: Plan, group_of: Mapping[int, TaskGroup]) -> None:
        """Have the results kept in parts, unless all go to the same groups."""
        inside = frozenset(self.members)
        parts: dict[frozenset[int], GroupPart] = {}
        for i in self.outputs:
            outside = [user for user in plan.uses(i) if user not in inside]
            groups = frozenset([group_of[user].number for user in outside if user in group_of])
            part = parts.setdefault(groups, GroupPart())
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

    def forget_puts(self) -> None:
        """Have the values that were put for it sent again."""
        for put in self.puts:
            put.handle = None


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
