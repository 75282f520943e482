"""What a run on an engine is made of, and how others see it."""

from __future__ import annotations

import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

from lazyflow.schedulers.cluster.results import Put
from lazyflow.schedulers.core.base import Worker

if TYPE_CHECKING:
    from lazyflow.schedulers.cluster.submission import Feeding

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

    def __init__(self, run: Feeding, members: list[int]) -> None:
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


class Nudge:
    """In the place of `Run.attention`: whoever appends to it wakes the scheduler. Never locks."""

    def __init__(self, run: Feeding) -> None:
        self._run = weakref.ref(run)

    def append(self, _: Any) -> None:
        run = self._run()
        if run is not None and run.begun:
            run.engine.post(run.culled)


def look(reference: weakref.ref[Feeding]) -> None:
    """Learn that a future of a run was dropped. In the scheduler's thread."""
    run = reference()
    if run is not None and run.begun:
        run.culled()


class There(Worker):
    """A worker of an engine, as messages name it."""

    __slots__ = ()
    kind = "worker"
