"""What is known of a trial."""

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
        What its function was given.
    drawn
        The values that were drawn for it, by path.
    status
        ``"pending"``, ``"running"``, ``"paused"``, ``"completed"``; ``"stopped"`` early, before its
        function has returned; or ``"failed"``.
    history
        What it has reported, oldest first.
    error
        Why it failed, or None.
    failures
        How often it failed; it may have been run again.
    seconds
        How long it has run, all its runs together.
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
        """The newest value of all that was reported, by name."""
        found: dict[str, Any] = {}
        for each in self.history:
            found.update(each)
        return found

    @property
    def state(self) -> Any:
        """A copy of the state that was reported last, or None."""
        return None if self.packed_state is None else cloudpickle.loads(self.packed_state)

    @property
    def is_over(self) -> bool:
        """Whether it runs no more."""
        return self.status in (COMPLETED, STOPPED, FAILED)

    def value(self, metric: str) -> float | None:
        """Return the newest value of a metric; None if none was reported."""
        for each in reversed(self.history):
            if metric in each:
                return float(each[metric])
        return None

    def order(self) -> TrialOrder:
        """Return what a runner is told; what came after the state that it begins from is forgotten.
        """
        del self.history[self.kept_at:]
        return TrialOrder(self.number, self.config, self.packed_state)


def loss(value: float | None, sign: int) -> float:
    """Return a value as what is to be small; what is no number is the largest.

    >>> loss(3.0, -1), loss(float("nan"), 1)
    (-3.0, inf)
    """
    return math.inf if value is None or math.isnan(value) else sign * value
