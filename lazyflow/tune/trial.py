"""The record of a trial."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from lazyflow.tune.reporting import TrialOrder

PENDING, RUNNING, PAUSED = "pending", "running", "paused"
COMPLETED, STOPPED, FAILED = "completed", "stopped", "failed"


@dataclass(eq=False)
class Trial:
    """One trial of a search.

    Attributes
    ----------
    number
        Counted from 0.
    config
        The argument of its function.
    drawn
        The values that were drawn for it, by path.
    status
        ``"pending"``, ``"running"``, ``"paused"``, ``"completed"``; ``"stopped"`` early, before its
        function has returned; or ``"failed"``.
    history
        Its reports, oldest first.
    error
        Why it failed, or None.
    failures
        How often it failed; it may have been run again.
    seconds
        The time of all its runs together.
    """

    number: int
    config: dict[str, Any]
    drawn: dict[str, Any] = field(default_factory=dict)
    status: str = PENDING
    history: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    failures: int = 0
    seconds: float = 0.0
    packed_state: bytes | None = field(default=None, repr=False)
    kept_at: int = 0  # reports, when the state was kept

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest reported values, by name."""
        found: dict[str, Any] = {}
        for each in self.history:
            found.update(each)
        return found

    @property
    def state(self) -> Any:
        """A copy of the last reported state, or None."""
        return None if self.packed_state is None else cloudpickle.loads(self.packed_state)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in (COMPLETED, STOPPED, FAILED)

    def value(self, metric: str) -> float | None:
        """Return the newest value of a metric; None if none was reported."""
        for each in reversed(self.history):
            if metric in each:
                return float(each[metric])
        return None

    def order(self) -> TrialOrder:
        """Return the order for a runner; forget reports made after the state that it begins from.
        """
        del self.history[self.kept_at:]
        return TrialOrder(self.number, self.config, self.packed_state)


def loss(value: float | None, sign: int) -> float:
    """Return a value as a loss to be minimised; None and NaN become infinity.

    >>> loss(3.0, -1), loss(float("nan"), 1)
    (-3.0, inf)
    """
    return math.inf if value is None or math.isnan(value) else sign * value
