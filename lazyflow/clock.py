"""Time is an argument: code that decides by it takes a `Clock`, and tests pass one of their own.

Such decisions are that a search is late, that a batch takes too long, or that a bar is drawn again.
Two kinds of code read the system's clock themselves: measurements for records and profiles, and
waits for a lock, a thread or a descriptor, which only the system ends. What is left for a wait is
asked of a `Deadline`. `tests/test_structure.py` lists the modules that read the system's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

#: Returns the time in seconds; only differences of its values mean something.
Clock: TypeAlias = Callable[[], float]


class Deadline:
    """A moment some seconds from now; None: it never comes.

    >>> times = iter([10.0, 11.5, 14.0])
    >>> deadline = Deadline(3, lambda: next(times))
    >>> deadline.left(), deadline.left()
    (1.5, 0.0)
    >>> Deadline(None).left() is None, Deadline(None).is_over()
    (True, False)
    """

    __slots__ = ("_end", "_now")

    def __init__(self, seconds: float | None, now: Clock = monotonic) -> None:
        self._now = now
        self._end = None if seconds is None else now() + seconds

    def left(self) -> float | None:
        """Return the seconds that are left, at least 0; None if it never comes."""
        return None if self._end is None else max(0.0, self._end - self._now())

    def is_over(self) -> bool:
        """Tell whether it has come."""
        return self._end is not None and self._now() >= self._end


NEVER = Deadline(None)
