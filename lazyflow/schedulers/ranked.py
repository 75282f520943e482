"""The ready tasks of a run in which some have a priority."""

from __future__ import annotations

import heapq

from lazyflow.graph.plan import Plan


class Ranked:
    """Ready tasks by priority, then by number; the part of list that `Run` uses."""

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
        return self._pop(self._heap) % self._width

    def swap(self, i: int) -> int:
        return self._swap(self._heap, self._rank(i)) % self._width

    def sort(self, reverse: bool) -> None:
        """Do nothing: the heap is in order."""

    def clear(self) -> None:
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._heap)
