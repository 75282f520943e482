"""The order of work where some tasks have a priority: tasks within a run, and runs in a pool.

A rank is a negated priority, so that the most urgent task has the lowest one. Runs with priorities
above 0 go before runs without priorities, and those below 0 after them. At 0 the two kinds take
turns: `FairQueue.goes_first` decides that for threads and for processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heappushpop, heapreplace
from itertools import count
from math import inf
from typing import Any, Generic, TypeVar

from lazyflow.graph.plan import Plan

T = TypeVar("T")


class PriorityQueue:
    """Ready tasks by priority, then by number, with those methods of a list that `Run` uses.

    ``floor`` is a negated priority. No task of a lower priority is returned, so that a thread that
    works on the run leaves it and looks whether another run is more urgent.
    """

    # The functions of heapq are C and compare whole numbers here, so each is one step, like
    # list.pop, and no lock is needed.

    floor = inf

    def __init__(self, plan: Plan) -> None:
        self._width = plan.end + 1
        self._priorities = plan.priorities
        self._heap: list[int] = []
        self.extend(plan.ready)

    def _rank(self, i: int) -> int:
        return i - self._priorities.get(i, 0) * self._width

    def extend(self, numbers: list[int]) -> None:
        for i in numbers:
            heappush(self._heap, self._rank(i))

    def pop(self) -> int:
        if self._heap[0] // self._width > self.floor:
            raise IndexError
        return heappop(self._heap) % self._width

    def first(self) -> int:
        """Return the negated priority of the next task; IndexError when there is none."""
        return self._heap[0] // self._width

    def swap(self, i: int) -> int:
        """Add a task and remove the first; return -1 if all are below the floor."""
        rank = self._rank(i)
        if min([rank, *self._heap[:1]]) // self._width > self.floor:
            heappush(self._heap, rank)
            return -1
        return heappushpop(self._heap, rank) % self._width

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


class FairQueue(Generic[T]):
    """A queue whose first run has the most urgent ready task; runs of equal urgency take turns.

    Parameters
    ----------
    rank
        Returns the negated priority of the most urgent ready task of a run, None when it has none.
        It may go up at any time; when it goes down, `put` must be called again.

    Attributes
    ----------
    entries
        (rank, turn, run), as a heap; empty when there is no run. Some may be out of date.

    >>> ready = {"a": -1, "b": 0, "c": -1}
    >>> queue = FairQueue(ready.get)
    >>> for run in ready: queue.put(run)
    >>> [queue.take(lambda run: True) for _ in range(3)]
    ['a', 'c', 'a']
    >>> ready["a"] = ready["c"] = None
    >>> queue.take(lambda run: True), queue.first_rank(), list(queue)
    ('b', 0, ['b'])
    """

    # An entry whose rank is not that in `_ranks` is out of date.

    def __init__(self, rank: Callable[[T], int | None]) -> None:
        self._rank = rank
        self.entries: list[tuple[int, int, T]] = []
        self._ranks: dict[T, int] = {}
        self._turns = count()
        self._is_its_turn = False

    def put(self, run: T) -> None:
        """Add a run, or note that a more urgent task of it is ready."""
        rank = self._rank(run)
        if rank is not None and (run not in self._ranks or rank < self._ranks[run]):
            self._ranks[run] = rank
            heappush(self.entries, (rank, next(self._turns), run))

    def remove(self, run: T) -> None:
        """Remove a run, if it is in the queue."""
        self._ranks.pop(run, None)

    def first_rank(self) -> int | None:
        """Return the lowest rank, None when no run has a ready task."""
        heap, ranks = self.entries, self._ranks
        while heap:
            rank, turn, run = heap[0]
            if ranks.get(run) != rank:
                heappop(heap)
                continue
            now = self._rank(run)
            if now is None:
                del ranks[run]
            elif now > rank:
                ranks[run] = now
                heapreplace(heap, (now, turn, run))
            else:
                return now
        return None

    def goes_first(self) -> bool:
        """Tell whether its first run goes before runs without priorities; at rank 0, in turns."""
        rank = self.first_rank()
        if rank == 0:
            self._is_its_turn = not self._is_its_turn
            return self._is_its_turn
        return rank is not None and rank < 0

    def take(self, may: Callable[[T], bool]) -> T | None:
        """Return the first run for which `may` is true, and move it behind its equals."""
        passed = []
        chosen = None
        while chosen is None and self.first_rank() is not None:
            rank, turn, run = heappop(self.entries)
            if may(run):
                chosen, turn = run, next(self._turns)
            passed.append((rank, turn, run))
        for entry in passed:
            heappush(self.entries, entry)
        return chosen

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._ranks))
