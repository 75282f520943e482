"""CPython's own tests of executors, with `lazyflow.Executor` on threads and on processes.

``python tests/helpers/executors_tests.py`` takes those of the installed Python, in which the
classes of the standard library are changed; builds that have left out their package `test` have
none, which is said. The exit status is unittest's.
"""

import re
import sys
import tempfile
import unittest
from importlib import import_module
from pathlib import Path

import lazyflow

HERE = Path(__file__)
MODULES = (
    "init", "shutdown", "process_pool", "thread_pool", "as_completed", "wait", "future",
)

#: Changes of the source, by patterns.
CHANGES = {
    r"^from \.(\w+) import": r"from test.test_concurrent_futures.\1 import",
    r"from concurrent.futures import \{executor_type\}": "import sys\n"
    f"            sys.path[:0] = [{str(HERE.parent)!r}, {str(HERE.parents[2])!r}]\n"
    "            from executors_tests import {executor_type}",
    r"from concurrent.futures import (Thread|Process)PoolExecutor": "import sys\n"
    f"            sys.path[:0] = [{str(HERE.parent)!r}, {str(HERE.parents[2])!r}]\n"
    r"            from executors_tests import \1PoolExecutor",
    r"futures\.(Thread|Process)PoolExecutor": r"executors_tests.\1PoolExecutor",
    r"if \{context!r\}: multiprocessing": "if {context!r}: import multiprocessing; multiprocessing",
    r"^from test import support": "import executors_tests\nfrom test import support",
    r"BrokenProcessPool\b": "lazyflow.WorkerDied",
    r"^from concurrent.futures.process import lazyflow.WorkerDied": "import lazyflow",
}

#: Tests that are left out, by what they are about.
_WORKERS = "worker processes stay for the next executor, and have no attribute here"
LEFT_OUT = {
    "test_max_workers_negative": "the keyword is num_workers, and its error says so",
    "test_default_workers": "as many as there are cores",
    "test_hang_global_shutdown_lock": "a lock of ThreadPoolExecutor",
    "test_idle_thread_reuse": "a race: a thread is idle a moment after its result is there",
    "test_thread_names_assigned": "threads have one name",
    "test_thread_names_default": "the same",
    "FailingInitializerTest": "the error of the initializer is in the futures' errors, not logged",
    "FailingInitializerResourcesTest": "multiprocessing's tracker",
    "test_processes_terminate": _WORKERS,
    "ProcessPoolSpawnProcessPoolShutdownTest.test_context_manager_shutdown": _WORKERS,
    "ProcessPoolSpawnProcessPoolShutdownTest.test_del_shutdown": _WORKERS,
    "ProcessPoolSpawnProcessPoolShutdownTest.test_shutdown_no_wait": _WORKERS,
    "ProcessPoolSpawnProcessPoolExecutorTest.test_saturation": _WORKERS,
    "test_idle_process_reuse_one": _WORKERS,
    "test_idle_process_reuse_multiple": _WORKERS,
    "test_max_tasks_per_child": _WORKERS,
    "test_max_tasks_per_child_defaults_to_spawn_context": _WORKERS,
    "test_max_tasks_early_shutdown": _WORKERS,
    "test_ressources_gced_in_workers": "proxies of a multiprocessing.Manager need its key there",
    "test_killed_child": "a death fails its call alone, and the worker is replaced",
    "test_python_finalization_error": "threads of ProcessPoolExecutor",
    "test_traceback": "the traceback is the worker's itself; no text of it is the cause",
}


def is_left_out(test):
    """Tell whether a test is left out: by its name, or that of its class, or both."""
    case, name = type(test).__name__, test._testMethodName
    return any(each in LEFT_OUT for each in (name, f"{case}.{name}")) or any(
        case.endswith(each) for each in LEFT_OUT
    )


class ThreadPoolExecutor(lazyflow.Executor):
    """An executor on threads, with the keywords of the standard library's."""

    def __init__(self, max_workers=None, thread_name_prefix="", **keywords):
        super().__init__("threads", max_workers, **keywords)
        self._max_workers = max_workers

    @property
    def _threads(self):
        return set(self._calls._threads)


class ProcessPoolExecutor(lazyflow.Executor):
    """An executor on processes, with the keywords of the standard library's."""

    def __init__(self, max_workers=None, mp_context=None, **keywords):
        super().__init__("processes", max_workers, **keywords)
        self._max_workers = max_workers


def cases(folder):
    """Yield the classes of tests, of modules that are written to a folder."""
    util = import_module("test.test_concurrent_futures.util")
    theirs = Path(util.__file__).parent
    util.ThreadPoolMixin.executor_type = ThreadPoolExecutor
    util.ProcessPoolSpawnMixin.executor_type = ProcessPoolExecutor
    util.BaseTestCase.setUp = util.BaseTestCase.tearDown = lambda self: None  # workers stay
    sys.path[:0] = [folder, str(HERE.parent)]
    for name in MODULES:
        source = (theirs / f"test_{name}.py").read_text()
        for pattern, new in CHANGES.items():
            source = re.sub(pattern, new, source, flags=re.MULTILINE)
        (Path(folder) / f"changed_{name}.py").write_text(source)
        module = import_module(f"changed_{name}")
        for found in tuple(vars(module).values()):
            if not (isinstance(found, type) and issubclass(found, unittest.TestCase)):
                continue
            is_theirs = issubclass(found, util.ExecutorMixin) and not issubclass(
                found, (util.ThreadPoolMixin, util.ProcessPoolSpawnMixin)
            )
            if found.__module__ == module.__name__ and not is_theirs:
                yield found


def main():
    try:
        import_module("test.test_concurrent_futures")
    except ImportError:
        print("NOT RUN: this Python has no test.test_concurrent_futures")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        suite = unittest.TestSuite(
            test for case in cases(folder)
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(case)
            if not is_left_out(test)
        )
        ran = unittest.TextTestRunner(verbosity=int("-v" in sys.argv) + 1).run(suite)
    return not ran.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
