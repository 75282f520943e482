"""Memory and CPU use over time, bytes moved, and the time for which Numba compiled."""

import os

import pytest
from waiting import FakeClock

import lazyflow
from lazyflow import compute, delayed
from lazyflow.api.evaluate import observers
from lazyflow.diagnostics.profiling import recording
from lazyflow.diagnostics.profiling.pages import HEIGHT, usage_bars
from lazyflow.diagnostics.profiling.recording import UsageMeter
from lazyflow.diagnostics.profiling.records import UsageRecord
from lazyflow.schedulers.core import observing
from lazyflow.schedulers.core.base import Observer

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")


class Fake:
    """A scheduler for whom this process is a worker, or an actor."""

    def __init__(self, what):
        self.what = what

    def info(self):
        return {self.what: [{"pid": os.getpid(), "shared_bytes": 7 << 40}]}


def pretends_to_compile():
    from numba.core import event

    for _ in range(2):  # the outermost one is timed
        event.start_event("numba:compile")
    for _ in range(3):  # the last one began before anybody listened
        event.end_event("numba:compile")


def compiles():
    import numba

    return numba.njit(lambda x: x + 1)(1)


def length(x):
    return len(x)


def read(monkeypatch, times, schedulers=()):
    monkeypatch.setattr(recording, "_STEP", 0.0)
    meter = UsageMeter(lambda: schedulers)
    for _ in range(times):
        meter.read()
    return meter.records(0.0)


@needs_proc
def test_readings_become_records_of_the_time_between_them(monkeypatch):
    records = read(monkeypatch, 5)
    assert len(records) == 4
    assert [r.time for r in records] == sorted(r.time for r in records)
    for each in records:
        assert each.memory == each.total > 1 << 20
        assert each.worker_memory == 0
        assert each.cpu >= 0


@needs_proc
@pytest.mark.parametrize("what", ["workers", "actors"])
def test_memory_of_workers_and_actors_is_there_with_what_they_share(monkeypatch, what):
    (record,) = read(monkeypatch, 2, [Fake(what)])
    assert record.worker_memory > 7 << 40
    assert record.total == record.memory + record.worker_memory


def test_with_too_many_readings_they_become_rarer(monkeypatch):
    monkeypatch.setattr(recording, "_MAX_READINGS", 8)
    assert len(read(monkeypatch, 100)) <= 8


def test_a_reading_is_not_taken_before_it_is_due():
    clock = FakeClock()
    meter = UsageMeter(list, clock)
    began = clock.now
    counts = []
    for seconds in (0.0, 0.0, recording._STEP / 2, recording._STEP / 2, recording._STEP):
        clock.now += seconds
        meter.read()
        counts.append(len(meter.records(began)))
    assert counts == [0, 0, 0, 1, 2]


@needs_proc
def test_a_profile_reads_its_own_process_and_its_workers(monkeypatch):
    monkeypatch.setattr(recording, "_STEP", 0.0)
    monkeypatch.setattr(recording, "_WORKERS", 0.0)
    with lazyflow.profile(sample=0.001) as p:
        compute(delayed(sum)(range(2_000_000)), scheduler="processes")
    assert p.usage
    assert max(each.worker_memory for each in p.usage) > 1 << 20
    assert all(0 <= each.time <= p.seconds for each in p.usage)


def test_bars_stand_below_the_lanes_and_fill_their_own():
    records = [UsageRecord(1.0, 100, 0, 0.5), UsageRecord(2.0, 100, 300, 2.0)]
    names, groups = usage_bars(records, 4)
    assert list(names.values()) == ["memory, to 400 bytes", "CPU, to 2 cores"]
    assert list(groups) == ["memory of this process", "memory of workers", "CPU"]
    own, workers, cpu = groups.values()
    assert [(bar.left, bar.right) for bar in own] == [(0.0, 1.0), (1.0, 2.0)]
    (stacked,) = workers
    assert stacked.bottom == own[1].top
    assert stacked.top == pytest.approx(3.6)
    assert own[0].bottom == 4 + HEIGHT - 0.6
    assert cpu[1].bottom - cpu[1].top == pytest.approx(4 * (cpu[0].bottom - cpu[0].top))
    assert (stacked.memory, stacked.cpu) == ("100 bytes here, 300 bytes in workers",
                                             "2 cores in use")


def test_without_figures_there_are_no_bars():
    assert usage_bars([], 4) == ({}, {})
    names, groups = usage_bars([UsageRecord(1.0, None, 0, 1.0)], 4)
    assert list(names.values()) == ["CPU, to 1 cores"]
    assert list(groups) == ["CPU"]


def test_a_timeline_has_them_below_its_lanes():
    pytest.importorskip("bokeh")
    from lazyflow.diagnostics.profiling.pages import timeline

    records = [UsageRecord(1.0, 100, 300, 2.0)]
    plot = timeline(None, [], [], 2.0, records)
    labels = [each.text for each in plot.yaxis[0].major_label_overrides.values()]
    assert labels == ["caller", "memory, to 400 bytes", "CPU, to 2 cores"]
    assert plot.y_range.start == 1 + 2 * HEIGHT - 0.5


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_compile_time_is_that_of_the_task_in_whose_thread_it_was(scheduler):
    pytest.importorskip("numba.core.event")

    class Ear(Observer):
        heard = 0

        def task_compiled(self, run, i, seconds):
            self.heard += 1

    ear = Ear()
    token = observers.set((ear,))
    try:
        with lazyflow.profile() as p:
            compute(delayed(pretends_to_compile)(), delayed(length)(()), scheduler=scheduler)
    finally:
        observers.reset(token)
    assert ear.heard == 1
    compiled = {task.name: task.compiled for task in p.tasks}
    assert 0 < compiled["pretends_to_compile"] < p.seconds
    assert compiled["length"] == 0
    assert "compile" in repr(p.summary()).splitlines()[1]


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes", "distributed"])
def test_numba_tells_of_its_compilations(scheduler):
    pytest.importorskip("numba")
    if scheduler == "distributed":
        pytest.importorskip("distributed")
    with lazyflow.profile() as p:
        assert delayed(compiles)().compute(scheduler=scheduler) == 2
    (task,) = p.tasks
    assert 0 < task.compiled < task.seconds
    assert any(line.function == "compiles" for line in p.flame().lines)


def test_compiling_outside_of_tasks_is_nobodys():
    event = pytest.importorskip("numba.core.event")
    with lazyflow.profile() as p:
        event.start_event("numba:compile")
        event.end_event("numba:compile")
        delayed(length)(()).compute()
    assert [task.compiled for task in p.tasks] == [0]
    assert "compile" not in repr(p.summary()).splitlines()[1]


def test_nothing_is_listened_to_before_numba_is_there(monkeypatch):
    monkeypatch.setattr(observing, "_known", set())
    monkeypatch.delitem(observing.sys.modules, "numba.core.event", raising=False)
    with lazyflow.profile(sample=None):
        pass
    assert observing._known == set()


def test_processes_say_what_was_sent_for_a_task():
    numpy = pytest.importorskip("numpy")
    with lazyflow.profile() as p:
        compute(delayed(length)(numpy.zeros(50_000)), scheduler="processes")
        compute(delayed(length)(()), scheduler="threads")
    assert sorted(str(task.moved)[:2] for task in p.tasks) == ["40", "No"]
    assert p.summary().rows[0].moved >= 400_000


def test_a_broken_observer_of_these_events_changes_nothing():
    class Broken(Observer):
        sampling = 0.001

        def task_ran(self, *what):
            pass

        def task_moved(self, *what):
            raise OSError("broken")

    token = observers.set((Broken(),))
    try:
        assert compute(delayed(length)(bytes(500_000)), scheduler="processes") == (500_000,)
    finally:
        observers.reset(token)
