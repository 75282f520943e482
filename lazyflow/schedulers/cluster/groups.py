"""Groups of tasks, and how a run on an engine learns that its futures were dropped."""

from __future__ import annotations

import weakref
from itertools import count
from typing import Any, NamedTuple, Protocol

from lazyflow.graph.options import Options
from lazyflow.graph.plan import Plan
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.results import Put

_numbers = count(1)


class TaskGroup:
    """Tasks of a run that are one task of the engine.

    handle
        The engine's handle; None if the group is not submitted, or not needed any more.
    last
        The last of its tasks, after which the engine's task is named.
    outputs
        Tasks whose results are used outside of the group.
    waits
        The number of groups that it needs and that are not submitted.
    uses
        How often groups that are not done use its results.
    """

    __slots__ = (
        "done", "handle", "last", "members", "number", "outputs", "puts", "tries", "uses", "waits",
    )

    def __init__(self, plan: Plan, members: list[int]) -> None:
        self.number = next(_numbers)
        self.members = members
        self.last = plan.tasks[members[-1]]
        self.handle: Any = None
        self.done = False
        self.tries = 0
        self.waits = 0
        self.puts: list[Put] = []
        inside = frozenset(members)
        self.outputs: list[int] = []
        self.uses = 0
        end = plan.end
        for i in members:
            outside = [user for user in plan.uses(i) if user not in inside]
            if outside:
                self.outputs.append(i)
                self.uses += sum(user != end for user in outside)

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


class _Culled(Protocol):
    """A run whose futures may be dropped."""

    engine: Engine
    begun: bool

    def culled(self) -> None:
        """Drop the tasks that only dropped futures needed."""


class Nudge:
    """Stands for `Run.attention`: an append wakes the engine's thread. Never locks."""

    def __init__(self, run: _Culled) -> None:
        self._run = weakref.ref(run)

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None and run.begun:
            run.engine.post(run.culled)


def look(reference: weakref.ref[_Culled]) -> None:
    """Cull a run of which a future was dropped. Called in the engine's thread."""
    run = reference()
    if run is not None and run.begun:
        run.culled()
