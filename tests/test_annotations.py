"""What is said of a task means the same on every scheduler, or its caller hears that it can't."""

import os

import pytest
from engine_schedulers import ELSEWHERE, LOCAL, RAY, SCHEDULERS

import lazyflow
from lazyflow import LazyflowWarning, compute, delayed, evaluate, persist
from lazyflow.testing.signals import Tally
from lazyflow.testing.tasks import inc


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


def test_higher_priorities_start_first(scheduler):
    order = Tally()
    tasks = [delayed(order.add, priority=p)(p) for p in (0, 3, -1, 2, 1)]
    compute(tasks, scheduler=scheduler, num_workers=1)
    assert order.items() == [3, 2, 1, 0, -1]


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
def test_crash_retries_are_processes_own_and_it_is_said(scheduler, count):
    f = delayed(os.getpid, crash_retries=count)
    if scheduler == "processes":
        assert compute(f(), scheduler=scheduler) != (os.getpid(),)
        return
    with pytest.warns(LazyflowWarning, match=r"crash_retries= of getpid has no effect on the"):
        compute(f(), scheduler=scheduler)
