"""CPython's own tests of executors, with `lazyflow.Executor` on threads and on processes.

``python tests/helpers/executors_tests.py`` takes those of the installed Python; builds that have
left out their package `test` have none, which is said. The exit status is unittest's.
"""

import sys
import unittest
from importlib import import_module

#: Tests that are left out, by what they are about.
LEFT_OUT = {
    "test_max_workers_negative": "the keyword is num_workers, and its error says so",
    "test_default_workers": "the attribute _max_workers",
    "test_saturation": "the attribute _threads: workers are shared by all executors",
    "test_idle_thread_reuse": "the same",
    "test_hang_global_shutdown_lock": "a lock of ThreadPoolExecutor",
}

MODULES = ("test_thread_pool", "test_as_completed", "test_wait")


def executors(scheduler):
    from lazyflow import Executor

    def made(max_workers=None, **keywords):
        return Executor(scheduler, max_workers, **keywords)

    return staticmethod(made)


def main():
    try:
        util = import_module("test.test_concurrent_futures.util")
    except ImportError:
        print("NOT RUN: this Python has no test.test_concurrent_futures")
        return 0

    class ProcessesMixin(util.ExecutorMixin):
        executor_type = executors("processes")

    util.ThreadPoolMixin.executor_type = executors("threads")
    util.BaseTestCase.setUp = util.BaseTestCase.tearDown = lambda self: None  # workers stay
    own = import_module("test.test_concurrent_futures.executor").ExecutorTest
    mixed = [type("ProcessesTest", (ProcessesMixin, own, util.BaseTestCase), {})]
    for name in MODULES:
        module = import_module(f"test.test_concurrent_futures.{name}")
        for found in tuple(vars(module).values()):
            is_ours = isinstance(found, type) and issubclass(found, util.ThreadPoolMixin)
            if is_ours and found is not util.ThreadPoolMixin:
                mixed.append(found)
    suite = unittest.TestSuite(
        test for case in mixed for test in unittest.defaultTestLoader.loadTestsFromTestCase(case)
        if test._testMethodName not in LEFT_OUT
    )
    return not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
