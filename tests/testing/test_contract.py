"""Every scheduler of ours passes the contract, and what breaks a promise does not."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from lazyflow.schedulers.processes.decisions.assignment import AHEAD
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


class TestProcesses(SchedulerContract):
    scheduler = "processes"
    shares_memory = False
    waits_ahead = AHEAD


class TestThreadPoolExecutor(SchedulerContract):
    scheduler = ThreadPoolExecutor(8)
    survives_fork = False


class TestThreadPoolExecutorOfOne(ResultContract, ValueContract):
    """Nesting must not starve in a pool that cannot grow."""

    scheduler = ThreadPoolExecutor(1)
    survives_fork = False
    parallel = False


class RunsTwice(SchedulerContract):
    scheduler = "threads"

    def compute(self, *args, **options):
        super().compute(*args, **options)
        return super().compute(*args, **options)


class KnowsNoWidth(SchedulerContract):
    scheduler = "threads"

    def compute(self, *args, num_workers=None, **options):
        return super().compute(*args, num_workers=16, **options)


class KeepsResults(SchedulerContract):
    scheduler = "sync"
    kept = []

    def compute(self, *args, **options):
        self.kept.append(super().compute(*args, **options))
        return self.kept[-1]


class WrapsErrors(SchedulerContract):
    scheduler = "sync"

    def compute(self, *args, **options):
        try:
            return super().compute(*args, **options)
        except Exception as error:
            raise RuntimeError(str(error)) from error


class SeesNoContext(SchedulerContract):
    scheduler = "sync"

    def compute(self, *args, **options):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(super().compute, *args, **options).result()


class SaysItIsElsewhere(SchedulerContract):
    scheduler = "threads"
    shares_memory = False


class PersistsLazily(SchedulerContract):
    scheduler = "sync"

    def persist(self, *args, **options):
        return args[0] if len(args) == 1 else args


BROKEN = [
    (RunsTwice, "test_shared_work_runs_once"),
    (KnowsNoWidth, "test_num_workers_caps_running_tasks"),
    (KeepsResults, "test_the_value_is_freed_with_the_last_reference"),
    (WrapsErrors, "test_an_error_of_a_class_made_in_a_function_keeps_its_type"),
    (WrapsErrors, "test_an_error_that_pickle_can_not_make_again_says_all_it_said"),
    (WrapsErrors, "test_the_cause_and_the_notes_of_an_error_are_kept"),
    (SeesNoContext, "test_context_variables_of_the_caller_are_seen"),
    (SeesNoContext, "test_a_context_variable_that_a_task_holds"),
    (SeesNoContext, "test_the_decimal_context_holds_in_tasks"),
    (SaysItIsElsewhere, "test_tasks_run_where_the_scheduler_says"),
    (PersistsLazily, "test_persisted_work_runs_once"),
]


@pytest.mark.parametrize("broken, test", BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_the_contract_finds_a_broken_promise(broken, test):
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(broken(), test)()
    KeepsResults.kept.clear()
