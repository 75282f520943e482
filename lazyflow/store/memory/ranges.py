"""Free ranges of memory: taken best fit, given back merged with their neighbours."""

from __future__ import annotations

from bisect import bisect_left, insort
from mmap import PAGESIZE

__all__ = ["Range", "Ranges", "Segment", "whole_pages"]

#: (arena, offset, size in bytes): where a buffer is.
Segment = tuple[int, int, int]

#: (arena, offset, length in whole pages, as bytes)
Range = tuple[int, int, int]


def whole_pages(size: int) -> int:
    """Return the bytes of the pages that `size` bytes take: one page at least."""
    return max(1, -(-size // PAGESIZE)) * PAGESIZE


class Ranges:
    """A set of ranges that do not touch each other within one arena.

    >>> free = Ranges()
    >>> free.add((0, 0, 100)); free.add((0, 200, 50)); free.add((0, 100, 100))
    >>> free.total, free.take(40)
    (250, (0, 0, 40))
    """

    def __init__(self) -> None:
        self.total = 0
        self._sizes: list[Range] = []  # (length, arena, offset), sorted
        self._starts: dict[tuple[int, int], int] = {}  # (arena, offset) -> length
        self._ends: dict[tuple[int, int], int] = {}  # (arena, end) -> length

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, free: Range) -> None:
        """Add a range, which may touch ranges that are there but not overlap them."""
        arena, start, length = free
        self.total += length
        below = self._ends.get((arena, start))
        if below is not None:
            start -= below
            self._remove((arena, start, below))
            length += below
        above = self._starts.get((arena, start + length))
        if above is not None:
            self._remove((arena, start + length, above))
            length += above
        self._insert((arena, start, length))

    def take(self, length: int) -> Range | None:
        """Take a range of exactly this length out of the smallest range that has it."""
        at = bisect_left(self._sizes, (length, -1, -1))
        if at == len(self._sizes):
            return None
        found, arena, start = self._sizes[at]
        self._remove((arena, start, found))
        if found > length:
            self._insert((arena, start + length, found - length))
        self.total -= length
        return arena, start, length

    def take_any(self, most: int, spare: tuple[int, int] | None = None) -> Range | None:
        """Take the end of the largest range, `most` bytes or less.

        The range that holds ``spare`` (arena, offset) is taken only when there is no other.
        """
        if not self._sizes:
            return None
        length, arena, start = self._sizes[-1]
        is_spare = spare is not None and (arena, start) <= spare < (arena, start + length)
        if is_spare and len(self._sizes) > 1:
            length, arena, start = self._sizes[-2]
        self._remove((arena, start, length))
        cut = min(length, most)
        if cut < length:
            self._insert((arena, start, length - cut))
        self.total -= cut
        return arena, start + length - cut, cut

    def _insert(self, free: Range) -> None:
        arena, start, length = free
        insort(self._sizes, (length, arena, start))
        self._starts[arena, start] = length
        self._ends[arena, start + length] = length

    def _remove(self, free: Range) -> None:
        arena, start, length = free
        del self._sizes[bisect_left(self._sizes, (length, arena, start))]
        del self._starts[arena, start]
        del self._ends[arena, start + length]
