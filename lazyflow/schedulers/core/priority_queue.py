"""The ready tasks of a run in which some have a priority."""

from __future__ import annotations

import heapq
from math import inf
from typing import Any

from lazyflow.graph.plan import Plan


class PriorityQueue:
    """Ready tasks by priority, then by number, with those methods of a list that `Run` uses.

    ``floor`` is a negated priority. No task of a lower priority is returned, so that a thread that
    works on the run leaves it and looks whether another run is more urgent.
    """

    floor = inf

    def __init__(self, plan: Plan) -> None:
        # These are C and compare whole numbers, so each is one step, like list.pop.
        self._push, self._pop, self._swap = heapq.heappush, heapq.heappop, heapq.heappushpop
        self._width = plan.end + 1
        self._priorities = plan.priorities
        self._heap: list[int] = []
        self.extend(plan.ready)

    def _rank(self, i: int) -> int:
        return i - self._priorities.get(i, 0) * self._width

    def extend(self, numbers: list[int]) -> None:
        for i in numbers:
            self._push(self._heap, self._rank(i))

    def pop(self) -> int:
        if self._heap[0] // self._width > self.floor:
            raise IndexError
        return self._pop(self._heap) % self._width

    def first(self) -> int:
        """Return the negated priority of the next task; IndexError when there is none."""
        return self._heap[0] // self._width

    def swap(self, i: int) -> int:
        """Add a task and remove the first; return -1 if all are below the floor."""
        rank = self._rank(i)
        if min([rank, *self._heap[:1]]) // self._width > self.floor:
            self._push(self._heap, rank)
            return -1
        return self._swap(self._heap, rank) % self._width

    def sort(self, reverse: bool) -> None:
        """Do nothing: the heap is in order."""

    def clear(self) -> None:
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._heap)


def next_rank(run: Any) -> int | None:
    """Return the negated priority of the next task of a run, None when it has none."""
    try:
        return run.ready.first() if run.plan.priorities else 0
    except IndexError:
        return None
