"""Every scheduler of ours passes the contract."""

from concurrent.futures import ThreadPoolExecutor

from lazyflow.testing.contract import SchedulerContract
from lazyflow.testing.results import ResultContract
from lazyflow.testing.values import ValueContract


class TestSync(SchedulerContract):
    scheduler = "sync"
    parallel = False
    interrupts = False
    eager = True


class TestThreads(SchedulerContract):
    scheduler = "threads"


class TestThreadPoolExecutor(SchedulerContract):
    scheduler = ThreadPoolExecutor(8)
    survives_fork = False


class TestThreadPoolExecutorOfOne(ResultContract, ValueContract):
    """Nesting must not starve in a pool that cannot grow."""

    scheduler = ThreadPoolExecutor(1)
    survives_fork = False
    parallel = False
