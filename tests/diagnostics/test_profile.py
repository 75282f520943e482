"""`profile` records each task with its place, worker and times, on every scheduler."""

import logging
import os
import threading
import weakref
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from time import perf_counter, thread_time

import pytest

import lazyflow
from lazyflow import compute, delayed, persist, wait
from lazyflow.api.evaluate import observers
from lazyflow.schedulers.core import observing
from lazyflow.schedulers.core.base import Observer

ALL = pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])


def inc(x):
    return x + 1


def fail(x):
    raise ValueError(x)


def clock_and_process(x):
    return perf_counter(), os.getpid()


def burn(seconds):
    """Use so many seconds of CPU time."""
    start = thread_time()
    while thread_time() - start < seconds:
        pass


def of(profile, name):
    return [task for task in profile.tasks if task.name == name]


@ALL
def test_every_task_is_recorded_inside_its_run(scheduler):
    with lazyflow.profile() as p:
        compute([delayed(inc)(delayed(inc)(i)) for i in range(50)], scheduler=scheduler)
        delayed(abs)(-1).compute(scheduler=scheduler)
    assert len(of(p, "inc")) == 100
    assert len(of(p, "abs")) == 1
    assert [(run.tasks, run.scheduler) for run in p.runs] == [(100, scheduler), (1, scheduler)]
    for task in p.tasks:
        run = p.runs[task.run]
        assert 0 <= run.start <= task.start <= task.end <= run.end <= p.seconds
        assert not task.failed
    assert of(p, "inc")[0].function == f"{__name__}.inc"
    assert [t.start for t in p.tasks] == sorted(t.start for t in p.tasks)
    assert repr(p) == "<Profile: 101 tasks of 2 runs>"


@ALL
def test_times_are_those_of_the_call_by_the_callers_clock(scheduler):
    before = perf_counter()
    with lazyflow.profile() as p:
        after = perf_counter()
        clock, process = delayed(clock_and_process)(1).compute(scheduler=scheduler)
    (task,) = p.tasks
    assert task.start <= clock - before
    assert clock - after <= task.end
    here = "MainThread" if scheduler == "sync" else "lazyflow-"
    assert task.worker.startswith(f"process {process}" if scheduler == "processes" else here)


@ALL
def test_cpu_time_is_that_of_the_calling_thread(scheduler):
    with lazyflow.profile() as p:
        compute([delayed(burn)(0.01) for _ in range(3)], scheduler=scheduler)
    for task in p.tasks:
        assert 0.0099 <= task.cpu <= task.seconds


def test_waiting_takes_no_cpu_time():
    both, done = threading.Barrier(2), threading.Event()

    def waits():
        both.wait(60)
        done.wait(60)

    def works():
        both.wait(60)
        burn(0.03)
        done.set()

    with lazyflow.profile() as p:
        compute(delayed(waits)(), delayed(works)(), scheduler="threads", num_workers=2)
    (waiting,), (working,) = of(p, "waits"), of(p, "works")
    assert waiting.cpu < 0.015 < 0.0299 <= working.cpu
    assert waiting.seconds >= 0.0299


@ALL
def test_lines_are_those_that_made_the_task_and_that_started_the_run(scheduler):
    with lazyflow.profile() as p:
        lazy = delayed(inc)(1)
        lazy.compute(scheduler=scheduler)
    (task,), (run,) = p.tasks, p.runs
    line = test_lines_are_those_that_made_the_task_and_that_started_the_run.__code__.co_firstlineno
    assert f".py:{line + 3} in test_lines_are"[-60:] in task.place
    assert f".py:{line + 4} in test_lines_are"[-60:] in run.place
    assert run.is_users


@ALL
def test_failed_tasks_are_marked(scheduler):
    with lazyflow.profile() as p:
        compute(delayed(fail)(1), delayed(inc)(1), scheduler=scheduler, on_error="collect")
    assert [(t.name, t.failed) for t in sorted(p.tasks)] == [("fail", True), ("inc", False)]


def test_a_retried_task_is_one_call():
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) < 3:
            raise OSError("try again")

    with lazyflow.profile() as p:
        delayed(flaky, retries=5)().compute()
    assert [task.failed for task in p.tasks] == [False]


def test_a_task_that_could_not_be_sent_has_failed_on_no_worker():
    with lazyflow.profile() as p, pytest.raises(lazyflow.SerializationError):
        delayed(inc)(threading.Lock()).compute(scheduler="processes")
    (task,) = p.tasks
    assert (task.worker, task.failed, task.seconds) == ("", True, 0.0)


@ALL
def test_values_of_other_runs_are_no_tasks(scheduler):
    with lazyflow.profile() as p:
        x = delayed(inc)(1)
        for _ in range(5):
            (x,) = persist(delayed(inc)(x), scheduler=scheduler)
        assert x.compute(scheduler=scheduler) == 7
    assert [task.name for task in p.tasks] == ["inc"] * 6


def test_processes_say_how_large_results_are():
    with lazyflow.profile() as p:
        large = delayed(bytes)(100_000)
        delayed(len)(large).compute(scheduler="processes")
    assert of(p, "bytes")[0].size >= 100_000


def test_of_executors_elsewhere_the_cpu_time_is_unknown():
    class Elsewhere(Executor):
        def submit(self, function, *args):
            future = Future()
            future.set_result(function(*args))
            return future

    with ThreadPoolExecutor(1) as pool, lazyflow.profile() as p:
        for executor in pool, Elsewhere():
            assert compute(delayed(inc)(delayed(inc)(1)), scheduler=executor) == (3,)
    assert [(task.name, task.cpu is None) for task in p.tasks] == [
        ("inc", False), ("inc", False), ("inc", True), ("inc", True)
    ]


def test_a_task_that_outlives_its_run_ends_with_it():
    for timeout in (0.01, 0.1, 1, 10):  # on a busy machine the task has not begun at first
        release = threading.Event()
        with lazyflow.profile() as p, pytest.raises(lazyflow.TaskTimeout):
            delayed(release.wait)(60).compute(timeout=timeout, scheduler="threads")
        release.set()
        if p.tasks:
            break
    (task,), (run,) = p.tasks, p.runs
    assert task.name == "wait"
    assert task.end <= run.end


def test_only_what_begins_in_the_block_is_recorded():
    release = threading.Event()
    early = persist(delayed(release.wait)(60))
    with lazyflow.profile() as p:
        late = persist(delayed(release.wait)(60))
        assert p.tasks == []
    delayed(inc)(1).compute(scheduler="sync")  # the pool's threads wait
    release.set()
    wait([*early, *late])
    assert [task.name for task in p.tasks] == ["wait"]


def test_blocks_may_contain_others_but_each_profile_has_one_block():
    with lazyflow.profile() as outer:
        delayed(inc)(1).compute()
        with lazyflow.profile() as inner:
            delayed(inc)(1).compute()
        with pytest.raises(RuntimeError, match="Give each block its own"), inner:
            pass
    assert (len(outer.tasks), len(inner.tasks)) == (2, 1)


def test_what_tasks_compute_is_recorded_too():
    with lazyflow.profile() as p:
        delayed(lambda: delayed(inc)(1).compute())().compute()
    (inner,) = of(p, "inc")
    (outer,) = of(p, "<lambda>")
    assert outer.start <= inner.start <= inner.end <= outer.end
    assert [run.is_users for run in p.runs] == [False, True]


def test_the_longest_chain_of_a_run():
    x = 1
    for _ in range(5):
        x = delayed(inc)(x)
    with lazyflow.profile() as p:
        compute(x, delayed(inc)(1))
        compute([delayed(inc)(i) for i in range(9)])
    assert [(run.tasks, run.chain) for run in p.runs] == [(6, 5), (9, 1)]


def test_traces_are_told_from_the_users_own_computes():
    traced = lazyflow.trace(lambda x: delayed(inc)(x))
    with lazyflow.profile() as p:
        assert traced(1) == 2
    assert [run.is_users for run in p.runs] == [False]
    assert "test_traces_are_told" in p.runs[0].place


def test_estimators_are_told_from_the_users_own_computes():
    pytest.importorskip("sklearn")
    from lazyflow.learn import LogisticRegression

    with lazyflow.profile() as p:
        X = [[0.0], [1.0], [2.0], [3.0]]
        LogisticRegression(solver="lbfgs").fit(X, [0, 0, 1, 1])
    assert p.runs
    assert not any(run.is_users for run in p.runs)


def test_a_profile_keeps_no_values_and_after_a_look_no_functions():
    class Value:
        def method(self, other):
            return 1

    value, owner = Value(), Value()
    references = [weakref.ref(value), weakref.ref(owner)]
    with lazyflow.profile() as p:
        delayed(owner.method)(value).compute()
    del value
    assert references[0]() is None
    assert len(p.tasks) == 1
    del owner
    assert references[1]() is None


def test_names_are_harmless_and_short():
    def evil():
        pass

    evil.__qualname__ = "\x1b[31m\u202e" + "x" * 1_000_000
    with lazyflow.profile() as p:
        delayed(evil, name="<script>\x00" + "y" * 1_000_000)().compute()
    (task,) = p.tasks
    for text in task.name, task.function, task.place, repr(p.summary()).splitlines()[2]:
        assert len(text) < 200
        assert text.isprintable()


def test_functions_need_not_be_hashable():
    class Adder(list):
        def __call__(self, x):
            return x + sum(self)

    with lazyflow.profile() as p:
        assert delayed(Adder([1, 2]))(3).compute() == 6
    assert p.tasks[0].name == "Adder"


@ALL
def test_an_observer_that_fails_in_task_ran_changes_nothing(scheduler, caplog):
    class Bad(Observer):
        def task_ran(self, *event):
            raise OSError("broken")

    token = observers.set((Bad(),))
    try:
        with lazyflow.profile() as p, caplog.at_level(logging.ERROR, logger="lazyflow"):
            assert compute([delayed(inc)(i) for i in range(9)], scheduler=scheduler) == (
                list(range(1, 10)),
            )
    finally:
        observers.reset(token)
    assert [r.message for r in caplog.records] == [
        "the observer Bad failed in task_ran and is not called again; results are not affected"
    ]
    assert len(p.tasks) == 9


def test_nothing_is_timed_unless_an_observer_asks(monkeypatch):
    def never():
        raise AssertionError("a clock was read")

    monkeypatch.setattr(observing, "perf_counter", never)
    monkeypatch.setattr(observing, "thread_time", never)

    class Ear(Observer):
        heard = 0

        def task_ended(self, run, i):
            self.heard += 1

    ear = Ear()
    token = observers.set((ear,))
    try:
        compute([delayed(inc)(i) for i in range(9)], scheduler="threads")
    finally:
        observers.reset(token)
    assert ear.heard == 9
