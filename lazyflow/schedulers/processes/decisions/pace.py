"""How fast a function runs, as far as it was measured."""

from __future__ import annotations

GROWTH = 4  # times as many tasks of one function in a flight as were measured so far
_MOST = 1 << 20  # tasks of one function in a flight


class Pace:
    """What was measured of one function.

    mean
        Seconds that a call takes.
    allowed
        How many tasks of the function may go in one flight.
    """

    __slots__ = ("allowed", "mean")

    def __init__(self) -> None:
        self.mean = 0.0
        self.allowed = 1

    def measured(self, calls: int, seconds: float) -> None:
        """Take in that so many calls took so long."""
        mean = seconds / calls
        if self.allowed == 1:
            self.mean = mean
        else:  # recent calls count for more: half of what is known comes from the last answer
            self.mean = (self.mean + mean) / 2
        self.allowed = max(self.allowed, min(calls * GROWTH, _MOST))
