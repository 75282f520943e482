"""What is said of a task means the same on every scheduler, or its caller hears that it can't."""

import os

import pytest
from engine_schedulers import ELSEWHERE, LOCAL, RAY, SCHEDULERS

import lazyflow
from lazyflow import LazyflowWarning, compute, delayed, persist
from lazyflow.api import evaluate
from lazyflow.schedulers import registry
from lazyflow.testing.signals import Gate, Tally, inc


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    with lazyflow.config.set(num_workers=2):
        yield request.param


@pytest.fixture(autouse=True)
def nobody_was_warned(monkeypatch):
    monkeypatch.setattr(evaluate, "_warned", set())


def test_retries(scheduler):
    tries = Tally()

    def flaky(x):
        if tries.add(x) < 3:
            raise OSError("not yet")
        return x

    assert compute(delayed(flaky, retries=2)(1), scheduler=scheduler) == (1,)
    assert len(tries) == 3
    tries = Tally()
    with lazyflow.annotate(retries=1), pytest.raises(OSError, match="not yet"):
        compute(delayed(flaky)(1), scheduler=scheduler)
    assert len(tries) == 2


@pytest.mark.parametrize("names", ["abcde", "edcba"])
def test_higher_priorities_start_first(scheduler, names):
    """Of tasks that could all run we want the urgent ones first; their names do not count."""
    order = Tally()
    tasks = [
        delayed(order.add, priority=p)(p, dask_key_name=name)
        for p, name in zip((0, 3, -1, 2, 1), names, strict=True)
    ]
    compute(tasks, scheduler=scheduler, num_workers=1)
    assert order.items() == [3, 2, 1, 0, -1]


def wait_at(begun, gate):
    begun.open()
    gate.wait()
    return 0


@pytest.fixture(params=["threads", "processes"])
def one_worker(request):
    """A pool with one worker, which a task holds until the gate is opened."""
    lazyflow.shutdown()  # a pool is as large as was ever asked for
    with lazyflow.config.set(scheduler=request.param, num_workers=1):
        begun, gate = Gate(), Gate()
        held = lazyflow.submit(wait_at, begun, gate)
        assert begun.wait()
        yield lambda: open_when_queued(gate, request.param)
        gate.open()
        held.result()


def open_when_queued(gate, name):
    """Open the gate when a pool that runs elsewhere knows of all that was started."""
    if name == "processes":
        driver = registry.scheduler_named(name)._driver
        known = Gate()
        driver.loop.post(known.open)
        assert known.wait()
    gate.open()


def test_higher_priorities_start_first_whenever_they_were_started(one_worker):
    """While one worker is held, calls queue up: we want them by priority, and none counts as 0."""
    order = Tally()
    futures = [
        lazyflow.submit(delayed(order.add, priority=p), str(p)) for p in (1, 3, -2, 2)
    ]
    futures.append(lazyflow.submit(order.add, "none"))
    first = delayed(order.add, priority=5)("5")
    futures.append(*persist(delayed(order.add, priority=-1)(first)))
    one_worker()
    compute(futures)
    assert [x for x in order.items() if isinstance(x, str)] == ["5", "3", "2", "1", "none", "-2"]


def test_what_runs_makes_way_for_what_is_more_urgent():
    """We want `more`, started later, before the rest of a chain that is less urgent.

        4 (runs) - 3 - 1 - -5         then 3, more, 1, less, -5
        more: 2
        less: -1
    """
    order, begun, gate = Tally(), Gate(), Gate()

    def note(name, *_):
        order.add(name)

    def chain(*priorities):
        x = delayed(wait_at, priority=priorities[0])(begun, gate)
        for p in priorities[1:]:
            x = delayed(note, priority=p)(p, x)
        return x

    lazyflow.shutdown()
    with lazyflow.config.set(scheduler="threads", num_workers=1):
        for priorities, expected in (
            ((0, 0, 0), ["more", 0, 0, "less"]), ((4, 3, 1, -5), [3, "more", 1, "less", -5]),
        ):
            order, begun, gate = Tally(), Gate(), Gate()
            (x,) = persist(chain(*priorities), optimize_graph=False)
            assert begun.wait()
            others = [
                lazyflow.submit(delayed(note, priority=p), name)
                for name, p in (("less", -1), ("more", 2))
            ]
            gate.open()
            compute(x, others)
            assert order.items() == expected


@pytest.mark.parametrize("name", [*LOCAL, RAY])
def test_workers_are_refused_by_who_can_not_choose(name):
    f = delayed(inc, workers=["big", "bigger"])
    words = rf"inc asks for workers=\['big', 'bigger'\], and the '{name}' scheduler can't choose"
    for run in (compute, persist):
        with pytest.raises(ValueError, match=words):
            run(f(1), scheduler=name)


@pytest.mark.parametrize("name", LOCAL)
def test_resources_have_no_effect_where_there_is_one_machine_and_it_is_said(name):
    f = delayed(inc, resources={"GPU": 1})
    with pytest.warns(LazyflowWarning, match=rf"resources= of inc has no effect on the '{name}'"):
        assert compute(f(1), scheduler=name) == (2,)
    assert compute(f(1), scheduler=name) == (2,)  # said once


@pytest.mark.parametrize("name", ELSEWHERE[1:])
def test_resources_that_nobody_offers_are_refused_by_engines(name):
    f = delayed(inc, resources={"unicorns": 1})
    with pytest.raises(ValueError, match=r"offers (no )?\{'unicorns': 1\}"):
        compute(f(1), scheduler=name)


@pytest.mark.parametrize("count", [0, 1])
def test_where_no_task_can_end_a_worker_crash_retries_have_no_effect_and_it_is_said(
    scheduler, count
):
    f = delayed(os.getpid, crash_retries=count)
    if scheduler not in LOCAL[:2]:
        assert compute(f(), scheduler=scheduler) != (os.getpid(),)
        return
    with pytest.warns(LazyflowWarning, match=r"crash_retries= of getpid has no effect on the"):
        compute(f(), scheduler=scheduler)
