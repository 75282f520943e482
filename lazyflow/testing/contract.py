"""The suite that every scheduler must pass; inherit it in a test file and name the scheduler.

::

    from lazyflow.testing.contract import SchedulerContract

    class TestMine(SchedulerContract):
        scheduler = "mine"

The parts are plain classes of pytest tests, one per promise: results, failures, values, what is
shared, and work in the background. `Part` names the flags for what a scheduler can't do, such as
``shares_memory = False`` for one whose tasks run in other processes. Tasks and tests speak
through files (`signals`), so one test holds for all; what tasks run is pickled by cloudpickle
and must not hold ``self``.
"""

from lazyflow.testing.background import BackgroundContract
from lazyflow.testing.failures import FailureContract
from lazyflow.testing.results import ResultContract
from lazyflow.testing.sharing import SharingContract
from lazyflow.testing.values import ValueContract

__all__ = ["SchedulerContract"]


class SchedulerContract(
    ResultContract, FailureContract, ValueContract, SharingContract, BackgroundContract
):
    """Everything a scheduler promises."""
