"""`lazyflow.Executor` is a `concurrent.futures.Executor`: what the standard library's ones do."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, as_completed, wait
from queue import SimpleQueue

import numpy as np
import pytest
from engine_schedulers import CONCURRENT, local_client

import lazyflow
from lazyflow import Executor, SerializationError, WorkerDied
from lazyflow.api.evaluate import observers
from lazyflow.schedulers.core.base import Observer

LOCAL = ["threads", "processes"]


@pytest.fixture(scope="module")
def cluster():
    with local_client() as client:
        yield client


@pytest.fixture(scope="module")
def rays():
    yield
    lazyflow.shutdown()


@pytest.fixture(params=CONCURRENT)
def scheduler(request):
    if request.param == "distributed":
        request.getfixturevalue("cluster")
    elif request.param == "ray":
        request.getfixturevalue("rays")
    return request.param


@pytest.fixture
def executor(scheduler):
    with Executor(scheduler, 2) as made:
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


def test_errors_of_other_processes_name_the_line_that_submitted(executor, scheduler):
    if scheduler == "threads":
        pytest.skip("the traceback is there")
    line = sys._getframe().f_lineno
    futures = [
        executor.submit(divmod, 1, 0),
        executor.submit(divmod, np.ones(1), "an argument that does not go in a parcel"),
    ]
    for number, future in enumerate(futures, line + 2):
        (note,) = future.exception().__notes__
        assert f"made at {__file__}:{number} in test_errors_of_other" in note
    with pytest.raises(ZeroDivisionError) as caught:
        list(executor.map(divmod, [1], [0]))
    assert f"made at {__file__}:" in caught.value.__notes__[0]


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


def test_a_callback_may_wait_for_another_call(executor):
    done = SimpleQueue()

    def wait_for_more(future):
        later = [executor.submit(abs, -future.result() - n) for n in range(3)]
        later[0].add_done_callback(lambda f: done.put([g.result(60) for g in later]))
        done.put(later[1].result(60))

    executor.submit(abs, -1).add_done_callback(wait_for_more)
    assert sorted([done.get(timeout=60), done.get(timeout=60)], key=str) == [2, [1, 2, 3]]


def test_calls_may_wait_for_those_of_another_executor():
    with Executor("threads", 2) as outer, Executor("threads", 2) as inner:
        assert list(outer.map(lambda n: inner.submit(abs, -n).result(60), range(4))) == [0, 1, 2, 3]


def _opened(path, mode):
    with open(path, mode):  # of a fifo: when its other end is opened, too
        return 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no fifos here")
@pytest.mark.parametrize("answer", ["another call", "the program"])
def test_a_call_may_wait_for_one_that_was_sent_with_it(tmp_path, answer):
    short, long = tmp_path / "file", tmp_path / "fifo"
    short.touch()
    os.mkfifo(long)
    with Executor("processes", 1 if answer == "the program" else 2) as executor:
        # Known to be short, so that those to come go together.
        assert not any(executor.map(_opened, [short] * 40, ["r"] * 40))
        together = [executor.submit(_opened, short, "r") for _ in range(20)]
        waits = executor.submit(_opened, long, "r")
        if answer == "another call":
            executor.submit(_opened, long, "w")
        else:
            together[-1].add_done_callback(lambda f: _opened(long, "w"))
        assert waits.result(60) == 0


def _result_of(kind):
    match kind:
        case "large":
            return np.arange(100_000)
        case "error":
            raise LookupError(kind)
        case "pickled":
            return [np.float64(1), {2}]
        case "unpicklable":
            return threading.Lock()
        case "death":
            os.kill(os.getpid(), signal.SIGKILL)
    return kind


def test_calls_that_go_together_have_outcomes_of_their_own():
    results = ["plain", "pickled", "error", "large", "unpicklable"]
    with Executor("processes", 2) as executor:
        list(executor.map(_result_of, ["plain"] * 50))
        futures = [executor.submit(_result_of, results[n % 5]) for n in range(50)]
        for n, future in enumerate(futures):
            match results[n % 5]:
                case "plain":
                    assert future.result(60) == "plain"
                case "pickled":
                    assert future.result(60) == [1.0, {2}]
                case "large":
                    assert future.result(60).sum() == np.arange(100_000).sum()
                case "error":
                    with pytest.raises(LookupError, match="error") as caught:
                        future.result(60)
                    assert caught.traceback[-1].name == "_result_of"
                case "unpicklable":
                    with pytest.raises(SerializationError, match="lock"):
                        future.result(60)


def test_a_death_fails_one_of_the_calls_that_went_together():
    with Executor("processes", 2) as executor:
        list(executor.map(_result_of, ["plain"] * 50))
        kinds = ["plain"] * 10 + ["death"] + ["plain"] * 10
        futures = [executor.submit(_result_of, kind) for kind in kinds]
        for kind, future in zip(kinds, futures, strict=True):
            if kind == "death":
                with pytest.raises(WorkerDied):
                    future.result(60)
            else:
                assert future.result(60) == kind


def test_calls_see_the_context_of_their_submit(executor):
    with lazyflow.config.set(num_workers=7):
        inside = [executor.submit(lazyflow.config.get, "num_workers") for _ in range(20)]
    outside = [executor.submit(lazyflow.config.get, "num_workers") for _ in range(20)]
    assert {f.result(60) for f in inside} == {7}
    assert {f.result(60) for f in outside} == {lazyflow.config.get("num_workers")}


def test_observers_hear_of_calls(executor):
    heard = SimpleQueue()

    class Heard(Observer):
        def task_ended(self, run, i):
            heard.put(run.task_name(i))

    token = observers.set((Heard(),))
    try:
        assert executor.submit(abs, -3).result(60) == 3
    finally:
        observers.reset(token)
    assert heard.get(timeout=60) == "abs"


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


def test_initializers(scheduler):
    name = f"LAZYFLOW_TEST_{os.getpid()}_{scheduler}"
    workers = 1 if scheduler == "threads" else 2  # where they share the environment
    with Executor(scheduler, workers, initializer=_settle, initargs=(name, "7")) as executor:
        assert set(executor.map(os.getenv, [name] * 20)) == {"7"}
    assert (name in os.environ) == (scheduler == "threads")
    os.environ.pop(name, None)


def test_calls_that_have_not_begun_are_cancelled_by_a_shutdown(scheduler, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    executor = Executor(scheduler, 1)
    first = executor.submit(_opened, fifo, "r")
    later = [executor.submit(abs, -n) for n in range(3)]
    assert later[0].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    assert wait(later, timeout=60).not_done == set()
    assert [f.cancelled() for f in later] == [True] * 3
    _opened(fifo, "w")
    assert first.result(60) == 0
    executor.shutdown()


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

    with Executor("processes", 1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(executors, "start_background", interrupted)
            with pytest.raises(KeyboardInterrupt):
                executor.submit(abs, -1)
        assert executor.submit(abs, -2).result(60) == 2
