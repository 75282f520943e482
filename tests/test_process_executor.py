"""Executors that are not thread pools: a task at a time, functions by cloudpickle."""

import multiprocessing
import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor

import pytest

import lazyflow
from lazyflow import compute, delayed, persist
from lazyflow.schedulers import registry
from lazyflow.schedulers.base import Worker


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_lambdas_closures_and_graphs(processes):
    bias = 10
    f = delayed(lambda x: x + bias)
    total = delayed(sum)([f(f(i)) for i in range(20)])
    assert compute(total, f(1), scheduler=processes) == (sum(i + 20 for i in range(20)), 11)


def test_work_is_elsewhere(processes):
    pids = compute([delayed(os.getpid)() for _ in range(4)], scheduler=processes)[0]
    assert os.getpid() not in pids


def test_errors_keep_type_and_get_a_note(processes):
    with pytest.raises(ZeroDivisionError) as caught:
        compute(delayed(lambda x: 1 // x)(0), scheduler=processes)
    assert "in lazyflow task <lambda>(0), made at" in caught.value.__notes__[0]


def test_sys_exit_in_a_task_ends_nothing(processes):
    with pytest.raises(lazyflow.RemoteTaskError, match="SystemExit"):
        compute(delayed(exit)(3), scheduler=processes)
    assert compute(delayed(abs)(-1), scheduler=processes) == (1,)


def test_lengths_retries_collect_and_returned_tasks(processes, tmp_path):
    def flaky(path):
        tries = len(path.read_text()) if path.exists() else 0
        path.write_text("x" * (tries + 1))
        if tries < 2:
            raise OSError("again")
        return tries

    assert compute(delayed(flaky, retries=3)(tmp_path / "tries"), scheduler=processes) == (2,)
    with pytest.raises(ValueError, match=r"nout=3\) but returned 2"):
        compute(delayed(divmod, nout=3)(7, 2), scheduler=processes)
    good, bad = delayed(abs)(-1), delayed(lambda: 1 // 0)()
    found = compute(good, bad, scheduler=processes, on_error="collect")
    assert found[0] == 1
    assert type(found[1]) is ZeroDivisionError
    assert compute(delayed(lambda: delayed(abs)(-7))(), scheduler=processes) == (7,)


def test_persist(processes):
    (x,) = persist(delayed(lambda: list(range(5)))(), scheduler=processes)
    assert delayed(sum)(x).compute(scheduler=processes) == 10


class Immediate(Executor):
    """The least an executor can be."""

    def __init__(self):
        self.calls = 0

    def submit(self, fn, /, *args, **kwargs):
        self.calls += 1
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def test_any_executor():
    mine = Immediate()
    x = delayed(sum)([delayed(abs)(-i) for i in range(50)])
    assert compute(x, scheduler=mine) == (sum(range(50)),)
    assert mine.calls == 51


def test_any_executor_on_a_long_chain():
    one = delayed(lambda x: x + 1)
    x = one(0)
    for _ in range(2_999):
        x = one(x)
    assert compute(x, scheduler=Immediate()) == (3_000,)


class Mine:
    """A scheduler as base.py tells one to write it, in the caller's thread."""

    name = "mine"
    options = frozenset()

    def __init__(self):
        self.offered = []

    def start(self, run):
        run.attached = self
        run.begin()

    def offer(self, run, count):
        self.offered.append(run)

    def wait(self, run, timeout):
        worker = Worker("mine-1")
        while not run.over:
            self.offered.pop().work(worker)
        return True

    def abandon(self, run):
        pass


def test_a_scheduler_of_ones_own():
    f = delayed(lambda x: x + 1)
    assert compute(delayed(sum)([f(i) for i in range(10)]), scheduler=Mine()) == (55,)


def test_an_option_that_has_no_effect_warns_once():
    lazyflow.evaluate._warned.clear()
    x = delayed(abs, priority=3)(-1)
    with pytest.warns(lazyflow.LazyflowWarning, match="priority= of abs has no effect on"):
        compute(x, scheduler=Mine())
    compute(x, scheduler=Mine())


def test_schedulers_of_other_packages_are_found(monkeypatch):
    class Entry:
        def load(self):
            return Mine

    monkeypatch.setattr(registry, "_entry_points", lambda: {"mine": Entry()})
    monkeypatch.setattr(registry, "_made", {})
    assert compute(delayed(abs)(-1), scheduler="mine") == (1,)
    with pytest.raises(ValueError, match="Known: mine, sync, threads"):
        compute(delayed(abs)(-1), scheduler="other")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("processes", ValueError, "Pass a concurrent.futures.ProcessPoolExecutor"),
        (ProcessPoolExecutor, TypeError, r"is the class ProcessPoolExecutor; make one"),
        (3, TypeError, "scheduler must be a name such as 'threads'.*got int"),
    ],
)
def test_what_is_no_scheduler(given, error, words):
    with pytest.raises(error, match=words):
        compute(delayed(abs)(-1), scheduler=given)
