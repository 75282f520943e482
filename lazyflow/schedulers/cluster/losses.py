"""The errors of tasks whose workers died, and of values that were lost with them."""

from __future__ import annotations

from lazyflow.errors import WorkerDied
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.errors.failures import dressed


def gone(task: Task, cause: BaseException) -> WorkerDied:
    """Return the error of tasks whose input is lost and can't be computed again."""
    return _because(cause, WorkerDied(
        f"the result of {task_name(task)}, made at {place_text(task)}, was kept in "
        "the cluster and is gone: the worker that held it ended, and so did the holder of a value "
        "that was put, or passed as a large argument, from which it would be computed again; or it "
        "was cancelled. Compute it again."
    ))


def lost_for_good(names: list[str], tries: int, cause: BaseException) -> WorkerDied:
    """Return the error of a run whose inputs are lost again and again."""
    return _because(cause, WorkerDied(
        f"the inputs of {', '.join(dict.fromkeys(names))} were lost {tries} times, with the "
        "workers that held them. Look at the workers' logs for why they end."
    ))


def died_alone(task: Task, deaths: str, cause: BaseException) -> BaseException:
    """Return the error of a task that ran alone when its workers died."""
    died = WorkerDied(
        f"{deaths} ended while running this task alone. It may have run out of memory, "
        "crashed in C code, or called os._exit: run it with scheduler=\"sync\" to see."
    )
    return dressed(_because(cause, died), task, None)


def _because(cause: BaseException, died: WorkerDied) -> WorkerDied:
    died.__cause__ = cause
    return died
