"""The suite that every scheduler must pass; inherit it in a test file and name the scheduler.

::

    from lazyflow.testing.contract import SchedulerContract

    class TestMine(SchedulerContract):
        scheduler = "mine"

The parts are plain classes of pytest tests, one per promise: results, failures, values, sharing,
and work in the background. `Part` has flags for abilities that a scheduler lacks, such as
``shares_memory = False`` if its tasks run in other processes. Tasks and tests communicate
through files (`signals`), so one test fits all schedulers. cloudpickle pickles the functions of
tasks, so they must not hold ``self``.
"""

from lazyflow.testing.failures import FailureContract
from lazyflow.testing.results import BackgroundContract, ResultContract
from lazyflow.testing.values import SharingContract, ValueContract

__all__ = ["SchedulerContract"]


class SchedulerContract(
    ResultContract, FailureContract, ValueContract, SharingContract, BackgroundContract
):
    """Everything a scheduler promises."""
