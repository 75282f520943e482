"""Values that are made again after a death: what runs again, and what must not."""

import gc
import os
import signal
import sys
import time
import warnings
from collections import Counter
from typing import Any

import pytest
from fault_tools import LIMIT, MARK, ON, marked
from waiting import until

import lazyflow
from lazyflow import Future, compute, config, delayed, persist, wait
from lazyflow.schedulers.processes.scheduler import processes
from lazyflow.testing.signals import Gate, Tally

numpy = pytest.importorskip("numpy")

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]

LENGTH = 300_000  # of arrays that stay where they are made


def kill_all() -> None:
    """Kill all workers, and return when that is known."""
    deaths = processes.info()["deaths"]
    workers = [w["pid"] for w in processes.info()["workers"]]
    # Stopped first: if the busy one dies alone, the idle other has time to make a copy.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in workers:
            os.kill(pid, number)
    assert until(lambda: processes.info()["deaths"] == deaths + len(workers))


def kept(task: Any) -> Future:
    """Return a future of an array in a worker, which was killed since: nothing else has it."""
    gate = Gate()
    (busy,) = persist(delayed(gate.wait)(LIMIT), **ON)  # workers that all are idle make copies
    (future,) = persist(delayed(lambda x: numpy.zeros(LENGTH) + x)(task), **ON)
    del task
    wait(future)
    kill_all()
    gate.open()
    wait(busy)
    return future


def small(ran: Tally) -> Any:
    return delayed(lambda: ran.add("once") and 5, crash_retries=0)()


def large(ran: Tally) -> Any:
    return delayed(lambda: ran.add("once") and numpy.full(LENGTH, 5.0), crash_retries=0)()


def returns_lazy(ran: Tally) -> Any:
    return delayed(
        lambda: ran.add("once") and delayed(numpy.full)(LENGTH, 5.0), crash_retries=0
    )()


def is_returned(ran: Tally) -> Any:
    """At any depth of what a task has returned."""

    def outer(depth: int) -> Any:
        return delayed(outer)(depth - 1) if depth else delayed(lambda x: x + 0)(small(ran))

    return delayed(outer)(2)


@pytest.mark.parametrize("made", [small, large, returns_lazy, is_returned])
def test_what_must_not_run_twice_runs_once(made: Any) -> None:
    """What was made of it is lost, and its own value was dropped before."""
    ran = Tally()
    future = kept(made(ran))
    (value,) = compute(future, timeout=LIMIT)
    assert value.shape == (LENGTH,) and set(value) == {5.0}
    assert ran.items() == ["once"]


def test_what_a_task_returned_is_computed_again() -> None:
    """With all that it needs, and that alone."""
    ran = Tally()

    def outer(depth: int) -> Any:
        ran.add(depth)
        if not depth:
            return numpy.full(LENGTH, 1.0)
        return delayed(sum)([delayed(outer)(depth - 1), delayed(outer)(depth - 1)])

    future = kept(delayed(outer)(2))
    assert compute(future, timeout=LIMIT)[0][-1] == 4.0
    assert Counter(ran.items()) == {2: 2, 1: 4, 0: 8}


def test_a_value_that_nobody_needs_is_made_no_further() -> None:
    """What a task returned ends with the future of it; the rest of its run goes on."""
    started, gate = Tally(), Gate()

    def endless() -> None:
        started.add(os.getpid())
        time.sleep(1000)

    def waits() -> int:
        gate.wait(LIMIT)
        return 5

    bad, good = persist(delayed(lambda: delayed(endless)())(), delayed(waits)(), **ON)
    assert until(lambda: len(started) == 1)
    del bad
    gc.collect()
    assert until(lambda: started.items()[0] not in marked(os.environ[MARK]))
    gate.open()
    assert compute(good, timeout=LIMIT) == (5,)


def test_a_cap_on_workers_holds_for_what_a_task_returned() -> None:
    def outer() -> Any:
        return delayed(lambda pids: len(set(pids)))([delayed(os.getpid)() for _ in range(50)])

    lazyflow.shutdown()
    with config.set(num_workers=1, scheduler="processes"):
        assert compute(delayed(outer)()) == (1,)
    assert len(processes.info()["workers"]) == 1


def test_no_advice_on_arguments_that_a_task_has_made() -> None:
    """Nobody could put them there once."""

    def outer() -> Any:
        return delayed(len)(numpy.zeros(LENGTH))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            assert compute(delayed(outer)(), **ON) == (LENGTH,)


def test_a_value_is_made_of_one_whose_recipe_is_forgotten() -> None:
    """The one had large arguments; it is shared, and held by nobody but a recipe."""
    started = Tally()

    def slowly(x: Any) -> Any:
        if started.add(1) == 1:
            time.sleep(1000)
        return x * 2

    (x,) = persist(delayed(lambda a: a + 1)(numpy.ones(LENGTH)), **ON)
    wait(x)
    assert until(lambda: processes.info()["shared_bytes"] == 8 * LENGTH)  # the arguments have gone
    (y,) = persist(delayed(slowly)(x), **ON)
    assert until(lambda: len(started) == 1)
    del x
    kill_all()
    wait(y)
    gc.collect()
    kill_all()
    assert compute(y, timeout=LIMIT)[0][-1] == 4.0


def test_a_value_that_is_shared_is_handed_over_as_it_is() -> None:
    (x,) = persist(delayed(numpy.ones)(LENGTH), **ON)
    wait(x)
    assert until(lambda: processes.info()["shared_bytes"] == 8 * LENGTH)
    ran = processes.info()["messages"]
    a, b = compute(x, x, **ON)
    assert processes.info()["shared_bytes"] == 8 * LENGTH and processes.info()["messages"] == ran
    a += 1
    assert a[-1] == 2.0 and b[-1] == compute(x, **ON)[0][-1] == 1.0
    del a, b


def test_copies_of_held_values_leave_room_for_work() -> None:
    lazyflow.shutdown()
    config.set(store_limit=10 * 8 * LENGTH)
    try:
        xs = persist([delayed(numpy.full)(LENGTH, float(i)) for i in range(40)], **ON)[0]
        wait(xs)
        # Each is a copy that is given back before the next one.
        assert [compute(x, **ON)[0][-1] for x in xs] == list(range(40))
        assert processes.info()["shared_bytes"] <= 6 * 8 * LENGTH
        kill_all()
        assert [compute(x, **ON)[0][-1] for x in xs] == list(range(40))
    finally:
        config.set(store_limit=None)
        lazyflow.shutdown()


def test_what_is_kept_below_a_memory_limit_is_not_copied_but_made_again() -> None:
    """The copy would be memory beyond the limit. The other value's shows that copies were due."""
    (x,) = persist(delayed(numpy.ones)(LENGTH), memory_limit="64 MiB", **ON)
    wait(x)
    (y,) = persist(delayed(numpy.ones)(2 * LENGTH), **ON)
    wait(y)
    assert until(lambda: processes.info()["shared_bytes"] >= 2 * 8 * LENGTH)
    assert processes.info()["shared_bytes"] == 2 * 8 * LENGTH
    kill_all()
    assert compute(x, **ON)[0][-1] == compute(y, **ON)[0][-1] == 1.0


def test_what_was_let_go_is_room_for_the_next_task() -> None:
    """Also where the worker's thread that hears of it gets no turn before the task needs it."""
    lazyflow.shutdown()
    config.set(store_limit=3 * 8 * LENGTH)
    try:
        on = {"scheduler": "processes", "num_workers": 1}
        compute(delayed(sys.setswitchinterval)(20.0), **on)
        for i in range(40):
            (x,) = compute(delayed(numpy.full)(2 * LENGTH, float(i)), **on)
            assert x[-1] == i
            del x
    finally:
        config.set(store_limit=None)
        lazyflow.shutdown()


