"""`lazyflow.Executor` is a `concurrent.futures.Executor`: what the standard library's ones do."""

import asyncio
import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, as_completed, wait

import numpy as np
import pytest

from lazyflow import Executor

LOCAL = ["threads", "processes"]


@pytest.fixture(params=LOCAL)
def executor(request):
    with Executor(request.param, 2) as made:
        yield made


def test_results_errors_and_waiting(executor):
    futures = [executor.submit(pow, 2, n) for n in range(20)]
    assert wait(futures, timeout=60).not_done == set()
    assert [f.result() for f in futures] == [2**n for n in range(20)]
    assert {f.result() for f in as_completed(futures)} == {2**n for n in range(20)}
    assert executor.submit(lambda *, a: a[:1], a=np.arange(3)).result() == [0]
    with pytest.raises(ZeroDivisionError):
        executor.submit(divmod, 1, 0).result()
    called = threading.Event()
    futures[0].add_done_callback(lambda f: called.set())
    assert called.wait(60)


@pytest.mark.parametrize("chunksize", [1, 3])
def test_map(executor, chunksize):
    assert list(executor.map(pow, range(7), [2] * 9, chunksize=chunksize)) == [
        n**2 for n in range(7)]
    endless = executor.map(abs, itertools.count(), chunksize=chunksize, buffersize=2)
    assert list(itertools.islice(endless, 10)) == list(range(10))
    values = executor.map(divmod, [6, 1], [3, 0], chunksize=1)
    assert next(values) == (2, 0)
    with pytest.raises(ZeroDivisionError):
        next(values)
    with pytest.raises(ValueError, match="chunksize must be 1 or more; got 0"):
        executor.map(abs, [1], chunksize=0)


def test_a_buffer_takes_no_more_items_than_it_holds():
    taken = itertools.count()
    with Executor("threads", 2) as executor:
        values = executor.map(abs, taken, buffersize=3)
        assert next(taken) == 3
        assert next(values) == 0
        assert next(taken) == 5


def test_in_asyncio(executor):
    async def program():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            loop.run_in_executor(executor, abs, -3),
            asyncio.wrap_future(executor.submit(abs, -4)))

    assert asyncio.run(program()) == [3, 4]


def test_cancelling_and_shutdown():
    gate, begun = threading.Event(), threading.Event()
    executor = Executor("threads", 1)
    first = executor.submit(lambda: begun.set() or gate.wait(60))
    later = [executor.submit(abs, n) for n in range(3)]
    assert begun.wait(60)
    assert first.running() and not first.cancel()
    assert later[0].cancel()
    with pytest.raises(TimeoutError):
        later[1].result(timeout=0)
    executor.shutdown(wait=False, cancel_futures=True)
    assert [f.cancelled() for f in later] == [True] * 3
    assert wait(later, timeout=60).not_done == set()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
    gate.set()
    executor.shutdown()
    assert first.done() and first.result() is True


def test_objects_are_passed_as_they_are_on_threads():
    given = [np.zeros(3), [1], object()]
    with Executor("threads", 2) as executor:
        result = executor.submit(lambda x: x, given).result()
        assert result is given and given[0].flags.writeable
        assert not any(executor.map(_most_at_once(2), range(20)))


def _most_at_once(count):
    free = threading.Semaphore(count)

    def call(_):
        assert free.acquire(blocking=False)
        try:
            return 0
        finally:
            free.release()

    return call


def _settle(name, value):
    assert name not in os.environ, "it was called twice"
    os.environ[name] = value


def test_initializers():
    name = f"LAZYFLOW_TEST_{os.getpid()}"
    with Executor("processes", 2, initializer=_settle, initargs=(name, "7")) as executor:
        assert set(executor.map(os.getenv, [name] * 20)) == {"7"}
    assert name not in os.environ


@pytest.mark.parametrize("scheduler", LOCAL)
def test_an_initializer_that_fails_breaks_the_executor(scheduler):
    executor = Executor(scheduler, 1, initializer=int, initargs=("x",))
    futures = []
    try:
        for _ in range(3):
            futures.append(executor.submit(abs, -1))  # noqa: PERF401
    except BrokenExecutor:
        pass
    for future in futures:
        with pytest.raises(BrokenExecutor, match="ValueError: invalid literal"):
            future.result(60)
    with pytest.raises(BrokenExecutor, match="initializer"):
        executor.submit(abs, 1)
    executor.shutdown()


def test_the_end_of_the_program_waits():
    program = (
        "import lazyflow\n"
        "executor = lazyflow.Executor('threads', 1)\n"
        "for i in range(50): executor.submit(print, i)\n")
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert output.stdout.split() == [str(i) for i in range(50)]
    assert output.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("scheduler", LOCAL)
def test_the_child_of_a_fork_begins_anew(scheduler):
    code = f"""
import os, sys, threading, time, warnings
from concurrent.futures import wait
from lazyflow import Cancelled, Executor

warnings.simplefilter("ignore", DeprecationWarning)  # of forks of threads
executor = Executor({scheduler!r}, 1)
before = [executor.submit(time.sleep, 1) for _ in range(2)]  # one runs, one waits
pid = os.fork()
if pid == 0:
    assert wait(before, timeout=30).not_done == set()
    assert [type(f.exception()) for f in before] == [Cancelled] * 2
    assert executor.submit(pow, 2, 3).result(30) == 8
    sys.stdout.flush()
    os._exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), [f.result() for f in before])
executor.shutdown()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("5 [None, None]\n", "")


def test_ctrl_c_in_submit_is_the_callers_too(monkeypatch):
    from lazyflow.api import executors

    def interrupted(*given):
        raise KeyboardInterrupt

    with Executor("threads", 1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(executors, "started", interrupted)
            with pytest.raises(KeyboardInterrupt):
                executor.submit(abs, -1)
        assert executor.submit(abs, -2).result(60) == 2
