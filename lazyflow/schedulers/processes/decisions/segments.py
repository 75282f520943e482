"""Counts of the users of shared memory, which is freed with the last one.

The users of a segment are values that the parent knows (one count for each `Encoded`), and
processes that map it: one count for each time it was sent to a worker or opened here. When none
is left, its owner, a worker or this process, may use the memory again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

Segment = tuple[int, int, int]


class Segments:
    """Counts of users by segment.

    Parameters
    ----------
    free
        Called with a segment that has no user any more.
    """

    def __init__(self, free: Callable[[Segment], None]) -> None:
        self._free = free
        self._counts: dict[Segment, int] = {}
        self._of_worker: dict[Any, Counter[Segment]] = {}
        self._by_arena: Counter[int] = Counter()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._counts)

    def has_any(self, arena: int) -> bool:
        """Tell whether anything in an arena has a user."""
        return arena in self._by_arena

    def add(self, segments: Iterable[Segment], user: Any = None) -> None:
        """Count segments in, for a worker or (None) for what this process knows."""
        mine = self._of_worker.setdefault(user, Counter()) if user is not None else None
        for segment in segments:
            known = self._counts.get(segment)
            if known is None:
                self.bytes += segment[2]
                self._by_arena[segment[0]] += 1
                known = 0
            self._counts[segment] = known + 1
            if mine is not None:
                mine[segment] += 1

    def remove(self, segments: Iterable[Segment], user: Any = None) -> None:
        """Count segments out again, for the same user."""
        mine = self._of_worker.get(user) if user is not None else None
        for segment in segments:
            if mine is not None:
                mine[segment] -= 1
                if not mine[segment]:
                    del mine[segment]
            count = self._counts[segment] - 1
            if count:
                self._counts[segment] = count
            else:
                del self._counts[segment]
                self.bytes -= segment[2]
                self._by_arena[segment[0]] -= 1
                if not self._by_arena[segment[0]]:
                    del self._by_arena[segment[0]]
                self._free(segment)

    def forget_worker(self, user: Any) -> None:
        """Count out all that a dead worker used."""
        for segment, count in self._of_worker.pop(user, Counter()).items():
            self.remove([segment] * count)
