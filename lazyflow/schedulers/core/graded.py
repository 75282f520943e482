"""Runs whose ready tasks have priorities, for who chooses between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Graded(Generic[T]):
    """The run with the most urgent ready task is the first; equals take turns.

    Parameters
    ----------
    rank
        Returns the negated priority of the most urgent ready task of a run, None when it has none.
        It may go up at any time; when it goes down, the run is put in again.

    >>> ready = {"a": -1, "b": 0, "c": -1}
    >>> graded = Graded(ready.get)
    >>> for run in ready: graded.put(run)
    >>> [graded.take(lambda run: True) for _ in range(3)]
    ['a', 'c', 'a']
    >>> ready["a"] = ready["c"] = None
    >>> graded.take(lambda run: True), graded.first_rank(), list(graded)
    ('b', 0, ['b'])
    """

    # Entries are (rank, turn, run). Those of which `_ranks` knows nothing are out of date.

    def __init__(self, rank: Callable[[T], int | None]) -> None:
        self._rank = rank
        self._heap: list[tuple[int, int, T]] = []
        self._ranks: dict[T, int] = {}
        self._turns = count()

    def put(self, run: T) -> None:
        """Put a run in, or tell that a more urgent task of it is ready."""
        rank = self._rank(run)
        if rank is not None and (run not in self._ranks or rank < self._ranks[run]):
            self._ranks[run] = rank
            heappush(self._heap, (rank, next(self._turns), run))

    def remove(self, run: T) -> None:
        """Take a run out, if it is in."""
        self._ranks.pop(run, None)

    def first_rank(self) -> int | None:
        """Return the lowest rank, None when no run has anything ready."""
        heap, ranks = self._heap, self._ranks
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

    def take(self, may: Callable[[T], bool]) -> T | None:
        """Return the first run that `may` be taken; it goes behind its equals."""
        passed = []
        found = None
        while found is None and self.first_rank() is not None:
            rank, turn, run = heappop(self._heap)
            if may(run):
                found, turn = run, next(self._turns)
            passed.append((rank, turn, run))
        for entry in passed:
            heappush(self._heap, entry)
        return found

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._ranks))

    def __bool__(self) -> bool:
        return bool(self._heap)
