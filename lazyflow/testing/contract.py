"""The suite that every scheduler must pass; inherit it in a test file and name the scheduler.

    from lazyflow.testing.contract import SchedulerContract

    class TestMine(SchedulerContract):
        scheduler = "mine"

The parts are plain classes of pytest tests, one per promise: results, failures, values, and work
in the background.
"""

from lazyflow.testing.background import BackgroundContract
from lazyflow.testing.failures import FailureContract
from lazyflow.testing.results import ResultContract
from lazyflow.testing.values import ValueContract

__all__ = ["SchedulerContract"]


class SchedulerContract(ResultContract, FailureContract, ValueContract, BackgroundContract):
    """Everything a scheduler promises."""
