"""What a run on a cluster waits for, in words."""

from __future__ import annotations

from typing import Any

from lazyflow.graph.task import place_text

MOST_NAMES = 5  # of tasks, in a message


def pending_tasks(run: Any) -> list[str]:
    """Describe the tasks of an `EngineRun` that run now, if workers answer, and the next ones."""
    found = [(i, f"worker {where}") for where, i in run.engine.running(run)]
    named = {i for i, _ in found}
    waiting = [
        group.members[0] for group in tuple(run.under_way.values())
        if named.isdisjoint(group.members)
        and all(other.done for other in run.queue.needed(group))
    ]
    if not found and not waiting:
        waiting = run.plan.ready[-1:]
    found += [(i, "handed to the cluster") for i in waiting[:MOST_NAMES]]
    return [
        f"{run.task_name(i)}, made at {place_text(run.plan.tasks[i])} ({where})"
        for i, where in found
    ]
