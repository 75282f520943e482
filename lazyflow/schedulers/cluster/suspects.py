"""The tasks of a run whose workers died: each is run alone, to find the one that ends workers."""

from __future__ import annotations

from lazyflow.schedulers.cluster.group_queue import GroupQueue
from lazyflow.schedulers.cluster.results import died_alone
from lazyflow.schedulers.cluster.task_group import TaskGroup


class Suspects:
    """The suspects of a run, and how many runs these have had at the most.

    tasks
        Those that are still to be run alone.
    """

    def __init__(self, queue: GroupQueue) -> None:
        self._queue = queue
        self._spent: dict[int, int] = {}
        self.tasks: set[int] = set()

    def charge(self, group: TaskGroup, runs: int) -> None:
        """Note that a group had so many runs, or none if it is still to get what it needs."""
        if all(other.done for other in self._queue.needed(group)):
            for i in group.members:
                self._spent[i] = self._spent.get(i, 0) + runs
            group.runs -= runs

    def is_guilty(self, group: TaskGroup) -> bool:
        """Return whether the task of a group has had all its runs, the last one alone."""
        return group.is_counted and self._runs_left(group.members[0]) <= 0

    def _runs_left(self, i: int) -> int:
        return self._queue.crash_retries_of(i) + 1 - self._spent.get(i, 0)

    def error_of(self, group: TaskGroup, cause: BaseException) -> BaseException:
        """Return the error of a group whose task is guilty."""
        (i,) = group.members
        return died_alone(self._queue.plan.tasks[i], self._queue.crash_retries_of(i) + 1, cause)

    def add(self, group: TaskGroup) -> None:
        """Have the tasks of a group run alone."""
        self._queue.todo.update(group.members)
        self.tasks.update(group.members)

    def pop(self) -> TaskGroup | None:
        """Return the first one as a group of its own, or None if nobody needs it any more."""
        first = min(self.tasks)
        self.tasks.remove(first)
        if first not in self._queue.todo:
            return None
        group = self._queue.group_of[first] = TaskGroup(self._queue.plan, [first], 0)
        group.runs = self._runs_left(first)
        return group
