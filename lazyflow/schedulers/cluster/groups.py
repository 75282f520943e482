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
        """Have what was put for it sent again."""
        for put in self.puts:
            put.handle = None


class Submission(NamedTuple):
    """A group that is handed over.

    deps
        What the engine holds and the payload refers to: groups, results of earlier runs, `Put`.
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
        """Drop what only dropped futures needed."""


class Nudge:
    """In the place of `Run.attention`: whoever appends to it wakes the scheduler. Never locks."""

    def __init__(self, run: _Culled) -> None:
        self._run = weakref.ref(run)

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None and run.begun:
            run.engine.post(run.culled)


def look(reference: weakref.ref[_Culled]) -> None:
    """Learn that a future of a run was dropped. In the scheduler's thread."""
    run = reference()
    if run is not None and run.begun:
        run.culled()
