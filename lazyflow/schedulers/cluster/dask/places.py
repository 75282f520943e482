"""Where groups should run in a cluster of distributed: wishes, for which nothing waits."""

from __future__ import annotations

from typing import Any

from distributed import SchedulerPlugin


class FreeToMove(SchedulerPlugin):
    """Has the scheduler forget where a task should run once there is no worker for it.

    Otherwise one that may run elsewhere waits until that very worker comes back: after the death
    of all workers, for ever.
    """

    name = "lazyflow-free-to-move"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Be told which scheduler it is."""
        self._scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Be told that the state of a task has changed."""
        if finish == "no-worker":
            state = self._scheduler.tasks[key]
            if state.loose_restrictions:
                state.worker_restrictions = state.host_restrictions = None


def let_move(client: Any) -> bool:
    """Have the tasks of a cluster be free to move; return False if its scheduler takes no code."""
    try:
        client.register_plugin(FreeToMove())
    except ValueError:
        return False
    return True
