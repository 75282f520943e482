"""Errors for workers that die or can't be started, and for the end of the driver's thread."""

from __future__ import annotations

import errno
import os
import resource
import sys

from lazyflow.errors import SchedulerLost, WorkerDied
from lazyflow.graph.task import place_text, task_name
from lazyflow.schedulers.core.errors.failures import text_of, with_call_note
from lazyflow.schedulers.processes.decisions.nodes import Node
from lazyflow.store.sizes import format_bytes

_FILES = 20  # descriptors of this process for its first worker, while that is started


def no_process(what: str, error: OSError) -> WorkerDied:
    """Return the error for a process that the system refuses."""
    if not os.path.isdir("/proc/self"):
        advice = (
            "/proc is not there, which workers need: mount it (mount -t proc proc /proc), or take"
        )
    elif error.errno == errno.ENOMEM:
        advice = (
            "The machine, or this process (ulimit -v), has no memory left for it: drop what is not "
            "needed, or take fewer workers (num_workers=) or"
        )
    else:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        advice = (
            "The limits of the system on processes (ulimit -u) and open files (ulimit -n, now "
            f"{files}; a worker needs {_FILES}) are the usual cause; raise them, or take fewer "
            "workers (num_workers=) or"
        )
    failed = WorkerDied(
        f'{what} can be started: {type(error).__name__}: {error}. {advice} scheduler="threads".'
    )
    failed.__cause__ = error
    return failed


def never_answered(count: int, how: str) -> WorkerDied:
    """Return the error for workers that end before any has answered."""
    return WorkerDied(
        f"{count} workers in a row ended before they had run a task, the last by {how}: they can't "
        "start here. What they printed on standard error says why; they are started as "
        f"{sys.executable} -c ..."
    )


def worker_died(how: str, pid: int, peak: int, node: Node, attempts: int) -> BaseException:
    """Return the error of a task that has killed so many workers.

    0: it has not, but its value was lost with one, and it must not run again.
    """
    if not attempts:
        died = WorkerDied(
            f"what {task_name(node.task)}, made at {place_text(node.task)}, gave is needed again, "
            f"since a worker (process {pid}) ended by {how}, and was dropped for newer values: the "
            "task, or one that it returned, has crash_retries=0 and must not run twice. Persist "
            "what it gives, or allow crash_retries=1."
        )
        return with_call_note(died, node.task, None)
    memory = f" Its memory had reached {format_bytes(peak)}." if peak else ""
    if how == "SIGKILL":
        memory += (
            " The system sends it mostly where memory has run out: make chunks smaller, or take "
            "fewer workers (num_workers=)."
        )
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    died = WorkerDied(
        f"the worker (process {pid}) that ran {task_name(node.task)}, made at "
        f"{place_text(node.task)}, ended by {how}; given up after {tries}.{memory} "
        "crash_retries= of delayed says how often a task is run again after such a death."
    )
    return with_call_note(died, node.task, None)


def scheduler_lost(bug: BaseException) -> SchedulerLost:
    """Return the error for a bug that has ended the driver's thread."""
    lost = SchedulerLost(
        "the thread that drives the worker processes has ended by an error of the system's or of "
        f"lazyflow's own, {type(bug).__name__}: {text_of(bug)}. What they were computing, and what "
        "only they had, is lost. Compute it again: that starts new workers"
        + (
            "; the limit on open files (ulimit -n) is the likely cause, raise it or take fewer "
            "workers (num_workers=)."
            if isinstance(bug, OSError) and bug.errno == errno.EMFILE
            else "; memory has run out: compute less at once, or make the chunks smaller."
            if isinstance(bug, MemoryError) or getattr(bug, "errno", 0) == errno.ENOMEM
            else "; and please report this with the traceback."
        )
    )
    lost.__cause__ = bug
    return lost
