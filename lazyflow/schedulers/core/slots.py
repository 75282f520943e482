"""The slots that cap how many tasks of a run are run at once, and the threads that take them.

A thread may be inside several runs at once: a task computes, and the thread helps. A slot in
each of them is its right to be there. A thread that goes to sleep inside a task gives all of
them back, since what it waits for may need them. When it wakes and one is taken, it is one too
many in that run until the task is done: to wait for the slot could be to wait for a thread that
needs a lock which this task holds.
"""

from __future__ import annotations

from lazyflow.schedulers.core.base import Worker
from lazyflow.schedulers.core.run import Run


class Slots:
    """The slots of a run and of the runs that its tasks turned into: its cap on running tasks."""

    __slots__ = ("count", "free")

    def __init__(self, count: int) -> None:
        self.count = count
        self.free: list[None] = [None] * count

    def take(self) -> bool:
        """Take a slot, if one is free."""
        try:
            self.free.pop()
        except IndexError:
            return False
        return True

    def give(self) -> None:
        """Give a slot back."""
        self.free.append(None)


class _Slot:
    """The slot of a worker in a run.

    is_lost
        Another thread took it while the worker slept.
    must_leave
        The worker was asked to leave the run after its task.
    """

    __slots__ = ("is_lost", "must_leave", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_lost = False
        self.must_leave = False


class SlotWorker(Worker):
    """A thread with a slot in every run that it is in; the innermost run's is last in ``slots``."""

    __slots__ = ("slots",)

    run: Run | None

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.slots: list[_Slot] = []

    def serve(self, run: Run) -> None:
        """Work on a run with a slot that was taken before, then give the slot back."""
        slot = _Slot(run)
        self.slots.append(slot)
        self.must_leave = slot.must_leave
        try:
            run.context.copy().run(run.work, self)
        except BaseException as error:  # a bug of lazyflow: the caller must not wait for ever
            run.cancel(error)
        self.slots.pop()
        if slot.must_leave:
            run.attention.pop()
        if slot.is_lost:
            run.attention.pop()
        else:
            run.attached.give()
        self._look()

    def ask_to_leave(self) -> None:
        """Ask the thread to leave its innermost run after its task. Called by any thread."""
        try:
            slot = self.slots[-1]
        except IndexError:  # it has left
            return
        slot.run.attention.append(None)  # first: the worker takes it out once it sees the request
        slot.must_leave = self.must_leave = True

    def _look(self) -> None:
        """Note whether the thread has to leave the run that it is in now."""
        self.must_leave = bool(self.slots) and (
            self.slots[-1].is_lost or self.slots[-1].must_leave
        )

    def give_slots_back(self) -> None:
        """Give all slots back, before the thread sleeps."""
        for slot in self.slots:
            if not slot.is_lost:
                slot.run.attached.give()

    def take_slots_again(self) -> None:
        """Take the slots again after the sleep; where none is free, leave after the task."""
        for slot in self.slots:
            was_lost, slot.is_lost = slot.is_lost, not slot.run.attached.take()
            if slot.is_lost and not was_lost:
                slot.run.attention.append(None)  # so that the loop looks at `must_leave`
            elif was_lost and not slot.is_lost:
                slot.run.attention.pop()
        self._look()
