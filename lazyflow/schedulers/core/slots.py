"""Who is running a task in this thread, and the seats that cap how many run at once.

A thread may be inside several runs at once: a task computes, and the thread helps. A seat in
each of them is its right to be there. A thread that goes to sleep inside a task gives all of
them back, since what it waits for may need them. When it wakes and one is taken, it is one too
many in that run, until the task is done: waiting for the seat could be waiting for somebody who
needs a lock that this task holds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from lazyflow.schedulers.core.base import Worker

if TYPE_CHECKING:
    from lazyflow.schedulers.core.run import Run


class _Here(threading.local):
    worker: Worker | None = None
    is_worker = False

    def __init__(self) -> None:
        self.uses: list[Any] = []


#: ``here.worker`` is the worker that this thread is, inside `Run.work`; ``is_worker`` tells that
#: the thread runs tasks outside of one. ``here.uses``: see task_resources.py.
here = _Here()


@contextmanager
def asleep() -> Iterator[None]:
    """Tell every worker that this thread is, whatever the scheduler, that it sleeps meanwhile."""
    with ExitStack() as stack:
        worker = here.worker
        while worker is not None:
            stack.enter_context(worker.asleep())
            worker = worker.below
        for use in here.uses:
            stack.enter_context(use.asleep())
        yield


class Seats:
    """How many tasks of a run, and of the runs its tasks turned into, may run at once."""

    __slots__ = ("count", "free")

    def __init__(self, count: int) -> None:
        self.count = count
        self.free: list[None] = [None] * count

    def take(self) -> bool:
        """Take a seat, if there is one."""
        try:
            self.free.pop()
        except IndexError:
            return False
        return True

    def give(self) -> None:
        """Give a seat back."""
        self.free.append(None)


class Seat:
    """A seat of a worker in a run.

    owed
        Somebody took it while the worker slept.
    called
        The worker is to leave it after the task.
    """

    __slots__ = ("called", "owed", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.owed = False
        self.called = False


class SeatedWorker(Worker):
    """A thread that takes a seat for every run it is in; the innermost is last in ``held``."""

    __slots__ = ("held",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.held: list[Seat] = []

    def sit(self, run: Run) -> None:
        """Work on a run, on a seat that was taken before; give it back."""
        seat = Seat(run)
        self.held.append(seat)
        self.must_leave = seat.called
        try:
            run.context.copy().run(run.work, self)
        except BaseException as error:  # a bug of ours: never leave a caller waiting
            run.cancel(error)
        self.held.pop()
        if seat.called:
            run.odd.pop()
        if seat.owed:
            run.odd.pop()
        else:
            run.attached.give()
        self._look_up()

    def call_away(self) -> None:
        """Have it leave its innermost run after the task. Called by any thread."""
        try:
            seat = self.held[-1]
        except IndexError:  # it has left
            return
        seat.run.odd.append(None)  # first: who sees that it was called takes it out
        seat.called = self.must_leave = True

    def _look_up(self) -> None:
        """Find out whether it has to leave the run that it is in now."""
        self.must_leave = bool(self.held) and (self.held[-1].owed or self.held[-1].called)

    def rise(self) -> None:
        """Give all seats back, before the thread sleeps."""
        for seat in self.held:
            if not seat.owed:
                seat.run.attached.give()

    def sit_again(self) -> None:
        """Take the seats again after the sleep; leave after the task where there is none."""
        for seat in self.held:
            was_owed, seat.owed = seat.owed, not seat.run.attached.take()
            if seat.owed and not was_owed:
                seat.run.odd.append(None)  # so that the loop looks at `must_leave`
            elif was_owed and not seat.owed:
                seat.run.odd.pop()
        self._look_up()
