"""lazyflow where functions of Linux, or of Unix, are missing: they are hidden from programs.

The module in `helpers/other_systems` says what is hidden. All tests run without the functions of
Linux in .ci/slow, some of those of processes in .ci/run.
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import lazyflow

ROOT = pathlib.Path(lazyflow.__file__).parent
HIDING = pathlib.Path(__file__).parent / "helpers" / "other_systems"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="hides what Linux has")


def run_on(system: str, code: str) -> str:
    """Return what a program prints that sees only what a system has."""
    path = os.pathsep.join([str(HIDING), str(ROOT.parent)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100,
        env=os.environ | {"PYTHONPATH": path, "LAZYFLOW_TEST_SYSTEM": system},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_all_but_processes_works_on_windows() -> None:
    assert run_on("windows", """
        from concurrent.futures import ThreadPoolExecutor
        import lazyflow, lazyflow.array as la, lazyflow.interop
        import lazyflow.learn, lazyflow.tune
        from lazyflow import actor, compute, delayed, persist, submit

        x = la.arange(1000, chunks=100)
        for scheduler in ("sync", "threads", ThreadPoolExecutor(2)):
            print(*compute(delayed(sum)([delayed(abs)(-1), 2]), (x + 1).sum(), x.std() > 288,
                           scheduler=scheduler))
        print(la.random.default_rng(1).normal(size=1000, chunks=100).mean().compute() < 0.2)
        print(persist(delayed(abs)(-3))[0].compute(), submit(abs, -4).result())
        print(actor(dict)(a=5).get("a").result())
        with lazyflow.profile() as profile:
            compute(delayed(abs)(-1))
        print(len(profile.tasks), lazyflow.config.cpu_count() >= 1)
        text = lazyflow.diagnostics.environment()
        print("none: os.fork, os.killpg, socket.AF_UNIX, select.poll" in text, "RLIMIT" in text)
    """).split("\n") == [
        *["3 500500 True"] * 3, "True", "3 4", "5", "1 True", "True False", ""
    ]


def test_windows_says_what_to_use_instead_of_processes() -> None:
    assert run_on("windows", """
        import lazyflow
        from lazyflow import actor, compute, delayed
        for call in (lambda: compute(delayed(abs)(-1), scheduler="processes"),
                     lambda: compute(delayed(abs)(-1), scheduler="multiprocessing"),
                     lambda: actor(dict)(scheduler="processes") if False else
                             actor(dict, scheduler="processes")()):
            try:
                call()
            except NotImplementedError as error:
                print(error)
    """) == 3 * (
        "scheduler='processes' needs os.fork, os.killpg, socket.AF_UNIX, select.poll, which this "
        "system (linux) does not have. Type scheduler='threads'; or, for functions that hold the "
        "GIL, scheduler=concurrent.futures.ProcessPoolExecutor() or scheduler='distributed'\n"
    )


def test_ctrl_c_ends_a_wait_where_locks_can_not_be_interrupted() -> None:
    """A timer stands for the key: the main thread gets its KeyboardInterrupt either way."""
    assert run_on("windows", """
        import _thread, threading
        from lazyflow import compute, delayed
        end = threading.Event()
        def waits():
            threading.Timer(0.1, _thread.interrupt_main).start()
            end.wait(30)
        try:
            compute(delayed(waits)(), scheduler="threads")
        except KeyboardInterrupt:
            print("interrupted")
        end.set()
        print(*compute(delayed(abs)(-1), timeout=30))
    """) == "interrupted\n1\n"


def test_processes_run_without_the_functions_of_linux() -> None:
    assert run_on("macos", """
        import numpy as np, os, select
        import lazyflow.array as la
        from lazyflow import WorkerDied, actor, compute, config, delayed
        assert not hasattr(os, "eventfd") and not hasattr(select, "epoll")
        config.set(scheduler="processes", num_workers=2)
        big = delayed(np.ones)(1_000_000)
        print(compute(delayed(np.sum)(big), delayed(abs)(-1)))
        print((la.ones((1000, 1000), chunks=500) + 1).sum().compute())
        print(actor(dict)(a=5).get("a").result())
        try:
            compute(delayed(os._exit)(3))
        except WorkerDied as error:
            print("exit code 3" in str(error))
        print(compute(delayed(abs)(-2)))
    """).split("\n") == ["(np.float64(1000000.0), 1)", "2000000.0", "5", "True", "(2,)", ""]


#: A function that systems lack, and the module that knows what to do then.
ONE_MODULE = {
    "register_at_fork": "system.py",
    "sched_getaffinity": "system.py",
    "process_cpu_count": "system.py",
    "eventfd": "system.py",
    "pidfd_open": "system.py",
    "epoll": "system.py",
    "kqueue": "system.py",
    "/proc/": "system.py",
    "memfd_create": "store/memory/arena.py",
    "MADV_DONTNEED": "store/memory/shared.py",
    "F_SETSIG": "schedulers/processes/worker/parent_death.py",
    "sysconf": "system.py",
    "getrusage": "system.py",
    "psutil": "system.py",
}


@pytest.mark.parametrize("name", ONE_MODULE)
def test_one_module_uses_what_systems_lack(name: str) -> None:
    users = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if re.search(rf"(?<![\w`]){re.escape(name)}(?![a-z])", re.sub(r"#.*", "", path.read_text()))
    }
    assert users == {ONE_MODULE[name]}
