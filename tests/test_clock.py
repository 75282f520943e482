"""Decisions by time, with a clock that the test moves on: no wait, and load changes nothing."""

from types import SimpleNamespace

import pytest
from waiting import FakeClock

from lazyflow import TaskTimeout, compute, delayed, tune
from lazyflow.schedulers.processes.parent import pool
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.sync import SyncScheduler
from lazyflow.store.memory import available
from lazyflow.store.pickling import unpicklable
from lazyflow.tune.search import Search, SearchSettings


@pytest.fixture
def clock():
    return FakeClock()


def test_sync_looks_at_its_timeout_between_tasks(clock):
    ran = []

    def step(x):
        clock.now += 3
        ran.append(x)
        return x + 1

    x = delayed(step)(delayed(step)(delayed(step)(0)))
    with pytest.raises(TaskTimeout, match="no result of step after 5 s"):
        compute(x, scheduler=SyncScheduler(clock), timeout=5)
    assert ran == [0, 1]
    assert compute(x, scheduler=SyncScheduler(clock), timeout=10) == (3,)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_a_search_ends_when_its_time_is_over(clock, scheduler):
    from lazyflow.schedulers.registry import scheduler_named

    def train(config):
        clock.now += 3
        tune.report(loss=config["x"])

    given = SearchSettings(
        {"x": tune.uniform(0, 1)}, metric="loss", mode="min", num_samples=9, sampler=None,
        pruner=None, max_concurrent=1, stop=None, max_failures=0, fail_fast=False, name="it",
        seed=0)
    search = Search(given, train, {}, [], time_budget=10, now=clock)
    result = search.go(scheduler_named(scheduler), None)
    assert [trial.seconds for trial in result.trials] == [3, 3, 3, 3]
    assert result.deadline.left() == 0


def test_a_timer_of_the_drivers_loop(clock):
    loop, called = EventLoop(clock), []
    try:
        for seconds in (7, 5):
            loop.after(seconds, lambda seconds=seconds: called.append(seconds))
        for after, expected in ((0, []), (5, [5]), (1, [5]), (1, [5, 7])):
            clock.now += after
            loop.sleep(clock.now)
            assert called == expected
    finally:
        loop.close()


def pool_of(clock, workers):
    """Return a pool with such workers, and a list of what it does."""
    told = []
    driver = SimpleNamespace(
        loop=SimpleNamespace(now=clock),
        state=SimpleNamespace(
            workers=workers, size=len(workers), lineage=SimpleNamespace(unshared=[])),
        memory=SimpleNamespace(trim=lambda: told.append("trimmed")),
    )
    made = pool.WorkerPool(driver)
    made.members = {worker.name: SimpleNamespace(since=clock.now) for worker in workers}
    made.request = lambda *what: None
    return made, told


class Worker(SimpleNamespace):
    __hash__ = object.__hash__

    name = property(lambda self: self)


def test_an_idle_pool_gives_memory_back(clock):
    busy = Worker(batches=[object()], up=True)
    made, told = pool_of(clock, [busy])
    assert made.until() is None  # it works
    busy.batches.clear()
    assert made.until() == clock.now + pool.IDLE
    clock.now += pool.IDLE
    assert made.until() is None and told == ["trimmed"]
    clock.now += pool.IDLE
    assert made.until() is None and told == ["trimmed"]  # once


def test_a_batch_is_late_when_others_have_nothing_to_do(clock, monkeypatch):
    batch = SimpleNamespace(is_late=False, unanswered=3, cost=0.0, number=8)
    busy, idle = Worker(batches=[batch], up=True, queue=[]), Worker(batches=[], up=True, queue=[])
    late = []

    def overdue(state, worker, number):
        batch.is_late = True
        late.append((worker, number))

    monkeypatch.setattr(pool.events, "overdue", overdue)
    made, _ = pool_of(clock, [busy, idle])
    due = clock.now + pool.OVERDUE
    assert made.until() == due and late == []
    batch.cost = 1.0  # its tasks are known to be long
    assert made.until() == clock.now + 2
    clock.now += 2
    made.until()
    assert late == [(busy, 8)]


def test_a_reading_of_free_memory_becomes_old(clock):
    looks = []

    def free():
        looks.append(clock.now)
        return 1 << 40

    budget = available.Budget(None, free, clock)
    for _ in range(3):
        assert budget.machine_lacks(1 << 20) == ""
    assert len(looks) == 1
    clock.now += available._FRESH
    assert budget.machine_lacks(1 << 20) == ""
    assert len(looks) == 2


def test_a_search_for_what_cannot_be_pickled_gives_up(clock):
    class Slow:
        def __reduce__(self):
            clock.now += unpicklable._SECONDS
            raise TypeError("never")

    search = unpicklable._CulpritSearch([[[[Slow()]]]], clock)
    search.run()
    assert search.is_cut and len(search.path) < 4
