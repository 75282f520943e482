"""How observers and callers see a run on an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.cluster.work import ENDED, FAILED, STARTED
from lazyflow.schedulers.core.base import Worker
from lazyflow.schedulers.core.lifecycle import Lifecycle, doing


class EngineWorker(Worker):
    """A worker of an engine, for messages."""

    __slots__ = ()
    kind = "worker"


def tell_observers(
    run: Lifecycle, events: Iterable[tuple[int, int]], errors: Mapping[int, BaseException]
) -> None:
    """Pass the events that a worker reports on to observers."""
    for what, i in events:
        if what == STARTED:
            run.observers.task_started(run, i)
        elif what == ENDED:
            run.observers.task_ended(run, i)
        elif what == FAILED and i in errors:
            run.observers.task_failed(run, i, errors[i])


def described(
    run: Lifecycle, running: Sequence[tuple[str, int]], handed_over: Sequence[int]
) -> list[str]:
    """Describe running tasks, given as (worker, number), and tasks that are submitted."""
    found = []
    for where, i in running:
        worker = EngineWorker(where)
        worker.run, worker.task = run, i
        found.append(doing(worker))
    for i in handed_over:
        task = run.plan.tasks[i]
        found.append(f"{task_name(task)}, made at {place_text(task)} (handed to the cluster)")
    return found
