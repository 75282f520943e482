"""lazyflow's part in the scheduler of distributed: wishes for places, and how often groups run.

A wish for a place is one for which nothing waits. Deaths of workers count for a group as they do
for any task of distributed, from another start: `RUNS` annotates after how many it fails. That
counts also where the group was only queued, so a group that must not run too often asks before it
begins: then the count is exact.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from distributed import SchedulerPlugin

RUNS = "lazyflow_runs"  # the annotation: deaths after which a group fails

_MOST = 100_000  # groups whose beginnings are remembered: also of those that are forgotten


class SchedulerPart(SchedulerPlugin):
    """Has the scheduler forget impossible places, and count how often groups begin."""

    name = "lazyflow"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Be told which scheduler it is."""
        self._scheduler = scheduler
        self._begun: OrderedDict[Any, int] = OrderedDict()
        scheduler.handlers["lazyflow_begin"] = self.begin
        scheduler.handlers["lazyflow_begun"] = self.begun

    def update_graph(self, scheduler: Any, *, annotations: Any, **given: Any) -> None:
        """Be told of new tasks, before they are sent to workers."""
        for key, runs in annotations.get(RUNS, {}).items():
            scheduler.tasks[key].suspicious = scheduler.allowed_failures + 1 - runs

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Be told that the state of a task has changed.

        One that may run elsewhere would wait until its very worker comes back: after the death of
        all workers, for ever.
        """
        if finish == "no-worker":
            state = self._scheduler.tasks[key]
            if state.loose_restrictions:
                state.worker_restrictions = state.host_restrictions = None

    def begin(self, key: Any, worker: str, runs: int) -> bool:
        """Count one more run of a task, unless there were so many; return whether it may begin.

        What was given to another worker since, or is released or forgotten, must not begin: its
        end would count for nobody.
        """
        state = self._scheduler.tasks.get(key)
        count = self._begun.get(key, 0)
        place = state.processing_on if state is not None else None
        if place is None or place.address != worker or count >= runs:
            return False
        self._begun[key] = count + 1
        if count + 1 == runs:
            state.suspicious = self._scheduler.allowed_failures  # the next death is the end
        while len(self._begun) > _MOST:
            self._begun.popitem(last=False)
        return True

    def begun(self, key: Any) -> int:
        """Return how often a task that counts its runs has begun."""
        return self._begun.get(key, 0)


def set_up(client: Any) -> bool:
    """Have the part in the scheduler of a client; return False if that takes no code."""
    try:
        client.register_plugin(SchedulerPart())
    except ValueError:
        return False
    return True
