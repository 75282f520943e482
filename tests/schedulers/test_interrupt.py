"""Ctrl-C, SIGTERM, the end of a script and fork, by really sending signals to child processes.

A child prints a line when it is where the test wants it, and the test reads that line: nobody
sleeps to wait. Every read and every wait has a hard limit, and tasks sleep for longer: who answers
within it has not waited for them.
"""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest
from signalled_child import Child

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

#: Ways of the main thread to wait; each has one task that runs and others queued behind it.
WAITS = {
    "compute": "compute([delayed(sleeper)(), *queue], num_workers=1)",
    "collect": "compute([delayed(sleeper)(), *queue], num_workers=1, on_error='collect')",
    "timeout": "compute([delayed(sleeper)(), *queue], num_workers=1, timeout=50)",
    "wait": "wait(persist(delayed(sleeper)(), *queue, num_workers=1))",
    "compute of persisted": "compute(persist(delayed(sleeper)(), *queue, num_workers=1))",
    "nested": "delayed(lambda: compute([delayed(sleeper)(), *queue], num_workers=1))()"
              ".compute(num_workers=1)",
    "deeply nested": "delayed(lambda: compute(delayed(lambda: compute("
                     "[delayed(sleeper)(), *queue], num_workers=1))()))().compute(num_workers=1)",
    "returned": "delayed(lambda: delayed(sum)([delayed(sleeper)(), *queue]))()"
                ".compute(num_workers=1)",
    "sync": "compute([delayed(sleeper)(), *queue], scheduler='sync')",
    "executor": "compute([delayed(sleeper)(), *queue], scheduler=executor)",
}


@pytest.mark.parametrize("how", WAITS)
def test_ctrl_c_ends_the_wait_while_a_task_sleeps_in_c(how: str) -> None:
    with Child(f"""
        from concurrent.futures import ThreadPoolExecutor
        executor = ThreadPoolExecutor(1) if {how!r} == "executor" else None
        queue = [delayed(ran)(i) for i in range(20)]
        try:
            {WAITS[how]}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        leave({0 if how == 'sync' else 1})
        if executor: os._exit(0)  # its threads are not daemons
    """) as child:
        child.expect("ready")
        child.interrupt()
        child.expect("interrupted")
        told = child.expect("started")
        # Only the task that runs began, and only its thread is left: it can't be ended.
        assert told == f"started 1 left {0 if how == 'sync' else 1}"
        code, out, err = child.end()
        assert (code, out, err) == (0, "", "")


def test_ctrl_c_while_persist_waits_for_its_turn() -> None:
    with Child("""
        config.set(max_runs_ahead=2)
        first, = persist(delayed(sleeper)(), num_workers=1)
        second, = persist(delayed(ran)(first), num_workers=1)
        try:
            third, = persist(delayed(ran)(), num_workers=1)
        except KeyboardInterrupt:
            print("interrupted", repr(first), flush=True)
        del first, second
        leave(1)
    """) as child:
        child.expect("ready")
        child.interrupt()
        assert child.expect("interrupted") == "interrupted <Delayed sleeper: pending>"
        assert child.expect("started") == "started 1 left 1"
        assert child.end() == (0, "", "")


def test_ctrl_c_while_a_compiled_kernel_runs_without_the_gil() -> None:
    pytest.importorskip("numba")
    with Child("""
        import numba, numpy
        @numba.njit(nogil=True)
        def spin(stop):
            n = 0
            while stop[0] == 0:
                n += 1
            return n
        stop = numpy.ones(1)
        spin(stop)
        mine = numpy.zeros(1)
        def kernel():
            ready()
            return spin(mine)
        try:
            compute(delayed(kernel)())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        assert compute(delayed(abs)(-3)) == (3,)
        mine[0] = 1
        leave()
    """) as child:
        child.expect("ready")
        child.interrupt()
        child.expect("interrupted")
        child.expect("started")
        assert child.end() == (0, "", "")


def test_a_second_ctrl_c_ends_the_program() -> None:
    with Child("""
        lazyflow.interrupts.EXIT_GRACE = 600
        try:
            compute(delayed(sleeper)())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        persisted = persist(delayed(sleeper)())
        wait(persisted)
    """) as child:
        child.expect("ready")
        child.interrupt()
        child.expect("interrupted")
        child.expect("ready")
        child.interrupt()
        code, _, err = child.end()
        assert code in (-signal.SIGINT, 1, 130)  # 1 with `python -c`
        assert err.strip().splitlines()[-1] == "KeyboardInterrupt"


def test_ctrl_c_at_the_end_ends_the_wait_for_running_tasks() -> None:
    with Child("""
        x = persist(delayed(sleeper)())
        begun.wait()
        from lazyflow.schedulers import threads
        def telling(grace):  # the wait begins as its deadline is made
            ready()
            return lazyflow.clock.Deadline(600)
        threads.Deadline = telling
    """) as child:
        child.expect("ready")  # the task
        child.expect("ready")  # the end
        child.interrupt()
        code, _, err = child.end()
        assert (code, err) in ((0, ""), (-signal.SIGINT, ""))


def test_sigterm_ends_the_program() -> None:
    with Child("compute([delayed(sleeper)() for _ in range(4)], num_workers=2)") as child:
        child.expect("ready")
        child.interrupt(signal.SIGTERM)
        code, _, err = child.end()
        assert (code, err) == (-signal.SIGTERM, "")


def test_a_signal_handler_that_raises_ends_the_wait() -> None:
    with Child("""
        def stop(*_): raise TimeoutError("alarm")
        signal.signal(signal.SIGALRM, stop)
        try:
            compute([delayed(sleeper)(), *[delayed(ran)() for _ in range(9)]], num_workers=1)
        except TimeoutError as error:
            print("interrupted", error, flush=True)
        leave(1)
    """) as child:
        child.expect("ready")
        child.interrupt(signal.SIGALRM)
        assert child.expect("interrupted") == "interrupted alarm"
        assert child.expect("started") == "started 1 left 1"
        assert child.end() == (0, "", "")


def test_the_end_of_a_script_names_what_still_runs_and_starts_nothing() -> None:
    with Child("""
        def slow(*_):
            ready()
            time.sleep(600)
        queued = [delayed(lambda: print("queued ran", flush=True))() for _ in range(5)]
        x = persist([delayed(slow)(), *queued], num_workers=1)
        begun.wait()
    """) as child:
        child.expect("ready")
        code, out, err = child.end()
        assert (code, out) == (0, "")
        (line,) = err.splitlines()
        assert line.startswith("lazyflow: still running when Python ended: slow, made at <string>:")


def test_the_end_of_a_script_says_nothing_when_nothing_runs() -> None:
    with Child("""
        lazyflow.interrupts.EXIT_GRACE = 600
        assert compute([delayed(abs)(-i) for i in range(100)]) == (list(range(100)),)
        x = persist(delayed(abs)(-1))
        wait(x)
        print("done", flush=True)
    """) as child:
        child.expect("done")
        assert child.end() == (0, "", "")


def test_the_end_of_a_script_waits_for_a_task_that_is_about_to_end() -> None:
    with Child("""
        go = threading.Event()
        def last():
            begun.set()
            go.wait(30)
            print("finished", flush=True)
        x = persist(delayed(last)())
        begun.wait()
        import atexit
        atexit.register(go.set)
    """) as child:
        code, out, err = child.end()
        assert (code, out, err) == (0, "finished\n", "")


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_sys_exit_in_a_task_does_not_end_the_program(scheduler: str) -> None:
    with Child(f"""
        try:
            compute(delayed(sys.exit)(7), scheduler={scheduler!r})
        except lazyflow.RemoteTaskError as error:
            print("told", type(error.__cause__).__name__, flush=True)
        leave()
    """) as child:
        assert child.expect("told") == "told SystemExit"
        assert child.expect("started") == "started 0 left 0"
        assert child.end() == (0, "", "")


def test_an_interrupt_raised_by_a_task_off_the_main_thread_is_its_failure() -> None:
    with Child("""
        def interrupt(): raise KeyboardInterrupt
        try:
            compute(delayed(interrupt)())
        except lazyflow.RemoteTaskError as error:
            print("told", type(error.__cause__).__name__, flush=True)
        leave()
    """) as child:
        assert child.expect("told") == "told KeyboardInterrupt"
        assert child.expect("started") == "started 0 left 0"
        assert child.end() == (0, "", "")


FORK = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        def gone(pid):
            _, status = os.waitpid(pid, 0)
            return os.waitstatus_to_exitcode(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("scheduler", ["'threads'", "ThreadPoolExecutor(2)"])
def test_a_forked_child_that_returns_from_its_task_ends(scheduler: str) -> None:
    with Child(FORK + f"""
        from concurrent.futures import ThreadPoolExecutor
        log = os.pipe()
        def forks():
            pid = os.fork()
            return pid
        def after(pid, i):
            os.write(log[1], b"x")
            return pid
        x = delayed(forks)()
        pid = compute(delayed(max)([delayed(after)(x, i) for i in range(5)]),
                      scheduler={scheduler})[0]
        print("child", gone(pid), len(os.read(log[0], 100)), flush=True)
    """) as child:
        assert child.expect("child") == "child 0 5"
        assert child.end() == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_in_a_task_can_compute() -> None:
    with Child(FORK + """
        def forks():
            pid = os.fork()
            if pid == 0:
                ok = compute([delayed(abs)(-i) for i in range(50)], num_workers=2)[0][-1] == 49
                os._exit(5 if ok else 6)
            return gone(pid)
        print("child", compute(delayed(forks)())[0], flush=True)
        leave()
    """) as child:
        assert child.expect("child") == "child 5"
        assert child.expect("started") == "started 0 left 0"
        assert child.end() == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_program_computes_on_both_sides() -> None:
    with Child(FORK + """
        x = delayed(sum)([delayed(abs)(-i) for i in range(50)])
        keep = persist(delayed(abs)(-1))
        assert compute(x, keep) == (1225, (1,))  # what is pending at a fork is the parent's alone
        pid = os.fork()
        if pid == 0:
            ok = compute(x) == (1225,) and compute(keep) == ((1,),)
            os._exit(5 if ok else 6)
        assert compute(x) == (1225,)
        print("child", gone(pid), flush=True)
        leave()
    """) as child:
        assert child.expect("child") == "child 5"
        assert child.expect("started") == "started 0 left 0"
        assert child.end() == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("priority", [0, 1])
def test_a_forked_program_is_told_that_a_queued_task_is_its_parents(priority: int) -> None:
    with Child(FORK + f"""
        import threading
        inside, end = threading.Event(), threading.Event()
        def held():
            inside.set()
            end.wait(30)
        busy = persist(delayed(held)(), num_workers=1)
        inside.wait(30)
        queued, = persist(delayed(abs, priority={priority})(-1), num_workers=1)
        pid = os.fork()
        if pid == 0:
            try:
                queued.compute(timeout=10)
            except lazyflow.Cancelled:
                os._exit(5)
            finally:
                os._exit(6)
        print("child", gone(pid), flush=True)
        end.set()
        leave()
    """) as child:
        assert child.expect("child") == "child 5"
        assert child.expect("started") == "started 0 left 0"
        assert child.end() == (0, "", "")


#: Ways of the main thread to wait for `p`, which somebody else holds.
WAITS_FOR = {
    "compute": "delayed(str)(p).compute()",
    "wait": "wait([p])",
    "as_completed": "list(lazyflow.as_completed([p]))",
    "result": "f.result()",
    "timeout": "delayed(str)(p).compute(timeout=0)",
    "timeout of result": "f.result(timeout=0)",
}


#: Schedulers to choose; "client" is a cluster of the user's.
NEEDS = pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
HOLDERS = [
    "threads", "processes", pytest.param("distributed", marks=NEEDS),
    pytest.param("client", marks=NEEDS),
]


@pytest.mark.parametrize("scheduler", HOLDERS)
def test_what_others_hold_survives_who_waits_for_it(scheduler: str) -> None:
    """And the traceback names one frame of ours, as that of an error does."""
    with Child(f"""
        import traceback
        from lazyflow.testing.signals import Gate
        WAITS_FOR = {WAITS_FOR!r}
        there, end = Gate(), Gate()
        def held():
            there.open()
            return end.wait(30)
        choose({scheduler!r})
        p, = persist(delayed(held)())
        f = lazyflow.submit(held)
        there.wait(30)
        from lazyflow import interrupts as gate
        sleep = gate._Bell.sleep
        told = set()
        def telling(bell, timeout):
            if way not in told:
                told.add(way)
                ready()
            sleep(bell, timeout)
        gate._Bell.sleep = telling
        for way in WAITS_FOR:
            try:
                eval(WAITS_FOR[way])
            except (KeyboardInterrupt, lazyflow.TaskTimeout) as error:
                print("frames", len(traceback.extract_tb(error.__traceback__)) - 2, flush=True)
                assert error.__context__ is None, way
        assert not lazyflow.wait([p, f], timeout=0)[0]
        end.open()
        gate._Bell.sleep = sleep
        print("good", p.compute(), f.result(), flush=True)
    """) as child:
        for way in WAITS_FOR:
            if not way.startswith("timeout"):
                child.expect("ready")
                child.interrupt()
            assert child.expect("frames") == "frames 1", way
        assert child.expect("good") == "good True True"
        assert child.end() == (0, "", "")


@pytest.mark.parametrize("scheduler", HOLDERS)
def test_a_kept_value_survives_an_interrupted_task_that_uses_it(scheduler: str) -> None:
    with Child(f"""
        from lazyflow.testing.signals import Gate
        choose({scheduler!r})
        kept, = persist(delayed(bytes)(1_000_000))
        f = lazyflow.submit(bytes, 1_000_000)
        wait([kept, f])
        there, end = Gate(), Gate()
        def uses(*given):
            there.open()
            end.wait(30)
        threading.Thread(target=lambda: there.wait(30) and ready()).start()
        try:
            delayed(uses)(kept, f).compute()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        end.open()
        print("good", len(kept.compute()), len(f.result()), flush=True)
    """) as child:
        child.expect("ready")
        child.interrupt()
        child.expect("interrupted")
        assert child.expect("good") == "good 1000000 1000000"
        assert child.end() == (0, "", "")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_interrupts_of_cells_of_a_real_kernel(scheduler: str) -> None:
    pytest.importorskip("ipykernel")
    command = ["-m", "benchmarks", "interrupts", "--count", "30", "--scheduler", scheduler]
    found = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
