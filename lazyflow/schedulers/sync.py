"""Runs everything in the caller's thread, in the order of the plan: for debuggers and tests.

``breakpoint()`` in a task stops where it stands. A task can't be interrupted by ``timeout=``
here, as no other thread could do it, so the time is looked at between tasks.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from lazyflow.clock import Clock, Deadline
from lazyflow.graph.plan import Plan
from lazyflow.schedulers.core.base import KeepsActors, MakesRuns, Request, Worker
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.core.task_resources import asleep, here


class _Caller:
    """The thread that computes: the queue of its runs with ready tasks, and a queue that wakes it.

    A run is queued when tasks of it become ready outside its own loop. The newest run is taken
    first, since the others wait for it.
    """

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        # It is written in C, so Ctrl-C can't leave it locked, as it can a Semaphore.
        self.wake: SimpleQueue[None] = SimpleQueue()


class SyncRun(Run):
    """A run whose caller sleeps where tasks are offered, not at the run's event.

    All runs of the loop below are of this class: the caller of another would sleep for ever.
    """

    def _complete(self) -> None:
        super()._complete()
        if here.worker is None or here.worker.run is not self:  # a future of another run was last
            caller: _Caller = self.attached
            caller.wake.put(None)


class SyncScheduler(MakesRuns, KeepsActors):
    """The caller's thread as the only worker."""

    name = "sync"
    options = frozenset({"priority", "files"})
    actors_share_memory = True

    def __init__(self, now: Clock = monotonic) -> None:
        self._now = now

    def make_run(self, plan: Plan, request: Request) -> SyncRun:
        """Return a run for this scheduler."""
        return SyncRun(plan, request, self)

    def start(self, run: SyncRun) -> None:
        """Begin a run; one in the background is done at once, as no other thread will do it."""
        run.attached = _Caller()
        run.begin()
        if run.request.background:
            self.wait(run, None)

    def offer(self, run: Run, count: int) -> None:
        """Queue a run for its caller, unless that is in its loop and will look anyway."""
        worker = here.worker
        if worker is None or worker.run is not run:
            caller: _Caller = run.attached
            caller.runs.append(run)
            caller.wake.put(None)

    def wait(self, run: SyncRun, timeout: float | None) -> bool:
        """Run the tasks, until the run is over or `timeout` seconds have passed."""
        caller: _Caller = run.attached
        worker = Worker(threading.current_thread().name)
        if timeout is not None:
            run.deadline = Deadline(timeout, self._now)
            run.attention.append(None)
        while not run.over:
            if run.deadline.is_over():
                return False
            try:
                other = caller.runs.pop()
            except IndexError:  # everything waits for values that other threads make
                with asleep():
                    try:
                        caller.wake.get(timeout=run.deadline.left())
                    except Empty:
                        pass
                continue
            other.context.copy().run(other.work, worker)
        return True

    def abandon(self, run: Run) -> None:
        """Wake the caller; no task can still be running, as the caller is the only worker."""
        caller: _Caller = run.attached
        caller.wake.put(None)

    def make_actor(self, spec: Any) -> Any:
        """Return the host of an actor whose calls are made in the caller's thread."""
        from lazyflow.schedulers.actors.local import InlineActor

        return InlineActor(spec, self)
